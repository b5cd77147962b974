"""Numbers, dates, times and words in Chinese text; `pipelines.normal` calls these beside its English finders.

Chinese puts no spaces between words, so a number ends where its digits or numerals end, and the words of
a text are the overlapping pairs of its characters. Spans are `(start, end, value)`.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

Span = tuple[int, int, object]

HAN = "\u3400-\u9fff"
_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_MEASURES = (
    "个件份位人天晚夜次张台双盒瓶袋包块元楼室本条杯支套组箱公斤小年月周星礼桌间辆部首集页席折名只把盘碗串"
    "笼卷根枚段场排层站种颗口顿公英度届轮期封首遍"
)
_NUMERAL = "[零〇一二两三四五六七八九十百千万亿]"
_FRACTION = "点[零〇一二三四五六七八九]+"
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.,\-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?P<unit>[百千万亿])?(?![A-Za-z0-9_]|[.,\-]\d)")
_NUMERALS = re.compile(
    rf"(?<![第几好上成万千百\d])(?!十分|万一|千万){_NUMERAL}+(?:{_FRACTION}(?![分刻]))?(?=多?[{_MEASURES}])"
    rf"|(?<!\w){_NUMERAL}+(?:{_FRACTION})?(?!\w)"
)
_DAY = r"\d{1,2}|[一二两三四五六七八九十]{1,3}"
_DATE = re.compile(
    rf"(?P<iso>(?<!\d)\d{{4}}-\d\d-\d\d(?!\d))"
    rf"|(?:(?P<y>\d{{4}})年)?(?<!\d)(?P<m>{_DAY})月(?P<d>{_DAY})[日号]"
    r"|(?P<rel>今天|今晚|今早|明天|明晚|明早|大后天|后天)"
    r"|(?<![每隔一两二三四五六七八九十\d])(?P<week>下下|下|这|本)?个?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])(?![小个]?[次天])"
    rf"|(?P<n>{_DAY})(?P<unit>天|周|个?星期|个?礼拜)[之以]?后"
)
_PERIODS = "凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|今晚|明晚|今早|明早"
_TIME = re.compile(
    rf"(?P<period>{_PERIODS})?(?P<h>(?<!\d)\d{{1,2}}|(?<![一二两三四五六七八九十])二?十[一二三四五六七八九]?|(?<![十百千])[一二两三四五六七八九])点"
    r"(?:(?P<half>半)|(?P<quarter>[一三])刻|(?P<m>\d{1,2}|[一二三四五]?十[一二三四五六七八九]?)分|(?P<plain>钟|整(?!理)))?"
    rf"|(?P<period2>{_PERIODS})?(?<![\d:])(?P<h24>[01]?\d|2[0-3])[:：](?P<m24>[0-5]\d)(?![\d:]| ?[ap]\.?m)"
    r"|(?P<word>正午|午夜)"
)


_ANY = re.compile(f"[{HAN}]")


def in_text(text: str) -> bool:
    """Does a text hold any Chinese character?"""
    return _ANY.search(text) is not None


def numeral(text: str) -> float | None:
    """`三百二十` is 320, `两` 2, `二〇二六` 2026, `三点五` 3.5; None when it is no number.

    A digit that ends the word after a unit counts in the next smaller one: `三千五` is 3,500.
    """
    if "点" in text:
        whole, _, fraction = text.partition("点")
        value = numeral(whole)
        told = all(char in _DIGITS for char in fraction)
        return None if value is None or not fraction or not told else float(f"{value:.0f}.{''.join(str(_DIGITS[c]) for c in fraction)}")
    if "亿" in text:
        before, _, after = text.partition("亿")
        high, low = numeral(before), numeral(after) if after else 0
        return None if high is None or low is None else high * 100_000_000 + low
    if all(char in _DIGITS for char in text):
        return int("".join(str(_DIGITS[char]) for char in text)) if text else None
    total, section, digit, last = 0, 0, -1, 1
    for char in text:
        if char in _DIGITS:
            if digit > 0:
                return None
            digit = _DIGITS[char]
            if digit == 0:
                last = 1
        elif char in _UNITS:
            section += (1 if digit < 0 else digit) * _UNITS[char]
            digit, last = -1, _UNITS[char]
        elif char == "万":
            total, section = (total + section + max(digit, 0)) * 10_000, 0
            digit, last = -1, 10_000
        else:
            return None
    return total + section + max(digit, 0) * (last // 10 if last >= 100 else 1)


def _count(text: str) -> int:
    found = int(text) if text.isdigit() else numeral(text)
    if found is None:
        raise ValueError(text)
    return int(found)


def find_numbers(text: str) -> list[Span]:
    """Digits that stand against Chinese letters (`300元`, `3万`), and numerals before a measure word (`三个`)."""
    found: list[Span] = []
    for match in _NUMBER.finditer(text):
        factor = {"百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}.get(match["unit"] or "", 1)
        digits = match.group().removesuffix(match["unit"] or "").replace(",", "")
        found.append((match.start(), match.end(), float(digits) * factor))
    for match in _NUMERALS.finditer(text):
        value = numeral(match.group())
        if value is not None:
            found.append((match.start(), match.end(), float(value)))
    return found


def find_dates(text: str, today: date) -> list[Span]:
    """`3月14日`, `明天`, `下周五`, `三天后`: the value is a date.

    `周五` is the next Friday after today, `这周五` that of this week (Monday to Sunday), `下周五` that of the next.
    """
    found: list[Span] = []
    for match in _DATE.finditer(text):
        try:
            found.append((match.start(), match.end(), _day(match.groupdict(), today)))
        except (ValueError, OverflowError):
            continue
    return found


def _day(part: dict[str, str | None], today: date) -> date:
    if part["iso"]:
        return date.fromisoformat(part["iso"])
    if part["m"] and part["d"]:
        day = date(int(part["y"] or today.year), _count(part["m"]), _count(part["d"]))
        return day if part["y"] or day >= today else day.replace(year=today.year + 1)
    if part["rel"]:
        return today + timedelta(days={"今": 0, "明": 1, "后": 2, "大": 3}[part["rel"][0]])
    if part["n"]:
        return today + timedelta(days=_count(part["n"]) * (1 if part["unit"] == "天" else 7))
    wanted = "一二三四五六日".find((part["day"] or "日").replace("天", "日"))
    if part["week"] is None:
        return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    weeks = {"下": 1, "下下": 2}.get(part["week"], 0)
    return today + timedelta(days=7 * weeks - today.weekday() + wanted)


def find_times(text: str) -> list[Span]:
    """`晚上7点半`, `下午三点一刻`, `19:30`: the value is `HH:MM`. `7点` alone could mean both halves of the day and is no time."""
    found: list[Span] = []
    for match in _TIME.finditer(text):
        part = match.groupdict()
        if part["word"]:
            found.append((match.start(), match.end(), "12:00" if part["word"] == "正午" else "00:00"))
            continue
        hour = int(part["h24"]) if part["h24"] else _count(part["h"])
        minute = int(part["m24"]) if part["m24"] else _minute(part)
        clear = part["period"] or part["h24"] or part["half"] or part["quarter"] or part["m"] or part["plain"] or hour > 12
        hour = _of_day(hour, part["period"] or part["period2"] or "")
        if clear and 0 <= hour < 24 and 0 <= minute < 60:
            found.append((match.start(), match.end(), f"{hour:02d}:{minute:02d}"))
    return found


def _minute(part: dict[str, str | None]) -> int:
    if part["half"]:
        return 30
    if part["quarter"]:
        return 15 if part["quarter"] == "一" else 45
    return _count(part["m"]) if part["m"] else 0


def _of_day(hour: int, period: str) -> int:
    late = period.endswith("晚上") or period in ("下午", "傍晚", "夜里", "今晚", "明晚")
    if late and hour < 12:
        return hour + 12
    if period == "中午" and hour < 3:
        return hour + 12
    return 0 if hour == 12 and (late or period == "凌晨") and period != "下午" else hour


_PARTS = re.compile(rf"[{HAN}]+|[^{HAN}]+")


def split_words(word: str) -> list[str]:
    """A run of letters as words: Chinese as overlapping pairs of characters, the rest as it is."""
    if word.isascii():
        return [word]
    found: list[str] = []
    for part in _PARTS.findall(word):
        pairs = [part[i : i + 2] for i in range(len(part) - 1)] if "\u3400" <= part[0] <= "\u9fff" else []
        found += pairs or [part]
    return found


COMMON_PAIRS = frozenset(
    {"是否", "需要", "可以", "一个", "这个", "那个", "如果", "或者", "以及", "进行", "使用"}
    | {"我的", "要不", "不要", "还是", "时候", "请在", "有没", "没有", "就行", "就好", "帮我"}
)
"""Pairs that prove nothing when a description and a sentence share them."""
