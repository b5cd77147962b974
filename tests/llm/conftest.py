"""A server that says just what a test wants, byte by byte, and a model layer in front of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import tenacity
from pydantic import BaseModel, ConfigDict, Field

from pipelines.config import Limits, Models
from pipelines.llm import tries
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.llm.prompts import Header, Prompt

KEY = "canary-5f0c-never-written"
ASKS = Prompt(
    "test.item",
    Header(purpose="Test.", version=1, variables=["what"], reply="", sees="writer"),
    "You describe.",
    "{{ what }}",
    "test",
)
GOOD = {"title": "Tea", "score": 7, "tags": ["hot"]}


class Item(BaseModel):
    """What the tests ask for."""

    model_config = ConfigDict(extra="forbid")

    title: str
    score: int = Field(ge=0, le=10)
    tags: list[str]
    note: str = ""


def completion(content: Any = None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A completion body; the content is `GOOD` unless told."""
    text = json.dumps(GOOD) if content is None else content if isinstance(content, str) else json.dumps(content)
    return {
        "id": "t",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}},
    }


def http(body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """A whole HTTP response."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(raw)}\r\n{head}\r\n".encode() + raw


def refusal(status: int, message: str, code: str = "", **headers: str) -> bytes:
    """An error as providers send it."""
    return http({"error": {"message": message, "type": code, "code": code, "param": None}}, status, **headers)


class Server:
    """Answers from a list, the last one for ever; keeps the bodies it was sent."""

    def __init__(self) -> None:
        self.answers: list[bytes | Callable[[dict[str, Any]], bytes]] = [http(completion())]
        self.bodies: list[dict[str, Any]] = []
        self.delay = 0.0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                raw = await reader.readexactly(size)
                body = json.loads(raw) if raw else {}
                self.bodies.append(body)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if self.delay:
                    await asyncio.sleep(self.delay)
                told = answer(body) if callable(answer) else answer
                if not told:
                    break
                writer.write(told)
                await writer.drain()
                if b"content-length" in told and len(told.partition(b"\r\n\r\n")[2]) < int(
                    told.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                ):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on a free port."""
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield made
    listening.close()


Make = Callable[..., LLM]


@pytest.fixture
async def make(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Makes a model layer in front of the server; retries do not wait."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setattr(tries, "JITTER", tenacity.wait_none())
    made: list[LLM] = []

    def build(models: Models | None = None, **limits: Any) -> LLM:
        ledger = Ledger(tmp_path / "ledger.sqlite")
        ledger.begin_session()
        llm = LLM("openai:m", 7, ledger, Limits(**{"concurrency": 4, "timeout_s": 5, **limits}), models=models)
        made.append(llm)
        return llm

    yield build
    for llm in made:
        await llm.close()
        llm.ledger.close()


async def ask(llm: LLM, what: str = "tea", **more: Any) -> Item:
    """One question."""
    item, _ = await llm.ask(ASKS, {"what": what}, Item, stage="test", subject=what, **more)
    return item
