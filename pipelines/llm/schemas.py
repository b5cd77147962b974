"""JSON Schemas of replies and records: derived from the pydantic models, checked here with jsonschema."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

import jsonschema
from pydantic import BaseModel

from pipelines.jsonio import canonical


@cache
def reply_schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    """Schema of what a model must answer to one prompt."""
    schema = model.model_json_schema()
    schema["title"] = name
    return schema


_VALIDATORS: dict[str, jsonschema.Draft202012Validator] = {}


_BY_IDENTITY: dict[int, tuple[dict[str, Any], jsonschema.Draft202012Validator]] = {}
_MOST = 2000
"""Schemas whose validator is kept; hostile input shall not fill the memory."""


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Is there nothing wrong with a value? For a schema object that is used again and again."""
    known = _BY_IDENTITY.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_BY_IDENTITY) >= _MOST:
            _BY_IDENTITY.clear()
        known = _BY_IDENTITY[id(schema)] = (schema, validator(schema))
    return bool(known[1].is_valid(value))


def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """A validator with format checks, made once per schema."""
    key = canonical(schema)
    if len(_VALIDATORS) >= _MOST:
        _VALIDATORS.clear()
    if key not in _VALIDATORS:
        _VALIDATORS[key] = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return _VALIDATORS[key]


def first_error(schema: dict[str, Any], value: Any) -> str | None:
    """The deepest thing wrong with a value, as `path: message`, or None."""
    error = jsonschema.exceptions.best_match(validator(schema).iter_errors(value))
    if error is None:
        return None
    path = ".".join(str(part) for part in error.absolute_path)
    return f"{path or 'the object'}: {error.message[:300]}"


def schema_problem(schema: Any) -> str | None:
    """What the JSON-Schema meta-schema has against a schema, or None.

    Properties and items are looked at one by one, without the words of their descriptions: the meta-schema takes
    its time, and tools are made of the same few forms again and again.
    """
    try:
        return _problem(schema, ())
    except (TypeError, ValueError):
        return "schema: holds a value that is no JSON"
    except RecursionError:
        return "schema: nested too deeply"


def _problem(schema: Any, path: tuple[str, ...]) -> str | None:
    inner: list[tuple[tuple[str, ...], Any]] = []
    rest = schema
    if isinstance(schema, dict):
        rest = {}
        for key, value in schema.items():
            if key == "properties" and isinstance(value, dict):
                inner += [((*path, key, str(name)), part) for name, part in value.items()]
            elif key == "items" and isinstance(value, dict):
                inner.append(((*path, key), value))
            else:
                rest[key] = "" if key in ("description", "title") and isinstance(value, str) else value
    found = _problem_of(canonical(rest))
    if found is not None:
        where, message = found
        return f"{'.'.join((*path, *where)) or 'schema'}: {message}"
    return next((problem for place, part in inner if (problem := _problem(part, place)) is not None), None)


@lru_cache(maxsize=16_384)
def _problem_of(text: str) -> tuple[tuple[str, ...], str] | None:
    """(path, message) of the worst thing in one schema, given as JSON."""
    try:
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    except jsonschema.SchemaError as error:
        return tuple(str(part) for part in error.absolute_path), error.message[:200]
    return None


def unwritable(text: str, value: Any) -> str | None:
    """What keeps a reply's strings out of a UTF-8 file or a terminal: half a surrogate pair, a NUL, an escape; or None."""
    if "\\u" not in text:
        return None
    strings = json.dumps(value, ensure_ascii=False)
    bad = re.search(r"[\ud800-\udfff]|\\u00(?:0[0-8bcef]|1[0-9a-f]|7f)", strings)
    return f"a string holds the character {bad.group()!a}, which no text may hold" if bad else None
