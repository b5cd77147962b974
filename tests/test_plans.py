"""Slots are drawn to quota, hold-outs stay out of training, and what cannot be met is told."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import NO_MISTAKES, Made, make_run

from pipelines.audit import certificate
from pipelines.audit.strict import prove
from pipelines.config import Shares
from pipelines.errors import ChecksFailed, ConfigError
from pipelines.jsonio import read_lines
from pipelines.plans import USUAL, targets
from pipelines.records import Sample
from pipelines.splits import balance


@settings(max_examples=30, deadline=None)
@given(cells=st.integers(50, 150), quota=st.integers(1, 30), seed=st.integers(0, 99))
def test_over_many_cells_the_shares_are_met(cells: int, quota: int, seed: int):
    totals: Counter[str] = Counter()
    for cell in range(cells):
        counts = Counter(target.special for target in targets({}, random.Random(f"{seed} {cell}"), quota))
        totals.update(counts)
        for name, share in USUAL.items():
            assert abs(counts[name] - share * quota) < 1 + 1e-9

    for name, share in USUAL.items():
        assert abs(totals[name] - share * cells * quota) <= 2.5 * cells**0.5 + 1


def test_a_share_of_one_makes_every_target_special():
    assert {t.special for t in targets({**dict.fromkeys(USUAL, 0.0), "ask": 1.0}, random.Random(1), 20)} == {"ask"}


def test_shares_above_one_are_refused():
    with pytest.raises(ValueError, match="at most 1"):
        Shares(ask=0.6, no_tool=0.6)


def test_balancing_makes_every_platform_gold_about_equally_often_in_a_context():
    golds = {(f"u{i}", "s"): {"home": "a" if i % 5 else "b", "work": "b" if i % 3 else "a"} for i in range(60)}
    shares = balance(golds)
    mass: Counter[tuple[str, str]] = Counter()
    for cell, found in golds.items():
        assert abs(sum(shares[cell].values()) - 1) < 1e-4
        assert min(shares[cell].values()) > 0.015
        for context, gold in found.items():
            mass[context, gold] += shares[cell][context]

    for context in ("home", "work"):
        both = mass[context, "a"] + mass[context, "b"]
        assert max(mass[context, "a"], mass[context, "b"]) / both < 0.66


def test_at_least_half_of_all_cells_flip_the_platform(varied: Made):
    from pipelines.audit.texts import flip_pairs

    assert flip_pairs(varied.samples)["share"] >= 0.5


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all three hold-outs."""
    root = tmp_path_factory.mktemp("held") / "run"
    sizes = make_run(
        root,
        NO_MISTAKES,
        scenarios=["shopping", "travel", "takeout"],
        platforms_per_scenario=3,
        apis_per_platform=12,
        users=8,
        samples={
            "train": 60, "test_trained_users": 8, "test_untrained_users": 8,
            "test_new_platforms": 9, "test_new_apis": 10, "test_new_scenarios": 11,
        },
    )  # fmt: skip
    assert sizes == {
        "train": 60, "test_trained_users": 8, "test_untrained_users": 8,
        "test_new_platforms": 9, "test_new_apis": 10, "test_new_scenarios": 11,
    }  # fmt: skip
    return root


def golds(root: Path, split: str) -> tuple[set[str], set[str], set[str]]:
    samples = list(read_lines(root / "splits" / f"{split}.jsonl", Sample))
    apis = {f"{s.platform}/{c.api}" for s in samples for c in s.calls}
    return {s.scenario for s in samples}, {s.platform for s in samples if s.platform}, apis


def test_what_is_held_out_is_gold_in_no_other_split(held_out: Path):
    scenarios, platforms, apis = golds(held_out, "train")

    assert not golds(held_out, "test_new_scenarios")[0] & scenarios
    assert not golds(held_out, "test_new_platforms")[1] & platforms
    assert golds(held_out, "test_new_apis")[2] - apis
    assert certificate.check(str(held_out))[1] == []
    assert prove(held_out, 1).report()["violations"] == 0


def test_every_test_sample_holds_the_canary_and_no_training_sample_does(held_out: Path):
    for path in (held_out / "splits").glob("*.jsonl"):
        for sample in read_lines(path, Sample):
            assert sample.canary.startswith("ptool-canary-") == (path.stem != "train")


def test_a_quota_that_nothing_can_fill_says_which_and_leaves_what_it_has(tmp_path: Path):
    root = tmp_path / "run"
    with pytest.raises(ChecksFailed, match=r"incomplete: missing .*test_new_scenarios.*no cell can hold"):
        make_run(root, NO_MISTAKES, samples={"train": 10, "test_trained_users": 2, "test_untrained_users": 2, "test_new_scenarios": 5})

    assert sum(1 for _ in read_lines(root / "splits" / "train.jsonl", Sample)) == 10
    assert '"complete": false' in (root / "manifest.json").read_text(encoding="utf-8")


def test_a_scenario_with_an_empty_catalogue_is_refused_before_anything_is_made(tmp_path: Path):
    path = tmp_path / "empty.yaml"
    path.write_text("name: empty\ndescription: nothing to do here\ncapabilities: []\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is empty"):
        make_run(tmp_path / "run", NO_MISTAKES, scenarios=[str(path)])
