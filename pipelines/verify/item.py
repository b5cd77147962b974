"""What a rule looks at: one query, its answer, and the structure behind both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property

from pydantic import JsonValue

from pipelines.queries import Cell, Choice, choice
from pipelines.records import API, PlannedCall, Query, Slot, Solution
from pipelines.world import flatten


@dataclass(frozen=True)
class Item:
    """A query with its solution and the structure behind both."""

    cell: Cell
    query: Query
    solution: Solution
    min_margin: float
    min_posterior: float

    @cached_property
    def choice(self) -> Choice | None:
        """What the structure says about the slot's context and capability."""
        return choice(self.cell, self.slot.context, self.slot.capability, self.min_margin)

    @cached_property
    def apis(self) -> list[API | None]:
        """The API of every call; None when the platform has no such API."""
        return [self.cell.world.api.get((self.solution.platform, call.api)) for call in self.solution.calls]

    @cached_property
    def flat(self) -> list[dict[str, JsonValue]]:
        """Per call: dotted path -> value."""
        return [
            flatten(call.arguments, api.parameters if api is not None else {})
            for call, api in zip(self.solution.calls, self.apis, strict=True)
        ]

    @property
    def slot(self) -> Slot:
        """The plan."""
        return self.query.slot

    @property
    def planned_api(self) -> API | None:
        """The API of the first planned call; of an `ask` slot the one whose argument is open; None when no tool fits."""
        if self.slot.control == "no_tool":
            return None
        platforms = [self.slot.platform] if self.slot.platform else [u.platform for u in self.choice.ranked] if self.choice else []
        found = [self.cell.world.api.get((platform, self.slot.api)) for platform in platforms]
        return next((api for api in found if api is not None and api.capability == self.slot.capability), None)

    @property
    def today(self) -> date:
        """The day the query was asked, in the user's zone."""
        return datetime.fromisoformat(self.query.slot.time).date()


Rule = Callable[[Item], str | None]
"""Nothing when fine, else what is wrong; its name is the reason counted."""


def choices_of(item: Item) -> list[tuple[PlannedCall, Choice | None]]:
    """What the structure says about every planned call."""
    first = [item.choice] if item.slot.planned else []
    rest = [choice(item.cell, item.slot.context, call.capability, item.min_margin) for call in item.slot.then]
    return list(zip(item.slot.planned, [*first, *rest], strict=True))


def by_preference(item: Item) -> bool:
    """Does the platform follow from the preference? Not when the query names it, and not when nothing is called."""
    return item.slot.act == "call" and item.slot.control != "profile_irrelevant"
