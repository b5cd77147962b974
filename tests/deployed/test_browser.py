"""The UI as a person sees it: headless Chromium goes from the runs to the graph, the artifacts and the form.

Skipped, loudly, where Chromium or Playwright is missing (`apt-get install chromium`, `pip install playwright`).
Screenshots are kept in `outputs/screenshots/`.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Finished, Prefect

from pipelines.config import ROOT

SCREENSHOTS = ROOT / "outputs" / "screenshots"
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Visit:
    """One browser page, and everything it asked for or complained about."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self._note(message.text, message.location["url"]) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._stumbled(str(error)))
        page.on("response", lambda answer: self._note(str(answer.status), answer.url) if answer.status >= 400 else None)
        page.on("request", lambda request: self.elsewhere.append(request.url) if not request.url.startswith(self._ours) else None)

    def _note(self, words: str, url: str) -> None:
        """A complaint; Prefect's own page asks for icons that it does not have."""
        if not url.endswith(("/ico/undefined.svg", "/favicon.ico")):
            self.problems.append(f"{words} {url}")

    def _stumbled(self, words: str) -> None:
        """An error in a script; Prefect's graph goes on moving its nodes for a while after one has left its page."""
        if not words.startswith("Cannot read properties of null (reading '"):
            self.problems.append(words)

    @property
    def _ours(self) -> tuple[str, ...]:
        return (self.address, self.address.replace("http", "ws"), "data:", "blob:")

    def shot(self, name: str) -> None:
        """Keep a picture of what is on the screen."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"))

    def see(self, words: str) -> None:
        """Wait until these words stand somewhere on the page."""
        self.page.get_by_text(words).first.wait_for(timeout=20_000)


@pytest.fixture(scope="module")
def visit(finished: Finished, deployed: Prefect) -> Iterator[Visit]:
    playwright = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TEST: pip install playwright")
    if CHROMIUM is None:
        warnings.warn("NO BROWSER TEST: no chromium here; apt-get install chromium", stacklevel=1)
        pytest.skip("NO BROWSER TEST: no chromium here; apt-get install chromium")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(20_000)
        found = Visit(page, deployed.address)
        page.goto(f"{deployed.address}/", wait_until="load")
        yield found
        browser.close()


def test_from_the_runs_to_the_graph_with_every_stage(visit: Visit, finished: Finished):
    page = visit.page
    page.get_by_text("Runs", exact=True).first.click()
    visit.see(finished.run["name"])
    visit.shot("1_runs")
    page.get_by_text(finished.run["name"]).first.click()
    visit.see("Completed")
    page.locator("canvas").first.wait_for()
    page.get_by_text("Task Runs", exact=True).click()
    for stage in ("01_scenarios", "02_apis", "03_features", "04_profiles", "05_histories", "samples[000]", "08_samples", "09_splits"):
        visit.see(stage)
    visit.shot("2_graph_and_tasks")


def test_the_artifacts_of_the_run_are_readable(visit: Visit, finished: Finished):
    page = visit.page
    page.get_by_text("Artifacts", exact=True).first.click()
    visit.see("08-samples-counts")
    visit.shot("3_artifacts")
    shown = {
        "dataset-card": "24 samples, complete",
        "api-tree": "shopping: 2 platforms, 12 APIs",
        "history-timeline": "what happened",
        "08-samples-counts": "run folder",
        "sample-and-rejection": "passed",
        "profile-card": "hidden from every solver",
        "coverage": "Samples by context and capability",
    }
    for key, words in shown.items():
        page.get_by_text(key, exact=True).first.click()
        visit.see(words)
        if key in ("coverage", "api-tree", "history-timeline"):
            page.wait_for_function("[...document.images].some(i => i.src.startsWith('data:image/svg') && i.naturalWidth > 300)")
        if key == "sample-and-rejection":
            visit.see("evidence (hidden from the solver)")
        visit.shot(f"4_{key}")
        page.go_back()
        page.get_by_text("Artifacts", exact=True).first.click()
        visit.see("08-samples-counts")
    assert "offline model" in page.content()


def test_the_parameters_and_the_form_show_the_config(visit: Visit):
    page = visit.page
    page.get_by_text("Parameters", exact=True).first.click()
    visit.see("apis_per_platform")
    visit.shot("5_parameters")
    page.locator("a[href*='/deployments/deployment/']").first.click()
    page.get_by_role("button", name="Run", exact=True).first.click()
    page.get_by_text(re.compile("custom run", re.IGNORECASE)).first.click()
    for title in ("Timeout (seconds)", "Users (people)", "Min margin (utility, 0 to 1)", "Scenarios", "key_name", "runner"):
        visit.see(title)
    visit.see("A label needs the best platform to be this much better than the second.")
    visit.shot("6_form")


def test_nothing_broke_and_nobody_else_was_asked(visit: Visit):
    assert visit.problems == []
    assert visit.elsewhere == []
