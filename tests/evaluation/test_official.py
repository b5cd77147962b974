"""The official scorer gives the published scorer's numbers, and survives what that does not."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigError
from pipelines.evaluation import official
from pipelines.evaluation.score import score
from pipelines.evaluation.summary import Options
from tests.evaluation.helpers import seven, write_array, write_lines
from tests.evaluation.quirks import ERRORS, ROWS, X

OFFICIAL = Options("official", draws=0)


@pytest.mark.parametrize(("quirk", "answer", "query", "profile", "text", "wanted"), ROWS)
def test_every_quirk_gives_the_published_result(quirk: str, answer: Any, query: Any, profile: Any, text: Any, wanted: Any):
    found = official.score(answer, query, profile, text)

    figures = (
        found.overall,
        found.platforms,
        found.tool_names,
        found.tool_param_names,
        found.tool_param_values,
        found.query_hits,
    )
    if isinstance(wanted, str):
        assert (found.failure, found.format, figures) == (wanted, 0, (0, 0, 0, 0, 0, 0)), quirk
    else:
        assert (found.failure, figures) == ("", wanted), quirk


@pytest.mark.parametrize(("quirk", "answer", "text", "columns"), ERRORS)
def test_the_error_table_keeps_its_swap_and_its_gaps(quirk: str, answer: Any, text: str, columns: tuple[str, ...]):
    assert official.score(answer, ["q"], [], text).errors == columns, quirk


def test_a_name_in_both_lists_counts_as_query_only():
    assert official.score(X, ["q"], ["q"], "A:[f(q='x')]").profile_hits == 0


def test_an_extra_profile_argument_sets_only_the_flag_that_is_never_written():
    found = official.score(X, ["q"], ["p"], "A:[f(q='x', p='x')]")

    assert "profile_value_error" in found.unwritten
    assert found.errors == ("param_missing_error",)


CALL = st.sampled_from(["f(q='x')", "f(q='y')", "g(q='x')", "f(q='x', p=1)", "f()", "f(q=[1])", "h(**a)", "f(q=1+1)"])
TEXT = st.one_of(
    st.tuples(st.sampled_from("AB"), st.lists(CALL, max_size=4)).map(lambda t: f"{t[0]}:[{', '.join(t[1])}]"),
    st.text(max_size=60),
)
VALUES = st.lists(st.one_of(st.sampled_from(["x", "y", 1, 2.5, True, None]), st.just(["x"])), max_size=2)
CALLS = st.lists(st.dictionaries(st.sampled_from("fg"), st.dictionaries(st.sampled_from("qp"), VALUES), min_size=1), max_size=3)


@settings(max_examples=300, deadline=None)
@given(CALLS, TEXT)
def test_overall_is_platform_and_value_and_each_level_needs_the_one_before(calls: list[Any], text: str):
    found = official.score(["A", calls], ["q"], ["p"], text)

    assert found.overall == found.platforms * found.tool_param_values
    assert found.tool_param_values <= found.tool_param_names <= found.tool_names <= found.format


HOSTILE = {
    "open brackets": "(" * 15_000,
    "nested lists": "A:[f(q=" + "[" * 300,
    "signs": "A:[f(q=" + "-" * 15_000 + "1)]",
    "words": "A:[f(q=" + "not " * 4_000 + "1)]",
    "dots": "A:[" + "a." * 7_000 + "f(q=1)]",
    "sums": "A:[f(q=" + "1+" * 7_000 + "1)]",
    "digits": "A:[f(q=" + "9" * 16_000 + ")]",
    "hexadecimal": "A:[f(q=0x" + "f" * 16_000 + ")]",
    "power": "A:[f(q=9**9**9)]",
    "shift": "A:[f(q=1<<99999999999)]",
    "repetition": "A:[f(q='a'*999999999)]",
    "format": "A:[f(q='%999999999d' % 1)]",
    "null byte": "A:[f(q='\0')]",
    "surrogate": "A:[f(q='\ud800')]",
    "megabyte": "x" * 1_000_000,
    "code": "A:[f(q=open('hacked','w').write('x')+1)]",
    "comprehension": "A:[f(q=[x for x in ().__class__.__base__.__subclasses__()]+[])]",
    "f-text": "A:[f(q='a'+f'{1:999999999}')]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_output_is_a_format_failure_and_nothing_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    assert official.score(X, ["q"], [], HOSTILE[name])[:6] == (0,) * 6 or name in ("digits", "hexadecimal")
    assert list(tmp_path.iterdir()) == []


def folders(root: Path, trained: list[Any], untrained: list[Any], texts: tuple[list[str], list[str]]) -> tuple[Path, Path]:
    for name, records, made in zip(("test_trained_user", "test_untrained_user"), (trained, untrained), texts, strict=True):
        write_array(root / "data" / name / "data.json", records)
        write_lines(root / "made" / name / "generation.jsonl", [{"query": "q", "label": "l", "predict": text} for text in made])
    return root / "data", root / "made"


def row(path: Path) -> dict[str, float]:
    with path.open(encoding="utf-8", newline="") as file:
        return {name: float(value) for name, value in next(csv.DictReader(file)).items()}


RECORD = seven(["A", [{"f": {"q": ["x"], "p": ["y"]}}]])
GOOD, BAD, WORSE = "A:[f(q='x', p='y')]", "A:[f(q='x', p='z')]", "nothing"


def test_two_folders_give_the_published_files_and_an_overall_weighed_by_size(tmp_path: Path):
    data, made = folders(tmp_path, [RECORD] * 3, [RECORD], ([GOOD, BAD, WORSE], [GOOD]))

    score(data, made, tmp_path / "out", OFFICIAL)

    trained = row(tmp_path / "out" / "test_trained_user" / "acc_results.csv")
    assert list(trained) == list(official.ACCURACIES)
    assert trained["overall"] == pytest.approx(1 / 3)
    assert trained["query_params"] == pytest.approx(2 / 3)
    assert trained["format"] == pytest.approx(2 / 3)
    assert row(tmp_path / "out" / "overall" / "acc_results.csv")["overall"] == pytest.approx((3 * 1 / 3 + 1) / 4)
    assert row(tmp_path / "out" / "overall" / "error_results.csv")["value_error"] == 1


def test_official_weights_stay_609_and_474_whatever_the_sizes(tmp_path: Path):
    data, made = folders(tmp_path, [RECORD] * 3, [RECORD], ([GOOD, BAD, WORSE], [GOOD]))

    score(data, made, tmp_path / "out", Options("official", draws=0, official_weights=True))

    found = row(tmp_path / "out" / "overall" / "acc_results.csv")
    assert found["overall"] == pytest.approx((609 * 1 + 474 / 3) / 1083)
    assert found["query_params"] == pytest.approx((609 * 1 + 474 * 2 / 3) / 1083)


def test_without_profile_parameters_the_official_scorer_divides_by_zero_and_writes_no_table(tmp_path: Path):
    data = write_array(tmp_path / "data.json", [{**RECORD, "profile_params": []}])
    made = write_lines(tmp_path / "generation.jsonl", [{"predict": GOOD}])

    with pytest.raises(ConfigError, match="no profile parameters"):
        score(data, made, tmp_path / "out", OFFICIAL)
    assert not (tmp_path / "out" / "acc_results.csv").exists()


def test_fewer_lines_are_format_failures_and_more_lines_are_ignored(tmp_path: Path):
    data = write_array(tmp_path / "data.json", [RECORD] * 4)
    few = write_lines(tmp_path / "few.jsonl", [{"predict": GOOD}] * 2)
    many = write_lines(tmp_path / "many.jsonl", [{"predict": GOOD}] * 6)

    assert score(data, few, tmp_path / "a", OFFICIAL)["scorers"]["official"]["format"] == 0.5
    found = score(data, many, tmp_path / "b", OFFICIAL)
    assert found["scorers"]["official"]["overall"] == 1
    assert found["joined"][0]["extra"] == 2


def test_a_rerun_that_appended_is_misaligned_as_published_and_said_so(tmp_path: Path):
    records = [seven(["A", [{"f": {"q": [str(i)], "p": ["y"]}}]], query=f"query {i}") for i in range(4)]
    lines = [{"query": f"query {i}", "predict": f"A:[f(q='{i}', p='y')]"} for i in (0, 0, 1, 2, 3)]
    made = write_lines(tmp_path / "generation.jsonl", lines)

    found = score(write_array(tmp_path / "data.json", records), made, tmp_path / "out", OFFICIAL)

    assert found["scorers"]["official"]["tool_param_values"] == 0.25
    assert "answers another query" in found["joined"][0]["notes"][0]


@pytest.mark.parametrize("line", ["", "{broken", '{"query": "no predict"}'])
def test_a_blank_or_broken_line_stops_the_official_scorer_with_its_number(line: str, tmp_path: Path):
    made = write_lines(tmp_path / "generation.jsonl", [{"predict": GOOD}, line, {"predict": GOOD}])

    with pytest.raises(ConfigError, match="line 2"):
        score(write_array(tmp_path / "data.json", [RECORD] * 3), made, tmp_path / "out", OFFICIAL)


def test_the_csv_reads_back_row_for_row_on_any_system(tmp_path: Path):
    text = official.csv_text(official.ERRORS, [dict.fromkeys(official.ERRORS, 2)])

    assert text.count("\r\n") == 2
    assert "\r\r" not in text
