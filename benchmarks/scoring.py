"""How fast predictions are scored, and how much memory that takes.

`python benchmarks/scoring.py RUN [--predictions 1000000]` repeats the test samples of a run under new ids, with predictions of which
a part is wrong, cut or broken, and scores them with each scorer. Memory is the sum over processes of the peak resident sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path

import numpy as np

from pipelines.evaluation.bootstrap import estimate
from pipelines.evaluation.catalogue import Catalogue
from pipelines.evaluation.items import item_of
from pipelines.evaluation.metrics import NAMES
from pipelines.evaluation.reader import find_parts, load_line, records
from pipelines.evaluation.rendering import gold_text
from pipelines.evaluation.score import score
from pipelines.evaluation.summary import Options


def made_up(run: Path, folder: Path, count: int) -> tuple[Path, Path]:
    """Data of `count` samples in the shape of a run folder, and predictions."""
    (folder / "splits").mkdir(parents=True)
    for name in ("config.json", "manifest.json", "01_scenarios.jsonl", "02_apis.jsonl"):
        (folder / name).symlink_to((run / name).resolve())
    part = find_parts(run)[0]
    catalogue = Catalogue.beside(part.path)
    originals = [load_line(raw) for raw in records(part)]
    golds = [gold_text(item_of(r, "", "", catalogue, 0)) for r in originals]
    rng = random.Random(0)
    data, predictions = folder / "splits" / "test_many.jsonl", folder / "predictions.jsonl"
    texts = [json.dumps({k: v for k, v in r.items() if k not in ("id", "user")}, ensure_ascii=False)[1:] for r in originals]
    with data.open("w", encoding="utf-8") as samples, predictions.open("w", encoding="utf-8") as lines:
        for number in range(count):
            which = number % len(originals)
            sample, user = f"s{number:07d}", f"u{number % 1083:04d}"
            samples.write(f'{{"id":"{sample}","user":"{user}",{texts[which]}\n')
            gold, draw = golds[which], rng.random()
            if draw < 0.2:
                gold = gold[: len(gold) // 2]
            elif draw < 0.5:
                gold = gold.replace("='", "='not ", 1)
            elif draw < 0.6:
                gold = f"Elsewhere:{gold.partition(':')[2]}"
            lines.write(json.dumps({"id": sample, "predict": gold}, ensure_ascii=False) + "\n")
    return data, predictions


class Peak(threading.Thread):
    """The largest sum of resident sizes of this process and its children, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.value = 0.0
        self.over = threading.Event()

    def run(self) -> None:
        """Look five times a second."""
        while not self.over.wait(0.2):
            self.value = max(self.value, sum(map(_resident, _family())))


def _family() -> list[int]:
    mine = os.getpid()
    found = [mine]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == mine:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _cpu() -> float:
    """Seconds of CPU of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def main() -> None:
    """Score, resample, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {metadata.version('numpy')}, {len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory() as folder:
        data, predictions = made_up(args.run, Path(folder) / "run", args.predictions)
        for scorer in ("official", "strict"):
            peak = Peak()
            peak.start()
            began, cpu = time.perf_counter(), _cpu()
            found = score(data, predictions, Path(folder) / scorer, Options(scorer))
            seconds, cpu = time.perf_counter() - began, _cpu() - cpu
            peak.over.set()
            print(
                f"{scorer}: {args.predictions:,} predictions in {seconds:.1f} s and {cpu:.1f} s of CPU "
                f"({args.predictions / cpu:,.0f} a CPU second), "
                f"{peak.value:.0f} MiB in all processes, overall {found['scorers'][scorer]['overall']}"
            )
    rng = np.random.default_rng(0)
    numerators = (rng.random((1083, len(NAMES))) < 0.4).astype(float)
    began = time.perf_counter()
    estimate(numerators, np.ones_like(numerators), 10_000, 0)
    print(f"bootstrap: 10,000 draws over 1,083 samples of as many users, {len(NAMES)} metrics, in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
