"""When the next request to an endpoint may start: slots, rates, pauses, and the breaker.

The number of slots adapts: halved on a 429, held on a 5xx, grown again on success, never above the
configured concurrency. Waiting happens here and costs a request nothing. All times are monotonic, so a
clock that is set back changes nothing; every step takes constant time however many wait.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.config import Limits
from pipelines.errors import PtoolError


class Bucket:
    """A rate: so many a minute, at most one second's worth at once; a large one goes into debt.

    Args:
        a_minute: The rate, or None for no limit.
    """

    def __init__(self, a_minute: float | None, clock: Callable[[], float]) -> None:
        self._rate = a_minute / 60 if a_minute else None
        self._clock = clock
        self._most = max(1.0, self._rate or 1.0)
        self._level = self._most
        self._at = clock()

    def wait(self) -> float:
        """Seconds until the next may be taken."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        return 0.0 if self._level >= min(1.0, self._most) else (min(1.0, self._most) - self._level) / self._rate

    def take(self, count: float) -> None:
        """Use some; more than there is makes the next ones wait."""
        self._level -= count


class Pace:
    """The gate in front of one endpoint."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = limits.concurrency
        self.limit = float(limits.concurrency)
        self.in_flight = 0
        self.peak = 0
        self.halved = 0
        self.successes = 0
        self.failing_since: float | None = None
        self._patience = 60 * limits.breaker_minutes
        self._clock = clock
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._requests, self._tokens = Bucket(limits.rpm, clock), Bucket(limits.tpm, clock)
        self._paused_until = self._halved_at = -1e18
        self._timer: asyncio.TimerHandle | None = None
        self._stopped: PtoolError | None = None

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._waiting)

    async def enter(self, tokens: int) -> float:
        """Wait for a turn; returns when it began. Every `enter` that returns needs one `leave`.

        Raises:
            PtoolError: what `stop` was told, at once and while waiting.
        """
        if self._stopped is not None:
            raise self._stopped
        if self._waiting or self._delay() > 0:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, tokens))
            self._pump()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self.leave()  # the turn came in the same moment
                raise
        else:
            self._start(tokens)
        return self._clock()

    def leave(self) -> None:
        """Give the slot back."""
        self.in_flight -= 1
        if self._waiting:
            self._pump()

    def stop(self, error: PtoolError) -> None:
        """Nothing starts any more; whoever waits gets the error."""
        self._stopped = self._stopped or error
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(self._stopped)

    # What exchanges teach

    def succeeded(self, tokens_beyond: int = 0) -> None:
        """A reply came: grow by one slot per round of successes."""
        self.successes += 1
        self.failing_since = None
        if tokens_beyond:
            self._tokens.take(tokens_beyond)
        if self.limit < self.most:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)

    def throttled(self, began: float, wait: float | None) -> None:
        """A 429: halve, once for all that were in flight together, and let nobody start before the wait is over."""
        now = self._clock()
        if began > self._halved_at:
            self.limit = max(1.0, self.limit / 2)
            self.halved += 1
            self._halved_at = now
        if wait:
            self._paused_until = max(self._paused_until, now + wait)

    def troubled(self) -> None:
        """A 5xx or a broken connection: trouble, but not because of us; hold, and begin the round of successes again."""
        self.limit = float(int(self.limit))

    def told(self, headers: Mapping[str, str]) -> None:
        """A provider's rate headers: when nothing remains, wait for the reset."""
        for what in ("requests", "tokens"):
            if headers.get(f"x-ratelimit-remaining-{what}") == "0":
                wait = seconds(headers.get(f"x-ratelimit-reset-{what}", ""))
                if wait:
                    self._paused_until = max(self._paused_until, self._clock() + min(wait, self._patience))

    def given_up(self) -> bool:
        """Note a failure; true when there was no success for too long."""
        now = self._clock()
        if self.failing_since is None:
            self.failing_since = now
        return now - self.failing_since >= self._patience

    def state(self) -> dict[str, Any]:
        """For `ptool status`."""
        return {
            "slots": int(self.limit),
            "most": self.most,
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak,
            "waiting": self.waiting,
            "times_halved": self.halved,
            "paused_s": round(max(0.0, self._paused_until - self._clock()), 1),
            "failing_s": 0.0 if self.failing_since is None else round(self._clock() - self.failing_since, 1),
        }

    # Turns

    def _delay(self) -> float:
        """Seconds until the next may start; infinite while all slots are taken."""
        if self.in_flight >= int(self.limit):
            return float("inf")
        return max(0.0, self._paused_until - self._clock(), self._requests.wait(), self._tokens.wait())

    def _start(self, tokens: int) -> None:
        self._requests.take(1)
        self._tokens.take(tokens)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def _pump(self) -> None:
        while self._waiting:
            if self._waiting[0][0].done():  # cancelled
                self._waiting.popleft()
                continue
            delay = self._delay()
            if delay > 0:
                if delay != float("inf") and self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(delay, self._timed)
                return
            turn, tokens = self._waiting.popleft()
            self._start(tokens)
            turn.set_result(None)

    def _timed(self) -> None:
        self._timer = None
        self._pump()


_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|$)")


def seconds(text: str) -> float | None:
    """A reset time as providers write it: `1s`, `6m0s`, `250ms`, `12`."""
    parts = _SPAN.findall(text.strip().lower()[:40])
    if not parts:
        return None
    unit = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
    return sum(float(number) * unit[name] for number, name in parts)
