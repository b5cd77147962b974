"""One model at one base URL: the only place where connections are opened."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from pipelines.config import Limits, ModelSpec
from pipelines.errors import ConfigError, Unavailable
from pipelines.llm import ladder, wire
from pipelines.llm.pace import Pace
from pipelines.llm.secrets import key_of, redact

SCHEMES = ("offline", "openai:<model>")
OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Request:
    """What is asked, before it is known how the endpoint wants to be asked."""

    name: str
    """Of the prompt."""
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    seed: int
    reply_limit: int | None = None
    """Tokens of the reply at most; None leaves it to the provider."""

    @property
    def chars(self) -> int:
        """Size of the prompt."""
        return sum(len(message["content"]) for message in self.messages)


class Endpoint:
    """A connection pool, the pace it can take, and the way it wants to be asked.

    Args:
        spec: Which model, where, and the name of its key's variable.
        limits: Patience and concurrency.
        http_client: Only for tests: the transport.

    Raises:
        ConfigError: for a model name, URL or key that cannot be used.
    """

    def __init__(self, spec: ModelSpec, limits: Limits, http_client: httpx2.AsyncClient | None = None) -> None:
        self.model = spec.model
        self.key_variable = spec.key_variable
        self.offline = spec.model == "offline"
        wide = limits.batch and not self.offline  # a batch is as large as what is asked at once
        self.pace = Pace(limits.model_copy(update={"concurrency": 100_000}) if wide else limits)
        self.rung = ladder.RUNGS[0]
        self.without: set[str] = set()
        self.last_words = ""
        self._limits = limits
        self._client, self.wire_model = _connect(spec, limits, http_client)
        self._key = "" if self.offline else self._client.api_key
        self._prefix = hashlib.sha256(f"{self.model}\n{self.base_url}\n".encode())
        self._digests: dict[int, tuple[dict[str, Any], bytes]] = {}

    @property
    def base_url(self) -> str:
        """Where it is."""
        return str(self._client.base_url)

    @property
    def client(self) -> openai.AsyncOpenAI:
        """The connection pool, for the batch transport."""
        return self._client

    def digest(self, request: Request, repeat: int) -> str:
        """What makes a request the same as another: model, base URL, messages, schema, sampling, repeat; 32 hex digits."""
        known = self._digests.get(id(request.schema))
        if known is None or known[0] is not request.schema:
            known = (request.schema, hashlib.sha256(wire_json(request.schema)).digest())
            self._digests[id(request.schema)] = known
        state = self._prefix.copy()
        state.update(known[1])
        state.update(f"{request.seed} {repeat} {request.reply_limit}".encode())
        for message in request.messages:
            text = message["content"].encode("utf-8", "surrogatepass")
            state.update(f"\n{message['role']} {len(text)}\n".encode())
            state.update(text)
        return state.hexdigest()[:32]

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON that is sent, on the present rung."""
        fields, note = ladder.request_fields(self.rung, request.name, request.schema)
        messages = request.messages
        if note:
            messages = [{**messages[0], "content": messages[0]["content"] + note}, *messages[1:]]
        body: dict[str, Any] = {"model": self.wire_model, "messages": messages, **fields}
        if "seed" not in self.without:
            body["seed"] = request.seed
        if request.reply_limit is not None:
            body["max_tokens" if "max_completion_tokens" in self.without else "max_completion_tokens"] = request.reply_limit
        return body

    async def exchange(self, request: Request, attempt: int) -> wire.Body:
        """One reply; steps down the ladder when the endpoint refuses the way it was asked.

        Raises:
            Fault: anything else that keeps a reply from coming.
        """
        while True:
            rung, body = self.rung, self.body(request)
            try:
                async with asyncio.timeout(self._limits.timeout_s):
                    response = await self._client.post(
                        "/chat/completions",
                        cast_to=httpx2.Response,
                        body=body,
                        options={"headers": {"x-ptool-attempt": str(attempt)}},
                    )
                self.pace.told(response.headers)
                return self._clean(wire.read_body(response))
            except (openai.APIError, TimeoutError) as error:
                fault = wire.fault_of(error, self._limits.retry_statuses)
            self.last_words = fault.words
            if not self.step_down(rung, fault, body):
                raise fault

    def step_down(self, rung: str, fault: wire.Fault, sent: dict[str, Any]) -> bool:
        """Ask in a simpler way from now on, if that is what the endpoint wants."""
        field = ladder.refused_field(fault, sent)
        if field is not None and field not in self.without:
            self.without.add(field)
            return True
        below = ladder.next_rung(rung, fault)
        if below is None:
            return field is not None
        if self.rung == rung:  # others that were in flight may have stepped already
            self.rung = below
        return True

    def _clean(self, body: wire.Body) -> wire.Body:
        """Nothing that is kept may repeat our key, even when the endpoint does."""
        if self._key and self._key in body.content:
            return wire.Body(redact(body.content), body.finish, (*body.flags, "key_repeated"), *_rest(body))
        return body

    async def check(self) -> None:
        """Make sure that somebody answers.

        Raises:
            Unavailable: when the endpoint does not answer, or refuses the key.
        """
        try:
            await self._client.with_options(timeout=10).models.list()
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise Unavailable(f"{self.base_url} refuses the key: {_one_line(error)}; check {self.key_variable}") from None
        except openai.APIConnectionError as error:
            raise Unavailable(
                f"{self.base_url} does not answer ({_one_line(error)}); check OPENAI_BASE_URL, or use --model offline"
            ) from None
        except openai.APIStatusError as error:
            if error.status_code in (502, 503, 504):
                raise Unavailable(f"{self.base_url} answers HTTP {error.status_code}: nobody is behind it; try again later") from None
        except openai.OpenAIError:
            return  # it answers; not every server lists its models
        except (ValueError, TypeError, AttributeError):
            return

    def state(self) -> dict[str, Any]:
        """For `ptool status`."""
        return {"model": self.model, "base_url": self.base_url, "rung": self.rung, "last_words": self.last_words, **self.pace.state()}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def wire_json(value: Any) -> bytes:
    """Canonical bytes of a JSON value."""
    from pipelines.jsonio import canonical

    return canonical(value).encode("utf-8", "surrogatepass")


def _rest(body: wire.Body) -> tuple[int, int, int, str]:
    return body.prompt_tokens, body.cached_tokens, body.reply_tokens, body.mistake


def _one_line(error: Exception) -> str:
    return " ".join(redact(str(getattr(error, "message", "") or error)).split())[:300]


def _connect(spec: ModelSpec, limits: Limits, http_client: httpx2.AsyncClient | None) -> tuple[openai.AsyncOpenAI, str]:
    if spec.model == "offline" and spec.base_url is None:
        from pipelines.llm.offline.app import offline_http_client

        client = http_client or offline_http_client()
        return openai.AsyncOpenAI(api_key="offline", base_url="http://offline.invalid/v1", max_retries=0, http_client=client), "offline"
    scheme, _, name = spec.model.partition(":")
    if scheme != "openai" or not name:
        raise ConfigError(f"model is {spec.model!r}: write {' or '.join(SCHEMES)}, e.g. openai:gpt-4o-mini")
    try:
        key = key_of(spec.key_variable)
    except ConfigError as error:
        raise ConfigError(f"model is {spec.model!r}, but {error}") from None
    timeout = httpx2.Timeout(limits.timeout_s, connect=10, pool=None)
    base_url = spec.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    problem = _url_problem(base_url)
    if problem:
        raise ConfigError(f"base URL: {problem}; write e.g. http://127.0.0.1:8000/v1")
    try:
        client = http_client or _pool(limits, timeout)
        return openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout, http_client=client), name
    except (openai.OpenAIError, httpx2.InvalidURL) as error:
        raise ConfigError(f"base URL: {redact(str(error))}; write e.g. http://127.0.0.1:8000/v1") from None


class _Pool(openai.DefaultAioHttpClient):
    """The aiohttp transport, the cheapest of the package's (see benchmarks/RESULTS.md), with bounded replies; TLS is checked."""

    def _init_transport(self, *args: Any, **kwargs: Any) -> httpx2.AsyncBaseTransport:
        return wire.BoundedTransport(super()._init_transport(*args, **kwargs))

    def _init_proxy_transport(self, *args: Any, **kwargs: Any) -> httpx2.AsyncBaseTransport:
        return wire.BoundedTransport(super()._init_proxy_transport(*args, **kwargs))


def _pool(limits: Limits, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    """As many connections as requests may be in flight: the pool is never the limit."""
    size = httpx2.Limits(max_connections=limits.concurrency + 4, max_keepalive_connections=limits.concurrency + 4)
    return _Pool(limits=size, timeout=timeout, headers={"accept-encoding": "identity"}, follow_redirects=False)


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        if parts.port is not None and not 0 < parts.port < 65536:
            return "its port is none"
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it does not begin with http:// or https:// and a host"
    if parts.username or parts.password:
        return "it holds a user name or password; keys come from the environment"
    return None


def unsafe_url(url: str) -> bool:
    """Does a key travel in the clear to another machine?"""
    parts = urlsplit(url)
    if parts.scheme != "http" or (parts.hostname or "").endswith((".invalid", ".localhost")) or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True
