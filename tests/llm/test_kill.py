"""A run that is killed again and again pays for nothing twice and ends with the same bytes.

Two kills by default; PTOOL_KILLS=20 for the long form. The server is a process of its own, as a provider is.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.making import files_of

KILLS = int(os.environ.get("PTOOL_KILLS", "2"))
CONCURRENCY = 4
WORK = """
import asyncio, sys
from pathlib import Path
import flows
from pipelines.config import load
from pipelines.errors import PtoolError
from pipelines.llm.interrupt import interruptible
from pipelines.run import Run

async def main():
    more = dict(pair.split("=") for pair in sys.argv[3:])
    config, _ = load("tiny", None, {"model": "openai:offline", "limits.concurrency": int(sys.argv[2]), **more})
    run = Run.open(Path(sys.argv[1]), config)
    print("open", flush=True)
    try:
        await flows.pipeline(run)
    finally:
        await run.close()

try:
    asyncio.run(interruptible(main()))
except PtoolError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


class Provider:
    """The offline server on a port."""

    def __init__(self, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "pipelines.cli", "offline-server", "--port", str(self.port), "--latency-ms", "15", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(300):
            with contextlib.suppress(OSError):
                self.stats()
                return
            time.sleep(0.1)
        raise AssertionError("the offline server did not start")

    def stats(self) -> dict[str, Any]:
        """What it counted."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=5) as reply:
            return dict(json.load(reply))

    def start(self, root: Path, *more: str) -> subprocess.Popen[str]:
        """A run against it, in a process of its own."""
        env = {**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{self.port}/v1", "OPENAI_API_KEY": "none-none-none"}
        return subprocess.Popen(
            [sys.executable, "-c", WORK, str(root), str(CONCURRENCY), *more],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, requests: int, work: subprocess.Popen[str]) -> None:
        """Until it has seen so many."""
        while work.poll() is None and self.stats()["requests"] < requests:
            time.sleep(0.002)


FAULTS = ("--fault-429", "0.1", "--fault-500", "0.05", "--malformed", "0.03", "--truncate", "0.02", "--seed", "3")


@contextlib.contextmanager
def provider(options: tuple[str, ...] = ()) -> Iterator[Provider]:
    made = Provider(*options)
    try:
        yield made
    finally:
        made.process.terminate()
        made.process.wait()


def finish(at: Provider, root: Path, *more: str) -> tuple[int, str]:
    work = at.start(root, *more)
    _, said = work.communicate(timeout=120)
    return work.returncode, said


def test_killed_at_random_moments_it_pays_only_for_what_was_in_flight(tmp_path: Path):
    with provider(FAULTS) as calm:
        assert finish(calm, tmp_path / "whole") == (0, "")
        whole = calm.stats()["requests"]
    with provider(FAULTS) as rough:
        rng = random.Random(KILLS)
        for _ in range(KILLS):
            work = rough.start(tmp_path / "killed")
            rough.wait_for(rough.stats()["requests"] + rng.randint(1, max(2, 2 * whole // (KILLS + 1))), work)
            work.send_signal(signal.SIGKILL)
            work.wait()
        assert finish(rough, tmp_path / "killed") == (0, "")
        assert whole <= rough.stats()["requests"] <= whole + KILLS * CONCURRENCY

    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def test_ctrl_c_keeps_what_is_in_flight_says_how_to_go_on_and_pays_nothing_twice(tmp_path: Path):
    with provider() as at:
        work = at.start(tmp_path / "run")
        at.wait_for(12, work)
        work.send_signal(signal.SIGINT)
        _, said = work.communicate(timeout=60)
        assert work.returncode == 130
        assert "run the same command again" in said
        assert "in flight" in said
        assert finish(at, tmp_path / "run")[0] == 0
        assert at.stats()["duplicates"] == 0


def test_a_budget_stops_with_code_3_and_a_higher_one_ends_with_the_same_bytes(tmp_path: Path):
    with provider() as at:
        code, said = finish(at, tmp_path / "run", "limits.max_calls=20")
        assert code == 3
        assert "limits.max_calls of 20 is used up" in said
        assert at.stats()["requests"] == 20
        assert finish(at, tmp_path / "run", "limits.max_calls=900")[0] == 0
        assert at.stats()["duplicates"] == 0
        assert finish(at, tmp_path / "whole")[0] == 0

    assert files_of(tmp_path / "run") == files_of(tmp_path / "whole")
