"""Small data and predictions for the tests of the benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def seven(answer: Any, user: str = "u1", query: str = "Order it", **more: Any) -> dict[str, Any]:
    """A seven-key record; `q` is a query parameter and `p` a profile parameter."""
    record = {
        "user_profile": {"basic_features": {"name": user}, "user_history": []},
        "platforms": [],
        "tools": {},
        "query": query,
        "answer": answer,
        "query_params": ["q"],
        "profile_params": ["p"],
    }
    return record | more


def own(sample: str, user: str = "u1", **more: Any) -> dict[str, Any]:
    """A line of a split file: one call `find(q="x", p="home")` on shopping/alpha."""
    record = {
        "id": sample,
        "user": user,
        "scenario": "shopping",
        "kinds": ["tool_preference"],
        "query": f"Find x, please ({sample})",
        "platform": "shopping/alpha",
        "calls": [{"api": "find", "sources": {"q": {"kind": "query"}, "p": {"kind": "profile"}}, "arguments": {"q": "x", "p": "home"}}],
        "accepted": [{"q": ["x"], "p": ["home"]}],
        "evidence": {"utilities": [{"platform": "shopping/alpha", "utility": 0.8}, {"platform": "shopping/beta", "utility": 0.5}]},
    }
    return record | more


def write_array(path: Path, records: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    """Objects as JSON, texts as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


RIGHT = "alpha:[find(q='x', p='home')]"
