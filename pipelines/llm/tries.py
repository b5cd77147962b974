"""When one request is asked again, after how long, and when it is given up."""

from __future__ import annotations

import tenacity

from pipelines.llm.pace import Pace
from pipelines.llm.wire import Fault

JITTER = tenacity.wait_random_exponential(multiplier=0.5, max=30)


class Tries:
    """When to give one request up.

    A failure counts against it only when the endpoint served somebody else since its last one: an outage is
    the breaker's affair, and being throttled is no failure.
    """

    def __init__(self, pace: Pace, most: int, number: int) -> None:
        self.number = number
        """Of the attempt, over all sessions."""
        self._pace = pace
        self._most = most
        self._counted = 0
        self._seen = pace.successes

    def failed(self, fault: Fault) -> None:
        """Note a failure."""
        if fault.kind != "throttled" and self._pace.successes > self._seen:
            self._counted += 1
        self._seen = self._pace.successes

    def used_up(self, _state: tenacity.RetryCallState) -> bool:
        """For tenacity's `stop`."""
        return self._counted >= self._most


def passing(error: BaseException) -> bool:
    """For tenacity's `retry`: is it a fault that may pass?"""
    return isinstance(error, Fault) and error.passing


def wait(state: tenacity.RetryCallState) -> float:
    """What the provider asked for, plus a little jitter; else exponential with jitter."""
    fault = state.outcome.exception() if state.outcome is not None else None
    if isinstance(fault, Fault) and fault.wait is not None:
        return fault.wait + min(1.0, 0.1 * JITTER(state))
    return float(JITTER(state))
