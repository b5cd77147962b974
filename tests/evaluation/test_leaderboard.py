"""The leaderboard: read from score files, looked at in a real browser where there is one; and the failure explorer."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import ConfigError
from pipelines.evaluation.explore import wrong
from pipelines.evaluation.leaderboard import write_leaderboard
from pipelines.evaluation.metrics import NAMES
from pipelines.evaluation.score import score
from pipelines.evaluation.summary import Options
from tests.evaluation.helpers import RIGHT, own, write_lines

WRONG_VALUE = "alpha:[find(q='y', p='home')]"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three solvers on one data file, a hostile one on another."""
    root = tmp_path_factory.mktemp("board")
    records = [own(f"s{i}", user=f"u{i % 4}", scenario=("shopping", "takeout")[i % 2]) for i in range(12)]
    data = write_lines(root / "data" / "test_it.jsonl", records)
    solvers = {
        "good": [RIGHT] * 11 + [WRONG_VALUE],
        "middling": [RIGHT, WRONG_VALUE] * 6,
        "poor": ["beta:[find(q='x', p='home')]", "cut off:[f(", RIGHT] * 4,
    }
    for name, texts in solvers.items():
        lines = [{"id": f"s{i}", "predict": text} for i, text in enumerate(texts)]
        score(data, write_lines(root / "made" / f"{name}.jsonl", lines), root / "scores" / name, Options(draws=40))
    other = write_lines(root / "data" / "test_other.jsonl", [own("s0", query=HOSTILE)])
    made = write_lines(root / "made" / "evil.jsonl", [{"id": "s0", "predict": HOSTILE}])
    score(other, made, root / "scores" / "evil", Options(draws=0, name=f"=1+1 {HOSTILE}"))
    (root / "scores" / "broken").mkdir()
    (root / "scores" / "broken" / "scores.json").write_text("{}")
    assert write_leaderboard(root / "scores", root / "scores") == 4
    return root / "scores"


def test_the_csv_has_every_group_and_metric_with_intervals(board: Path):
    with (board / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    found = {(row["solver"], row["group"]): row for row in rows}
    assert float(found["good", "all"]["overall"]) == pytest.approx(11 / 12, abs=1e-6)
    assert float(found["middling", "scenario takeout"]["overall"]) == 0
    assert set(NAMES) <= set(rows[0])
    assert found["good", "all"]["overall_low"] != ""
    assert any(row["solver"].startswith("'=1+1") for row in rows)


def test_a_folder_without_scores_is_one_line(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no readable scores\.json"):
        write_leaderboard(tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="is no folder"):
        write_leaderboard(tmp_path / "gone", tmp_path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright; without them these tests are skipped, and say so."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="NOT LOOKED AT: install playwright to look at the leaderboard")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("NOT LOOKED AT: install chromium to look at the leaderboard")
    with sync_api.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any, board: Path) -> Iterator[Any]:
    """The page, opened from its file; requests, console errors and exceptions are in `page.complaints`."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.complaints = []
    page.on("console", lambda m: page.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: page.complaints.append(str(e)))
    page.on("request", lambda r: page.complaints.append(r.url) if r.url != (board / "index.html").as_uri() else None)
    page.goto((board / "index.html").as_uri())
    yield page
    assert page.complaints == []
    page.close()


def names(page: Any) -> list[str]:
    return [text.split("strict")[0].strip() for text in page.locator("#board tbody tr td:first-child").all_text_contents()]


def test_it_opens_from_a_file_best_first_and_sorts_by_any_column(page: Any):
    assert names(page) == ["good", "middling", "poor"]

    page.locator("#board thead button", has_text="overall").click()
    assert names(page) == ["poor", "middling", "good"]
    page.locator("#board thead button", has_text="solver").click()
    assert names(page) == ["good", "middling", "poor"]
    page.locator("#board thead button", has_text="regret").click()
    assert names(page)[-1] == "poor"


def test_it_filters_and_selects_groups_and_metrics(page: Any):
    page.locator("#filter").fill("MIDD")
    assert names(page) == ["middling"]
    page.locator("#filter").fill("")
    page.locator("#group").select_option("scenario takeout")
    row = page.locator("#board tbody tr", has_text="middling")
    assert row.locator("td").nth(1).inner_text().startswith("0.000")
    page.locator("#metric").select_option("error_param_value")
    assert names(page)[0] in ("good", "poor")
    assert "samples in class param_value" in page.locator("#formula").inner_text()
    assert "fewer than 20 users" in page.locator("#warning").inner_text()


def test_it_shows_intervals_errors_and_single_samples(page: Any):
    row = page.locator("#board tbody tr", has_text="middling")
    assert " to " in row.locator("td").nth(1).inner_text()
    row.click()
    assert "param_value" in page.locator("#errors").inner_text()
    page.locator("#class").select_option("param_value")
    first = page.locator("#samples details").first
    first.locator("summary").click()
    assert WRONG_VALUE in first.inner_text()
    assert "param_value find.q" in first.inner_text()


def test_hostile_names_and_texts_are_shown_and_never_run(page: Any):
    label = page.locator("#data option", has_text="test_other").get_attribute("value")
    page.locator("#data").select_option(label)
    assert HOSTILE in page.locator("#board tbody").inner_text()
    page.locator("#board tbody tr").first.click()
    assert page.locator("#samples details").count() == 1
    assert page.evaluate("window.hacked") is None


def test_it_is_readable_on_a_phone(page: Any):
    page.set_viewport_size({"width": 375, "height": 800})
    page.locator("#board tbody tr").first.click()

    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    cell = page.locator("#board tbody td").nth(1)
    assert cell.bounding_box()["width"] <= 375
    assert page.evaluate("getComputedStyle(document.querySelector('#board tbody td:nth-child(2)'), '::before').content") == '"overall"'


# The failure explorer


def test_a_failure_is_told_with_gold_evidence_and_difference(board: Path):
    told = list(wrong(board / "middling", "param_value", 2))

    assert len(told) == 2
    assert told[0].startswith("s1  param_value\n  query       Find x, please (s1)")
    for words in ("alpha:[find(q='x', p='home')]", "find.p from the profile", "utilities alpha 0.800, beta 0.500", WRONG_VALUE):
        assert words in told[0]
    assert '* param_value find.q: gold ["x"], made "y"' in told[0]


def test_a_wrong_platform_is_told_with_the_utility_lost(board: Path):
    told = next(wrong(board / "poor" / "scores.json", "platform", 1))

    assert 'platform platform: gold "alpha", made "beta"; utility 0.5 against 0.8' in told


def test_what_the_explorer_cannot_do_is_one_line(board: Path, tmp_path: Path):
    assert list(wrong(board / "good", "format", 3)) == ["no wrong samples of class format"]
    with pytest.raises(ConfigError, match="write one of format, platform"):
        list(wrong(board / "good", "typo", 3))
    with pytest.raises(ConfigError, match=r"has no scores\.json"):
        list(wrong(tmp_path, None, 3))
    copy = shutil.copytree(board / "good", tmp_path / "copy")
    scores = json.loads((copy / "scores.json").read_text())
    scores["data"]["files"][0]["sha256"] = "0" * 64
    (copy / "scores.json").write_text(json.dumps(scores))
    with pytest.raises(ConfigError, match="is not the file that was scored"):
        list(wrong(copy, None, 3))
