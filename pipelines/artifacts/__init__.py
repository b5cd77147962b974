"""What people look at in the Prefect UI: content only, as plain functions of a run; `flows.py` posts it.

Model text is never rendered: it stands in fences, in escaped table cells, or as text of a picture. Each artifact
stays below `MAX_BYTES`, so that the UI stays quick on the paper preset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pipelines import report
from pipelines.artifacts.cards import dataset_card, history_timeline, profile_card, proved_and_rejected, review_card
from pipelines.artifacts.pictures import cost_plot, coverage_map
from pipelines.artifacts.tables import Before, compare, news
from pipelines.artifacts.trees import api_tree, feature_tree
from pipelines.run import LOOP, Run

__all__ = ["MAX_BYTES", "Artifact", "Before", "names_after", "of_run", "of_stage", "review_card", "slug"]

MAX_BYTES = 200_000
"""Of one artifact: the UI sends whole pages of them to the browser."""


@dataclass(frozen=True)
class Artifact:
    """One thing to look at, under a key that stays the same, so that the UI keeps its history."""

    kind: Literal["table", "markdown", "image"]
    key: str
    title: str
    data: Any

    @property
    def size(self) -> int:
        """Bytes of the data as JSON."""
        return len(json.dumps(self.data, ensure_ascii=False).encode())


def slug(name: str) -> str:
    """A stage name as part of an artifact key."""
    return name.replace("_", "-")


def names_after(stage: str) -> tuple[str, ...]:
    """The stages that are finished once this one is: the sample stages end together."""
    return LOOP if stage == "08_samples" else (stage,)


def of_stage(run: Run, name: str, before: Before | None = None) -> Iterator[Artifact]:
    """Everything to look at after one stage: its table, its samples, what is new, and what only this stage has."""
    title = report.stage_title(run, name)
    rows = compare(report.stage_rows(run, name), before)
    yield Artifact("table", f"{slug(name)}-counts", title, rows)
    markdown = "\n\n".join([report.stage_samples(run, name), news(run, name, before)])
    yield Artifact("markdown", f"{slug(name)}-samples", title, markdown)
    if name == "02_apis":
        yield Artifact("markdown", "api-tree", f"API tree of {run.root.name}", api_tree(run))
    if name == "03_features":
        yield Artifact("markdown", "feature-tree", f"Feature tree of {run.root.name}", feature_tree(run))
    if name == "04_profiles":
        yield Artifact("markdown", "profile-card", f"One user of {run.root.name}", profile_card(run))
    if name == "05_histories":
        yield Artifact("markdown", "history-timeline", f"One history of {run.root.name}", history_timeline(run))
    if name == "08_samples":
        yield Artifact(
            "markdown", "sample-and-rejection", f"One proved sample and one rejection of {run.root.name}", proved_and_rejected(run)
        )
        yield Artifact("image", "coverage", f"Samples by context and capability, {run.root.name}", coverage_map(run))
    if name == "09_splits":
        yield Artifact("image", "cost", f"Calls and tokens by stage, {run.root.name}", cost_plot(run))


def of_run(run: Run, page: str | None) -> Artifact:
    """The dataset card, last.

    Args:
        page: Address of the UI's artifact pages, for links; None when the UI has no address.
    """
    return Artifact("markdown", "dataset-card", f"Dataset card of {run.root.name}", dataset_card(run, page))
