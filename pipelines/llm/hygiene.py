"""From a model's words to a value that fits the schema, with every liberty it took noted.

Forgiven and flagged: reasoning, fences, words around the JSON, one object where a list is asked, numbers,
booleans and objects written as strings, nulls for what may be left out. Not forgiven: a value out of
range, a missing field, anything that would have to be guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pipelines.errors import ReplyError
from pipelines.llm.schemas import first_error, fits, unwritable

_DECODER = json.JSONDecoder(parse_constant=lambda name: _no(name))
_NUMBER = re.compile(r"\s*[+-]?\d{1,30}(\.\d{1,30})?\s*")
_HUGE = re.compile(r"\d[eE]\+?\d{3}")
_TRIES = 20
"""Places where a JSON value may begin that are tried."""


def _no(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def read_reply(text: str, schema: dict[str, Any]) -> tuple[Any, list[str]]:
    """The value in a reply, and the flags of what was forgiven.

    Raises:
        ReplyError: `invalid_reply`, with what is wrong.
    """
    flags: list[str] = []
    value = _value(text, flags)
    problem = unwritable(text, value)
    if problem is not None:
        raise ReplyError("invalid_reply", problem)
    if fits(schema, value):
        return value, flags
    value = _coerced(value, schema, schema, flags, 0)
    problem = first_error(schema, value)
    if problem is not None:
        raise ReplyError("invalid_reply", problem)
    return value, list(dict.fromkeys(flags))


def _value(text: str, flags: list[str]) -> Any:
    """The JSON in the text: the text itself, or the longest object or list in it."""
    text = text.strip().removeprefix("\ufeff")
    try:
        return _sound(_DECODER.decode(text), text)
    except (ValueError, RecursionError) as error:
        first = error
    if "</think>" in text:
        text = text.rpartition("</think>")[2].strip()
        flags.append("reasoning")
    if text.startswith("```") or "\n```" in text:
        flags.append("fenced")
        text = re.sub(r"(?m)^\s*```[A-Za-z0-9]*\s*$", "", text).strip()
    best: tuple[int, int, Any] = (0, 0, None)
    for start, end, value in _values(text):
        if end - start > best[1] - best[0]:
            best = (start, end, value)
    if best[1] == 0:
        raise ReplyError("invalid_reply", f"not JSON: {_short(first)}")
    if text[: best[0]].strip():
        flags.append("text_before")
    if text[best[1] :].strip():
        flags.append("text_after")
    return _sound(best[2], text)


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    place = 0
    for _ in range(_TRIES):
        found = re.compile(r"[{\[]").search(text, place)
        if found is None:
            return
        start = found.start()
        try:
            value, place = _DECODER.raw_decode(text, start)
            yield start, place, value
        except (ValueError, RecursionError):
            place = start + 1


def _sound(value: Any, text: str) -> Any:
    """No number beyond what JSON files hold."""
    if _HUGE.search(text):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ReplyError("invalid_reply", "a number is too large for JSON") from None
    return value


def _short(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


def _coerced(value: Any, schema: Any, root: dict[str, Any], flags: list[str], depth: int) -> Any:
    """The value with the liberties taken back that leave nothing to guess."""
    schema = _resolved(schema, root)
    if not isinstance(schema, dict) or depth > 40:
        return value
    for many in ("anyOf", "oneOf"):
        if many in schema:
            return _one_of(value, schema[many], root, flags, depth)
    kind = schema.get("type")
    if kind == "array":
        return _array(value, schema, root, flags, depth)
    if kind == "object" or "properties" in schema:
        return _object(value, schema, root, flags, depth)
    if isinstance(value, str):
        return _scalar(value, kind, flags)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _array(value: Any, schema: dict[str, Any], root: dict[str, Any], flags: list[str], depth: int) -> Any:
    if isinstance(value, dict):
        flags.append("single_for_list")
        value = [value]
    if not isinstance(value, list):
        return value
    return [_coerced(item, schema.get("items"), root, flags, depth + 1) for item in value]


def _object(value: Any, schema: dict[str, Any], root: dict[str, Any], flags: list[str], depth: int) -> Any:
    properties: dict[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or []
    if isinstance(value, str):
        value = _written_object(value, flags)
    if isinstance(value, list):
        lists = [name for name in required if _resolved(properties.get(name), root).get("type") == "array"]
        if len(required) == 1 and lists:
            flags.append("bare_list")
            value = {lists[0]: value}
        elif len(value) == 1 and isinstance(value[0], dict):
            flags.append("list_for_single")
            value = value[0]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, item in value.items():
        if item is None and name in properties and name not in required:
            flags.append("null_for_missing")
            continue
        made[name] = _coerced(item, properties[name], root, flags, depth + 1) if name in properties else item
    return made


def _written_object(value: str, flags: list[str]) -> Any:
    if not value.strip():
        flags.append("empty_arguments")
        return {}
    try:
        inner = _DECODER.decode(value)
    except (ValueError, RecursionError):
        return value
    flags.append("object_as_string")
    return inner


def _scalar(value: str, kind: Any, flags: list[str]) -> Any:
    if kind in ("integer", "number") and _NUMBER.fullmatch(value):
        number = float(value)
        if kind == "number" or number.is_integer():
            flags.append("number_as_string")
            return int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else int(number) if kind == "integer" else number
    if kind == "boolean" and value.strip().lower() in ("true", "false"):
        flags.append("boolean_as_string")
        return value.strip().lower() == "true"
    return value


def _one_of(value: Any, options: list[Any], root: dict[str, Any], flags: list[str], depth: int) -> Any:
    for option in options:
        tried: list[str] = []
        made = _coerced(value, option, root, tried, depth + 1)
        if first_error({**_resolved(option, root), "$defs": root.get("$defs", {})}, made) is None:
            flags.extend(tried)
            return made
    return value


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(10):
        ref = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(ref, str) or not ref.startswith("#/$defs/"):
            break
        schema = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {})
    return schema if isinstance(schema, dict) else {}
