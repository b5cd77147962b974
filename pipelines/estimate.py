"""What a run will cost, measured: a small pilot goes through all stages, and its figures are scaled up.

The pilot keeps everything that makes a request long or a sample hard (platforms, APIs, events, samples per
user and scenario) and takes fewer users and scenarios. So repair turns, rejected work, redrawn slots and
judges are in its figures. The range says how far they can be trusted.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.config import RunConfig, Samples
from pipelines.errors import ChecksFailed
from pipelines.llm.interrupt import interruptible

if TYPE_CHECKING:
    from pipelines.llm.account import Usage

USERS, SCENARIOS = 3, 2
"""Of the pilot."""
STAGES = ("scenarios", "apis", "features", "profiles", "histories", "queries", "solutions", "verify")
DOUBT = {"scenarios": 0.25, "apis": 0.25, "features": 0.35, "profiles": 0.35}
"""Relative doubt that does not shrink with the size of the pilot: other scenarios may be larger or smaller."""
LEAST_DOUBT = 0.15


@dataclass(frozen=True)
class Range:
    """Least and most of one figure."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class StageEstimate:
    """One stage: what the pilot used, and what the run will."""

    stage: str
    pilot_calls: int
    calls: Range
    tokens: Range
    cost: Range | None
    """None when a price is unknown."""


def pilot_config(config: RunConfig) -> RunConfig:
    """The same run with few users and scenarios, and as many samples per user and scenario."""
    users, scenarios = min(USERS, config.users), min(SCENARIOS, len(config.scenarios))
    untrained = min(1, config.untrained_users)
    trained_share = (users - untrained) * scenarios / ((config.users - config.untrained_users) * len(config.scenarios))
    untrained_share = untrained * scenarios / (config.untrained_users * len(config.scenarios)) if untrained else 0
    samples = Samples(
        train=max(1, round(config.samples.train * trained_share)),
        test_trained_users=round(config.samples.test_trained_users * trained_share),
        test_untrained_users=round(config.samples.test_untrained_users * untrained_share),
    )
    data = config.model_dump(mode="json") | {
        "users": users,
        "untrained_users": untrained,
        "layers": None,
        "scenarios": [scenario.model_dump(mode="json") for scenario in config.scenarios[:scenarios]],
        "samples": samples.model_dump(),
    }
    return RunConfig.model_validate(data)


def scale(config: RunConfig, pilot: RunConfig, used: dict[str, Usage], accepted: int, tried: int) -> list[StageEstimate]:
    """Ranges per stage.

    Args:
        used: What each stage of the pilot paid for.
        accepted: Samples of the pilot.
        tried: Samples that it tried for them; their ratio says how sure the yield is.
    """
    scenarios = len(config.scenarios) / len(pilot.scenarios)
    people = scenarios * config.users / pilot.users
    samples = config.samples.total / max(1, accepted)
    found = []
    for stage in STAGES:
        usage = used.get(stage)
        if usage is None:
            continue
        loop = stage in ("queries", "solutions", "verify")
        factor = samples if loop else people if stage in ("profiles", "histories") else scenarios
        doubt = _doubt(stage, usage.calls, accepted, tried) if factor > 1 else LEAST_DOUBT
        low, high = factor * (1 - doubt), factor * (1 + doubt)
        cost = None if usage.unpriced else Range(usage.cost * low, usage.cost * high)
        tokens = Range(usage.tokens * low, usage.tokens * high)
        found.append(StageEstimate(stage, usage.calls, Range(usage.calls * low, usage.calls * high), tokens, cost))
    return found


def _doubt(stage: str, calls: int, accepted: int, tried: int) -> float:
    """Two standard errors of the yield and of the mean of `calls` calls, and what the pilot cannot see."""
    parts = [DOUBT.get(stage, LEAST_DOUBT), 1 / math.sqrt(max(1, calls))]
    if stage in ("queries", "solutions", "verify") and tried:
        share = min(0.99, max(0.01, accepted / tried))
        parts.append(2 * math.sqrt(share * (1 - share) / tried) / share)
    return min(0.9, math.sqrt(sum(part * part for part in parts)))


async def estimate(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Run the pilot in a folder and scale it up.

    Raises:
        ChecksFailed: when the pilot accepts no sample at all.
        PtoolError: whatever stops the pilot.
    """
    from flows import pipeline
    from pipelines.run import Run

    pilot = pilot_config(config)
    run = Run.open(folder, pilot)
    try:
        await run.llm.check()
        try:
            await pipeline(run)
        except ChecksFailed as error:
            if "08_samples" not in run.manifest["stages"]:
                raise
            print(f"ptool: the pilot ended with a failed check, which does not matter here: {error}", file=sys.stderr)
        accepted = run.manifest["stages"]["08_samples"]["kept"]
        if not accepted:
            raise ChecksFailed("the pilot accepted no sample: nothing can be estimated; look at `ptool show` of a small run first")
        tried = accepted + sum(run.manifest["stages"]["08_samples"]["rejected"].values())
        stages = scale(config, pilot, run.ledger.usage(), accepted, tried)
        spent, faults = run.ledger.total(), run.ledger.faults()
        currency = run.llm.budget.prices.currency
    finally:
        await run.close()
    zero = Range(0, 0)
    priced = all(stage.cost is not None for stage in stages)
    return {
        "pilot": {"users": pilot.users, "scenarios": len(pilot.scenarios), "samples": accepted, "tried": tried, "faults": faults}
        | {"calls": spent.calls, "tokens": spent.tokens, "cost": None if spent.unpriced else spent.cost},
        "currency": currency,
        "stages": [_plain(stage) for stage in stages],
        "total": {
            "calls": _pair(sum((s.calls for s in stages), zero)),
            "tokens": _pair(sum((s.tokens for s in stages), zero)),
            "cost": [round(v, 4) for v in _ends(sum((s.cost for s in stages if s.cost), zero))] if priced else None,
        },
    }


def _ends(value: Range) -> tuple[float, float]:
    return value.low, value.high


def _pair(value: Range) -> list[int]:
    return [math.floor(value.low), math.ceil(value.high)]


def _plain(s: StageEstimate) -> dict[str, Any]:
    cost = None if s.cost is None else [round(s.cost.low, 4), round(s.cost.high, 4)]
    return {"stage": s.stage, "pilot_calls": s.pilot_calls, "calls": _pair(s.calls), "tokens": _pair(s.tokens), "cost": cost}


def text(found: dict[str, Any]) -> str:
    """The table."""
    pilot = found["pilot"]
    lines = [
        f"pilot: {pilot['users']} users, {pilot['scenarios']} scenarios, {pilot['samples']} samples accepted of {pilot['tried']} tried; "
        f"{pilot['calls']:,} calls, {pilot['tokens']:,} tokens, {_cost(pilot['cost'], found['currency'])}",
        "",
        f"{'stage':<11} {'calls':>19} {'tokens':>29}   cost",
    ]
    for row in [*found["stages"], {"stage": "total", **found["total"]}]:
        calls, tokens = ("{:,} to {:,}".format(*row[name]) for name in ("calls", "tokens"))
        lines.append(f"{row['stage']:<11} {calls:>19} {tokens:>29}   {_cost(row['cost'], found['currency'])}")
    lines.append("\nincluded: repair turns, rejected and redrawn samples, judges; not included: the pilot itself")
    return "\n".join(lines)


def _cost(cost: list[float] | float | None, currency: str) -> str:
    if cost is None:
        return "unknown (no price; name a price file in limits.prices)"
    return f"{cost[0]:,.4f} to {cost[1]:,.4f} {currency}" if isinstance(cost, list) else f"{cost:,.4f} {currency}"


def print_estimate(config: RunConfig, out: Path | None, as_json: bool) -> None:
    """`ptool estimate`.

    Args:
        out: Where the pilot's run folder is kept; None forgets it.

    Raises:
        PtoolError: whatever stops the pilot.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(interruptible(estimate(config, (out or Path(folder) / "pilot").absolute())))
    print(json.dumps(found, ensure_ascii=False) if as_json else text(found))
