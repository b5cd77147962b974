"""People: typed, free of contradictions, different, reaching nobody; favourites that flip and platforms that share."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pytest
from making import Made
from scripted import Scripted, context, settings

from pipelines import config
from pipelines.errors import ChecksFailed, ConfigError
from pipelines.profiles import assign_basics, assign_profiles
from pipelines.profiles.diversity import block_correlation, cramers_v, distances, spread
from pipelines.profiles.plausible import first_contradiction
from pipelines.profiles.preferences import SHARE, Chooser, Person, favourites, out_of_range, usable
from pipelines.records import Profile
from pipelines.replies import WishReply
from pipelines.stage import StageResult
from pipelines.world import margin, ranking

TODAY = date(2026, 3, 2)
SOUND = {
    "age": 41, "birthday": "1984-05-01", "life_stage": "mid_career", "occupation": "lawyer", "home_city": "Leeds", "household_size": 2,
    "home_address": "1 Elm Row, Leeds LS1 1AA", "work_address": "9 Low St, Leeds LS2 2BB", "time_zone": "Europe/London",
    "phone": "0113 496 0123", "email": "a.b@example.org", "work_email": "ab@example.com",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, None),
        ({"age": 25}, "age_fits_birthday"),
        ({"birthday": "1984-13-01"}, "age_fits_birthday"),
        ({"occupation": "retired teacher"}, "age_fits_work"),
        ({"age": 19, "birthday": "2006-05-01", "occupation": "surgeon"}, "age_fits_work"),
        ({"age": 19, "birthday": "2006-05-01", "occupation": "law student"}, None),
        ({"life_stage": "new_parent", "household_size": 1}, "home_fits_stage"),
        ({"work_address": "9 Low St, York YO1 1AA"}, "addresses_lie_in_city"),
        ({"time_zone": "Europe/Leeds"}, "zone_is_known"),
        ({"phone": "+1 212-555-0134"}, "zone_is_known"),
        ({"phone": "0113 245 7890"}, "contact_is_fictional"),
        ({"phone": "(212) 555-0134"}, None),
        ({"phone": "(212) 555-9134"}, "contact_is_fictional"),
        ({"email": "a.b@gmail.com"}, "contact_is_fictional"),
        ({"work_email": "a@notexample.com"}, "contact_is_fictional"),
        ({"email": "a@mail.example.net"}, None),
    ],
)
def test_contradictions_and_real_contacts_are_found(change: dict[str, Any], rule: str | None):
    found = first_contradiction({**SOUND, **change}, TODAY)

    assert (found[0] if found else None) == rule, found


def test_cramers_v_is_one_for_copies_and_near_zero_for_independent_columns():
    rng = np.random.default_rng(1)
    one = rng.integers(0, 4, 400).astype(np.int32)

    assert cramers_v(one, one * 7) == pytest.approx(1)
    assert cramers_v(one, rng.integers(0, 5, 400).astype(np.int32)) < 0.1
    assert cramers_v(one, np.arange(400, dtype=np.int32)) == 0  # a name says nothing about anybody else
    assert cramers_v(one, np.zeros(400, dtype=np.int32)) == 0


def test_blocks_that_share_everything_correlate_more_than_mixed_people():
    blocks: list[dict[str, Any]] = [{"stage": i // 20, "city": i // 20, "pet": i % 3} for i in range(80)]
    mixed: list[dict[str, Any]] = [{"stage": i // 20, "city": i % 4, "pet": i % 3} for i in range(80)]

    assert block_correlation(blocks, [["stage"], ["city", "pet"]]) > 0.45
    assert block_correlation(mixed, [["stage"], ["city", "pet"]]) < 0.1


def test_trimming_keeps_the_most_different():
    people: list[dict[str, Any]] = [{"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 3}]

    assert spread(people, 2) == [0, 3]
    assert spread(people, 3) == [0, 2, 3]
    assert spread(people, 9) == [0, 1, 2, 3]


def test_distances_count_differing_features():
    assert sorted(distances([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 3}])) == [0.5, 1, 1]
    assert len(distances([{"a": 1}])) == 0


def test_every_user_has_two_clear_favourites_and_every_platform_its_share(varied: Made):
    world = varied.people.world
    for scenario in world.scenarios:
        total: Counter[str] = Counter()
        for profile in varied.people.profiles.values():
            mine = [p for p in profile.preferences if p.scenario == scenario.id]
            total += favourites(mine, scenario)
            rankings = [ranking(p.weights, scenario.platforms) for p in mine]
            assert len({r[0].platform for r in rankings if margin(r) >= 0.05}) >= 2
        assert total.total() == len(varied.people.profiles) * len(scenario.contexts)


def lines(profiles: dict[str, Profile]) -> list[Person]:
    return [Person(p.id, dict(p.basic), tuple(p.path)) for p in profiles.values()]


def taste(scenario: Any, platform: str) -> dict[str, list[str]]:
    """A ranking per context whose clear favourite is one platform."""
    from itertools import permutations

    traits = [t.name for t in scenario.traits]
    for order in permutations(traits, 2):
        from pipelines.world import weights_of

        ranked = ranking(weights_of(order, traits), scenario.platforms)
        if ranked[0].platform == platform and margin(ranked) > 0.1:
            return {c.name: list(order) for c in scenario.contexts}
    raise AssertionError(platform)


def test_a_model_that_favours_one_platform_is_asked_again_with_traits_to_lean_on(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    first, second, third = (p.id for p in scenario.platforms)
    rankings = {p: taste(scenario, p) for p in (first, second, third)}

    def prefer(values: dict[str, Any]) -> dict[str, Any]:
        def wish(number: int, context: str) -> dict[str, Any]:
            platform = second if number == 0 else first
            if values["lean"] and number in (1, 2):
                platform = third if number == 1 else second
            return {"context": context, "priorities": rankings[platform][context], "words": "likes what it likes, as people do"}

        people = [{"user": p["user"], "contexts": [wish(i, c.name) for i, c in enumerate(scenario.contexts)]} for p in values["people"]]
        return {"people": people}

    llm = Scripted(profiles__prefer=prefer)
    people = [Person(f"u{i:04d}", person.basic, (0, 0, i)) for i, person in enumerate(lines(varied.people.profiles) * 5, start=1)]
    chooser = Chooser(context(llm), [scenario], [])
    wishes = asyncio.run(chooser.choose(people))
    total = sum((favourites(w, scenario) for w in wishes.values()), Counter[str]())

    assert chooser.redrawn > 0
    assert any(values["lean"] for _, values in llm.asked)
    assert out_of_range(total, scenario) is None
    assert all(SHARE[0] <= total[p.id] / total.total() <= SHARE[1] for p in scenario.platforms)
    assert total == chooser.shares["shopping"]


def test_a_user_who_never_gets_usable_preferences_is_left_out_and_counted(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    rankings = {p.id: taste(scenario, p.id) for p in scenario.platforms[:2]}
    first, second = rankings

    def prefer(values: dict[str, Any]) -> dict[str, Any]:
        def wishes(user: str) -> list[dict[str, Any]]:
            chosen = [second if i == 0 and user != "u0002" else first for i in range(len(scenario.contexts))]
            told = "likes what it likes, as people do"
            return [
                {"context": c.name, "priorities": rankings[p][c.name], "words": told}
                for c, p in zip(scenario.contexts, chosen, strict=True)
            ]

        return {"people": [{"user": p["user"], "contexts": wishes(p["user"])} for p in values["people"]]}

    people = [Person(f"u{i:04d}", person.basic, (0, 0, i)) for i, person in enumerate(lines(varied.people.profiles), start=1)]
    chooser = Chooser(context(Scripted(profiles__prefer=prefer)), [scenario], [])
    wishes = asyncio.run(chooser.choose(people))

    assert set(wishes) == {"u0001", "u0003", "u0004"}
    assert [r.subject for r in chooser.rejected if r.reason == "no_usable_preferences"] == ["u0002"]
    assert sum(r.reason == "choice_never_varies" for r in chooser.rejected) == 10


def test_one_favourite_everywhere_is_refused(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    same = taste(scenario, scenario.platforms[0].id)
    answers = [WishReply(context=c, priorities=p, words="likes one thing and one thing only") for c, p in same.items()]
    _, problem = usable(answers, scenario, 0.05)

    assert problem is not None
    assert problem[0] == "choice_never_varies"


def branch_of(**facts: Any) -> Any:
    def answer(values: dict[str, Any]) -> dict[str, Any]:
        count = values["count"]
        return {"people": [{"age": 30 + i, "email": f"p{i}@example.com", "phone": "(212) 555-0134", **facts} for i in range(count)]}

    return answer


WANTED = [{key: ("what it is", {"type": kind}) for key, kind in (("age", "integer"), ("email", "string"), ("phone", "string"))}]


def test_contradictory_people_are_rejected_with_reasons_and_the_model_is_told(varied: Made):
    def answer(values: dict[str, Any]) -> dict[str, Any]:
        real = values["repeat"] == 0
        people = branch_of()(values)["people"]
        return {"people": [{**p, **({"email": "x@gmail.com"} if real else {})} for p in people]}

    llm = Scripted(profiles__branch=answer)
    result: StageResult[Profile] = StageResult()
    people = asyncio.run(assign_basics(context(llm, layers=[3], users=3), [3], WANTED, result))

    assert len(people) == 3
    assert [r.reason for r in result.rejected] == ["contact_is_fictional"] * 3
    assert "gmail.com" in llm.asked[1][1]["problems"][0]


def test_a_branch_that_stays_short_stops_the_stage_with_its_reasons(varied: Made):
    llm = Scripted(profiles__branch=branch_of(age="old"))
    with pytest.raises(ChecksFailed, match=r"0 of 3 valid people after 5 attempts; most frequent reasons: feature_invalid 15") as caught:
        asyncio.run(assign_basics(context(llm, layers=[3], users=3), [3], WANTED, StageResult()))

    assert len(caught.value.rejected) == 15


def test_layers_that_cannot_reach_the_users_are_refused():
    with pytest.raises(ConfigError, match=r"layers \[2, 2\] give 4 users, 8 are wanted"):
        config.load("quick", None, {"layers": [2, 2]})


@pytest.mark.parametrize("users", [9, 80, 513, 1000, 10_000])
def test_derived_layers_reach_every_number_of_users_and_keep_the_first_layer_coarse(users: int):
    layers = settings(users=users).branching

    assert np.prod(layers) >= users
    assert layers[0] <= 8
    assert np.prod(layers) <= 1.3 * users + 8


def test_more_users_than_wanted_are_trimmed_and_counted(varied: Made):
    from pipelines.llm.client import LLM
    from pipelines.llm.ledger import Ledger
    from pipelines.stage import Context

    world = varied.people.world

    async def go() -> Any:
        settings_ = settings(layers=[2, 2, 2], users=5)
        llm = LLM("offline", 7, Ledger(varied.root / "trim.sqlite"), settings_.limits)
        try:
            apis = [a for a in world.apis if a.platform.startswith("shopping/")]
            return await assign_profiles(Context(settings_, llm), [world.scenario["shopping"]], apis, world.features)
        finally:
            await llm.close()

    result = asyncio.run(go())
    assert len(result.kept) == 5
    assert result.notes["trimmed"] == 3
    assert [p.id for p in result.kept] == [f"u{i:04d}" for i in range(1, 6)]
