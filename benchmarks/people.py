"""The people stages at 80, 1,000 and 10,000 users, and three ways to assign profiles, with the offline model.

    python -m benchmarks.people scale [USERS ...]     calls, seconds and peak memory of stages 3 to 5, streamed to disk
    python -m benchmarks.people ways                  the tree against N separate calls and one call for all

Every size runs in a process of its own, so that peak memory is that size's. Seconds include the offline model,
which is in the same process; ratios between sizes are what counts.
"""

from __future__ import annotations

import asyncio
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib import metadata
from pathlib import Path
from typing import Any

from pipelines import config
from pipelines.config import RunConfig
from pipelines.errors import PtoolError
from pipelines.features import build_tree
from pipelines.histories import stream_histories
from pipelines.jsonio import dumps, read_lines
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.profiles import assign_basics, assign_branch, layer_features, stream_profiles
from pipelines.profiles.diversity import figures
from pipelines.records import API, FeatureNode, History, Profile, Record, Scenario
from pipelines.stage import Context, StageResult, gather
from pipelines.tools import expand_apis, expand_scenarios


async def _market(ctx: Context) -> tuple[list[Scenario], list[API], list[FeatureNode]]:
    scenarios = (await expand_scenarios(ctx, ctx.config.scenarios)).kept
    apis = (await expand_apis(ctx, scenarios, ctx.config.scenarios)).kept
    return scenarios, apis, (await build_tree(ctx, scenarios, apis)).kept


async def _to_disk(records: AsyncIterator[Record], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        async for record in records:
            file.write(dumps(record) + "\n")
            count += 1
    return count


def _with_model(settings: RunConfig, work: Callable[[Context, Path], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "ledger.sqlite")
            llm = LLM(settings.model, settings.seed, ledger, settings.limits)
            try:
                await work(Context(settings, llm), Path(folder))
            finally:
                await llm.close()
                ledger.close()

    asyncio.run(go())


def scale(users: int) -> None:
    """One size: shopping with three platforms and three contexts, 10 to 14 events a user, so that 10,000 users take minutes."""
    settings, _ = config.load(
        "tiny", None, {"users": users, "platforms_per_scenario": 3, "contexts_per_scenario": 3, "events": [10, 14], "judge": False}
    )

    async def work(ctx: Context, folder: Path) -> None:
        started = time.perf_counter()
        scenarios, apis, features = await _market(ctx)
        market_seconds = time.perf_counter() - started
        people: StageResult[Profile] = StageResult()
        lived: StageResult[History] = StageResult()
        started = time.perf_counter()
        count = await _to_disk(stream_profiles(ctx, scenarios, apis, features, people), folder / "p.jsonl")
        profile_seconds, profile_peak = time.perf_counter() - started, _peak()
        started = time.perf_counter()
        kept = await _to_disk(stream_histories(ctx, scenarios, apis, read_lines(folder / "p.jsonl", Profile), lived), folder / "h.jsonl")
        history_seconds = time.perf_counter() - started
        calls = {stage: used.calls for stage, used in ctx.llm.ledger.usage().items()}
        print(
            f"| {users:,} | {people.notes['layers']} | {calls['profiles']:,} | {profile_seconds:.1f} | {profile_peak:,.0f} | "
            f"{calls['histories']:,} | {history_seconds:.1f} | {_peak():,.0f} | {count:,} / {kept:,} | "
            f"{lived.notes.get('posterior agrees with gold')} | {market_seconds:.1f} |",
            flush=True,
        )

    _with_model(settings, work)


def _peak() -> float:
    """Peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ways() -> None:
    """80 users by the tree, by 80 separate calls, and by one call."""
    settings, _ = config.load("tiny", None, {"users": 80, "layers": [4, 4, 5], "scenarios": ["shopping", "takeout"]})

    async def work(ctx: Context, _folder: Path) -> None:
        _, apis, features = await _market(ctx)
        whole = layer_features([80], features, apis)
        tree = layer_features([4, 4, 5], features, apis)

        async def by_tree(result: StageResult[Profile]) -> list[Any]:
            return await assign_basics(ctx, [4, 4, 5], tree, result)

        async def separate(result: StageResult[Profile]) -> list[Any]:
            async def one(number: int) -> list[Any]:
                return await assign_branch(ctx, 1000 + number, {}, 0, 1, whole[0], result)

            return [person for people in await gather(range(80), one) for person in people]

        async def at_once(result: StageResult[Profile]) -> list[Any]:
            return await assign_branch(ctx, 5000, {}, 0, 80, whole[0], result)

        layers = [list(layer) for layer in tree]
        for name, way in (("tree 4 x 4 x 5", by_tree), ("80 separate calls", separate), ("one call for all", at_once)):
            before, result = ctx.llm.ledger.usage().get("profiles"), StageResult[Profile]()
            try:
                people = await way(result)
            except PtoolError as error:
                print(f"| {name} | fails: {error} |")
                continue
            used = ctx.llm.ledger.usage()["profiles"]
            calls = used.calls - (before.calls if before else 0)
            prompt = used.prompt_tokens - (before.prompt_tokens if before else 0)
            reply = used.reply_tokens - (before.reply_tokens if before else 0)
            told = figures(people, layers)
            bound = told["mean Cramér's V between layers"]
            print(
                f"| {name} | {calls} | {prompt:,} | {reply:,} | {reply // calls:,} | {told['mean pairwise distance']} | "
                f"{told['distance of the closest 1 % of pairs']} | {bound} | "
                f"{len({p['home_city'] for p in people})} | {len({p['occupation'] for p in people})} | {len({p['name'] for p in people})} |"
            )

    print("| way | calls | prompt tokens | reply tokens | reply per call | mean distance | closest 1 % | V | cities | jobs | names |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    _with_model(settings, work)


def main() -> None:
    """Print versions, then the table asked for."""
    command, sizes = (sys.argv[1] if len(sys.argv) > 1 else ""), [int(n) for n in sys.argv[2:]]
    if command == "one":
        scale(sizes[0])
        return
    versions = ", ".join(f"{p} {metadata.version(p)}" for p in ("numpy", "scikit-learn", "pydantic", "networkx"))
    print(f"python {platform.python_version()}, {versions}")
    if command == "ways":
        ways()
    elif command == "scale":
        print("| users | layers | profile calls | s | peak MB | history calls | s | peak MB | profiles / histories | agrees | market s |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for users in sizes or [80, 1000, 10_000]:
            subprocess.run([sys.executable, "-m", "benchmarks.people", "one", str(users)], check=True)
    else:
        raise SystemExit("usage: python -m benchmarks.people scale [USERS ...] | ways")


if __name__ == "__main__":
    main()
