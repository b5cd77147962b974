"""The offline model behind the OpenAI wire format: in-process for runs, or on a port for scripts and tests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.llm.offline import solving
from pipelines.llm.offline.batches import Shelf
from pipelines.llm.offline.model import RATES, Unanswerable, answer


@dataclass(frozen=True)
class Faults:
    """How often the server misbehaves, as shares of requests; drawn from the request and its attempt number."""

    too_many: float = 0.0
    """HTTP 429."""
    server_error: float = 0.0
    """HTTP 500."""
    malformed: float = 0.0
    """Half a JSON body with status 200."""
    truncate: float = 0.0
    """A reply cut off, `finish_reason` length."""
    latency_ms: float = 0.0
    expire: float = 0.0
    """Batches that expire half done."""
    batch_s: float = 1.0
    """Seconds that a batch takes."""


@dataclass
class Stats:
    """What `/stats` tells."""

    requests: int = 0
    peak_in_flight: int = 0
    in_flight: int = 0
    abandoned: int = 0
    """Requests whose client was gone before the answer."""
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def report(self) -> dict[str, Any]:
        """Duplicates are requests whose body was sent and answered before."""
        return {
            "requests": self.requests,
            "duplicates": sum(count - 1 for count in self.seen.values()),
            "in_flight": self.in_flight,
            "abandoned": self.abandoned,
            "faults": dict(sorted(self.faults.items())),
            "peak_in_flight": self.peak_in_flight,
        }


def offline_app(seed: int = 0, faults: Faults = Faults(), rates: Mapping[str, float] = RATES) -> Starlette:
    """An ASGI app with `/v1/chat/completions`, `/v1/models` and `/stats`."""
    stats = Stats()

    async def chat(request: Request) -> Response:
        raw = await request.body()
        stats.requests += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        try:
            if faults.latency_ms:
                await asyncio.sleep(faults.latency_ms / 1000)
                stats.abandoned += await request.is_disconnected()
            return _reply(raw, request.headers.get("x-ptool-attempt", "1"), seed, faults, rates, stats)
        finally:
            stats.in_flight -= 1

    async def raw_prompt(request: Request) -> Response:
        body = json.loads(await request.body())
        chat_body = {**body, "messages": [{"role": "user", "content": str(body.pop("prompt", ""))}]}
        reply = _reply(json.dumps(chat_body).encode(), request.headers.get("x-ptool-attempt", "1"), seed, faults, rates, stats)
        if reply.status_code != 200:
            return reply
        payload = json.loads(bytes(reply.body))
        for choice in payload["choices"]:
            choice["text"] = choice.pop("message")["content"]
        return JSONResponse({**payload, "object": "text_completion"})

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "offline", "object": "model", "created": 0, "owned_by": "ptool"}]})

    async def report(_: Request) -> Response:
        return JSONResponse(stats.report())

    def answered(raw: bytes, attempt: str) -> Response:
        stats.requests += 1
        return _reply(raw, attempt, seed, faults, rates, stats)

    shelf = Shelf(answered, seed, faults.expire, faults.batch_s)
    return Starlette(
        routes=[
            *shelf.routes(),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/completions", raw_prompt, methods=["POST"]),
            Route("/v1/models", models),
            Route("/stats", report),
        ]
    )


def _reply(raw: bytes, attempt: str, seed: int, faults: Faults, rates: Mapping[str, float], stats: Stats) -> Response:
    digest = hashlib.sha256(raw).hexdigest()
    rng = random.Random(f"{seed} {digest} {attempt}")
    if rng.random() < faults.too_many:
        stats.faults["429"] += 1
        return _error(429, "rate_limit_exceeded", "slow down", {"retry-after": "0.05"})
    if rng.random() < faults.server_error:
        stats.faults["500"] += 1
        return _error(500, "server_error", "something broke")
    try:
        body = json.loads(raw)
        content, mistake = answer(body, seed, rates)
    except (ValueError, Unanswerable) as error:
        return _error(400, "invalid_request_error", str(error))
    stats.seen[digest] += 1
    finish = "stop"
    if rng.random() < faults.truncate:
        stats.faults["truncate"] += 1
        content, finish = content[: len(content) // 2], "length"
    prompt_tokens = sum(len(str(m.get("content"))) for m in body["messages"]) // 4
    payload = {
        "id": f"offline-{digest[:12]}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", "offline"),
        "choices": [{"index": 0, "finish_reason": finish, "message": solving.message(body, content)}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(content) // 4,
            "total_tokens": prompt_tokens + len(content) // 4,
        },
        "offline": {"mistake": mistake},
    }
    text = json.dumps(payload, ensure_ascii=False).encode()
    if rng.random() < faults.malformed:
        stats.faults["malformed"] += 1
        text = text[: len(text) // 2]
    return Response(text, media_type="application/json")


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body: dict[str, Any] = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return JSONResponse(body, status_code=status, headers=headers)


def offline_http_client(seed: int = 0, faults: Faults = Faults(), rates: Mapping[str, float] = RATES) -> httpx2.AsyncClient:
    """A client whose requests reach the offline model in this process."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=offline_app(seed, faults, rates)))
