"""The pipeline, one line per stage. The only file that imports Prefect.

`pipeline` is the order of the stages and runs without Prefect; `synthesize` is the same as a flow, with one
task per stage, one per shard of users, and artifacts to look at.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import httpx
import prefect
from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import (
    acreate_image_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.blocks.system import Secret
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey
from prefect.concurrency.asyncio import concurrency
from prefect.events import emit_event
from prefect.exceptions import ObjectNotFound
from prefect.flow_runs import apause_flow_run
from prefect.input import RunInput
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, PREFECT_UI_URL, temporary_settings
from pydantic import Field

from pipelines import report
from pipelines.artifacts import MAX_BYTES, Before, names_after, of_run, of_stage, review_card, slug
from pipelines.artifacts import Artifact as Shown
from pipelines.config import Limits, RunConfig, ScenarioSpec, identifier
from pipelines.errors import ChecksFailed, ConfigError, PtoolError, Stopped, Unavailable
from pipelines.extend import add_scenario
from pipelines.features import build_tree
from pipelines.finish import shortage, write_splits
from pipelines.histories import simulate_histories
from pipelines.launch import Runner
from pipelines.loop import Population
from pipelines.people.page import write_report
from pipelines.profiles import assign_profiles
from pipelines.records import API, FeatureNode, History, Profile, Record, Scenario
from pipelines.remote import Mirror, is_url, local_path, work_folder
from pipelines.run import LOOP, STAGES, Run, address_of, load_run
from pipelines.shards import Shard, fill, fill_alone, merge, plan
from pipelines.splits import Quotas
from pipelines.stage import PROGRESS, Progress, StageResult, gather
from pipelines.tools import expand_apis, expand_scenarios
from pipelines.tools.tree import write_tools_report

Out = TypeVar("Out", bound=Record)
Around = Callable[[Run, str, Sequence[str], Callable[[], Awaitable[str]]], Awaitable[str]]
"""Runs one piece of work that returns a path, under a name, after others: directly, or as a Prefect task."""
Spread = Callable[[Run, Sequence[Shard], str], Awaitable[list[str]]]
"""Fills all shards elsewhere; returns their folders."""
DEATHS = 3
"""How often a shard may lose its worker process before the run stops."""
LOW_YIELD = 0.5
"""A dataset that keeps a smaller share of its attempts is announced as an event of its own."""


async def directly(_run: Run, _name: str, _inputs: Sequence[str], work: Callable[[], Awaitable[str]]) -> str:
    """Just do it."""
    return await work()


async def pipeline(
    run: Run,
    around: Around = directly,
    elsewhere: Spread | None = None,
    gate: Callable[[Run], Awaitable[None]] | None = None,
) -> dict[str, int]:
    """All stages in order; returns the sizes of the splits.

    Args:
        run: The open run.
        around: How a piece of work is run.
        elsewhere: Fills the shards of the sample stages on a cluster; None: here.
        gate: Asked before the splits; may raise.

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

        await around(run, name, inputs, body)
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
    quotas = await samples(run, population, around, elsewhere)
    if gate is not None:
        await gate(run)

    # Who may see it
    sizes: dict[str, int] = {}

    async def split() -> str:
        sizes.update(write_splits(run, quotas))
        return str(run.root / "splits")

    await around(run, "09_splits", ["08_samples"], split)
    problem = shortage(run)
    if problem:
        raise ChecksFailed(problem)
    return sizes


async def samples(run: Run, population: Population, around: Around, elsewhere: Spread | None) -> Quotas:
    """Stages 6 to 8: shards of users, all at once."""
    quotas, shards = plan(run, population)
    read = ["02_apis", "03_features", "04_profiles", "05_histories"]
    key = run.key("08_samples", read)
    if all(run.finished(name, key) for name in LOOP):
        run.reused.update(LOOP)
        return quotas

    async def one(shard: Shard) -> str:
        async def body() -> str:
            return str(await fill(run, population, quotas, shard, key))

        return await around(run, f"samples[{shard.number:03d}]", read, body)

    if elsewhere is None:
        await gather(shards, one)
    else:
        await elsewhere(run, shards, key)

    async def together() -> str:
        merge(run, [run.part(shard.number) for shard in shards], key)
        return str(run.file("08_samples"))

    await around(run, "08_samples", [f"samples[{shard.number:03d}]" for shard in shards], together)
    return quotas


# As a Prefect flow


KeyName = Annotated[str, Field(pattern=r"^([A-Z][A-Z0-9_]{0,63}|[a-z][a-z0-9-]{0,31})$")]
"""An environment variable in capitals or a block in small letters, at most 32: an API key does not fit."""
ENDPOINT_LIMIT = "model-endpoint"
"""A global concurrency limit of this name, where the server has one, bounds the stages and shards of all runs together."""
REVIEW_DAYS = 7


class Showcase:
    """Runs stages as tasks, and posts what there is to look at while the next stage already works.

    The truth is on disk: a server that refuses an artifact costs a warning, never a run.
    """

    def __init__(self, run: Run, mirror: Mirror | None = None) -> None:
        self.run = run
        self.mirror = mirror
        self.before: dict[str, Before] = {}
        self._posts: set[asyncio.Task[None]] = set()
        self._paths: dict[str, str] = {}
        self._samples: tuple[Progress, asyncio.Event] | None = None
        self._page: str | None = None
        self._limited = False

    async def look_back(self) -> None:
        """Read the tables of the run that was published last, to tell what changed; and is there a limit to keep?"""
        keys = [f"{slug(name)}-counts" for name in (*STAGES, "09_splits")]
        async with get_client() as client:
            found = await client.read_latest_artifacts(artifact_filter=ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=keys)))
            if runtime.deployment.id:
                with contextlib.suppress(ObjectNotFound):
                    await client.read_global_concurrency_limit_by_name(ENDPOINT_LIMIT)
                    self._limited = True
        for artifact in found:
            rows = json.loads(artifact.data) if isinstance(artifact.data, str) else artifact.data
            if artifact.key and isinstance(rows, list):
                self.before[artifact.key] = Before(rows)
        address = PREFECT_UI_URL.value()
        self._page = f"{address.rstrip('/')}/artifacts/key" if address else None

    async def around(self, run: Run, name: str, inputs: Sequence[str], work: Callable[[], Awaitable[str]]) -> str:
        """One piece of work as a Prefect task, with progress while it runs and artifacts once it is done."""
        shard = "[" in name

        @task(name=name.partition("[")[0], task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
        async def body(after: list[str]) -> str:
            async with self._permit(), self._moving(name):
                path = await work()
            if not shard:
                if self.mirror is not None:
                    await self.mirror.send()
                for stage in names_after(name):
                    get_run_logger().info("%s", report.stage_line(run, stage))
                    self._post(*of_stage(run, stage, self.before.get(f"{slug(stage)}-counts")))
            return path

        try:
            path = await body([self._paths[one] for one in inputs if one in self._paths])
        except PtoolError as error:
            raise type(error)(f"{name}: {error}") from None
        self._paths[name] = path
        return path

    def everything(self) -> None:
        """All stages of a run that something else has made or extended."""
        for name in (*STAGES, "09_splits"):
            self._post(*of_stage(self.run, name, self.before.get(f"{slug(name)}-counts")))

    async def card(self) -> None:
        """The dataset card, and the event that automations may wait for."""
        self._post(of_run(self.run, self._page))
        sizes = self.run.manifest.get("splits", {}).get("sizes", {})
        payload = {"folder": self.run.address, "samples": sum(sizes.values()), "yield": report.sample_yield(self.run)}
        resource = {"prefect.resource.id": f"ptool.dataset.{identifier(self.run.root.name)}"}
        emit_event("ptool.dataset.finished", resource=resource, payload=payload)
        if payload["yield"] < LOW_YIELD:
            emit_event("ptool.dataset.low-yield", resource=resource, payload=payload)

    async def close(self) -> None:
        """Wait for what is still being posted."""
        if self._samples is not None:
            self._samples[1].set()
        while self._posts:
            await asyncio.wait(self._posts)

    # Posting

    def _post(self, *artifacts: Shown) -> None:
        async def send(shown: Shown) -> None:
            make = {"table": acreate_table_artifact, "markdown": acreate_markdown_artifact, "image": acreate_image_artifact}[shown.kind]
            with _only_warning(shown.key):
                await make(shown.data, key=shown.key, description=shown.title)  # type: ignore[operator]

        for shown in artifacts:
            if shown.size > MAX_BYTES:
                get_run_logger().warning("artifact %s is left out: %d bytes", shown.key, shown.size)
            else:
                self._in_background(send(shown))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        post = asyncio.create_task(work)
        self._posts.add(post)
        post.add_done_callback(self._posts.discard)

    @asynccontextmanager
    async def _moving(self, name: str) -> AsyncIterator[None]:
        """A progress artifact that follows `gather`; the shards of the sample stages share one."""
        if "[" in name:
            if self._samples is None:
                self._samples = (Progress(), asyncio.Event())
                self._in_background(self._show_progress("08_samples", *self._samples))
            progress, ended = self._samples[0], asyncio.Event()
        elif name == "08_samples":
            if self._samples is not None:
                self._samples[1].set()
            progress, ended = Progress(), asyncio.Event()
        else:
            progress, ended = Progress(), asyncio.Event()
            self._in_background(self._show_progress(name, progress, ended))
        token = PROGRESS.set(progress)
        try:
            yield
            if "[" not in name:
                progress.done = progress.total = progress.total or 1
        finally:
            PROGRESS.reset(token)
            ended.set()

    async def _show_progress(self, name: str, progress: Progress, ended: asyncio.Event) -> None:
        with _only_warning(f"{slug(name)}-progress"):
            made = await acreate_progress_artifact(0, key=f"{slug(name)}-progress", description=f"{name} of {self.run.root.name}")
            shown, over = 0.0, False
            while not over:
                over = ended.is_set()  # a quick stage is over before its artifact is there
                share = 100 * progress.share if over else min(99.0, 100 * progress.share)
                if share > shown:
                    shown = share
                    await aupdate_progress_artifact(made, progress=round(shown, 1))
                if not over:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(ended.wait(), 1)

    @asynccontextmanager
    async def _permit(self) -> AsyncIterator[None]:
        """Deployment runs share the endpoint with each other; a run from the command line asks nobody."""
        if not self._limited:
            yield
            return
        async with concurrency(ENDPOINT_LIMIT, strict=False):
            yield


@contextlib.contextmanager
def _only_warning(key: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever the server answers, the dataset is on disk
        get_run_logger().warning("artifact %s is not shown: %s", key, error)


# Shards elsewhere


@task(name="samples", task_run_name="samples[{number:03d}]", cache_policy=NO_CACHE, persist_result=False)
def fill_shard(address: str, limits: dict[str, Any], number: int, key: str, key_name: str | None) -> str:
    """One shard in a worker of Dask or Ray; opens the run by its address."""

    async def work() -> str:
        await use_key(key_name)
        return await fill_alone(address, limits, number, key)

    return asyncio.run(work())


@flow(name="samples", persist_result=False)
async def spread(address: str, limits: dict[str, Any], shards: int, key: str, key_name: str | None) -> list[str]:
    """All shards through the task runner of this flow; finished ones stay when another fails."""
    futures = [fill_shard.submit(address, limits, number, key, key_name) for number in range(shards)]
    done = await asyncio.gather(*(asyncio.to_thread(future.result) for future in futures), return_exceptions=True)
    for number, result in enumerate(done):
        if isinstance(result, BaseException):
            kept = sum(isinstance(one, str) for one in done)
            raise _shard_problem(number, result, kept, shards)
    return [str(one) for one in done]


def _shard_problem(number: int, error: BaseException, kept: int, total: int) -> BaseException:
    tail = f"{kept} of {total} shards are finished and kept: run the same command again"
    if type(error).__name__ in ("KilledWorker", "WorkerCrashedError", "NodeDiedError", "LocalWorkerDied"):
        times = re.search(r"on (\d+) different workers", str(error))
        often = f"{times.group(1)} times" if times else "again and again"
        return Stopped(f"08_samples: shard {number} died {often} with its worker process (out of memory?); {tail}")
    if isinstance(error, PtoolError):
        return type(error)(f"08_samples: shard {number}: {error}; {tail}")
    return error


def spreading(runner: Runner, cluster: str | None, workers: int, key_name: str | None) -> Spread | None:
    """How shards are spread, or None to run them here.

    Raises:
        ConfigError: when the engine is not installed.
        Unavailable: when no cluster answers at the address.
    """
    if runner == "local":
        return None
    runner_of = {"dask": _dask, "ray": _ray}[runner]

    async def go(run: Run, shards: Sequence[Shard], key: str) -> list[str]:
        elsewhere = spread.with_options(task_runner=runner_of(cluster, workers))
        async with get_client() as client:
            url = str(client.api_url)
        with temporary_settings({PREFECT_API_URL: url}):  # workers share this process's server instead of starting their own
            limits = run.config.limits.model_dump(exclude={"ledger"})  # its address may hold a password; workers read ledger.url
            for pace in ("rpm", "tpm"):  # the endpoint's pace is shared by the processes that run shards
                limits[pace] = max(1, limits[pace] // min(workers, len(shards))) if limits[pace] else None
            return await elsewhere(run.address, limits, len(shards), key, key_name)

    return go


def _dask(cluster: str | None, workers: int) -> Any:
    try:
        import dask
        import distributed
        from prefect_dask import DaskTaskRunner
    except ImportError:
        raise ConfigError("--runner dask: Dask is not installed; pip install 'ptool[dask]'") from None
    dask.config.set({"distributed.scheduler.allowed-failures": DEATHS - 1, "distributed.comm.timeouts.connect": "10s"})
    if cluster is None:
        return DaskTaskRunner(cluster_kwargs={"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None})
    try:
        with distributed.Client(cluster, timeout=10):
            pass
    except (OSError, ValueError, TimeoutError) as error:
        words = " ".join(str(error).split())[:120]
        raise Unavailable(
            f"--cluster {cluster}: no Dask scheduler answers ({words}); start one with `dask scheduler`, or leave --cluster out"
        ) from None
    return DaskTaskRunner(address=cluster)


def _ray(cluster: str | None, workers: int) -> Any:
    try:
        from prefect_ray import RayTaskRunner
    except ImportError:
        raise ConfigError("--runner ray: Ray is not installed; pip install 'ptool[ray]'") from None
    if cluster is None:
        return RayTaskRunner(init_kwargs={"num_cpus": workers, "include_dashboard": False, "log_to_driver": False})
    return RayTaskRunner(address=cluster)


# Keys, servers, people


async def use_key(name: str | None) -> None:
    """Put the API key where the model layer looks for it: from an environment variable, or else a Secret block.

    Raises:
        Unavailable: when neither has this name.
    """
    if name is None:
        return
    value = os.environ.get(name)
    if value is None:
        try:
            secret: Any = await Secret.aload(name)
            value = str(secret.get())
        except ValueError:
            raise Unavailable(
                f"key_name {name!r}: no environment variable and no Secret block of this name; "
                f"`prefect block create secret`, or export it where the worker runs"
            ) from None
    os.environ["OPENAI_API_KEY"] = value


async def directly_in(config: RunConfig, address: str) -> dict[str, int]:
    """The pipeline without Prefect."""
    mirror = Mirror(address, work_folder(address)) if is_url(address) else None
    run = Run.open(mirror.folder if mirror is not None else local_path(address), config)
    try:
        return await pipeline(run)
    finally:
        await run.close()
        if mirror is not None:
            await mirror.send()


async def reach_server() -> bool:
    """Find the server of `PREFECT_API_URL`, or start a temporary one; False when that does not start.

    Raises:
        Unavailable: when the named server does not answer, does not let us in, or speaks another version.
    """
    if PREFECT_API_URL.value():
        await check_server(PREFECT_API_URL.value())
        return True
    try:
        async with get_client() as client:
            problem = await client.api_healthcheck()
    except Exception as error:  # whatever keeps it from starting, the dataset does not need it
        problem = error
    if problem is not None:
        words = (str(problem).splitlines() or [type(problem).__name__])[0]
        print(f"ptool: no temporary Prefect server ({words}); going on without Prefect", file=sys.stderr)
    return problem is None


async def check_server(url: str) -> None:
    """Does this server answer, let us in, and speak our version?"""
    hint = "start it with `prefect server start`, or unset PREFECT_API_URL to run without one"
    try:
        auth = PREFECT_API_AUTH_STRING.value()
        user, _, password = auth.get_secret_value().partition(":") if auth else ("", "", "")
        async with httpx.AsyncClient(timeout=10, auth=(user, password) if auth else None) as client:
            answer = await client.get(f"{url.rstrip('/')}/admin/version")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unavailable(f"PREFECT_API_URL is {url}: no Prefect server answers ({type(error).__name__}); {hint}") from None
    if answer.status_code in (401, 403):
        raise Unavailable(f"PREFECT_API_URL is {url}: the server wants another PREFECT_API_AUTH_STRING; set it to its user:password")
    there = _version(answer)
    if there is None:
        raise Unavailable(f"PREFECT_API_URL is {url}: answers {answer.status_code} and is no Prefect API; write http://host:4200/api")
    if there.split(".")[0] != prefect.__version__.split(".")[0]:
        raise Unavailable(
            f"PREFECT_API_URL is {url}: the server is Prefect {there}, this is {prefect.__version__}; install the same version"
        )


def _version(answer: httpx.Response) -> str | None:
    with contextlib.suppress(ValueError):
        found = answer.json() if answer.status_code == 200 else None
        return found if isinstance(found, str) and re.fullmatch(r"\d+\.[\w.+-]+", found) else None
    return None


class Review(RunInput):
    """What a person decides before the splits are made."""

    decision: Literal["approve", "reject"] = Field(
        default="approve", title="Decision", description="Reject ends the run; it can be resumed."
    )
    notes: str = Field(default="", max_length=2_000, title="Notes", description="Kept in review.json of the run folder.")


async def ask_a_person(run: Run) -> None:
    """Pause until somebody has looked at the numbers; an approval counts for exactly these samples.

    Raises:
        ChecksFailed: when the person rejects.
    """
    seen = run.manifest["stages"]["08_samples"]["sha256"]
    review = run.read_review()
    if review.get("samples") == seen and review.get("decision") == "approve":
        return
    form = Review.with_initial_data(description=review_card(run))
    answer = await apause_flow_run(wait_for_input=form, timeout=REVIEW_DAYS * 86_400, poll_interval=2)
    run.write_review({"decision": answer.decision, "notes": answer.notes, "samples": seen})
    if answer.decision == "reject":
        raise ChecksFailed(f"08_samples: rejected in review: {answer.notes or 'no notes'}; change what is wrong and run again")


def _run_name() -> str:
    config = runtime.flow_run.parameters.get("config")
    if isinstance(config, dict):
        config = RunConfig.model_construct(**{"preset": "quick", "seed": 7, "scenarios": [], **config})
    if isinstance(config, RunConfig):
        return f"{config.preset}-{len(config.scenarios)}scenarios-seed{config.seed}"
    return "synthesize"


@flow(name="synthesize", flow_run_name=_run_name, persist_result=False, log_prints=False)
async def synthesize(
    config: RunConfig,
    out: Annotated[str | None, Field(title="Run folder", max_length=1_000)] = None,
    runner: Annotated[Runner, Field(title="Runner")] = "local",
    cluster: Annotated[str | None, Field(title="Cluster address", max_length=200)] = None,
    workers: Annotated[int, Field(title="Workers (processes)", ge=1, le=256)] = 2,
    review: Annotated[bool, Field(title="Review by a person")] = False,
    key_name: Annotated[KeyName | None, Field(title="Name of the key")] = None,
) -> str:
    """Make a personalized tool-calling dataset.

    Args:
        config: What to make; everything but `limits` defines the data.
        out: Folder or URL (`s3://bucket/run`) of the run; an existing one with the same data config is resumed. Left out:
            a folder named after the config, below PTOOL_OUTPUTS or `outputs/`.
        runner: Where shards of users run: in this process, or on Dask or Ray.
        cluster: Address of an existing Dask scheduler or Ray cluster; left out, one is started here for the run.
        workers: Worker processes: of a cluster that is started here, and that share `limits.rpm` and `limits.tpm`.
        review: Pause before the splits and show a person the numbers; approve or reject there.
        key_name: Name (never the value) of an environment variable or Prefect Secret block with the API key; left out: OPENAI_API_KEY.
    """
    await use_key(key_name)
    address = out or address_of(config)
    elsewhere = spreading(runner, cluster, workers, key_name)
    mirror = Mirror(address, work_folder(address)) if is_url(address) else None
    if mirror is not None:
        await mirror.check()
        await mirror.fetch()
    run = Run.open(mirror.folder if mirror is not None else local_path(address), config)
    run.address = mirror.url if mirror is not None else str(run.root)
    shown = Showcase(run, mirror)
    try:
        await run.llm.check()
        await shown.look_back()
        await pipeline(run, shown.around, elsewhere, ask_a_person if review else None)
        await shown.card()
    finally:
        await shown.close()
        await run.close()
        if mirror is not None:
            await mirror.send()
    return run.address


@flow(name="add-scenario", flow_run_name="add-{scenario.name}", persist_result=False)
async def extend(
    folder: Annotated[str, Field(min_length=1, max_length=1_000)],
    scenario: ScenarioSpec,
    key_name: KeyName | None = None,
) -> str:
    """Give a finished dataset one more scenario; every line about the old ones keeps its bytes.

    Args:
        folder: The run folder, as the worker sees it.
        scenario: The new scenario; what is left out, the model proposes.
        key_name: Name (never the value) of an environment variable or Prefect Secret block with the API key.
    """
    await use_key(key_name)
    sizes = await add_scenario(local_path(folder), scenario)
    get_run_logger().info("splits now: %s", sizes)
    run = load_run(local_path(folder))
    with run.reading():
        shown = Showcase(run)
        try:
            await shown.look_back()
            shown.everything()
            await shown.card()
        finally:
            await shown.close()
    return folder


@flow(name="evaluate", flow_run_name="{model}-{scorer}", persist_result=False)
async def evaluate(
    data: Annotated[str, Field(min_length=1, max_length=1_000)],
    model: Annotated[str, Field(min_length=1, max_length=200)] = "offline",
    mode: Literal["text", "tools", "json"] = "text",
    scorer: Literal["strict", "official", "lenient", "all"] = "strict",
    temperature: Annotated[float, Field(ge=0, le=2)] = 0,
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512,
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0,
    limits: Limits | None = None,
    out: Annotated[str | None, Field(max_length=1_000)] = None,
    key_name: KeyName | None = None,
) -> str:
    """Run a solver over a dataset and score it.

    Args:
        data: Split file of a run, exported data.json, or a run folder, as the worker sees it.
        model: `offline[:SKILL]`, `openai:<model>`, or a built-in solver such as `oracle`, `random`, `query-only`.
        mode: The published text form, native tool calls, or JSON.
        scorer: The paper's scoring, ours, a forgiving one, or all three.
        temperature: Of the solver's sampling, 0 to 2.
        max_tokens: Of one answer, in tokens.
        seed: Goes into every request.
        limits: What does not change the answers.
        out: Folder of the answers and scores; left out: `evaluations/` beside the data's run.
        key_name: Name (never the value) of an environment variable or Prefect Secret block with the API key.
    """
    from pipelines.evaluation.asking import Solver
    from pipelines.evaluation.commands import told
    from pipelines.evaluation.evaluate import default_out
    from pipelines.evaluation.evaluate import evaluate as ask_and_score
    from pipelines.evaluation.summary import Options

    await use_key(key_name)
    solver = Solver(model, mode, temperature=temperature, max_tokens=max_tokens, seed=seed)
    solver.check()
    folder = Path(out) if out else default_out(Path(data), solver)
    scores = await asyncio.to_thread(ask_and_score, Path(data), folder, solver, Options(scorer=scorer), limits or Limits())
    words = told(scores, folder / "scores")
    get_run_logger().info("%s", words)
    shown = f"{report.fenced(words)}\n\nFiles: `{folder}`"
    await acreate_markdown_artifact(shown, key="evaluation", description=f"{solver.name} on {Path(data).name}")
    return str(folder)


if __name__ == "__main__":
    from pipelines.cli import main

    main(["run", *sys.argv[1:]])
