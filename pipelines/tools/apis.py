"""Stage 2: the API tree, depth first: platform, function groups, groups within groups, APIs."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.config import ScenarioSpec
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.records import API, Platform, Rejection, Scenario
from pipelines.replies import ApiReply, ApisReply, PlatformGroupsReply
from pipelines.stage import Context, StageResult, gather
from pipelines.tools.equivalence import IMPORTED, equivalences, match_parameters, relax
from pipelines.tools.prune import api_text, near_duplicates
from pipelines.tools.rules import api_is_sound
from pipelines.tools.variety import plan_shapes, variety
from pipelines.views import market_view

ATTEMPTS = 4


async def expand_apis(ctx: Context, scenarios: Sequence[Scenario], specs: Sequence[ScenarioSpec]) -> StageResult[API]:
    """Grow the API tree depth first: platform, function groups, groups within groups, APIs.

    Platforms of a scenario come one after the other, so that each sees what its siblings already
    offer for the same capabilities; the last groups of one platform are asked at once. Near-duplicates are
    dropped, and what is missing is asked again until every platform has exactly its number. Last, the
    parameters of siblings are matched.
    """
    result: StageResult[API] = StageResult()

    async def grow(pair: tuple[Scenario, ScenarioSpec]) -> StageResult[API]:
        scenario, spec = pair
        grown: StageResult[API] = StageResult()
        for platform in sorted(scenario.platforms, key=lambda p: not p.imported):
            if platform.imported and spec.platform is not None:
                grown.kept += _imported(scenario, platform, spec, ctx.config.language)
            else:
                grown.kept += await _grow_platform(ctx, scenario, platform, grown)
        order = {platform.id: i for i, platform in enumerate(scenario.platforms)}
        rank = {capability.name: i for i, capability in enumerate(scenario.capabilities)}
        grown.kept.sort(key=lambda api: (order[api.platform], rank[api.capability]))
        grown.kept, lost = await match_parameters(ctx, scenario, grown.kept)
        grown.kept, relaxed = relax(grown.kept)
        grown.rejected += [*lost, *relaxed]
        return grown

    for grown in await gather(list(zip(scenarios, specs, strict=True)), grow):
        result.kept.extend(grown.kept)
        result.rejected.extend(grown.rejected)
    sound = [not equivalence.problems for equivalence in equivalences(result.kept)]
    told = variety(ctx.config, result.kept)
    result.notes = {
        "interchangeable": f"{sum(sound)} of {len(sound)} capabilities",
        "mean_parameters": told["mean_parameters"],
        "required_share": told["required_share"],
    }
    return result


REAL_RETURN = {"en": "Whatever the real API returns.", "zh": "以真实接口的返回为准。"}


def _imported(scenario: Scenario, platform: Platform, spec: ScenarioSpec, language: str) -> list[API]:
    assert spec.platform is not None
    return [
        API(
            id=f"{platform.id}/{api.name}",
            platform=platform.id,
            name=api.name,
            description=api.description,
            capability=capability.name,
            group=f"{IMPORTED}/{api.group}" if api.group else IMPORTED,
            parameters=api.parameters,
            returns=api.returns or REAL_RETURN[language],
        )
        for api, capability in zip(spec.platform.apis, scenario.capabilities, strict=True)
    ]


async def _grow_platform(ctx: Context, scenario: Scenario, platform: Platform, grown: StageResult[API]) -> list[API]:
    groups = await _function_groups(ctx, scenario, platform, [c.name for c in scenario.capabilities], (), grown)
    siblings = list(grown.kept)
    found: dict[str, API] = {}
    missing = {c.name for c in scenario.capabilities}
    for attempt in range(ATTEMPTS):
        wanted = [(group, [name for name in names if name in missing]) for group, names in groups.items()]

        async def ask(item: tuple[str, list[str]], attempt: int = attempt) -> tuple[str, list[ApiReply], list[Rejection]]:
            return await _ask_group(ctx, scenario, platform, item[0], item[1], siblings, attempt)

        for group, replies, rejected in await gather([item for item in wanted if item[1]], ask):
            grown.rejected += rejected
            for reply in replies:
                problem = api_is_sound(reply, found, missing, _language_asked(ctx, scenario))
                if problem is None:
                    found[reply.capability] = _api(platform, group, reply)
                else:
                    subject = f"{platform.id}/{reply.name}"
                    grown.rejected.append(Rejection(stage="apis", subject=subject, reason=problem[0], detail=problem[1]))
        for capability, rejection in _near_duplicates(list(found.values())):
            grown.rejected.append(rejection)
            del found[capability]
        missing = {c.name for c in scenario.capabilities} - set(found)
        if not missing:
            return list(found.values())
    raise ChecksFailed(f"platform {platform.name!r}: no sound API for {', '.join(sorted(missing))} in {ATTEMPTS} attempts")


def _near_duplicates(apis: Sequence[API]) -> list[tuple[str, Rejection]]:
    """APIs of one platform that repeat an earlier one: (capability, why it is dropped)."""
    found = []
    for dropped in near_duplicates([api_text(api) for api in apis]):
        api, other = apis[dropped.index], apis[dropped.of]
        detail = f"{api.name} repeats {other.name}, similarity {dropped.similarity:.3f}"
        found.append((api.capability, Rejection(stage="apis", subject=api.id, reason=dropped.why, detail=detail)))
    return found


async def _ask_group(
    ctx: Context, scenario: Scenario, platform: Platform, group: str, wanted: list[str], siblings: Sequence[API], attempt: int
) -> tuple[str, list[ApiReply], list[Rejection]]:
    offered = [c.name for c in scenario.capabilities]
    values = {
        "scenario": market_view(scenario),
        "platform": {"name": platform.name, "description": platform.description},
        "group": group,
        "capabilities": [c.model_dump(exclude={"open"}) for c in scenario.capabilities if c.name in wanted],
        "siblings": [_sibling(api) for api in siblings if api.capability in wanted],
        "shapes": [shape for name, shape in plan_shapes(ctx.config, scenario.id, offered).items() if name in wanted],
        "attempt": attempt + 1,
    }
    prompt, subject = ctx.prompt("tools.expand_apis"), f"{platform.id}/{group}"
    try:
        reply, _ = await ctx.llm.ask(prompt, values, ApisReply, stage="apis", subject=subject, repeat=attempt)
    except ReplyError as error:
        return group, [], [Rejection(stage="apis", subject=subject, reason=error.reason, detail=error.detail)]
    return group, reply.apis, []


def _language_asked(ctx: Context, scenario: Scenario) -> str | None:
    """The language of new descriptions; beside imported APIs, whose words are what they are, none is asked for."""
    return None if any(platform.imported for platform in scenario.platforms) else ctx.config.language


def _sibling(api: API) -> dict[str, object]:
    return {"capability": api.capability, "name": api.name, "description": api.description, "parameters": api.parameters}


def _api(platform: Platform, group: str, reply: ApiReply) -> API:
    return API(
        id=f"{platform.id}/{reply.name}",
        platform=platform.id,
        name=reply.name,
        description=reply.description,
        capability=reply.capability,
        group=group,
        parameters=reply.parameters,
        returns=reply.returns,
    )


async def _function_groups(
    ctx: Context, scenario: Scenario, platform: Platform, names: Sequence[str], path: tuple[str, ...], grown: StageResult[API]
) -> dict[str, list[str]]:
    """Group path, joined by `/` -> capabilities. A group that is too large is split again while the depth allows."""
    groups: dict[str, list[str]] = {}
    for name, mine in (await _split(ctx, scenario, platform, names, path, grown)).items():
        inner = (*path, name)
        if len(mine) > ctx.config.group_size and len(inner) < ctx.config.group_depth:
            groups |= await _function_groups(ctx, scenario, platform, mine, inner, grown)
        else:
            groups["/".join(inner)] = mine
    return groups


async def _split(
    ctx: Context, scenario: Scenario, platform: Platform, names: Sequence[str], path: tuple[str, ...], grown: StageResult[API]
) -> dict[str, list[str]]:
    """One node of the tree: its groups and their capabilities; whatever the model forgot goes into its last group."""
    values = {
        "scenario": market_view(scenario),
        "platform": {"name": platform.name, "description": platform.description},
        "path": list(path),
        "capabilities": [c.model_dump(exclude={"open"}) for c in scenario.capabilities if c.name in names],
    }
    groups: dict[str, list[str]] = {}
    placed: set[str] = set()
    subject = "/".join((platform.id, *path))
    try:
        reply, _ = await ctx.llm.ask(ctx.prompt("tools.expand_platform"), values, PlatformGroupsReply, stage="apis", subject=subject)
        for group in reply.groups:
            mine = [name for name in names if name in group.capabilities and name not in placed]
            placed.update(mine)
            if mine:
                groups.setdefault(group.name, []).extend(mine)
    except ReplyError as error:
        grown.rejected.append(Rejection(stage="apis", subject=subject, reason=error.reason, detail=error.detail))
    left = [name for name in names if name not in placed]
    if left:
        last = next(reversed(groups), "general")
        groups.setdefault(last, []).extend(left)
    return groups
