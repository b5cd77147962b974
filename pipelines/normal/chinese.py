"""Chinese numerals, dates and times of day."""

from __future__ import annotations

import re
from datetime import date, timedelta

DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_GROUPS = {"万": 10_000, "亿": 100_000_000}
NUMERAL = re.compile(r"[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?")
_NUMBER = r"(?:\d{1,2}|[零〇一二两三四五六七八九十]{1,3})"
DATE = re.compile(
    rf"(?:(?P<y>\d{{4}})年)?(?P<m>{_NUMBER})月(?P<d>{_NUMBER})[日号]"
    r"|(?P<rel>今天|今晚|明天|明晚|后天|大后天)"
    r"|(?P<next>下下?|这|本)?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])"
    rf"|(?P<n>{_NUMBER})(?P<unit>天|周|个?星期)[之以]?后"
)
TIME = re.compile(rf"(?P<half>凌晨|早上|上午|中午|下午|傍晚|晚上)?(?P<h>{_NUMBER})[点时](?:(?P<m>{_NUMBER})分?|(?P<part>半|一刻|三刻))?")
_DAYS = {"今天": 0, "今晚": 0, "明天": 1, "明晚": 1, "后天": 2, "大后天": 3}


def numeral(text: str) -> float | None:
    """The value of a Chinese numeral (三十五, 一千二百, 两万, 三点五), or of digits; None when it is none."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    whole, _, fraction = text.partition("点")
    if not whole or any(c not in DIGITS and c not in _PLACES and c not in _GROUPS for c in whole):
        return None
    if all(c in DIGITS for c in whole):
        value = float("".join(str(DIGITS[c]) for c in whole))
    else:
        total = group = digit = 0
        for char in whole:
            if char in DIGITS:
                digit = DIGITS[char]
            elif char in _PLACES:
                group += (digit or 1) * _PLACES[char]
                digit = 0
            else:
                total = (total + group + digit) * _GROUPS[char]
                group = digit = 0
        value = float(total + group + digit)
    if fraction:
        value += float("0." + "".join(str(DIGITS[c]) for c in fraction))
    return value


def day_of(match: re.Match[str], today: date) -> date | None:
    """The day that a match of `DATE` means; weeks begin on Monday."""
    part = match.groupdict()
    try:
        if part["m"]:
            day = date(int(part["y"] or today.year), int(numeral(part["m"]) or 0), int(numeral(part["d"]) or 0))
            return day if part["y"] or day >= today else day.replace(year=today.year + 1)
        if part["rel"]:
            return today + timedelta(days=_DAYS[part["rel"]])
        if part["n"]:
            return today + timedelta(days=int(numeral(part["n"]) or 0) * (1 if part["unit"] == "天" else 7))
        wanted = "一二三四五六日".index("日" if part["day"] == "天" else part["day"])
        ahead = len(part["next"]) if part["next"] in ("下", "下下") else 0
        if ahead or part["next"]:
            return today + timedelta(days=7 * ahead - today.weekday() + wanted)
        return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)
    except (ValueError, OverflowError):
        return None


def time_of(match: re.Match[str]) -> str | None:
    """`HH:MM` of a match of `TIME`; None when there is no such time."""
    hour, minute = numeral(match["h"]), numeral(match["m"]) if match["m"] else 0
    minute = {"半": 30, "一刻": 15, "三刻": 45}.get(match["part"] or "", minute)
    if hour is None or minute is None or hour > 24 or minute > 59:
        return None
    if match["half"] in ("下午", "傍晚", "晚上") and hour < 12:
        hour += 12
    if match["half"] == "中午" and hour < 3:
        hour += 12
    return f"{int(hour) % 24:02d}:{int(minute):02d}"
