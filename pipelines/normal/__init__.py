"""Normal forms: the numbers, dates, times and words that a piece of English or Chinese text contains.

Used to prove that an argument is found in the words it names, and by the offline model to read.
Relative dates count from the moment the query is asked. Every finder returns spans, so that the
exact words can be quoted.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, timedelta
from typing import NamedTuple

from pipelines.normal import chinese

WORD_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19, "dozen": 12,
}  # fmt: skip
TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

_NUMBER = re.compile(
    r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w|\.\d|,\d)"
    r"|(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\d)"
    r"|(?<![\w.])\d+(?:\.\d+)?(?=(?:st|nd|rd|th|k|kg|km|cm|mm|g|mb|gb|tb|h|hrs?|mins?)\b)"
)
_SMALL = "|".join(WORD_NUMBERS)
_BELOW_100 = rf"(?:{'|'.join(TENS)})(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?|{_SMALL}"
_NUMBER_WORD = re.compile(rf"\b(?:(?P<hundreds>a|{_SMALL}) hundred(?: and)?(?: (?P<rest>{_BELOW_100}))?|(?P<below>{_BELOW_100}))\b")
_MONTH = "|".join(MONTHS) + "|" + "|".join(m[:3] for m in MONTHS)
_DATE = re.compile(
    rf"\b(?P<iso>\d{{4}}-\d\d-\d\d)\b"
    rf"|\b(?P<m1>{_MONTH})\.? (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<y1>\d{{4}}))?\b"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m2>{_MONTH})\b(?:,? (?P<y2>\d{{4}}))?"
    rf"|\b(?P<rel>today|tonight|tomorrow|the day after tomorrow)\b"
    rf"|\b(?P<next>next |this |coming )?(?P<day>{'|'.join(WEEKDAYS)})\b"
    rf"|\bin (?P<n>\d+|{'|'.join(WORD_NUMBERS)}) (?P<unit>days?|weeks?)\b"
)
_TIME = re.compile(
    r"\b(?P<h>\d{1,2})(?::(?P<m>\d\d))? ?(?P<half>a\.?m\.?|p\.?m\.?)(?!\w)"
    r"|\b(?P<h24>[01]?\d|2[0-3]):(?P<m24>[0-5]\d)\b"
    r"|\b(?P<word>noon|midday|midnight)\b"
)


class Found(NamedTuple):
    """A value and where its words stand in the text."""

    start: int
    end: int
    value: object


def fold(text: str) -> str:
    """Case, width, quotes and white space made equal; the length may change."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = text.replace("’", "'").replace("‘", "'").replace("“", '"').replace("”", '"').replace("–", "-").replace("—", "-")
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """The folded words of a text; an underscore separates. Chinese counts in pairs of characters."""
    return [part for word in re.findall(r"[^\W_]+", fold(text)) for part in chinese.split_words(word)]


def contains(text: str, part: str) -> bool:
    """Does `part` stand in `text` as whole words? Scripts without spaces have no word edges to respect."""
    at = text.find(part)
    while at >= 0 and part:
        end = at + len(part)
        if not _one_word(text[at - 1 : at], part[0]) and not _one_word(part[-1], text[end : end + 1]):
            return True
        at = text.find(part, at + 1)
    return False


def _one_word(left: str, right: str) -> bool:
    """Two neighbouring letters or digits of a script that puts spaces between words."""
    return left.isalnum() and right.isalnum() and ord(left) < 0x2E80 and ord(right) < 0x2E80


def stem(word: str) -> str:
    """A crude stem, enough to see that `wrapping` and `wrapped` are one word."""
    for ending in ("ations", "ation", "ings", "ing", "ied", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def find_numbers(text: str) -> list[Found]:
    """Numbers in digits (1,250.5), small number words and Chinese numerals."""
    low = text.lower()
    found = [Found(m.start(), m.end(), float(m.group().replace(",", ""))) for m in _NUMBER.finditer(low)]
    found += [Found(m.start(), m.end(), float(_worded(m))) for m in _NUMBER_WORD.finditer(low)]
    if chinese.in_text(low):
        found += [Found(*span) for span in chinese.find_numbers(low)]
    return sorted(set(found))


def _worded(match: re.Match[str]) -> int:
    """`forty-five`, `two hundred and ten`, `a hundred`."""
    total = 100 * WORD_NUMBERS.get(match["hundreds"], 1) if match["hundreds"] else 0
    return total + sum(TENS.get(word, WORD_NUMBERS.get(word, 0)) for word in re.split(r"[- ]", match["rest"] or match["below"] or ""))


def find_dates(text: str, today: date) -> list[Found]:
    """Calendar dates, absolute or counted from `today`; the value is a `datetime.date`.

    A day and month without a year is the next such day; `Friday` and `this Friday` the next Friday after
    today, `next Friday` the Friday of the following week (Monday to Sunday).
    """
    found = []
    for match in _DATE.finditer(text.lower()):
        day = _resolve(match, today)
        if day is not None:
            found.append(Found(match.start(), match.end(), day))
    if chinese.in_text(text):
        found += [Found(*span) for span in chinese.find_dates(text, today)]
    return list(dict.fromkeys(found))


def _resolve(match: re.Match[str], today: date) -> date | None:
    part = match.groupdict()
    try:
        if part["iso"]:
            return date.fromisoformat(part["iso"])
        if part["m1"] or part["m2"]:
            month = next(i for i, name in enumerate(MONTHS, start=1) if name.startswith((part["m1"] or part["m2"])[:3]))
            number = int(part["d1"] or part["d2"])
            year = part["y1"] or part["y2"]
            day = date(int(year) if year else today.year, month, number)
            return day if year or day >= today else date(today.year + 1, month, number)
        if part["rel"]:
            return today + timedelta(days={"today": 0, "tonight": 0, "tomorrow": 1}.get(part["rel"], 2))
        if part["n"]:
            number = WORD_NUMBERS.get(part["n"]) or int(part["n"])
            return today + timedelta(days=number * (7 if part["unit"].startswith("week") else 1))
        wanted = WEEKDAYS.index(part["day"])
        if (part["next"] or "").strip() == "next":
            return today + timedelta(days=7 - today.weekday() + wanted)
        return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    except (ValueError, OverflowError):
        return None


def find_times(text: str) -> list[Found]:
    """Times of day; the value is `HH:MM`."""
    found = []
    for match in _TIME.finditer(text.lower()):
        part = match.groupdict()
        if part["word"]:
            value = "00:00" if part["word"] == "midnight" else "12:00"
        elif part["h24"]:
            value = f"{int(part['h24']):02d}:{part['m24']}"
        else:
            hour = int(part["h"])
            if not 1 <= hour <= 12 or int(part["m"] or 0) > 59:
                continue
            hour = hour % 12 + (12 if part["half"].startswith("p") else 0)
            value = f"{hour:02d}:{part['m'] or '00'}"
        found.append(Found(match.start(), match.end(), value))
    if chinese.in_text(text):
        found += [Found(*span) for span in chinese.find_times(text)]
    return list(dict.fromkeys(found))
