"""How different the queries are: near-duplicates, variety of words and meanings, templates that come again."""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from pipelines import normal
from pipelines.audit.counting import share
from pipelines.records import Sample

NEAR = 0.9
"""Jaccard similarity of word sets from which two queries are near-duplicates."""
MEANINGS = 1_500
"""Queries whose meanings are compared pair by pair."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")


def near_duplicates(bags: Sequence[frozenset[str]]) -> list[tuple[int, int]]:
    """All pairs with a Jaccard similarity of at least `NEAR`; exact, by prefix filtering.

    Two sets that similar share a word among their `n - ceil(NEAR n) + 1` rarest ones. Source: Chaudhuri, Ganti and
    Kaushik (2006), ICDE. Queries without words pair with nothing.
    """
    often = Counter(word for bag in bags for word in bag)
    holders: dict[str, list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for place, bag in enumerate(bags):
        rare = sorted(bag, key=lambda word: (often[word], word))
        candidates: set[int] = set()
        for word in rare[: len(bag) - math.ceil(NEAR * len(bag)) + 1]:
            candidates.update(holders[word])
            holders[word].append(place)
        for other in sorted(candidates):
            both = len(bag & bags[other])
            if both >= NEAR * (len(bag) + len(bags[other]) - both):
                pairs.append((other, place))
    return pairs


def describe_texts(samples: Sequence[Sample], seed: int) -> dict[str, Any]:
    """Near-duplicates within and across splits and users, and how much the wording varies."""
    bags = [frozenset(normal.words(sample.query)) for sample in samples]
    kinds: Counter[str] = Counter()
    for one, other in near_duplicates(bags):
        first, second = samples[one], samples[other]
        where = "within" if first.split == second.split else "across"
        whose = "same_user" if first.user == second.user else "other_user"
        kinds[f"{where}_splits_{whose}"] += 1
    words = [normal.words(sample.query) for sample in samples]
    return {
        "near_duplicates": {"pairs": sum(kinds.values()), **dict(sorted(kinds.items()))},
        "lexical": _lexical(words),
        "meaning": _meaning([sample.query for sample in samples], seed),
        "templates": _templates(samples),
    }


def _lexical(words: list[list[str]]) -> dict[str, Any]:
    singles = Counter(word for text in words for word in text)
    pairs = Counter(pair for text in words for pair in pairwise(text))
    lengths = sorted(len(text) for text in words)
    return {
        "words": sum(singles.values()),
        "distinct_words": len(singles),
        "distinct_pairs_share": round(len(pairs) / max(1, sum(pairs.values())), 4),
        "words_per_query": {"least": lengths[0], "median": lengths[len(lengths) // 2], "most": lengths[-1]} if lengths else {},
    }


def _meaning(texts: list[str], seed: int) -> dict[str, Any]:
    """Latent semantic vectors (TF-IDF, 50 dimensions) and their mean pairwise cosine distance; 0 is all alike."""
    chosen = random.Random(f"{seed} meanings").sample(texts, min(MEANINGS, len(texts)))
    if len(chosen) < 10:
        return {"queries": len(chosen), "mean_distance": None}
    vectors = TfidfVectorizer(min_df=1, max_features=20_000).fit_transform(chosen)
    size = min(50, vectors.shape[1] - 1, len(chosen) - 1)
    close = cosine_similarity(TruncatedSVD(size, random_state=0).fit_transform(vectors))
    count = len(chosen)
    return {"queries": count, "mean_distance": round(float(1 - (close.sum() - close.trace()) / (count * (count - 1))), 4)}


def _templates(samples: Sequence[Sample]) -> dict[str, Any]:
    """Sentences that come again word for word, and openings of three words."""
    sentences: Counter[str] = Counter()
    openings: Counter[str] = Counter()
    for sample in samples:
        sentences.update(part.strip() for part in _SENTENCE.split(sample.query) if len(part.split()) > 2 or len(part) > 12)
        openings[" ".join(normal.words(sample.query)[:3])] += 1
    total = sum(sentences.values())
    again = sum(count for count in sentences.values() if count > 1)
    return {
        "sentences": total,
        "reused_sentences": share(again, total),
        "most_reused": [{"text": text, "count": count} for text, count in sentences.most_common(5)],
        "openings": len(openings),
        "most_common_openings": [{"text": text, "count": count} for text, count in openings.most_common(5)],
    }


def coverage(samples: Iterable[Sample]) -> dict[str, dict[str, int]]:
    """How many samples each platform, API, context, kind, control, number of calls, source and style has."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        found["split"][str(sample.split)] += 1
        found["platform"][sample.platform or f"({sample.act})"] += 1
        found["context"][f"{sample.scenario}/{sample.context}"] += 1
        found["kind"]["+".join(sample.kinds) or f"({sample.control})"] += 1
        found["control"][sample.control or "none"] += 1
        found["calls"][str(len(sample.calls))] += 1
        found["tone"][sample.style.tone] += 1
        found["length"][sample.style.length] += 1
        for call in sample.calls:
            found["api"][f"{sample.platform}/{call.api}"] += 1
            for source in call.sources.values():
                found["source"][source.kind] += 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}


def flip_pairs(samples: Iterable[Sample]) -> dict[str, Any]:
    """(user, scenario) in which two samples want the same capability and have different gold platforms (Def. 3.1)."""
    golds: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for sample in samples:
        if "tool_preference" in sample.kinds:
            golds[sample.user, sample.scenario][sample.capability].add(sample.platform)
        elif sample.control is None:
            golds[sample.user, sample.scenario]
    flipping = sum(any(len(platforms) > 1 for platforms in found.values()) for found in golds.values())
    return share(flipping, len(golds))
