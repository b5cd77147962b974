"""How a reply of a given shape is asked for: the best way that an endpoint knows.

json_schema, then json_object with the schema in the prompt, then a tool call, then plain text. Which rung
works is remembered per endpoint and model, and whatever comes back is validated here in any case.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from pipelines.jsonio import canonical
from pipelines.llm.wire import Fault

RUNGS = ("json_schema", "json_object", "tool_call", "text")
TOOL = "send_reply"
_REFUSED = re.compile(
    r"response_?format|json_?schema|json_?object|structured|grammar|guided|schema|tool|function|strict|additionalproperties", re.IGNORECASE
)
_UNKNOWN = re.compile(r"unsupported|unrecognized|unknown|not support|unexpected|extra|not permitted|invalid", re.IGNORECASE)
OPTIONAL = ("seed", "max_completion_tokens")
"""Fields of a request that some providers refuse and that can be left out."""
_KEEP = ("type", "properties", "items", "enum", "const", "anyOf", "description", "$ref", "$defs")
"""Keywords of a strict schema; the rest is checked here only."""


def request_fields(rung: str, name: str, schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """What a rung adds to the request, and to its first message."""
    title = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    if rung == "json_schema":
        return _json_schema(title, canonical(schema)), ""
    note = f"\n\nThe schema:\n{json.dumps(schema, ensure_ascii=False)}"
    if rung == "json_object":
        return {"response_format": {"type": "json_object"}}, note
    if rung == "tool_call":
        function = {"name": TOOL, "description": "Send the reply.", "parameters": json.loads(_loose(canonical(schema)))}
        tools = [{"type": "function", "function": function}]
        return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": TOOL}}}, ""
    return {}, f"{note}\nAnswer with the JSON object alone: no fences, no words around it."


def next_rung(rung: str, fault: Fault) -> str | None:
    """The rung below, when the endpoint refused this one; None when the fault is about something else."""
    if fault.kind != "bad_request" and fault.status not in (404, 415, 422, 500, 501):
        return None
    if rung == RUNGS[-1] or not _REFUSED.search(fault.words):
        return None
    return RUNGS[RUNGS.index(rung) + 1]


def refused_field(fault: Fault, sent: dict[str, Any]) -> str | None:
    """An optional field that the endpoint does not know."""
    if fault.kind != "bad_request" or not _UNKNOWN.search(fault.words):
        return None
    return next((field for field in OPTIONAL if field in sent and field in fault.words), None)


@lru_cache(maxsize=256)
def _json_schema(title: str, text: str) -> dict[str, Any]:
    schema = json.loads(text)
    strict = strict_form(schema)
    form = {"name": title, "strict": True, "schema": strict} if strict is not None else {"name": title, "schema": json.loads(_loose(text))}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


@lru_cache(maxsize=256)
def _loose(text: str) -> str:
    """The schema without what only confuses: titles and defaults."""
    return canonical(_without(json.loads(text)))


def _without(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            made[key] = {name: _without(inner) for name, inner in value.items()}
        elif key not in ("title", "default"):
            made[key] = _without(value)
    return made


class _Free(Exception):
    """An object with any keys has no strict form."""


def strict_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in the form that providers enforce: closed objects, all fields required, what may be missing may be null.

    None when some object may hold any keys: that cannot be said in it.
    """
    try:
        return _strict(schema)
    except _Free:
        return None


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or not schema:
        raise _Free
    made = {key: value for key, value in schema.items() if key in _KEEP}
    if "oneOf" in schema:
        made["anyOf"] = schema["oneOf"]
    if "anyOf" in made:
        made["anyOf"] = [_strict(option) for option in made["anyOf"]]
    if "$defs" in made:
        made["$defs"] = {name: _strict(inner) for name, inner in made["$defs"].items()}
    kind = made.get("type")
    if kind == "array":
        made["items"] = _strict(made.get("items"))
    if kind == "object":
        if "properties" not in made or schema.get("additionalProperties") not in (None, False):
            raise _Free
        required = schema.get("required") or []
        made["properties"] = {
            name: _strict(inner) if name in required else {"anyOf": [_strict(inner), {"type": "null"}]}
            for name, inner in made["properties"].items()
        }
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    if not {"type", "anyOf", "$ref", "enum", "const"} & set(made):
        raise _Free
    return made
