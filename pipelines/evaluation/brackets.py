"""The built-in solvers on the same data: the scores between which a benchmark's scores mean something."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.config import Limits
from pipelines.evaluation.asking import Solver
from pipelines.evaluation.baselines import BASELINES
from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.reader import find_parts
from pipelines.evaluation.report import number, with_interval
from pipelines.evaluation.seen import Source
from pipelines.evaluation.summary import Options
from pipelines.jsonio import pretty, write_text

SHOWN = ("overall", "platforms", "query_params", "profile_params", "regret")
ABOVE_CHANCE = 0.1
"""`query-only` may pick the gold platform this much more often than chance before the data is called broken."""


def bracket(data: Path, out: Path, options: Options, seed: int) -> dict[str, Any]:
    """Scores of every built-in solver, kept in `out/brackets.json`; predictions and scores in `out/brackets/<solver>/`."""
    options = Options("strict", options.overrides, options.draws, options.seed, workers=options.workers)
    found: dict[str, Any] = {}
    for name in BASELINES:
        scores = evaluate(data, out / "brackets" / name, Solver(name, seed=seed), options, Limits())
        metrics = scores["groups"]["all"]["metrics"]
        found[name] = {metric: metrics[metric] for metric in SHOWN}
    chance = _chance(data)
    problem = broken(found, chance)
    result = {"solvers": found, "chance": chance, "problem": problem}
    write_text(out / "brackets.json", [pretty(result) + "\n"])
    return result


def _chance(data: Path) -> float:
    """How often a blind pick of a platform is right: the mean of 1 / platforms shown."""
    shares = [
        1 / len(seen.tools) if isinstance(seen.tools, list) and seen.tools else 1.0 for part in find_parts(data) for _, seen in Source(part)
    ]
    return round(sum(shares) / len(shares), 6) if shares else 1.0


def broken(found: Mapping[str, Mapping[str, Any]], chance: float) -> str | None:
    """What the brackets say is wrong with the data, or None."""
    oracle, blind = found["oracle"]["overall"]["value"], found["query-only"]["platforms"]
    if oracle != 1:
        return f"the gold answers score {number(oracle)}, not 1: some gold answers are wrong"
    low = blind["low"] if blind["low"] is not None else blind["value"]
    if low > chance + ABOVE_CHANCE:
        return f"query-only picks the gold platform for {number(blind['value'])} of samples (chance {number(chance)}): queries give it away"
    return None


def told(result: Mapping[str, Any]) -> list[str]:
    """Lines for the terminal."""
    lines = [f"{'built-in solvers':<20}" + "".join(f"{name:>24}" for name in SHOWN)]
    lines += [f"{name:<20}" + "".join(f"{with_interval(row[m]):>24}" for m in SHOWN) for name, row in result["solvers"].items()]
    problem = result["problem"]
    return [
        *lines,
        f"the data is broken: {problem}" if problem else f"a blind pick of the platform is right for {number(result['chance'])}",
    ]
