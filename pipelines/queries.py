"""Stage 6: what to ask is drawn first (`plans`), then the user agent words it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import ReplyError
from pipelines.identify import posterior
from pipelines.llm.prompts import Block, block
from pipelines.records import API, History, PlannedArgument, PlannedCall, Platform, Profile, Query, Rejection, Scenario, Slot, Utility
from pipelines.replies import QueriesReply
from pipelines.stage import Context, StageResult, gather
from pipelines.verify import leaks
from pipelines.world import World, margin, preference_of


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
    stranger: tuple[Block, Block] | None = None
    """Person and history of another user, for the gate `needed`."""
    memo: dict[tuple[str, str, float], Choice | None] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What `choice` found: it is asked for the same again and again."""

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

    def shown(self, least: float) -> bool:
        """Does the history make the gold platform likelier than every other, and at least this likely?"""
        others = [share for platform, share in self.posterior.items() if platform != self.gold]
        return self.posterior[self.gold] >= least and self.posterior[self.gold] > max(others, default=0)

    @property
    def gold(self) -> str:
        """The platform id with the highest utility."""
        return self.ranked[0].platform


def choice(cell: Cell, context: str, capability: str, min_margin: float) -> Choice | None:
    """Utilities, margin, posterior and flips for one context and capability; None without a preference or a platform."""
    key = (context, capability, min_margin)
    if key not in cell.memo:
        cell.memo[key] = _choice(cell, context, capability, min_margin)
    return cell.memo[key]


def _choice(cell: Cell, context: str, capability: str, min_margin: float) -> Choice | None:
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
    if not found.shown(min_posterior):
        return "not_identifiable", f"history gives {found.gold} only {found.posterior[found.gold]}"
    return None


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
    prompt = ctx.prompt("queries.write")
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
    for rule, detail in (
        ("platform_named", leaks.platform_named_as_planned(text, cell.scenario.platforms, named_platform(slot))),
        ("profile_told", leaks.profile_not_told(text, cell.profile, told_by_profile(slot))),
        ("preference_stated", leaks.preference_not_stated(text, cell.profile, cell.scenario)),
        ("wrong_language", leaks.language_is(text, cell.profile.language)),
    ):
        if detail is not None:
            return rule, detail
    return None


def named_platform(slot: Slot) -> str | None:
    """The one platform that the query has to name, or None: it may name none."""
    return slot.platform if slot.control == "profile_irrelevant" else None


def told_by_profile(slot: Slot) -> list[str]:
    """The basic features that the profile is to tell, so that the query must not."""
    return [a.feature for call in (PlannedCall(capability="", api="", arguments=slot.arguments), *slot.then) for a in call.arguments
            if a.source == "profile" and a.feature]  # fmt: skip


def _asked(cell: Cell, slot: Slot) -> dict[str, Any]:
    """A slot as the user agent sees it: what to state and what to leave out; no gold platform, no API."""
    asked: dict[str, Any] = {
        "slot": slot.id,
        "attempt": slot.attempt,
        "asked_at": slot.time,
        "context": slot.context,
        "tone": slot.style.tone,
        "length": slot.style.length,
    }
    if slot.control == "no_tool":
        return {**asked, "capability": slot.capability, "wants": slot.wants, "state": [], "leave_out": []}
    platform = slot.platform or next(u.platform for u in _ranked(cell, slot) if (u.platform, slot.api) in cell.world.api)
    asked |= _part(cell, cell.world.api[platform, slot.api], slot.arguments, slot.missing)
    if slot.then:
        asked["then"] = [_part(cell, cell.world.api[platform, call.api], call.arguments, []) for call in slot.then]
    if named_platform(slot):
        asked["name_platform"] = cell.world.platform[platform].name
    return asked


def _ranked(cell: Cell, slot: Slot) -> list[Utility]:
    preference = preference_of(cell.profile, cell.scenario.id, slot.context)
    return cell.world.gold(preference, slot.capability) if preference is not None else []


def _part(cell: Cell, api: API, arguments: Sequence[PlannedArgument], missing: Sequence[str]) -> dict[str, Any]:
    leaf_of = {leaf.path: leaf for leaf in cell.world.leaves_of[api.id]}
    capability = next(c for c in cell.scenario.capabilities if c.name == api.capability)

    def told(source: str) -> list[PlannedArgument]:
        return [a for a in arguments if a.source == source]

    part: dict[str, Any] = {
        "capability": api.capability,
        "wants": capability.description,
        "state": [{"name": a.path, "description": leaf_of[a.path].description, "schema": leaf_of[a.path].schema} for a in told("query")],
        "leave_out": [leaf_of[a.path].description for a in told("profile")],
    }
    if told("history"):
        part["as_last_time"] = [leaf_of[a.path].description for a in told("history")]
    if missing and missing != ["platform"]:
        part["keep_open"] = [leaf_of[path].description for path in missing]
    return part


def _rejection(slot: Slot, reason: str, detail: str, text: str | None = None) -> Rejection:
    record = {"slot": slot.model_dump(mode="json"), "text": text} if text is not None else None
    return Rejection(
        stage="queries", subject=f"{slot.id}-{slot.attempt}", reason=reason, detail=detail[:500], round=slot.attempt, record=record
    )


def platforms_brief(platforms: Sequence[Platform]) -> Block:
    """Platforms as the user agent sees them: names and traits, no tools."""
    return block([{"name": p.name, "description": p.description, "traits": {n: t.phrase for n, t in p.traits.items()}} for p in platforms])
