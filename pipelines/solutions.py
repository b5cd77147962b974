"""Stage 7: the assistant agent answers each query, with a source for every argument."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import ReplyError
from pipelines.queries import Cell
from pipelines.records import Query, Rejection, Solution, Source, ToolCall
from pipelines.replies import SolutionReply
from pipelines.stage import Context, StageResult, gather


async def solve_queries(ctx: Context, cell: Cell, queries: Sequence[Query]) -> StageResult[Solution]:
    """One call per query. The assistant sees all tools, the user with preferences in words, and the query; never the plan.

    A solution on a platform that does not exist is rejected here, everything else by the rules.
    """
    prompt = ctx.prompt("solutions.solve")

    async def solve(query: Query) -> Solution | Rejection:
        values = {
            "tools": cell.tools,
            "scenario": cell.market,
            "person": cell.person,
            "history": cell.seen,
            "asked_at": query.slot.time,
            "query": query.text,
        }
        try:
            reply, _ = await ctx.llm.ask(prompt, values, SolutionReply, stage="solutions", subject=query.id)
        except ReplyError as error:
            return _rejection(query, error.reason, error.detail)
        answer = solution_from(cell, query.id, reply, prompt.ref)
        return answer if isinstance(answer, Solution) else _rejection(query, "unknown_platform", answer)

    result: StageResult[Solution] = StageResult()
    for answer in await gather(queries, solve):
        if isinstance(answer, Rejection):
            result.rejected.append(answer)
        else:
            result.kept.append(answer)
    return result


def solution_from(cell: Cell, name: str, reply: SolutionReply, prompt: str) -> Solution | str:
    """A reply with platform names as ids, or what is wrong with it."""
    if reply.act != "call":
        missing = _missing(cell, reply)
        return Solution(id=name, platform="", calls=[], prompt=prompt, act=reply.act, missing=missing, question=reply.question)
    platform = cell.world.platform_named.get((cell.scenario.id, reply.platform))
    if platform is None:
        return f"{reply.platform!r} is no platform of {cell.scenario.name}"
    calls = [
        ToolCall(api=call.api, arguments=call.arguments, sources={s.path: Source(kind=s.kind, at=s.at) for s in call.sources})
        for call in reply.calls
    ]
    return Solution(id=name, platform=platform.id, calls=calls, prompt=prompt)


def _missing(cell: Cell, reply: SolutionReply) -> list[str]:
    """What is asked for, with platform names as ids: `platform`, or `<API id>#<path>`."""
    found = []
    for entry in reply.missing:
        name, _, rest = entry.partition("#")
        platform = cell.world.platform_named.get((cell.scenario.id, name))
        api, _, path = rest.partition("#")
        found.append(f"{platform.id}/{api}#{path}" if platform is not None and path else entry)
    return found


def _rejection(query: Query, reason: str, detail: str) -> Rejection:
    return Rejection(
        stage="solutions", subject=query.id, reason=reason, detail=detail[:500], round=query.slot.attempt,
        record={"query": query.text, "context": query.slot.context},
    )  # fmt: skip
