"""What came of a question: a value that fits its schema, or what is wrong with the reply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import ReplyError
from pipelines.llm.account import USABLE
from pipelines.llm.endpoint import Request
from pipelines.llm.hygiene import read_reply
from pipelines.llm.ledger import Entry
from pipelines.llm.prompts import REPAIR

Reply = TypeVar("Reply", bound=BaseModel)


@dataclass(frozen=True)
class Outcome:
    """What came of a question: the row of the ledger, and its value or what is wrong with it."""

    entry: Entry
    value: Any = None
    problem: ReplyError | None = None


def repair_of(request: Request, content: str, error: ReplyError, language: str = "en") -> Request:
    """The same request with the bad reply and what is wrong with it."""
    said = [{"role": "assistant", "content": content[:20_000]}] if content else []
    told = {"role": "user", "content": REPAIR[language].format(problem=error.detail)}
    return replace(request, messages=[*request.messages, *said, told], reply_limit=None)


def read(entry: Entry, request: Request, flags: tuple[str, ...] = ()) -> Outcome:
    """What a reply says; its liberties become flags of the entry."""
    problem = _no_reply(entry, request)
    if problem is not None:
        return Outcome(entry, problem=problem)
    try:
        value, forgiven = read_reply(entry.content, request.schema)
    except ReplyError as error:
        return Outcome(replace(entry, flags=";".join([*flags, error.reason])), problem=error)
    if flags or forgiven:
        entry = replace(entry, flags=";".join([*flags, *forgiven]))
    return Outcome(entry, value)


def _no_reply(entry: Entry, request: Request) -> ReplyError | None:
    """`finish_reason` comes first: a cut or refused reply is not read."""
    if entry.finish in USABLE:
        return None
    if entry.finish == "length":
        raised = f", also with the limit raised to {request.reply_limit:,} tokens" if request.reply_limit else ""
        return ReplyError("reply_cut", f"finish_reason is length: the model's token limit cut the reply{raised}")
    if entry.finish == "empty":
        return ReplyError("empty_reply", "the reply has no content")
    if entry.finish in ("content_filter", "refusal"):
        return ReplyError("content_filter" if entry.finish == "content_filter" else "refused", f"{entry.finish}: {entry.content[:200]}")
    if entry.finish in ("endpoint_failed", "too_long"):
        return ReplyError(entry.finish, entry.content[:300])
    return ReplyError("invalid_reply", f"finish_reason is {entry.finish[:50]!r}")


def validated(outcome: Outcome, reply: type[Reply]) -> Reply:
    """The value as its record.

    Raises:
        ReplyError: what is wrong with it.
    """
    if outcome.problem is not None:
        raise outcome.problem
    try:
        return reply.model_validate(outcome.value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ReplyError("invalid_reply", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
