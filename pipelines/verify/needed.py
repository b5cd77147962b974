"""The gate `needed`: the user must be what makes a sample answerable.

The assistant agent answers three times more. Without the profile, and with another user's, it must get the sample wrong; with
everything it must get it right. Only samples that claim a kind are asked about: controls are right whoever asks.
"""

from __future__ import annotations

from typing import Any, Literal

from pipelines.errors import ReplyError
from pipelines.llm.prompts import block
from pipelines.records import Solution
from pipelines.replies import SolutionReply
from pipelines.solutions import solution_from
from pipelines.stage import Context, gather
from pipelines.verify.rules import Item
from pipelines.verify.said import same
from pipelines.world import flatten

Needed = dict[str, Literal["fails", "passes"]]
CONDITIONS = ("without_profile", "shuffled_profile", "everything")


async def needed(ctx: Context, item: Item) -> Needed:
    """What a solver does under each condition; empty for a control."""
    if not item.slot.kinds:
        return {}

    async def one(condition: str) -> Literal["fails", "passes"]:
        return await _try(ctx, item, condition)

    return dict(zip(CONDITIONS, await gather(CONDITIONS, one), strict=True))


def not_needed(found: Needed) -> tuple[str, str] | None:
    """Nothing, or (reason, detail)."""
    if not found:
        return None
    if found["everything"] == "fails":
        return "not_solvable", "a solver with everything does not get it right"
    for condition in CONDITIONS[:2]:
        if found[condition] == "passes":
            return "profile_not_needed", f"a solver {condition.replace('_', ' ')} gets it right"
    return None


async def _try(ctx: Context, item: Item, condition: str) -> Literal["fails", "passes"]:
    cell = item.cell
    person, seen = cell.person, cell.seen
    if condition == "without_profile":
        person, seen = block({"basic_features": {}, "preferences": []}), block([])
    elif condition == "shuffled_profile":
        if cell.stranger is None:
            return "fails"
        person, seen = cell.stranger
    values = {
        "tools": cell.tools, "scenario": cell.market, "person": person, "history": seen,
        "asked_at": item.slot.time, "query": item.query.text,
    }  # fmt: skip
    try:
        reply, _ = await ctx.llm.ask(
            ctx.prompt("solutions.solve"), values, SolutionReply, stage="verify", subject=f"{item.query.id}/{condition}", repeat=1
        )
    except ReplyError:
        return "fails"
    answer = solution_from(cell, item.query.id, reply, "")
    return "passes" if isinstance(answer, Solution) and same_answer(item, answer) else "fails"


def same_answer(item: Item, answer: Solution) -> bool:
    """The same platform, APIs and argument values as the gold solution."""
    gold = item.solution
    if answer.platform != gold.platform or [c.api for c in answer.calls] != [c.api for c in gold.calls]:
        return False
    for call, api, flat in zip(answer.calls, item.apis, item.flat, strict=True):
        theirs: dict[str, Any] = flatten(call.arguments, api.parameters if api is not None else {})
        if set(theirs) != set(flat) or not all(same(theirs[path], value) for path, value in flat.items()):
            return False
    return True
