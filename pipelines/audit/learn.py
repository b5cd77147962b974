"""What can be learned from what: is the label where the structure says it is, and nowhere else?

Each reader predicts the gold platform, cross-validated over users it has not seen (except the reader of the user's id). The
query text alone must stay near the prior; history and context must be far above. Source: scikit-learn.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from pipelines.audit.counting import share
from pipelines.loop import Population
from pipelines.records import Sample
from pipelines.world import flatten

FOLDS = 5
MOST = 2_000
"""Samples per scenario; more tell nothing new and cost time."""
FEWEST = 30
"""A scenario or an argument with fewer samples is not judged."""


def learnability(samples: Sequence[Sample], people: Population, seed: int) -> dict[str, Any]:
    """Accuracy of each reader, pooled over scenarios, with its interval and the prior beside it."""
    hits: dict[str, int] = Counter()
    total = 0
    by_scenario: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.act == "call" and sample.control != "profile_irrelevant":
            by_scenario[sample.scenario].append(sample)
    per_scenario: dict[str, dict[str, float]] = {}
    for scenario, mine in sorted(by_scenario.items()):
        mine = random.Random(f"{seed} {scenario}").sample(mine, min(MOST, len(mine)))
        if len(mine) < FEWEST or len({s.user for s in mine}) < 2 or len({s.platform for s in mine}) < 2:
            continue
        found = _readers(mine, people, seed)
        per_scenario[scenario] = {name: round(count / len(mine), 4) for name, count in found.items()}
        for name, count in found.items():
            hits[name] += count
        total += len(mine)
    return {
        "readers": {name: share(hits[name], total) for name in hits},
        "per_scenario": per_scenario,
        "samples": total,
        "per_argument": per_argument(samples, people, seed),
    }


def _readers(mine: list[Sample], people: Population, seed: int) -> dict[str, int]:
    gold = np.array([s.platform for s in mine])
    users = np.array([s.user for s in mine])
    texts = [s.query for s in mine]
    strangers = list(GroupKFold(min(FOLDS, len(set(users)))).split(texts, gold, users))
    rarest = min(Counter(gold).values())
    folds = StratifiedKFold(max(2, min(FOLDS, rarest)), shuffle=True, random_state=seed)
    acquainted = list(folds.split(texts, gold)) if rarest > 1 else strangers
    context = _cross(_texts(), texts, np.array([s.context for s in mine]), strangers)
    return {
        "prior": _right(gold, _prior(gold, strangers)),
        "query": _right(gold, _cross(_texts(), texts, gold, strangers)),
        "user": _right(gold, _cross(_dicts(), [{f"user={u}": 1} for u in users], gold, acquainted)),
        "profile": _right(gold, _cross(_dicts(), [_basic(people, s) for s in mine], gold, strangers)),
        "history": _right(gold, _cross(_dicts(), [_counts(people, s, None) for s in mine], gold, strangers)),
        "history and query": _right(gold, np.array([_most(people, s, str(c)) for s, c in zip(mine, context, strict=True)])),
        "history and context": _right(gold, np.array([_most(people, s, s.context) for s in mine])),
    }


def _right(gold: NDArray[Any], told: NDArray[Any]) -> int:
    return int((gold == told).sum())


def _texts() -> Any:
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=20_000), SGDClassifier(loss="log_loss", random_state=0))


def _dicts() -> Any:
    return make_pipeline(DictVectorizer(), MaxAbsScaler(), SGDClassifier(loss="log_loss", random_state=0))


def _cross(model: Any, features: Sequence[Any], gold: NDArray[Any], folds: list[Any]) -> NDArray[Any]:
    """Out-of-fold predictions; a fold whose training labels are all alike predicts that label."""
    told = np.empty(len(gold), dtype=object)
    for train, test in folds:
        known = gold[train]
        if len(set(known)) < 2:
            told[test] = known[0]
            continue
        try:
            model.fit([features[i] for i in train], known)
        except ValueError:  # no word is left: the reader can only guess the commonest
            told[test] = Counter(known).most_common(1)[0][0]
            continue
        told[test] = model.predict([features[i] for i in test])
    return told


def _prior(gold: NDArray[Any], folds: list[Any]) -> NDArray[Any]:
    told = np.empty(len(gold), dtype=object)
    for train, test in folds:
        told[test] = Counter(gold[train]).most_common(1)[0][0]
    return told


def _basic(people: Population, sample: Sample) -> dict[str, Any]:
    basic = people.profiles[sample.user].basic
    return {
        name: value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
        for name, value in basic.items()
        if isinstance(value, (str, int, float, bool))
    }


def _counts(people: Population, sample: Sample, context: str | None) -> dict[str, float]:
    """Share of each platform among the user's events, of one context or of all."""
    events = [e for e in people.histories[sample.user, sample.scenario].events if context is None or e.context == context]
    counts = Counter(e.platform for e in events)
    return {platform: count / len(events) for platform, count in sorted(counts.items())} if events else {"none": 1.0}


def _most(people: Population, sample: Sample, context: str) -> str:
    counts = _counts(people, sample, context)
    return max(counts, key=lambda p: (counts[p], p))


def per_argument(samples: Sequence[Sample], people: Population, seed: int) -> dict[str, Any]:
    """Can an argument from the profile be guessed without it? By the commonest value, and by the query text."""
    values: dict[str, list[tuple[Sample, str]]] = defaultdict(list)
    for sample in samples:
        for call in sample.calls:
            api = people.world.api.get((sample.platform, call.api))
            flat = flatten(call.arguments, api.parameters) if api is not None else {}
            for path, source in call.sources.items():
                if source.kind == "profile" and path in flat:
                    values[source.at].append((sample, str(flat[path])))
    told: dict[str, Any] = {}
    for feature, found in sorted(values.items()):
        if len(found) < FEWEST or len({s.user for s, _ in found}) < 3:
            continue
        found = random.Random(f"{seed} {feature}").sample(found, min(MOST, len(found)))
        gold = np.array([value for _, value in found])
        folds = list(GroupKFold(3).split(gold, gold, [s.user for s, _ in found]))
        row = {"prior": share(_right(gold, _prior(gold, folds)), len(gold)), "values": len(set(gold))}
        if len(set(gold)) <= 20:  # free text differs from user to user: nothing of it can be learned
            row["query"] = share(_right(gold, _cross(_texts(), [s.query for s, _ in found], gold, folds)), len(gold))
        told[feature] = row
    return told


def problem_of(found: dict[str, Any], bound: float) -> str | None:
    """Nothing, or why the labels are not where they should be."""
    readers = found["readers"]
    if not readers:
        return None
    query, prior = readers["query"]["share"], readers["prior"]["share"]
    slack = prior - readers["prior"]["interval"][0]
    if query - prior > bound + slack:
        return f"the query text alone tells the platform in {query:.1%} of cases, the prior in {prior:.1%}; the bound is {bound:.1%} more"
    return None
