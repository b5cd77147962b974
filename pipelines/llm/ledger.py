"""The ledger: every reply that was paid for, by request digest. Cache, resume, cost account and audit in one.

SQLite in WAL mode, one row per reply, committed before the reply is used; so a killed run loses at
most the requests that were in flight. Credentials never enter a row.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from pipelines.errors import Unavailable

_METADATA = sa.MetaData()
_REPLIES = sa.Table(
    "replies",
    _METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("stage", sa.String, nullable=False),
    sa.Column("subject", sa.String, nullable=False),
    sa.Column("prompt", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("finish", sa.String, nullable=False),
    sa.Column("prompt_tokens", sa.Integer, nullable=False),
    sa.Column("reply_tokens", sa.Integer, nullable=False),
    sa.Column("latency_ms", sa.Integer, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("mistake", sa.String, nullable=False),
    sa.Column("made_at", sa.Float, nullable=False),
)


@dataclass(frozen=True)
class Entry:
    """One paid reply."""

    digest: str
    stage: str
    subject: str
    prompt: str
    model: str
    content: str
    finish: str
    """The provider's finish reason; only `stop` and `tool_calls` are reused."""
    prompt_tokens: int
    reply_tokens: int
    latency_ms: int
    attempts: int
    mistake: str = ""
    """What the offline model says it planted in this reply; empty with any other model."""


@dataclass(frozen=True)
class Usage:
    """Sums over a ledger, or one stage of it."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and reply tokens together."""
        return self.prompt_tokens + self.reply_tokens


class Ledger:
    """Replies of one run, by request digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 30, "check_same_thread": False})
        sa.event.listen(self._engine, "connect", _pragmas)
        try:
            _METADATA.create_all(self._engine)
            self._connection = self._engine.connect()
        except sa.exc.DBAPIError as error:
            raise Unavailable(f"{path}: cannot open the ledger: {error.orig}; check the folder and the disk") from None
        self._insert = sa.insert(_REPLIES).prefix_with("OR REPLACE")
        self._select = sa.select(_REPLIES).where(_REPLIES.c.digest == sa.bindparam("key"))

    def get(self, digest: str) -> Entry | None:
        """The reply to this request, if it was paid for and may be used again."""
        row = self._connection.execute(self._select, {"key": digest}).mappings().first()
        if row is None or row["finish"] not in ("stop", "tool_calls"):
            return None
        return Entry(**{key: row[key] for key in row if key != "made_at"})

    def put(self, entry: Entry) -> None:
        """Keep a reply; on return it survives the process.

        Raises:
            Unavailable: when the disk is full or the file is locked by another program.
        """
        try:
            self._connection.execute(self._insert, {**entry.__dict__, "made_at": time.time()})
            self._connection.commit()
        except sa.exc.DBAPIError as error:
            raise Unavailable(f"{self.path}: cannot write the ledger: {error.orig}; free the disk and run again") from None

    def usage(self) -> dict[str, Usage]:
        """Calls and tokens per stage, over all runs that shared this ledger."""
        query = sa.select(
            _REPLIES.c.stage,
            sa.func.count(),
            sa.func.sum(_REPLIES.c.prompt_tokens),
            sa.func.sum(_REPLIES.c.reply_tokens),
        ).group_by(_REPLIES.c.stage)
        rows = self._connection.execute(query.order_by(_REPLIES.c.stage)).all()
        return {stage: Usage(calls, prompt, reply) for stage, calls, prompt, reply in rows}

    def total(self) -> Usage:
        """Calls and tokens of everything in the ledger."""
        parts = list(self.usage().values())
        return Usage(
            sum(part.calls for part in parts),
            sum(part.prompt_tokens for part in parts),
            sum(part.reply_tokens for part in parts),
        )

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        """(stage, subject, mistake) of every reply in which the offline model planted one."""
        query = sa.select(_REPLIES.c.stage, _REPLIES.c.subject, _REPLIES.c.mistake).where(_REPLIES.c.mistake != "")
        for row in self._connection.execute(query.order_by(_REPLIES.c.stage, _REPLIES.c.subject)):
            yield row[0], row[1], row[2]

    def close(self) -> None:
        """Close the file; the WAL is folded in."""
        self._connection.close()
        self._engine.dispose()


def _pragmas(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
