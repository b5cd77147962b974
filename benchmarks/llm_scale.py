"""Memory of 100,000 requests against 10,000, and how soon a run with 100,000 rows in its ledger asks on.

python benchmarks/llm_scale.py [FEWER] [MORE]

Each count runs in a process of its own and tells its peak memory. The work is streamed through
`pipelines.stage.gather`, as the stages do, against the mock server without latency.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from llm_client import ASKS, PROMPT, Item, limits
from llm_transports import start_server

from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.stage import gather


async def work(url: str, path: Path, numbers: Sequence[int]) -> float:
    """Ask them all; returns seconds from opening the ledger to the first new reply."""
    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = url, "none-none-none"
    started = time.perf_counter()
    ledger = Ledger(path)
    ledger.begin_session()
    paid = ledger.total().calls
    llm = LLM("openai:mock", 7, ledger, limits(64))
    first = 0.0

    async def ask(number: int) -> None:
        nonlocal first
        await llm.ask(ASKS, {"number": number, "text": PROMPT}, Item, stage="bench", subject=str(number))
        if not first and llm.budget.spent.calls > paid:
            first = time.perf_counter() - started

    await gather(numbers, ask)
    await llm.close()
    ledger.close()
    return first


def main() -> None:
    """Parent: starts a child per count. Child: COUNT FOLDER URL [FROM]."""
    if len(sys.argv) == 5:
        start, stop = map(int, sys.argv[1].split(":"))
        first = asyncio.run(work(sys.argv[3], Path(sys.argv[2]), range(start, stop)))
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f} {first:.2f}")
        return
    fewer, more = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (10_000, 100_000)
    server, url = start_server(0)
    try:
        with tempfile.TemporaryDirectory() as folder:

            def child(span: str, name: str) -> tuple[float, float]:
                made = subprocess.run(
                    [sys.executable, __file__, span, str(Path(folder) / name), url, "child"], capture_output=True, text=True, check=True
                )
                memory, first = made.stdout.split()
                return float(memory), float(first)

            small, large = child(f"0:{fewer}", "small")[0], child(f"0:{more}", "large")[0]
            print(f"peak memory {small:.0f} MB for {fewer:,} requests, {large:.0f} MB for {more:,}: ratio {large / small:.2f}")
            print(
                f"first new reply of a run with {more:,} rows: {child(f'{more}:{more + 100}', 'large')[1]:.2f} s after opening the ledger"
            )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
