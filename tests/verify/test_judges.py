"""Judges that always agree, never agree or talk nonsense; votes; and a writer that ignores the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from making import NO_MISTAKES, Made, make_run

from pipelines.errors import ChecksFailed
from pipelines.jsonio import read_lines
from pipelines.llm.offline import model
from pipelines.records import Sample, Vote
from pipelines.verify.judges import verdict_of

SMALL: dict[str, Any] = {"users": 2, "samples": {"train": 6, "test_trained_users": 1, "test_untrained_users": 2}, "max_rounds": 2}


def votes(*verdicts: str) -> list[Vote]:
    return [Vote(model="m", verdict=v, reason=f"{v} {n}") for n, v in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        (("pass",), "pass", "pass 0"),
        (("fail", "pass", "pass"), "pass", "pass 1"),
        (("pass", "fail"), "fail", "fail 1"),
        (("pass", "unparsed"), "unparsed", "unparsed 1"),
        (("unparsed", "fail", "pass"), "fail", "fail 1"),
        (("unparsed", "unparsed", "pass"), "unparsed", "unparsed 0"),
    ],
)
def test_more_than_half_of_all_votes_must_pass_and_unparsed_never_counts(verdicts: tuple[str, ...], verdict: str, reason: str):
    assert verdict_of(votes(*verdicts)) == (verdict, reason)


def judged_by(monkeypatch: pytest.MonkeyPatch, reply: Any) -> None:
    monkeypatch.setitem(model.HANDLERS, "verify.judge", lambda call: reply)


def test_a_judge_that_always_says_yes_does_not_let_wrong_labels_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    judged_by(monkeypatch, {"reason": "All is well.", "verdict": "pass"})
    with pytest.raises(ChecksFailed, match="preference_mismatch"):
        make_run(tmp_path / "run", {"wrong_platform": 1.0}, **SMALL)

    kept = list(read_lines(tmp_path / "run" / "08_samples.jsonl", Sample))
    assert all(sample.act != "call" for sample in kept)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [({"reason": "I like nothing.", "verdict": "fail"}, "judge_failed"), ({"opinion": 42}, "judge_unparsed")],
)
def test_a_judge_that_never_says_yes_ends_the_run_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Any, reason: str):
    judged_by(monkeypatch, reply)
    with pytest.raises(ChecksFailed, match=rf"incomplete: .*{reason}"):
        make_run(tmp_path / "run", NO_MISTAKES, **SMALL)


def test_all_votes_and_their_disagreement_stay_in_the_record(tmp_path: Path):
    make_run(tmp_path / "run", {"judge_too_strict": 0.2}, judge_votes=3, **{**SMALL, "max_rounds": 12})
    samples = list(read_lines(tmp_path / "run" / "08_samples.jsonl", Sample))

    assert all(len(s.verification.votes) == 3 for s in samples)
    assert any(vote.verdict == "fail" for s in samples for vote in s.verification.votes)
    assert all(2 * sum(v.verdict == "pass" for v in s.verification.votes) > 3 for s in samples)


def test_a_writer_that_ignores_the_plan_makes_no_sample_and_the_field_is_named(tmp_path: Path):
    with pytest.raises(ChecksFailed, match="incomplete"):
        make_run(tmp_path / "run", {"off_plan": 1.0}, **SMALL)

    lost = [json.loads(line) for line in (tmp_path / "run" / "rejected" / "08_samples.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {r["reason"] for r in lost} <= {
        "wrong_act",
        "plan_not_followed",
        "other_capability",
        "missing_required",
        "not_identifiable",
        "asks_for_another",
        "preference_mismatch",
    }
    assert all("planned" in r["detail"] or "serve" in r["detail"] or "missing" in r["detail"] or "chose" in r["detail"] for r in lost)


def test_the_gate_needed_keeps_only_what_the_profile_makes_answerable(tmp_path: Path):
    make_run(tmp_path / "run", NO_MISTAKES, needed=True, shares={"ask": 0.0, "no_tool": 0.0}, **{**SMALL, "users": 3, "max_rounds": 30})
    samples = list(read_lines(tmp_path / "run" / "08_samples.jsonl", Sample))

    for sample in samples:
        if sample.kinds:
            assert sample.verification.needed == {"without_profile": "fails", "shuffled_profile": "fails", "everything": "passes"}


def test_accepted_samples_hold_their_rules_by_name(tiny: Made):
    from pipelines.verify.rules import RULES

    assert all(sample.verification.rules == [rule.__name__ for rule in RULES] for sample in tiny.samples)
