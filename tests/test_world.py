"""Utilities and margins are what their formulas say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.records import Platform, TraitLevel
from pipelines.world import branches, dominates, leaves, margin, rank_order_centroid, ranking, utility, weights_of


def platform(name: str, **levels: float) -> Platform:
    traits = {trait: TraitLevel(level=level, phrase="some words") for trait, level in levels.items()}
    return Platform(id=f"s/{name}", name=name, description="d", traits=traits)


def test_rank_order_centroid_weights_are_the_published_ones():
    assert rank_order_centroid(3) == pytest.approx([0.6111, 0.2778, 0.1111], abs=1e-4)
    assert rank_order_centroid(1) == [1.0]


@given(st.integers(1, 12))
def test_rank_order_centroid_weights_fall_and_sum_to_one(count: int):
    weights = rank_order_centroid(count)

    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)


def test_utility_is_the_weighted_sum_of_levels():
    cheap, fast = platform("cheap", price=0.9, speed=0.2), platform("fast", price=0.3, speed=0.8)
    weights = weights_of(["speed", "price"], ["price", "speed"])

    assert weights == {"price": 0.25, "speed": 0.75}
    assert utility(weights, fast) == pytest.approx(0.25 * 0.3 + 0.75 * 0.8)
    ranked = ranking(weights, [cheap, fast])
    assert [u.platform for u in ranked] == ["s/fast", "s/cheap"]
    assert margin(ranked) == pytest.approx(0.675 - 0.375)


def test_domination_needs_every_trait():
    low, high, mixed = platform("low", a=0.1, b=0.2), platform("high", a=0.1, b=0.9), platform("mixed", a=0.9, b=0.1)

    assert dominates(high, low)
    assert not dominates(low, high)
    assert not dominates(high, mixed)
    assert not dominates(mixed, high)


def test_nested_objects_are_opened_to_their_leaves():
    schema = {
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}},
            "free": {"type": "object"},
        },
    }

    assert [(leaf.path, leaf.required) for leaf in leaves(schema)] == [("to.city", True), ("to.zip", False), ("free", False)]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_every_user_has_a_branch_of_their_own(layers: list[int], data: st.DataObject):
    import math

    total = math.prod(layers)
    one, other = data.draw(st.integers(0, total - 1)), data.draw(st.integers(0, total - 1))

    assert (branches(one, layers) == branches(other, layers)) == (one == other)
    assert all(digit < width for digit, width in zip(branches(one, layers), layers, strict=True))
