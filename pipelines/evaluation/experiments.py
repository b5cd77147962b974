"""The experiments of the paper and of its critics, one command each: a few settings, one table with intervals, one plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from pipelines.config import Limits
from pipelines.errors import ConfigError
from pipelines.evaluation.asking import Solver
from pipelines.evaluation.bootstrap import compare
from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.report import bars, number, table, with_interval
from pipelines.evaluation.seen import CONTEXTS, PROFILES, Setting
from pipelines.evaluation.summary import Options, by_user, names_of, read_cells
from pipelines.jsonio import pretty, write_text

SHOWN = ("overall", "platforms", "tool_names", "query_params", "profile_params", "regret")


@dataclass(frozen=True)
class Experiment:
    """One question to the benchmark."""

    purpose: str
    settings: Callable[[Setting], dict[str, Setting]]
    """Cells by name, from the setting that the command line gives; the first one is what others are compared with."""


def _shots(usual: Setting) -> dict[str, Setting]:
    count = usual.shots or 3
    cells = {"zero-shot": replace(usual, shots=0)}
    return cells | {f"{count} {how}": replace(usual, shots=count, shots_from=how) for how in ("random", "retrieved")}


EXPERIMENTS: dict[str, Experiment] = {
    "profile-ablation": Experiment(
        "What the profile is worth: all of it, without basic features, without history, without both.",
        lambda usual: {name: replace(usual, profile=name) for name in PROFILES},
    ),
    "context-forms": Experiment(
        "What tidy fields are worth: structured profile, events only, one raw log.",
        lambda usual: {name: replace(usual, context=name) for name in CONTEXTS},
    ),
    "shots": Experiment(
        "What examples from train are worth: none, random ones, the most similar ones (tuned against zero-shot is no fair fight).",
        _shots,
    ),
    "candidates": Experiment(
        "What choice costs: the platforms of the scenario, or of all scenarios.",
        lambda usual: {"scenario": replace(usual, candidates="scenario"), "all scenarios": replace(usual, candidates="all")},
    ),
    "tool-retrieval": Experiment(
        "What a retriever loses: all APIs, or the ones that fit the query's words best.",
        lambda usual: (
            {"all APIs": replace(usual, retrieve=0)} | {f"best {n}": replace(usual, retrieve=n) for n in (usual.retrieve or 12, 24)}
        ),
    ),
    "distractors": Experiment(
        "What useless profile fields cost.",
        lambda usual: {f"{n} fields": replace(usual, distractors=n) for n in (0, 4, usual.distractors or 12)},
    ),
}


def experiment(
    name: str, data: Path, out: Path, solver: Solver, options: Options, limits: Limits, http_client: httpx2.AsyncClient | None = None
) -> dict[str, Any]:
    """Evaluate every setting into `out/<cell>/`; writes `table.md`, `table.csv`, `plot.svg` and `experiment.json`.

    Raises:
        ConfigError: for an unknown experiment.
    """
    if name not in EXPERIMENTS:
        raise ConfigError(f"--experiment {name!r}: write one of {', '.join(EXPERIMENTS)}")
    found = EXPERIMENTS[name]
    cells: dict[str, Any] = {}
    folders: dict[str, Path] = {}
    for cell, setting in found.settings(solver.setting).items():
        folders[cell] = out / "".join(c if c.isalnum() else "-" for c in cell)
        scores = evaluate(data, folders[cell], replace(solver, setting=setting), options, limits, http_client)
        cells[cell] = {"metrics": scores["groups"]["all"]["metrics"], "samples": scores["groups"]["all"]["samples"]}
    first = next(iter(folders))
    for cell, folder in folders.items():
        cells[cell]["against_first"] = _against(folder, folders[first], options)
    result = {"experiment": name, "purpose": found.purpose, "model": solver.model, "mode": solver.mode, "cells": cells}
    _write(out, result, options)
    return result


def _against(folder: Path, first: Path, options: Options) -> dict[str, Any]:
    """The difference of `overall` to the first cell, paired by user."""
    names = names_of(options.main)
    _, *one = by_user(read_cells(folder / "scores" / "cells.jsonl"), names)
    _, *two = by_user(read_cells(first / "scores" / "cells.jsonl"), names)
    found = compare((one[0], one[1]), (two[0], two[1]), options.draws, options.seed)[names.index("overall")]
    return dict(found.__dict__)


def rows(result: Mapping[str, Any]) -> list[list[object]]:
    """A row per cell: metrics with intervals, then the difference to the first cell."""
    made = []
    for cell, found in result["cells"].items():
        other = found["against_first"]
        difference = f"{number(other['difference'])} [{number(other['low'])}, {number(other['high'])}]"
        shown = [with_interval(found["metrics"][m]) for m in SHOWN if m in found["metrics"]]
        made.append([cell, *shown, difference, number(other["p"])])
    return made


def _write(out: Path, result: Mapping[str, Any], options: Options) -> None:
    shown = [m for m in SHOWN if m in names_of(options.main)]
    head = ["setting", *shown, "overall minus first", "p by user"]
    title = f"# {result['experiment']}: {result['model']}\n\n{result['purpose']} "
    title += f"{options.main.capitalize()} scorer, 95 % intervals by user.\n\n"
    write_text(out / "table.md", [title, table(head, rows(result))])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["setting", *(f"{m}{end}" for m in shown for end in ("", "_low", "_high"))])
    for cell, found in result["cells"].items():
        writer.writerow([cell, *(found["metrics"][m][k] for m in shown for k in ("value", "low", "high"))])
    write_text(out / "table.csv", [text.getvalue()])
    values = {f"{cell}: {m}": found["metrics"][m] for m in ("overall", "platforms") for cell, found in result["cells"].items()}
    write_text(out / "plot.svg", [bars(f"{result['experiment']}, {result['model']}", values, "#2f6f9f")])
    write_text(out / "experiment.json", [pretty(result) + "\n"])
