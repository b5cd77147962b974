"""Numbers, amounts, dates, times, phones and addresses in normal form; and what only looks like them."""

from __future__ import annotations

from datetime import date

import pytest

from pipelines import normal
from pipelines.normal import chinese, units

TODAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("forty-five, two hundred and ten, a hundred", [45, 210, 100]),
        ("1,250.50 and 1.5kg", [1250.5, 1.5]),
        ("version 3.4.5", []),
        ("３５个", [35]),
        ("要三十五个，两万，三点五", [35, 20000, 3.5]),
        ("一千二百零三", [1203]),
        ("someone tends often", []),
    ],
)
def test_numbers(text: str, values: list[float]):
    assert [found.value for found in normal.find_numbers(normal.fold(text))] == values


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("明天", date(2026, 3, 3)),
        ("下周五", date(2026, 3, 13)),
        ("周五", date(2026, 3, 6)),
        ("三月五日", date(2026, 3, 5)),
        ("2月1日", date(2027, 2, 1)),
        ("三天后", date(2026, 3, 5)),
        ("next Friday", date(2026, 3, 13)),
    ],
)
def test_dates_count_from_the_day_of_the_query(text: str, day: date):
    assert [found.value for found in normal.find_dates(text, TODAY)] == [day]


@pytest.mark.parametrize("text", ["2月30日", "13月1日", "May the 40th", "someday"])
def test_days_that_do_not_exist_are_no_dates(text: str):
    assert normal.find_dates(text, TODAY) == []


@pytest.mark.parametrize(
    ("text", "time"), [("下午三点半", "15:30"), ("晚上8点15分", "20:15"), ("7:30 pm", "19:30"), ("中午十二点", "12:00")]
)
def test_times(text: str, time: str):
    assert [found.value for found in normal.find_times(text)] == [time]


def test_amounts_keep_their_unit():
    found = units.find_amounts("2 kg for $40 within 90 minutes, 3 left")

    assert [(amount.value, amount.unit) for amount in found] == [(2, "kg"), (40, "usd"), (90, "min"), (3, None)]


def test_units_convert_within_a_kind_and_never_between_currencies():
    assert units.convert(2, "kg", "g") == 2000
    assert units.convert(2, "kg", "km") is None
    assert units.convert(2, "usd", "eur") is None


@pytest.mark.parametrize(
    ("text", "unit"), [("weight_g", "g"), ("maxLengthMinutes", "min"), ("kg or lb", None), ("days", None), ("name", None)]
)
def test_a_parameter_names_its_unit_or_none(text: str, unit: str | None):
    assert units.unit_named(text) == unit


@pytest.mark.parametrize(
    ("text", "digits"),
    [("(212) 555-0117", "2125550117"), ("+1 212 555 0117", "+12125550117"), ("2026-03-14", None), ("555", None), ("order 12", None)],
)
def test_phone_numbers(text: str, digits: str | None):
    assert units.phone_digits(text) == digits


def test_addresses_are_one_whatever_their_punctuation_and_abbreviations():
    assert units.plain_address("14 Birch Street, Dayton") == units.plain_address("14 birch st dayton")
    assert units.plain_address("14 Birch Street") != units.plain_address("41 Birch Street")


def test_a_numeral_that_is_none_has_no_value():
    assert chinese.numeral("好") is None
    assert chinese.numeral("") is None
