"""One Prefect server for all tests of deployments."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from serving import Finished, Model, Prefect, model_server, prefect_server, process, tiny_parameters, wait_until


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    with prefect_server(tmp_path_factory.mktemp("prefect")) as found:
        yield found


@pytest.fixture(scope="session")
def slow_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with model_server(tmp_path_factory.mktemp("model"), latency_ms=150) as found:
        yield found


@pytest.fixture(scope="session")
def deployed(server: Prefect, slow_model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """The walk-through of docs/prefect.md: pool, deploy, worker."""
    server.cli("work-pool", "create", "ptool", "--type", "process")
    server.cli("deploy", "--all")
    folder = tmp_path_factory.mktemp("worker")
    environment = {**server.environment, **slow_model.environment, "PTOOL_OUTPUTS": str(folder / "outputs")}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "ptool", "--limit", "4"]
    with process(command, environment, folder / "worker.log") as child:

        def ready() -> bool:
            assert child.poll() is None, (folder / "worker.log").read_text(encoding="utf-8")
            workers = server.post("/work_pools/ptool/workers/filter")
            return bool(workers) and workers[0]["status"] == "ONLINE"

        wait_until(ready, "the worker")
        yield server


@pytest.fixture(scope="session")
def finished(deployed: Prefect, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One run of the deployment with parameters, made once."""
    out = tmp_path_factory.mktemp("finished") / "run"
    run_id = deployed.start("synthesize/dataset", config=tiny_parameters(), out=str(out))
    return Finished(deployed.wait(run_id, "Completed"), out)
