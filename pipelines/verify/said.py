"""Do these words say this value? The normal forms of `pipelines.normal` decide; no model is asked."""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import JsonValue

from pipelines import normal
from pipelines.normal import chinese, units

TINY = 1e-9
_COMMON = {
    normal.stem(word)
    for word in "whether to the a an of if for is be or and it with on in should true when".split()  # noqa: SIM905
}
_AGAIN = ("last time", "as before", "like before", "previous", "last one", "上次", "上一次", "之前", "老样子")


def said(value: JsonValue, words: str, path: str, schema: dict[str, Any], today: date) -> bool:
    """Numbers, amounts, dates and times by value, a true flag by its name, text by its letters.

    Args:
        words: The quoted words of the query.
        path: Of the argument; its last words and the schema's description may name a unit.
        today: Relative dates count from here, the day of the query's own clock.
    """
    if isinstance(value, bool):
        name = (
            {normal.stem(w) for w in normal.words(f"{path.replace('.', ' ')} {schema.get('description', '')}")}
            - _COMMON
            - chinese.COMMON_PAIRS
        )
        name |= {normal.stem(w) for w in _camel(path)}
        return value and bool(name & {normal.stem(w) for w in normal.words(words)})
    if isinstance(value, (int, float)):
        return _number_said(float(value), words, f"{path} {schema.get('description', '')}")
    if isinstance(value, list):
        return bool(value) and all(said(part, words, path, {}, today) for part in value)
    if not isinstance(value, str):
        return False
    if normal.contains(letters(words), letters(value)):
        return True
    if any(str(found.value) == value for found in normal.find_times(words)):
        return True
    if any(isinstance(found.value, date) and found.value.isoformat() == value for found in normal.find_dates(words, today)):
        return True
    phone = units.phone_digits(value)
    if phone is not None:
        return any(phone == found.value for found in units.find_phones(words))
    return normal.contains(units.plain_address(words), units.plain_address(value)) if any(c.isdigit() for c in value) else False


def _number_said(value: float, words: str, named: str) -> bool:
    unit = units.unit_named(named)
    for found in units.find_amounts(words):
        if unit is not None and found.unit is not None and found.unit != unit:
            converted = units.convert(found.value, found.unit, unit)
            if converted is not None and abs(converted - value) < TINY * max(1.0, abs(value)):
                return True
        elif abs(found.value - value) < TINY:
            return True
    return False


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal after normalisation."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) < TINY
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, str) and isinstance(other, str):
        if letters(one) == letters(other):
            return True
        phone = units.phone_digits(one)
        return phone is not None and phone == units.phone_digits(other)
    return one == other


def says_again(text: str) -> bool:
    """Does a query point back to what was done before?"""
    low = normal.fold(text)
    return any(mark in low for mark in _AGAIN)


def letters(text: str) -> str:
    """Text for comparison: folded, underscores and hyphens as spaces."""
    return " ".join(normal.fold(text).replace("_", " ").replace("-", " ").split())


def _camel(path: str) -> list[str]:
    spaced = "".join(f" {c}" if c.isupper() else c for c in path)
    return [word for word in normal.words(spaced) if word not in ("is", "has", "with", "the")]
