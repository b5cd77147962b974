"""Real tools in: lists of OpenAI function tools become a scenario with one platform.

What can be repaired without guessing is repaired and logged; the rest is quarantined with a reason. The
input is data: it is parsed, bounded and copied, never run and never changed.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue

from pipelines.config import MAX_FILE_BYTES, ImportedApi, ImportedPlatform, ScenarioSpec, Strict, clean_name, identifier
from pipelines.errors import ConfigError
from pipelines.jsonio import canonical, dumps, write_lines, write_text
from pipelines.llm.schemas import schema_problem
from pipelines.tools import parameters_problem
from pipelines.world import leaves

MAX_BYTES = 64_000_000
MAX_DEPTH = 64
MAX_TOOLS = 64
MAX_TEXT = 2_000
MAX_PARAMETERS = 100
MAX_TOOL_NAME = 64  # what OpenAI-compatible endpoints take

KEYWORDS = {"type", "properties", "required", "additionalProperties", "anyOf", "oneOf", "allOf", "patternProperties", "$ref"}
EMPTY: dict[str, JsonValue] = {"type": "object", "properties": {}}
SCHEMA_KEYS = {"parameters", "inputSchema", "input_schema"}  # OpenAI, MCP, Anthropic
WRAPPERS = ("tools", "functions")
WRITE = 'write one list of tools a line, e.g. [{"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}]'
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,),
    "array": (list,), "object": (dict,), "null": (type(None),),
}  # fmt: skip
TYPES = {kind: kind for kind in KINDS} | {
    "float": "number", "double": "number", "int": "integer", "interger": "integer",
    "str": "string", "bool": "boolean", "dict": "object", "list": "array",
}  # fmt: skip
NOT_A_SUBJECT = re.compile(  # verbs and fillers of API names
    "a|add|all|and|analyze|by|calculate|cancel|change|check|compare|convert|create|data|delete|detail(s|ed)?|edit|fetch|find|for|from|"
    "generate|get|info|information|latest|list|load|make|modify|new|of|place|post|query|random|read|realtime|remove|retrieve|save|search|"
    "send|set|shorten|show|start|stop|submit|the|to|track|update|upload|validate|view|with|write"
)


class Repair(Strict):
    """One change made to one tool; `before` is what the file says."""

    file: str
    line: int
    tool: str
    position: str
    """JSON pointer within the list, e.g. `/0/function/parameters/properties/price/type`."""

    kind: str
    """type, required, object, parameters, items, enum, default, null, schema, name, description, key or duplicate."""

    what: str
    """The case within the kind: the type name, else a word."""

    before: JsonValue
    after: JsonValue
    why: str

    def __str__(self) -> str:
        """One line for people."""
        change = f"{dumps(self.before)[:80]} -> {dumps(self.after)[:80]}"
        return f"{self.file}, line {self.line}: {self.tool}: {self.position or '/'}: {self.kind}: {change}: {self.why}"


class Quarantined(Strict):
    """One tool that was not accepted: the first thing wrong with it, and all of them in `detail`."""

    file: str
    line: int
    tool: str
    position: str
    reason: str
    detail: str
    proposal: str | None
    """What to write instead; null when nothing comes close."""

    def __str__(self) -> str:
        """One line for people."""
        hint = f"; proposed: {self.proposal}" if self.proposal else ""
        return f"{self.file}, line {self.line}: {self.tool}: {self.position or '/'}: not accepted: {self.reason}: {self.detail}{hint}"


@dataclass(frozen=True)
class Collection:
    """What a file holds, however many tools: accepted ones, both logs and the counts."""

    apis: list[ImportedApi]
    repairs: list[Repair]
    quarantine: list[Quarantined]
    counts: dict[str, Any]
    """lists, tools, accepted, quarantined, distinct (structures as written), required_missing, repairs by kind and case."""


@dataclass(frozen=True)
class ImportResult(Collection):
    """A scenario around the accepted tools, and what was done to get there."""

    scenario: ScenarioSpec

    @property
    def log(self) -> list[str]:
        """Both logs as lines for people: repairs, then what was not accepted."""
        return [str(entry) for entry in (*self.repairs, *self.quarantine)]


def import_tools(source: Path, line: int | None, name: str | None) -> ImportResult:
    """The tools of a file, or of one of its lines (from 1), as the platform of a new scenario.

    Raises:
        ConfigError: when the file, the line or the name cannot be used, no tool is accepted, or more than 64 are.
    """
    found = collect_tools(source, line)
    where = str(source) if line is None else f"{source}, line {line}"
    if not found.apis:
        reasons = "; ".join(f"{q.tool}: {q.detail}" for q in found.quarantine[:3])
        raise ConfigError(f"{where}: none of {found.counts['tools']} tools can be used ({reasons[:600]}); correct them, or {WRITE}")
    if len(found.apis) > MAX_TOOLS:
        hint = (
            "choose one list with --line N" if found.counts["lists"] > 1 else "split the list into one list a line and choose with --line N"
        )
        raise ConfigError(f"{where}: holds {len(found.apis)} different tools, a platform takes at most {MAX_TOOLS}; {hint}")
    try:
        chosen = clean_name(name) if name is not None else identifier(source.stem) + (f"_{line}" if line is not None else "")
    except ValueError as error:
        raise ConfigError(f"--name: {error}") from None
    brand = f"{_subject(found.apis)} Hub"
    doing = _doing(found.apis)
    scenario = ScenarioSpec(
        name=chosen,
        description=f"What people do with the tools of {brand}: {doing}.",
        platform=ImportedPlatform(name=brand, description=f"{brand} offers {len(found.apis)} tools: {doing}.", apis=found.apis),
    )
    return ImportResult(found.apis, found.repairs, found.quarantine, found.counts, scenario)


def write_scenario(result: ImportResult, out: Path) -> Path:
    """Write the scenario, and beside it `<name>.import.jsonl` with the repairs and the quarantine.

    Args:
        result: From `import_tools`.
        out: A `.yaml` file, else the folder that gets `<scenario id>.yaml`.

    Raises:
        ConfigError: when `out` is no .yaml file or folder, or the scenario would be too large to be read back.
        Unavailable: when the folder cannot be written.
    """
    if out.suffix and out.suffix not in (".yaml", ".yml") and not out.is_dir():
        raise ConfigError(f"{out}: a scenario is a .yaml file; write a name such as {result.scenario.id}.yaml, or a folder")
    path = out if out.suffix in (".yaml", ".yml") else out / f"{result.scenario.id}.yaml"
    spec = result.scenario.model_dump(mode="json", include={"name", "description", "platform"})
    folded = re.search("[\x85\u2028\u2029]", dumps(spec))  # PyYAML folds these line breaks unless it has to escape them
    text = yaml.safe_dump(spec, allow_unicode=folded is None, sort_keys=False, width=120)
    if len(text.encode()) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: the scenario would have over {MAX_FILE_BYTES:,} bytes; import fewer tools with --line N")
    rows = [{"log": "repair", **r.model_dump()} for r in result.repairs] + [
        {"log": "quarantine", **q.model_dump()} for q in result.quarantine
    ]
    write_lines(path.with_suffix(".import.jsonl"), rows)
    write_text(path, [text])
    return path


def collect_tools(source: Path, line: int | None = None) -> Collection:
    """Read, repair, sort out and de-duplicate the tools of a file or of one line; any number of them.

    Raises:
        ConfigError: naming file, line, what was found and what to write.
    """
    apis: dict[str, ImportedApi] = {}  # canonical structure -> API
    taken: set[str] = set()
    repairs: list[Repair] = []
    quarantine: list[Quarantined] = []
    written: list[str] = []
    missing = 0
    lists = _tool_lists(source, line)
    for number, raw_tools in lists:
        for at, raw in raw_tools:
            tool = _Tool(source.name, number, at)
            written.append(canonical(raw.get("function", raw) if isinstance(raw, dict) else raw))
            api = tool.read(raw)
            missing += sum(fault[0] == "required_missing" for fault in tool.faults)
            if api is None:
                quarantine.append(tool.quarantined())
            elif (key := canonical(api.model_dump())) in apis:
                tool.log("duplicate", "tool", at, api.name, None, "the list has the same tool already; it is kept once")
            else:
                apis[key] = tool.renamed(api, taken)
            repairs += tool.repairs
    if not written:
        raise ConfigError(f"{source}: holds no tools, only empty lists; {WRITE}")
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, what), count in sorted(Counter((r.kind, r.what) for r in repairs).items()):
        by_kind.setdefault(kind, {})[what] = count
    counts: dict[str, Any] = {"lists": len(lists), "tools": len(written), "accepted": len(apis), "quarantined": len(quarantine)}
    counts |= {"distinct": len(set(written)), "required_missing": missing, "repairs": by_kind}
    return Collection(list(apis.values()), repairs, quarantine, counts)


def _tool_lists(source: Path, line: int | None) -> list[tuple[int, list[tuple[str, Any]]]]:
    """(line, [(JSON pointer, tool)]) of every list: a list a line, a tool a line, or one JSON document."""
    text = _read(source)
    total = text.count("\n") + (not text.endswith("\n"))
    if line is not None and not 1 <= line <= total:
        raise ConfigError(f"{source}: --line is {line}, the file has {total} lines; write a number from 1 to {total}")
    rows = [(number, row) for number, row in enumerate(text.split("\n"), start=1) if row.strip()]
    if len(rows) > 1 and (_opens(text) or not any(_opens(row) for _, row in rows)):
        if line is not None and _opens(text):
            raise ConfigError(f"{source}: is one JSON document, not a list a line; leave --line {line} out")
        rows = [(rows[0][0], text)] if line is None else rows
    if line is not None:
        rows = [(number, row) for number, row in rows if number == line]
        if not rows:
            raise ConfigError(f"{source}, line {line}: is blank; choose a line that holds a list of tools")
    return [(number, _tools_in(_parse(source, number, row), f"{source}, line {number}")) for number, row in rows]


def _read(source: Path) -> str:
    try:
        if not source.is_file():
            raise ConfigError(f"{str(source)[:200]!r}: no file there; write the path of a JSON or JSONL file of tools")
        with source.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{source}: cannot read: {error.strerror}; write the path of a file that can be read") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_BYTES:,} bytes; split the file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}, line {line}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if not text.strip():
        raise ConfigError(f"{source}: is empty; {WRITE}")
    if text.lstrip().startswith("<"):
        line = len(text) - len(text.lstrip())
        start = text.lstrip()[:30].split("\n")[0]
        raise ConfigError(f"{source}, line {text.count(chr(10), 0, line) + 1}: starts with {start!r}, a web page; save the raw JSON file")
    return text


def _opens(text: str) -> bool:
    """Whether a text is one JSON list or object; too deep a one counts, so that its depth is what gets reported."""
    try:
        return isinstance(json.loads(text), list | dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _parse(source: Path, number: int, text: str) -> Any:
    """JSON within the bounds: no NaN, no key twice, whole characters, depth at most 64."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if twice:
            raise ConfigError(f"{source}, line {number}: an object has the key {twice[0][:80]!r} twice; keep one")
        return dict(pairs)

    def refuse(word: str) -> Any:
        raise ConfigError(f"{source}, line {number}: {word} is no JSON number; write a number or leave the key out")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        depth, level = 0, [value]
        while level:
            depth += 1
            level = [
                child for node in level if isinstance(node, list | dict) for child in (node.values() if isinstance(node, dict) else node)
            ]
        if depth > MAX_DEPTH:
            raise RecursionError
        dumps(value).encode()
    except json.JSONDecodeError as error:
        number = error.lineno if "\n" in text else number
        cut = "; is the text cut off?" if error.pos >= len(text.rstrip()) or "Unterminated" in error.msg else ""
        near = text[max(0, error.pos - 20) : error.pos + 20].strip()
        raise ConfigError(
            f"{source}, line {number}: not JSON: {error.msg.removesuffix(' at')} (column {error.colno}, near {near!r}){cut}; {WRITE}"
        ) from None
    except UnicodeEncodeError:
        raise ConfigError(f"{source}, line {number}: holds half a character (a lone \\ud800 to \\udfff); write whole characters") from None
    except RecursionError:
        raise ConfigError(f"{source}, line {number}: nested deeper than {MAX_DEPTH} levels; flatten it") from None
    except ValueError:
        raise ConfigError(f"{source}, line {number}: holds a number too large to be read; write a smaller one, or a string") from None
    return value


def _tools_in(value: Any, where: str) -> list[tuple[str, Any]]:
    """(JSON pointer, tool) of a list, a wrapped list or a single tool."""
    if isinstance(value, list):
        return [(f"/{index}", tool) for index, tool in enumerate(value)]
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: holds {dumps(value)[:60]}, which is no list of tools; {WRITE}")
    for key in value:
        if (key in WRAPPERS or key.endswith("_tools")) and isinstance(value[key], list):
            return [(f"/{key}/{index}", tool) for index, tool in enumerate(value[key])]
    if "function" in value or "name" in value:
        return [("", value)]
    raise ConfigError(f"{where}: holds an object with the keys {', '.join(value)[:100] or '(none)'}, which is no tool; {WRITE}")


@dataclass
class _Tool:
    """One tool while it is read: where it is, what was repaired, what is wrong."""

    file: str
    line: int
    at: str
    name: str = ""
    repairs: list[Repair] = field(default_factory=list)
    faults: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(reason, position, detail, proposal)."""

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
            words = " ".join(_words(name)) or name
            self.fault("no_description", f"{at}/description", f"{self.name} has no description", f"{words.capitalize()}.")
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
        if isinstance(written, str) and written.casefold() in TYPES:
            self.log("schema", "shorthand", at, written, {"type": TYPES[written.casefold()]}, "a schema is an object")
            return {"type": TYPES[written.casefold()]}
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
        known = TYPES.get(written.casefold()) if isinstance(written, str) else None
        if known is None:
            near = difflib.get_close_matches(str(written)[:40].casefold(), TYPES, n=1, cutoff=0.75)
            self.fault("unknown_type", at, f"unknown type {dumps(written)[:80]}", TYPES[near[0]] if near else None)
            return written
        if known != written:
            self.log("type", written, at, written, known, f"JSON Schema calls it {known}")
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
    kept = "\n\t\u200c\u200d"
    return "".join(c for c in text.replace("\r\n", "\n") if c in kept or not unicodedata.category(c).startswith("C"))


def _closest(name: str, others: Sequence[str]) -> str | None:
    """The likeliest other name: by spelling, else one that ends alike (`game_id`, `mod_id`)."""
    others = others[:200]
    near = difflib.get_close_matches(name.casefold(), [other.casefold() for other in others], n=1, cutoff=0.5)
    found = [o for o in others if near and o.casefold() == near[0]] or [o for o in others if _words(o)[-1:] == _words(name)[-1:]]
    return found[0] if found else None


def _words(name: str) -> list[str]:
    """`getCityForecast` -> get, city, forecast."""
    return [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _subject(apis: Sequence[ImportedApi]) -> str:
    """The one or two words, verbs apart, that most API names share."""
    seen: Counter[str] = Counter()
    first: dict[str, str] = {}
    for api in apis:
        nouns = {word.rstrip("s"): word for word in _words(api.name) if not NOT_A_SUBJECT.fullmatch(word)}
        for stem, word in nouns.items():
            first.setdefault(stem, word)
        seen.update(nouns.keys())
    order = list(first)
    top = [stem for stem in order if seen[stem] == max(seen.values()) and (seen[stem] > 1 or len(apis) == 1)][:2] or order[:1]
    return " ".join(first[stem].capitalize() for stem in top)[:60] or "Tools"


def _doing(apis: Sequence[ImportedApi]) -> str:
    """The first sentences of the descriptions, as one clause."""
    clauses = []
    for api in apis:
        sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z])|(?<=[。！？])|\n", api.description.strip())[0].strip(" .。\t")[:120]
        clauses.append(sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence)
    shown = clauses[:8]
    return "; ".join(shown) + (f"; and {len(clauses) - len(shown)} more" if len(clauses) > len(shown) else "")
