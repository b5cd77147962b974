"""Strict proof from the files: a sound run has no violations, and every kind of tampering is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from making import Made

from pipelines.audit import certificate
from pipelines.audit.strict import prove
from pipelines.errors import ConfigError

Line = dict[str, Any]


@pytest.fixture
def copy(varied: Made, tmp_path: Path) -> Path:
    root = tmp_path / "run"
    shutil.copytree(varied.root, root)
    return root


def rewrite(root: Path, name: str, change: Callable[[list[Line]], list[Line]]) -> None:
    path = root / name
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in change(lines)), encoding="utf-8")


def first_call(lines: list[Line]) -> Line:
    return next(line for line in lines if line["calls"] and line["calls"][0]["arguments"])


def test_a_finished_run_has_no_violations(varied: Made):
    found = prove(varied.root).report()

    assert found["violations"] == 0, found["shown"]
    assert found["checked"] == len(varied.samples)


def test_two_processes_find_the_same_as_one(varied: Made):
    assert prove(varied.root, 2).report() == prove(varied.root, 1).report()


def _platform(lines: list[Line]) -> list[Line]:
    first_call(lines)["platform"] = "shopping/nobody"
    return lines


def _value(lines: list[Line]) -> list[Line]:
    call = first_call(lines)["calls"][0]
    call["arguments"][next(iter(call["arguments"]))] = "something nobody said"
    return lines


def _accepted(lines: list[Line]) -> list[Line]:
    accepted = first_call(lines)["accepted"][0]
    accepted[next(iter(accepted))].append("anything goes")
    return lines


def _margin(lines: list[Line]) -> list[Line]:
    lines[0]["evidence"]["margin"] = 0.99
    return lines


def _context(lines: list[Line]) -> list[Line]:
    lines[0]["context"] = "another"
    return lines


def _text(lines: list[Line]) -> list[Line]:
    lines[0]["query"] = "Do something else."
    return lines


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (_platform, "unknown_api"),
        (_value, "unreachable_value"),
        (_accepted, "accepted_differs"),
        (_margin, "evidence_differs"),
        (_context, "field_not_of_the_plan"),
        (_text, "no_plan"),
        (lambda lines: [*lines, lines[0]], "sample_twice"),
        (lambda lines: lines[1:], "sample_lost"),
    ],
)
def test_tampering_is_named(copy: Path, change: Callable[[list[Line]], list[Line]], rule: str):
    rewrite(copy, "splits/train.jsonl", change)
    found = prove(copy, 1).report()["by_rule"]

    assert rule in found or (rule == "unreachable_value" and "schema_invalid" in found), found
    assert "split_changed" in found


def test_a_history_that_was_changed_afterwards_breaks_the_evidence(copy: Path):
    def other_platforms(lines: list[Line]) -> list[Line]:
        for line in lines:
            line["events"] = line["events"][:1]
        return lines

    rewrite(copy, "05_histories.jsonl", other_platforms)
    found = prove(copy, 1).report()["by_rule"]

    assert "belief_differs" in found
    assert "evidence_differs" in found


def test_a_run_without_splits_says_how_to_finish_it(copy: Path):
    shutil.rmtree(copy / "splits")
    with pytest.raises(ConfigError, match="ptool run"):
        prove(copy)


def test_the_certificate_holds_by_the_standard_library_alone(varied: Made):
    sizes, wrong = certificate.check(str(varied.root))

    assert wrong == []
    assert sum(sizes.values()) == len(varied.samples)


def test_the_verifier_imports_nothing_of_ours():
    text = Path(certificate.__file__).read_text(encoding="utf-8")

    assert "pipelines" not in text.partition('"""\n\n')[2]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("splits/train.jsonl", lambda lines: [*lines, lines[0]], "is also in train"),
        ("splits/test_untrained_users.jsonl", lambda lines: [{**lines[0], "canary": ""}, *lines[1:]], "canary"),
        ("splits/train.jsonl", lambda lines: lines[1:], "SHA-256"),
    ],
)
def test_a_false_claim_of_the_certificate_is_told(copy: Path, name: str, change: Callable, said: str, capsys: pytest.CaptureFixture[str]):
    rewrite(copy, name, change)

    assert certificate.main([str(copy)]) == 1
    assert said in capsys.readouterr().err


def test_a_folder_without_a_certificate_is_no_proof(tmp_path: Path):
    assert certificate.main([str(tmp_path)]) == 2
    assert certificate.main([]) == 2
