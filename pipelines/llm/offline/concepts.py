"""How the offline model says the value of an argument, and how it reads one back out of a text.

Reading knows only the text: it looks for candidates of the right kind (bank words, numbers, dates,
times) and lets the words around them, compared with the clauses of the knowledge file, decide which
argument each belongs to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from pipelines import normal
from pipelines.llm.offline import chinese
from pipelines.llm.offline.knowledge import SLOT, Concept

SMALL = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@dataclass(frozen=True)
class Value:
    """A drawn value: as an argument, and as words."""

    argument: Any
    words: str
    price: float | None = None
    """Usual price in US dollars, where the bank knows one."""


def draw(rng: random.Random, name: str, concept: Concept, situation: str | None, today: date, chosen: Mapping[str, Value]) -> Value:
    """A value for one argument, coherent with what was chosen before it."""
    kind = concept.type
    if kind == "boolean":
        return Value(True, "")
    if kind in ("string", "enum"):
        words, price = priced(rng.choice(concept.values(situation)))
        return Value(words, words, price)
    if kind == "array":
        values = list(dict.fromkeys(bare(v) for v in concept.values(situation)))
        picked = rng.sample(values, min(len(values), rng.randint(*concept.count)))
        return Value(picked, chinese.listed(picked) if concept.language == "zh" else listed(picked))
    if kind == "code":
        code = fill_pattern(rng, concept.pattern or "####")
        return Value(code, code)
    if kind == "date":
        day = today + timedelta(days=rng.randint(*concept.days))
        return Value(day.isoformat(), (chinese.say_date if concept.language == "zh" else say_date)(rng, day, today))
    if kind == "time":
        low, high = concept.range or (8, 20)
        hour, minute = rng.randint(int(low), int(high)), rng.choice([0, 0, 0, 15, 30, 30, 45])
        return Value(f"{hour:02d}:{minute:02d}", (chinese.say_time if concept.language == "zh" else say_time)(rng, hour, minute))
    amount = _amount(rng, concept, situation, chosen)
    if concept.language == "zh":
        return Value(amount, _in_chinese(rng, amount, concept))
    if kind == "money":
        return Value(amount, f"${amount:,}" if rng.random() < 0.85 else f"{amount:,} dollars")
    if kind == "integer" and 0 < amount <= 12 and rng.random() < 0.5:
        return Value(int(amount), SMALL[int(amount)])
    return Value(amount, f"{amount:,}" if amount >= 10_000 else str(amount))


def _in_chinese(rng: random.Random, amount: float, concept: Concept) -> str:
    if concept.type == "money":
        return chinese.say_money(rng, amount)
    return chinese.say_count(rng, int(amount), concept) if concept.type == "integer" else f"{amount:g}"


def _amount(rng: random.Random, concept: Concept, situation: str | None, chosen: Mapping[str, Value]) -> Any:
    if concept.near is not None:
        other = chosen.get(concept.near)
        price = other.price if other is not None else None
        if price is None:
            low, high = concept.range or (15, 120)
            price = rng.uniform(low, high) / 1.2
        return _nice(price * rng.uniform(1.05, 1.45))
    low, high = concept.range or (1, 10)
    steps = int((high - low) / concept.step + 1e-9)
    amount = low + rng.randint(0, max(steps, 0)) * concept.step
    return int(amount) if concept.type == "integer" or float(amount).is_integer() else round(amount, 2)


def _nice(amount: float) -> int:
    for limit, step in ((20, 1), (60, 5), (300, 10), (1000, 50), (5000, 100)):
        if amount <= limit:
            return max(step, round(amount / step) * step)
    return round(amount / 500) * 500


def priced(entry: str) -> tuple[str, float | None]:
    """The value of a bank entry and its usual price, if it has one."""
    value, _, price = entry.partition("|")
    return value.strip(), float(price) if price.strip() else None


def bare(entry: str) -> str:
    """The value of a bank entry without its price."""
    return priced(entry)[0]


def fill_pattern(rng: random.Random, pattern: str) -> str:
    """`#` becomes a digit, `@` a capital letter."""
    return "".join(rng.choice("0123456789") if c == "#" else rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") if c == "@" else c for c in pattern)


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def say_date(rng: random.Random, day: date, today: date) -> str:
    """A date as a person says it; it means the same when read back."""
    ahead = (day - today).days
    month, weekday = normal.MONTHS[day.month - 1].title(), normal.WEEKDAYS[day.weekday()].title()
    forms = [f"{month} {day.day}", f"{day.day} {month}"]
    if ahead == 0:
        forms = ["today"]
    elif ahead == 1:
        forms = ["tomorrow", "tomorrow", *forms]
    elif ahead <= 6:  # the same weekday a week from now could be taken for today
        forms += [weekday] * 2
        if normal.find_dates(f"next {weekday}", today)[0].value == day:  # where both readings of "next" agree
            forms.append(f"next {weekday}")
    return rng.choice(forms)


def say_time(rng: random.Random, hour: int, minute: int) -> str:
    """A time of day as a person says it."""
    half = "am" if hour < 12 else "pm"
    twelve = hour % 12 or 12
    short = f"{twelve} {half}" if minute == 0 else f"{twelve}:{minute:02d} {half}"
    return rng.choice([short, short, short.replace(" ", ""), f"{hour:02d}:{minute:02d}"])


# Reading


@dataclass(frozen=True)
class Reading:
    """A value read out of a text."""

    argument: Any
    start: int
    end: int
    score: int


@dataclass(frozen=True)
class Frame:
    """The words around a slot in one clause."""

    before: str
    after: str


@lru_cache(maxsize=20_000)
def frames(templates: tuple[str, ...], slot: str) -> tuple[Frame, ...]:
    """The frames of one slot in clauses (`{}`) and requests (`{name}`)."""
    found = []
    for template in templates:
        marks = [match for match in SLOT.finditer(template) if match.group(1) in ("", slot)]
        for mark in marks:
            before = SLOT.split(template[: mark.start()])[-1].lower()
            after = SLOT.split(template[mark.end() :])[0].lower().rstrip("?.! ？。！")
            found.append(Frame(before, after))
    return tuple(found)


def read_all(text: str, concepts: Mapping[str, Concept], asks: Sequence[str], today: date) -> dict[str, Reading]:
    """The values that a text states for these arguments.

    Args:
        concepts: Key (parameter path) -> what the parameter takes; the concept's slot name is in `slots`.
    """
    low = text.lower()
    options: list[tuple[int, int, str, Reading]] = []
    for order, (key, concept) in enumerate(concepts.items()):
        slot = key.rpartition("#")[2]
        for reading in _candidates(text, low, concept, today):
            score = 1
            for frame in frames((*concept.say, *asks), slot):
                score = max(score, _fit(low, reading, frame))
            if score > 1 or _free(concept, slot, concepts):
                options.append((score, order, key, Reading(reading.argument, reading.start, reading.end, score)))
    options.sort(key=lambda option: (-option[0], -(option[3].end - option[3].start), option[1]))
    taken: list[tuple[int, int]] = []
    read: dict[str, Reading] = {}
    for _, _, key, reading in options:
        if key in read or any(reading.start < end and start < reading.end for start, end in taken):
            continue
        read[key] = reading
        taken.append((reading.start, reading.end))
    return read


def _fit(low: str, reading: Reading, frame: Frame) -> int:
    """How many letters of the frame stand around the reading; 0 when the words before it differ."""
    before = frame.before
    if before and not low[: reading.start].endswith(before):
        return 0
    if not before and not frame.after:
        return 0
    after = frame.after
    follows = bool(after) and low[reading.end :].startswith(after)
    if after.strip() and not follows and (not before.strip() or not after.isascii()):  # a Chinese measure word must be there
        return 0
    return 1 + len(before) + (2 * len(after) if follows else 0)


def _free(concept: Concept, slot: str, concepts: Mapping[str, Concept]) -> bool:
    """May be read wherever it stands: words of a bank that no other argument shares."""
    if concept.type == "boolean":
        return True
    if concept.type not in ("string", "enum", "array", "code"):
        return False
    mine = set(concept.values(None)[:3])
    return not any(other is not concept and other.type == concept.type and mine & set(other.values(None)) for other in concepts.values())


def _candidates(text: str, low: str, concept: Concept, today: date) -> list[Reading]:
    kind = concept.type
    if kind == "boolean":
        return [
            Reading(True, at, at + len(clause), 1)
            for clause in (c.lower().rstrip(".。") for c in concept.say)
            if (at := low.find(clause)) >= 0
        ]
    if kind == "date":
        return [Reading(f.value.isoformat(), f.start, f.end, 1) for f in normal.find_dates(low, today) if isinstance(f.value, date)]
    if kind == "time":
        return [Reading(f.value, f.start, f.end, 1) for f in normal.find_times(low)]
    if kind in ("integer", "number", "money"):
        return _numbers(low, kind)
    if kind == "code":
        pattern = re.escape((concept.pattern or "").lower()).replace(r"\#", r"\d").replace("@", "[a-z]")
        return [Reading(text[m.start() : m.end()], m.start(), m.end(), 1) for m in re.finditer(pattern, low)]
    found = []
    for value, folded in _bank(tuple(concept.values(None))):
        for at in _find_word(low, folded):
            found.append(Reading(value, at, at + len(folded), 1))
    if kind == "array" and found:
        found = _join(low, found)
    return found


def _numbers(low: str, kind: str) -> list[Reading]:
    found = []
    for item in normal.find_numbers(low):
        value = float(str(item.value))
        start, end = item.start, item.end
        after = next((word for word in (" dollars", *chinese.MONEY_AFTER) if low.startswith(word, end)), "")
        dollars = low[start - 1 : start] == "$" or bool(after)
        if (kind == "money") != dollars:
            continue
        if low[start - 1 : start] == "$":
            start -= 1
        elif dollars:
            end += len(after)
        argument: Any = int(value) if value.is_integer() else value
        found.append(Reading(argument, start, end, 1))
    return found


@lru_cache(maxsize=4096)
def _bank(entries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    values = dict.fromkeys(bare(entry) for entry in entries)
    return tuple((value, value.lower()) for value in sorted(values, key=len, reverse=True))


def _find_word(low: str, word: str) -> list[int]:
    found = []
    at = low.find(word)
    while at >= 0:
        end = at + len(word)
        if not _inside_word(low[at - 1 : at], word[0]) and not _inside_word(low[end : end + 1], word[-1]):
            found.append(at)
        at = low.find(word, at + 1)
    return found


def _inside_word(char: str, edge: str) -> bool:
    """Does a neighbour belong to the same word as the edge of a value? Chinese words have no edges."""
    return bool(char) and (char.isalnum() or char in "'’") and max(char, edge) < "\u2e80"


def _join(low: str, found: list[Reading]) -> list[Reading]:
    """Neighbouring values of a list, joined by commas and `and`, are one array."""
    found = sorted(found, key=lambda r: (r.start, -(r.end - r.start)))
    runs: list[list[Reading]] = []
    for reading in found:
        if runs and reading.start < runs[-1][-1].end:
            continue
        if runs and re.fullmatch(r",? (?:and )?|, ?|、|，?(?:和|以及|还有)", low[runs[-1][-1].end : reading.start]):
            runs[-1].append(reading)
        else:
            runs.append([reading])
    return [Reading([r.argument for r in run], run[0].start, run[-1].end, 1) for run in runs]
