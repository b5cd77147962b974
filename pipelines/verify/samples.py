"""Stage 8 as a stage: rules first, then judges on what passed them all, then the gate `needed` where it is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from pipelines.queries import Cell
from pipelines.records import Evidence, Query, Rejection, Sample, Solution, Verification, Vote
from pipelines.stage import Context, StageResult, gather
from pipelines.verify import leaks
from pipelines.verify.accepted import accepted_values, optional_defaults
from pipelines.verify.judges import hear, verdict_of
from pipelines.verify.needed import Needed, needed, not_needed
from pipelines.verify.rules import RULES, Item, first_broken
from pipelines.verify.settled import siblings


async def verify(
    ctx: Context, cell: Cell, pairs: Sequence[tuple[Query, Solution]], accepted: Sequence[frozenset[str]]
) -> StageResult[Sample]:
    """Prove each label by rule, then hear the judges.

    Args:
        accepted: Word sets of this cell's earlier samples; a near-duplicate of one is rejected.

    Returns:
        Samples in the order of the pairs.
    """
    result: StageResult[Sample] = StageResult()
    sound: list[Item] = []
    known = list(accepted)
    for query, solution in pairs:
        item = Item(cell, query, solution, ctx.config.min_margin, ctx.config.min_posterior)
        problem = first_broken(item)
        if problem is None:
            repeated = leaks.not_a_duplicate(query.text, known)
            problem = ("near_duplicate", repeated) if repeated else None
        if problem is not None:
            result.rejected.append(_rejection(item, *problem))
            continue
        known.append(leaks.word_set(query.text))
        sound.append(item)

    async def heard(item: Item) -> list[Vote]:
        return await hear(ctx, item) if ctx.config.judge else []

    async def gated(item: Item) -> Needed:
        return await needed(ctx, item) if ctx.config.needed else {}

    kept: list[tuple[Item, list[Vote]]] = []
    for item, votes in zip(sound, await gather(sound, heard), strict=True):
        verdict, reason = verdict_of(votes) if votes else ("pass", "")
        if verdict == "pass":
            kept.append((item, votes))
        else:
            lost = _rejection(item, "judge_failed" if verdict == "fail" else "judge_unparsed", reason)
            result.rejected.append(lost.model_copy(update={"record": {**(lost.record or {}), "votes": [v.model_dump() for v in votes]}}))
    for (item, votes), need in zip(kept, await gather([item for item, _ in kept], gated), strict=True):
        problem = not_needed(need)
        if problem is None:
            result.kept.append(sample_of(item, votes, need))
        else:
            result.rejected.append(_rejection(item, *problem))
    return result


def sample_of(item: Item, votes: list[Vote], need: Needed) -> Sample:
    """The record of an item that passed: everything but the words and the votes follows from the structure."""
    slot, solution = item.slot, item.solution
    verdict, reason = verdict_of(votes) if votes else ("none", "")
    accepted, why, optional = answers(item)
    return Sample(
        id=slot.id,
        user=slot.user,
        scenario=slot.scenario,
        context=slot.context,
        capability=slot.capability,
        kinds=slot.kinds,
        time=slot.time,
        query=item.query.text,
        platform=solution.platform,
        calls=solution.calls,
        accepted=accepted,
        why=why,
        optional=optional,
        act=slot.act,
        control=slot.control,
        missing=missing_of(item),
        overrides={f"0.{a.path}": a.feature for a in slot.arguments if a.source == "query" and a.feature},
        style=slot.style,
        evidence=evidence_of(item),
        verification=Verification(
            rules=[rule.__name__ for rule in RULES],
            judge="pass" if verdict == "pass" else "none",
            judge_reason=reason,
            votes=votes,
            needed=need,
        ),
        prompts=[item.query.prompt, solution.prompt],
    )


def answers(item: Item) -> tuple[list[dict[str, list[JsonValue]]], list[dict[str, list[str]]], list[dict[str, JsonValue]]]:
    """Per call: accepted values, why each, and the defaults that may be left out or given."""
    accepted, why, optional = [], [], []
    for call, api, flat in zip(item.solution.calls, item.apis, item.flat, strict=True):
        leaves = item.cell.world.leaves_of[api.id] if api is not None else []
        schemas = {leaf.path: leaf.schema for leaf in leaves}
        both = {path: accepted_values(value, schemas.get(path, {}), call.sources.get(path)) for path, value in flat.items()}
        accepted.append({path: values for path, (values, _) in both.items()})
        why.append({path: reasons for path, (_, reasons) in both.items()})
        optional.append(optional_defaults(leaves, flat))
    return accepted, why, optional


def missing_of(item: Item) -> list[str]:
    """What an `ask` sample asks for: `platform`, or the parameter and its siblings on the other platforms."""
    api = item.planned_api
    if item.slot.control != "ask" or item.slot.missing == ["platform"] or api is None:
        return list(item.slot.missing)
    return sorted({key for path in item.slot.missing for key in siblings(item.cell.world, api, path)})


def evidence_of(item: Item) -> Evidence:
    """Why the label is what it is."""
    found = item.choice
    if found is None:
        return Evidence(utilities=[], margin=0.0, events=[], posterior={}, flips_with=[])
    events = [e.id for e in item.cell.history.events if e.context == item.slot.context and e.platform == found.gold]
    return Evidence(utilities=found.ranked, margin=found.margin, events=events, posterior=found.posterior, flips_with=found.flips_with)


def _rejection(item: Item, reason: str, detail: str) -> Rejection:
    return Rejection(
        stage="verify",
        subject=item.query.id,
        reason=reason,
        detail=detail[:500],
        round=item.slot.attempt,
        record={
            "query": item.query.text,
            "context": item.slot.context,
            "act": item.solution.act,
            "platform": item.solution.platform,
            "calls": [call.model_dump(mode="json") for call in item.solution.calls],
        },
    )
