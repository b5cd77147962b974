"""Intervals and tests by user: samples of one user are not independent, so users are drawn, not samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

Matrix = NDArray[np.float64]
FEW = 20
"""With fewer users than this an interval is too narrow to be trusted, and said to be so."""
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Estimate:
    """One metric over one group."""

    value: float | None
    """Micro: ratio of sums; None when nothing is counted."""
    low: float | None
    high: float | None
    """95 % percentile interval over draws of users."""
    macro: float | None
    """Mean over users."""
    macro_low: float | None
    macro_high: float | None
    count: float
    """The denominator."""


def estimate(numerators: Matrix, denominators: Matrix, draws: int, seed: int) -> list[Estimate]:
    """Value and interval of every metric.

    Worked example: users with 1 of 1 and 0 of 3 right have micro 1/4 = 0.25 and macro (1 + 0)/2 = 0.5; the interval is over
    draws of two users with replacement: both first (1.0), both second (0.0), one each (0.25).

    Args:
        numerators: Users x metrics.
        denominators: The same shape.
        draws: Number of bootstrap draws; 0 gives no intervals.
        seed: Of the draws; the order of users must be fixed.
    """
    users, metrics = numerators.shape
    if users == 0:
        return [Estimate(None, None, None, None, None, None, 0) for _ in range(metrics)]
    ratios, valid = _ratios(numerators, denominators)
    micro, macro = _values(np.ones((1, users)), numerators, denominators, ratios, valid)
    drawn = _drawn(users, draws, seed, lambda counts: _values(counts, numerators, denominators, ratios, valid))
    lows = [_percentiles(part) for part in drawn] if drawn is not None else [np.full((2, metrics), np.nan)] * 2
    sums = denominators.sum(axis=0)
    return [
        Estimate(
            _number(micro[0, m]), _number(lows[0][0, m]), _number(lows[0][1, m]),
            _number(macro[0, m]), _number(lows[1][0, m]), _number(lows[1][1, m]), round(float(sums[m]), 6),
        )
        for m in range(metrics)
    ]  # fmt: skip


def _ratios(numerators: Matrix, denominators: Matrix) -> tuple[Matrix, Matrix]:
    valid = (denominators > 0).astype(float)
    return np.divide(numerators, denominators, out=np.zeros_like(numerators), where=denominators > 0), valid


def _values(counts: Matrix, numerators: Matrix, denominators: Matrix, ratios: Matrix, valid: Matrix) -> tuple[Matrix, Matrix]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (counts @ numerators) / (counts @ denominators), (counts @ ratios) / (counts @ valid)


def _drawn(users: int, draws: int, seed: int, values: object) -> tuple[Matrix, Matrix] | None:
    """Micro and macro values of every draw; drawn in blocks, so that memory stays bounded."""
    if draws <= 0:
        return None
    assert callable(values)
    rng = np.random.default_rng(seed)
    size = max(1, min(draws, _BLOCK // users))
    parts = []
    for start in range(0, draws, size):
        counts = rng.multinomial(users, np.full(users, 1 / users), size=min(size, draws - start)).astype(float)
        parts.append(values(counts))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _percentiles(drawn: Matrix) -> Matrix:
    found = np.full((2, drawn.shape[1]), np.nan)
    for m in range(drawn.shape[1]):
        column = drawn[:, m][np.isfinite(drawn[:, m])]
        if column.size:
            found[:, m] = np.percentile(column, [2.5, 97.5])
    return found


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


@dataclass(frozen=True)
class Comparison:
    """One metric of two solvers on the same samples: first minus second."""

    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    """Sign-flip permutation test over users, two-sided; None where the two denominators differ."""


def compare(first: tuple[Matrix, Matrix], second: tuple[Matrix, Matrix], draws: int, seed: int) -> list[Comparison]:
    """Paired by user: both solvers see the same draw of users.

    Worked example: right answers 3 and 1 of 4 for one user, 2 and 2 of 4 for another: difference 5/8 - 3/8 = 0.25; flipping the
    signs of (2, 0) gives 2, -2 with equal chance, so p = 1: two users prove nothing.
    """
    users, metrics = first[0].shape
    one = np.hstack([first[0], second[0]])
    two = np.hstack([first[1], second[1]])
    whole = one.sum(axis=0, keepdims=True), two.sum(axis=0, keepdims=True)

    def micro(numerators: Matrix, denominators: Matrix) -> Matrix:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = numerators / denominators
        return np.hstack([ratio[:, :metrics], ratio[:, :metrics] - ratio[:, metrics:]])

    drawn = _drawn(users, draws, seed, lambda counts: (micro(counts @ one, counts @ two),) * 2)
    bounds = _percentiles(drawn[0][:, metrics:]) if drawn is not None else np.full((2, metrics), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (whole[0] / whole[1])[0]
    found = []
    for m in range(metrics):
        a, b = values[m], values[metrics + m]
        equal = bool(np.array_equal(first[1][:, m], second[1][:, m])) and first[1][:, m].sum() > 0
        p = sign_flip(first[0][:, m] - second[0][:, m], draws, seed) if equal else None
        found.append(Comparison(_number(a), _number(b), _number(a - b), _number(bounds[0, m]), _number(bounds[1, m]), p))
    return found


def sign_flip(differences: Matrix, draws: int, seed: int) -> float:
    """Chance of a sum at least as far from 0 when each user's difference could have had either sign.

    Exact up to 12 users, else by `draws` random flips with the observed one counted in.
    """
    differences = differences[differences != 0]
    users = differences.size
    if users == 0:
        return 1.0
    observed = abs(differences.sum()) - 1e-12
    if users <= 12:
        signs = 1 - 2 * ((np.arange(2**users)[:, None] >> np.arange(users)) & 1)
        return float((abs(signs @ differences) >= observed).mean())
    rng = np.random.default_rng(seed)
    size = max(1, _BLOCK // users)
    hits, done = 0, 0
    while done < max(draws, 1000):
        now = min(size, max(draws, 1000) - done)
        signs = rng.integers(0, 2, (now, users)) * 2 - 1
        hits += int((abs(signs @ differences) >= observed).sum())
        done += now
    return (hits + 1) / (done + 1)


def mcnemar(first_only: int, second_only: int) -> float:
    """Exact two-sided test on the samples that only one of the two has right; blind to users, so read it second.

    Worked example: 5 against 0 gives 2 x 0.5**5 = 0.0625.
    """
    total = first_only + second_only
    return float(binomtest(first_only, total, 0.5).pvalue) if total else 1.0


def pass_power(right: Sequence[int], repeats: int, k: int) -> float:
    """pass^k: the chance that k of the repeats of one sample, drawn without replacement, are all right; mean over samples.

    For a sample with c of n repeats right it is C(c, k) / C(n, k): c = 2 of n = 3 gives pass^1 = 2/3, pass^2 = 1/3, pass^3 = 0.
    """
    from math import comb

    return sum(comb(c, k) for c in right) / comb(repeats, k) / len(right) if right else 0.0
