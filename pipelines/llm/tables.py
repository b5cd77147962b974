"""The tables of the ledger, the same in SQLite and PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _time(name: str, missing: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=missing)


REPLIES = sa.Table(
    "replies",
    METADATA,
    sa.Column("digest", sa.String, primary_key=True),
    *map(_text, ("stage", "subject", "prompt", "model", "content", "finish")),
    *map(_number, ("prompt_tokens", "reply_tokens", "latency_ms", "attempts")),
    *map(_text, ("mistake", "flags", "run")),
    _number("session"),
    _time("made_at"),
)
ATTEMPTS = sa.Table(
    "attempts",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *map(_text, ("digest", "stage", "subject", "model")),
    _number("number"),
    *map(_text, ("outcome", "detail")),
    *map(_number, ("status", "prompt_tokens", "cached_tokens", "reply_tokens")),
    sa.Column("cost", sa.Double, nullable=True),
    _number("latency_ms"),
    _text("run"),
    _number("session"),
    _time("made_at"),
)
SESSIONS = sa.Table(
    "sessions",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    _text("run"),
    _time("started_at"),
    _time("seen_at"),
    _time("ended_at", missing=True),
    _text("state"),
)
ENDPOINTS = sa.Table(
    "endpoints",
    METADATA,
    sa.Column("base_url", sa.String, primary_key=True),
    sa.Column("model", sa.String, primary_key=True),
    _text("rung"),
)
BATCHES = sa.Table(
    "batches",
    METADATA,
    sa.Column("remote", sa.String, primary_key=True),
    *map(_text, ("run", "digests")),
    _number("ended"),
)
