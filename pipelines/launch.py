"""Start a run from the command line: with a Prefect server where there is one, with a temporary one, or with none."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.config import RunConfig
from pipelines.errors import ConfigError
from pipelines.remote import Mirror, is_url, local_path, work_folder

Runner = Literal["local", "dask", "ray"]
PREFECT_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
}
"""No phone-home; problems are told by us, in one line; batches keep the temporary server from losing records."""


@dataclass(frozen=True)
class Place:
    """Where a run works, and where people find it."""

    root: Path
    url: str | None = None

    @classmethod
    def of(cls, address: str) -> Place:
        """A folder, `file://` or the URL of a store."""
        if is_url(address):
            return cls(work_folder(address), address)
        return cls(Path(os.path.abspath(local_path(address))))

    async def fetch(self) -> None:
        """Make sure of the store and bring what it has of the run."""
        if self.url is not None:
            mirror = Mirror(self.url, self.root)
            await mirror.check()
            await mirror.fetch()


@dataclass(frozen=True)
class Engine:
    """How the stages are run."""

    runner: Runner = "local"
    cluster: str | None = None
    workers: int = 2
    review: bool = False
    prefect: bool = True

    def __post_init__(self) -> None:
        if self.cluster is not None and self.runner == "local":
            raise ConfigError(f"--cluster {self.cluster}: needs --runner dask or --runner ray")
        if not 1 <= self.workers <= 256:
            raise ConfigError(f"--workers is {self.workers}; write a number from 1 to 256")
        if not self.prefect and (self.runner != "local" or self.review):
            raise ConfigError("--no-prefect: shards on a cluster and the review need Prefect; leave one of them out")


def quiet_prefect() -> None:
    """Settings for a run without noise; what the user has set stays."""
    for key, value in PREFECT_SETTINGS.items():
        os.environ.setdefault(key, value)
    home = Path(os.path.expanduser(os.environ.get("PREFECT_HOME") or "~/.prefect"))
    problem = _home_problem(home)
    if problem is None:
        return
    folder = tempfile.mkdtemp(prefix="ptool-prefect-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PREFECT_HOME"] = folder
    print(f"ptool: {problem}; this run leaves no history in Prefect", file=sys.stderr)


def _home_problem(home: Path) -> str | None:
    """Why a temporary server could not live there; seen at once, where the server itself would be waited for."""
    if not _writable(home):
        return f"PREFECT_HOME {home} cannot be written"
    database = home / "prefect.db"
    if database.is_file() and database.stat().st_size and not _starts(database, b"SQLite format 3"):
        return f"{database} is no database; move it away"
    return None


def _starts(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except (OSError, ValueError):
        return False


def launch(config: RunConfig, place: Place, engine: Engine) -> None:
    """Run the pipeline in the place, in Prefect or directly.

    Raises:
        PtoolError: whatever stopped the run, as the stages told it.
    """
    if engine.prefect:
        quiet_prefect()
    import flows
    from pipelines.llm.interrupt import interruptible

    address = place.url or str(place.root)
    if engine.prefect and asyncio.run(flows.reach_server()):
        asyncio.run(interruptible(flows.synthesize(config, address, engine.runner, engine.cluster, engine.workers, engine.review)))
        return
    asyncio.run(interruptible(flows.directly_in(config, address)))
