"""The Batch API as a transport: everything in a few files, failures re-sent, a killed run picks its batches up again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tenacity

from pipelines.config import Limits, load
from pipelines.llm import batch, tries
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.llm.offline.app import Faults, offline_app
from pipelines.run import Run

FAULTS = Faults(too_many=0.1, server_error=0.1, malformed=0.05, expire=0.3, batch_s=0.02)


class Counting(httpx2.ASGITransport):
    """The offline server in this process; counts what it is sent, and can go silent."""

    def __init__(self, app: Any) -> None:
        super().__init__(app=app)
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Note the path."""
        self.paths.append(f"{request.method} {request.url.path}")
        return await super().handle_async_request(request)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "none-none-none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://offline.invalid/v1")
    monkeypatch.setattr(batch, "QUIET", 0.01)
    monkeypatch.setattr(tries, "JITTER", tenacity.wait_none())
    return


def limits(**more: Any) -> Limits:
    return Limits.model_validate({"batch": True, "batch_poll_s": 0.01, **more})


def digests(root: Path) -> dict[str, str]:
    found = [path for path in root.rglob("*.json*") if path.is_file()]
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


async def run_in(root: Path, transport: httpx2.AsyncBaseTransport, stop_after: float | None = None, **more: Any) -> Ledger:
    from flows import pipeline

    config, _ = load("tiny", None, {"model": "openai:offline"})

    def model(ledger: Ledger) -> LLM:
        return LLM(config.model, config.seed, ledger, limits(**more), httpx2.AsyncClient(transport=transport))

    run = Run.open(root, config, llm=model)
    task = asyncio.ensure_future(pipeline(run))
    try:
        await asyncio.wait_for(asyncio.shield(task), stop_after)
    except TimeoutError:
        run.llm.hurry()  # as a kill: nothing is awaited, nothing is tidied
        task.cancel()
        await asyncio.wait({task})
    finally:
        await run.close()
    return Ledger(root / "ledger.sqlite")


async def test_a_whole_run_by_batches_makes_the_same_data_as_single_requests(tmp_path: Path):
    single = await run_in(tmp_path / "single", httpx2.ASGITransport(app=offline_app()), batch=False)
    transport = Counting(offline_app(0, Faults(batch_s=0.02)))
    ledger = await run_in(tmp_path / "batch", transport)

    assert digests(tmp_path / "batch") == digests(tmp_path / "single")
    assert "POST /v1/chat/completions" not in transport.paths
    assert transport.paths.count("POST /v1/batches") < ledger.total().calls / 2
    assert ledger.total().calls == single.total().calls
    assert ledger.open_batches() == {}


async def test_what_fails_or_expires_in_a_batch_is_sent_again_and_the_rest_is_kept(tmp_path: Path):
    await run_in(tmp_path / "single", httpx2.ASGITransport(app=offline_app(3, FAULTS)), batch=False)
    ledger = await run_in(tmp_path / "batch", Counting(offline_app(3, FAULTS)))

    assert digests(tmp_path / "batch") == digests(tmp_path / "single")
    assert {"throttled", "server_error"} <= set(ledger.faults())
    assert ledger.open_batches() == {}


async def test_a_killed_run_waits_for_its_old_batches_instead_of_paying_again(tmp_path: Path):
    app = offline_app(0, Faults(batch_s=0.15))
    whole = Counting(offline_app(0, Faults(batch_s=0.15)))
    done = await run_in(tmp_path / "whole", whole)
    transport = Counting(app)
    for pause in (0.2, 0.35, 0.3, 0.45):
        await run_in(tmp_path / "killed", transport, stop_after=pause)

    ledger = await run_in(tmp_path / "killed", transport)

    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
    assert ledger.total().calls == done.total().calls
    assert transport.paths.count("POST /v1/batches") == whole.paths.count("POST /v1/batches")


async def test_a_batch_that_the_provider_forgot_is_made_again(tmp_path: Path):
    await run_in(tmp_path / "run", Counting(offline_app(0, Faults(batch_s=5))), stop_after=0.5)
    assert Ledger(tmp_path / "run" / "ledger.sqlite").open_batches()

    ledger = await run_in(tmp_path / "run", Counting(offline_app(0, Faults(batch_s=0.01))))

    assert ledger.open_batches() == {}
    assert ledger.total().calls > 0
