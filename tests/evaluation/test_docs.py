"""docs/scoring.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from pipelines.evaluation.baselines import BASELINES
from pipelines.evaluation.experiments import EXPERIMENTS
from pipelines.evaluation.metrics import METRICS
from pipelines.evaluation.templates import FAMILIES
from pipelines.evaluation.values import KINDS
from tests.evaluation.quirks import ERRORS, ROWS

DOCS = (Path(__file__).parents[2] / "docs" / "scoring.md").read_text(encoding="utf-8")


def test_every_metric_has_its_row():
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.formula} | {metric.example} | {metric.better} |" in DOCS


def test_every_quirk_is_there():
    missing = [number for number in range(1, 67) if f"Q{number:02d}" not in DOCS]

    assert missing == []
    for quirk, *_ in [*ROWS, *ERRORS]:
        assert f"| {quirk} |" in DOCS


def test_every_name_that_a_user_may_write_is_there():
    for name in (*KINDS, *FAMILIES, *BASELINES, *EXPERIMENTS):
        assert f"`{name}`" in DOCS
