"""From sums to numbers: groups with intervals, repeats, the published files."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines import __version__
from pipelines.errors import ConfigError
from pipelines.evaluation import official
from pipelines.evaluation.bootstrap import FEW, Matrix, estimate, pass_power
from pipelines.evaluation.chunks import CellKey, Sums
from pipelines.evaluation.metrics import NAMES, PAPER
from pipelines.evaluation.reader import Part, load_line
from pipelines.jsonio import dumps, file_digest, write_text

KEPT_DETAILS = 400
"""Samples kept whole with the scores, for the leaderboard."""


@dataclass(frozen=True)
class Options:
    """How to score; nothing here changes what was predicted."""

    scorer: str = "strict"
    """`official`, `strict`, `lenient` or `all`."""
    overrides: dict[str, str] = field(default_factory=dict)
    draws: int = 2_000
    seed: int = 0
    official_weights: bool = False
    """Weigh the two splits 609 to 474, whatever their sizes."""
    name: str = ""
    """The solver's name, for tables."""
    workers: int = 0
    """Processes; 0 for one per core."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Which scorers run."""
        return ("official", "strict", "lenient") if self.scorer == "all" else (self.scorer,)

    @property
    def main(self) -> str:
        """The scorer that metrics and intervals are shown for."""
        return "strict" if self.scorer == "all" else self.scorer


@dataclass
class Scored:
    """All sums of one scoring."""

    sums: dict[str, Sums] = field(default_factory=dict)
    tables: dict[str, official.Table] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    between: Counter[str] = field(default_factory=Counter)
    details: list[dict[str, Any]] = field(default_factory=list)
    joined: list[dict[str, Any]] = field(default_factory=list)
    by_repeat: dict[int, list[float]] = field(default_factory=dict)
    """Repeat -> right samples, counted samples."""
    right: dict[str, int] = field(default_factory=dict)
    """Sample -> in how many repeats it was right; only with repeats."""
    unscorable: int = 0
    samples: int = 0
    problems: list[str] = field(default_factory=list)


def names_of(scorer: str) -> tuple[str, ...]:
    """The metrics that a scorer has."""
    return PAPER if scorer == "official" else NAMES


def sum_of(sums: Sums) -> NDArray[np.float64]:
    """All cells together."""
    return np.asarray(np.sum(list(sums.values()), axis=0), dtype=np.float64)


def cell_lines(sums: Sums) -> Iterator[str]:
    """The sums per cell, for comparisons without scoring again."""
    for key in sorted(sums):
        yield dumps({"cell": list(key), "sums": [round(float(v), 6) for v in sums[key]]}) + "\n"


def read_cells(path: Path) -> Sums:
    """What `cell_lines` wrote."""
    found: Sums = {}
    try:
        for line in path.read_bytes().splitlines():
            value = load_line(line)
            found[tuple(value["cell"])] = np.array(value["sums"], dtype=float)
    except (OSError, TypeError, KeyError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; score the predictions again") from None
    return found


def by_user(sums: Sums, names: Sequence[str], chosen: Callable[[CellKey], bool] = lambda key: True) -> tuple[list[str], Matrix, Matrix]:
    """Users in order, and their numerators and denominators, users x metrics."""
    users: dict[str, Matrix] = {}
    for key in sorted(sums):
        if chosen(key):
            users[key[3]] = users.get(key[3], 0) + sums[key]
    order = sorted(users)
    matrix = np.stack([users[user] for user in order]) if order else np.zeros((0, 2 * len(names)))
    return order, matrix[:, : len(names)], matrix[:, len(names) :]


def groups_of(sums: Sums) -> dict[str, Callable[[CellKey], bool]]:
    """All samples; then each split, scenario and kind where there are several."""
    found: dict[str, Callable[[CellKey], bool]] = {"all": lambda key: True}
    for place, what in enumerate(("split", "scenario", "kinds")):
        values = sorted({key[place] for key in sums if key[place]})
        if len(values) > 1:
            for value in values:
                found[f"{what} {value}"] = lambda key, place=place, value=value: key[place] == value  # type: ignore[misc]
    return found


def summary(data: Path, parts: Sequence[Part], files: Sequence[Path], scored: Scored, options: Options) -> dict[str, Any]:
    """What `scores.json` holds."""
    sums, names = scored.sums[options.main], names_of(options.main)
    groups = {}
    for group, chosen in groups_of(sums).items():
        users, numerators, denominators = by_user(sums, names, chosen)
        found = estimate(numerators, denominators, options.draws, options.seed)
        groups[group] = {
            "samples": int(denominators[:, names.index("overall")].sum()),
            "users": len(users),
            "few_users": len(users) < FEW,
            "metrics": {name: asdict(one) for name, one in zip(names, found, strict=True)},
        }
    return {
        "ptool": __version__,
        "solver": options.name or _solver(files[0], len(set(files)) > 1),
        "scorer": options.main,
        "scorers": {name: _paper_row(scored, name) for name in options.scorers},
        "made_by": _maker(parts[0].path),
        "data": {
            "path": str(data.resolve()),
            "files": [{"part": p.name, "path": str(p.path.resolve()), "sha256": file_digest(p.path)} for p in parts],
        },
        "predictions": [{"path": str(f.resolve()), "sha256": file_digest(f)} for f in dict.fromkeys(files)],
        "joined": scored.joined,
        "options": {"draws": options.draws, "seed": options.seed, "overrides": options.overrides},
        "groups": groups,
        "failures": dict(sorted(scored.failures.items())),
        "forgiven": dict(sorted(scored.flags.items())),
        "official": _official(scored, options) if "official" in options.scorers else None,
        "disagreements": dict(scored.between.most_common()),
        "repeats": _repeats(scored),
        "meta": _meta(files[0]),
    }


def _paper_row(scored: Scored, scorer: str) -> dict[str, float | None]:
    names, total = names_of(scorer), sum_of(scored.sums[scorer])
    found = {n: (total[i] / total[len(names) + i] if total[len(names) + i] else math.nan) for i, n in enumerate(names)}
    return {name: None if math.isnan(found[name]) else round(float(found[name]), 6) for name in PAPER}


def _official(scored: Scored, options: Options) -> dict[str, Any]:
    tables = scored.tables
    return {
        "errors_as_published": {n: {e: t.errors[e] for e in official.ERRORS} for n, t in tables.items()},
        "format_failures": {n: dict(sorted(t.failures.items())) for n, t in tables.items()},
        "gold_it_cannot_score": scored.unscorable if len(options.scorers) > 1 else None,
        "problems": scored.problems,
    }


def _repeats(scored: Scored) -> dict[str, Any] | None:
    """Mean and spread over repeats, and pass^k."""
    count = len(scored.by_repeat)
    if count < 2:
        return None
    accuracies = [right / total for right, total in scored.by_repeat.values() if total]
    right = list(scored.right.values())
    return {
        "count": count,
        "overall": [round(a, 6) for a in accuracies],
        "mean": round(statistics.fmean(accuracies), 6),
        "standard_deviation": round(statistics.stdev(accuracies), 6),
        "variance": round(statistics.variance(accuracies), 9),
        "pass_power": {str(k): round(pass_power(right, count, k), 6) for k in range(1, count + 1)},
    }


def _solver(file: Path, several: bool) -> str:
    meta = _meta(file) or {}
    folder = file.parent.parent if several else file.parent
    return str(meta.get("solver") or (folder.name if file.stem in ("generation", "predictions") else file.stem))


def _meta(file: Path) -> dict[str, Any] | None:
    """What `ptool evaluate` wrote beside the predictions."""
    for path in (file.parent / "solver.json", file.parent.parent / "solver.json"):
        if path.is_file():
            value = load_line(path.read_bytes())
            return value if isinstance(value, dict) else None
    return None


def _maker(path: Path) -> str:
    """Who made the data, from the manifest of the run that it lies in."""
    for folder in list(path.resolve().parents)[:5]:
        if (folder / "manifest.json").is_file():
            value = load_line((folder / "manifest.json").read_bytes())
            if isinstance(value, dict) and "made_by" in value:
                return str(value["made_by"])
    return "unknown"


def write_official(out: Path, parts: Sequence[Part], scored: Scored, options: Options) -> None:
    """`acc_results.csv` and `error_results.csv`, per part and overall, in the published layout."""
    tables = [scored.tables[part.name] for part in parts]
    try:
        rows = [table.accuracies() for table in tables]
    except ConfigError as error:
        if options.scorer == "official":
            raise
        scored.problems.append(str(error))
        return
    if scored.problems and options.scorer != "official":
        return
    folders = [out / part.name for part in parts] if len(parts) > 1 else [out]
    for folder, row, table in zip(folders, rows, tables, strict=True):
        _write_tables(folder, row, table.errors)
    if len(parts) > 1:
        errors = {name: sum(table.errors[name] for table in tables) for name in official.ERRORS}
        _write_tables(out / "overall", _overall(parts, rows, tables, options), errors)


def _overall(
    parts: Sequence[Part], rows: Sequence[Mapping[str, float]], tables: Sequence[official.Table], options: Options
) -> dict[str, float]:
    if not options.official_weights:
        total = sum(table.records for table in tables)
        return {n: sum(t.records * row[n] for t, row in zip(tables, rows, strict=True)) / total for n in official.ACCURACIES}
    split = {"untrained" if "untrained" in part.name else "trained": row for part, row in zip(parts, rows, strict=True)}
    if len(parts) != 2 or len(split) != 2:
        raise ConfigError("--official-weights: needs one trained and one untrained part; leave it out to weigh by size")
    return official.overall(split["trained"], split["untrained"], official.PUBLISHED_WEIGHTS)


def _write_tables(folder: Path, accuracies: Mapping[str, float], errors: Mapping[str, float]) -> None:
    write_text(folder / "acc_results.csv", [official.csv_text(official.ACCURACIES, [accuracies])])
    write_text(folder / "error_results.csv", [official.csv_text(official.ERRORS, [errors])])
