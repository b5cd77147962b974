"""What was paid and what went wrong: sums over the attempts and replies of a ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from pipelines.llm import tables

USABLE = ("stop", "tool_calls")
"""Finish reasons of replies that are read; all others are outcomes that reject."""


@dataclass(frozen=True)
class Usage:
    """Sums over what was paid: everything, or one stage of it."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    """Calls whose price is unknown; while there are any, `cost` is a lower bound."""

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens together."""
        return self.prompt_tokens + self.reply_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class Account(ABC):
    """The sums of one run; the ledger says how rows are read."""

    run: str

    @abstractmethod
    def _rows(self, query: Any) -> list[dict[str, Any]]:
        """All rows of a query."""

    def usage(self, since: float = 0.0) -> dict[str, Usage]:
        """What each stage paid for, over all sessions, rejected work included."""
        a = tables.ATTEMPTS.c
        query = sa.select(
            a.stage,
            sa.func.count().label("calls"),
            sa.func.sum(a.prompt_tokens).label("prompt_tokens"),
            sa.func.sum(a.reply_tokens).label("reply_tokens"),
            sa.func.sum(a.cached_tokens).label("cached_tokens"),
            sa.func.coalesce(sa.func.sum(a.cost), 0.0).label("cost"),
            (sa.func.count() - sa.func.count(a.cost)).label("unpriced"),
        ).where(a.outcome == "reply", a.run == self.run, a.made_at >= since)
        rows = self._rows(query.group_by(a.stage).order_by(a.stage))
        return {row["stage"]: _usage(row) for row in rows}

    def total(self) -> Usage:
        """What everything together paid for."""
        return sum(self.usage().values(), Usage())

    def faults(self) -> dict[str, int]:
        """How often each kind of fault came, most frequent first."""
        a = tables.ATTEMPTS.c
        count = sa.func.count().label("count")
        query = sa.select(a.outcome, count).where(a.outcome != "reply", a.run == self.run).group_by(a.outcome)
        return {row["outcome"]: row["count"] for row in self._rows(query.order_by(count.desc(), a.outcome))}

    def outcomes(self) -> dict[str, int]:
        """How often a reply was cut, refused, empty, or had to be forgiven something."""
        r = tables.REPLIES.c
        found: dict[str, int] = {}
        mine = r.run == self.run
        for row in self._rows(sa.select(r.finish, sa.func.count().label("count")).where(mine, r.finish.not_in(USABLE)).group_by(r.finish)):
            found[row["finish"]] = row["count"]
        for row in self._rows(sa.select(r.flags, sa.func.count().label("count")).where(mine, r.flags != "").group_by(r.flags)):
            for flag in row["flags"].split(";"):
                found[flag] = found.get(flag, 0) + row["count"]
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def subjects(self, stage: str, since: float = 0.0) -> int:
        """How many different subjects of a stage have a reply."""
        a = tables.ATTEMPTS.c
        mine = (a.stage == stage) & (a.run == self.run) & (a.outcome == "reply") & (a.made_at >= since)
        return int(self._rows(sa.select(sa.func.count(sa.distinct(a.subject)).label("count")).where(mine))[0]["count"])

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        """(stage, subject, mistake) of every reply in which the offline model planted one."""
        r = tables.REPLIES.c
        query = sa.select(r.stage, r.subject, r.mistake).where(r.mistake != "", r.run == self.run)
        for row in self._rows(query.order_by(r.stage, r.subject)):
            yield row["stage"], row["subject"], row["mistake"]


def _usage(row: dict[str, Any]) -> Usage:
    whole = {name: int(row[name]) for name in ("calls", "prompt_tokens", "reply_tokens", "cached_tokens", "unpriced")}
    return Usage(**whole, cost=float(row["cost"]))
