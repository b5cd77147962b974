"""Stage 6: what to ask is drawn first, then the user agent words it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import JsonValue

from pipelines.errors import ReplyError
from pipelines.histories.plan import at_hour, local_now
from pipelines.identify import posterior
from pipelines.llm import prompts
from pipelines.llm.prompts import Block, block
from pipelines.llm.schemas import first_error
from pipelines.records import API, History, PlannedArgument, Platform, Profile, Query, Rejection, SampleKind, Scenario, Slot, Utility
from pipelines.replies import QueriesReply
from pipelines.stage import Context, StageResult, gather
from pipelines.verify import leaks
from pipelines.world import Leaf, World, margin, preference_of, statable

DRAWS = 25
"""So many draws find a slot that the structure allows, or the round goes without it."""


@dataclass(frozen=True)
class Cell:
    """One user in one scenario, with what prompts about them share."""

    world: World
    profile: Profile
    scenario: Scenario
    history: History
    market: Block
    brief: Block
    """Platforms without tools, for the user agent."""
    tools: Block
    """Platforms with tools, for the assistant agent."""
    person: Block
    seen: Block
    """What a solver sees of the user."""

    @property
    def key(self) -> str:
        """`<user>.<scenario>`."""
        return f"{self.profile.id}.{self.scenario.id}"


@dataclass(frozen=True)
class Choice:
    """What the structure says about one (context, capability) of a cell."""

    ranked: list[Utility]
    margin: float
    posterior: dict[str, float]
    flips_with: list[str]

    @property
    def gold(self) -> str:
        """The platform id with the highest utility."""
        return self.ranked[0].platform


def choice(cell: Cell, context: str, capability: str, min_margin: float) -> Choice | None:
    """Utilities, margin, posterior and flips for one context and capability; None without a preference or a platform."""
    preference = preference_of(cell.profile, cell.scenario.id, context)
    if preference is None:
        return None
    ranked = cell.world.gold(preference, capability)
    if not ranked:
        return None
    flips = []
    for other in cell.profile.preferences:
        if other.scenario == cell.scenario.id and other.context != context:
            theirs = cell.world.gold(other, capability)
            if theirs[0].platform != ranked[0].platform and margin(theirs) >= min_margin:
                flips.append(other.context)
    return Choice(ranked, margin(ranked), posterior(cell.history, context, [u.platform for u in ranked]), flips)


def slot_is_fair(found: Choice, min_margin: float, min_posterior: float) -> tuple[str, str] | None:
    """Nothing when the structure supports a label here, else (reason, detail). Costs no model call."""
    if len(found.ranked) < 2:
        return "no_rival", f"only {found.ranked[0].platform} can serve it"
    if found.margin < min_margin:
        return "ambiguous_preference", f"margin {found.margin} of {found.gold} is below {min_margin}"
    likeliest = max(found.posterior, key=lambda p: found.posterior[p])
    if likeliest != found.gold or found.posterior[found.gold] < min_posterior:
        return "not_identifiable", f"history gives {found.gold} only {found.posterior[found.gold]}"
    return None


def draw_slot(ctx: Context, cell: Cell, number: int, attempt: int) -> tuple[Slot | None, list[Rejection]]:
    """Draw one slot: context, capability, kind and the source of every argument.

    Contexts rotate, so that a user's samples flip the platform; a draw that the structure does not support is
    a rejection and is drawn again.
    """
    config = ctx.config
    slot_id = f"{cell.key}.{number:03d}"
    rng = config.rng("slot", slot_id, attempt)
    rejected: list[Rejection] = []
    contexts = [c.name for c in cell.scenario.contexts]
    capabilities = [c.name for c in cell.scenario.capabilities if c.open] or [c.name for c in cell.scenario.capabilities]
    for draw in range(DRAWS):
        context = contexts[(number + attempt + draw) % len(contexts)]
        capability = rng.choice(capabilities)
        found = choice(cell, context, capability, config.min_margin)
        problem: tuple[str, str] = ("no_preference", context)
        unfair = slot_is_fair(found, config.min_margin, config.min_posterior) if found is not None else None
        if unfair is not None:
            problem = unfair
        elif found is not None:
            api = next(a for a in cell.world.serving[cell.scenario.id, capability] if a.platform == found.gold)
            planned = plan_arguments(rng, cell, api, rng.random() < config.profile_share)
            if planned is None:
                problem = ("not_statable", f"{api.name} requires an argument that no sentence can state")
            else:
                kinds: list[SampleKind] = []
                if found.flips_with:
                    kinds.append("tool_preference")
                if any(a.source == "profile" for a in planned):
                    kinds.append("profile_dependent")
                if kinds:
                    return _slot(ctx, cell, slot_id, attempt, context, capability, api, kinds, planned, rng), rejected
                problem = ("no_kind", f"{capability} in {context} neither flips the platform nor needs the profile")
        rejected.append(Rejection(stage="queries", subject=f"{slot_id}-{attempt}", reason=problem[0], detail=problem[1]))
    return None, rejected


def plan_arguments(rng: random.Random, cell: Cell, api: API, want_profile: bool) -> list[PlannedArgument] | None:
    """Fix the source of every argument: the profile fills required ones only, the query the rest.

    An optional argument that the query does not state is left out; so a solver need not guess whether a
    fact of the profile was meant.
    """
    planned: list[PlannedArgument] = []
    optional: list[Leaf] = []
    for leaf in cell.world.leaves_of[api.id]:
        if not leaf.required:
            if statable(leaf.schema):
                optional.append(leaf)
            continue
        feature = cell.world.profile_feature(api, leaf.path)
        if want_profile and feature in cell.profile.basic and _fits(leaf, cell.profile.basic[feature]):
            planned.append(PlannedArgument(path=leaf.path, source="profile", feature=feature))
        elif statable(leaf.schema):
            planned.append(PlannedArgument(path=leaf.path, source="query"))
        else:
            return None
    for leaf in optional:
        if rng.random() < 0.35 and len(planned) < 5:
            planned.append(PlannedArgument(path=leaf.path, source="query"))
    return planned


def _fits(leaf: Leaf, value: JsonValue) -> bool:
    return first_error(leaf.schema, value) is None


def _slot(
    ctx: Context, cell: Cell, slot_id: str, attempt: int, context: str, capability: str, api: API,
    kinds: list[SampleKind], planned: list[PlannedArgument], rng: random.Random,
) -> Slot:  # fmt: skip
    now = local_now(ctx.config.now, cell.profile.timezone)
    hours = next(c.hours for c in cell.scenario.contexts if c.name == context)
    asked = at_hour(rng, now + timedelta(days=rng.randint(0, 6)), hours)
    return Slot(
        id=slot_id, user=cell.profile.id, scenario=cell.scenario.id, context=context, capability=capability, attempt=attempt,
        kinds=kinds, platform=api.platform, api=api.name, arguments=planned, time=asked.isoformat(),
    )  # fmt: skip


async def write_queries(ctx: Context, cell: Cell, slots: Sequence[Slot]) -> StageResult[Query]:
    """Have the user agent word the slots, some per call.

    A text that names a platform, tells a profile value, states a preference or is in another language is rejected.
    """
    result: StageResult[Query] = StageResult()
    size = ctx.config.queries_per_call
    batches = [slots[i : i + size] for i in range(0, len(slots), size)]

    async def write(batch: Sequence[Slot]) -> StageResult[Query]:
        return await _write_batch(ctx, cell, batch)

    for part in await gather(batches, write):
        result.kept.extend(part.kept)
        result.rejected.extend(part.rejected)
    return result


async def _write_batch(ctx: Context, cell: Cell, batch: Sequence[Slot]) -> StageResult[Query]:
    prompt = prompts.load("queries.write")
    values = {
        "scenario": cell.market,
        "platforms": cell.brief,
        "person": cell.person,
        "requests": [_asked(cell, slot) for slot in batch],
    }
    result: StageResult[Query] = StageResult()
    try:
        reply, _ = await ctx.llm.ask(
            prompt, values, QueriesReply, stage="queries", subject=f"{batch[0].id}-{batch[0].attempt}", repeat=batch[0].attempt - 1
        )
    except ReplyError as error:
        result.rejected = [_rejection(slot, error.reason, error.detail) for slot in batch]
        return result
    texts = {query.slot: " ".join(query.text.split()) for query in reply.queries}
    for slot in batch:
        text = texts.get(slot.id)
        if text is None:
            result.rejected.append(_rejection(slot, "query_missing", "the reply holds no text for this slot"))
            continue
        problem = query_is_clean(text, slot, cell)
        if problem is None:
            result.kept.append(Query(id=f"{slot.id}-{slot.attempt}", slot=slot, text=text, prompt=prompt.ref))
        else:
            result.rejected.append(_rejection(slot, *problem, text=text))
    return result


def query_is_clean(text: str, slot: Slot, cell: Cell) -> tuple[str, str] | None:
    """The rules on a query's words: nothing, or (rule, detail)."""
    told = [a.feature for a in slot.arguments if a.source == "profile" and a.feature]
    for rule, detail in (
        ("platform_named", leaks.platform_not_named(text, cell.scenario.platforms)),
        ("profile_told", leaks.profile_not_told(text, cell.profile, told)),
        ("preference_stated", leaks.preference_not_stated(text, cell.profile, cell.scenario)),
        ("wrong_language", leaks.language_is(text, cell.profile.language)),
    ):
        if detail is not None:
            return rule, detail
    return None


def _asked(cell: Cell, slot: Slot) -> dict[str, Any]:
    """A slot as the user agent sees it: what to state and what to leave out, no platform, no API."""
    api = cell.world.api[slot.platform, slot.api]
    by_path = {leaf.path: leaf for leaf in cell.world.leaves_of[api.id]}
    capability = next(c for c in cell.scenario.capabilities if c.name == slot.capability)
    return {
        "slot": slot.id,
        "attempt": slot.attempt,
        "asked_at": slot.time,
        "context": slot.context,
        "capability": slot.capability,
        "wants": capability.description,
        "state": [
            {"name": a.path, "description": by_path[a.path].description, "schema": by_path[a.path].schema}
            for a in slot.arguments
            if a.source == "query"
        ],
        "leave_out": [by_path[a.path].description for a in slot.arguments if a.source == "profile"],
    }


def _rejection(slot: Slot, reason: str, detail: str, text: str | None = None) -> Rejection:
    record = {"slot": slot.model_dump(mode="json"), "text": text} if text is not None else None
    return Rejection(
        stage="queries", subject=f"{slot.id}-{slot.attempt}", reason=reason, detail=detail[:500], round=slot.attempt, record=record
    )


def platforms_brief(platforms: Sequence[Platform]) -> Block:
    """Platforms as the user agent sees them: names and traits, no tools."""
    return block([{"name": p.name, "description": p.description, "traits": {n: t.phrase for n, t in p.traits.items()}} for p in platforms])
