"""Histories: planned by structure, worded by the model, extended until they show enough, dropped when they cannot."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from making import NO_MISTAKES, Made, make_run
from scripted import Scripted, context, settings

from pipelines.errors import ChecksFailed
from pipelines.histories import simulate_histories
from pipelines.histories.plan import draw_drift, plan_events
from pipelines.histories.telling import preference_not_explained
from pipelines.records import API, History, Profile
from pipelines.stage import StageResult
from pipelines.world import preference_of, ranking, weights_of


def planned(made: Made, **overrides: object) -> list[tuple[Profile, Any]]:
    config = settings(**overrides)
    world = made.people.world
    scenario = world.scenario["shopping"]
    names = [c.name for c in scenario.contexts]
    found = []
    for profile in made.people.profiles.values():
        for turn in range(20):
            rng = config.rng("t", profile.id, turn)
            found += [(profile, e) for e in plan_events(rng, config, world, profile, scenario, names * 8, None)]
    return found


def share_on_favourite(made: Made, events: list[tuple[Profile, Any]]) -> float:
    scenario = made.people.world.scenario["shopping"]
    hits = 0
    for profile, event in events:
        wish = preference_of(profile, "shopping", event.context)
        assert wish is not None
        hits += ranking(wish.weights, scenario.platforms)[0].platform == event.platform
    return hits / len(events)


def test_preferred_only_histories_hold_favourites_without_stars(varied: Made):
    events = planned(varied, history_mode="preferred_only")

    assert share_on_favourite(varied, events) == 1
    assert all(e.rating is None and not e.returned and e.occasion == "usual" for _, e in events)


def test_rated_histories_have_stars_wherever_the_choice_was_the_users_own(varied: Made):
    events = [e for _, e in planned(varied, history_mode="rated")]

    assert all((e.rating is not None) == (e.occasion != "one_off") for e in events)
    assert {1, 2, 5} <= {e.rating for e in events}


def test_choices_follow_the_utilities_with_noise_that_the_config_sets(varied: Made):
    sharp = share_on_favourite(varied, planned(varied, choice_noise=0.02, one_off_share=0, distractor_share=0))
    usual = share_on_favourite(varied, planned(varied))
    blunt = share_on_favourite(varied, planned(varied, choice_noise=1.0))

    assert sharp > usual > blunt
    assert sharp > 0.9
    assert blunt < 0.6


def test_one_offs_distractors_returns_and_stars_come_at_their_rates(varied: Made):
    events = [e for _, e in planned(varied, one_off_share=0.1, distractor_share=0.05, rated_share=0.3)]
    share = {kind: sum(e.occasion == kind for e in events) / len(events) for kind in ("one_off", "distractor")}

    assert share["one_off"] == pytest.approx(0.1, abs=0.02)
    assert share["distractor"] == pytest.approx(0.05, abs=0.02)
    assert any(e.returned for e in events)
    assert all(e.rating is None or e.rating <= 2 for e in events if e.returned)


def test_events_are_dense_in_the_recent_past_and_every_context_has_its_season(varied: Made):
    events = [e for _, e in planned(varied, one_off_share=0)]
    now = datetime.fromisoformat("2026-03-02T09:00:00+00:00")
    ages = [(now - e.time).days for e in events]

    assert min(ages) + 1 >= 0
    assert max(ages) <= 241
    assert sum(age < 120 for age in ages) > 0.54 * len(ages)
    months = {}
    for event, age in zip(events, ages, strict=True):
        months.setdefault(event.context, []).append(age)
    middles = sorted(sorted(found)[len(found) // 2] for found in months.values())
    assert middles[-1] - middles[0] > 10  # days between the middles of two contexts


def test_a_change_of_mind_moves_the_favourite_and_gold_follows_the_present(varied: Made):
    config = settings(drift_share=1.0)
    world = varied.people.world
    scenario = world.scenario["shopping"]
    moved = before_on_old = before = 0
    for profile in varied.people.profiles.values():
        for turn in range(15):
            drift = draw_drift(config.rng("d", profile.id, turn), config, world, profile, scenario)
            assert drift is not None
            wish = preference_of(profile, "shopping", drift.context)
            assert wish is not None
            old, new = (ranking(w, scenario.platforms)[0].platform for w in (drift.weights, wish.weights))
            assert drift.weights == weights_of(drift.priorities, [t.name for t in scenario.traits])
            assert drift.priorities[0] != wish.priorities[0]
            moved += old != new
            plan = plan_events(config.rng("e", profile.id, turn), config, world, profile, scenario, [drift.context] * 12, drift)
            for event in plan:
                if event.time < datetime.fromisoformat(drift.time) and old != new:
                    before += 1
                    before_on_old += event.platform == old
    assert moved > 20
    assert before_on_old / before > 0.6


def test_every_kept_history_is_long_enough_in_order_and_settled_twice(varied: Made):
    assert varied.people.histories
    for history in varied.people.histories.values():
        assert 20 <= len(history.events) <= 40
        assert [e.id for e in history.events] == [f"e{i:02d}" for i in range(1, len(history.events) + 1)]
        assert [e.time for e in history.events] == sorted(e.time for e in history.events)
        assert sum(max(belief.values()) >= 0.9 for belief in history.belief.values()) >= 2


def test_drift_rates_and_extensions_are_counted(tmp_path):
    make_run(tmp_path / "r", NO_MISTAKES, drift_share=1.0, users=4, untrained_users=1)
    import json

    notes = json.loads((tmp_path / "r" / "manifest.json").read_text())["stages"]["05_histories"]["notes"]
    assert notes["histories with drift"] > 0
    assert notes["events added"] >= 0
    assert notes["posterior agrees with gold"] >= 0.9


def offline_like(**change: Any) -> Scripted:
    """Valid events for the fixture's APIs, with one thing changed."""

    def answer(values: dict[str, Any]) -> dict[str, Any]:
        events = [
            {"number": e["number"], "api": e["api"], "arguments": {}, "summary": f"did number {e['number']}", **change}
            for e in values["events"]
        ]
        return {"events": events}

    return Scripted(histories__simulate=answer, histories__judge=lambda values: {"telling": []})


def free_apis(made: Made) -> list[API]:
    """APIs that need no argument."""
    return [a.model_copy(update={"parameters": {"type": "object", "properties": {}}}) for a in made.people.world.apis]


def run_stage(made: Made, llm: Scripted, users: int = 4, **overrides: object) -> StageResult[History]:
    profiles = list(made.people.profiles.values())[:users]
    scenarios = [made.people.world.scenario["shopping"]]
    apis = [a for a in free_apis(made) if a.platform.startswith("shopping/")]
    return asyncio.run(simulate_histories(context(llm, **overrides), scenarios, apis, profiles))


def test_events_that_call_another_or_unknown_api_are_dropped_with_their_reason(varied: Made):
    result = run_stage(varied, offline_like(api="teleport"))

    assert result.kept == []
    reasons = {r.reason for r in result.rejected}
    assert reasons == {"event_unknown_api", "history_too_short", "no_history"}
    assert "teleport" in next(r.detail for r in result.rejected if r.reason == "event_unknown_api")


def test_a_reply_without_events_rejects_the_history_and_says_so(varied: Made):
    result = run_stage(varied, Scripted(histories__simulate=lambda values: {"events": []}))

    assert result.kept == []
    assert sum(r.reason == "invalid_reply" for r in result.rejected) == 12
    assert [r.reason for r in result.rejected].count("no_history") == 4


def test_a_stated_preference_drops_the_event(varied: Made):
    profile = next(iter(varied.people.profiles.values()))
    words = next(p.words for p in profile.preferences if p.scenario == "shopping")
    result = run_stage(varied, offline_like(summary=words[:290]), users=1)

    assert any(r.reason == "preference_stated" for r in result.rejected)


def test_a_reason_in_the_markets_own_words_drops_the_event(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    level = scenario.platforms[0].traits["affordability"].phrase

    assert preference_not_explained(f"Ordered a lamp because of {level}", scenario) is not None
    assert preference_not_explained("Ordered a lamp because the old one broke", scenario) is None
    for history in varied.people.histories.values():
        for event in history.events:
            assert preference_not_explained(event.summary, varied.people.world.scenario[history.scenario]) is None


def test_what_a_judge_finds_stated_is_dropped_and_counted(varied: Made):
    llm = offline_like()
    llm.answers["histories.judge"] = lambda values: {"telling": [{"number": 0, "reason": "a paraphrase"}]}
    result = run_stage(varied, llm, users=1)

    assert any(r.reason == "judge_preference_stated" and "a paraphrase" in r.detail for r in result.rejected)
    judged = next(values for name, values in llm.asked if name == "histories.judge")
    assert set(judged["lines"][0]) == {"number", "line"}  # the lines alone


def test_an_unparsed_verdict_never_passes(varied: Made):
    llm = offline_like()
    llm.answers["histories.judge"] = lambda values: {"nonsense": 1}

    assert run_stage(varied, llm, users=1).kept == []


def test_words_that_show_no_situation_are_extended_and_then_dropped_with_counts(varied: Made):
    llm = offline_like(summary="did something")
    result = run_stage(varied, llm)

    assert any(r.reason == "not_identifiable" for r in result.rejected) or result.notes["histories extended"] == len(result.kept)
    asked = [values for name, values in llm.asked if name == "histories.simulate"]
    assert len(asked) > 4  # more than one call per user: extensions


def test_the_yield_alarm_stops_the_stage_with_its_three_most_frequent_reasons(varied: Made):
    profiles = list(varied.people.profiles.values())
    many = [profiles[i % 4].model_copy(update={"id": f"u{i:04d}"}) for i in range(24)]
    scenarios = [varied.people.world.scenario["shopping"]]
    apis = [a for a in free_apis(varied) if a.platform.startswith("shopping/")]
    with pytest.raises(ChecksFailed) as caught:
        asyncio.run(simulate_histories(context(offline_like(api="teleport")), scenarios, apis, many))

    assert "24 of 24 rejected, max_rejected is 50%" in str(caught.value)
    assert "event_unknown_api" in str(caught.value)
    assert len(caught.value.rejected) > 24


@pytest.mark.parametrize("events", [[0, 0], [0, 5]])
def test_no_events_at_all_is_refused_before_anything_runs(events: list[int]):
    with pytest.raises(Exception, match=r"1 <= least <= most"):
        settings(events=events)
