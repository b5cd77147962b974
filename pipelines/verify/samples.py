"""Stage 8 as a stage: rules first, then one judge call per item that passed them all."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from pipelines.errors import ReplyError
from pipelines.llm import prompts
from pipelines.queries import Cell
from pipelines.records import Evidence, Query, Rejection, Sample, Solution, Verification
from pipelines.replies import JudgeReply
from pipelines.stage import Context, StageResult, gather
from pipelines.verify import leaks
from pipelines.verify.rules import RULES, Item, first_broken

JUDGE_TRIES = 2
"""An unparsed verdict is asked again once, then rejects; it never counts as a pass."""


async def verify(
    ctx: Context, cell: Cell, pairs: Sequence[tuple[Query, Solution]], accepted: Sequence[frozenset[str]]
) -> StageResult[Sample]:
    """Prove each label by rule, then hear a judge.

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

    async def hear(item: Item) -> tuple[str, str]:
        return await _judge(ctx, item) if ctx.config.judge else ("none", "")

    for item, (verdict, reason) in zip(sound, await gather(sound, hear), strict=True):
        if verdict == "pass" or verdict == "none":
            result.kept.append(_sample(item, verdict, reason))
        else:
            result.rejected.append(_rejection(item, "judge_failed" if verdict == "fail" else "judge_unparsed", reason))
    return result


async def _judge(ctx: Context, item: Item) -> tuple[str, str]:
    """The judge sees what a solver sees, the tools that were called, the query and the solution."""
    world = item.cell.world
    platform = world.platform[item.solution.platform]
    values = {
        "tools": [{"name": api.name, "description": api.description, "parameters": api.parameters} for api in item.apis if api is not None],
        "facts": item.cell.profile.basic,
        "asked_at": item.query.slot.time,
        "query": item.query.text,
        "solution": {
            "platform": platform.name,
            "calls": [call.model_dump(mode="json") for call in item.solution.calls],
        },
    }
    reason = ""
    for attempt in range(JUDGE_TRIES):
        try:
            reply, _ = await ctx.llm.ask(
                prompts.load("verify.judge"), values, JudgeReply, stage="verify", subject=item.query.id, repeat=attempt
            )
        except ReplyError as error:
            reason = f"{error.reason}: {error.detail}"
            continue
        return reply.verdict, reply.reason
    return "unparsed", reason


def accepted_values(value: JsonValue) -> list[JsonValue]:
    """Values that count as right for one argument, the gold value first.

    Only writing conventions widen it: a whole number may be written with or without a decimal point.
    """
    if isinstance(value, float) and value.is_integer():
        return [value, int(value)]
    return [value]


def _sample(item: Item, verdict: str, reason: str) -> Sample:
    slot, found = item.query.slot, item.choice
    assert found is not None
    events = [e.id for e in item.cell.history.events if e.context == slot.context and e.platform == found.gold]
    return Sample(
        id=slot.id,
        user=slot.user,
        scenario=slot.scenario,
        context=slot.context,
        capability=slot.capability,
        kinds=slot.kinds,
        time=slot.time,
        query=item.query.text,
        platform=item.solution.platform,
        calls=item.solution.calls,
        accepted=[{path: accepted_values(value) for path, value in flat.items()} for flat in item.flat],
        evidence=Evidence(
            utilities=found.ranked, margin=found.margin, events=events, posterior=found.posterior, flips_with=found.flips_with
        ),
        verification=Verification(
            rules=[rule.__name__ for rule in RULES],
            judge="pass" if verdict == "pass" else "none",
            judge_reason=reason,
        ),
        prompts=[item.query.prompt, item.solution.prompt],
    )


def _rejection(item: Item, reason: str, detail: str) -> Rejection:
    return Rejection(
        stage="verify",
        subject=item.query.id,
        reason=reason,
        detail=detail[:500],
        round=item.query.slot.attempt,
        record={
            "query": item.query.text,
            "context": item.query.slot.context,
            "platform": item.solution.platform,
            "calls": [call.model_dump(mode="json") for call in item.solution.calls],
        },
    )
