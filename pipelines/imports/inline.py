"""Schemas of a specification written out: references followed, circles cut, OpenAPI's dialects turned into JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable

from pipelines.imports.documents import Refused
from pipelines.imports.records import Note

MAX_NODES = 5_000
"""Schemas one tool may unfold into: references that multiply stop here."""
MAX_NESTING = 32
"""Schemas within schemas, after references are followed."""
_ONE = ("not", "contains", "propertyNames", "if", "then", "else", "additionalItems", "unevaluatedItems", "unevaluatedProperties")
_MANY = ("allOf", "oneOf", "anyOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_DROPPED = {
    "discriminator", "xml", "externalDocs", "example", "examples", "nullable", "readOnly", "writeOnly", "deprecated",
    "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "collectionFormat", "allowEmptyValue",
}  # fmt: skip
_MERGED = {"type", "properties", "required", "description", "title", "additionalProperties"}


def within(schema: dict[str, Any]) -> Inliner:
    """An inliner for a schema that refers to its own parts only, such as a tool's with `$defs`."""

    def refuse(uri: str) -> Resource[Any]:
        raise Refused("reference_refused", f"refers to {uri[:200]}; a tool's schema refers to its own parts only")

    base = "tool:schema"
    registry: Registry[Any] = Registry(retrieve=refuse)  # type: ignore[call-arg]  # attrs aliases that mypy does not see
    return Inliner(registry.with_resource(base, Specification.OPAQUE.create_resource(schema)).resolver(base_uri=base), "3.1")


class Inliner:
    """Writes out the schemas of one tool; counts what it unfolds."""

    def __init__(self, resolver: Any, version: str) -> None:
        self.resolver = resolver
        self.version = version
        self.notes: list[Note] = []
        self.nodes = 0

    def follow(self, node: Any, resolver: Any = None) -> tuple[Any, Any]:
        """What a reference stands for, references to references too, and the resolver of the file it is in.

        Raises:
            Refused: a reference that may not or cannot be followed.
        """
        resolver = resolver if resolver is not None else self.resolver
        for _ in range(16):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node, resolver
            found = self._lookup(node["$ref"], resolver)
            node, resolver = found.contents, found.resolver
        raise Refused("reference_circular", f"refers in a circle: {str(node)[:100]}")

    def inline(self, node: Any, resolver: Any = None, trail: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """A schema without references.

        Args:
            trail: The references that led here; one that occurs again is a circle, and is cut.

        Raises:
            Refused: a reference that may not or cannot be followed, or a schema that unfolds without end.
        """
        resolver = resolver if resolver is not None else self.resolver
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Refused("too_large", f"unfolds into more than {MAX_NODES:,} schemas; write a smaller one")
        if depth > MAX_NESTING:
            raise Refused("too_deep", f"is nested deeper than {MAX_NESTING} schemas; flatten it")
        if node is True:
            return {}
        if node is False:
            return {"not": {}}
        if not isinstance(node, dict):
            raise Refused("not_a_schema", f"holds {str(node)[:60]!r} where a schema belongs")
        if depth == 0 and self.version == "3.1" and _written_out(node):
            return node
        if isinstance(node.get("$ref"), str):
            return self._followed(node, resolver, trail, depth)
        schema: dict[str, Any] = {}
        for key, value in node.items():
            if key in _DROPPED or key.startswith("x-"):
                continue
            if key in _NAMED and isinstance(value, dict):
                kept = {name: inner for name, inner in value.items() if not (isinstance(inner, dict) and inner.get("readOnly") is True)}
                schema[key] = {name: self.inline(inner, resolver, trail, depth + 1) for name, inner in kept.items()}
                if len(kept) < len(value) and isinstance(node.get("required"), list):
                    schema["required"] = [name for name in node["required"] if name in kept]
            elif key in _MANY and isinstance(value, list):
                schema[key] = [self.inline(inner, resolver, trail, depth + 1) for inner in value]
            elif key in _ONE or (key == "items" and not isinstance(value, list)):
                schema[key] = value if isinstance(value, bool) else self.inline(value, resolver, trail, depth + 1)
            elif key == "items":
                schema[key] = [self.inline(inner, resolver, trail, depth + 1) for inner in value]
            elif key == "additionalProperties":
                schema[key] = value if isinstance(value, bool) else self.inline(value, resolver, trail, depth + 1)
            else:
                schema.setdefault(key, value)
        return _merged(self._dialect(schema, node))

    def _followed(self, node: dict[str, Any], resolver: Any, trail: tuple[str, ...], depth: int) -> dict[str, Any]:
        found = self._lookup(node["$ref"], resolver)
        key = f"{id(found.contents)}" if isinstance(found.contents, dict) else node["$ref"]
        if key in trail:
            name = node["$ref"].rpartition("/")[2][:60]
            self.notes.append(Note("reference", "circle", "", node["$ref"][:200], {}, "a circle is cut where it closes"))
            return {"type": "object", "description": f"A nested {name}, as above."}
        target = self.inline(found.contents, found.resolver, (*trail, key), depth)
        beside = {k: v for k, v in node.items() if k in ("description", "default", "title")}
        return {**target, **beside} if self.version == "3.1" else target

    def _lookup(self, reference: str, resolver: Any) -> Any:
        try:
            return resolver.lookup(reference)
        except Unresolvable as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, Refused):
                    raise cause from None
                cause = cause.__cause__ or cause.__context__
            raise Refused("reference_missing", f"refers to {reference[:200]!r}, which is not there") from None
        except (ValueError, TypeError, AttributeError, KeyError, OSError) as error:
            raise Refused("reference_missing", f"refers to {reference[:200]!r}: {type(error).__name__}") from None

    def _dialect(self, schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
        """3.0 and 2.0 keywords in the words of 2020-12."""
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(schema.get(key), bool):
                strict = schema.pop(key)
                if strict and bound in schema:
                    schema[key] = schema.pop(bound)
        if schema.get("type") == "file":
            schema |= {"type": "string", "format": "binary"}
        if (node.get("nullable") is True or node.get("x-nullable") is True) and "type" in schema:
            kind = schema["type"]
            schema["type"] = [*(kind if isinstance(kind, list) else [kind]), "null"]
            if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
                schema["enum"] = [*schema["enum"], None]
        return schema


def _written_out(schema: dict[str, Any]) -> bool:
    """A schema of OpenAPI 3.1 is JSON Schema already: without references and hidden properties it is taken as it is."""
    level: list[Any] = [schema]
    seen = 0
    for _ in range(2 * MAX_NESTING):
        following: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                if "$ref" in node or "$dynamicRef" in node or "readOnly" in node:
                    return False
                following.extend(value for value in node.values() if isinstance(value, dict | list))
            else:
                following.extend(value for value in node if isinstance(value, dict | list))
        if not following:
            return True
        seen += len(following)
        if seen > MAX_NODES:
            return False
        level = following
    return False


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """`allOf` of plain objects as one object; any other `allOf` stays."""
    parts = schema.get("allOf")
    if not isinstance(parts, list) or not parts:
        return schema
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    every = [*parts, rest] if rest else parts
    if len(parts) == 1 and not set(parts[0]) & (set(rest) - {"description", "title"}):
        return {**parts[0], **rest}
    if not all(set(part) <= _MERGED and part.get("type", "object") == "object" for part in every):
        return schema
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in every:
        for name, inner in part.get("properties", {}).items():
            if name in properties and properties[name] != inner:
                return schema
            properties[name] = inner
        required += [name for name in part.get("required", ()) if name not in required]
    text = rest.get("description") or next((part["description"] for part in every if part.get("description")), None)
    closed = any(part.get("additionalProperties") is False for part in every)
    return {
        "type": "object",
        **({"description": text} if text else {}),
        "properties": properties,
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if closed and len(every) == 1 else {}),
    }
