"""When, where and with what a user acted: drawn before any words are written. Structure only."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipelines.config import RunConfig
from pipelines.records import Capability, Drift, Occasion, Platform, Profile, Scenario, Situation
from pipelines.world import World, preference_of, ranking, utility, weights_of

DAYS_BACK = 240
RECENCY = 1.3
"""Above 1, the months before today hold more events than those long ago."""
SEASON = 0.6
"""How much a context's frequency swings over the year, 0 to 1."""
DRIFT_AGE = (0.35, 0.6)
"""A change of mind lies this far back, as a share of the time shown: enough of the present must follow it."""
STARS_BEST, STARS_OTHER = (3, 4, 4, 5, 5, 5, 5), (1, 2, 2, 3, 3, 4)
"""Stars for the favourite of the moment, and for any other platform."""
UNDONE = 0.25
"""Share of choices against the own preference that are undone afterwards."""


@dataclass(frozen=True)
class PlannedEvent:
    """One event before its words."""

    time: datetime
    platform: str
    """Platform id."""
    api: str
    context: str
    occasion: Occasion
    rating: int | None
    returned: bool


def draw_drift(rng: random.Random, config: RunConfig, world: World, profile: Profile, scenario: Scenario) -> Drift | None:
    """With probability `drift_share`, what the user wanted earlier in one context: the top trait was another one.

    A change that moves the favourite is taken when there is one, so that the history must be read in order.
    """
    if config.history_mode != "chronological" or rng.random() >= config.drift_share:
        return None
    wish = preference_of(profile, scenario.id, rng.choice(scenario.contexts).name)
    if wish is None:
        return None
    traits = [t.name for t in scenario.traits]
    today = ranking(wish.weights, scenario.platforms)[0].platform
    options: list[tuple[bool, list[str]]] = []
    for trait in traits:
        if trait != wish.priorities[0]:
            earlier = [wish.priorities[0] if p == trait else p for p in wish.priorities]
            earlier[0] = trait
            options.append((ranking(weights_of(earlier, traits), scenario.platforms)[0].platform != today, earlier))
    moving = [earlier for moves, earlier in options if moves] or [earlier for _, earlier in options]
    earlier = rng.choice(moving)
    when = local_now(config.now, profile.timezone) - timedelta(days=DAYS_BACK * rng.uniform(*DRIFT_AGE))
    return Drift(
        time=when.replace(microsecond=0).isoformat(), context=wish.context, priorities=earlier, weights=weights_of(earlier, traits)
    )


def plan_events(
    rng: random.Random, config: RunConfig, world: World, profile: Profile, scenario: Scenario, contexts: Sequence[str],
    drift: Drift | None, days: float = DAYS_BACK,
) -> list[PlannedEvent]:  # fmt: skip
    """One event per context given, oldest first.

    Platforms follow a soft choice over the utilities of that time, so that most events show the preference and
    some do not; one-offs and distractors do not at all. A choice against the own preference gets fewer stars.

    Args:
        days: How far back they may lie.
    """
    now = local_now(config.now, profile.timezone)
    situations = {c.name: c for c in scenario.contexts}
    season = {c.name: config.rng("season", scenario.id, c.name).random() for c in scenario.contexts}
    capabilities = {c.name: c for c in scenario.capabilities}
    plan = []
    for context in contexts:
        day = _seasonal_day(rng, now, days, season[context])
        moment = at_hour(rng, day, situations[context])
        capability = rng.choices(list(capabilities), [3.0 if c.open else 1.0 for c in capabilities.values()])[0]
        weights = _weights_then(profile, scenario, context, drift, moment)
        plan.append(_choose(rng, config, world, scenario, context, capabilities[capability], weights, moment))
    return sorted(plan, key=lambda event: event.time)


def _seasonal_day(rng: random.Random, now: datetime, days: float, phase: float) -> datetime:
    """A day that fits the context's season; the recent past is denser."""
    for _ in range(20):
        day = now - timedelta(days=1 + (days - 1) * rng.random() ** RECENCY)
        rate = 1 + SEASON * math.cos(2 * math.pi * (day.timetuple().tm_yday / 365 - phase))
        if rng.random() * (1 + SEASON) < rate:
            return day
    return day


def _weights_then(profile: Profile, scenario: Scenario, context: str, drift: Drift | None, moment: datetime) -> Mapping[str, float]:
    if drift is not None and drift.context == context and moment < datetime.fromisoformat(drift.time):
        return drift.weights
    wish = preference_of(profile, scenario.id, context)
    return wish.weights if wish is not None else {}


def _choose(
    rng: random.Random, config: RunConfig, world: World, scenario: Scenario, context: str, capability: Capability,
    weights: Mapping[str, float], moment: datetime,
) -> PlannedEvent:  # fmt: skip
    platforms = world.candidates(scenario.id, capability.name)
    best = max(platforms, key=lambda p: (utility(weights, p), p.id))
    roll, occasion = rng.random(), "usual"
    chosen: Platform
    if config.history_mode == "preferred_only":
        chosen = best
    elif roll < config.one_off_share:
        occasion, chosen = "one_off", rng.choice(platforms)
    elif roll < config.one_off_share + config.distractor_share:
        occasion, chosen = "distractor", rng.choice(platforms)
    else:
        worth = [math.exp(utility(weights, p) / config.choice_noise) for p in platforms]
        chosen = rng.choices(platforms, worth)[0]
    own = occasion != "one_off"
    rating, returned = None, False
    if config.history_mode != "preferred_only":
        returned = own and chosen is not best and capability.open and rng.random() < UNDONE
        if own and (config.history_mode == "rated" or rng.random() < config.rated_share):
            rating = rng.choice(STARS_BEST if chosen is best else STARS_OTHER)
            rating = min(rating, 2) if returned else rating
    api = next(a for a in world.serving[scenario.id, capability.name] if a.platform == chosen.id)
    kind: Occasion = "one_off" if occasion == "one_off" else "distractor" if occasion == "distractor" else "usual"
    return PlannedEvent(moment, chosen.id, api.name, context, kind, rating, returned)


def at_hour(rng: random.Random, day: datetime, context: Situation) -> datetime:
    """A moment of that day, or of the workday before it, within the hours in which a context usually comes up."""
    if context.workdays:
        day -= timedelta(days=max(day.weekday() - 4, 0))
    first, last = context.hours
    hour = (first + rng.randint(0, (last - first) % 24)) % 24
    return day.replace(hour=hour, minute=rng.choice(range(0, 60, 5)), second=0, microsecond=0)


def local_now(now: str, timezone: str) -> datetime:
    """The run's day in the user's zone; an unknown zone counts as UTC."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    return datetime.fromisoformat(now).replace(tzinfo=zone)
