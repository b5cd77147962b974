"""Intervals and tests: users are drawn, examples of the docstrings hold, hard cases stay quiet."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipelines.evaluation.bootstrap import compare, estimate, mcnemar, pass_power, sign_flip


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def test_micro_and_macro_are_as_in_the_docstring():
    found = estimate(column(1, 0), column(1, 3), 500, 0)[0]

    assert (found.value, found.macro, found.count) == (0.25, 0.5, 4)
    assert (found.low, found.high) == (0, 1)


def test_the_interval_is_the_percentile_of_all_draws_of_users():
    right, total = [2.0, 0.0, 1.0, 3.0], [4.0, 2.0, 2.0, 3.0]
    exact = [sum(right[i] for i in draw) / sum(total[i] for i in draw) for draw in itertools.product(range(4), repeat=4)]
    found = estimate(column(*right), column(*total), 20_000, 1)[0]

    assert found.low == pytest.approx(np.percentile(exact, 2.5), abs=0.02)
    assert found.high == pytest.approx(np.percentile(exact, 97.5), abs=0.02)


def test_samples_of_one_user_are_not_taken_for_independent_ones():
    rng = np.random.default_rng(0)
    users = (rng.random(30) < 0.5).astype(float)
    clustered = estimate((users * 20)[:, None], np.full((30, 1), 20.0), 2_000, 0)[0]
    pretended = estimate(np.repeat(users, 20)[:, None], np.ones((600, 1)), 2_000, 0)[0]

    assert clustered.value == pretended.value
    assert (clustered.high - clustered.low) > 3 * (pretended.high - pretended.low)


def test_nothing_counted_is_none_and_the_same_seed_gives_the_same_interval():
    empty = estimate(column(0, 0), column(0, 0), 100, 0)[0]

    assert (empty.value, empty.low, empty.macro, empty.count) == (None, None, None, 0)
    assert estimate(np.zeros((0, 1)), np.zeros((0, 1)), 100, 0)[0].value is None
    assert estimate(column(1, 0, 1), column(1, 1, 1), 100, 7) == estimate(column(1, 0, 1), column(1, 1, 1), 100, 7)


def test_the_paired_difference_is_as_in_the_docstring():
    found = compare((column(3, 2), column(4, 4)), (column(1, 2), column(4, 4)), 300, 0)[0]

    assert (found.first, found.second, found.difference, found.p) == (0.625, 0.375, 0.25, 1.0)
    assert 0 <= found.low <= 0.25 <= found.high <= 0.5


def test_a_paired_interval_is_narrower_than_two_apart_when_both_fail_on_the_same_users():
    rng = np.random.default_rng(3)
    hard = rng.random(60)
    one, two = np.round(10 * hard)[:, None], np.round(9 * hard)[:, None]
    total = np.full((60, 1), 10.0)
    found = compare((one, total), (two, total), 1_000, 0)[0]
    alone = estimate(one, total, 1_000, 0)[0]

    assert found.high - found.low < 0.5 * (alone.high - alone.low)
    assert found.p < 0.01


def test_no_p_is_given_where_the_two_count_different_things():
    assert compare((column(1), column(2)), (column(1), column(3)), 50, 0)[0].p is None


@pytest.mark.parametrize(("differences", "wanted"), [([1, 1, 1, 1], 2 / 16), ([2, 0], 1.0), ([], 1.0), ([1, -1], 1.0)])
def test_sign_flips_are_exact_for_few_users(differences: list[float], wanted: float):
    assert sign_flip(np.array(differences, dtype=float), 1000, 0) == pytest.approx(wanted)


def test_sign_flips_of_many_users_are_drawn_and_never_zero():
    assert sign_flip(np.ones(30), 2_000, 0) == pytest.approx(1 / 2001)
    assert sign_flip(np.array([1.0, -1.0] * 15), 2_000, 0) > 0.9


def test_mcnemar_is_exact():
    assert mcnemar(5, 0) == pytest.approx(0.0625)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(3, 3) == 1.0


def test_pass_power_is_as_in_the_docstring():
    assert [pass_power([2], 3, k) for k in (1, 2, 3)] == pytest.approx([2 / 3, 1 / 3, 0])
    assert pass_power([], 3, 1) == 0
