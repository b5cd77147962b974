"""Intervals, near-duplicates, calibration and learnability measure what they say."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Made, make_run

from pipelines.audit import learn, page, texts
from pipelines.audit.calibrate import calibrate, measure_offline, plant, sample_items
from pipelines.audit.commands import audit
from pipelines.audit.counting import wilson
from pipelines.audit.defects import DEFECTS
from pipelines.errors import ChecksFailed
from pipelines.run import Run, load_run
from pipelines.verify.rules import first_broken


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 0, 0, 1), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (0, 100, 0, 0.037)],
)
def test_intervals_are_wilsons(hits: int, total: int, low: float, high: float):
    assert wilson(hits, total) == pytest.approx((low, high), abs=2e-4)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.frozensets(st.sampled_from([f"w{i}" for i in range(30)]), min_size=1, max_size=25), max_size=25))
def test_near_duplicates_are_exactly_those_of_comparing_all_pairs(bags: list[frozenset[str]]):
    slow = {(i, j) for (i, a), (j, b) in combinations(enumerate(bags), 2) if len(a & b) >= texts.NEAR * len(a | b)}

    assert set(texts.near_duplicates(bags)) == slow


def test_the_rules_catch_every_planted_defect_and_accuse_no_sound_sample(varied: Made):
    config = load_run(varied.root).config
    items = sample_items(varied.root, config, 1000)
    assert [first_broken(item) for item in items] == [None] * len(items)
    for defect in DEFECTS:
        for item in plant(defect, items, 25, config):
            assert first_broken(item) is not None, (defect.name, item.query.text)


def test_calibration_reports_each_type_with_its_interval(varied: Made):
    async def go() -> dict:
        run = Run.open(varied.root, load_run(varied.root).config)
        try:
            return await calibrate(run.context, varied.root, 4)
        finally:
            await run.close()

    found = asyncio.run(go())

    assert len(found["per_type"]) == len(DEFECTS) + 1
    assert all(row["both"]["hits"] >= max(row["rules"]["hits"], row["judges"]["hits"]) for row in found["per_type"].values())
    assert found["per_type"]["missing required"]["judges"]["share"] == 1.0
    assert found["per_type"]["wrong platform"]["judges"]["share"] < 1.0, "a judge sees no preference, so it cannot know"
    assert found["false_alarms"]["rules"]["hits"] == 0


def test_with_the_offline_model_the_truth_is_known(tmp_path: Path):
    make_run(tmp_path / "run", {"wrong_platform": 0.1, "missing_argument": 0.1, "invented_parameter": 0.1, "leaked_value": 0.1})
    found = measure_offline(tmp_path / "run")

    assert found is not None
    assert found["precision"]["hits"] == found["precision"]["of"] == 24
    assert found["caught"]["hits"] == found["caught"]["of"] >= 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge scenarios with few samples too."""
    monkeypatch.setattr(learn, "FEWEST", 8)


@pytest.mark.usefixtures("small")
def test_history_and_context_tell_the_platform_and_the_query_alone_does_not(varied: Made):
    samples = [s.model_copy(update={"split": "train"}) for s in varied.samples]
    readers = learn.learnability(samples, varied.people, 7)["readers"]

    assert readers["history and context"]["share"] > 0.95
    assert readers["query"]["share"] < readers["history and context"]["share"] - 0.2


@pytest.mark.usefixtures("small")
def test_a_query_that_tells_the_platform_fails_the_bound(varied: Made):
    told = [s.model_copy(update={"query": f"{s.platform.replace('/', '')} " * 5}) for s in varied.samples]
    found = learn.learnability(told, varied.people, 7)

    assert "the query text alone tells" in (learn.problem_of(found, 0.1) or "")


def test_the_report_has_all_its_parts_and_a_page(varied: Made):
    found = audit(load_run(varied.root), strict=True)
    text = page.markdown(found)

    assert found["samples"] == len(varied.samples)
    assert sum(found["coverage"]["split"].values()) == len(varied.samples)
    assert "offline model" in text
    assert "0 violations" in text
    assert all(drawn.startswith("<svg") and drawn.rstrip().endswith("</svg>") for drawn in page.plots(found).values())


def test_the_command_writes_the_report_and_fails_on_violations(varied: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    import argparse
    import shutil

    from pipelines.audit.commands import _audit

    root = tmp_path / "run"
    shutil.copytree(varied.root, root)
    path = root / "splits" / "train.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    args = argparse.Namespace(folder=root, strict=True, calibrate=False, per_type=5, processes=1, json=False)
    with pytest.raises(ChecksFailed, match="violations"):
        _audit(args)

    assert (root / "report" / "audit.json").is_file()
    assert (root / "report" / "audit.md").is_file()
    assert "violations" in capsys.readouterr().out
