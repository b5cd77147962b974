"""OpenAPI 3.0, 3.1 and Swagger 2.0: one API per operation, all its parameters in one JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.imports.documents import Documents, Refused, fetch, parse_document, read_document
from pipelines.imports.inline import Inliner
from pipelines.imports.records import Note, RawTool

READS = ("get", "head", "options", "trace")
METHODS = (*READS[:3], "put", "post", "patch", "delete", "trace")
_NO_PARAMETERS = {"accept", "content-type", "authorization"}
"""Headers that OpenAPI itself tells readers to ignore."""
_SECRET = re.compile(r"(?i)^(?:x-)?(?:api[-_]?key|access[-_]?token|auth[-_]?token|authorization|cookie|client[-_]?secret)$")
_PARAMETER = re.compile(r"^[A-Za-z_][A-Za-z0-9_\-\[\]]{0,127}$")
FINDINGS_BELOW = 300_000
"""Bytes up to which the public validator also looks at the document; it takes seconds per megabyte."""


def read_openapi(source: str, allow_remote: bool = False) -> tuple[str, str, list[RawTool], list[str]]:
    """Title, description, one raw tool per operation, and what a public validator has against the document.

    Args:
        source: Path of a JSON or YAML file; with `allow_remote` also a URL.
        allow_remote: Fetch documents by http.

    Raises:
        ConfigError: when the document is none, or holds no operation.
    """
    if source.startswith(("http://", "https://")):
        if not allow_remote:
            raise ConfigError(f"{source[:200]}: nothing is fetched without --allow-remote; add it, or give the path of a file")
        path = Path("remote") / (source.rstrip("/").rpartition("/")[2] or "openapi.json")
        try:
            document = parse_document(fetch(source), source[:200])
        except Refused as error:
            raise ConfigError(f"{source[:200]}: {error.detail}; check the address") from None
    else:
        path = Path(source)
        document = read_document(path)
    version = _version(document, source)
    documents = Documents(path, document, allow_remote)
    reader = _Reader(path.name, version, documents, document)
    tools = list(reader.operations())
    if not tools:
        raise ConfigError(f"{source}: holds no operation under `paths`; write one, e.g. `/pets: {{get: {{...}}}}`")
    info = document.get("info") if isinstance(document.get("info"), dict) else {}
    title, text = str(info.get("title") or path.stem), str(info.get("description") or info.get("summary") or "")
    return title, text, tools, _findings(document, version, path)


def _version(document: Any, source: str) -> str:
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: holds a {type(document).__name__}, an OpenAPI document is a mapping with `openapi` and `paths`")
    found = str(document.get("openapi") or document.get("swagger") or "")
    for known in ("3.0", "3.1", "2.0"):
        if found == known or found.startswith(f"{known}."):
            return known
    raise ConfigError(
        f"{source}: openapi is {found[:20]!r}; 3.0, 3.1 and swagger 2.0 are read"
        if found
        else f"{source}: has no `openapi` or `swagger` version; write an OpenAPI document, or choose another --format"
    )


def _findings(document: dict[str, Any], version: str, path: Path) -> list[str]:
    """What the public validator says, at most ten lines; none of it keeps a tool out by itself."""
    from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

    if not path.is_file() or path.stat().st_size > FINDINGS_BELOW:
        return []
    kind: Any = {"2.0": OpenAPIV2SpecValidator, "3.0": OpenAPIV30SpecValidator, "3.1": OpenAPIV31SpecValidator}[version]
    found: list[str] = []
    try:
        if any(not ref.startswith("#") for ref in _references(document)):
            return ["refers to other files: the public validator was not asked"]
        for error in kind(document).iter_errors():
            found.append(" ".join(f"{'/'.join(map(str, error.absolute_path))}: {error.message}".split())[:200])
            if len(found) == 10:
                break
    except Exception as error:  # the validator raises whatever the document makes it trip over
        found.append(f"the public validator gave up: {type(error).__name__}")
    return found


def _references(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if isinstance(one.get("$ref"), str):
                yield one["$ref"]
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


class _Reader:
    """One document, operation by operation."""

    def __init__(self, file: str, version: str, documents: Documents, document: dict[str, Any]) -> None:
        self.file = file
        self.version = version
        self.documents = documents
        self.document = document
        self.secrets = self._secrets()

    def _secrets(self) -> set[tuple[str, str]]:
        """(where, name) of the parameters that security schemes stand for."""
        components = self.document.get("components")
        holder = components.get("securitySchemes") if isinstance(components, dict) else self.document.get("securityDefinitions")
        schemes = holder.values() if isinstance(holder, dict) else ()
        return {(str(s.get("in")), str(s.get("name"))) for s in schemes if isinstance(s, dict) and s.get("type") == "apiKey"}

    def operations(self) -> Iterator[RawTool]:
        """One raw tool per operation, in file order."""
        paths = self.document.get("paths")
        if not isinstance(paths, dict):
            return
        for path, item in paths.items():
            at = f"/paths/{path.replace('~', '~0').replace('/', '~1')}"
            inliner = Inliner(self.documents.resolver, self.version)
            try:
                item, resolver = inliner.follow(item)
            except Refused as error:
                yield RawTool(at, {"name": _derived("get", path)}, faults=[(error.reason, at, error.detail, None)])
                continue
            if not isinstance(item, dict):
                continue
            for method in METHODS:
                if isinstance(item.get(method), dict):
                    yield self._operation(path, method, item, item[method], f"{at}/{method}", resolver)

    def _operation(self, path: str, method: str, item: Mapping[str, Any], operation: dict[str, Any], at: str, resolver: Any) -> RawTool:
        tool = RawTool(at, {})
        name = operation.get("operationId")
        if not isinstance(name, str) or not re.search("[A-Za-z]", name):
            derived = _derived(method, path)
            why = "an operation without an id is named by its path"
            tool.notes.append(Note("name", "missing", f"{at}/operationId", name, derived, why))
            name = derived
        tool.raw = {"name": name, "description": self._description(operation, method, path, name, tool)}
        tool.extra = {"verb": "read" if method in READS else "write", "group": _group(operation), "returns": ""}
        inliner = Inliner(resolver, self.version)
        try:
            tool.raw["parameters"] = self._parameters(item, operation, at, inliner, tool)
            tool.extra["returns"] = self._returns(operation, inliner)
        except Refused as error:
            tool.faults.append((error.reason, at, error.detail, None))
            tool.raw["parameters"] = {"type": "object", "properties": {}}
        tool.notes += inliner.notes
        return tool

    def _description(self, operation: dict[str, Any], method: str, path: str, name: str, tool: RawTool) -> str:
        summary, text = (str(operation.get(key) or "").strip() for key in ("summary", "description"))
        if summary and text and not text.startswith(summary.rstrip(".")):
            return f"{summary.rstrip('.')}. {text}"
        if text or summary:
            return text or summary
        words = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower() or method
        made = f"{words.capitalize()} ({method.upper()} {path[:200]})."
        tool.notes.append(Note("description", "missing", f"{tool.at}/description", None, made, "made from the method and the path"))
        return made

    def _returns(self, operation: dict[str, Any], inliner: Inliner) -> str:
        responses = operation.get("responses")
        for code, response in responses.items() if isinstance(responses, dict) else ():
            if code.startswith("2") or code == "default":
                response, _ = inliner.follow(response)
                return str(response.get("description") or "")[:500] if isinstance(response, dict) else ""
        return ""

    def _parameters(
        self, item: Mapping[str, Any], operation: Mapping[str, Any], at: str, inliner: Inliner, tool: RawTool
    ) -> dict[str, Any]:
        """Path, query, header and form parameters and the body as one object schema."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for holder in (item, operation):
            given = holder.get("parameters")
            for written in given if isinstance(given, list) else ():
                parameter, resolver = inliner.follow(written)
                if isinstance(parameter, dict):
                    found[str(parameter.get("in")), str(parameter.get("name"))] = {**parameter, "resolver": resolver}
        properties: dict[str, Any] = {}
        required: list[str] = []
        body: dict[str, Any] | None = None
        must = False
        for (place, name), parameter in found.items():
            if place == "body":
                body, must = inliner.inline(parameter.get("schema") or {}, parameter["resolver"]), parameter.get("required") is True
            elif self._is_secret(place, name):
                tool.notes.append(Note("auth", place, f"{at}/parameters", name, None, "credentials are no arguments of a tool"))
            else:
                key = self._key(name, place, properties, at, tool)
                properties[key] = self._schema(parameter, inliner)
                if key != name:
                    properties[key].setdefault("description", name)
                if parameter.get("required") is True or place == "path":
                    required.append(key)
        if isinstance(operation.get("requestBody"), dict):
            body, must = self._body(operation["requestBody"], inliner)
        return _joined(properties, required, body, must, at, tool)

    def _is_secret(self, place: str, name: str) -> bool:
        ignored = place == "header" and name.casefold() in _NO_PARAMETERS
        return ignored or place == "cookie" or (place, name) in self.secrets or (place in ("header", "query") and bool(_SECRET.match(name)))

    def _key(self, name: str, place: str, taken: Mapping[str, Any], at: str, tool: RawTool) -> str:
        key = name
        if not _PARAMETER.match(key):
            key = re.sub(r"[^A-Za-z0-9_\-\[\]]+", "_", name).strip("_")[:100]
            key = key if re.match("[A-Za-z]", key) else f"p_{key}" if key else f"parameter_{len(taken) + 1}"
        if key in taken:
            key = f"{key}_{place}"
        while key in taken:
            key += "_2"
        if key != name:
            tool.notes.append(Note("parameters", "renamed", f"{at}/parameters", name, key, "a parameter is an identifier, once per API"))
        return key

    def _schema(self, parameter: dict[str, Any], inliner: Inliner) -> dict[str, Any]:
        """The schema of one parameter, with the parameter's description."""
        content = parameter.get("content")
        if isinstance(parameter.get("schema"), dict | bool):
            schema = inliner.inline(parameter["schema"], parameter["resolver"])
        elif isinstance(content, dict) and content:
            media = next(iter(content.values()))
            schema = inliner.inline(media.get("schema") or {}, parameter["resolver"]) if isinstance(media, dict) else {}
        else:  # Swagger 2.0 writes the schema into the parameter
            left = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "resolver", "schema", "content")
            schema = inliner.inline({key: value for key, value in parameter.items() if key not in left}, parameter["resolver"])
        text = parameter.get("description")
        return {**schema, "description": text} if isinstance(text, str) and text.strip() else schema

    def _body(self, written: dict[str, Any], inliner: Inliner) -> tuple[dict[str, Any] | None, bool]:
        body, resolver = inliner.follow(written)
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, dict) or not content:
            return None, False
        order = sorted(content, key=lambda media: (not media.startswith("application/json"), "json" not in media, "form" not in media))
        media, resolver = inliner.follow(content[order[0]], resolver)
        schema = media.get("schema") if isinstance(media, dict) else None
        inlined = inliner.inline(schema if schema is not None else {}, resolver)
        text = body.get("description")
        if isinstance(text, str) and text.strip() and "description" not in inlined and "properties" not in inlined:
            inlined = {**inlined, "description": text}
        return inlined, body.get("required") is True


def _joined(
    properties: dict[str, Any], required: list[str], body: dict[str, Any] | None, must: bool, at: str, tool: RawTool
) -> dict[str, Any]:
    """One object schema; a body that is an object gives its properties, any other is the parameter `body`."""
    if body is None:
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}
    plain = body.get("type") == "object" and isinstance(body.get("properties"), dict)
    inner: dict[str, Any] = body["properties"] if plain else {}
    fits = plain and all(_PARAMETER.match(name) for name in inner) and not set(inner) & set(properties)
    if fits and not properties:
        if must or "required" not in body:
            return body
        tool.notes.append(Note("required", "optional_body", f"{at}/requestBody", body["required"], None, "the body itself is optional"))
        return {key: value for key, value in body.items() if key != "required"}
    if fits:
        needed = [*required, *(body.get("required", ()) if must else ())]
        kept: dict[str, Any] = {key: body[key] for key in ("additionalProperties", "$defs") if key in body}
        joined: dict[str, Any] = {"type": "object", "properties": {**properties, **inner}, **kept}
    else:
        key = "body" if "body" not in properties else "request_body"
        needed = [*required, *([key] if must else ())]
        joined = {"type": "object", "properties": {**properties, key: body}}
    return {**joined, **({"required": needed} if needed else {})}


def _derived(method: str, path: str) -> str:
    """`GET /users/{id}/posts` -> `get_users_by_id_posts`."""
    words = [method]
    for part in path.split("/"):
        name = re.sub(r"[^A-Za-z0-9]+", "_", part).strip("_")
        if name:
            words.append(f"by_{name}" if part.startswith("{") else name)
    return "_".join(words)[:64] if len(words) > 1 else f"{method}_root"


def _group(operation: Mapping[str, Any]) -> str:
    tags = operation.get("tags")
    return str(tags[0])[:60] if isinstance(tags, list) and tags else ""
