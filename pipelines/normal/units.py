"""Amounts with units and currencies, phone numbers and addresses, in normal form."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from pipelines.normal import find_numbers, fold, words

_UNITS: dict[str, tuple[str, float, str]] = {
    "g": ("mass", 1, "g gram grams 克"),
    "kg": ("mass", 1000, "kg kilo kilos kilogram kilograms 公斤 千克"),
    "lb": ("mass", 453.59237, "lb lbs pound pounds 磅"),
    "oz": ("mass", 28.349523125, "oz ounce ounces"),
    "m": ("length", 1, "m metre metres meter meters 米"),
    "km": ("length", 1000, "km kilometre kilometres kilometer kilometers 公里 千米"),
    "cm": ("length", 0.01, "cm centimetre centimetres centimeter centimeters 厘米"),
    "mm": ("length", 0.001, "mm millimetre millimetres 毫米"),
    "mile": ("length", 1609.344, "mi mile miles 英里"),
    "inch": ("length", 0.0254, "inch inches 英寸"),
    "ft": ("length", 0.3048, "ft foot feet"),
    "s": ("time", 1, "second seconds secs 秒"),
    "min": ("time", 60, "min mins minute minutes 分钟"),
    "h": ("time", 3600, "h hr hrs hour hours 小时"),
    "day": ("time", 86400, "day days 天"),
    "week": ("time", 604800, "week weeks 周"),
    "mb": ("bytes", 1, "mb megabyte megabytes"),
    "gb": ("bytes", 1000, "gb gigabyte gigabytes"),
    "tb": ("bytes", 1_000_000, "tb terabyte terabytes"),
    "usd": ("usd", 1, "$ usd dollar dollars buck bucks 美元"),
    "eur": ("eur", 1, "€ eur euro euros 欧元"),
    "gbp": ("gbp", 1, "£ gbp pence quid 英镑"),
    "cny": ("cny", 1, "¥ cny rmb yuan 元 块 人民币"),
    "percent": ("share", 1, "% percent"),
}
"""Unit -> (kind, how many of the kind's smallest listed unit, its names). Currencies are kinds of their own: nothing converts them."""
_VAGUE = frozenset("s m h day days week pound pounds second".split())  # noqa: SIM905
"""Names that also mean something else in a parameter's description."""
_NAMES: dict[str, str] = {name: unit for unit, (_, _, names) in _UNITS.items() for name in names.split()}
_AFTER = re.compile(r"[ -]?(" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")(?![a-z])")
_PHONE = re.compile(r"(?<![\w.])\+?\(?\d[\d ().\-/]{5,20}\d(?!\w)")
_STREET = {
    "street": "st", "road": "rd", "avenue": "ave", "drive": "dr", "lane": "ln", "boulevard": "blvd", "court": "ct", "square": "sq",
    "apartment": "apt", "north": "n", "south": "s", "east": "e", "west": "w",
}  # fmt: skip


class Amount(NamedTuple):
    """A number with the unit that stands beside it, if one does."""

    start: int
    end: int
    value: float
    unit: str | None


def find_amounts(text: str) -> list[Amount]:
    """Numbers (digits, words, Chinese numerals) with a unit or currency right before or after them."""
    low = unicodedata.normalize("NFKC", text).lower()
    found = []
    for number in find_numbers(low):
        after = _AFTER.match(low, number.end)
        before = low[max(0, number.start - 1) : number.start]
        unit = _NAMES.get(before) if before in "$€£¥" and before else _NAMES[after.group(1)] if after else None
        found.append(Amount(number.start, after.end() if after else number.end, float(str(number.value)), unit))
    return found


def unit_named(text: str) -> str | None:
    """The one unit that a parameter's name and description ask for (`weight_g`, "length in minutes").

    None when they name none, or several.
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    named = {_NAMES[word] for word in words(spaced) if word in _NAMES and word not in _VAGUE}
    return named.pop() if len(named) == 1 else None


def convert(value: float, unit: str, to: str) -> float | None:
    """In another unit of the same kind; None between kinds, so never from one currency to another."""
    kind, factor, _ = _UNITS[unit]
    other, theirs, _ = _UNITS[to]
    return value * factor / theirs if kind == other else None


def phone_digits(text: str) -> str | None:
    """The digits of a phone number, a leading + kept; None when it is none."""
    folded = unicodedata.normalize("NFKC", text).strip()
    if not _PHONE.fullmatch(folded):
        return None
    digits = re.sub(r"\D", "", folded)
    if not 7 <= len(digits) <= 15 or re.fullmatch(r"\d{4}-\d\d-\d\d", folded):
        return None
    return ("+" if folded.startswith("+") else "") + digits


class Phone(NamedTuple):
    """A phone number and where it stands."""

    start: int
    end: int
    value: str


def find_phones(text: str) -> list[Phone]:
    """Phone numbers by their digits."""
    folded = unicodedata.normalize("NFKC", text)
    found = []
    for match in _PHONE.finditer(folded):
        digits = phone_digits(match.group())
        if digits is not None:
            found.append(Phone(match.start(), match.end(), digits))
    return found


def plain_address(text: str) -> str:
    """An address without punctuation, with usual abbreviations: `14 Birch Street, Dayton` and `14 birch st dayton` are one."""
    return " ".join(_STREET.get(word, word) for word in re.findall(r"[^\W_]+", fold(text)))
