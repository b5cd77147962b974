"""The model layer against the yardstick: a bare loop of the `openai` client with its best transport and a semaphore.

python benchmarks/llm_client.py [N]

Ours does all it does in a run: schema validation, ledger with attempts, retries, rate limits, budget. Both talk
to the same mock server in the same run; the median of three rounds in turn counts.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from llm_transports import PROMPT, bare, start_server

from pipelines.config import Limits
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.llm.prompts import Header, Prompt

ASKS = Prompt(
    "bench.item",
    Header(purpose="Measure.", version=1, variables=["number", "text"], reply="", sees="writer"),
    "You describe items.",
    "{{ number }} {{ text }}",
    "bench",
)


class Item(BaseModel):
    """The same schema as the yardstick's."""

    model_config = ConfigDict(extra="forbid")

    title: str
    score: int = Field(ge=0, le=10)
    tags: list[str]
    note: str


def limits(concurrency: int) -> Limits:
    """Everything on, nothing in the way."""
    return Limits(concurrency=concurrency, rpm=10_000_000, tpm=10_000_000_000, max_calls=10_000_000, max_tokens=10_000_000_000)


async def ours(url: str, concurrency: int, count: int, folder: Path) -> tuple[float, float]:
    """(CPU, wall) seconds of `count` questions."""
    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = url, "none-none-none"
    ledger = Ledger(folder / f"{time.monotonic_ns()}.sqlite")
    ledger.begin_session()
    llm = LLM("openai:mock", 7, ledger, limits(concurrency))

    async def ask(number: int) -> None:
        await llm.ask(ASKS, {"number": number, "text": PROMPT}, Item, stage="bench", subject=str(number))

    await asyncio.gather(*(ask(-1 - n) for n in range(min(concurrency, 64))))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(ask(n) for n in range(count)))
    spent = time.process_time() - cpu, time.perf_counter() - wall
    await llm.close()
    assert ledger.total().calls == count + min(concurrency, 64)
    ledger.close()
    return spent


def main() -> None:
    """One line per setting."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("openai", "aiohttp", "tenacity", "SQLAlchemy", "jsonschema"))
    print(f"{versions}, Python {sys.version.split()[0]}; N = {count}")
    with tempfile.TemporaryDirectory() as folder:
        for concurrency, latency in ((64, 100), (256, 200)):
            server, url = start_server(latency)
            try:
                rounds = [
                    (asyncio.run(bare(url, "aiohttp", concurrency, count)), asyncio.run(ours(url, concurrency, count, Path(folder))))
                    for _ in range(3)
                ]
            finally:
                server.terminate()
                server.wait()
            yard_cpu, yard_wall = (statistics.median(r[0][i] for r in rounds) for i in (0, 1))
            our_cpu, our_wall = (statistics.median(r[1][i] for r in rounds) for i in (0, 1))
            ideal = latency / 1000 * -(-count // concurrency)
            bare_ms, our_ms = 1000 * yard_cpu / count, 1000 * our_cpu / count
            print(
                f"{concurrency:>4} in flight, {latency} ms: CPU a call {bare_ms:.2f} ms bare, {our_ms:.2f} ms ours, "
                f"ratio {our_cpu / yard_cpu:.2f}; wall/ideal {yard_wall / ideal:.2f} bare, {our_wall / ideal:.2f} ours, "
                f"ratio {our_wall / yard_wall:.2f}"
            )


if __name__ == "__main__":
    main()
