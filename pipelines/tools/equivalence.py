"""Which parameters of sibling APIs mean the same: proposed by the model, checked by rule, kept in the APIs.

Sibling APIs serve one capability under their own names. They are interchangeable in effect when whatever
one of them must be told with a request, the others can be told too; the map of meanings shows it. A lasting fact
about the user, such as an address, may be asked by one platform alone: nobody says it again with each request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.errors import ReplyError
from pipelines.records import API, Equivalence, Rejection, Scenario
from pipelines.replies import MatchesReply
from pipelines.stage import Context, gather
from pipelines.world import Leaf, leaves

AT_ONCE = 8
"""Capabilities matched in one call."""
ATTEMPTS = 2
IMPORTED = "imported"
"""Group, or first part of it, of the APIs that were read from a file."""


async def match_parameters(ctx: Context, scenario: Scenario, apis: Sequence[API]) -> tuple[list[API], list[Rejection]]:
    """The APIs with `meanings`: parameter path -> the word that all siblings share for it.

    One call per eight capabilities. What breaks a rule (a path that is not there, one used twice, types that
    differ) is left out and told; without a usable reply, parameters of the same path and type are matched.
    """
    siblings: dict[str, list[API]] = {}
    for api in apis:
        siblings.setdefault(api.capability, []).append(api)
    names = {platform.id: platform.name for platform in scenario.platforms}
    jobs = [list(siblings)[i : i + AT_ONCE] for i in range(0, len(siblings), AT_ONCE)]

    async def ask(capabilities: list[str]) -> tuple[MatchesReply | None, list[Rejection]]:
        rows = [{"capability": c, "apis": [_told(api, names[api.platform]) for api in siblings[c]]} for c in capabilities]
        lost: list[Rejection] = []
        for attempt in range(ATTEMPTS):
            prompt, subject = ctx.prompt("tools.match_parameters"), f"{scenario.id}/{capabilities[0]}"
            try:
                reply, _ = await ctx.llm.ask(prompt, {"capabilities": rows}, MatchesReply, stage="apis", subject=subject, repeat=attempt)
                return reply, lost
            except ReplyError as error:
                lost.append(Rejection(stage="apis", subject=subject, reason=error.reason, detail=error.detail))
        return None, lost

    meanings: dict[str, dict[str, str]] = {api.id: {} for api in apis}
    personal: set[tuple[str, str]] = set()
    rejected: list[Rejection] = []
    for capabilities, (reply, lost) in zip(jobs, await gather(jobs, ask), strict=True):
        rejected += lost
        for capability in capabilities:
            mine = {names[api.platform]: api for api in siblings[capability]}
            found = next((c for c in reply.capabilities if c.capability == capability), None) if reply is not None else None
            if found is None:
                _by_path(siblings[capability], meanings)
                continue
            for match in found.matches:
                pairs = [(mine.get(p.platform), p.path) for p in match.parameters]
                problem = _keep(match.meaning, pairs, meanings)
                if match.about == "person":
                    personal.add((capability, match.meaning))
                if problem:
                    rejected.append(Rejection(stage="apis", subject=f"{scenario.id}/{capability}", reason="match_invalid", detail=problem))
    marked = []
    for api in apis:
        named = dict(sorted(meanings[api.id].items()))
        lasting = sorted({meaning for meaning in named.values() if (api.capability, meaning) in personal})
        marked.append(api.model_copy(update={"meanings": named, "personal": lasting}))
    return marked, rejected


def relax(apis: Sequence[API]) -> tuple[list[API], list[Rejection]]:
    """Make siblings interchangeable: what one requires and another cannot be told becomes optional.

    Only APIs that we made are changed; a real API keeps what it requires, and its rivals were made to fit it.
    Each change is told as `requirement_relaxed`.
    """
    by_id = {api.id: api for api in apis}
    told = []
    for api, path, lacking in [lack for equivalence in _siblings(apis) for lack in _lacks(equivalence)]:
        if api.group.startswith(IMPORTED):
            continue
        changed = by_id[api.id]
        by_id[api.id] = changed.model_copy(update={"parameters": _optional(changed.parameters, path.split("."))})
        detail = f"{path} is optional now: {', '.join(lacking)} has no parameter for it"
        told.append(Rejection(stage="apis", subject=api.id, reason="requirement_relaxed", detail=detail))
    return list(by_id.values()), told


def _optional(schema: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """A copy in which the parameter at a path is not required, nor an object that only it made necessary."""
    name, *rest = path
    changed = dict(schema)
    still = False
    if rest:
        inner = _optional(schema["properties"][name], rest)
        changed["properties"] = {**schema["properties"], name: inner}
        still = bool(inner.get("required"))
    if not still:
        changed["required"] = [one for one in schema.get("required", ()) if one != name]
        if not changed["required"]:
            del changed["required"]
    return changed


def _told(api: API, platform: str) -> dict[str, Any]:
    parameters = [{"path": leaf.path, "type": leaf.schema.get("type"), "description": leaf.description} for leaf in leaves(api.parameters)]
    return {"platform": platform, "name": api.name, "parameters": parameters}


def _keep(meaning: str, pairs: Sequence[tuple[API | None, str]], meanings: dict[str, dict[str, str]]) -> str | None:
    """Note one row of the map, or say what is wrong with it."""
    types: set[str] = set()
    kept: list[tuple[API, str]] = []
    for api, path in pairs:
        leaf = next((leaf for leaf in leaves(api.parameters) if leaf.path == path), None) if api is not None else None
        if api is None or leaf is None:
            return f"{meaning}: there is no parameter {path!r}"
        if path in meanings[api.id]:
            return f"{meaning}: {api.name} {path} already means {meanings[api.id][path]}"
        if meaning in meanings[api.id].values() or any(other.id == api.id for other, _ in kept):
            return f"{meaning}: {api.name} has two parameters for it"
        types.add(_kind(leaf))
        kept.append((api, path))
    if len(types - {""}) > 1:
        return f"{meaning}: types differ: {', '.join(sorted(types))}"
    for api, path in kept:
        meanings[api.id][path] = meaning
    return None


def _kind(leaf: Leaf) -> str:
    """Type as far as it matters: numbers are one, a text with a fixed choice is still a text."""
    kind = leaf.schema.get("type")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k not in (None, "null")]
    return {"integer": "number"}.get(kinds[0], str(kinds[0])) if kinds else ""


def _by_path(apis: Sequence[API], meanings: dict[str, dict[str, str]]) -> None:
    for api in apis:
        for leaf in leaves(api.parameters):
            meanings[api.id].setdefault(leaf.path, leaf.path)


def _siblings(apis: Sequence[API]) -> list[list[API]]:
    """The APIs of each scenario's capabilities."""
    found: dict[tuple[str, str], list[API]] = {}
    for api in apis:
        found.setdefault((api.platform.partition("/")[0], api.capability), []).append(api)
    return list(found.values())


def equivalences(apis: Sequence[API]) -> list[Equivalence]:
    """The map, read out of the APIs: one record per scenario and capability, with what the check found."""
    found = []
    for mine in _siblings(apis):
        problems = [] if len(mine) > 1 else [f"{mine[0].name} has no rival"]
        problems += [f"{api.name} requires {path}, for which {', '.join(lacking)} has no parameter" for api, path, lacking in _lacks(mine)]
        found.append(
            Equivalence(
                scenario=mine[0].platform.partition("/")[0],
                capability=mine[0].capability,
                apis={api.platform: api.name for api in mine},
                parameters=_rows(mine),
                problems=problems,
            )
        )
    return found


def _rows(apis: Sequence[API]) -> dict[str, dict[str, str]]:
    rows: dict[str, dict[str, str]] = {}
    for api in apis:
        for path, meaning in api.meanings.items():
            rows.setdefault(meaning, {})[api.platform] = path
    return rows


def _lacks(apis: Sequence[API]) -> list[tuple[API, str, list[str]]]:
    """(API, required path, siblings that cannot be told it): why siblings are not interchangeable."""
    rows = _rows(apis)
    found = []
    for api in apis:
        for leaf in leaves(api.parameters):
            meaning = api.meanings.get(leaf.path, "")
            if not leaf.required or "default" in leaf.schema or meaning in api.personal:
                continue
            lacking = [other.name for other in apis if other.platform not in rows.get(meaning, {})]
            if lacking:
                found.append((api, leaf.path, lacking))
    return found
