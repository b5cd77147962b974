"""Chinese numbers, dates and times are found without spaces, and words count in pairs of characters."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from pipelines import normal
from pipelines.llm.offline import chinese
from pipelines.normal.chinese import numeral
from pipelines.records import Platform, Preference, Profile, TraitLevel
from pipelines.verify import leaks

MONDAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("预算300元以内", 300), ("一共要三件", 3), ("两百个", 200), ("3万块", 30_000), ("三千五百元", 3500), ("1,299元", 1299),
        ("来十二份", 12), ("三", 3), ("住2晚", 2),
    ],
)  # fmt: skip
def test_a_number_is_found_against_chinese_letters(text: str, value: float):
    assert value in [found.value for found in normal.find_numbers(text)]


@pytest.mark.parametrize("text", ["先看一下", "十分感谢", "万一来不及", "有一点贵", "一起去"])
def test_words_that_only_contain_a_numeral_are_no_numbers(text: str):
    assert normal.find_numbers(text) == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("3月14日送到", date(2026, 3, 14)), ("三月十四号", date(2026, 3, 14)), ("明天来", date(2026, 3, 3)), ("大后天", date(2026, 3, 5)),
        ("这周五出发", date(2026, 3, 6)), ("下周五之前", date(2026, 3, 13)), ("周日见", date(2026, 3, 8)), ("三天后", date(2026, 3, 5)),
        ("两周后", date(2026, 3, 16)), ("1月5号", date(2027, 1, 5)),
        ("2027年1月5日", date(2027, 1, 5)), ("改到2026-03-14吧", date(2026, 3, 14)),
    ],
)  # fmt: skip
def test_a_date_counts_from_the_day_of_the_query(text: str, day: date):
    assert [found.value for found in normal.find_dates(text, MONDAY)] == [day]


@pytest.mark.parametrize("text", ["每周三都去", "一周三次", "13月40日"])
def test_what_only_looks_like_a_date_is_none(text: str):
    assert normal.find_dates(text, MONDAY) == []


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("晚上7点半", "19:30"), ("下午三点一刻", "15:15"), ("19:30开始", "19:30"), ("早上8点45分", "08:45"), ("中午12点", "12:00"),
        ("晚上7:30", "19:30"), ("凌晨12点", "00:00"), ("十九点整", "19:00"), ("19点", "19:00"), ("早点来，晚点也行", None),
    ],
)  # fmt: skip
def test_a_time_of_day_is_found(text: str, clock: str | None):
    assert [found.value for found in normal.find_times(text)] == ([clock] if clock else [])


def test_a_clock_without_half_of_the_day_is_no_time():
    assert normal.find_times("7点左右") == []


@pytest.mark.parametrize(
    ("text", "value"), [("三千五", 3500), ("一万二", 12_000), ("两千零五", 2005), ("二〇二六", 2026), ("百", 100), ("甲", None)]
)
def test_numerals_are_read(text: str, value: int | None):
    assert numeral(text) == value


def test_dates_and_times_mean_the_same_when_read_back():
    rng = random.Random(3)
    for ahead in range(60):
        day = MONDAY + timedelta(days=ahead)
        for _ in range(6):
            said = chinese.say_date(rng, day, MONDAY)
            assert day in [found.value for found in normal.find_dates(f"就{said}吧", MONDAY)], said
    for hour in range(24):
        for minute in (0, 15, 20, 30, 45):
            for _ in range(4):
                said = chinese.say_time(rng, hour, minute)
                assert f"{hour:02d}:{minute:02d}" in [found.value for found in normal.find_times(f"定在{said}吧")], said


def test_two_chinese_queries_that_differ_in_a_word_are_near_duplicates():
    first = "帮我在网上找一台适合租房用的小洗衣机，预算一千块以内，下周五之前送到公司前台就行，谢谢你啦"
    assert leaks.not_a_duplicate(first + "！", [leaks.word_set(first)]) is not None
    assert leaks.not_a_duplicate("帮我订一张下周去成都的高铁票", [leaks.word_set(first)]) is None


def profile(words: str) -> Profile:
    wish = Preference(scenario="s", context="c", words=words, priorities=["price"], weights={"price": 1.0})
    return Profile(id="u0001", basic={}, preferences=[wish], timezone="Asia/Shanghai", language="zh", path=[0])


def test_eight_characters_of_a_hidden_preference_state_it_without_any_space(tiny):
    scenario = next(iter(tiny.people.world.scenarios)).model_copy(update={"id": "s", "contexts": []})
    hidden = profile("王芳每一分钱都要算清楚，其次讨厌等快递。")

    assert leaks.preference_not_stated("买个水壶，我每一分钱都要算清楚的", hidden, scenario) is not None
    assert leaks.preference_not_stated("买个水壶，别忘了算清楚运费", hidden, scenario) is None
    assert leaks.preference_not_stated("对我来说最重要的是快", hidden, scenario) is not None


def test_a_platform_is_found_between_chinese_letters():
    platforms = [Platform(id="s/haulwick", name="Haulwick", description="x", traits={"t": TraitLevel(level=0.5, phrase="x")})]

    assert leaks.platform_not_named("请在Haulwick上下单买水壶", platforms) is not None
    assert leaks.platform_not_named("请下单买水壶", platforms) is None


@pytest.mark.parametrize(
    ("text", "language", "fine"),
    [
        ("按关键词查找商品。", "zh", True), ("住处所在的 IANA 时区。", "zh", True), ("Search for items", "zh", False),
        ("查找商品，sorted by the price。", "zh", False), ("Searches items by words.", "en", True), ("查找商品", "en", False),
        ("Searches items, 按关键词查找", "en", False), ("Written 北京 in Chinese.", "en", True),
    ],
)  # fmt: skip
def test_a_description_is_in_one_language(text: str, language: str, fine: bool):
    assert (leaks.description_is(text, language) is None) is fine


def test_an_address_does_not_make_a_chinese_query_english():
    assert leaks.language_is("消息发到lan.qiu@example.com和m.ouyang@example.net", "zh") is None
