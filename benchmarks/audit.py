"""How long the strict audit of 100,000 samples takes, and how much memory: `python benchmarks/audit.py RUN [SAMPLES]`.

RUN is a finished run, e.g. of the paper preset. Its users are copied under new ids until there are enough samples, so that
every copy has its own profile, history and plans; the copies are audited as any run is. Prints versions and measures.
"""

from __future__ import annotations

import json
import platform
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from pipelines.audit.commands import audit
from pipelines.jsonio import file_digest, pretty, write_text
from pipelines.run import load_run

COPIED = ("04_profiles", "05_histories", "06_queries", "08_samples")
USER = re.compile(r'(?<=")u(\d{4})(?=[".])')


def main(root: Path, wanted: int) -> None:
    """Copy, audit, print."""
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "run"
        made = grow(root, big, wanted)
        started = time.monotonic()
        found = audit(load_run(big), strict=True)
        seconds = time.monotonic() - started
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    names = ("pydantic", "scikit-learn", "numpy")
    print(f"python {platform.python_version()}, " + ", ".join(f"{name} {metadata.version(name)}" for name in names))
    print(f"{made:,} samples, {found['strict']['violations']} violations, {seconds:.0f} s, {seconds / made * 1e3:.2f} ms a sample")
    print(f"peak memory: {own / 1024:.0f} MiB in the main process, {worker / 1024:.0f} MiB in the largest worker")


def grow(root: Path, big: Path, wanted: int) -> int:
    """A run folder with at least `wanted` samples; returns how many."""
    big.mkdir()
    for name in ("config.json", "manifest.json", "01_scenarios.jsonl", "02_apis.jsonl", "03_features.jsonl"):
        shutil.copy(root / name, big / name)
    size = sum(1 for _ in (root / "08_samples.jsonl").open("rb"))
    times = -(-wanted // size)
    for name in COPIED:
        write_text(big / f"{name}.jsonl", _copies(root / f"{name}.jsonl", times))
    for path in sorted((root / "splits").glob("*.jsonl")):
        write_text(big / "splits" / path.name, _copies(path, times))
    stated = json.loads((root / "splits" / "certificate.json").read_text(encoding="utf-8"))
    stated["sha256"] = {path.stem: file_digest(path) for path in sorted((big / "splits").glob("*.jsonl"))}
    write_text(big / "splits" / "certificate.json", [pretty(stated) + "\n"])
    return times * size


def _copies(path: Path, times: int) -> Iterator[str]:
    for copy in range(times):
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield USER.sub(rf"u{copy:02d}\g<1>", line) if copy else line


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
