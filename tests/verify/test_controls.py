"""Controls: what is right when the profile must not matter, is overridden, when nothing fits, and when one has to ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from making import NO_MISTAKES, Made, make_run

from pipelines.audit.defects import with_call, with_text, with_value
from pipelines.records import Source, ToolCall
from pipelines.verify.rules import Item, first_broken, override_not_real


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run in which most slots are controls, and values of last time are frequent."""
    root = tmp_path_factory.mktemp("controls") / "run"
    shares = {
        "override": 0.2,
        "profile_irrelevant": 0.15,
        "no_tool": 0.12,
        "ask": 0.15,
        "history": 0.15,
        "two_calls": 0.08,
        "four_calls": 0.05,
    }
    make_run(
        root,
        NO_MISTAKES,
        scenarios=["shopping", "travel"],
        platforms_per_scenario=3,
        apis_per_platform=12,
        users=4,
        shares=shares,
        samples={"train": 90, "test_trained_users": 6, "test_untrained_users": 24},
    )
    return Made.read(root)


def of(made: Made, control: str | None) -> list[Item]:
    found = [item for item in made.items() if item.slot.control == control]
    assert len(found) >= 3, f"only {len(found)} of {control}"
    return found


def from_history(made: Made) -> list[tuple[Item, str]]:
    found = [(i, p) for i in made.items() for c in i.solution.calls[:1] for p, s in c.sources.items() if s.kind == "history"]
    assert len(found) >= 3
    return found


def act(item: Item, **changes: object) -> Item:
    return replace(item, solution=item.solution.model_copy(update=changes))


def broken(item: Item) -> str | None:
    found = first_broken(item)
    return found[0] if found else None


def test_every_control_has_samples_and_all_pass(controls: Made):
    for control in ("override", "profile_irrelevant", "no_tool", "ask", None):
        assert [broken(item) for item in of(controls, control)] == [None] * len(of(controls, control))


def test_shares_asked_for_are_met(controls: Made):
    total = len(controls.samples)
    for control, wanted in (("override", 0.2), ("profile_irrelevant", 0.15), ("no_tool", 0.12), ("ask", 0.15)):
        assert abs(sum(s.control == control for s in controls.samples) / total - wanted) < 0.06, control


def test_the_profile_value_despite_an_override_is_caught(controls: Made):
    for item in of(controls, "override"):
        argument = next(a for a in item.slot.arguments if a.source == "query" and a.feature)
        held = item.cell.profile.basic[argument.feature]
        used = with_value(item, argument.path, held)
        sources = {**used.solution.calls[0].sources, argument.path: Source(kind="profile", at=argument.feature)}
        assert broken(with_call(used, sources=sources)) in ("plan_not_followed", "kind_not_met")


def test_an_override_that_says_what_the_profile_says_is_none(controls: Made):
    for item in of(controls, "override"):
        argument = next(a for a in item.slot.arguments if a.source == "query" and a.feature)
        stated = item.flat[0][argument.path]
        profile = item.cell.profile.model_copy(update={"basic": {**item.cell.profile.basic, argument.feature: stated}})
        assert override_not_real(item) is None
        assert override_not_real(replace(item, cell=replace(item.cell, profile=profile))) is not None


def test_a_platform_that_the_query_names_is_gold_whatever_the_user_prefers(controls: Made):
    for item in of(controls, "profile_irrelevant"):
        name = item.cell.world.platform[item.slot.platform].name
        assert name in item.query.text
        assert broken(with_text(item, item.query.text.replace(name, "the usual place"))) == "platform_named"
        profile = item.cell.profile.model_copy(
            update={"preferences": [p.model_copy(update={"weights": dict.fromkeys(p.weights, 0.0)}) for p in item.cell.profile.preferences]}
        )
        assert broken(replace(item, cell=replace(item.cell, profile=profile))) is None


def test_another_platform_than_the_named_one_is_wrong(controls: Made):
    rule = "preference_mismatch"
    caught = 0
    for item in of(controls, "profile_irrelevant"):
        other = next(p.id for p in item.cell.scenario.platforms if p.id != item.slot.platform)
        theirs = next(a for a in item.cell.world.serving[item.cell.scenario.id, item.slot.capability] if a.platform == other)
        found = broken(act(item, platform=other, calls=[ToolCall(api=theirs.name, arguments={}, sources={})]))
        assert found in (rule, "missing_required")
        caught += found == rule
    from pipelines.verify.rules import preference_mismatch

    assert all(preference_mismatch(act(i, platform="shopping/nobody")) for i in of(controls, "profile_irrelevant"))


def test_a_value_from_the_profile_means_that_the_profile_matters(controls: Made):
    from pipelines.verify.rules import profile_matters

    for item in of(controls, "profile_irrelevant"):
        path = next(iter(item.solution.calls[0].sources), None)
        assert profile_matters(item) is None
        if path is not None:
            assert profile_matters(with_call(item, sources={path: Source(kind="profile", at="age")})) is not None


@pytest.mark.parametrize("how", ["ask", "call"])
def test_anything_but_declining_is_wrong_where_no_tool_fits(controls: Made, how: str):
    for item in of(controls, "no_tool"):
        platform = item.cell.scenario.platforms[0].id
        api = item.cell.world.apis_of[platform][0]
        wrong = {
            "ask": act(item, act="ask", missing=["platform"]),
            "call": act(item, act="call", platform=platform, calls=[ToolCall(api=api.name, arguments={}, sources={})]),
        }[how]
        assert broken(wrong) in ("wrong_act", "missing_required")


def test_a_wish_that_an_api_serves_is_no_case_of_no_tool(controls: Made):
    from pipelines.verify.rules import tool_fits

    for item in of(controls, "no_tool"):
        served = item.cell.world.apis_of[item.cell.scenario.platforms[0].id][0].capability
        slot = item.slot.model_copy(update={"capability": served})
        assert tool_fits(item) is None
        assert tool_fits(replace(item, query=item.query.model_copy(update={"slot": slot}))) is not None


def test_asking_for_something_else_is_wrong(controls: Made):
    for item in of(controls, "ask"):
        assert broken(act(item, missing=["colour of the sky"])) == "asks_for_another"
        assert broken(act(item, missing=[])) == "asks_for_another"
        assert broken(act(item, missing=[*item.solution.missing, "platform"])) == "asks_for_another"


def test_asking_on_a_sibling_platform_asks_for_the_same(controls: Made):
    from pipelines.verify.samples import missing_of

    for item in of(controls, "ask"):
        for sibling in missing_of(item):
            assert broken(act(item, missing=[sibling])) is None


def test_what_the_profile_could_tell_need_not_be_asked(controls: Made):
    caught = 0
    for item in of(controls, "ask"):
        api = item.planned_api
        assert api is not None
        for leaf in item.cell.world.leaves_of[api.id]:
            if item.cell.world.profile_feature(api, leaf.path):
                slot = item.slot.model_copy(update={"missing": [leaf.path]})
                caught += broken(replace(item, query=item.query.model_copy(update={"slot": slot}))) == "settled_after_all"
    assert caught >= 1


def test_a_settled_platform_need_not_be_asked(controls: Made):
    for item in of(controls, None):
        slot = item.slot.model_copy(update={"control": "ask", "missing": ["platform"], "kinds": [], "then": []})
        asked = act(item, act="ask", calls=[], platform="", missing=["platform"])
        assert broken(replace(asked, query=item.query.model_copy(update={"slot": slot}))) == "settled_after_all"


def test_an_enum_value_in_the_query_is_told_after_all(controls: Made):
    from pipelines.verify.rules import settled_after_all

    caught = 0
    for item in controls.items():
        api = item.apis[0] if item.apis else None
        for leaf in item.cell.world.leaves_of[api.id] if api else []:
            stated = item.flat[0].get(leaf.path)
            if (
                leaf.required
                and "enum" in leaf.schema
                and item.solution.calls[0].sources.get(leaf.path, Source(kind="default")).kind == "query"
            ):
                slot = item.slot.model_copy(update={"control": "ask", "missing": [leaf.path]})
                caught += settled_after_all(replace(item, query=item.query.model_copy(update={"slot": slot}))) is not None
                assert stated is not None
    assert caught >= 1


def test_a_value_of_last_time_comes_from_the_last_event_that_did_the_same(controls: Made):
    for item, path in from_history(controls):
        sources = item.solution.calls[0].sources
        for event in item.cell.history.events:
            if event.id == sources[path].at:
                continue
            other = with_call(item, sources={**sources, path: Source(kind="history", at=event.id)})
            assert broken(other) in ("unreachable_value", "plan_not_followed")


def test_a_value_of_last_time_needs_a_query_that_points_back(controls: Made):
    for item, path in from_history(controls):
        text = item.query.text
        for mark in ("last time",):
            text = text.replace(mark, "ever").replace(mark.capitalize(), "ever")
        assert broken(with_text(item, text)) == "last_time_not_said", path


CALLS: dict[str, Callable[[Item], list[ToolCall]]] = {
    "dropped": lambda i: i.solution.calls[:-1],
    "repeated": lambda i: [*i.solution.calls, i.solution.calls[0]],
    "swapped": lambda i: i.solution.calls[::-1],
}


@pytest.mark.parametrize("how", CALLS)
def test_several_calls_are_all_there_once_and_in_order(controls: Made, how: str):
    several = [item for item in controls.items() if len(item.solution.calls) > 1]
    assert {len(item.solution.calls) for item in several} >= {2, 4}
    for item in several:
        assert broken(act(item, calls=CALLS[how](item))) in ("plan_not_followed", "other_capability", "stray_date")
