"""Near-duplicate APIs: the same name, the same text, then nearly the same vector.

Vectors are TF-IDF of the words of name, description and parameters. Up to 2,000 texts all pairs are compared
(one sparse product). Above that, only pairs are that MinHash with locality-sensitive hashing brings together:
48 hashes in 16 bands of 3, so that two texts with a Jaccard similarity of 0.7 meet with probability 0.998.
Within a bucket a text is compared with the 8 before it, which bounds the pairs by 128 per text: time grows
with the words (times 48) plus the pairs, O(n), instead of with n squared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines import normal
from pipelines.records import API
from pipelines.world import leaves

THRESHOLD = 0.92
"""Cosine from which two APIs count as one."""
ALL_PAIRS = 2_000
BANDS, ROWS, LOOK_BACK = 16, 3, 8
_PRIME = (1 << 31) - 1
_CHUNK = 200_000


@dataclass(frozen=True)
class ApiText:
    """What is compared of an API."""

    name: str
    text: str


@dataclass(frozen=True)
class Dropped:
    """One API that repeats an earlier one."""

    index: int
    of: int
    why: str
    """same_name, same_text or near_duplicate."""
    similarity: float


def api_text(api: API) -> ApiText:
    """Name, description and parameters as words."""
    return text_of(api.name, api.description, api.parameters)


def text_of(name: str, description: str, parameters: Mapping[str, Any]) -> ApiText:
    """The same of an API that is no record yet."""
    words = [spaced(name), description]
    words += [f"{spaced(leaf.path)} {leaf.description}" for leaf in leaves(parameters)]
    return ApiText(name, " ".join(words))


def spaced(name: str) -> str:
    """`getCityWeather` -> get city weather."""
    return " ".join(normal.words("".join(f" {c}" if c.isupper() else c for c in name).replace("_", " ").replace(".", " ")))


def near_duplicates(apis: Sequence[ApiText], threshold: float = THRESHOLD) -> list[Dropped]:
    """What to drop, in order: each entry repeats an earlier API that is kept.

    Args:
        apis: In order of preference; the first of a pair is kept.
        threshold: Cosine of the vectors, in (0, 1].
    """
    dropped: dict[int, Dropped] = {}
    names: dict[str, int] = {}
    texts: dict[str, int] = {}
    for index, api in enumerate(apis):
        for seen, key, why in ((names, api.name.casefold(), "same_name"), (texts, " ".join(api.text.casefold().split()), "same_text")):
            if key in seen and index not in dropped:
                dropped[index] = Dropped(index, seen[key], why, 1.0)
        if index not in dropped:
            names[api.name.casefold()] = index
            texts[" ".join(api.text.casefold().split())] = index
    left = [index for index in range(len(apis)) if index not in dropped]
    gone: set[int] = set()
    for later, earlier, similarity in _alike([apis[index].text for index in left], threshold):
        if later not in gone and earlier not in gone:
            gone.add(later)
            dropped[left[later]] = Dropped(left[later], left[earlier], "near_duplicate", round(similarity, 3))
    return [dropped[index] for index in sorted(dropped)]


def _alike(texts: Sequence[str], threshold: float) -> list[tuple[int, int, float]]:
    """(later, earlier, cosine) of pairs at or above the threshold, by later, then earlier."""
    if len(texts) < 2:
        return []
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=r"(?u)\w+", sublinear_tf=True, dtype=np.float32)  # noqa: S106  # tokens of text
    try:
        vectors = vectorizer.fit_transform(texts).tocsr()
    except ValueError:  # no words at all
        return []
    if len(texts) <= ALL_PAIRS:
        product = (vectors @ vectors.T).tocoo()
        later, earlier, cosine = product.row, product.col, product.data
        chosen = (later > earlier) & (cosine >= threshold - 1e-6)
        later, earlier, cosine = later[chosen], earlier[chosen], cosine[chosen]
    else:
        later, earlier = _candidates(vectors)
        cosine = np.concatenate(
            [
                np.asarray(vectors[later[i : i + _CHUNK]].multiply(vectors[earlier[i : i + _CHUNK]]).sum(axis=1)).ravel()
                for i in range(0, len(later), _CHUNK)
            ]
            or [np.zeros(0, dtype=np.float32)]
        )
        chosen = cosine >= threshold - 1e-6
        later, earlier, cosine = later[chosen], earlier[chosen], cosine[chosen]
    order = np.lexsort((earlier, later))
    return [(int(later[i]), int(earlier[i]), float(min(cosine[i], 1.0))) for i in order]


def _candidates(vectors: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs (later, earlier) that share a band of their MinHash signatures."""
    count = vectors.shape[0]
    rng = np.random.default_rng(0)
    columns = vectors.indices.astype(np.uint64)
    filled = np.flatnonzero(np.diff(vectors.indptr))
    starts = vectors.indptr[filled]
    pairs: list[NDArray[np.uint64]] = []
    for _ in range(BANDS):
        key = np.zeros(len(filled), dtype=np.uint64)
        for _ in range(ROWS):
            a, b = (int(n) for n in rng.integers(1, _PRIME, size=2))
            hashed = (columns * np.uint64(a) + np.uint64(b)) % np.uint64(_PRIME)
            key = key * np.uint64(0x9E3779B97F4A7C15) + np.minimum.reduceat(hashed, starts)
        order = np.argsort(key, kind="stable")
        ranked, rows = key[order], filled[order].astype(np.uint64)
        for back in range(1, LOOK_BACK + 1):
            same = ranked[back:] == ranked[:-back]
            pairs.append(rows[back:][same] * np.uint64(count) + rows[:-back][same])
    codes = np.unique(np.concatenate(pairs))
    return (codes // np.uint64(count)).astype(np.int64), (codes % np.uint64(count)).astype(np.int64)
