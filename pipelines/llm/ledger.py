"""The ledger: every reply that was paid for, by request digest. Cache, resume, cost account and audit in one.

One row per reply, committed before the reply is used, so that a killed process loses at most the requests
that were in flight; and one row per attempt, whatever came of it, so that tokens and money add up over
sessions and include what was rejected. SQLite in WAL mode, or PostgreSQL by URL, where many runs share
their replies and each has its own account. Credentials never enter a row.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from pipelines.errors import ConfigError, PtoolError, Unavailable
from pipelines.llm import tables
from pipelines.llm.account import USABLE, Account
from pipelines.llm.secrets import redact


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
    """The provider's finish reason, or `refusal`, `empty`, `endpoint_failed`, `too_long`; only `stop` and `tool_calls` are read."""
    prompt_tokens: int
    reply_tokens: int
    latency_ms: int
    attempts: int
    mistake: str = ""
    """What the offline model says it planted in this reply; empty with any other model."""
    flags: str = ""
    """What had to be forgiven to read it, joined by `;`: `fenced`, `reasoning`, `number_as_string` ..."""
    session: int = 0
    """The session that paid; a session is one process working on the run."""


@dataclass(frozen=True)
class Attempt:
    """One exchange with an endpoint, whatever came of it."""

    digest: str
    stage: str
    subject: str
    model: str
    number: int
    outcome: str
    """`reply`, or the kind of fault: `throttled`, `server_error`, `timeout`, `connection`, `body_not_json` ..."""
    detail: str = ""
    status: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the provider read from its prefix cache."""
    reply_tokens: int = 0
    cost: float | None = None
    """In the currency of the price file; null when the price is unknown."""
    latency_ms: int = 0


@dataclass
class _Pending:
    attempts: list[dict[str, Any]] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    done: asyncio.Future[None] | None = None


class Ledger(Account):
    """Replies and attempts of one run.

    Args:
        place: A file, or a `postgresql://` URL.
        run: Whose account it is, where several runs share a database.

    Raises:
        Unavailable: when it cannot be opened.
    """

    def __init__(self, place: Path | str, run: str = "") -> None:
        self.path = place
        self.run = run
        self.session = 0
        self._pending = _Pending()
        self._flushing: asyncio.Task[None] | None = None
        self._engine, self._local = _engine(place)
        insert = sqlite.insert if self._local else postgresql.insert
        replies = insert(tables.REPLIES)
        keep = {c.name: replies.excluded[c.name] for c in tables.REPLIES.c if c.name != "digest"}
        self._insert = replies.on_conflict_do_update(index_elements=["digest"], set_=keep)
        self._note = sa.insert(tables.ATTEMPTS)
        self._select = sa.select(tables.REPLIES).where(tables.REPLIES.c.digest == sa.bindparam("key"))
        try:
            tables.METADATA.create_all(self._engine)
            self._connection = self._engine.connect()
        except sa.exc.DBAPIError as error:
            raise Unavailable(f"{self._name()}: cannot open the ledger: {redact(_words(error))}; check the place and the disk") from None

    # Replies

    def get(self, digest: str) -> Entry | None:
        """The reply to this request, if it was paid for and can be read."""
        entry = self.outcome(digest)
        return entry if entry is not None and entry.finish in USABLE else None

    def outcome(self, digest: str) -> Entry | None:
        """What came of this request, be it a reply or a refusal; None when it was never finished."""
        try:
            row = self._connection.execute(self._select, {"key": digest}).mappings().first()
            self._settle()
        except sa.exc.DBAPIError as error:
            raise self._failed("read", error) from None
        return None if row is None else Entry(**{key: row[key] for key in row if key not in ("made_at", "run")})

    async def find(self, digest: str) -> Entry | None:
        """Like `outcome`, without holding up the loop when the database is elsewhere."""
        return self.outcome(digest) if self._local else await asyncio.to_thread(self._elsewhere, digest)

    def put(self, entry: Entry) -> None:
        """Keep a reply and what it cost in tokens at once; on return it survives the process.

        Raises:
            Unavailable: when the disk is full or the file is locked by another program.
        """
        cost = 0.0 if entry.model.startswith("offline") else None
        paid = Attempt(
            entry.digest, entry.stage, entry.subject, entry.model, entry.attempts, "reply",
            "", 200, entry.prompt_tokens, 0, entry.reply_tokens, cost, entry.latency_ms,
        )  # fmt: skip
        self._write([self._attempt_row(paid)], [self._row(entry)])

    async def keep(self, attempt: Attempt, entry: Entry | None = None) -> None:
        """Keep an attempt and its reply; on return both survive the process.

        What arrives in the same turn of the event loop goes into one transaction.

        Raises:
            Unavailable: as `put`.
        """
        self._pending.attempts.append(self._attempt_row(attempt))
        if entry is not None:
            self._pending.entries.append(self._row(entry))
        loop = asyncio.get_running_loop()
        if self._pending.done is None:
            self._pending.done = loop.create_future()
            if self._local:
                loop.call_soon(self._flush)
            elif self._flushing is None or self._flushing.done():
                self._flushing = loop.create_task(self._flush_elsewhere())
        await asyncio.shield(self._pending.done)

    def _attempt_row(self, attempt: Attempt) -> dict[str, Any]:
        row = {**attempt.__dict__, "run": self.run, "session": self.session, "made_at": time.time()}
        if attempt.detail:
            row["detail"] = redact(attempt.detail)[:300]
        return row

    def _row(self, entry: Entry) -> dict[str, Any]:
        return {**entry.__dict__, "session": self.session, "run": self.run, "made_at": time.time()}

    def _flush(self) -> None:
        pending, self._pending = self._pending, _Pending()
        error: PtoolError | None = None
        try:
            self._write(pending.attempts, pending.entries)
        except PtoolError as problem:
            error = problem
        _resolve(pending.done, error)

    async def _flush_elsewhere(self) -> None:
        while self._pending.done is not None:
            pending, self._pending = self._pending, _Pending()
            error: PtoolError | None = None
            try:
                await asyncio.to_thread(self._write, pending.attempts, pending.entries)
            except PtoolError as problem:
                error = problem
            _resolve(pending.done, error)

    def _write(self, attempts: Sequence[dict[str, Any]], entries: Sequence[dict[str, Any]]) -> None:
        try:
            if self._local:
                self._execute(self._connection, attempts, entries)
                self._connection.commit()
            else:
                with self._engine.begin() as connection:
                    self._execute(connection, attempts, entries)
        except sa.exc.DBAPIError as error:
            if self._local:
                self._connection.rollback()
            raise self._failed("write", error) from None

    def _execute(self, connection: sa.Connection, attempts: Sequence[dict[str, Any]], entries: Sequence[dict[str, Any]]) -> None:
        if entries:
            connection.execute(self._insert, list(entries))
        if attempts:
            connection.execute(self._note, list(attempts))

    def _change(self, *statements: Any) -> list[Any]:
        """Some statements as one transaction; what the last one returns."""
        try:
            results = [self._connection.execute(statement) for statement in statements]
            rows = [row[0] for row in results[-1]] if results[-1].returns_rows else []
            self._connection.commit()
        except sa.exc.DBAPIError as error:
            self._connection.rollback()
            raise self._failed("write", error) from None
        return rows

    def _elsewhere(self, digest: str) -> Entry | None:
        try:
            with self._engine.connect() as connection:
                row = connection.execute(self._select, {"key": digest}).mappings().first()
        except sa.exc.DBAPIError as error:
            raise self._failed("read", error) from None
        return None if row is None else Entry(**{key: row[key] for key in row if key not in ("made_at", "run")})

    def _settle(self) -> None:
        if not self._local:
            self._connection.rollback()

    def _failed(self, what: str, error: sa.exc.DBAPIError) -> Unavailable:
        return Unavailable(
            f"{self._name()}: cannot {what} the ledger: {redact(_words(error))}; what is paid for is kept: "
            "free the disk or end what locks it, and run the same command again"
        )

    def _name(self) -> str:
        return str(self.path) if isinstance(self.path, Path) else redact(sa.make_url(self.path).render_as_string(hide_password=True))

    # Sessions, and what an endpoint can do

    def begin_session(self) -> int:
        """Note that a process starts to work on the run; its number goes into every row it writes."""
        now = time.time()
        row = sa.insert(tables.SESSIONS).values(run=self.run, started_at=now, seen_at=now, state="{}").returning(tables.SESSIONS.c.id)
        self.session = int(self._change(row)[0])
        return self.session

    def tell(self, state: dict[str, Any], ended: bool = False) -> None:
        """Write down how the session is doing, for `ptool status`; trouble with it is no reason to stop."""
        now = time.time()
        change = {"seen_at": now, "state": json.dumps(state, ensure_ascii=False)} | ({"ended_at": now} if ended else {})
        with contextlib.suppress(Unavailable):
            self._change(sa.update(tables.SESSIONS).where(tables.SESSIONS.c.id == self.session).values(**change))

    def sessions(self) -> list[dict[str, Any]]:
        """All sessions of the run, oldest first."""
        query = sa.select(tables.SESSIONS).where(tables.SESSIONS.c.run == self.run).order_by(tables.SESSIONS.c.id)
        return [{**row, "state": json.loads(row["state"])} for row in self._rows(query)]

    def rung(self, base_url: str, model: str) -> str:
        """How structured replies were last asked for at an endpoint, or nothing."""
        where = (tables.ENDPOINTS.c.base_url == base_url) & (tables.ENDPOINTS.c.model == model)
        rows = self._rows(sa.select(tables.ENDPOINTS.c.rung).where(where))
        return str(rows[0]["rung"]) if rows else ""

    def remember_rung(self, base_url: str, model: str, rung: str) -> None:
        """Keep which way of asking works, so that a resumed run does not try the others again."""
        where = (tables.ENDPOINTS.c.base_url == base_url) & (tables.ENDPOINTS.c.model == model)
        row = sa.insert(tables.ENDPOINTS).values(base_url=base_url, model=model, rung=rung)
        self._change(sa.delete(tables.ENDPOINTS).where(where), row)

    def unfinished(self) -> dict[str, int]:
        """Digest -> number of the last attempt, of requests that never came to an end."""
        a, r = tables.ATTEMPTS.c, tables.REPLIES.c
        query = (
            sa.select(a.digest, sa.func.max(a.number).label("number"))
            .where(a.outcome != "reply", a.run == self.run, ~sa.exists().where(r.digest == a.digest))
            .group_by(a.digest)
        )
        return {row["digest"]: row["number"] for row in self._rows(query)}

    # Batches

    def put_batch(self, remote: str, digests: Sequence[str], ended: bool = False) -> None:
        """Keep which requests are in a remote batch, so that a killed run can pick it up by its id."""
        row = sa.insert(tables.BATCHES).values(remote=remote, run=self.run, digests=json.dumps(list(digests)), ended=int(ended))
        self._change(sa.delete(tables.BATCHES).where(tables.BATCHES.c.remote == remote), row)

    def open_batches(self) -> dict[str, list[str]]:
        """Remote id -> digests, of batches whose results are not in the ledger yet."""
        b = tables.BATCHES.c
        rows = self._rows(sa.select(b.remote, b.digests).where(b.run == self.run, b.ended == 0).order_by(b.remote))
        return {row["remote"]: json.loads(row["digests"]) for row in rows}

    def _rows(self, query: Any) -> list[dict[str, Any]]:
        try:
            rows = [dict(row) for row in self._connection.execute(query).mappings()]
            self._settle()
        except sa.exc.DBAPIError as error:
            raise self._failed("read", error) from None
        return rows

    @property
    def address(self) -> str | None:
        """The URL of a database elsewhere, without its password; None for a file."""
        return None if self._local else sa.make_url(str(self.path)).set(password=None).render_as_string()

    def close(self) -> None:
        """Close the file; the WAL is folded in."""
        self._connection.close()
        self._engine.dispose()


def _resolve(done: asyncio.Future[None] | None, error: PtoolError | None) -> None:
    if done is None or done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
        done.exception()  # those who wait see it; nobody waiting is no fault


def _engine(place: Path | str) -> tuple[sa.Engine, bool]:
    if isinstance(place, Path):
        engine = sa.create_engine(f"sqlite:///{place}", connect_args={"timeout": 10, "check_same_thread": False})
        sa.event.listen(engine, "connect", _pragmas)
        return engine, True
    try:
        url = sa.make_url(place)
    except sa.exc.ArgumentError:
        raise ConfigError("limits.ledger: no database URL; write e.g. postgresql://user@host/database, or leave it out") from None
    if url.get_backend_name() != "postgresql":
        raise ConfigError(f"limits.ledger: {url.get_backend_name()} is not known; write postgresql://user@host/database, or leave it out")
    try:
        return sa.create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True), False
    except ModuleNotFoundError:
        raise Unavailable("limits.ledger: PostgreSQL needs the psycopg package: pip install 'ptool[postgres]'") from None


def _words(error: sa.exc.DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:300]


def _pragmas(connection: sqlite3.Connection, _record: object) -> None:
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.DatabaseError as error:
        raise sa.exc.DBAPIError("PRAGMA journal_mode", None, error) from None
