"""Answers as text, in the published form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.evaluation.items import Item
from pipelines.world import unflatten


def answer_text(platform: str, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """`Platform:[api(parameter='value'), ...]`; a platform that is no single word stands in quotes."""
    name = platform if platform.isidentifier() else repr(platform)
    return f"{name}:[{', '.join(f'{api}({_arguments(arguments)})' for api, arguments in calls)}]"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def gold_text(item: Item) -> str:
    """The gold answer, first accepted values, as a perfect solver would write it."""
    if item.act == "ask":
        return "ask: Which do you want?"
    if item.act == "no_tool":
        return "none: no tool fits this request"
    return answer_text(item.platform, [(c.api, unflatten({p: v[0] for p, v in c.accepted.items()})) for c in item.calls])
