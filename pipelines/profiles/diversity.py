"""How different the people are: distances, near-twins, and the correlation that branching causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from pipelines.jsonio import canonical
from pipelines.records import Profile

Codes = npt.NDArray[np.int32]
PAIRS = 20_000
"""Distances are sampled: so many pairs give the mean to about 0.001."""
MOST_USERS = 2_000
"""Correlations are measured on at most so many users, evenly spread."""


def coded(people: Sequence[Mapping[str, JsonValue]], keys: Sequence[str]) -> Codes:
    """Every value as a number, equal values alike, shape (people, keys)."""
    known: dict[tuple[str, str], int] = {}
    rows = [[known.setdefault((key, canonical(person.get(key))), len(known)) for key in keys] for person in people]
    return np.array(rows, dtype=np.int32).reshape(len(people), len(keys))


def features_of(people: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    """All features, sorted."""
    return sorted({key for person in people for key in person})


def spread(people: Sequence[Mapping[str, JsonValue]], wanted: int) -> list[int]:
    """Indices of the `wanted` most different people: each next one is farthest from those chosen (max-min Hamming).

    The first person is always among them; ties go to the earlier one.
    """
    if wanted >= len(people):
        return list(range(len(people)))
    codes = coded(people, features_of(people))
    chosen = [0]
    nearest = (codes != codes[0]).mean(axis=1)
    for _ in range(wanted - 1):
        nearest[chosen[-1]] = -1
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, (codes != codes[chosen[-1]]).mean(axis=1))
    return sorted(chosen)


def distances(people: Sequence[Mapping[str, JsonValue]]) -> npt.NDArray[np.float64]:
    """Shares of basic features in which two users differ: all pairs of few users, else `PAIRS` of them."""
    count = len(people)
    if count < 2:
        return np.zeros(0)
    codes = coded(people, features_of(people))
    if count * (count - 1) // 2 <= PAIRS:
        left, right = np.triu_indices(count, k=1)
    else:
        left, right = np.random.default_rng(0).integers(0, count, size=(2, PAIRS))
        left, right = left[left != right], right[left != right]
    return np.asarray((codes[left] != codes[right]).mean(axis=1))


def cramers_v(one: Codes, other: Codes) -> float:
    """Association of two columns of categories, 0 to 1, corrected for bias.

    Source: Bergsma (2013), Journal of the Korean Statistical Society 42(3).
    """
    n = len(one)
    rows, columns = np.unique(one, return_inverse=True)[1], np.unique(other, return_inverse=True)[1]
    r, k = int(rows.max()) + 1, int(columns.max()) + 1
    if n < 2 or r < 2 or k < 2:
        return 0.0
    table = np.zeros((r, k))
    np.add.at(table, (rows, columns), 1)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / n
    phi = max(0.0, float(((table - expected) ** 2 / expected).sum()) / n - (r - 1) * (k - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return min(1.0, (phi / least) ** 0.5) if least > 1e-9 else 0.0


def block_correlation(people: Sequence[Mapping[str, JsonValue]], layers: Sequence[Sequence[str]]) -> float:
    """Mean Cramér's V over all pairs of features of different layers."""
    step = max(1, len(people) // MOST_USERS)
    some = people[::step]
    codes = {key: coded(some, [key])[:, 0] for layer in layers for key in layer}
    found = [
        cramers_v(codes[one], codes[other])
        for number, upper in enumerate(layers)
        for lower in layers[number + 1 :]
        for one, other in product(upper, lower)
    ]
    return float(np.mean(found)) if found else 0.0


def figures(people: Sequence[Mapping[str, JsonValue]], layers: Sequence[Sequence[str]]) -> dict[str, float | str]:
    """What the manifest says about diversity."""
    apart = distances(people)
    if not len(apart):
        return {}
    return {
        "mean pairwise distance": round(float(apart.mean()), 3),
        "distance of the closest 1 % of pairs": round(float(np.quantile(apart, 0.01)), 3),
        "mean Cramér's V between layers": round(block_correlation(people, layers), 3),
    }


def no_twins(profiles: Sequence[Profile]) -> str | None:
    """No two users have the same basic features."""
    seen: dict[str, str] = {}
    for profile in profiles:
        key = canonical(profile.basic)
        if key in seen:
            return f"{profile.id} and {seen[key]} are the same person"
        seen[key] = profile.id
    return None
