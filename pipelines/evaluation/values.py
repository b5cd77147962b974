"""When are two values the same? Typed comparators, one per kind of parameter.

A kind is chosen from the API's JSON Schema, where it is silent from the gold value, and may be overridden by name.
Comparators are symmetric; a wrong type is not the same value. `docs/scoring.md` has the table.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from pipelines.errors import ConfigError
from pipelines.normal import find_dates, find_times, fold, stem, words

KINDS = ("exact", "casefold", "number", "boolean", "datetime", "money", "unit", "set", "list", "object", "id", "text")
TOLERANCE = 0.01
"""Numbers are the same within this, both ways; integers by schema must be equal. The published scorer has it one way."""
_DATE_LIKE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d\d(?::\d\d)?.*)?|\d{1,2}:\d\d(?::\d\d)?")
_SIGN = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "CNY", "us$": "USD"}
_WORD = {
    "usd": "USD", "dollar": "USD", "dollars": "USD", "eur": "EUR", "euro": "EUR", "euros": "EUR", "gbp": "GBP", "pound": "GBP",
    "pounds": "GBP", "cny": "CNY", "rmb": "CNY", "yuan": "CNY", "元": "CNY", "jpy": "JPY", "yen": "JPY",
}  # fmt: skip
_MONEY = re.compile(r"(us\$|[$€£¥])?\s*(\d[\d,]{0,30}(?:\.\d{1,10})?)\s*([a-z]{3,7}|元)?")
_UNITS: dict[str, tuple[str, float]] = {
    "mm": ("m", 1e-3), "cm": ("m", 1e-2), "m": ("m", 1), "km": ("m", 1e3), "metre": ("m", 1), "meter": ("m", 1), "mile": ("m", 1609.344),
    "mi": ("m", 1609.344), "ft": ("m", 0.3048), "inch": ("m", 0.0254), "g": ("kg", 1e-3), "kg": ("kg", 1), "gram": ("kg", 1e-3),
    "lb": ("kg", 0.45359237), "ml": ("l", 1e-3), "l": ("l", 1), "litre": ("l", 1), "liter": ("l", 1), "s": ("s", 1), "sec": ("s", 1),
    "second": ("s", 1), "min": ("s", 60), "minute": ("s", 60), "h": ("s", 3600), "hr": ("s", 3600), "hour": ("s", 3600),
    "day": ("s", 86400), "week": ("s", 604800), "mb": ("b", 1e6), "gb": ("b", 1e9), "tb": ("b", 1e12), "%": ("%", 1),
}  # fmt: skip
_UNIT = re.compile(r"([+-]?\d{1,15}(?:\.\d{1,10})?)\s*(%|[a-z]{1,7})")
_MONEY_WORDS = {"price", "budget", "amount", "cost", "fare", "fee", "tip"}
_ID_NAME = re.compile(r"(?:^|_)(?:id|ids|phone|mobile|tel|isbn|code|number)$|Id$|Phone$|Code$|Number$")
_ARTICLE = re.compile(r"^(?:a|an|the) (?=.)")
_FILLER = frozenset({"a", "an", "the", "of", "for", "to", "in", "at", "on", "and", "my", "please", "some"})


def kind_of(name: str, schema: Mapping[str, Any], gold: Any) -> str:
    """The comparator of one parameter: by its schema, else by the gold value."""
    declared = schema.get("type")
    if isinstance(declared, list):
        declared = next((one for one in declared if one != "null"), None)
    if declared in ("integer", "number"):
        return "number"
    if declared == "boolean":
        return "boolean"
    if declared == "array":
        return "set" if schema.get("uniqueItems") else "list"
    if declared == "object":
        return "object"
    if declared is None and not isinstance(gold, str):
        return _kind_of_value(gold)
    if schema.get("format") in ("date", "time", "date-time"):
        return "datetime"
    if schema.get("format") in ("email", "idn-email", "hostname") or "enum" in schema:
        return "casefold"
    if schema.get("format") in ("uuid", "uri", "iri") or _is_id(name):
        return "id"
    return _kind_of_text(name, gold[:80]) if isinstance(gold, str) else "text"


@lru_cache(maxsize=65_536)
def _kind_of_text(name: str, text: str) -> str:
    if _DATE_LIKE.fullmatch(text.strip()[:40]):
        return "datetime"
    money = _money(text)
    if money is not None and (money[0] or set(words(name)) & _MONEY_WORDS):
        return "money"
    if _unit(text) is not None:
        return "unit"
    return "text"


@lru_cache(maxsize=4096)
def _is_id(name: str) -> bool:
    return _ID_NAME.search(name.rpartition(".")[2]) is not None


def _kind_of_value(gold: Any) -> str:
    if isinstance(gold, bool):
        return "boolean"
    if isinstance(gold, (int, float)):
        return "number"
    return "list" if isinstance(gold, list) else "object" if isinstance(gold, dict) else "exact"


def same_value(kind: str, made: Any, accepted: Any, schema: Mapping[str, Any], lenient: bool = False) -> bool:
    """Is what was made the same as one accepted value?

    `same_value("datetime", "2024-1-5", "2024-01-05", {})` is True, `same_value("number", True, 1, {})` is False.
    """
    if made is None or accepted is None:
        return made is None and accepted is None
    if lenient and _loosely(made) == _loosely(accepted) != "":
        return True
    if kind == "number":
        return _same_number(made, accepted, schema, lenient)
    if kind == "boolean":
        return _boolean(made) is not None and _boolean(made) == _boolean(accepted)
    if kind in ("list", "set"):
        return _same_items(kind, made, accepted, schema, lenient)
    if kind == "object" or isinstance(accepted, dict):
        return _same_object(made, accepted, schema, lenient)
    if kind == "exact":
        return type(made) is type(accepted) and bool(made == accepted)
    if isinstance(made, (list, dict, bool)) or isinstance(accepted, (list, bool)):
        return type(made) is type(accepted) and bool(made == accepted)
    if isinstance(made, str) != isinstance(accepted, str) and not schema and not lenient:
        return kind in ("money", "unit") and normal_form(kind, str(made)) == normal_form(kind, str(accepted))
    return normal_form(kind, str(made)) == normal_form(kind, str(accepted))


def _same_number(made: Any, accepted: Any, schema: Mapping[str, Any], lenient: bool) -> bool:
    one, other = _number(made, bool(schema) or lenient), _number(accepted, True)
    if one is None or other is None:
        return False
    if schema.get("type") == "integer" or (isinstance(one, int) and isinstance(other, int)):
        return one == other
    try:
        return math.isclose(one, other, rel_tol=0.01 if lenient else 1e-12, abs_tol=TOLERANCE + 1e-12)
    except OverflowError:
        return False


def _number(value: Any, coerce: bool) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if coerce and isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,30}(?:\.\d{1,30})?\s*", value):
        return float(value) if "." in value else int(value)
    return None


def _boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def _same_items(kind: str, made: Any, accepted: Any, schema: Mapping[str, Any], lenient: bool) -> bool:
    if not isinstance(made, (list, tuple)) or not isinstance(accepted, (list, tuple)):
        return False
    inner = schema.get("items")
    inner = inner if isinstance(inner, dict) else {}

    def same(one: Any, other: Any) -> bool:
        return same_value(kind_of("", inner, other), one, other, inner, lenient)

    if kind == "list" and not lenient:
        return len(made) == len(accepted) and all(same(a, b) for a, b in zip(made, accepted, strict=True))
    if len(made) > 200 or len(accepted) > 200:
        return False
    if kind == "list" and len(made) != len(accepted):
        return False
    return _covers(made, accepted, same) and _covers(accepted, made, lambda a, b: same(b, a))


def _covers(these: Sequence[Any], those: Sequence[Any], same: Any) -> bool:
    return all(any(same(one, other) for other in those) for one in these)


def _same_object(made: Any, accepted: Any, schema: Mapping[str, Any], lenient: bool) -> bool:
    if not isinstance(made, dict) or not isinstance(accepted, dict) or made.keys() != accepted.keys():
        return False
    inside = schema.get("properties") or {}
    return all(
        same_value(kind_of(key, inside.get(key) or {}, value), made[key], value, inside.get(key) or {}, lenient)
        for key, value in accepted.items()
    )


@lru_cache(maxsize=65_536)
def normal_form(kind: str, text: str) -> str | tuple[str, float]:
    """The form in which equal texts of a kind are equal."""
    if len(text) > 2_000:
        return text
    if kind == "id":
        bare = unicodedata.normalize("NFKC", text).strip()
        return re.sub(r"[\s().\-]", "", bare) if re.search(r"\d", bare) else bare
    if kind == "datetime":
        return _moment(text) or fold(text)
    if kind == "money":
        found = _money(text)
        return found if found is not None else fold(text)
    if kind == "unit":
        return _unit(text) or fold(text)
    folded = fold(text)
    if kind == "casefold":
        return folded
    return _ARTICLE.sub("", folded.strip(" .!?,;'\""))


def _moment(text: str) -> str | None:
    """Date, time or both in ISO form; seconds and offset only where given."""
    text = text.strip()
    found = re.fullmatch(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", text)
    try:
        if found:
            return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
        if re.match(r"\d{4}-\d\d-\d\d[T ]\d", text):
            moment = datetime.fromisoformat(text)
            return moment.isoformat(timespec="minutes" if moment.second == 0 else "seconds")
    except ValueError:
        return None
    clock = re.fullmatch(r"(\d{1,2}):(\d\d)(?::00)?", text)
    if clock:
        return f"{int(clock[1]):02d}:{clock[2]}"
    times = find_times(text)
    if len(times) == 1 and times[0].end - times[0].start == len(text):
        return str(times[0].value)
    if re.search(r"\d{4}", text):
        dates = find_dates(text, date(2000, 1, 1))
        if len(dates) == 1 and dates[0].end - dates[0].start == len(text) and isinstance(dates[0].value, date):
            return dates[0].value.isoformat()
    return None


def _money(text: str) -> tuple[str, float] | None:
    found = _MONEY.fullmatch(fold(text)) if len(text) < 60 else None
    if found is None or (found[3] and found[3] not in _WORD):
        return None
    return _SIGN.get(found[1] or "") or _WORD.get(found[3] or "", ""), float(found[2].replace(",", ""))


def _unit(text: str) -> tuple[str, float] | None:
    found = _UNIT.fullmatch(fold(text)) if len(text) < 40 else None
    if found is None:
        return None
    unit = _UNITS.get(found[2]) or _UNITS.get(found[2].removesuffix("s"))
    return (unit[0], round(float(found[1]) * unit[1], 9)) if unit else None


def _loosely(value: Any) -> str:
    """What the lenient scorer sees of a text or number: its stems in order of the alphabet, without fillers."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return _loose_text(str(value)[:2_000])


@lru_cache(maxsize=65_536)
def _loose_text(text: str) -> str:
    return " ".join(sorted({stem(word) for word in words(text)} - _FILLER))


def checked_overrides(found: Any, where: str) -> dict[str, str]:
    """Comparators by parameter name: `date`, `find_items.query` or `Platform/find_items.query` -> kind.

    Raises:
        ConfigError: for anything but a mapping of names to kinds.
    """
    if not isinstance(found, dict) or not all(isinstance(k, str) and v in KINDS for k, v in found.items()):
        raise ConfigError(f"{where}: write a mapping of parameter names to one of {', '.join(KINDS)}, e.g. `budget: money`")
    return dict(found)
