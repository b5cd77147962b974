"""Completions for the model under test: free text, native tool calls or raw prompts, through the run's kind of ledger.

`client.LLM` asks the pipeline's questions and validates the answers; here whatever comes back is the result, a cut or empty
reply too. Paid replies are kept under a digest of endpoint, model and request, so a stopped evaluation goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import openai
import tenacity

from pipelines.config import Limits
from pipelines.errors import ConfigError, Stopped, Unavailable
from pipelines.jsonio import canonical, digest
from pipelines.llm.ledger import Entry, Ledger

Endpoint = Literal["chat", "completions"]
MAX_BODY = 16_000_000
MAX_TEXT = 2_000_000
"""Characters of a reply that are kept; a longer one is no answer anyway."""


@dataclass(frozen=True)
class Completion:
    """One reply as it came."""

    text: str
    calls: list[dict[str, str]]
    """Native tool calls: `name` and `arguments` (JSON text as the model wrote it)."""
    finish: str
    """The provider's reason: `stop`, `length`, `tool_calls`, `content_filter`; `refusal` and `rejected` are ours."""


class Completions:
    """A model under test.

    Args:
        model: `offline`, or `openai:<model>` with OPENAI_BASE_URL and OPENAI_API_KEY.
        ledger: Where replies are kept.
        limits: Concurrency, attempts, budgets.
        http_client: Only for tests and the offline model: the transport.

    Raises:
        ConfigError: for a model or key that cannot be used.
    """

    def __init__(self, model: str, ledger: Ledger, limits: Limits, http_client: httpx2.AsyncClient | None = None) -> None:
        self.model = model
        self.ledger = ledger
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._client, self.wire_model = _connect(model, limits, http_client)
        spent = ledger.total()
        self._calls, self._tokens = spent.calls, spent.tokens
        self._stopped: Stopped | Unavailable | None = None

    @property
    def base_url(self) -> str:
        """The endpoint in use."""
        return str(self._client.base_url)

    async def complete(self, endpoint: Endpoint, body: Mapping[str, Any], *, subject: str, prompt: str, repeat: int = 0) -> Completion:
        """One reply, from the ledger or the endpoint.

        Args:
            body: The request without `model`.
            subject: The sample, for the ledger.
            prompt: Reference of the prompt.
            repeat: Raise it to ask the same again.

        Raises:
            Stopped: when a budget is used up or the endpoint keeps failing.
            Unavailable: when the endpoint refuses the key.
        """
        sent = {"model": self.wire_model, **body}
        key = digest(canonical([self.base_url, endpoint, sent, repeat])) + digest(canonical([repeat, sent, endpoint]))
        known = self.ledger.get(key)
        if known is None:
            async with self._slots:
                if self._stopped is not None:
                    raise self._stopped
                known = await self._request(key, endpoint, sent, subject, prompt)
        told = json.loads(known.content)
        return Completion(told["text"], told["calls"], told["finish"])

    async def _request(self, key: str, endpoint: Endpoint, sent: dict[str, Any], subject: str, prompt: str) -> Entry:
        self._within_budget()
        attempts, began = 0, time.monotonic()
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_passing),
            stop=tenacity.stop_after_attempt(self._limits.attempts),
            wait=_wait,
            reraise=True,
        )
        told: dict[str, Any] = {}
        usage: Mapping[str, Any] = {}
        try:
            async for attempt in retrying:
                with attempt:
                    attempts = attempt.retry_state.attempt_number
                    told, usage = await self._exchange(endpoint, sent, attempts)
        except openai.APIError as error:
            told = self._refused(error, attempts)
        entry = Entry(
            digest=key,
            stage="evaluate",
            subject=subject,
            prompt=prompt,
            model=self.model,
            content=json.dumps(told, ensure_ascii=False),
            finish="stop",
            prompt_tokens=_count(usage, "prompt_tokens"),
            reply_tokens=_count(usage, "completion_tokens"),
            latency_ms=round(1000 * (time.monotonic() - began)),
            attempts=attempts,
        )
        self.ledger.put(entry)
        self._calls += 1
        self._tokens += entry.prompt_tokens + entry.reply_tokens
        return entry

    async def _exchange(self, endpoint: Endpoint, sent: dict[str, Any], attempt: int) -> tuple[dict[str, Any], Mapping[str, Any]]:
        headers = {"x-ptool-attempt": str(attempt)}
        create = self._client.chat.completions if endpoint == "chat" else self._client.completions
        raw = await create.with_raw_response.create(**sent, extra_headers=headers)
        content: bytes = raw.content
        try:
            body = json.loads(content) if len(content) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        choices = body.get("choices") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise openai.APIConnectionError(message="the reply holds no choices", request=raw.http_request)
        usage = body.get("usage")
        return _told(choices[0]), usage if isinstance(usage, dict) else {}

    def _refused(self, error: openai.APIError, attempts: int) -> dict[str, Any]:
        """A request that this endpoint will never answer is a failed sample; anything else stops the evaluation."""
        words = _words(error)
        if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError)):
            self._stopped = Unavailable(f"{self.base_url} refuses: {words}; check OPENAI_API_KEY, OPENAI_BASE_URL and the model's name")
        elif isinstance(error, openai.APIStatusError) and not _passing(error) and error.status_code in (400, 413, 422):
            return {"text": "", "calls": [], "finish": "rejected", "words": words}
        else:
            self._stopped = Stopped(
                f"{self.base_url} failed {attempts} times: {words}; what is paid for is kept: run the same command again"
            )
        raise self._stopped from None

    def _within_budget(self) -> None:
        limits = self._limits
        for name, spent, most in (("max_calls", self._calls, limits.max_calls), ("max_tokens", self._tokens, limits.max_tokens)):
            if most is not None and spent >= most:
                self._stopped = Stopped(f"limits.{name} of {most:,} is used up; what is paid for is kept: raise it and run again")
                raise self._stopped

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _told(choice: Mapping[str, Any]) -> dict[str, Any]:
    """What the ledger keeps of a choice of either endpoint."""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    text = message.get("content")
    if isinstance(text, list):
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, dict))
    calls = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            calls.append(
                {"name": str(function.get("name")), "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
            )
    finish = str(choice.get("finish_reason") or "stop")
    if message.get("refusal"):
        text, finish = str(message["refusal"]), "refusal"
    text = text if isinstance(text, str) else ""
    return {"text": text[:MAX_TEXT].encode("utf-8", "replace").decode(), "calls": calls[:200], "finish": finish}


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return int(value) if isinstance(value, (int, float)) else 0


def _connect(model: str, limits: Limits, http_client: httpx2.AsyncClient | None) -> tuple[openai.AsyncOpenAI, str]:
    if model.startswith("offline"):
        from pipelines.llm.offline.app import offline_http_client

        client = http_client or offline_http_client()
        return openai.AsyncOpenAI(api_key="offline", base_url="http://offline.invalid/v1", max_retries=0, http_client=client), model
    scheme, _, name = model.partition(":")
    if scheme != "openai" or not name:
        raise ConfigError(f"--model {model!r}: write offline, openai:<model>, or a built-in solver")
    key = os.environ.get("OPENAI_API_KEY")
    if not key:
        raise ConfigError(f"--model is {model!r}, but OPENAI_API_KEY is not set; export it, or use --model offline")
    timeout = httpx2.Timeout(limits.timeout_s, connect=10)
    try:
        return openai.AsyncOpenAI(api_key=key, max_retries=0, timeout=timeout, http_client=http_client), name
    except (openai.OpenAIError, httpx2.InvalidURL) as error:
        raise ConfigError(f"OPENAI_BASE_URL: {error}; write e.g. http://127.0.0.1:8000/v1") from None


def _passing(error: BaseException) -> bool:
    """Is it worth another try?"""
    if isinstance(error, openai.RateLimitError):
        return error.code not in ("insufficient_quota", "billing_hard_limit_reached")
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError)


def _wait(state: tenacity.RetryCallState) -> float:
    """Retry-After in seconds where the provider sends it, else exponential with jitter."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, openai.APIStatusError):
        told = error.response.headers.get("retry-after", "")
        if told.replace(".", "", 1).isdigit():
            return min(float(told), 300)
    return float(tenacity.wait_random_exponential(multiplier=0.5, max=30)(state))


def _words(error: Exception) -> str:
    text = " ".join(str(getattr(error, "message", "") or error).split())
    key = os.environ.get("OPENAI_API_KEY") or ""
    return (text.replace(key, "***") if len(key) > 5 else text)[:300]
