"""A reader of the visible history knows the favourite, and knows nothing from a shuffled one."""

from __future__ import annotations

import numpy as np
import pytest
from making import Made
from scripted import settings

from pipelines.histories.plan import plan_events
from pipelines.identify import Ear, beliefs, hypotheses, posterior, settled
from pipelines.records import Event, History, Profile, Scenario
from pipelines.world import World, margin, ranking

SURE = {"choice_noise": 0.03, "one_off_share": 0.0, "distractor_share": 0.0, "drift_share": 0.0, "rated_share": 0.0}


def shopping(made: Made) -> tuple[World, Scenario]:
    return made.people.world, made.people.world.scenario["shopping"]


def events_on(world: World, scenario: Scenario, platform: str, context: str, times: list[str], **more: object) -> list[Event]:
    api = next(a for a in world.apis_of[platform] if a.capability == scenario.capabilities[0].name)
    return [
        Event(id=f"e{i}", time=t, platform=platform, api=api.name, arguments={}, summary="did it", context=context, **more)  # type: ignore[arg-type]
        for i, t in enumerate(times)
    ]


def days(count: int, month: str = "2026-01") -> list[str]:
    return [f"{month}-{day:02d}T10:00:00+00:00" for day in range(1, count + 1)]


def heard(scenario: Scenario, events: list[Event], certainty: float = 0.97) -> np.ndarray:
    rows = [[certainty if c.name == e.context else (1 - certainty) / 3 for c in scenario.contexts] for e in events]
    return np.array(rows)


def test_the_prior_weights_are_rankings_and_sum_to_one():
    weights, prior = hypotheses(5)

    assert len(weights) == 5 * 4 + 5 * 4 * 3 + 5 * 4 * 3 * 2
    assert weights.sum(axis=1) == pytest.approx(1)
    assert np.exp(prior).sum() == pytest.approx(1)


def test_choices_of_a_context_settle_that_context_and_no_other(varied: Made):
    world, scenario = shopping(varied)
    platform = scenario.platforms[0].id
    events = events_on(world, scenario, platform, "gift", days(8))
    found = beliefs(settings(**SURE), world, scenario, events, heard(scenario, events))

    assert found["gift"][platform] > 0.9
    assert settled(found["gift"], 0.9) == platform
    assert all(settled(found[c.name], 0.9) is None for c in scenario.contexts if c.name != "gift")


def test_no_event_settles_nothing(varied: Made):
    world, scenario = shopping(varied)
    found = beliefs(settings(**SURE), world, scenario, [], np.zeros((0, 4)))

    assert all(settled(belief, 0.9) is None for belief in found.values())
    assert all(sum(belief.values()) == pytest.approx(1, abs=0.001) for belief in found.values())


def test_words_that_fit_no_context_say_nothing_about_any(varied: Made):
    world, scenario = shopping(varied)
    platform = scenario.platforms[0].id
    events = events_on(world, scenario, platform, "gift", days(8))
    clear = beliefs(settings(**SURE), world, scenario, events, heard(scenario, events))
    vague = beliefs(settings(**SURE), world, scenario, events, np.full((8, 4), 0.02))

    assert vague["gift"][platform] < clear["gift"][platform] - 0.2


def test_stars_and_returns_move_the_belief(varied: Made):
    world, scenario = shopping(varied)
    platform = scenario.platforms[0].id

    def after(**more: object) -> float:
        events = events_on(world, scenario, platform, "gift", days(2), **more)
        return beliefs(settings(**SURE), world, scenario, events, heard(scenario, events))["gift"][platform]

    assert after(rating=5) > after() > after(rating=1)
    assert after(returned=True) < after()


def test_after_a_change_of_mind_the_present_counts(varied: Made):
    world, scenario = shopping(varied)
    old, new = scenario.platforms[0].id, scenario.platforms[1].id
    events = [
        *events_on(world, scenario, old, "gift", days(9, "2025-08")),
        *events_on(world, scenario, new, "gift", days(7, "2026-01")),
    ]
    seen = heard(scenario, events)
    moving = beliefs(settings(**{**SURE, "drift_share": 0.3}), world, scenario, events, seen)
    fixed = beliefs(settings(**SURE), world, scenario, events, seen)

    assert moving["gift"][new] > 0.9
    assert moving["gift"][new] > fixed["gift"][new]


def test_a_user_is_judged_without_their_own_labels(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    ear = Ear(scenario)
    names = [c.name for c in scenario.contexts]
    for number in range(25):
        events = [
            Event(id=f"e{i}", time=f"2026-01-0{i + 1}T10:00:00Z", platform="p", api="a", arguments={}, summary=f"word{i} thing", context=c)
            for i, c in enumerate(names)
        ]
        ear.learn(History(id=f"u{number}.s", user=f"u{number}", scenario="s", events=events))
    odd = Event(id="e", time="2026-01-01T10:00:00Z", platform="p", api="a", arguments={}, summary="zebra", context=names[0])
    ear.learn(History(id="odd.s", user="odd", scenario="s", events=[odd]))

    known = ear.contexts([odd.model_copy(update={"summary": "word2 thing"})], "odd")
    own, others = ear.contexts([odd], "odd")[0], ear.contexts([odd], "somebody")[0]
    assert known.argmax() == 2
    assert own[0] == pytest.approx(own[1], abs=0.01)  # the only zebra was heard from this very user
    assert others[0] > others[1]


def test_planned_choices_identify_the_favourite_and_shuffled_ones_do_not(varied: Made):
    """The same planner and reader as the stage, many users, contexts heard without doubt."""
    world, scenario = shopping(varied)
    config = settings(events=[36, 40])
    names = [c.name for c in scenario.contexts]
    profiles = list(varied.people.profiles.values())
    right = total = shuffled_right = 0
    for turn in range(12):
        for profile in profiles:
            rng = config.rng("test", profile.id, turn)
            plan = plan_events(rng, config, world, profile, scenario, [names[i % 4] for i in range(36)], None)
            events = [
                Event(id=f"e{i}", time=e.time.isoformat(), platform=e.platform, api=e.api, arguments={}, summary="s", context=e.context,
                      rating=e.rating, returned=e.returned)
                for i, e in enumerate(plan)
            ]  # fmt: skip
            mixed = rng.sample(events, len(events))
            dealt = [e.model_copy(update={"platform": m.platform, "api": m.api}) for e, m in zip(events, mixed, strict=True)]
            real = beliefs(config, world, scenario, events, heard(scenario, events))
            fake = beliefs(config, world, scenario, dealt, heard(scenario, events))
            for context, gold in clear_favourites(profile, scenario).items():
                if settled(real[context], 0.9):
                    total += 1
                    right += settled(real[context], 0.9) == gold
                    shuffled_right += max(fake[context], key=lambda p: fake[context][p]) == gold
    assert total > 100
    assert right / total >= 0.97
    assert shuffled_right / total < 0.65


def clear_favourites(profile: Profile, scenario: Scenario) -> dict[str, str]:
    found = {}
    for wish in [p for p in profile.preferences if p.scenario == scenario.id]:
        ranked = ranking(wish.weights, scenario.platforms)
        if margin(ranked) >= 0.05:
            found[wish.context] = ranked[0].platform
    return found


def test_a_posterior_among_some_platforms_is_renormalised():
    history = History(id="u.s", user="u", scenario="s", events=[], belief={"gift": {"s/a": 0.6, "s/b": 0.2, "s/c": 0.2}})

    assert posterior(history, "gift", ["s/a", "s/b"]) == {"s/a": 0.75, "s/b": 0.25}
    assert posterior(history, "urgent", ["s/a", "s/b"]) == {"s/a": 0.5, "s/b": 0.5}


def test_a_kind_of_event_that_nobody_taught_does_not_swallow_the_others(varied: Made):
    scenario = varied.people.world.scenario["shopping"]
    ear = Ear(scenario)
    for number in range(3):  # no one-off among them, as in the mode preferred_only
        events = [
            Event(
                id=f"e{i}",
                time=f"2026-01-0{i + 1}T10:00:00Z",
                platform="p",
                api="a",
                arguments={},
                summary=f"word{i} thing",
                context=c.name,
            )
            for i, c in enumerate(scenario.contexts)
        ]
        ear.learn(History(id=f"u{number}.s", user=f"u{number}", scenario="s", events=events))

    assert ear.contexts([events[2]], "u2")[0][2] > 0.5
