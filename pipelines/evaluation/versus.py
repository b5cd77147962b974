"""Two solvers on the same samples: differences with intervals and tests, paired by user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.evaluation.bootstrap import compare, mcnemar
from pipelines.evaluation.report import number, table
from pipelines.evaluation.summary import Options, by_user, names_of, read_cells
from pipelines.jsonio import pretty, write_text


def versus(out: Path, first: Mapping[str, Any], second: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Compare two scorings of the same data, the second one in `out/against`; writes `comparison.json` and `comparison.md`."""
    names = names_of(options.main)
    one_users, *one = by_user(read_cells(out / "cells.jsonl"), names)
    two_users, *two = by_user(read_cells(out / "against" / "cells.jsonl"), names)
    assert one_users == two_users, "the same data has the same users"
    found = compare((one[0], one[1]), (two[0], two[1]), options.draws, options.seed)
    only_first, only_second = _only(out / "rows.jsonl", out / "against" / "rows.jsonl", options.main)
    result: dict[str, Any] = {
        "first": first["solver"],
        "second": second["solver"],
        "users": len(one_users),
        "metrics": {name: c.__dict__ for name, c in zip(names, found, strict=True)},
        "right_only_first": only_first,
        "right_only_second": only_second,
        "mcnemar_p": round(mcnemar(only_first, only_second), 6),
    }
    rows = [
        [n, number(c.first), number(c.second), number(c.difference), f"[{number(c.low)}, {number(c.high)}]", number(c.p)]
        for n, c in zip(names, found, strict=True)
        if c.difference is not None
    ]
    title = f"# {first['solver']} minus {second['solver']}\n\nPaired by user ({len(one_users)} users).\n\n"
    head = ["metric", str(first["solver"]), str(second["solver"]), "difference", "95 % interval", "p (sign flips by user)"]
    write_text(out / "comparison.md", [title, table(head, rows)])
    write_text(out / "comparison.json", [pretty(result) + "\n"])
    whole = found[names.index("overall")]
    bounds = f"[{number(whole.low)}, {number(whole.high)}], p {number(whole.p)} by user"
    told = f"overall minus {second['solver']}: {number(whole.difference)} {bounds}"
    return {**result, "told": [f"{told}; McNemar p {result['mcnemar_p']:.3f} ({only_first} against {only_second})"]}


def _only(first: Path, second: Path, scorer: str) -> tuple[int, int]:
    """Samples that only one of the two has right; both files have the samples in the same order."""
    counts = np.zeros(2, dtype=int)
    with first.open(encoding="utf-8") as one, second.open(encoding="utf-8") as two:
        for a, b in zip(one, two, strict=False):
            right = json.loads(a)["right"][scorer], json.loads(b)["right"][scorer]
            counts += (right[0] > right[1], right[1] > right[0])
    return int(counts[0]), int(counts[1])
