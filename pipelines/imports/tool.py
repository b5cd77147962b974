"""One imported tool: repaired where nothing has to be guessed, else set aside with a reason."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from pipelines.config import ImportedApi, identifier
from pipelines.imports.records import MAX_PARAMETERS, MAX_TEXT, Quarantined, RawTool, Repair
from pipelines.jsonio import canonical, dumps
from pipelines.llm.schemas import schema_problem
from pipelines.tools import parameters_problem
from pipelines.world import leaves

MAX_TOOL_NAME = 64  # what OpenAI-compatible endpoints take

KEYWORDS = {"type", "properties", "required", "additionalProperties", "anyOf", "oneOf", "allOf", "patternProperties", "$ref"}
EMPTY: dict[str, JsonValue] = {"type": "object", "properties": {}}
SCHEMA_KEYS = {"parameters", "inputSchema", "input_schema"}  # OpenAI, MCP, Anthropic
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,),
    "array": (list,), "object": (dict,), "null": (type(None),),
}  # fmt: skip
TYPES = {kind: kind for kind in KINDS} | {
    "float": "number", "double": "number", "int": "integer", "interger": "integer",
    "str": "string", "bool": "boolean", "dict": "object", "list": "array",
}  # fmt: skip


@dataclass
class Tool:
    """One tool while it is read: where it is, what was repaired, what is wrong."""

    file: str
    line: int
    at: str
    name: str = ""
    repairs: list[Repair] = field(default_factory=list)
    faults: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(reason, position, detail, proposal)."""
    types: Mapping[str, str] = field(default_factory=lambda: TYPES)
    """Type names that are understood; an empty meaning is any value at all."""

    @classmethod
    def of(cls, file: str, given: RawTool, types: Mapping[str, str] = TYPES) -> Tool:
        """A tool with what its format has already changed and found wrong."""
        tool = cls(file, given.line, given.at, types=types)
        body = given.raw.get("function", given.raw) if isinstance(given.raw, dict) else {}
        tool.name = _plain(str(body.get("name") or ""))[:100] if isinstance(body, dict) else ""
        for note in given.notes:
            tool.log(note.kind, note.what, note.at or given.at, note.before, note.after, note.why)
        tool.faults += given.faults
        return tool

    def log(self, kind: str, what: str, at: str, before: Any, after: Any, why: str) -> None:
        """Note a repair; long values are shown by their beginning."""
        shown = [v if len(dumps(v)) <= MAX_TEXT else dumps(v)[:MAX_TEXT] + " ..." for v in (before, after)]
        self.repairs.append(
            Repair(
                file=self.file,
                line=self.line,
                tool=self.name,
                position=at,
                kind=kind,
                what=what[:40],
                before=shown[0],
                after=shown[1],
                why=why,
            )
        )

    def fault(self, reason: str, at: str, detail: str, proposal: str | None = None) -> None:
        """Note what keeps the tool from being accepted."""
        self.faults.append((reason, at, detail, proposal))

    def quarantined(self) -> Quarantined:
        """The record of a tool with faults."""
        reason, at, _, proposal = self.faults[0]
        detail = "; ".join(detail for _, _, detail, _ in self.faults)[:MAX_TEXT]
        return Quarantined(file=self.file, line=self.line, tool=self.name, position=at, reason=reason, detail=detail, proposal=proposal)

    def renamed(self, api: ImportedApi, taken: set[str]) -> ImportedApi:
        """The API under a name whose identifier, which becomes its capability, no other has."""
        name, count = api.name, 1
        while identifier(name) in taken:
            count += 1
            name = f"{api.name[:50]}_{count}"
        taken.add(identifier(name))
        if count > 1:
            self.log("name", "taken", self.at, api.name, name, "another tool of the list has this name")
        return api.model_copy(update={"name": name})

    def read(self, raw: Any) -> ImportedApi | None:
        """The tool as an API, or None when it has faults."""
        nested = isinstance(raw, dict) and isinstance(raw.get("function"), dict)
        body, at = (raw["function"], f"{self.at}/function") if nested else (raw, self.at)
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            self.name = f"tool at {self.at or 'the line'}"
            reason = "no_name" if isinstance(body, dict) else "not_a_tool"
            self.fault(reason, at, f"holds {dumps(body)[:80]}; write an object with name, description and parameters")
            return None
        name = self._name(body["name"], at)
        if not nested and body.get("type") not in (None, "function") and not SCHEMA_KEYS & set(body):
            self.fault("not_a_function", f"{at}/type", f"a tool of type {dumps(body['type'])[:80]} without parameters is no function")
        text = body.get("description")
        text = self._text(text, f"{at}/description") if isinstance(text, str) else ""
        if not text.strip():
            spoken = " ".join(words(name)) or name
            self.fault("no_description", f"{at}/description", f"{self.name} has no description", f"{spoken.capitalize()}.")
        parameters: Any = None
        for key, value in body.items():
            if key in SCHEMA_KEYS:
                parameters = value
                if key != "parameters":
                    self.log("key", key, at, key, "parameters", "OpenAI tools call it parameters")
            elif isinstance(value, dict) and "properties" in value and not SCHEMA_KEYS & set(body):
                self.fault(
                    "no_parameters",
                    f"{at}/{key}",
                    f"{key} holds properties, and there are no parameters",
                    f"rename {key[:40]} to parameters",
                )
            elif key not in ("name", "description", "type"):
                self.log("key", "dropped", f"{at}/{key}", value, None, "not part of an imported API")
        parameters = self._parameters(parameters, f"{at}/parameters")
        return None if self.faults else ImportedApi(name=name, description=text, parameters=parameters)

    def _name(self, written: str, at: str) -> str:
        self.name = _plain(written)[:100] or f"tool at {self.at or 'the line'}"
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", written.strip())[:MAX_TOOL_NAME]
        if not re.search("[A-Za-z]", name):
            self.fault("no_name", f"{at}/name", f"the name {written[:80]!r} has no letter a-z; write an English identifier")
        elif not re.match("[A-Za-z_]", name):
            name = f"_{name}"[:MAX_TOOL_NAME]
        if name != written and not self.faults:
            why = f"a tool name is an identifier of at most {MAX_TOOL_NAME} characters"
            self.log("name", "identifier", f"{at}/name", written, name, why)
        return name

    def _text(self, written: str, at: str) -> str:
        text = _plain(written)
        if text != written:
            self.log("description", "control", at, written, text, "control characters are removed")
        if len(text) > MAX_TEXT:
            self.log("description", "length", at, len(text), MAX_TEXT, f"a description has at most {MAX_TEXT:,} characters")
        return text[:MAX_TEXT]

    def _parameters(self, written: Any, at: str) -> dict[str, Any]:
        if not written and written is not False:
            self.log("parameters", "empty", at, written, EMPTY, "a tool without parameters takes an empty object")
            return {"type": "object", "properties": {}}
        if isinstance(written, dict) and not KEYWORDS & set(written):
            self.fault("no_properties", at, f"parameters hold {', '.join(written)[:100]}", "put them under `properties`")
            return {}
        schema = self._schema(written, at)
        if "type" not in schema and not self.faults:
            self.log("object", "type", at, None, "object", "arguments are an object")
            schema = {"type": "object", **schema}
        if self.faults:
            return schema
        if "properties" not in schema:
            self.log("parameters", "properties", at, None, {}, "arguments say what they have, even none")
            schema["properties"] = {}
        problem = schema_problem(schema)
        if problem:
            self.fault("schema_refused", at, f"parameters are no JSON Schema: {problem}")
        elif len(leaves(schema)) > MAX_PARAMETERS:
            self.fault("too_many_parameters", at, f"{len(leaves(schema))} parameters, at most {MAX_PARAMETERS}")
        elif problem := parameters_problem(schema):
            self.fault("bad_parameters", at, problem)
        return schema

    def _schema(self, written: Any, at: str, scope: frozenset[str] = frozenset()) -> dict[str, Any]:
        """A repaired copy of a schema. `scope` holds the properties of the schema it refines (`anyOf` and the like)."""
        if isinstance(written, str) and self.types.get(written.casefold()):
            meant = {"type": self.types[written.casefold()]}
            self.log("schema", "shorthand", at, written, meant, "a schema is an object")
            return meant
        if not isinstance(written, dict):
            self.fault("not_a_schema", at, f"{at} holds {dumps(written)[:80]}, a schema is an object")
            return {}
        schema: dict[str, Any] = {}
        for key, value in written.items():
            if value is None and key not in ("default", "const"):
                self.log("null", key, f"{at}/{key}", None, None, "a keyword without a value is left out")
            else:
                schema[key] = self._text(value, f"{at}/{key}") if key == "description" and isinstance(value, str) else value
        for key in ("$ref", "$dynamicRef"):
            if key in schema:
                self.fault("reference", f"{at}/{key}", f"{at} refers to {dumps(schema[key])[:80]}", "write the schema out")
        if "type" in schema:
            one = not isinstance(schema["type"], list)
            types = [self._type(t, f"{at}/type") for t in ([schema["type"]] if one else schema["type"])]
            schema["type"] = types[0] if one else types if self.faults else list(dict.fromkeys(types))
            if "" in types:
                del schema["type"]
        elif "properties" in schema:
            self.log("object", "type", at, None, "object", "a schema with properties is an object")
            schema = {"type": "object", **schema}
        self._properties(schema, at, scope)
        self._items(schema, at)
        names = scope | (set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set())
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(key), list):
                schema[key] = [self._schema(value, f"{at}/{key}/{i}", names) for i, value in enumerate(schema[key])]
        for key in ("not", "if", "then", "else", "additionalProperties", "contains", "propertyNames"):
            if isinstance(schema.get(key), dict):
                schema[key] = self._schema(schema[key], f"{at}/{key}", names if key in ("not", "if", "then", "else") else frozenset())
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict):
            schema["patternProperties"] = {key: self._schema(value, f"{at}/patternProperties/{key}") for key, value in patterns.items()}
        for pattern in [schema.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]:
            try:
                re.compile(pattern if isinstance(pattern, str) else "")
            except (re.error, RecursionError, OverflowError) as error:
                self.fault("bad_pattern", at, f"{dumps(pattern)[:80]} is no Python regular expression: {error}")
        self._values(schema, at)
        return schema

    def _type(self, written: Any, at: str) -> Any:
        known = self.types.get(written.casefold()) if isinstance(written, str) else None
        if known is None:
            near = difflib.get_close_matches(str(written)[:40].casefold(), self.types, n=1, cutoff=0.75)
            self.fault("unknown_type", at, f"unknown type {dumps(written)[:80]}", self.types[near[0]] if near else None)
            return written
        if known != written:
            why = f"JSON Schema calls it {known}" if known else "JSON Schema leaves the type out where anything goes"
            self.log("type", written, at, written, known or None, why)
        return known

    def _properties(self, schema: dict[str, Any], at: str, scope: frozenset[str] | set[str]) -> None:
        """Repair properties, and `required` wherever it was put."""
        moved: list[str] = []
        written = schema.get("properties", {})
        if written == []:
            self.log("parameters", "empty", f"{at}/properties", [], {}, "properties are an object")
            written = {}
        elif not isinstance(written, dict):
            self.fault("not_a_schema", f"{at}/properties", f"{at}/properties holds {dumps(written)[:80]}", "write an object")
            return
        properties: dict[str, Any] = {}
        for name, value in written.items():
            place = f"{at}/properties/{name.replace('~', '~0').replace('/', '~1')}"
            wanted = value if name == "required" and isinstance(value, list) else None
            flag = value.get("required") if isinstance(value, dict) else None
            if isinstance(flag, bool) or str(flag).casefold() in ("true", "false"):
                wanted = [name] if str(flag).casefold() == "true" else []
            elif isinstance(flag, list) and flag and "properties" not in value and all(isinstance(f, str) and f in written for f in flag):
                wanted = flag
            if wanted is not None:
                self.log("required", "in_property", place, flag if flag is not None else value, None, "required belongs beside properties")
                moved += wanted
                if flag is None:
                    continue
                value = {key: inner for key, inner in value.items() if key != "required"}
            properties[name] = self._schema(value, place)
        if "properties" in schema:
            schema["properties"] = properties
        if "required" not in schema and not moved:
            return
        given = names = schema.get("required", [])
        if isinstance(given, str):
            names = [given] if given in properties else [part.strip() for part in given.split(",")]
        elif isinstance(given, dict) and all(isinstance(flag, bool) for flag in given.values()):
            names = [name for name, flag in given.items() if flag]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names + moved):
            self.fault("bad_required", f"{at}/required", f"required holds {dumps(given)[:80]}", "write a list of property names")
            return
        schema["required"] = list(dict.fromkeys(names + moved))
        if given is not names:
            self.log("required", "not_a_list", f"{at}/required", given, schema["required"], "required is a list of names")
        elif len(set(names)) < len(names):
            self.log("required", "repeated", f"{at}/required", given, schema["required"], "each name is listed once")
        for name in schema["required"]:
            if name not in properties and name not in scope:
                near = _closest(name, [p for p in properties if p not in schema["required"]] or list(properties))
                self.fault("required_missing", f"{at}/required", f"required names {name!r}, which is no property", near)

    def _items(self, schema: dict[str, Any], at: str) -> None:
        items = schema.get("items")
        if isinstance(items, list):
            after = "prefixItems" if len(items) > 1 else "items"
            del schema["items"]
            self.log("items", "list", f"{at}/items", items, after, "2020-12 writes one schema, or prefixItems")
            if len(items) > 1:
                schema["prefixItems"] = [self._schema(item, f"{at}/items/{i}") for i, item in enumerate(items)]
            elif items:
                schema["items"] = self._schema(items[0], f"{at}/items/0")
        elif items is not None and not isinstance(items, bool):
            schema["items"] = self._schema(items, f"{at}/items")
        types = schema.get("type")
        if (types == "array" or (isinstance(types, list) and "array" in types)) and not {"items", "prefixItems"} & set(schema):
            self.log("items", "missing", at, None, {}, "an array says what it holds; {} is anything")
            schema["items"] = {}

    def _values(self, schema: dict[str, Any], at: str) -> None:
        """Make enum and default agree with the type, where that loses nothing."""
        if self.faults:
            return
        types = schema.get("type", list(KINDS))
        types = [types] if isinstance(types, str) else types
        enum = schema.get("enum")
        if isinstance(enum, list):
            fitted = list({canonical(v): v for v in (_fit(value, types) for value in enum)}.values())
            if not all(_fits(value, types) for value in fitted):
                self.fault("bad_enum", f"{at}/enum", f"enum {dumps(enum)[:80]} contradicts type {'/'.join(types)}")
            if canonical(fitted) != canonical(enum) or not enum:
                what = "empty" if not enum else "repeated" if len(fitted) < len(enum) else "type"
                self.log("enum", what, f"{at}/enum", enum, fitted or None, "values differ, and have the type of the parameter")
                schema["enum"] = fitted
            if not fitted:
                del schema["enum"]
        if "default" in schema:
            given = schema["default"]
            default = _fit(given, types)
            if not _fits(default, types) or ("enum" in schema and isinstance(enum, list) and default not in schema["enum"]):
                self.log("default", "dropped", f"{at}/default", given, None, "the schema does not allow this default")
                del schema["default"]
            elif canonical(default) != canonical(given):
                self.log("default", "type", f"{at}/default", given, default, "the default has the type of the parameter")
                schema["default"] = default


def _fits(value: Any, types: Iterable[str]) -> bool:
    whole = isinstance(value, float) and value.is_integer()
    return any(
        (isinstance(value, KINDS[t]) and (t == "boolean" or not isinstance(value, bool))) or (t == "integer" and whole) for t in types
    )


def _fit(value: Any, types: Sequence[str]) -> Any:
    """The same value in an allowed type when nothing is lost, else the value itself."""
    if _fits(value, types) or isinstance(value, list | dict):
        return value
    if not isinstance(value, str):
        return dumps(value) if "string" in types and value is not None else value
    try:
        read = json.loads(value.strip().casefold())
        dumps(read)  # 1e999 reads as infinity, which no JSON holds
    except (ValueError, RecursionError):
        return value
    return read if read is not None and not isinstance(read, str | list | dict) and _fits(read, types) else value


def _plain(text: str) -> str:
    """Text without control, format and unassigned characters; line breaks, tabs and joiners stay."""
    if text.isprintable():
        return text
    kept = "\n\t\u200c\u200d"
    return "".join(c for c in text.replace("\r\n", "\n") if c in kept or not unicodedata.category(c).startswith("C"))


def _closest(name: str, others: Sequence[str]) -> str | None:
    """The likeliest other name: by spelling, else one that ends alike (`game_id`, `mod_id`)."""
    others = others[:200]
    near = difflib.get_close_matches(name.casefold(), [other.casefold() for other in others], n=1, cutoff=0.5)
    found = [o for o in others if near and o.casefold() == near[0]] or [o for o in others if words(o)[-1:] == words(name)[-1:]]
    return found[0] if found else None


def words(name: str) -> list[str]:
    """`getCityForecast` -> get, city, forecast."""
    return [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
