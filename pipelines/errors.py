"""Errors that a user can answer; each becomes one line on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.records import Rejection


class PtoolError(Exception):
    """Base: the message says what, where and what to write instead."""

    exit_code = 2


class ConfigError(PtoolError):
    """A config, scenario or prompt file that cannot be used; nothing was written."""


class Unavailable(PtoolError):
    """An endpoint, key or folder that is not there."""


class Stopped(PtoolError):
    """Stopped by a budget or the circuit breaker; the run can be resumed."""

    exit_code = 3


class Interrupted(Stopped):
    """Stopped by Ctrl-C; the run can be resumed."""

    exit_code = 130


class ChecksFailed(PtoolError):
    """The run ended, but a check on the whole failed (too few samples, a leak)."""

    exit_code = 1

    def __init__(self, message: str, rejected: Sequence[Rejection] = ()) -> None:
        super().__init__(message)
        self.rejected = rejected
        """What the stage dropped before it stopped."""


class ReplyError(Exception):
    """A model's reply that cannot be used: rejects one record, never stops a run."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
