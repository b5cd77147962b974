"""What a stage is made of: its context, its result, and the one parallel loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pipelines.config import RunConfig
from pipelines.errors import ChecksFailed
from pipelines.llm import prompts
from pipelines.llm.client import LLM
from pipelines.llm.prompts import Prompt
from pipelines.records import Record, Rejection

In = TypeVar("In")
Out = TypeVar("Out", bound=Record)
Any_ = TypeVar("Any_")


@dataclass(frozen=True)
class Context:
    """What every stage gets besides its records."""

    config: RunConfig
    llm: LLM
    judges: tuple[LLM, ...] = ()
    """The models that judge; empty: the run's model."""

    def prompt(self, name: str) -> Prompt:
        """A prompt in the run's language."""
        return prompts.load(name, language=self.config.language)


@dataclass
class StageResult(Generic[Out]):
    """What a stage made, in an order that depends on the seed and the records alone, and what it dropped."""

    kept: list[Out] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    notes: dict[str, float | str] = field(default_factory=dict)
    """Figures about the stage as a whole, for the manifest and the artifacts."""


AT_ONCE = 1_000
"""Items of one `gather` that are worked on together; it bounds the memory, not the requests in flight."""


@dataclass
class Progress:
    """How far a stage is: items that `gather` has seen, and those that are done."""

    done: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1; the total grows while nested items are found."""
        return self.done / self.total if self.total else 0.0


PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""Set around a stage by whoever wants to watch it."""


async def gather(items: Sequence[In], work: Callable[[In], Awaitable[Any_]]) -> list[Any_]:
    """Do the work for all items, up to `AT_ONCE` together, results in the order of the items.

    How many requests are really in flight is the model layer's affair. When one item fails, the others
    are cancelled before the error is passed on, so nothing runs on behind a stopped stage.
    """
    progress = PROGRESS.get()
    if progress is not None:
        progress.total += len(items)
    made: list[Any] = [None] * len(items)
    left = iter(enumerate(items))

    async def worker() -> None:
        for place, item in left:
            made[place] = await work(item)
            if progress is not None:
                progress.done += 1

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(items))):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return made


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


ALARM_AFTER = 20
"""So few things made or dropped are no yield yet."""


def check_yield(stage: str, kept: int, rejected: Sequence[Rejection], limit: float, unit: Container[str] | None = None) -> None:
    """The yield alarm: stop a stage that rejects more than it may, with its three most frequent reasons.

    Args:
        kept: How many were kept.
        rejected: All rejections of the stage so far.
        limit: The largest share that may be rejected.
        unit: Reasons that drop a whole record, left out all; the others dropped a part of one and are only named.

    Raises:
        ChecksFailed: carrying the rejections, so that they can be written.
    """
    lost = sum(unit is None or rejection.reason in unit for rejection in rejected)
    if kept + lost < ALARM_AFTER or lost <= limit * (kept + lost):
        return
    top = ", ".join(f"{reason} {count}" for reason, count in Counter(r.reason for r in rejected).most_common(3))
    raise ChecksFailed(
        f"{stage}: {lost} of {kept + lost} rejected, max_rejected is {limit:.0%}; most frequent reasons: {top}; "
        "see the stage's file in rejected/, then change its prompt, the model or max_rejected",
        rejected,
    )
