"""Other ways to write a right value: made by rule, each with the rule that accepts it, never by widening until something passes.

A variant is kept only when it differs from the others, fits the parameter's schema and means the same (`said.same`, or the same
moment). Enumerations, formats and patterns are strict, so they leave no room; free text does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from pydantic import JsonValue

from pipelines import normal
from pipelines.llm.schemas import first_error
from pipelines.normal import units
from pipelines.records import Source
from pipelines.verify.said import same
from pipelines.world import Leaf

_ARTICLE = re.compile(r"^(?:a|an|the|some)\s+(?=\S)", re.IGNORECASE)
_TIME = re.compile(r"^([01]\d|2[0-3]):([0-5]\d)$")
_DATE = re.compile(r"^\d{4}-\d\d-\d\d$")


def accepted_values(value: JsonValue, schema: dict[str, Any], source: Source | None = None) -> tuple[list[JsonValue], list[str]]:
    """The values that count as right for one argument, gold first, and for each the rule that accepts it."""
    values: list[JsonValue] = [value]
    why = ["gold"]
    for rule, variant in _variants(value, schema, source):
        if first_error(schema, variant) is None and not any(_equal(variant, known) for known in values):
            values.append(variant)
            why.append(rule)
    return values, why


def _equal(one: JsonValue, other: JsonValue) -> bool:
    return type(one) is type(other) and one == other


def _variants(value: JsonValue, schema: dict[str, Any], source: Source | None) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, bool):
        return
    if isinstance(value, float) and value.is_integer():
        yield "whole_number", int(value)
    if isinstance(value, int) and schema.get("type") == "number":
        yield "whole_number", float(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        bare = [_ARTICLE.sub("", str(part)) for part in value]
        yield "article_dropped", list(bare)
        return
    if not isinstance(value, str) or "enum" in schema or "const" in schema:
        return
    if _DATE.match(value):
        if "format" not in schema:
            yield from _dates(value)
        return
    time = _TIME.match(value)
    if time is not None:
        yield "seconds_added", f"{value}:00"
        if "format" not in schema:
            hour, minute = int(time[1]), time[2]
            yield "twelve_hours", f"{hour % 12 or 12}:{minute} {'AM' if hour < 12 else 'PM'}"
        return
    phone = units.phone_digits(value)
    if phone is not None:
        yield "digits_only", phone
        return
    if source is not None and source.kind == "query" and source.at != value and same(source.at, value):
        yield "as_said", source.at
    yield "article_dropped", _ARTICLE.sub("", value)
    if value != value.strip():
        yield "trimmed", value.strip()


def _dates(value: str) -> Iterator[tuple[str, JsonValue]]:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return
    month = normal.MONTHS[day.month - 1].title()
    yield "date_in_words", f"{month} {day.day}, {day.year}"
    yield "date_in_words", f"{day.day} {month} {day.year}"


def optional_defaults(leaves: Sequence[Leaf], flat: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Optional arguments whose schema has a default: they may be left out, or given with exactly that value."""
    return {
        leaf.path: leaf.schema["default"]
        for leaf in leaves
        if not leaf.required and "default" in leaf.schema and (leaf.path not in flat or _equal(flat[leaf.path], leaf.schema["default"]))
    }
