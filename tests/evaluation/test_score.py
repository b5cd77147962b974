"""Scoring files: both layouts, every way in which predictions can fail to meet their samples, and what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import ConfigError
from pipelines.evaluation.score import score
from pipelines.evaluation.summary import Options
from pipelines.evaluation.versus import versus
from tests.evaluation.helpers import RIGHT, own, seven, write_array, write_lines

PLAIN = Options(draws=0)
THREE = [own(f"s{i}", user=f"u{i}") for i in range(3)]
SEVEN = [seven(["A", [{"f": {"q": [str(i)], "p": ["y"]}}]], user=f"u{i}", query=f"query {i}") for i in range(3)]


def scored(tmp_path: Path, records: list[Any], lines: list[Any], options: Options = PLAIN) -> dict[str, Any]:
    array = "answer" in records[0] if records else True
    data = write_array(tmp_path / "data.json", records) if array else write_lines(tmp_path / "test_it.jsonl", records)
    return score(data, write_lines(tmp_path / "predictions.jsonl", lines), tmp_path / "out", options)


def by_id(*texts: Any) -> list[Any]:
    return [{"id": f"s{i}", "predict": text} for i, text in enumerate(texts)]


def overall(found: dict[str, Any]) -> float:
    return found["groups"]["all"]["metrics"]["overall"]["value"]


def test_predictions_are_joined_by_id_in_any_order(tmp_path: Path):
    found = scored(tmp_path, THREE, by_id(RIGHT, "rubbish", RIGHT)[::-1])

    assert overall(found) == pytest.approx(2 / 3, abs=1e-6)
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert [(row["id"], row["right"]["strict"]) for row in rows] == [("s0", 1), ("s1", 0), ("s2", 1)]


def test_missing_broken_and_blank_lines_are_counted_and_stay_in_the_denominator(tmp_path: Path):
    lines = by_id(RIGHT, RIGHT, RIGHT)
    found = scored(tmp_path, THREE, [lines[0], "", '{"id": "s1", "predict"', lines[2]])

    assert overall(found) == pytest.approx(2 / 3, abs=1e-6)
    joined = found["joined"][0]
    assert (joined["missing"], joined["blank"], joined["broken"]) == (1, 1, 1)
    assert found["failures"] == {"missing_prediction": 1}


def test_duplicates_count_once_when_the_same_and_fail_when_they_differ(tmp_path: Path):
    lines = by_id(RIGHT, "rubbish", "rubbish")
    same = scored(tmp_path / "same", THREE, [*lines, lines[0]])
    hedged = scored(tmp_path / "hedged", THREE, [*lines, {"id": "s1", "predict": RIGHT}])

    assert (overall(same), same["joined"][0]["duplicates"]) == (pytest.approx(1 / 3, abs=1e-6), 1)
    assert (overall(hedged), hedged["failures"]["duplicate_prediction"]) == (pytest.approx(1 / 3, abs=1e-6), 1)


def test_unknown_ids_are_counted_and_no_known_one_is_an_error(tmp_path: Path):
    found = scored(tmp_path, THREE, [*by_id(RIGHT, RIGHT, RIGHT), {"id": "s9", "predict": RIGHT}])

    assert (overall(found), found["joined"][0]["unknown_ids"]) == (1, 1)
    with pytest.raises(ConfigError, match="none of its ids"):
        scored(tmp_path / "other", THREE, [{"id": "s9", "predict": RIGHT}])


def test_without_ids_lines_are_joined_by_order_when_the_counts_agree(tmp_path: Path):
    lines = [{"predict": f"A:[f(q='{i}', p='y')]"} for i in range(3)]

    assert overall(scored(tmp_path, SEVEN, lines)) == 1
    with pytest.raises(ConfigError, match="2 lines for 3 records, and no ids"):
        scored(tmp_path / "few", SEVEN, lines[:2])
    with pytest.raises(ConfigError, match="4 lines for 3 records"):
        scored(tmp_path / "many", SEVEN, [*lines, lines[0]])
    assert not (tmp_path / "few" / "out").exists() or not list((tmp_path / "few" / "out").iterdir())


def test_queries_show_which_lines_are_missing_and_refuse_what_is_misaligned(tmp_path: Path):
    lines = [{"query": f"query {i}", "predict": f"A:[f(q='{i}', p='y')]"} for i in range(3)]
    cut = scored(tmp_path / "cut", SEVEN, lines[:2])
    blank = scored(tmp_path / "blank", SEVEN, [lines[0], "", lines[2]])

    assert (overall(cut), cut["failures"]) == (pytest.approx(2 / 3, abs=1e-6), {"missing_prediction": 1})
    assert (overall(blank), blank["failures"]) == (pytest.approx(2 / 3, abs=1e-6), {"broken_line": 1})
    with pytest.raises(ConfigError, match="line 2 answers another query than record 2"):
        scored(tmp_path / "shifted", SEVEN, [lines[0], lines[0], lines[1]])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (["A", [{"f": {"q": "x"}}]], "write a list of accepted values"),
        (["A", [{"f": {"q": []}}]], "has no accepted value"),
        (["A", [{"f": {"q": ["x"]}, "g": {}}]], "has 2 keys"),
        (["A", []], "no calls"),
        (["A"], "is not .platform, .calls"),
        ([5, [{"f": {}}]], "write the platform's name"),
        ("A", "is not .platform, .calls"),
    ],
)
def test_gold_that_cannot_be_scored_fairly_is_refused_by_record_and_field(answer: Any, words: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=words) as error:
        scored(tmp_path, [SEVEN[0], seven(answer)], [{"predict": "A:[]"}] * 2)
    assert "record 2" in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("[]", "holds no records"),
        ("[{]", "no JSON"),
        ("[{}]", "lacks user_profile"),
        ("[5]", "is no object"),
        ('[{"a": 1}', "lacks|no JSON"),
        ("[\udcff]".encode("utf-8", "surrogateescape").decode("latin-1"), "no JSON"),
    ],
)
def test_data_that_is_no_data_is_one_line(text: str, words: str, tmp_path: Path):
    data = tmp_path / "data.json"
    data.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=words):
        score(data, write_lines(tmp_path / "p.jsonl", [{"predict": "A:[]"}]), tmp_path / "out", PLAIN)


def test_a_split_without_profile_parameters_has_no_profile_figure_and_no_failure(tmp_path: Path):
    records = [seven(["A", [{"f": {"q": ["x"]}}]], profile_params=[])]
    found = scored(tmp_path, records, [{"predict": "A:[f(q='x')]"}])

    assert overall(found) == 1
    assert found["groups"]["all"]["metrics"]["profile_params"]["value"] is None


@pytest.mark.parametrize("text", [None, "", "I'm sorry, I can't do that.", "x" * 1_000_000, "\ud800", {"a": 1}, 5])
def test_whatever_a_model_returns_is_a_counted_row(text: Any, tmp_path: Path):
    for name in ("strict", "official", "all"):
        found = scored(tmp_path / name, THREE, by_id(RIGHT, text, RIGHT), Options(name, draws=0))

        assert found["groups"]["all"]["metrics"]["overall"]["value"] == pytest.approx(2 / 3, abs=1e-6)
        assert found["groups"]["all"]["metrics"]["overall"]["count"] == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"platform": "alpha", "calls": [{"api": "find", "arguments": {"q": [NaN, Infinity], "p": {"a": 1e999}}}]}',
        '{"platform": "alpha", "calls": [{"api": "find", "arguments": {"q": ' + "[" * 900 + "1" + "]" * 900 + "}}]}",
        '[{"name": "alpha__find", "arguments": "' + "[" * 900 + '"}]',
        "alpha:[find(q=[1e999, 1e400], p={'a': [1e999]})]",
        "alpha:[find(q={'\ud800': '\ud800'}, p=['\ud800'])]",
    ],
)
def test_odd_numbers_depths_and_characters_are_counted_rows(text: str, tmp_path: Path):
    found = scored(tmp_path, THREE, by_id(RIGHT, text, RIGHT), Options("all", draws=0))

    assert overall(found) == pytest.approx(2 / 3, abs=1e-6)


def test_an_answer_cut_by_the_token_limit_is_its_own_failure(tmp_path: Path):
    found = scored(tmp_path, THREE, [{"id": "s0", "predict": RIGHT[:12], "finish": "length"}, *by_id(0, RIGHT, RIGHT)[1:]])

    assert found["failures"] == {"truncation": 1}
    assert found["groups"]["all"]["metrics"]["truncation"]["value"] == pytest.approx(1 / 3, abs=1e-6)


def test_all_scorers_stand_side_by_side_with_every_disagreement_listed(tmp_path: Path):
    lines = by_id("Alpha:[find(q='x', p='home')]", RIGHT, "alpha:[find(q='x', p='home', p='home')]")
    found = scored(tmp_path, THREE, lines, Options("all", draws=0))

    assert {name: row["overall"] for name, row in found["scorers"].items()} == pytest.approx(
        {"official": 2 / 3, "strict": 2 / 3, "lenient": 2 / 3}, abs=1e-6
    )
    listed = [json.loads(line) for line in (tmp_path / "out" / "disagreements.jsonl").read_text().splitlines()]
    assert [(row["id"], row["right"]) for row in listed] == [
        ("s0", {"official": 0, "strict": 1, "lenient": 1}),
        ("s2", {"official": 1, "strict": 0, "lenient": 0}),
    ]
    assert found["official"]["gold_it_cannot_score"] == 0


def test_gold_that_the_official_scorer_cannot_score_is_counted(tmp_path: Path):
    twice = seven(["A", [{"f": {"q": ["x"]}}, {"f": {"q": ["y"]}}]])
    found = scored(
        tmp_path, [twice, SEVEN[0]], [{"predict": "A:[f(q='x'), f(q='y')]"}, {"predict": "A:[f(q='0', p='y')]"}], Options("all", draws=0)
    )

    assert found["official"]["gold_it_cannot_score"] == 1
    assert found["scorers"]["official"]["overall"] == 0.5
    assert found["scorers"]["strict"]["overall"] == 1


def test_repeats_give_variance_and_pass_power(tmp_path: Path):
    right = {"s0": (1, 1, 1), "s1": (1, 0, 0), "s2": (0, 0, 0)}
    lines = [{"id": s, "repeat": r, "predict": RIGHT if good else "no"} for s, row in right.items() for r, good in enumerate(row)]
    found = scored(tmp_path, THREE, lines)

    assert found["repeats"]["overall"] == pytest.approx([2 / 3, 1 / 3, 1 / 3], abs=1e-6)
    assert found["repeats"]["mean"] == pytest.approx(4 / 9, abs=1e-6)
    assert found["repeats"]["pass_power"] == pytest.approx({"1": 4 / 9, "2": 1 / 3, "3": 1 / 3}, abs=1e-6)
    assert found["repeats"]["variance"] == pytest.approx(1 / 27, abs=1e-6)


def test_two_files_are_compared_by_sample_and_user(tmp_path: Path):
    records = [own(f"s{i}", user=f"u{i // 2}") for i in range(8)]
    data = write_lines(tmp_path / "test_it.jsonl", records)
    good = write_lines(tmp_path / "good.jsonl", by_id(*[RIGHT] * 8))
    half = write_lines(tmp_path / "half.jsonl", by_id(*[RIGHT, "no"] * 4))
    options = Options(draws=200)

    first = score(data, good, tmp_path / "out", options)
    found = versus(tmp_path / "out", first, score(data, half, tmp_path / "out" / "against", options), options)

    assert found["metrics"]["overall"]["difference"] == 0.5
    assert found["metrics"]["overall"]["p"] == pytest.approx(2 / 16)
    assert (found["right_only_first"], found["right_only_second"], found["mcnemar_p"]) == (4, 0, 0.125)
    assert "good minus half" in (tmp_path / "out" / "comparison.md").read_text()


def test_a_run_folder_or_its_splits_are_scored_together_from_one_file_with_ids(tmp_path: Path):
    write_lines(tmp_path / "splits" / "test_a.jsonl", [own("s0")])
    write_lines(tmp_path / "splits" / "test_b.jsonl", [own("s1"), own("s2")])
    found = score(tmp_path, write_lines(tmp_path / "p.jsonl", by_id(RIGHT, "no", RIGHT)), tmp_path / "out", PLAIN)

    assert overall(found) == pytest.approx(2 / 3, abs=1e-6)
    assert found["groups"]["split test_b"]["metrics"]["overall"]["value"] == 0.5


def test_a_large_or_pretty_array_is_read_piece_by_piece_as_if_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipelines.evaluation.reader._PIECE", 50)
    data = tmp_path / "data.json"
    data.write_text(json.dumps(SEVEN, indent=3, ensure_ascii=False), encoding="utf-8-sig")
    lines = [{"predict": f"A:[f(q='{i}', p='y')]"} for i in range(3)]

    assert overall(score(data, write_lines(tmp_path / "p.jsonl", lines), tmp_path / "out", PLAIN)) == 1


def test_several_processes_give_the_same_bytes_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipelines.evaluation.score.PARALLEL_FROM", 1)
    monkeypatch.setattr("pipelines.evaluation.score.CHUNK", 4)
    data = write_lines(tmp_path / "test_it.jsonl", [own(f"s{i}", user=f"u{i % 5}") for i in range(20)])
    made = write_lines(tmp_path / "p.jsonl", by_id(*[RIGHT if i % 3 else "no" for i in range(20)]))
    for workers in (1, 2):
        score(data, made, tmp_path / str(workers), Options("all", draws=50, workers=workers))

    for name in ("rows.jsonl", "scores.json", "scores.md", "disagreements.jsonl", "cells.jsonl"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_names_from_data_cannot_break_the_report(tmp_path: Path):
    record = own("s0", scenario="<script>|x`")
    scored(tmp_path, [record, own("s1")], by_id(RIGHT, RIGHT))

    for name in ("scores.md", "plots/groups.svg"):
        assert "<script>" not in (tmp_path / "out" / name).read_text()
