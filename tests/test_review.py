"""A sheet goes out to people, comes back, and what they corrected is applied with its history."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from making import Made

from pipelines.audit import certificate
from pipelines.audit.strict import prove
from pipelines.errors import ConfigError
from pipelines.jsonio import read_lines
from pipelines.records import Sample
from pipelines.review import apply_sheet, read_sheet, write_sheet
from pipelines.run import load_run


@pytest.fixture
def copy(varied: Made, tmp_path: Path) -> Path:
    root = tmp_path / "run"
    shutil.copytree(varied.root, root)
    return root


def fill(path: Path, change) -> None:
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    for number, row in enumerate(rows):
        change(number, row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def sheet(root: Path, form: str = "csv", count: int = 3) -> Path:
    path = root / "review" / f"sheet.{form}"
    write_sheet(load_run(root), path, count, form)
    return path


def sample_of(root: Path, wanted: str) -> Sample:
    return next(s for p in (root / "splits").glob("*.jsonl") for s in read_lines(p, Sample) if s.id == wanted)


def test_an_untouched_round_trip_changes_nothing_and_knows_no_accuracy(copy: Path):
    before = (copy / "splits" / "train.jsonl").read_bytes()
    found = apply_sheet(load_run(copy), sheet(copy))

    assert found["accuracy"]["of"] == 0
    assert found["unfilled"] > 0
    assert (copy / "splits" / "train.jsonl").read_bytes() == before


def test_every_stratum_gives_its_samples(copy: Path):
    rows = read_sheet(sheet(copy, count=2))
    strata = {row["stratum"] for row in rows}

    assert len(strata) > 3
    assert all(sum(row["stratum"] == name for row in rows) <= 2 for name in strata)


def test_verdicts_give_accuracy_and_corrections_are_applied_with_history(copy: Path):
    path = sheet(copy)
    rows = read_sheet(path)
    target = next(
        i
        for i, r in enumerate(rows)
        if r["act"] == "call"
        and any(
            s.kind == "query" and isinstance(v, str)
            for c in sample_of(copy, r["id"]).calls[:1]
            for p, s in c.sources.items()
            for v in [c.arguments.get(p)]
        )
    )
    sample = sample_of(copy, rows[target]["id"])
    name = next(p for p, s in sample.calls[0].sources.items() if s.kind == "query" and isinstance(sample.calls[0].arguments.get(p), str))
    schema_free = "enum" not in json.dumps(load_schema(copy, sample, name))

    def verdicts(number: int, row: dict) -> None:
        row["verdict"] = "right"
        if number == target:
            row["verdict"], row["wrong"] = "wrong", f"0.{name}"
            row["value"] = "a corrected thing" if schema_free else sample.calls[0].arguments[name]

    fill(path, verdicts)
    found = apply_sheet(load_run(copy), path)

    assert found["accuracy"]["hits"] == found["accuracy"]["of"] - 1
    assert found["corrected"] == 1
    if schema_free:
        assert sample_of(copy, sample.id).calls[0].arguments[name] == "a corrected thing"
        assert sample_of(copy, sample.id).why[0][name][0] == "corrected_by_hand"
    history = [json.loads(line) for line in (copy / "review" / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [h["sample"] for h in history if h["done"] == "corrected"] == [sample.id]
    assert (copy / "review" / "before" / f"{sample.split}.jsonl").is_file()
    assert certificate.check(str(copy))[1] == []
    report = prove(copy, 1).report()
    assert report["violations"] == 0, report["shown"]
    assert report["corrected_by_hand"] == 1


def load_schema(root: Path, sample: Sample, path: str) -> dict:
    from pipelines.audit.strict import read_population

    world = read_population(root).world
    api = world.api[sample.platform, sample.calls[0].api]
    return next(leaf.schema for leaf in world.leaves_of[api.id] if leaf.path == path)


def test_a_wrong_sample_without_a_right_value_is_withdrawn(copy: Path):
    path = sheet(copy)
    wanted = read_sheet(path)[0]["id"]
    fill(path, lambda number, row: row.update(verdict="wrong", wrong="query") if number == 0 else None)
    found = apply_sheet(load_run(copy), path)

    assert found["withdrawn"] == 1
    assert all(s.id != wanted for p in (copy / "splits").glob("*.jsonl") for s in read_lines(p, Sample))
    assert prove(copy, 1).report()["violations"] == 0


def test_provenance_can_be_changed(copy: Path):
    path = sheet(copy, count=20)
    rows = read_sheet(path)
    place, sample = next(
        (i, s)
        for i, r in enumerate(rows)
        for s in [sample_of(copy, r["id"])]
        if s.calls and any(x.kind == "profile" for x in s.calls[0].sources.values())
    )
    name = next(p for p, s in sample.calls[0].sources.items() if s.kind == "profile")
    fill(path, lambda n, row: row.update(verdict="right", wrong=f"0.{name}", provenance="query") if n == place else None)
    apply_sheet(load_run(copy), path)

    assert sample_of(copy, sample.id).calls[0].sources[name].kind == "query"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "maybe"}, "write right or wrong"),
        ({"verdict": "right", "id": "u9999.nowhere.001"}, "no sample"),
        ({"verdict": "wrong", "wrong": "17.item", "value": "x"}, "write <call>.<path>"),
        ({"verdict": "wrong", "wrong": "0.no_such_thing", "value": "x"}, "has no parameter"),
        ({"verdict": "right", "provenance": "heaven"}, "write query or profile"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_nothing_is_written(copy: Path, change: dict, said: str):
    path = sheet(copy)
    rows = read_sheet(path)
    place = next(i for i, r in enumerate(rows) if r["act"] == "call")
    fill(path, lambda n, row: row.update(change) if n == place else None)
    before = {p.name: p.read_bytes() for p in (copy / "splits").iterdir()}
    with pytest.raises(ConfigError, match=f"row {place + 2}.*{said}"):
        apply_sheet(load_run(copy), path)

    assert {p.name: p.read_bytes() for p in (copy / "splits").iterdir()} == before


def test_jsonl_comes_back_as_well(copy: Path):
    path = sheet(copy, "jsonl")
    lines = [json.loads(line) | {"verdict": "right"} for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    assert apply_sheet(load_run(copy), path)["accuracy"]["share"] == 1.0


def test_cells_that_a_spreadsheet_would_run_are_quoted():
    from pipelines.review import _cell

    assert _cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert _cell("plain") == "plain"


@pytest.mark.parametrize("text", ["not json\n", "[1]\n"])
def test_a_broken_sheet_is_named_with_its_line(tmp_path: Path, text: str):
    path = tmp_path / "sheet.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1"):
        read_sheet(path)
