"""Stage 5: behaviour histories that show preferences and never state them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pipelines.errors import ReplyError
from pipelines.llm import prompts
from pipelines.llm.prompts import Block, block
from pipelines.llm.schemas import first_error
from pipelines.records import API, Event, History, Profile, Rejection, Scenario
from pipelines.replies import EventReply, HistoryReply
from pipelines.stage import Context, StageResult, gather
from pipelines.verify.leaks import preference_not_stated
from pipelines.views import market_view, tools_block, writer_view
from pipelines.world import World, preference_of, utility

ATTEMPTS = 3
SPARE = 3
"""Events planned beyond the drawn number, so that a dropped one does not make the history too short."""
MONTHS_BACK = 8


async def simulate_histories(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], profiles: Sequence[Profile]
) -> StageResult[History]:
    """Let each user live for some months in each scenario.

    One call per user and scenario. When, in which context, on which platform and with which API is
    drawn first: platforms by a soft choice over the user's utilities, so that most events follow the
    preference and some do not. The model fills in arguments and a line of summary. An event that is not
    valid, or states a preference, is dropped.

    Returns:
        One history per user and scenario, in that order; a user whose history stays too short is rejected there.
    """
    world = World(scenarios, apis)
    tools = {s.id: tools_block(s.platforms, world.apis_of, levels=False) for s in scenarios}
    markets = {s.id: block(market_view(s)) for s in scenarios}
    jobs = [(profile, scenario) for profile in profiles for scenario in scenarios]

    async def simulate(job: tuple[Profile, Scenario]) -> tuple[History | None, list[Rejection]]:
        profile, scenario = job
        return await _simulate(ctx, world, profile, scenario, tools[scenario.id], markets[scenario.id])

    result: StageResult[History] = StageResult()
    for history, rejected in await gather(jobs, simulate):
        result.rejected.extend(rejected)
        if history is not None:
            result.kept.append(history)
    return result


async def _simulate(
    ctx: Context, world: World, profile: Profile, scenario: Scenario, tools: Block, market: Block
) -> tuple[History | None, list[Rejection]]:
    key = f"{profile.id}.{scenario.id}"
    rejected: list[Rejection] = []
    for attempt in range(ATTEMPTS):
        plan = plan_events(ctx.config.rng("histories", key, attempt), ctx, world, profile, scenario)
        values = {
            "tools": tools,
            "scenario": market,
            "person": writer_view(profile, scenario.id).model_dump(),
            "events": [
                {"number": i, "time": e["time"], "platform": world.platform[e["platform"]].name, "api": e["api"], "context": e["context"]}
                for i, e in enumerate(plan, start=1)
            ],
        }
        try:
            reply, _ = await ctx.llm.ask(
                prompts.load("histories.simulate"), values, HistoryReply, stage="histories", subject=key, repeat=attempt
            )
        except ReplyError as error:
            rejected.append(Rejection(stage="histories", subject=key, reason=error.reason, detail=error.detail))
            continue
        told = {event.number: event for event in reply.events}
        events: list[Event] = []
        for number, planned in enumerate(plan, start=1):
            problem = event_is_valid(told.get(number), planned, world, profile, scenario)
            if problem is not None:
                rejected.append(Rejection(stage="histories", subject=f"{key}.{number}", reason=problem[0], detail=problem[1]))
                continue
            answer = told[number]
            events.append(
                Event(
                    id=f"e{len(events) + 1:02d}", time=planned["time"], platform=planned["platform"], api=planned["api"],
                    arguments=answer.arguments, summary=answer.summary, context=planned["context"], rating=answer.rating,
                )
            )  # fmt: skip
        if len(events) >= ctx.config.events[0]:
            return History(id=key, user=profile.id, scenario=scenario.id, events=events[: ctx.config.events[1]]), rejected
        rejected.append(
            Rejection(
                stage="histories",
                subject=key,
                reason="history_too_short",
                detail=f"{len(events)} valid events, {ctx.config.events[0]} wanted",
            )
        )
    return None, rejected


def plan_events(rng: random.Random, ctx: Context, world: World, profile: Profile, scenario: Scenario) -> list[dict[str, Any]]:
    """When, where and with what the user acted: structure only, oldest first."""
    low, high = ctx.config.events
    count = rng.randint(low, high) + SPARE
    contexts = [context.name for context in scenario.contexts]
    usual = [contexts[i % len(contexts)] for i in range(count)]
    rng.shuffle(usual)
    now = local_now(ctx.config.now, profile.timezone)
    days = sorted((rng.uniform(1, 30 * MONTHS_BACK) for _ in range(count)), reverse=True)
    hours = {c.name: c.hours for c in scenario.contexts}
    weights = {c.name: 3.0 if c.open else 1.0 for c in scenario.capabilities}
    plan = []
    for context, ago in zip(usual, days, strict=True):
        moment = at_hour(rng, now - timedelta(days=ago), hours[context])
        capability = rng.choices(list(weights), list(weights.values()))[0]
        preference = preference_of(profile, scenario.id, context)
        platforms = world.candidates(scenario.id, capability)
        worth = [math.exp(utility(preference.weights, p) / ctx.config.choice_noise) if preference else 1.0 for p in platforms]
        platform = rng.choices(platforms, worth)[0]
        api = next(a for a in world.serving[scenario.id, capability] if a.platform == platform.id)
        plan.append({"time": moment.isoformat(), "platform": platform.id, "api": api.name, "context": context})
    return sorted(plan, key=lambda event: str(event["time"]))


def at_hour(rng: random.Random, day: datetime, hours: tuple[int, int]) -> datetime:
    """A moment of that day within the hours in which a context usually comes up."""
    first, last = hours
    hour = (first + rng.randint(0, (last - first) % 24)) % 24
    return day.replace(hour=hour, minute=rng.choice(range(0, 60, 5)), second=0, microsecond=0)


def event_is_valid(
    event: EventReply | None, planned: dict[str, Any], world: World, profile: Profile, scenario: Scenario
) -> tuple[str, str] | None:
    """Nothing, or (reason, detail)."""
    if event is None:
        return "event_missing", f"{planned['api']} at {planned['time']}"
    api = world.api[planned["platform"], planned["api"]]
    problem = first_error(api.parameters, event.arguments)
    if problem:
        return "event_arguments_invalid", f"{api.name}: {problem}"
    unknown = [name for name in event.arguments if name not in (api.parameters.get("properties") or {})]  # type: ignore[operator]
    if unknown:
        return "event_arguments_invalid", f"{api.name}: no parameter {unknown[0]!r}"
    problem = preference_not_stated(event.summary, profile, scenario)
    return ("preference_stated", problem) if problem else None


def local_now(now: str, timezone: str) -> datetime:
    """The run's day in the user's zone; an unknown zone counts as UTC."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    return datetime.fromisoformat(now).replace(tzinfo=zone)
