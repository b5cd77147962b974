"""`ptool leaderboard`: many score files, one self-contained page and one CSV file."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines import __version__
from pipelines.errors import ConfigError, PtoolError
from pipelines.evaluation.explore import read_scores
from pipelines.evaluation.metrics import BETTER, METRICS, NAMES
from pipelines.evaluation.reader import load_line
from pipelines.evaluation.strict import CLASSES
from pipelines.jsonio import canonical, digest, dumps, write_text

PAGE = Path(__file__).with_name("leaderboard.html")
MARK = "/*DATA*/null"
SAMPLES = 60
"""Samples per solver that the page carries."""
MAX_FILES = 500


def write_leaderboard(folder: Path, out: Path) -> int:
    """Read every `scores.json` below a folder; write `index.html` and `leaderboard.csv`. Returns how many were read.

    Raises:
        ConfigError: when there is none.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is no folder; write one that holds score files at any depth")
    files = sorted(folder.rglob("scores.json"))[:MAX_FILES]
    entries = []
    for file in files:
        try:
            entries.append(_entry(file.parent, file.parent.relative_to(folder).as_posix()))
        except (PtoolError, KeyError, TypeError) as error:
            print(f"ptool: {file}: left out: {error}", file=sys.stderr)
    if not entries:
        raise ConfigError(f"{folder}: has no readable scores.json; run `ptool score` or `ptool evaluate` first")
    entries.sort(key=lambda entry: (entry["data"], entry["solver"], entry["where"]))
    write_text(out / "leaderboard.csv", [_csv(entries)])
    write_text(out / "index.html", [_page(entries)])
    return len(entries)


def _entry(folder: Path, where: str) -> dict[str, Any]:
    scores = read_scores(folder)
    details = folder / "details.jsonl"
    samples = [load_line(line) for line in details.read_bytes().splitlines()[:2000]] if details.is_file() else []
    groups = {
        name: {
            "samples": group["samples"],
            "users": group["users"],
            "few": group["few_users"],
            "metrics": {
                m: [one["value"], one["low"], one["high"], one["macro"], one["macro_low"], one["macro_high"], one["count"]]
                for m, one in group["metrics"].items()
            },
        }
        for name, group in scores["groups"].items()
    }
    return {
        "solver": str(scores["solver"]),
        "scorer": scores["scorer"],
        "where": where,
        "data": digest(canonical([one["sha256"] for one in scores["data"]["files"]])),
        "data_name": ", ".join(str(one["part"]) for one in scores["data"]["files"]),
        "made_by": scores["made_by"],
        "groups": groups,
        "scorers": scores["scorers"],
        "failures": scores["failures"],
        "repeats": scores["repeats"],
        "samples": _spread([one for one in samples if isinstance(one, dict)]),
    }


def _spread(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some wrong samples of every class, then right ones, in file order."""
    chosen: list[int] = []
    seen: dict[str, int] = {}
    for place, sample in enumerate(samples):
        key = "+".join(sample.get("classes") or ["right"])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 12 and len(chosen) < SAMPLES:
            chosen.append(place)
    return [samples[place] for place in chosen]


def _csv(entries: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["solver", "scorer", "data", "group", "samples", "users", *(f"{m}{e}" for m in NAMES for e in ("", "_low", "_high"))])
    for entry in entries:
        for name, group in entry["groups"].items():
            figures = [group["metrics"].get(m, [None] * 7)[i] for m in NAMES for i in range(3)]
            row = [entry["solver"], entry["scorer"], entry["data_name"], name]
            writer.writerow([*map(_harmless, row), group["samples"], group["users"], *("" if f is None else f for f in figures)])
    return text.getvalue()


def _harmless(text: str) -> str:
    """A spreadsheet must not take a name for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def _page(entries: Sequence[dict[str, Any]]) -> str:
    """The page with its data inside; no text of the data can end the script."""
    about = {"formulas": {m.name: [m.formula, m.example] for m in METRICS}, "better": BETTER, "metrics": NAMES, "classes": CLASSES}
    data = dumps({"version": __version__, **about, "entries": json.loads(dumps(list(entries)))})
    data = (
        data.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
    before, _, after = PAGE.read_text(encoding="utf-8").partition(MARK)
    return before + data + after
