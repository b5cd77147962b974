"""Examples from train, and tools by retrieval: both by TF-IDF over words, so that no model is needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from pipelines.errors import ConfigError
from pipelines.evaluation.reader import Part
from pipelines.evaluation.rendering import gold_text
from pipelines.evaluation.seen import Source


class Examples:
    """Solved requests of train, by scenario.

    Raises:
        ConfigError: when there is no train split beside the data.
    """

    def __init__(self, source: Source) -> None:
        path = source.part.path.parent / "train.jsonl"
        if not path.is_file():
            raise ConfigError(f"--shots: {path} is not there; examples come from the train split beside the data")
        self._solved: dict[str, list[tuple[str, dict[str, str]]]] = {}
        for item, seen in Source(Part("train", path, False)):
            self._solved.setdefault(seen.scenario, []).append((item.id, {"query": item.query, "answer": gold_text(item)}))
        self._index: dict[str, tuple[TfidfVectorizer, Any]] = {}

    def of(self, sample: str, scenario: str, query: str, count: int, how: str) -> tuple[dict[str, str], ...]:
        """Examples for one request: `retrieved` by likeness of the queries, or `random` by sample id. Never the sample itself."""
        pool = self._solved.get(scenario, [])
        if how == "random":
            chosen = random.Random(f"shots {sample}").sample(range(len(pool)), min(count + 1, len(pool)))
        elif pool:
            if scenario not in self._index:
                vectorizer = TfidfVectorizer(sublinear_tf=True)
                self._index[scenario] = vectorizer, vectorizer.fit_transform(one["query"] for _, one in pool)
            vectorizer, matrix = self._index[scenario]
            likeness = (matrix @ vectorizer.transform([query]).T).toarray()[:, 0]
            chosen = [int(i) for i in np.argsort(-likeness, kind="stable")[: count + 1]]
        else:
            chosen = []
        return tuple(pool[i][1] for i in chosen if pool[i][0] != sample)[:count]


def retrieved(tools: Any, query: str, count: int) -> Any:
    """The platforms with only the `count` APIs that fit the query best; foreign shapes stay as they are."""
    if not isinstance(tools, list) or not all(isinstance(p, dict) and "apis" in p for p in tools):
        return tools
    apis = [(place, api) for place, platform in enumerate(tools) for api in platform["apis"]]
    if len(apis) <= count:
        return tools
    texts = [_words(tools[place], api) for place, api in apis]
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    matrix = vectorizer.fit_transform(texts)
    likeness = (matrix @ vectorizer.transform([query]).T).toarray()[:, 0]
    kept = {int(i) for i in np.argsort(-likeness, kind="stable")[:count]}
    return [
        {**platform, "apis": [api for i, (at, api) in enumerate(apis) if at == place and i in kept]}
        for place, platform in enumerate(tools)
        if any(at == place and i in kept for i, (at, _) in enumerate(apis))
    ]


def _words(platform: dict[str, Any], api: dict[str, Any]) -> str:
    parameters: dict[str, Any] = (api.get("parameters") or {}).get("properties") or {}
    about: Sequence[str] = [str(schema.get("description", "")) for schema in parameters.values() if isinstance(schema, dict)]
    return " ".join([str(platform.get("name")), str(api.get("name")), str(api.get("description")), *about])
