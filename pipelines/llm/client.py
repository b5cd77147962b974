"""Between a stage and a model: one client, one ledger, one way to ask.

Only this module opens connections. A request is looked up in the ledger first, so nothing is paid
twice; transport faults are retried with tenacity; replies are validated here, whatever the provider
promised, and get one repair turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import openai
import tenacity
from pydantic import BaseModel, ValidationError

from pipelines.config import Limits
from pipelines.errors import ConfigError, ReplyError, Stopped, Unavailable
from pipelines.jsonio import canonical, digest
from pipelines.llm.ledger import Entry, Ledger
from pipelines.llm.prompts import Prompt
from pipelines.llm.schemas import first_error, reply_schema, unwritable

Reply = TypeVar("Reply", bound=BaseModel)
SCHEMES = ("offline", "openai:<model>")
MAX_REPLY_CHARS = 10_000_000
_TRANSIENT = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError, openai.ConflictError)
_FORMATS = ("json_schema", "json_object", "text")


@dataclass(frozen=True)
class Answer:
    """A validated reply and what the ledger says of it."""

    reply: Any
    mistake: str
    """Planted by the offline model, for measuring the gates; empty with any other model."""


class LLM:
    """The model of a run, by name: `offline`, or `openai:<model>`.

    Args:
        model: As in the config.
        seed: Goes into every request, so that the same run asks the same questions.
        ledger: Where replies are kept.
        limits: Concurrency, patience and budgets.
        http_client: Only for tests and the offline model: the transport.
    """

    def __init__(
        self,
        model: str,
        seed: int,
        ledger: Ledger,
        limits: Limits,
        http_client: httpx2.AsyncClient | None = None,
    ) -> None:
        self.model = model
        self.ledger = ledger
        self._seed = seed
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._asked: dict[str, asyncio.Future[Entry]] = {}
        self._client, self._wire_model = _connect(model, limits, http_client)
        self._format = 0
        spent = ledger.total()
        self._calls, self._tokens = spent.calls, spent.tokens

    @property
    def base_url(self) -> str:
        """The endpoint in use."""
        return str(self._client.base_url)

    async def check(self) -> None:
        """Make sure that somebody answers before anything is written.

        Raises:
            Unavailable: when the endpoint does not answer, or refuses the key.
        """
        try:
            await self._client.with_options(timeout=10).models.list()
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise Unavailable(f"{self.base_url} refuses the key: {_last_words(error)}; check OPENAI_API_KEY") from None
        except openai.APIStatusError:
            return
        except openai.APIConnectionError as error:
            raise Unavailable(
                f"{self.base_url} does not answer ({_last_words(error)}); check OPENAI_BASE_URL, or use --model offline"
            ) from None

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
            ReplyError: when the reply is cut, refused or invalid, also after one repair turn.
            Stopped: when a budget is used up or the endpoint keeps failing.
            Unavailable: when the endpoint refuses the key or the quota is gone.
        """
        messages = prompt.render(**values)
        messages[0]["content"] += f"\n\nAnswer with one JSON object that fits the schema `{prompt.name}`."
        schema = reply_schema(prompt.name, reply)
        entry = await self._reply(prompt, messages, schema, stage, subject, repeat)
        try:
            return _parse(entry, schema, reply), entry.mistake
        except ReplyError as error:
            if error.reason != "invalid_reply":
                raise
            messages = [
                *messages,
                {"role": "assistant", "content": entry.content[:20_000]},
                {"role": "user", "content": f"That reply cannot be used: {error.detail}\nSend the whole corrected JSON object."},
            ]
            entry = await self._reply(prompt, messages, schema, stage, subject, repeat)
            return _parse(entry, schema, reply), entry.mistake

    async def _reply(
        self, prompt: Prompt, messages: list[dict[str, str]], schema: dict[str, Any], stage: str, subject: str, repeat: int
    ) -> Entry:
        seed = (self._seed + 7919 * repeat) % 2**31
        key = digest(canonical([self.model, self.base_url, messages, schema, seed])) + digest(canonical([seed, self.model, messages]))
        known = self.ledger.get(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is not None:
            return await asked
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._asked[key] = future
        try:
            entry = await self._request(key, prompt, messages, schema, stage, subject, seed)
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # nobody may be waiting; it is raised below in any case
            raise
        finally:
            del self._asked[key]
        future.set_result(entry)
        return entry

    async def _request(
        self,
        key: str,
        prompt: Prompt,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        stage: str,
        subject: str,
        seed: int,
    ) -> Entry:
        attempts = 0
        started = time.monotonic()
        async with self._slots:
            self._within_budget()
            retrying = tenacity.AsyncRetrying(
                retry=tenacity.retry_if_exception(_transient),
                stop=tenacity.stop_after_attempt(self._limits.attempts),
                wait=_wait,
                reraise=True,
            )
            try:
                async for attempt in retrying:
                    with attempt:
                        attempts = attempt.retry_state.attempt_number
                        body = await self._send(prompt, messages, schema, seed, attempts)
            except openai.APIError as error:
                raise _stopping(error, self.base_url, attempts) from None
        choice = body["choices"][0]
        usage = body.get("usage") or {}
        message = choice.get("message") or {}
        content = message.get("content") or ""
        finish = "refusal" if message.get("refusal") else str(choice.get("finish_reason") or "stop")
        entry = Entry(
            digest=key,
            stage=stage,
            subject=subject,
            prompt=prompt.ref,
            model=self.model,
            content=content if isinstance(content, str) else json.dumps(content),
            finish=finish,
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            reply_tokens=int(usage.get("completion_tokens") or 0),
            latency_ms=round(1000 * (time.monotonic() - started)),
            attempts=attempts,
            mistake=str((body.get("offline") or {}).get("mistake") or "") if self.model.endswith("offline") else "",
        )
        self.ledger.put(entry)
        self._calls += 1
        self._tokens += entry.prompt_tokens + entry.reply_tokens
        return entry

    async def _send(
        self, prompt: Prompt, messages: list[dict[str, str]], schema: dict[str, Any], seed: int, attempt: int
    ) -> dict[str, Any]:
        """One HTTP exchange; steps down from json_schema to json_object to text when the endpoint refuses the format."""
        while True:
            form = _FORMATS[self._format]
            options: dict[str, Any] = {}
            if form == "json_schema":
                named = {"name": prompt.name.replace(".", "_"), "schema": schema}
                options["response_format"] = {"type": "json_schema", "json_schema": named}
            elif form == "json_object":
                options["response_format"] = {"type": "json_object"}
            sent = messages
            if form != "json_schema":
                note = f"\n\nThe schema:\n{json.dumps(schema, ensure_ascii=False)}"
                sent = [{**messages[0], "content": messages[0]["content"] + note}, *messages[1:]]
            try:
                raw = await self._client.chat.completions.with_raw_response.create(
                    model=self._wire_model,
                    messages=sent,  # type: ignore[arg-type]
                    seed=seed,
                    extra_headers={"x-ptool-attempt": str(attempt)},
                    **options,
                )
            except openai.BadRequestError as error:
                if self._format + 1 < len(_FORMATS) and "response_format" in str(error.message):
                    self._format += 1
                    continue
                raise
            body = _body(raw.content)
            if body is None:
                raise openai.APIConnectionError(message="the reply holds no choices", request=raw.http_request)
            return body

    def _within_budget(self) -> None:
        limits = self._limits
        if limits.max_calls is not None and self._calls >= limits.max_calls:
            raise Stopped(f"limits.max_calls of {limits.max_calls:,} is used up; what is paid for is kept: raise it and run again")
        if limits.max_tokens is not None and self._tokens >= limits.max_tokens:
            raise Stopped(f"limits.max_tokens of {limits.max_tokens:,} is used up; what is paid for is kept: raise it and run again")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _connect(model: str, limits: Limits, http_client: httpx2.AsyncClient | None) -> tuple[openai.AsyncOpenAI, str]:
    if model == "offline":
        from pipelines.llm.offline.app import offline_http_client

        client = http_client or offline_http_client()
        return openai.AsyncOpenAI(api_key="offline", base_url="http://offline.invalid/v1", max_retries=0, http_client=client), "offline"
    scheme, _, name = model.partition(":")
    if scheme != "openai" or not name:
        raise ConfigError(f"model is {model!r}: write {' or '.join(SCHEMES)}, e.g. openai:gpt-4o-mini")
    key = os.environ.get("OPENAI_API_KEY")
    if not key:
        raise ConfigError(f"model is {model!r}, but OPENAI_API_KEY is not set; export it, or use --model offline")
    timeout = httpx2.Timeout(limits.timeout_s, connect=10)
    if http_client is None:
        pool = httpx2.Limits(max_connections=limits.concurrency + 4, max_keepalive_connections=limits.concurrency)
        http_client = openai.DefaultAsyncHttpx2Client(limits=pool, timeout=timeout)
    try:
        return openai.AsyncOpenAI(api_key=key, max_retries=0, timeout=timeout, http_client=http_client), name
    except (openai.OpenAIError, httpx2.InvalidURL) as error:
        raise ConfigError(f"OPENAI_BASE_URL: {error}; write e.g. http://127.0.0.1:8000/v1") from None


def _body(content: bytes) -> dict[str, Any] | None:
    if len(content) > MAX_REPLY_CHARS:
        return None
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    return dict(body)


def _parse(entry: Entry, schema: dict[str, Any], reply: type[Reply]) -> Reply:
    if entry.finish == "length":
        raise ReplyError("reply_cut", "finish_reason is length: the model's token limit cut the reply")
    if entry.finish in ("content_filter", "refusal"):
        raise ReplyError("refused", f"finish_reason is {entry.finish}")
    try:
        value = json.loads(_json_part(entry.content))
    except (ValueError, RecursionError) as error:
        raise ReplyError("invalid_reply", f"not JSON: {error}") from None
    problem = unwritable(entry.content, value) or first_error(schema, value)
    if problem is not None:
        raise ReplyError("invalid_reply", problem)
    try:
        return reply.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ReplyError("invalid_reply", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _json_part(text: str) -> str:
    """The JSON object in a reply: without reasoning, fences and words around it."""
    text = text.rpartition("</think>")[2].strip()
    if text.startswith("{") and text.endswith("}"):
        return text
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _transient(error: BaseException) -> bool:
    if isinstance(error, openai.RateLimitError):
        return error.code not in ("insufficient_quota", "billing_hard_limit_reached")
    if isinstance(error, openai.APIStatusError) and error.status_code == 408:
        return True
    return isinstance(error, _TRANSIENT)


_JITTER = tenacity.wait_random_exponential(multiplier=0.5, max=30)


def _wait(state: tenacity.RetryCallState) -> float:
    """Retry-After in seconds where the provider sends it, else exponential with jitter."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, openai.APIStatusError):
        told = error.response.headers.get("retry-after", "")
        if told.replace(".", "", 1).isdigit():
            return min(float(told), 300)
    return float(_JITTER(state))


def _stopping(error: openai.APIError, url: str, attempts: int) -> Exception:
    words = _last_words(error)
    if isinstance(error, (openai.AuthenticationError, openai.PermissionDeniedError)):
        return Unavailable(f"{url} refuses the key: {words}; check OPENAI_API_KEY")
    if isinstance(error, openai.APIStatusError) and not _transient(error):
        return Unavailable(f"{url} refuses the request ({error.status_code}): {words}")
    return Stopped(f"{url} failed {attempts} times: {words}; what is paid for is kept: run the same command again")


def _last_words(error: Exception) -> str:
    text = " ".join(str(getattr(error, "message", "") or error).split())
    key = os.environ.get("OPENAI_API_KEY") or ""
    return (text.replace(key, "***") if len(key) > 5 else text)[:300]
