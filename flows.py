"""The pipeline, one line per stage. The only file that imports Prefect.

`pipeline` is the order of the stages and runs without Prefect; `synthesize` is the same as a flow, with one
task per stage, one per shard of users, and artifacts to look at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from prefect import flow, task
from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact
from prefect.cache_policies import NO_CACHE

from pipelines import report
from pipelines.config import RunConfig
from pipelines.errors import ChecksFailed
from pipelines.features import build_tree
from pipelines.finish import shortage, write_splits
from pipelines.histories import simulate_histories
from pipelines.loop import Population
from pipelines.people.page import write_report
from pipelines.profiles import assign_profiles
from pipelines.records import API, FeatureNode, History, Profile, Record, Scenario
from pipelines.run import LOOP, Run, default_folder
from pipelines.shards import Shard, fill, merge, plan
from pipelines.splits import Quotas
from pipelines.stage import StageResult, gather
from pipelines.tools import expand_apis, expand_scenarios
from pipelines.tools.tree import tree_markdown, write_tools_report

Out = TypeVar("Out", bound=Record)
Around = Callable[[Run, str, Callable[[], Awaitable[str]]], Awaitable[str]]
"""Runs one piece of work that returns a path, under a name: directly, or as a Prefect task."""


async def directly(_run: Run, _name: str, work: Callable[[], Awaitable[str]]) -> str:
    """Just do it."""
    return await work()


async def pipeline(run: Run, around: Around = directly) -> dict[str, int]:
    """All stages in order; returns the sizes of the splits.

    Raises:
        ChecksFailed: when splits leak or stay short.
    """
    ctx, specs = run.context, run.config.scenarios
    if run.generations:  # made by several pipelines; what is missing there, `add-scenario` makes
        return dict(run.manifest["splits"]["sizes"])

    async def stage(name: str, kind: type[Out], inputs: Sequence[str], work: Callable[[], Awaitable[StageResult[Out]]]) -> list[Out]:
        made: list[Out] = []

        async def body() -> str:
            made.extend(await run.stage(name, kind, inputs, work))
            return str(run.file(name))

        await around(run, name, body)
        return made

    # What can be called
    scenarios = await stage("01_scenarios", Scenario, [], lambda: expand_scenarios(ctx, specs))
    apis = await stage("02_apis", API, ["01_scenarios"], lambda: expand_apis(ctx, scenarios, specs))
    write_tools_report(run)

    # Who calls it
    features = await stage("03_features", FeatureNode, ["01_scenarios", "02_apis"], lambda: build_tree(ctx, scenarios, apis))
    profiles = await stage("04_profiles", Profile, ["03_features"], lambda: assign_profiles(ctx, scenarios, apis, features))
    histories = await stage("05_histories", History, ["02_apis", "04_profiles"], lambda: simulate_histories(ctx, scenarios, apis, profiles))

    write_report(run)

    # What they ask, what is right, and what proves it
    population = Population.of(scenarios, apis, features, profiles, histories)
    quotas = await samples(run, population, around)

    # Who may see it
    sizes: dict[str, int] = {}

    async def split() -> str:
        sizes.update(write_splits(run, quotas))
        return str(run.root / "splits")

    await around(run, "09_splits", split)
    problem = shortage(run)
    if problem:
        raise ChecksFailed(problem)
    return sizes


async def samples(run: Run, population: Population, around: Around) -> Quotas:
    """Stages 6 to 8: shards of users, all at once."""
    quotas, shards = plan(run, population)
    key = run.key("08_samples", ["02_apis", "03_features", "04_profiles", "05_histories"])
    if all(run.finished(name, key) for name in LOOP):
        run.reused.update(LOOP)
        return quotas

    async def one(shard: Shard) -> Path:
        async def body() -> str:
            return str(await fill(run, population, quotas, shard, key))

        return Path(await around(run, f"samples[{shard.number:03d}]", body))

    folders = await gather(shards, one)

    async def together() -> str:
        merge(run, folders, key)
        return str(run.file("08_samples"))

    await around(run, "08_samples", together)
    return quotas


async def as_task(run: Run, name: str, work: Callable[[], Awaitable[str]]) -> str:
    """One piece of work as a Prefect task; a stage also leaves its artifacts."""

    @task(name=name.partition("[")[0], task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    async def body() -> str:
        path = await work()
        if "[" not in name:
            for stage in LOOP if name == "08_samples" else (name,):
                await publish(run, stage)
        return path

    return await body()


async def publish(run: Run, name: str) -> None:
    """One table (what came in, what was kept, what was lost and why) and three samples to read."""
    key = name.replace("_", "-")
    await acreate_table_artifact(key=f"{key}-counts", table=report.stage_rows(run, name), description=report.stage_title(run, name))
    await acreate_markdown_artifact(
        key=f"{key}-samples", markdown=report.stage_samples(run, name), description=report.stage_title(run, name)
    )
    if name == "02_apis":
        await acreate_markdown_artifact(key=f"{key}-tree", markdown=tree_markdown(run), description=report.stage_title(run, name))


def _run_name() -> str:
    from prefect.runtime import flow_run

    config = flow_run.parameters.get("config")
    if isinstance(config, RunConfig):
        return f"{config.preset}-{len(config.scenarios)}scenarios-seed{config.seed}"
    return "synthesize"


@flow(name="synthesize", flow_run_name=_run_name, persist_result=False, log_prints=False)
async def synthesize(config: RunConfig, out: str | None = None) -> str:
    """Make a personalized tool-calling dataset.

    Args:
        config: What to make; everything but `limits` defines the data.
        out: The run folder; an existing one with the same data config is resumed.
    """
    run = Run.open(Path(out) if out else default_folder(config), config)
    try:
        await run.llm.check()
        await pipeline(run, as_task)
    finally:
        await run.close()
    return str(run.root)


if __name__ == "__main__":
    import sys

    from pipelines.cli import main

    main(["run", *sys.argv[1:]])
