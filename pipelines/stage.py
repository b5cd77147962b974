"""What a stage is made of: its context, its result, and the one parallel loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipelines.config import RunConfig
from pipelines.llm.client import LLM
from pipelines.records import Record, Rejection

In = TypeVar("In")
Out = TypeVar("Out", bound=Record)
Any_ = TypeVar("Any_")


@dataclass(frozen=True)
class Context:
    """What every stage gets besides its records."""

    config: RunConfig
    llm: LLM


@dataclass
class StageResult(Generic[Out]):
    """What a stage made, in an order that depends on the seed and the records alone, and what it dropped."""

    kept: list[Out] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    notes: dict[str, float | str] = field(default_factory=dict)
    """Figures about the stage as a whole, for the manifest and the artifacts."""


async def gather(items: Sequence[In], work: Callable[[In], Awaitable[Any_]]) -> list[Any_]:
    """Do the work for all items at once, results in the order of the items.

    How many requests are really in flight is the model layer's affair. When one item fails, the others
    are cancelled before the error is passed on, so nothing runs on behind a stopped stage.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_coroutine(work(item))) for item in items]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def _coroutine(awaitable: Awaitable[Any_]) -> Any_:
    return await awaitable


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
