"""What `ptool status` tells comes from the ledger and the files, while a run is going too."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.run import load_run
from pipelines.status import live, live_text
from tests.making import make_run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("status") / "run"
    make_run(folder)
    return folder


def test_a_finished_run_tells_samples_tokens_cost_and_rejects(root: Path):
    run = load_run(root)
    with run.reading():
        found = live(run)
        shown = live_text(run)

    assert found["going"] is False
    assert found["samples"]["accepted"] == found["samples"]["wanted"] == 24
    assert found["cost"] == 0.0
    assert found["cost_per_accepted"] == 0.0
    assert found["rejects"] == {
        reason: sum(stage["rejected"].get(reason, 0) for stage in run.manifest["stages"].values()) for reason in found["rejects"]
    }
    assert found["endpoints"][0]["slots"] == 16
    assert "24 of 24 accepted" in shown


def test_a_run_that_is_going_has_an_eta_from_its_own_speed_and_never_a_negative_one(root: Path):
    run = load_run(root)
    with run.reading():
        run.ledger._change(__import__("sqlalchemy").text("update sessions set ended_at = null, seen_at = seen_at"))
        (session,) = run.ledger.sessions()
        done = run.manifest["stages"].pop("08_samples")
        found = live(run, now=session["seen_at"] + 1)
        behind = live(run, now=session["started_at"] - 3600)
        run.manifest["stages"]["08_samples"] = done

    assert found["going"] is True
    assert found["eta_s"] is not None
    assert found["eta_s"] >= 0
    assert behind["eta_s"] is None or behind["eta_s"] >= 0
    assert found["samples"]["accepted"] == 0


def test_a_session_without_a_sign_of_life_is_not_going(root: Path):
    run = load_run(root)
    with run.reading():
        assert live(run, now=time.time() + 60)["going"] is False


def test_the_share_of_the_prefix_cache_and_unknown_prices_are_told(root: Path):
    import asyncio

    from tests.llm.test_ledger import ENTRY, PAID

    run = load_run(root)
    with run.reading():
        asyncio.run(run.ledger.keep(replace(PAID, cost=None, prompt_tokens=10**6, cached_tokens=5 * 10**5), ENTRY))
        found = live(run)
        shown = live_text(run)

    assert found["cached_share"] == pytest.approx(5e5 / found["prompt_tokens"], abs=1e-3)
    assert found["cost"] is None
    assert found["unpriced_calls"] == 1
    assert "unknown" in shown
