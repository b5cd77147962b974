"""Between a stage and a model: one way to ask, one ledger, and nothing paid twice.

A request is looked up in the ledger first. What is not there is sent when the pace of its endpoint allows
it, retried with tenacity while the fault is a passing one, read and validated here whatever the provider
promised, and gets one repair turn. Requests run as tasks of their own: when a stage is cancelled or the
run is stopped, those in flight still end in the ledger.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx2
import tenacity
from pydantic import BaseModel

from pipelines.config import Limits, Models, ModelSpec
from pipelines.errors import PtoolError, ReplyError, Stopped, Unavailable
from pipelines.llm import interrupt
from pipelines.llm.account import USABLE
from pipelines.llm.batch import Batches
from pipelines.llm.budget import Budget, read_prices
from pipelines.llm.endpoint import SCHEMES, Endpoint, Request
from pipelines.llm.ledger import Attempt, Entry, Ledger
from pipelines.llm.outcome import Outcome, read, repair_of, validated
from pipelines.llm.prompts import SCHEMA_NAMED, Prompt
from pipelines.llm.schemas import reply_schema
from pipelines.llm.tries import Tries, passing, wait
from pipelines.llm.wire import Body, Fault

__all__ = ["LLM", "SCHEMES"]
Reply = TypeVar("Reply", bound=BaseModel)
RAISED = 4096
"""Tokens that a reply which was cut gets at least, the second time."""
ROLES = ("builder", "writer", "assistant", "judge", "solver")
TELL_EVERY = 2.0
"""Seconds between two notes on how the session is doing."""


@dataclass(frozen=True)
class _Question:
    """A request, what it is for, and its place in the ledger."""

    request: Request
    endpoint: Endpoint
    key: str
    prompt: str
    stage: str
    subject: str


class LLM:
    """The models of a run.

    Args:
        model: As in the config: `offline`, or `openai:<model>`; the model of every role that `models` leaves out.
        seed: Goes into every request, so that the same run asks the same questions.
        ledger: Where replies are kept.
        limits: Concurrency, patience and budgets.
        http_client: Only for tests and the offline model: the transport.
        models: Other models for single roles.

    Raises:
        ConfigError: for a model, key, URL or price file that cannot be used.
    """

    def __init__(
        self,
        model: str,
        seed: int,
        ledger: Ledger,
        limits: Limits,
        http_client: httpx2.AsyncClient | None = None,
        models: Models | None = None,
    ) -> None:
        self.model = model
        self.ledger = ledger
        self._seed = seed
        self._limits = limits
        self._asked: dict[str, asyncio.Task[Outcome]] = {}
        self._stopping = asyncio.Event()
        self._stopped: PtoolError | None = None
        self._teller: asyncio.Task[None] | None = None
        self._roles: dict[str, Endpoint] = {}
        self._endpoints: dict[ModelSpec, Endpoint] = {}
        for role in ROLES:
            spec = getattr(models, "solver" if role == "assistant" else role, None) if models is not None else None
            spec = spec or ModelSpec(model=model)
            if spec not in self._endpoints:
                self._endpoints[spec] = Endpoint(spec, limits, http_client)
            self._roles[role] = self._endpoints[spec]
        self.budget = Budget(limits, read_prices(limits), ledger.total())
        self.budget.check_prices([endpoint.model for endpoint in self._endpoints.values()])
        self._unfinished = ledger.unfinished()
        for endpoint in self._endpoints.values():
            endpoint.rung = ledger.rung(endpoint.base_url, endpoint.model) or endpoint.rung
        self._batches = Batches(ledger, limits) if limits.batch else None
        interrupt.listen(self)

    @property
    def base_url(self) -> str:
        """The endpoint of the default model."""
        return self._roles["builder"].base_url if len(self._endpoints) == 1 else ", ".join(e.base_url for e in self._endpoints.values())

    @property
    def in_flight(self) -> int:
        """Requests that were sent and not answered yet."""
        return sum(endpoint.pace.in_flight for endpoint in self._endpoints.values())

    async def check(self) -> None:
        """Make sure that somebody answers before anything is written.

        Raises:
            Unavailable: when an endpoint does not answer, or refuses the key.
        """
        for endpoint in self._endpoints.values():
            await endpoint.check()

    async def ask(
        self,
        prompt: Prompt,
        values: Mapping[str, Any],
        reply: type[Reply],
        *,
        stage: str,
        subject: str,
        repeat: int = 0,
    ) -> tuple[Reply, str]:
        """One question, one validated answer, and the mistake that the offline model says it planted in it.

        Args:
            repeat: Raise it to ask the same thing again and get another answer.

        Raises:
            ReplyError: when the reply is cut, refused, empty or invalid, also after one repair turn.
            Stopped: when a budget is used up, the endpoint keeps failing, or the user wants it.
            Unavailable: when the endpoint refuses the key or the request, or the ledger cannot be written.
        """
        messages = prompt.render(**values)
        messages[0]["content"] += f"\n\n{SCHEMA_NAMED[prompt.language].format(name=prompt.name)}"
        seed = (self._seed + 7919 * repeat) % 2**31
        request = Request(prompt.name, messages, reply_schema(prompt.name, reply), seed)
        about = (self._roles[prompt.header.sees], repeat, prompt.ref, stage, subject)
        outcome = await self._whole_reply(request, *about)
        try:
            return validated(outcome, reply), outcome.entry.mistake
        except ReplyError as error:
            if error.reason not in ("invalid_reply", "empty_reply"):
                raise
            outcome = await self._whole_reply(repair_of(request, outcome.entry.content, error, prompt.language), *about)
            return validated(outcome, reply), outcome.entry.mistake

    async def _whole_reply(self, request: Request, *about: Any) -> Outcome:
        """A reply, with the limit raised once when it was cut."""
        outcome = await self._reply(request, *about)
        if outcome.entry.finish != "length" or request.reply_limit is not None:
            return outcome
        limit = max(RAISED, 2 * outcome.entry.reply_tokens)
        return await self._reply(replace(request, reply_limit=limit), *about)

    async def _reply(self, request: Request, endpoint: Endpoint, repeat: int, prompt: str, stage: str, subject: str) -> Outcome:
        key = endpoint.digest(request, repeat)
        task = self._asked.get(key)
        if task is None:
            question = _Question(request, endpoint, key, prompt, stage, subject)
            task = self._asked[key] = asyncio.get_running_loop().create_task(self._settle(question))
            task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    def _over(self, key: str, task: asyncio.Task[Outcome]) -> None:
        del self._asked[key]
        error = None if task.cancelled() else task.exception()  # whoever asked sees it; nobody waiting any more is no fault
        if isinstance(error, PtoolError):
            self.stop(error)  # what cannot be kept shall not be paid for

    async def _settle(self, question: _Question) -> Outcome:
        """The outcome from the ledger, or from the endpoint."""
        known = await self.ledger.find(question.key)
        if known is not None and not (self._limits.reask_refused and known.finish not in USABLE and known.session != self.ledger.session):
            return read(known, question.request)
        if self._stopped is not None:
            raise self._stopped
        if self._teller is None:
            self._teller = asyncio.create_task(self._tell())
        return await self._request(question)

    async def _request(self, question: _Question) -> Outcome:
        endpoint = question.endpoint
        tries = Tries(endpoint.pace, self._limits.attempts, self._unfinished.pop(question.key, 0))
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(passing), stop=tries.used_up, wait=wait, sleep=self._pause, reraise=True
        )
        began = time.monotonic()
        try:
            async for attempt in retrying:
                with attempt:
                    return await self._try(question, tries, began)
        except Fault as fault:
            last = fault
        # raised outside of the handler: a traceback must not go on to what the provider said word by word
        return await self._failed(question, last, tries)

    async def _try(self, question: _Question, tries: Tries, began: float) -> Outcome:
        """One attempt: wait for a turn and for room in the budget, exchange, keep what came."""
        endpoint, request = question.endpoint, question.request
        pace = endpoint.pace
        tokens = request.chars // 3
        sent_at = await pace.enter(tokens)
        try:
            try:
                reserved = await self.budget.reserve(endpoint.model, request.chars)
            except Stopped as error:
                self.stop(error)
                raise
            tries.number += 1
            try:
                body = await self._exchange(question, tries.number)
                pace.succeeded(body.prompt_tokens + body.reply_tokens - tokens)
                return await self._keep(question, body, tries.number, began)
            except Fault as fault:
                await self._note(question, fault, tries, sent_at)
                raise
            finally:
                self.budget.release(reserved)
        finally:
            pace.leave()

    async def _exchange(self, question: _Question, number: int) -> Body:
        endpoint = question.endpoint
        if self._batches is not None and not endpoint.offline:
            return await self._batches.exchange(endpoint, question.key, question.request)
        rung = endpoint.rung
        body = await endpoint.exchange(question.request, number)
        if endpoint.rung != rung:
            self.ledger.remember_rung(endpoint.base_url, endpoint.model, endpoint.rung)
        return body

    async def _keep(self, question: _Question, body: Body, number: int, began: float) -> Outcome:
        endpoint = question.endpoint
        entry = self._entry(question, body.content, body.finish, number)
        entry = replace(
            entry,
            prompt_tokens=body.prompt_tokens,
            reply_tokens=body.reply_tokens,
            latency_ms=round(1000 * (time.monotonic() - began)),
            mistake=body.mistake if endpoint.model.endswith("offline") else "",
        )
        outcome = read(entry, question.request, body.flags)
        cost = self.budget.prices.cost(endpoint.model, body.prompt_tokens, body.cached_tokens, body.reply_tokens, self._batches is not None)
        self.budget.pay(question.request.chars, body.prompt_tokens, body.cached_tokens, body.reply_tokens, cost)
        attempt = Attempt(
            question.key, question.stage, question.subject, endpoint.model, number, "reply",
            "", 200, body.prompt_tokens, body.cached_tokens, body.reply_tokens, cost, entry.latency_ms,
        )  # fmt: skip
        await self.ledger.keep(attempt, outcome.entry)
        if self._batches is not None:
            self._batches.kept(question.key)
        return outcome

    def _entry(self, question: _Question, content: str, finish: str, number: int) -> Entry:
        return Entry(
            question.key, question.stage, question.subject, question.prompt, question.endpoint.model, content, finish, 0, 0, 0, number,
            session=self.ledger.session,
        )  # fmt: skip

    async def _note(self, question: _Question, fault: Fault, tries: Tries, sent_at: float) -> None:
        """Keep a failed attempt, and let the pace and the breaker know."""
        endpoint = question.endpoint
        endpoint.last_words = fault.words
        tries.failed(fault)
        if fault.kind == "throttled":
            endpoint.pace.throttled(sent_at, fault.wait)
        elif fault.passing:
            endpoint.pace.troubled()
        await self.ledger.keep(
            Attempt(question.key, question.stage, question.subject, endpoint.model, tries.number, fault.kind, fault.words, fault.status)
        )
        if fault.passing and endpoint.pace.given_up():
            minutes = self._limits.breaker_minutes
            error = Stopped(
                f"{endpoint.base_url} had no success for {minutes:g} minutes; its last words: {fault.kind}: {fault.words}; "
                "what is paid for is kept: run the same command again"
            )
            self.stop(error)
            raise error

    async def _failed(self, question: _Question, fault: Fault, tries: Tries) -> Outcome:
        """No reply will come: a rejection of its own kind where it is this request, else the end of the run."""
        where = question.endpoint.base_url
        finish = {"content_filter": "content_filter", "too_long": "too_long"}.get(fault.kind)
        if fault.passing:
            finish = "endpoint_failed"
        elif fault.kind == "bad_request" and question.request.reply_limit is not None:
            finish = "length"  # the limit cannot be raised any further
        if finish is None:
            error: PtoolError = Unavailable(f"{where} refuses the request ({fault.status}): {fault.words}")
            if fault.kind == "refused_key":
                error = Unavailable(f"{where} refuses the key: {fault.words}; check {question.endpoint.key_variable}")
            elif fault.kind == "quota":
                error = Stopped(f"{where}: the quota or the money is used up: {fault.words}; what is paid for is kept: run again later")
            self.stop(error)
            raise error
        entry = self._entry(question, f"{fault.kind}: {fault.words}", finish, tries.number)
        model, outcome = question.endpoint.model, f"gave_up_{finish}"
        attempt = Attempt(question.key, question.stage, question.subject, model, tries.number, outcome, fault.words)
        await self.ledger.keep(attempt, entry)
        return read(entry, question.request)

    # Stopping

    def stop(self, error: PtoolError) -> None:
        """Start nothing new; what is in flight is finished and kept."""
        if self._stopped is None:
            self._stopped = error
            self._stopping.set()
            for endpoint in self._endpoints.values():
                endpoint.pace.stop(error)
            if self._batches is not None:
                self._batches.stop(error)

    def hurry(self) -> None:
        """Drop what is in flight too."""
        for task in list(self._asked.values()):
            task.cancel()

    async def _pause(self, seconds: float) -> None:
        """Sleep before a retry, unless the run is being stopped."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _tell(self) -> None:
        while True:
            self.ledger.tell(self.state())
            await asyncio.sleep(TELL_EVERY)

    def state(self) -> dict[str, Any]:
        """How the endpoints are doing, for `ptool status`."""
        endpoints = [endpoint.state() for endpoint in self._endpoints.values()]
        return {"endpoints": endpoints, "stopped": str(self._stopped or ""), "currency": self.budget.prices.currency}

    async def landed(self) -> None:
        """Wait until nothing is in flight."""
        if self._asked:
            await asyncio.wait(list(self._asked.values()))

    async def close(self) -> None:
        """Let what is in flight end in the ledger, then close the connections."""
        state = self.state()
        self.stop(Stopped("the run was closed; run the same command again"))
        await self.landed()
        if self._teller is not None:
            self._teller.cancel()
            self.ledger.tell({**self.state(), "stopped": state["stopped"]}, ended=True)
        if self._batches is not None:
            await self._batches.close()
        for endpoint in self._endpoints.values():
            await endpoint.close()
