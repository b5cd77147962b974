"""Real servers for the tests of deployments: Prefect, a worker, the offline model on a port. All end with the test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines import config
from pipelines.config import ROOT
from pipelines.launch import PREFECT_SETTINGS


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_until(found: Callable[[], Any], what: str, seconds: float = 90) -> Any:
    """Poll until the answer is true; fail with what was waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s for {what}")


def get(url: str) -> Any:
    """JSON of a GET; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError):
        return None


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended, with all it started, when the block is left."""
    with log.open("wb") as out:
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield child
    finally:
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                os.killpg(child.pid, signum)
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    continue


@dataclass
class Prefect:
    """A Prefect server of the test's own, and how to talk to it."""

    address: str
    environment: dict[str, str]
    log: Path

    @property
    def api(self) -> str:
        """The API's URL."""
        return f"{self.address}/api"

    def post(self, path: str, body: Any = None) -> Any:
        """JSON of a POST; an error answer as `{"status": ..., "detail": ...}`."""
        data = json.dumps(body if body is not None else {}).encode()
        request = urllib.request.Request(self.api + path, data, {"content-type": "application/json"})
        for _ in range(20):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 503:  # a busy SQLite; Prefect's own client asks again too
                    return {"status": error.code, "detail": error.read().decode()}
            time.sleep(0.5)
        raise AssertionError(f"{path}: the server stays busy")

    def get(self, path: str) -> Any:
        """JSON of a GET."""
        return get(self.api + path)

    def text(self, path: str) -> str:
        """Body of a GET as text."""
        with urllib.request.urlopen(self.api + path, timeout=60) as answer:
            return str(answer.read().decode())

    def cli(self, *arguments: str) -> str:
        """Output of a `prefect` command that must succeed."""
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, deployment: str, **parameters: Any) -> str:
        """Create a run of `flow/deployment` and give its id."""
        found = self.get(f"/deployments/name/{deployment}")
        made = self.post(f"/deployments/{found['id']}/create_flow_run", {"parameters": parameters, "state": {"type": "SCHEDULED"}})
        assert "id" in made, made
        return str(made["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """One flow run."""
        found = self.get(f"/flow_runs/{run_id}")
        assert isinstance(found, dict)
        return found

    def wait(self, run_id: str, *states: str, seconds: float = 120) -> dict[str, Any]:
        """Wait until a run is in one of the states, by name."""

        def there() -> dict[str, Any] | None:
            run = self.run(run_id)
            name = (run.get("state") or {}).get("name")
            if name in ("Failed", "Crashed", "Completed", "Cancelled") and name not in states:
                raise AssertionError(f"{run_id} is {name}: {run['state'].get('message')}")
            return run if name in states else None

        found = wait_until(there, f"{run_id} in {states}", seconds)
        assert isinstance(found, dict)
        return found

    def artifacts(self, run_id: str) -> dict[str, Any]:
        """Artifacts of a run by key."""
        found = self.post("/artifacts/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
        return {artifact["key"]: artifact for artifact in found}


@dataclass(frozen=True)
class Finished:
    """A deployment run that is through."""

    run: dict[str, Any]
    out: Path


def tiny_parameters(**fields: Any) -> dict[str, Any]:
    """What the form sends for the tiny preset."""
    settings, _ = config.load("tiny", None, fields)
    return settings.model_dump(mode="json")


@contextmanager
def prefect_server(folder: Path) -> Iterator[Prefect]:
    """A server with its own home and port."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    environment |= PREFECT_SETTINGS | {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_UI_API_URL": "/api",
        "PREFECT_SERVER_UI_V2_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    log = folder / "server.log"
    with process(command, environment, log) as child:

        def healthy() -> bool:
            assert child.poll() is None, log.read_text(encoding="utf-8")
            return get(f"{address}/api/health") is True

        wait_until(healthy, "the Prefect server")
        yield Prefect(address, environment, log)


@dataclass
class Model:
    """The offline model on a port."""

    url: str

    def stats(self) -> dict[str, int]:
        """Requests so far, and how many were asked twice."""
        found = get(f"{self.url}/stats")
        return found if isinstance(found, dict) else {}

    @property
    def environment(self) -> dict[str, str]:
        """What makes `openai:offline` go there."""
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self.url}/v1"}


@contextmanager
def model_server(folder: Path, latency_ms: int = 0, port: int | None = None) -> Iterator[Model]:
    """A slow model, so that a test can act in the middle of a run."""
    port = port or free_port()
    command = [sys.executable, "-m", "pipelines.cli", "offline-server", "--port", str(port), "--latency-ms", str(latency_ms)]
    model = Model(f"http://127.0.0.1:{port}")
    with process(command, {**os.environ, "PYTHONPATH": str(ROOT)}, folder / f"model-{port}.log"):
        wait_until(model.stats, "the offline model")
        yield model
