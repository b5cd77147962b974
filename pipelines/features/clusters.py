"""Clusters of texts: vectors, agglomerative clustering on cosine distance, and how good the clusters are."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.pipeline import FeatureUnion, make_union

from pipelines import normal

Floats = npt.NDArray[np.float64]
Vectors: TypeAlias = "sparse.csr_matrix[np.float64]"

SIZE = 12
"""Texts shown to the model at once; small enough to name, large enough to see what belongs together."""
_KEPT_COLUMNS = 0.9
"""A second seed sees so much of the vectors."""


def vectors_of(texts: Sequence[str]) -> Vectors:
    """TF-IDF of words and character n-grams, shape (texts, terms), sparse."""
    union: FeatureUnion = make_union(
        TfidfVectorizer(analyzer=normal.words, sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), sublinear_tf=True),
    )
    return union.fit_transform(texts).tocsr()  # type: ignore[no-any-return]


def cosine_distances(vectors: Vectors | Floats) -> Floats:
    """Shape (texts, texts); 0 alike, 2 opposite."""
    product = vectors @ vectors.T
    likeness = np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float64)
    lengths = np.sqrt(np.maximum(likeness.diagonal(), 1e-12))
    distance = np.clip(1 - likeness / lengths[:, None] / lengths[None, :], 0, 2)
    np.fill_diagonal(distance, 0)
    return np.asarray(distance)


def cluster(distance: Floats, size: int = SIZE) -> list[list[int]]:
    """Indices in clusters of about `size`, in the order of their first member; average linkage."""
    count = len(distance)
    wanted = math.ceil(count / size)
    if count <= 1 or wanted <= 1:
        return [list(range(count))] if count else []
    labels = AgglomerativeClustering(n_clusters=wanted, metric="precomputed", linkage="average").fit_predict(distance)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(int(label), []).append(index)
    most = 3 * size  # average linkage can make one huge cluster; the model is shown at most three times the usual size
    return [members[i : i + most] for members in groups.values() for i in range(0, len(members), most)]


def reseeded(vectors: Vectors | Floats, rng: random.Random) -> tuple[list[int], Floats]:
    """The texts dealt in another order with a tenth of the columns hidden: (order, distances in that order)."""
    count = vectors.shape[0]
    order = rng.sample(range(count), count)
    columns = sorted(rng.sample(range(vectors.shape[1]), max(1, round(_KEPT_COLUMNS * vectors.shape[1]))))
    return order, cosine_distances(vectors[order][:, columns])


def silhouette(distance: Floats, clusters: Sequence[Sequence[int]]) -> float | None:
    """Mean silhouette, -1 to 1; None when it is not defined (one cluster, or every text its own)."""
    if not 2 <= len(clusters) < len(distance):
        return None
    labels = np.empty(len(distance), dtype=int)
    for label, members in enumerate(clusters):
        labels[list(members)] = label
    return float(silhouette_score(distance, labels, metric="precomputed"))


def agreement(one: Mapping[str, str], other: Mapping[str, str]) -> float | None:
    """Adjusted Rand index of two assignments over what both assign: 1 the same, 0 as by chance."""
    both = sorted(one.keys() & other.keys())
    return float(adjusted_rand_score([one[k] for k in both], [other[k] for k in both])) if len(both) > 1 else None
