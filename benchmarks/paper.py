"""Time and memory of the paper preset with the offline model, through Prefect, on this machine.

`python benchmarks/paper.py` runs the command line as a user would and prints a table for RESULTS.md.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

WANTED = {"train": 7096, "test_trained_users": 474, "test_untrained_users": 609}


def main() -> None:
    """One run in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pipelines.cli", "run", "--preset", "paper", "--out", f"{folder}/run", "--json"]
        started = time.monotonic()
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
        seconds = time.monotonic() - started
        summary = json.loads(done.stdout.splitlines()[-1])
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if summary["splits"] != WANTED:
        raise SystemExit(f"splits are {summary['splits']}, wanted {WANTED}")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("prefect", "openai", "scikit-learn"))
    print(f"command: ptool run --preset paper (offline model); {os.cpu_count()} cores, Python {platform.python_version()}, {versions}")
    print("| wall | CPU | peak memory of one process | samples | model calls | samples per CPU second |")
    print("| --- | --- | --- | --- | --- | --- |")
    cpu = usage.ru_utime + usage.ru_stime
    total = sum(summary["splits"].values())
    row = f"| {seconds:.0f} s | {cpu:.0f} s | {usage.ru_maxrss / 1024**2:.2f} GiB | {total:,} | {summary['calls']:,} | {total / cpu:.0f} |"
    print(row)


if __name__ == "__main__":
    main()
