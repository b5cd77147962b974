"""CPU and wall time per call of the `openai` package's transports: a bare loop, a semaphore and nothing else.

python benchmarks/llm_transports.py [N]
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx2
import openai

SERVER = Path(__file__).with_name("llm_mock_server.py")
PROMPT = "Describe this item in a few words and give it a score. " * 27
"""1.5 kB."""
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title", "score", "tags", "note"],
    "properties": {
        "title": {"type": "string"},
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
}
TRANSPORTS: dict[str, Callable[..., Any]] = {
    "default": lambda **_: None,
    "httpx2": lambda **k: openai.DefaultAsyncHttpx2Client(**k),
    "aiohttp": lambda **k: openai.DefaultAioHttpClient(**k),
}


def start_server(latency_ms: float) -> tuple[subprocess.Popen[bytes], str]:
    """The mock on a free port, and its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), str(port), str(latency_ms)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process, f"http://127.0.0.1:{port}/v1"


async def bare(url: str, transport: str, concurrency: int, count: int) -> tuple[float, float]:
    """(CPU, wall) seconds of `count` calls."""
    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    http = TRANSPORTS[transport](limits=limits, timeout=60)
    slots = asyncio.Semaphore(concurrency)
    async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http) as client:

        async def call(number: int) -> None:
            async with slots:
                await client.chat.completions.create(
                    model="mock",
                    messages=[{"role": "user", "content": f"{number} {PROMPT}"}],
                    response_format={"type": "json_schema", "json_schema": {"name": "item", "schema": SCHEMA}},
                )

        await asyncio.gather(*(call(-1 - n) for n in range(min(concurrency, 64))))
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(call(n) for n in range(count)))
        return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """One line per transport and concurrency."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(", ".join(f"{name} {metadata.version(name)}" for name in ("openai", "httpx2", "aiohttp")), f"Python {sys.version.split()[0]}")
    for concurrency in (64, 256, 512):
        server, url = start_server(100)
        try:
            for transport in TRANSPORTS:
                cpu, wall = asyncio.run(bare(url, transport, concurrency, count))
                ideal = 0.1 * -(-count // concurrency)
                print(f"{concurrency:>4} in flight  {transport:<8} {1000 * cpu / count:6.2f} ms CPU a call  wall/ideal {wall / ideal:5.2f}")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
