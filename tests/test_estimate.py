"""The estimate comes from a measured pilot, covers what the run then takes, and says what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config import load
from pipelines.estimate import estimate, pilot_config, scale, text
from pipelines.llm.account import Usage
from pipelines.llm.ledger import Ledger
from tests.making import make_run

WIDER = {"users": 5, "samples": {"train": 40, "test_trained_users": 5, "test_untrained_users": 8}}


async def test_the_range_of_a_pilot_holds_what_the_run_takes(tmp_path: Path):
    import asyncio

    config, _ = load("tiny", None, WIDER)
    found = await estimate(config, tmp_path / "pilot")
    await asyncio.to_thread(make_run, tmp_path / "run", None, **WIDER)
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    took = ledger.total()
    ledger.close()

    assert found["total"]["calls"][0] <= took.calls <= found["total"]["calls"][1]
    assert found["total"]["tokens"][0] <= took.tokens <= found["total"]["tokens"][1]
    assert found["pilot"]["samples"] < config.samples.total
    assert found["total"]["cost"] == [0.0, 0.0]
    assert "verify" in {row["stage"] for row in found["stages"]}


@pytest.mark.parametrize("preset", ["tiny", "quick", "paper"])
def test_a_pilot_keeps_the_samples_per_user_and_scenario_and_what_makes_requests_long(preset):
    config, _ = load(preset)
    pilot = pilot_config(config)

    full = config.samples.total / (config.users * len(config.scenarios))
    small = pilot.samples.total / (pilot.users * len(pilot.scenarios))
    assert small == pytest.approx(full, rel=0.3)
    assert (pilot.platforms_per_scenario, pilot.apis_per_platform, pilot.events) == (
        config.platforms_per_scenario,
        config.apis_per_platform,
        config.events,
    )


def test_an_unknown_price_of_one_stage_leaves_the_total_unknown():
    config, _ = load("paper")
    known, unknown = Usage(10, 1000, 100, cost=0.5), Usage(10, 1000, 100, unpriced=10)
    rows = scale(config, pilot_config(config), {"queries": known, "verify": unknown}, 50, 60)

    assert rows[0].cost is not None
    assert rows[1].cost is None
    assert rows[0].calls.low < 10 * config.samples.total / 50 < rows[0].calls.high
    pair = {"calls": [1, 2], "tokens": [1, 2], "cost": None}
    pilot = {"users": 3, "scenarios": 2, "samples": 50, "tried": 60, "calls": 20, "tokens": 2200, "cost": None}
    assert text({"pilot": pilot, "currency": "USD", "stages": [], "total": pair}).count("unknown") == 2
