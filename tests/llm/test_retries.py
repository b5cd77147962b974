"""What is worth another try gets one, at a pace the provider can take; what is not stops at once."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import httpx2
import pytest

from pipelines.config import Limits
from pipelines.errors import ReplyError, Stopped, Unavailable
from pipelines.llm.pace import Pace, seconds
from pipelines.llm.wire import retry_after
from tests.llm.conftest import Make, Server, ask, completion, http, refusal


@pytest.mark.parametrize(
    ("status", "kind"),
    [(408, "timeout"), (409, "conflict"), (429, "throttled"), (500, "server_error"), (503, "server_error"), (529, "server_error")],
)
async def test_a_passing_status_is_asked_again_and_counted_by_its_kind(server: Server, make: Make, status: int, kind: str):
    server.answers = [refusal(status, "not now"), refusal(status, "not now"), http(completion())]
    llm = make()

    await ask(llm)

    assert llm.ledger.faults() == {kind: 2}
    assert [body["seed"] for body in server.bodies] == [7, 7, 7]


async def test_no_reply_in_time_is_a_timeout_and_asked_again(server: Server, make: Make):
    server.delay = 0.3
    llm = make(timeout_s=0.1)
    asked = asyncio.create_task(ask(llm))
    await asyncio.sleep(0.25)
    server.delay = 0

    await asked

    assert set(llm.ledger.faults()) == {"timeout"}


async def test_a_status_that_a_provider_means_as_passing_can_be_named(server: Server, make: Make):
    server.answers = [refusal(400, "try again"), http(completion())]
    llm = make(retry_statuses=[400])

    assert (await ask(llm)).title == "Tea"


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        (refusal(401, "Incorrect API key"), Unavailable, "OPENAI_API_KEY"),
        (refusal(403, "no access to this model"), Unavailable, "refuses the key"),
        (refusal(429, "You exceeded your current quota", "insufficient_quota"), Stopped, "quota"),
        (refusal(429, "Rate limit reached on requests per day (RPD)", "rate_limit_exceeded"), Stopped, "per day"),
        (refusal(429, "slow down", retry_after="86400"), Stopped, "slow down"),
        (refusal(402, "Insufficient Balance"), Stopped, "Insufficient Balance"),
        (refusal(400, "Billing hard limit has been reached", "billing_hard_limit_reached"), Stopped, "Billing"),
        (refusal(404, "The model `m` does not exist"), Unavailable, "does not exist"),
    ],
)
async def test_quota_billing_and_key_errors_stop_at_once(server: Server, make: Make, answer: bytes, error: type[Exception], word: str):
    server.answers = [answer]
    llm = make()

    with pytest.raises(error, match=word):
        await ask(llm)
    with pytest.raises(error):
        await ask(llm, "soup")

    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(400, "The response was filtered", "content_filter"), "content_filter"),
        (refusal(400, "This model's maximum context length is 8192 tokens", "context_length_exceeded"), "too_long"),
    ],
)
async def test_a_refusal_of_one_request_rejects_that_request_and_is_remembered(server: Server, make: Make, answer: bytes, reason: str):
    server.answers = [answer]
    llm = make()
    for _ in range(2):
        with pytest.raises(ReplyError) as caught:
            await ask(llm)
        assert caught.value.reason == reason

    server.answers = [http(completion())]
    assert (await ask(llm, "soup")).title == "Tea"
    assert len(server.bodies) == 2
    assert llm.ledger.total().calls == 1


async def test_being_throttled_never_uses_up_a_requests_attempts(server: Server, make: Make):
    server.answers = [*(refusal(429, "slow down") for _ in range(40)), http(completion())]
    llm = make(attempts=1)

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.faults() == {"throttled": 40}


async def test_an_outage_does_not_use_up_attempts_either(server: Server, make: Make):
    server.answers = [*(refusal(503, "down") for _ in range(20)), http(completion())]
    llm = make(attempts=2)

    found = await asyncio.gather(*(ask(llm, str(n)) for n in range(5)))

    assert len(found) == 5


async def test_the_breaker_stops_with_the_providers_last_words(server: Server, make: Make):
    server.answers = [refusal(503, "melting, come back tomorrow")]
    llm = make(breaker_minutes=0.002)

    with pytest.raises(Stopped, match="melting, come back tomorrow") as caught:
        await ask(llm)

    assert caught.value.exit_code == 3
    assert "run the same command again" in str(caught.value)


async def test_retry_after_makes_everybody_wait(server: Server, make: Make):
    server.answers = [refusal(429, "slow", retry_after="0.4"), http(completion())]
    llm = make(concurrency=1)
    began = time.monotonic()

    await asyncio.gather(ask(llm, "a"), ask(llm, "b"))

    assert time.monotonic() - began >= 0.4
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(1000 + 30, usegmt=True)}, 30),
        ({"retry-after": formatdate(1000 - 30, usegmt=True)}, 0),
        ({"retry-after": "-4"}, 0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_milliseconds_or_a_date_and_is_never_negative(headers: dict[str, str], wait: float | None):
    assert retry_after(httpx2.Headers(headers), now=1000) == wait


@pytest.mark.parametrize(
    ("text", "wait"), [("1s", 1), ("6m0s", 360), ("250ms", 0.25), ("1h2m3s", 3723), ("12", 12), ("", None), ("never", None)]
)
def test_a_reset_time_is_read_as_providers_write_it(text: str, wait: float | None):
    assert seconds(text) == wait


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def pace(clock: Clock, **limits: object) -> Pace:
    return Pace(Limits.model_validate({"concurrency": 16, **limits}), clock)


async def test_a_429_halves_once_for_all_that_were_in_flight_together():
    clock = Clock()
    gate = pace(clock)
    began = [await gate.enter(1) for _ in range(16)]
    clock.now = 1
    for at in began:
        gate.throttled(at, None)
        gate.leave()

    assert gate.limit == 8
    gate.throttled(2.0, None)
    assert gate.limit == 4


async def test_a_5xx_holds_and_successes_grow_up_to_the_limit():
    gate = pace(Clock())
    gate.limit = 4.0
    gate.troubled()
    assert gate.limit == 4
    for _ in range(5):
        gate.succeeded()
    assert 5 <= gate.limit < 6
    for _ in range(1000):
        gate.succeeded()
    assert gate.limit == 16


async def test_a_pause_holds_all_and_a_stop_wakes_all():
    clock = Clock()
    gate = pace(clock)
    gate.throttled(0.5, 60)
    waiting = [asyncio.create_task(gate.enter(1)) for _ in range(3)]
    await asyncio.sleep(0)
    assert gate.waiting == 3
    assert gate.in_flight == 0

    gate.stop(Stopped("enough"))
    for one in waiting:
        with pytest.raises(Stopped):
            await one
    assert gate.in_flight == 0


async def test_a_waiter_that_is_cancelled_leaves_no_slot_taken():
    gate = pace(Clock(), concurrency=1)
    await gate.enter(1)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    gate.leave()
    await asyncio.wait_for(gate.enter(1), 1)

    assert gate.in_flight == 1


@pytest.mark.parametrize(("limits", "tokens", "started"), [({"rpm": 120}, 1, 2 + 2 * 10), ({"tpm": 6000}, 50, 2 * 11)])
async def test_requests_and_tokens_a_minute_are_kept(limits: dict[str, int], tokens: int, started: int):
    clock = Clock()
    gate = pace(clock, concurrency=1000, **limits)
    tasks = [asyncio.create_task(gate.enter(tokens)) for _ in range(100)]
    for second in range(11):
        clock.now = float(second)
        gate._pump()
        await asyncio.sleep(0)

    assert started - 2 <= gate.in_flight <= started
    for task in tasks:
        task.cancel()


async def test_a_provider_that_says_nothing_remains_is_given_its_reset():
    clock = Clock()
    gate = pace(clock)
    gate.told({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6s"})

    assert gate.state()["paused_s"] == 6
    clock.now = 7
    await asyncio.wait_for(gate.enter(1), 1)


async def test_a_wall_clock_that_is_set_back_changes_nothing(server: Server, make: Make, monkeypatch: pytest.MonkeyPatch):
    times = iter(range(2_000_000_000, 0, -1_000_000))
    monkeypatch.setattr(time, "time", lambda: float(next(times)))
    server.answers = [refusal(429, "slow", retry_after="0.01"), http(completion())]
    llm = make(rpm=60_000)

    assert (await ask(llm)).title == "Tea"
    assert llm.ledger.total().calls == 1
