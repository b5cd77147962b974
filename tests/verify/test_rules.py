"""Every rule catches a planted defect of its kind, and lets the sound item pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from making import Made

from pipelines.records import PlannedArgument, Source
from pipelines.verify.rules import RULES, Item, first_broken
from pipelines.verify.said import said
from pipelines.world import flatten, unflatten


def plain(made: Made) -> list[Item]:
    """Items with one call and no control."""
    return [item for item in made.items() if item.slot.control is None and len(item.solution.calls) == 1]


def with_call(item: Item, **changes: Any) -> Item:
    call = item.solution.calls[0].model_copy(update=changes)
    return replace(item, solution=item.solution.model_copy(update={"calls": [call]}))


def with_text(item: Item, text: str) -> Item:
    return replace(item, query=item.query.model_copy(update={"text": text}))


def with_slot(item: Item, **changes: Any) -> Item:
    return replace(item, query=item.query.model_copy(update={"slot": item.query.slot.model_copy(update=changes)}))


def with_value(item: Item, path: str, value: Any) -> Item:
    flat = {**item.flat[0], path: value}
    return with_call(item, arguments=unflatten(flat))


def without(item: Item, path: str) -> Item:
    call = item.solution.calls[0]
    flat = {key: value for key, value in item.flat[0].items() if key != path}
    return with_call(item, arguments=unflatten(flat), sources={k: v for k, v in call.sources.items() if k != path})


def first_path(item: Item, kind: str = "query", of: type = str) -> str:
    sources = item.solution.calls[0].sources
    return next(path for path, value in item.flat[0].items() if sources[path].kind == kind and isinstance(value, of))


def has(item: Item, kind: str, of: type = str) -> bool:
    return any(s.kind == kind and isinstance(item.flat[0].get(p), of) for p, s in item.solution.calls[0].sources.items())


def required(item: Item) -> str:
    api = item.apis[0]
    assert api is not None
    return next(leaf.path for leaf in item.cell.world.leaves_of[api.id] if leaf.required)


def other_platform(item: Item) -> str:
    return next(p.id for p in item.cell.scenario.platforms if p.id != item.solution.platform)


def rivals_api(item: Item) -> Item:
    rival = next(
        a for a in item.cell.world.serving[item.cell.scenario.id, item.query.slot.capability] if a.platform != item.solution.platform
    )
    return with_call(item, api=rival.name)


def another_api(item: Item) -> Item:
    world = item.cell.world
    api = next(a for a in world.apis_of[item.solution.platform] if a.capability != item.query.slot.capability)
    return with_call(item, api=api.name, arguments={}, sources={})


def shifted(item: Item) -> Item:
    path = next(p for p, v in item.flat[0].items() if isinstance(v, (int, float)) and not isinstance(v, bool))
    return with_value(item, path, item.flat[0][path] + 1)


def number_in(item: Item) -> bool:
    sources = item.solution.calls[0].sources
    return any(isinstance(v, (int, float)) and not isinstance(v, bool) and sources[p].kind == "query" for p, v in item.flat[0].items())


def enum_path(item: Item) -> str | None:
    api = item.apis[0]
    assert api is not None
    return next((leaf.path for leaf in item.cell.world.leaves_of[api.id] if "enum" in leaf.schema and leaf.path in item.flat[0]), None)


def leaked_profile(item: Item) -> Item:
    feature = next(a.feature for a in item.query.slot.arguments if a.source == "profile")
    return with_text(item, f"{item.query.text} As you know: {item.cell.profile.basic[feature]}.")


def leaked_preference(item: Item) -> Item:
    words = next(p.words for p in item.cell.profile.preferences if p.scenario == item.cell.scenario.id)
    return with_text(item, f"{item.query.text} {words}")


def resourced(kind: str, at: str, instead_of: str = "query") -> Callable[[Item], Item]:
    """Another source for an argument that came from the query, or the profile."""

    def plant(item: Item) -> Item:
        sources = item.solution.calls[0].sources
        return with_call(item, sources={**sources, first_path(item, instead_of): Source(kind=kind, at=at)})

    return plant


def said_too(text: str) -> Callable[[Item], Item]:
    return lambda item: with_text(item, f"{item.query.text} {text}")


def free_text(item: Item) -> bool:
    return has(item, "query") and not enum_path(item) and not item.flat[0][first_path(item)][0].isdigit()


def always(_: Item) -> bool:
    return True


def from_query(item: Item) -> bool:
    return has(item, "query")


def from_profile(item: Item) -> bool:
    return has(item, "profile")


def dated(item: Item) -> bool:
    sources = item.solution.calls[0].sources
    return any(isinstance(v, str) and re.fullmatch(r"20\d\d-\d\d-\d\d", v) and sources[p].kind == "query" for p, v in item.flat[0].items())


GHOST = PlannedArgument(path="ghost", source="query")
DEFECTS: dict[str, tuple[str, Callable[[Item], Any], Callable[[Item], Item]]] = {
    "platform named": ("platform_named", always, lambda i: said_too(f"Use {i.cell.scenario.platforms[0].name}!")(i)),
    "platform named in capitals": ("platform_named", always, lambda i: said_too(i.cell.scenario.platforms[-1].name.upper())(i)),
    "profile value told": ("profile_told", from_profile, leaked_profile),
    "preference repeated": ("preference_stated", always, leaked_preference),
    "preference in the first person": ("preference_stated", always, said_too("I care about quality.")),
    "hallucinated API": ("unknown_api", always, lambda i: with_call(i, api="do_everything")),
    "rival's API": ("unknown_api", always, rivals_api),
    "hallucinated parameter": ("unknown_parameter", always, lambda i: with_value(i, "express_lane", True)),
    "missing required": ("missing_required", always, lambda i: without(i, required(i))),
    "wrong enum": ("schema_invalid", enum_path, lambda i: with_value(i, enum_path(i) or "", "no such value")),
    "broken type": ("schema_invalid", from_query, lambda i: with_value(i, first_path(i), 12345)),
    "argument without source": ("source_missing", from_query, lambda i: with_call(i, sources={})),
    "source without argument": (
        "source_missing",
        always,
        lambda i: with_call(i, sources={**i.solution.calls[0].sources, "ghost": Source(kind="query", at="x")}),
    ),
    "value off by one": ("unreachable_value", number_in, shifted),
    "invented value": ("unreachable_value", free_text, lambda i: with_value(i, first_path(i), "quite another thing")),
    "quote the query does not hold": ("unreachable_value", from_query, resourced("query", "never said")),
    "empty quote": ("unreachable_value", from_query, resourced("query", " ")),
    "a second date": ("stray_date", dated, said_too("My sister's party is on 27 June.")),
    "wrong profile feature": ("unreachable_value", from_profile, resourced("profile", "age", "profile")),
    "history that does not hold it": ("unreachable_value", from_query, resourced("history", "e999")),
    "default that is none": ("unreachable_value", from_query, resourced("default", "")),
    "source that proves nothing": ("unreachable_value", from_query, resourced("derived", "trust me")),
    "ambiguous preference": ("ambiguous_preference", always, lambda i: replace(i, min_margin=0.999)),
    "second call": (
        "plan_not_followed",
        always,
        lambda i: replace(i, solution=i.solution.model_copy(update={"calls": i.solution.calls * 2})),
    ),
    "unplanned argument": (
        "plan_not_followed",
        lambda i: len(i.query.slot.arguments) > 1,
        lambda i: with_slot(i, arguments=i.query.slot.arguments[:-1]),
    ),
    "planned argument left out": ("plan_not_followed", always, lambda i: with_slot(i, arguments=[*i.query.slot.arguments, GHOST])),
    "Def. 3.2 without a profile value": (
        "kind_not_met",
        lambda i: not from_profile(i),
        lambda i: with_slot(i, kinds=["profile_dependent"]),
    ),
    "another language": ("wrong_language", always, lambda i: with_text(i, "请帮我处理一下这件事情。" * len(i.query.text))),
    "needless question": (
        "wrong_act",
        always,
        lambda i: replace(i, solution=i.solution.model_copy(update={"act": "ask", "calls": [], "missing": ["platform"]})),
    ),
    "history that points elsewhere": ("not_identifiable", always, lambda i: replace(i, min_posterior=0.9999)),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_caught_by_the_rule_of_its_kind(varied: Made, defect: str):
    rule, fits, plant = DEFECTS[defect]
    tried = 0
    for item in plain(varied):
        if fits(item):
            tried += 1
            broken = first_broken(plant(item))
            assert broken is not None, item.query.text
            assert broken[0] == rule, broken
    assert tried >= 3, f"only {tried} samples can carry the defect"


def test_every_rule_has_a_defect_planted_for_it():
    by_structure = {"no_rival", "preference_mismatch", "other_capability"}
    of_controls = {"tool_fits", "settled_after_all", "asks_for_another", "override_not_real", "profile_matters", "last_time_not_said"}

    assert {rule.__name__ for rule in RULES} == {rule for rule, _, _ in DEFECTS.values()} | by_structure | of_controls


def test_a_sound_item_passes_every_rule(varied: Made):
    assert [first_broken(item) for item in varied.items()] == [None] * len(varied.samples)


def test_a_right_call_on_another_platform_is_a_mismatch(varied: Made):
    rule = next(r for r in RULES if r.__name__ == "preference_mismatch")
    for item in plain(varied):
        assert rule(replace(item, solution=item.solution.model_copy(update={"platform": other_platform(item)}))) is not None
        assert rule(item) is None


def test_a_capability_with_one_server_has_no_rival(varied: Made):
    rule = next(r for r in RULES if r.__name__ == "no_rival")
    item = plain(varied)[0]
    slot = item.query.slot
    world = item.cell.world
    alone = [a for a in world.apis if a.capability != slot.capability or a.platform == item.solution.platform]
    lonely = replace(item, cell=replace(item.cell, world=type(world)(world.scenarios, alone, world.features)))

    assert rule(lonely) is not None
    assert rule(item) is None


def test_a_call_for_another_purpose_is_another_capability(varied: Made):
    rule = next(r for r in RULES if r.__name__ == "other_capability")
    for item in plain(varied):
        assert rule(another_api(item)) is not None
        assert rule(item) is None


@pytest.mark.parametrize(
    ("value", "words", "path", "schema"),
    [
        (40, "for under $40", "max_price", {}),
        (1250.5, "1,250.50 dollars", "amount", {}),
        (3, "three of them", "quantity", {}),
        ("2026-03-06", "on Friday", "day", {}),
        ("2026-03-13", "next Friday", "day", {}),
        ("2026-03-03", "tomorrow", "day", {}),
        ("2026-03-14", "March 14", "day", {}),
        ("2026-03-14", "the 14th of March", "day", {}),
        ("19:30", "at 7:30 pm", "time", {}),
        (2000, "two kilos of it", "weight_g", {}),
        (90, "for an hour and a half, so 1.5 hours", "duration", {"description": "Length in minutes."}),
        (45, "forty-five of them", "count", {}),
        ("2125550117", "call (212) 555-0117", "phone", {}),
        ("14 Birch St, Dayton", "to 14 Birch Street in case, I mean 14 birch street dayton", "address", {}),
        ("07:00", "7am", "time", {}),
        ("12:00", "at noon", "time", {}),
        ("next_day", "next-day delivery", "speed", {}),
        ("Kungsgatan ７", "kungsgatan 7", "street", {}),
        (True, "gift-wrap it please", "gift_wrap", {"description": "Whether to gift-wrap the parcel."}),
        (True, "with breakfast", "includeBreakfast", {}),
        (["a kettle", "AA batteries"], "AA batteries and a kettle", "items", {}),
    ],
)
def test_words_that_say_a_value_say_it(value: Any, words: str, path: str, schema: dict):
    from datetime import date

    assert said(value, words, path, schema, date(2026, 3, 2))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (4, "for under $40"),
        (5, "forty-five of them"),
        (1, "1.5 of it"),
        ("2125550118", "call (212) 555-0117"),
        (41, "for under $40"),
        (40.01, "for under $40"),
        ("2026-03-07", "on Friday"),
        ("2026-03-06", "next Friday"),
        ("2027-03-14", "March 14"),
        ("19:30", "at 7:30 am"),
        ("19:00", "at 25:00"),
        ("Kungsgatan 77", "Kungsgatan 7"),
        ("Kungsgatan 7", "Kungsgatan 77"),
        (True, "leave it as it is"),
        (False, "no gift wrap"),
        ([], "nothing"),
        ("", "anything"),
        (["a kettle", "a toaster"], "a kettle"),
        (None, "none"),
    ],
)
def test_words_that_do_not_say_a_value_do_not(value: Any, words: str):
    from datetime import date

    assert not said(value, words, "gift_wrap", {}, date(2026, 3, 2))


def test_flattening_and_back_is_the_same():
    schema = {"properties": {"a": {"properties": {"b": {"type": "string"}, "c": {"type": "integer"}}}, "d": {"type": "array"}}}
    arguments = {"a": {"b": "x", "c": 3}, "d": [1, 2]}

    assert unflatten(flatten(arguments, schema)) == arguments
