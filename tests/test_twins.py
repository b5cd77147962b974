"""Twins: a label changes exactly where the structure says, and stays elsewhere."""

from __future__ import annotations

import pytest
from making import Made

from pipelines.jsonio import read_lines
from pipelines.records import Sample
from pipelines.twins import Twin, make_pairs, make_twins


@pytest.fixture(scope="module")
def twins(varied: Made) -> list[Twin]:
    return list(make_twins(varied.root, ("weight", "event", "profile"), 40))


@pytest.mark.parametrize("kind", ["weight", "event", "profile"])
def test_every_kind_of_change_has_twins(twins: list[Twin], kind: str):
    assert sum(twin.kind == kind for twin in twins) >= 3


def test_a_label_changes_only_with_a_rule_that_the_old_answer_breaks(twins: list[Twin]):
    for twin in twins:
        assert twin.label_changed == bool(twin.broken) == (twin.old != twin.new)


def test_a_profile_value_moves_just_the_arguments_that_read_it(twins: list[Twin]):
    changed = [twin for twin in twins if twin.kind == "profile" and twin.label_changed]
    assert changed
    for twin in changed:
        assert twin.new.platform == twin.old.platform
        feature = twin.at.removeprefix("basic.")
        for old, new in zip(twin.old.calls, twin.new.calls, strict=True):
            assert old.api == new.api
            if not any(s.at == feature for s in old.sources.values()):
                assert old.arguments == new.arguments


def test_another_order_of_weights_moves_some_labels_to_another_platform_and_leaves_others(twins: list[Twin]):
    weights = [twin for twin in twins if twin.kind == "weight"]

    assert any(twin.new.platform != twin.old.platform for twin in weights)
    assert any(not twin.label_changed for twin in weights)


def test_one_event_less_leaves_a_clear_preference_as_it_is(twins: list[Twin]):
    events = [twin for twin in twins if twin.kind == "event"]

    assert any(not twin.label_changed for twin in events)
    assert all(twin.new.act in ("call", "ask") for twin in events)


def test_pairs_prefer_what_is_right_in_their_world(varied: Made, twins: list[Twin]):
    pairs = list(make_pairs(varied.root, twins))
    texts = {s.query for s in read_lines(varied.root / "08_samples.jsonl", Sample)}

    assert pairs
    assert all(pair.chosen != pair.rejected for pair in pairs)
    assert all(pair.query in texts or pair.id.endswith(".repaired") for pair in pairs)
