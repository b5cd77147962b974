"""Solvers without a model: their scores bracket the benchmark. If `query-only` does well, the data is broken.

All but `oracle` see what any solver sees. They read requests as the offline model does, so on its data they read well, and
what separates them is which facts of the user they may use.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pipelines.evaluation.items import Item
from pipelines.evaluation.rendering import answer_text, gold_text
from pipelines.evaluation.seen import Seen
from pipelines.llm.offline.solving import events, fill, market_of, pick_api, today_of
from pipelines.normal import stem, words
from pipelines.world import leaves, unflatten

BASELINES = {
    "oracle": "the gold answer; scores 1.0",
    "random": "any platform, any API, any value",
    "popular-platform": "the platform that most histories use; arguments from the query",
    "profile-lookup": "any platform; arguments from the query and the basic features; never looks at the history",
    "history-majority": "the platform this user used most; arguments from the query and the basic features",
    "query-only": "the platform whose words fit the query best; sees nothing of the user",
}


class Baseline:
    """One built-in solver.

    Args:
        name: One of `BASELINES`.
        seed: Of its draws; with the sample's id they decide everything.
        samples: All samples, read once, for `popular-platform`.
    """

    def __init__(self, name: str, seed: int, samples: Iterable[tuple[Item, Seen]]) -> None:
        self.name = name
        self._seed = seed
        self._popular: Counter[str] = Counter()
        if name == "popular-platform":
            for _, seen in samples:
                if isinstance(seen.tools, list):
                    self._popular.update(platform for platform, _, _ in events(seen.history, seen.tools))

    def answer(self, item: Item, seen: Seen) -> str:
        """The answer, in the published text form."""
        if self.name == "oracle":
            return gold_text(item)
        platforms = [p for p in seen.tools if isinstance(p, dict) and p.get("apis")] if isinstance(seen.tools, list) else []
        if not platforms:
            return "none: the tools are in no shape that this solver knows"
        rng = random.Random(f"{self._seed} {self.name} {item.id}")
        platform = self._platform(rng, seen, platforms)
        if self.name == "random":
            api = rng.choice(platform["apis"])
            return answer_text(platform["name"], [(api["name"], unflatten(_guessed(rng, api, seen.query)))])
        market = market_of(platforms)
        api = pick_api(market, platform, seen.query)
        person = seen.person if self.name in ("profile-lookup", "history-majority") and isinstance(seen.person, dict) else {}
        return answer_text(platform["name"], [(api["name"], unflatten(fill(market, api, seen.query, today_of(seen.asked_at), person)))])

    def _platform(self, rng: random.Random, seen: Seen, platforms: list[dict[str, Any]]) -> dict[str, Any]:
        if self.name == "popular-platform":
            return max(platforms, key=lambda p: (self._popular[p["name"]], p["name"]))
        if self.name == "history-majority":
            used = Counter(name for name, _, _ in events(seen.history, platforms))
            return max(platforms, key=lambda p: (used[p["name"]], p["name"])) if used else rng.choice(platforms)
        if self.name == "query-only":
            query = _stems(seen.query)
            return max(platforms, key=lambda p: (len(query & _stems(_about(p))), rng.random()))
        return rng.choice(platforms)


def _about(platform: dict[str, Any]) -> str:
    traits = platform.get("traits")
    return " ".join(
        [str(platform["name"]), str(platform.get("description")), *map(str, traits.values() if isinstance(traits, dict) else ())]
    )


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text) if len(word) > 3}


def _guessed(rng: random.Random, api: dict[str, Any], query: str) -> dict[str, Any]:
    """A value for every required argument, by its schema."""
    found = {}
    for leaf in leaves(api.get("parameters") or {}):
        if not leaf.required:
            continue
        kind = leaf.schema.get("type")
        if leaf.schema.get("enum"):
            found[leaf.path] = rng.choice(leaf.schema["enum"])
        elif kind in ("integer", "number"):
            found[leaf.path] = rng.randrange(1, 100)
        elif kind == "boolean":
            found[leaf.path] = rng.random() < 0.5
        elif kind == "array":
            found[leaf.path] = [rng.choice(query.split() or ["x"])]
        else:
            found[leaf.path] = rng.choice(query.split() or ["x"])
    return found
