"""How the offline model says values in Chinese; `concepts.py` does it in English."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import date

from pipelines.llm.offline.knowledge import Concept

DIGITS = "零一两三四五六七八九十"
WEEKDAYS = "一二三四五六日"
MONEY_AFTER = ("元", "块")


def say_money(rng: random.Random, amount: float) -> str:
    """`300元`, now and then `300块`."""
    return f"{amount:g}{rng.choice(['元', '元', '元', '块'])}"


def say_count(rng: random.Random, count: int, concept: Concept) -> str:
    """A number in digits; a small one also as a numeral where every clause puts a measure word behind it."""
    measured = all(_measured(clause) for clause in concept.say)
    return DIGITS[count] if measured and 0 < count <= 10 and rng.random() < 0.5 else str(count)


def _measured(clause: str) -> bool:
    after = clause.partition("{}")[2]
    return bool(after) and after[0] not in "，。、 " and "第{}" not in clause


def listed(items: Sequence[str]) -> str:
    """`甲`, `甲和乙`, `甲、乙和丙`."""
    return items[0] if len(items) == 1 else f"{'、'.join(items[:-1])}和{items[-1]}"


def say_date(rng: random.Random, day: date, today: date) -> str:
    """A date as a person says it; it means the same when read back."""
    ahead = (day - today).days
    forms = [f"{day.month}月{day.day}日", f"{day.month}月{day.day}号", f"{day.month}月{day.day}号"]
    weekday, weeks = WEEKDAYS[day.weekday()], (ahead + today.weekday()) // 7
    if ahead <= 2:
        forms = [("今天", "明天", "后天")[ahead]] * 2 + (forms[:1] if ahead else [])
    elif weeks == 0:
        forms += [f"这周{weekday}", f"周{weekday}"]
    elif weeks == 1:
        forms += [f"下周{weekday}", f"下周{weekday}"]
    return rng.choice(forms)


def say_time(rng: random.Random, hour: int, minute: int) -> str:
    """A time of day as a person says it."""
    period = next(
        name for limit, name in ((6, "凌晨"), (9, "早上"), (12, "上午"), (13, "中午"), (18, "下午"), (24, "晚上")) if hour < limit
    )
    spoken = {0: "", 15: "一刻", 30: "半", 45: "三刻"}.get(minute, f"{minute}分")
    if minute in (15, 45) and rng.random() < 0.5:
        spoken = f"{minute}分"
    short = f"{period}{hour % 12 or 12}点{spoken}"
    return f"{hour:02d}:{minute:02d}" if hour == 0 else rng.choice([short, short, short, f"{hour:02d}:{minute:02d}"])


def is_chinese(text: str) -> bool:
    """Does it hold any Chinese character?"""
    return any("\u3400" <= char <= "\u9fff" for char in text)


def noun(description: str) -> str:
    """What a parameter is called in a sentence: the beginning of its description, if it is Chinese and short."""
    first = re.split(r"[，。；：、（(,.;:]", description.strip())[0].strip()
    return first if is_chinese(first) and len(first) <= 14 else ""


_LEADING = re.compile(
    r"^(?:(?:该|此|这个|本)?(?:接口|工具|函数|方法|服务|功能|API)(?:是)?)?(?:可以?用(?:来|于)|用(?:来|于)|可以|能够|允许您?|支持|负责)?"
)


def phrase(description: str) -> str:
    """What a tool does, as something one can ask for: `查询天气`, from its description."""
    first = re.split(r"[。；！？\n]", description.strip())[0].strip()
    return re.sub(r"[{}\"]", "", _LEADING.sub("", first) or first)[:60]
