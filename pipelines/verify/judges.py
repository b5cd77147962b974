"""The second opinion: votes of one or several judges on an item that passed every rule.

A vote is pass, fail or unparsed, with the reason first. More than half of all votes must pass; an unparsed vote is asked
again once and never counts as a pass. Disagreement stays in the record.
"""

from __future__ import annotations

from typing import Any

from pipelines.errors import ReplyError
from pipelines.llm.client import LLM
from pipelines.llm.prompts import Prompt
from pipelines.records import Vote
from pipelines.replies import JudgeReply
from pipelines.stage import Context, gather
from pipelines.verify.rules import Item

TRIES = 2
"""An unparsed verdict is asked again once."""


async def hear(ctx: Context, item: Item) -> list[Vote]:
    """All votes on one item, judge by judge."""
    judges = [(llm, number) for llm in ctx.judges or (ctx.llm,) for number in range(ctx.config.judge_votes)]
    values, prompt = what_a_judge_sees(item), ctx.prompt("verify.judge")

    async def vote(judge: tuple[LLM, int]) -> Vote:
        return await _vote(judge[0], prompt, judge[1], item, values)

    return await gather(judges, vote)


def verdict_of(votes: list[Vote]) -> tuple[str, str]:
    """The verdict of the majority and the reason of the first vote that gave it; no majority for pass is no pass."""
    passed = sum(vote.verdict == "pass" for vote in votes)
    if 2 * passed > len(votes):
        verdict = "pass"
    else:
        verdict = "fail" if any(vote.verdict == "fail" for vote in votes) else "unparsed"
    return verdict, next((vote.reason for vote in votes if vote.verdict == verdict), "")


def what_a_judge_sees(item: Item) -> dict[str, Any]:
    """What a solver sees of the user, the tools in question, the query and the answer: no preference, context or utility."""
    world = item.cell.world
    solution: dict[str, Any] = {"act": item.solution.act}
    if item.solution.act == "call":
        tools = [api for api in item.apis if api is not None]
        solution |= {
            "platform": world.platform[item.solution.platform].name,
            "calls": [call.model_dump(mode="json") for call in item.solution.calls],
        }
    elif item.solution.act == "ask":
        tools = world.serving.get((item.cell.scenario.id, item.slot.capability), [])
        solution |= {"question": item.solution.question, "missing": item.solution.missing}
    else:
        tools = [api for p in item.cell.scenario.platforms[:1] for api in world.apis_of[p.id]]
    events = {s.at for call in item.solution.calls for s in call.sources.values() if s.kind == "history"}
    return {
        "tools": [{"name": api.name, "description": api.description, "parameters": api.parameters} for api in tools],
        "facts": item.cell.profile.basic,
        "events": [
            {"id": e.id, "time": e.time, "api": e.api, "arguments": e.arguments, "summary": e.summary}
            for e in item.cell.history.events
            if e.id in events
        ],
        "asked_at": item.slot.time,
        "query": item.query.text,
        "solution": solution,
    }


async def _vote(llm: LLM, prompt: Prompt, number: int, item: Item, values: dict[str, Any]) -> Vote:
    reason = ""
    for attempt in range(TRIES):
        try:
            reply, _ = await llm.ask(prompt, values, JudgeReply, stage="verify", subject=item.query.id, repeat=TRIES * number + attempt)
        except ReplyError as error:
            reason = f"{error.reason}: {error.detail}"[:500]
            continue
        return Vote(model=model_name(llm.model), verdict=reply.verdict, reason=reply.reason)
    return Vote(model=model_name(llm.model), verdict="unparsed", reason=reason)


def model_name(model: str) -> str:
    """A model without the way to reach it, so that the same model by another way leaves the same bytes."""
    return model.rpartition(":")[2]
