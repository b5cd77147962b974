"""Shards on Dask: the same bytes, one ledger, workers that die. Skipped where Dask is missing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from making import Made, files_of
from serving import Prefect, free_port, model_server, process, wait_until

from pipelines.config import ROOT

pytest.importorskip("prefect_dask", reason="NO DASK TEST: pip install 'ptool[dask]'")


def ptool(server: Prefect, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL"}  # as `ptool run` sets it where nobody else has
    return subprocess.run(
        command, cwd=ROOT, env={**server.environment, **quiet, **(environment or {})}, capture_output=True, text=True, timeout=300
    )


@contextmanager
def cluster(folder: Path, server: Prefect, environment: dict[str, str], workers: int, preload: Path | None = None) -> Iterator[str]:
    """A Dask scheduler and workers of one thread each; gives the scheduler's address."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    env = {**server.environment, **environment, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2"}
    dask = [sys.executable, "-m", "dask"]
    common = ["--no-dashboard"]
    with ExitStack() as stack:
        stack.enter_context(
            process([*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), *common], env, folder / "scheduler.log")
        )
        for number in range(workers):
            extra = ["--preload", str(preload)] if preload else []
            command = [*dask, "worker", address, "--nthreads", "1", "--name", f"w{number}", *common, *extra]
            stack.enter_context(process(command, env, folder / f"worker{number}.log"))
        wait_until(lambda: _connected(folder / "scheduler.log") >= workers, "the Dask workers")
        yield address


def _connected(log: Path) -> int:
    return log.read_text(encoding="utf-8").count("Register worker")


def test_dask_makes_the_bytes_of_a_local_run(server: Prefect, pristine: Made, tmp_path: Path):
    done = ptool(server, "run", "--preset", "tiny", "--runner", "dask", "--out", str(tmp_path / "run"), "--set", "limits.shard_users=1")

    assert done.returncode == 0, done.stderr
    found, wanted = files_of(tmp_path / "run"), files_of(pristine.root)
    assert {k: v for k, v in found.items() if k != "config.json"} == {k: v for k, v in wanted.items() if k != "config.json"}
    wanted_runs = {"samples[000]", "samples[001]", "samples[002]"}

    def recorded() -> bool:  # task runs reach the server late
        return wanted_runs <= {run["name"] for run in server.post("/task_runs/filter", {"task_runs": {"name": {"like_": "samples["}}})}

    wait_until(recorded, "the task runs of all shards")


def test_a_killed_worker_costs_only_what_was_in_flight(server: Prefect, tmp_path: Path):
    arguments = ["run", "--preset", "tiny", "--model", "openai:offline", "--runner", "dask", "--out", str(tmp_path / "run")]
    arguments += ["--set", "limits.shard_users=1", "--set", "limits.concurrency=2"]
    with model_server(tmp_path, latency_ms=250) as model, cluster(tmp_path / "c", server, model.environment, 2) as address:
        command = [sys.executable, "-m", "pipelines.cli", *arguments, "--cluster", address]
        environment = {**server.environment, **model.environment}
        with process(command, environment, tmp_path / "run.log") as child:
            wait_until(lambda: (tmp_path / "run" / "05_histories.jsonl").exists(), "the histories")
            start = model.stats()["requests"]
            wait_until(lambda: model.stats()["requests"] >= start + 12, "12 requests of the shards")
            _kill_one_worker(tmp_path / "c")
            assert child.wait(240) == 0, (tmp_path / "run.log").read_text(encoding="utf-8")
        stats = model.stats()

    assert stats["duplicates"] <= 2  # in flight in the killed process
    assert stats["requests"] - stats["duplicates"] == _rows(tmp_path / "run" / "ledger.sqlite")


def _kill_one_worker(folder: Path) -> None:
    """SIGKILL the process that does the work below one nanny, as the kernel does when memory is short."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (Path("/proc") / str(parent) / "cmdline").read_bytes().decode().split("\0")
                mine = (entry / "cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if "worker" in words and "w0" in words and b"spawn_main" in mine:
                os.kill(int(entry.name), signal.SIGKILL)
                return
    raise AssertionError(f"no worker below {folder}")


def _rows(ledger: Path) -> int:
    from pipelines.llm.ledger import Ledger

    found = Ledger(ledger)
    calls = found.total().calls
    found.close()
    return calls


def test_a_shard_that_dies_three_times_stops_the_run_and_the_others_are_kept(server: Prefect, tmp_path: Path):
    deadly = tmp_path / "deadly.py"
    deadly.write_text(
        "import os, pipelines.shards as shards\n"
        "fill = getattr(shards, 'real_fill', shards.fill)\n"
        "shards.real_fill = fill\n"
        "async def die(run, population, quotas, shard, key):\n"
        "    if shard.number == 1: os._exit(9)\n"
        "    return await fill(run, population, quotas, shard, key)\n"
        "shards.fill = die\n",
        encoding="utf-8",
    )
    arguments = ("run", "--preset", "tiny", "--runner", "dask", "--out", str(tmp_path / "run"), "--set", "limits.shard_users=1")
    with cluster(tmp_path / "c", server, {}, 1, deadly) as address:
        done = ptool(server, *arguments, "--cluster", address)

    assert done.returncode == 3, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ptool: 08_samples: shard 1 died 3 times with its worker process")
    done_shards = {path.parent.name for path in (tmp_path / "run").glob("parts/*/done")}
    assert done_shards <= {"shard_0000", "shard_0002"}
    told = re.search(r"(\d) of 3 shards are finished and kept", last)
    assert told is not None
    assert 1 <= int(told[1]) <= len(done_shards)  # the last shard may end while the message is written
    again = ptool(server, *arguments[:3], *arguments[5:])
    assert again.returncode == 0, again.stderr


def test_no_scheduler_at_the_address_is_told_at_once(server: Prefect, tmp_path: Path):
    done = ptool(server, "run", "--preset", "tiny", "--runner", "dask", "--cluster", "tcp://127.0.0.1:9", "--out", str(tmp_path / "run"))

    assert done.returncode == 2
    assert "--cluster tcp://127.0.0.1:9: no Dask scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr
