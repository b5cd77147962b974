"""What Prefect costs, what a cluster costs, and what the parent holds: `python benchmarks/prefect.py [--dask] [--rounds N]`.

Ratios are of medians measured alternately in one process; absolute seconds depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import urllib.request
from importlib import metadata
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: its prefect.py would hide the library

from pipelines.launch import PREFECT_SETTINGS  # noqa: E402


async def overhead(flows, config, folder: Path, rounds: int) -> None:  # type: ignore[no-untyped-def]
    """Seconds of the quick preset, directly and as a flow, on a server that is up."""
    settings, _ = config.load("quick")
    started = time.perf_counter()
    await flows.reach_server()
    print(f"start-up: temporary server {time.perf_counter() - started:.1f} s (after the imports)")
    tiny, _ = config.load("tiny")
    await flows.synthesize(tiny, str(folder / "warm"))
    took: dict[str, list[float]] = {"direct": [], "flow": []}
    cpu: dict[str, list[float]] = {"direct": [], "flow": []}
    for number in range(rounds):
        for name, work in (("direct", flows.directly_in), ("flow", flows.synthesize)):
            began, busy = time.perf_counter(), time.process_time()
            await work(settings, str(folder / f"{name}{number}"))
            took[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - busy)
    direct, flow = statistics.median(took["direct"]), statistics.median(took["flow"])
    ratio = statistics.median(cpu["flow"]) / statistics.median(cpu["direct"])
    print(
        f"quick preset, median of {rounds}: direct {direct:.2f} s, as a flow {flow:.2f} s, ratio {flow / direct:.2f}; CPU ratio {ratio:.2f}"
    )


def parent_memory(flows, config, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """Peak of the plan of 1,000 and of 100,000 samples over the same users."""
    from pipelines.loop import Population
    from pipelines.run import STAGES, Run
    from pipelines.shards import plan

    async def go() -> None:
        base = {"users": 40, "untrained_users": 4, "limits": {"shard_users": 1}}
        small, _ = config.load("quick", None, base)
        run = Run.open(folder / "plan", small)
        try:
            await flows.pipeline(run)
            people = Population.of(*(list(run.read(name)) for name in list(STAGES)[:5]))
            peaks = []
            for total in (1_000, 100_000):
                big, _ = config.load(
                    "quick", None, base | {"samples": {"train": total - 2000 if total > 2000 else 900, "test_trained_users": 50}}
                )
                run.config = big
                tracemalloc.start()
                _, shards = plan(run, people)
                peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
                tracemalloc.stop()
            print(f"plan in {len(shards)} shards: peak {peaks[0]:.1f} MB for 1,000 samples, {peaks[1]:.1f} MB for 100,000")
        finally:
            await run.close()

    asyncio.run(go())


async def hundred_shards(flows, config, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """100 users in shards of one: here, and on a Dask cluster of two processes."""
    fields = {
        "users": 100,
        "untrained_users": 5,
        "samples": {"train": 400, "test_trained_users": 50, "test_untrained_users": 25},
        "limits": {"shard_users": 1},
    }
    settings, _ = config.load("quick", None, fields)
    began = time.perf_counter()
    await flows.directly_in(settings, str(folder / "here"))
    here = time.perf_counter() - began
    began = time.perf_counter()
    await flows.synthesize(settings, str(folder / "dask"), "dask")
    there = time.perf_counter() - began
    same = (folder / "here" / "08_samples.jsonl").read_bytes() == (folder / "dask" / "08_samples.jsonl").read_bytes()
    print(
        f"100 shards: here {here:.1f} s, Dask with 2 processes {there:.1f} s with its start, ratio {there / here:.2f}, same bytes: {same}"
    )


def two_workers(flows, config, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """The sample stages against a model of 300 ms, two requests in flight per process: one worker process and two."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
    command = [sys.executable, "-m", "pipelines.cli", "offline-server", "--port", str(port), "--latency-ms", "300"]
    server = subprocess.Popen(command, cwd=sys.path[0], stderr=subprocess.DEVNULL)
    try:
        time.sleep(8)
        took = []
        for workers in (1, 2):
            fields = {"users": 8, "untrained_users": 1, "model": "openai:offline", "limits": {"shard_users": 1, "concurrency": 2}}
            settings, _ = config.load("tiny", None, fields | {"samples": {"train": 100}})
            root = folder / f"workers{workers}"
            asyncio.run(flows.synthesize(settings, str(root), "dask", None, workers))
            with sqlite3.connect(root / "ledger.sqlite") as ledger:
                where = "stage in ('queries', 'solutions', 'verify')"
                first, last = ledger.execute(f"select min(made_at), max(made_at) from replies where {where}").fetchone()  # noqa: S608
            took.append(last - first)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as answer:
            stats = json.loads(answer.read())
        print(f"worker processes: sample stages {took[0]:.1f} s with 1, {took[1]:.1f} s with 2, ratio {took[0] / took[1]:.2f}; {stats}")
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    """Print versions, then one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dask", action="store_true", help="also 100 shards on Dask")
    parser.add_argument("--workers", action="store_true", help="also one and two worker processes against a slow model")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for name, value in PREFECT_SETTINGS.items():
        os.environ.setdefault(name, value)
    began = time.perf_counter()
    import flows
    from pipelines import config

    print(f"prefect {metadata.version('prefect')}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"start-up: imports {time.perf_counter() - began:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PREFECT_HOME", f"{folder}/home")
        parent_memory(flows, config, Path(folder))
        asyncio.run(overhead(flows, config, Path(folder), options.rounds))
        if options.dask:
            asyncio.run(hundred_shards(flows, config, Path(folder)))
        if options.workers:
            two_workers(flows, config, Path(folder))


if __name__ == "__main__":
    main()
