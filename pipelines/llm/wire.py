"""What comes back over the wire: a body that can be read, or a fault of a known kind.

Faults are the endpoint's doing (throttling, outages, broken bodies) and say nothing of the model; what a
model does wrong is found later, in `hygiene`. Nothing here trusts the other side: sizes are bounded,
encodings are checked, and every text that is kept is cleaned of keys.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx2
import openai

from pipelines.llm.secrets import redact

MAX_REPLY_BYTES = 8_000_000
MAX_FILE_BYTES = 600_000_000
"""Results of a batch come as one file."""
LONGEST_WAIT = 3600.0
"""A provider that asks for more patience than this, in seconds, means a quota, not a rate."""
_QUOTA = ("insufficient_quota", "billing", "quota exceeded", "exceeded your current quota", "per day", "daily", "credit balance", "payment")
_FILTER = ("content_filter", "content_policy", "responsibleai", "content management policy")
_TOO_LONG = ("context_length", "maximum context", "context window", "too many tokens", "prompt is too long")


class Fault(Exception):
    """An exchange that failed through no doing of the model.

    Args:
        kind: `throttled`, `server_error`, `timeout`, `connection`, `conflict`, `quota`, `refused_key`, `bad_request`,
            `content_filter`, `too_long`, or `body_...` for a body that cannot be read.
        words: What the other side said, cleaned of keys.
        wait: Seconds it asked us to wait.
    """

    def __init__(self, kind: str, words: str, status: int = 0, wait: float | None = None) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind
        self.words = " ".join(redact(words).split())[:300]
        self.status = status
        self.wait = wait

    @property
    def passing(self) -> bool:
        """Is it worth another try?"""
        return self.kind not in ("quota", "refused_key", "bad_request", "content_filter", "too_long")


@dataclass(frozen=True)
class Body:
    """One completion as it came."""

    content: str
    finish: str
    flags: tuple[str, ...]
    prompt_tokens: int
    cached_tokens: int
    reply_tokens: int
    mistake: str


def read_body(response: httpx2.Response) -> Body:
    """The completion in a response with status 200.

    Raises:
        Fault: of kind `body_too_large`, `body_not_utf8`, `body_html`, `body_not_json`, `body_error`, `body_without_choices`.
    """
    raw = response.content
    if len(raw) > MAX_REPLY_BYTES:
        raise Fault("body_too_large", f"a reply of {len(raw):,} bytes", 200)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        body = json.loads(raw)
    except UnicodeDecodeError as error:
        raise Fault("body_not_utf8", f"byte {error.start} is not UTF-8", 200) from None
    except (ValueError, RecursionError):
        start = raw[:200].decode("utf-8", "replace")
        raise Fault("body_html" if start.lstrip()[:1] == "<" or kind == "text/html" else "body_not_json", start, 200) from None
    return completion(body, () if kind in ("application/json", "") or kind.endswith("+json") else ("wrong_content_type",))


def completion(body: Any, flags: tuple[str, ...]) -> Body:
    """The completion in a JSON body.

    Raises:
        Fault: of kind `body_error` or `body_without_choices`, or what an error object in it says.
    """
    if isinstance(body, dict) and body.get("error"):
        raise _told(body["error"])
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Fault("body_without_choices", f"keys {sorted(map(str, body))[:8]}" if isinstance(body, dict) else type(body).__name__, 200)
    return _completion(body, choices[0], flags)


def _told(error: Any) -> Fault:
    """An error object in a 200: what it says decides, as if it had come with its own status."""
    words = str(error.get("message") or error) if isinstance(error, dict) else str(error)
    code = str(error.get("code") or error.get("type") or "").lower() if isinstance(error, dict) else ""
    status = int(code) if code.isdigit() and len(code) == 3 else 0
    if status in (401, 403):
        return Fault("refused_key", words, status)
    if _says(_QUOTA, code, words):
        return Fault("quota", words, 200)
    if status == 429 or "rate_limit" in code:
        return Fault("throttled", words, 200)
    return Fault("body_error", words, 200)


def _completion(body: dict[str, Any], choice: dict[str, Any], flags: tuple[str, ...]) -> Body:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content, finish = message.get("content"), str(choice.get("finish_reason") or "stop")
    if isinstance(content, list):  # parts, as some servers send them
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        told = [c["function"].get("arguments") for c in calls if isinstance(c, dict) and isinstance(c.get("function"), dict)]
        told = [one if isinstance(one, str) else json.dumps(one) for one in told if one is not None]
        if len(told) > 1:
            flags = (*flags, "duplicate_tool_calls" if len(set(told)) == 1 else "several_tool_calls")
        content = told[0] if told else content
    if message.get("refusal"):
        finish, content = "refusal", str(message["refusal"])
    content = content if isinstance(content, str) else ""
    if not content.strip() and finish in ("stop", "tool_calls"):
        finish = "empty"
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    offline = body.get("offline")
    return Body(
        plain(content),
        finish,
        flags,
        _count(usage.get("prompt_tokens")),
        _count(cached),
        _count(usage.get("completion_tokens")),
        str(offline.get("mistake") or "") if isinstance(offline, dict) else "",
    )


def plain(text: str) -> str:
    """Text that every file and database takes: no lone surrogates, no NUL, no key."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text


def _count(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def fault_of(error: openai.APIError | TimeoutError, more_statuses: list[int]) -> Fault:
    """Which kind of fault an exception of the client is."""
    if isinstance(error, (TimeoutError, openai.APITimeoutError)):
        return Fault("timeout", "no reply in time")
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        if isinstance(cause, TooLarge):
            return Fault("body_too_large", str(cause))
        return Fault("connection", f"{type(cause).__name__}: {cause}" if cause is not None else str(error.message))
    if not isinstance(error, openai.APIStatusError):
        return Fault("body_not_json", str(error.message))
    status, words = error.status_code, _words(error)
    code = f"{error.code or ''} {error.type or ''}".lower()
    wait = retry_after(error.response.headers)
    if status in (401, 403):
        return Fault("refused_key", words, status)
    if status == 402 or (status in (400, 403, 429) and _says(_QUOTA, code, words)):
        return Fault("quota", words, status)
    if status == 429:
        return Fault("quota" if wait is not None and wait > LONGEST_WAIT else "throttled", words, status, wait)
    if status in (408, 409) or status in more_statuses:
        return Fault("timeout" if status == 408 else "conflict", words, status, wait)
    if status >= 500:
        return Fault("server_error", words, status, wait)
    if _says(_FILTER, code, words):
        return Fault("content_filter", words, status)
    return Fault("too_long" if status == 413 or _says(_TOO_LONG, code, words) else "bad_request", words, status)


def _words(error: openai.APIStatusError) -> str:
    text = str(error.message)
    return f"HTTP {error.status_code}" if "<html" in text[:500].lower() else text


def _says(words: tuple[str, ...], code: str, message: str) -> bool:
    low = f"{code} {message[:2000].lower()}"
    return any(word in low for word in words)


def retry_after(headers: httpx2.Headers, now: float | None = None) -> float | None:
    """Seconds that a provider asks us to wait: from milliseconds, seconds or a date; never negative."""
    exact = headers.get("retry-after-ms", "")
    told = headers.get("retry-after", "").strip()
    try:
        if exact:
            return max(0.0, float(exact) / 1000)
        if told:
            return max(0.0, float(told))
    except ValueError:
        try:
            return max(0.0, parsedate_to_datetime(told).timestamp() - (time.time() if now is None else now))
        except (ValueError, TypeError, OverflowError):
            return None
    return None


class TooLarge(httpx2.ReadError):
    """A reply that went on beyond what anything here would answer."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        with _as_transport_errors():
            async for chunk in self._inner:
                seen += len(chunk)
                if seen > self._most:
                    raise TooLarge(f"a reply of more than {self._most:,} bytes")
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextlib.contextmanager
def _as_transport_errors() -> Iterator[None]:
    """What aiohttp raises and its adapter does not know, and a broken connection that it calls a time-out."""
    try:
        yield
    except httpx2.TimeoutException as error:
        cause = error.__cause__
        if isinstance(cause, aiohttp.ClientConnectionError) and not isinstance(cause, TimeoutError):
            raise httpx2.ConnectError(str(error) or "the connection was closed") from None
        raise
    except httpx2.TransportError:
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.RemoteProtocolError(f"{type(error).__name__}: {error}") from None


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Any transport, with replies cut off at `MAX_REPLY_BYTES`, so that no server can fill the memory."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Pass on, with a stream that counts."""
        with _as_transport_errors():
            response = await self._inner.handle_async_request(request)
        most = MAX_FILE_BYTES if "/files/" in request.url.path else MAX_REPLY_BYTES
        response.stream = _Bounded(response.stream, most)
        return response

    async def aclose(self) -> None:
        """Close what is inside."""
        await self._inner.aclose()
