"""Stages 1 and 2: from a scenario's name to competing platforms with APIs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import RunConfig, ScenarioSpec, identifier
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.llm import prompts
from pipelines.llm.schemas import schema_problem
from pipelines.records import API, Capability, Platform, Rejection, Scenario, Situation, Trait, TraitLevel
from pipelines.replies import ApiReply, ApisReply, PlatformGroupsReply, ScenarioReply
from pipelines.stage import Context, StageResult, gather
from pipelines.views import market_view
from pipelines.world import dominates, leaves, ranking, weights_of

ATTEMPTS = 4
_PROPERTY = re.compile(r"^[A-Za-z_][A-Za-z0-9_\-\[\]]{0,127}$")
"""No dots: a dotted path names a place inside nested arguments."""


async def expand_scenarios(ctx: Context, specs: Sequence[ScenarioSpec]) -> StageResult[Scenario]:
    """Give every scenario its traits, contexts, capabilities and competing platforms.

    One call per scenario. A reply that breaks a rule (a platform dominated or never best, names not
    unique, wrong counts) is rejected and asked again.

    Raises:
        ChecksFailed: when a scenario cannot be expanded in four attempts.
    """
    prompt = prompts.load("tools.expand_scenario")
    result: StageResult[Scenario] = StageResult()

    async def expand(spec: ScenarioSpec) -> tuple[Scenario, list[Rejection]]:
        dropped: list[Rejection] = []
        for attempt in range(ATTEMPTS):
            try:
                reply, _ = await ctx.llm.ask(
                    prompt, _scenario_values(spec, ctx.config), ScenarioReply, stage="scenarios", subject=spec.id, repeat=attempt
                )
                scenario = _scenario(spec, reply, ctx.config)
            except ReplyError as error:
                dropped.append(Rejection(stage="scenarios", subject=spec.id, reason=error.reason, detail=error.detail))
                continue
            return scenario, dropped
        raise ChecksFailed(f"scenario {spec.name!r}: no usable market in {ATTEMPTS} attempts; last: {dropped[-1].detail}")

    for scenario, dropped in await gather(specs, expand):
        result.kept.append(scenario)
        result.rejected.extend(dropped)
    _unique_brands(result.kept)
    return result


def api_count(spec: ScenarioSpec, config: RunConfig) -> int:
    """How many APIs each platform of this scenario gets: an imported platform brings its own number."""
    if spec.platform is not None:
        return len(spec.platform.apis)
    return max(config.apis_per_platform, len(spec.capabilities or ()))


def _scenario_values(spec: ScenarioSpec, config: RunConfig) -> dict[str, object]:
    given: dict[str, object] = {"name": spec.name, "description": spec.description}
    if spec.contexts is not None:
        given["contexts"] = [{"name": identifier(c.name), "description": c.description} for c in spec.contexts]
    capabilities = _given_capabilities(spec)
    if capabilities:
        given["capabilities"] = [c.model_dump() for c in capabilities]
    if spec.platform is not None:
        given["existing_platform"] = {"name": spec.platform.name, "description": spec.platform.description[:300]}
    return {
        "scenario": given,
        "platforms": config.platforms_per_scenario,
        "contexts": len(spec.contexts) if spec.contexts is not None else config.contexts_per_scenario,
        "capabilities": api_count(spec, config),
    }


def _given_capabilities(spec: ScenarioSpec) -> list[Capability]:
    if spec.platform is not None:
        names = _distinct([identifier(_snake(api.name)) for api in spec.platform.apis])
        return [
            Capability(name=name, description=api.description.strip()[:500] or name.replace("_", " "))
            for name, api in zip(names, spec.platform.apis, strict=True)
        ]
    return [
        Capability(name=identifier(c.name), description=c.description or identifier(c.name).replace("_", " ").capitalize(), open=c.open)
        for c in spec.capabilities or ()
    ]


def _snake(name: str) -> str:
    """`getCityShow` as `get_City_Show`, so that its words stay words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _distinct(names: Sequence[str]) -> list[str]:
    """The same names, later twins numbered `_2`, `_3`, ... until none is taken."""
    taken: set[str] = set()
    found = []
    for name in names:
        free, number = name, 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        taken.add(free)
        found.append(free)
    return found


def _scenario(spec: ScenarioSpec, reply: ScenarioReply, config: RunConfig) -> Scenario:
    """The reply as a record, if it keeps the rules.

    Raises:
        ReplyError: named after the rule that failed.
    """
    values = _scenario_values(spec, config)
    traits = [Trait(name=t.name, description=t.description) for t in reply.traits]
    contexts = [Situation(name=c.name, description=c.description, hours=(c.hours[0], c.hours[1])) for c in reply.contexts]
    if spec.contexts is not None:
        contexts = [Situation(name=identifier(c.name), description=c.description) for c in spec.contexts]
    capabilities = _given_capabilities(spec)
    known = {c.name for c in capabilities}
    for c in reply.capabilities:
        if c.name not in known and len(capabilities) < int(str(values["capabilities"])):
            capabilities.append(Capability(name=c.name, description=c.description, open=c.open))
            known.add(c.name)
    for what, found, wanted in (
        ("contexts", contexts, values["contexts"]),
        ("capabilities", capabilities, values["capabilities"]),
        ("platforms", reply.platforms, values["platforms"]),
    ):
        if len(found) != wanted:
            raise ReplyError("wrong_count", f"{len(found)} {what}, wanted {wanted}")
    for what, names in (
        ("traits", [t.name for t in traits]),
        ("contexts", [c.name for c in contexts]),
        ("platforms", [identifier(p.name) for p in reply.platforms]),
    ):
        if len(set(names)) != len(names):
            raise ReplyError("names_not_unique", f"{what}: {', '.join(sorted(names))}")
    platforms = []
    for p in reply.platforms:
        levels = {t.trait: TraitLevel(level=t.level, phrase=t.phrase) for t in p.traits}
        if set(levels) != {t.name for t in traits}:
            raise ReplyError("traits_incomplete", f"{p.name}: {sorted(levels)}")
        platforms.append(
            Platform(
                id=f"{spec.id}/{identifier(p.name)}",
                name=p.name,
                description=spec.platform.description if spec.platform is not None and p.name == spec.platform.name else p.description,
                traits={t.name: levels[t.name] for t in traits},
                imported=spec.platform is not None and p.name == spec.platform.name,
            )
        )
    if spec.platform is not None and not any(p.imported for p in platforms):
        raise ReplyError("existing_platform_missing", spec.platform.name)
    problem = none_dominated(platforms) or each_is_best_for_someone(platforms)
    if problem:
        raise ReplyError("platform_never_chosen", problem)
    return Scenario(
        id=spec.id,
        name=spec.name,
        description=spec.description,
        traits=traits,
        contexts=contexts,
        capabilities=capabilities,
        platforms=platforms,
    )


def none_dominated(platforms: Sequence[Platform]) -> str | None:
    """No platform is at least as good as another on every trait."""
    for one, other in itertools.permutations(platforms, 2):
        if dominates(one, other):
            return f"{one.name} is at least as good as {other.name} on every trait"
    return None


def each_is_best_for_someone(platforms: Sequence[Platform]) -> str | None:
    """Every platform is the best choice for some ranking of two or three traits."""
    traits = list(platforms[0].traits)
    best = {ranking(weights_of(order, traits), platforms)[0].platform for size in (2, 3) for order in itertools.permutations(traits, size)}
    never = [p.name for p in platforms if p.id not in best]
    return f"{', '.join(never)} is nobody's best choice" if never else None


def _unique_brands(scenarios: Sequence[Scenario]) -> None:
    owner: dict[str, str] = {}
    for scenario in scenarios:
        for platform in scenario.platforms:
            name = platform.name.casefold()
            if name in owner:
                raise ChecksFailed(
                    f"platform {platform.name!r} occurs in {owner[name]} and in {scenario.name}; rename it in one of the files"
                )
            owner[name] = scenario.name


async def expand_apis(ctx: Context, scenarios: Sequence[Scenario], specs: Sequence[ScenarioSpec]) -> StageResult[API]:
    """Grow the API tree depth first: platform, function groups, APIs.

    Platforms of a scenario come one after the other, so that each sees what its siblings already
    offer for the same capabilities; groups of one platform are asked at once. Missing capabilities are
    asked again until every platform has exactly its number.
    """
    result: StageResult[API] = StageResult()

    async def grow(pair: tuple[Scenario, ScenarioSpec]) -> StageResult[API]:
        scenario, spec = pair
        grown: StageResult[API] = StageResult()
        for platform in sorted(scenario.platforms, key=lambda p: not p.imported):
            if platform.imported and spec.platform is not None:
                grown.kept += _imported(scenario, platform, spec)
            else:
                grown.kept += await _grow_platform(ctx, scenario, platform, grown)
        order = {platform.id: i for i, platform in enumerate(scenario.platforms)}
        rank = {capability.name: i for i, capability in enumerate(scenario.capabilities)}
        grown.kept.sort(key=lambda api: (order[api.platform], rank[api.capability]))
        return grown

    for grown in await gather(list(zip(scenarios, specs, strict=True)), grow):
        result.kept.extend(grown.kept)
        result.rejected.extend(grown.rejected)
    return result


def _imported(scenario: Scenario, platform: Platform, spec: ScenarioSpec) -> list[API]:
    assert spec.platform is not None
    return [
        API(
            id=f"{platform.id}/{api.name}",
            platform=platform.id,
            name=api.name,
            description=api.description,
            capability=capability.name,
            group="imported",
            parameters=api.parameters,
            returns="Whatever the real API returns.",
        )
        for api, capability in zip(spec.platform.apis, scenario.capabilities, strict=True)
    ]


async def _grow_platform(ctx: Context, scenario: Scenario, platform: Platform, grown: StageResult[API]) -> list[API]:
    groups = await _function_groups(ctx, scenario, platform, grown)
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
                problem = api_is_sound(reply, found, missing)
                if problem is None:
                    found[reply.capability] = _api(platform, group, reply)
                else:
                    subject = f"{platform.id}/{reply.name}"
                    grown.rejected.append(Rejection(stage="apis", subject=subject, reason=problem[0], detail=problem[1]))
        missing -= set(found)
        if not missing:
            return list(found.values())
    raise ChecksFailed(f"platform {platform.name!r}: no sound API for {', '.join(sorted(missing))} in {ATTEMPTS} attempts")


async def _ask_group(
    ctx: Context, scenario: Scenario, platform: Platform, group: str, wanted: list[str], siblings: Sequence[API], attempt: int
) -> tuple[str, list[ApiReply], list[Rejection]]:
    values = {
        "scenario": market_view(scenario),
        "platform": {"name": platform.name, "description": platform.description},
        "group": group,
        "capabilities": [c.model_dump(exclude={"open"}) for c in scenario.capabilities if c.name in wanted],
        "siblings": [_sibling(api) for api in siblings if api.capability in wanted],
        "attempt": attempt + 1,
    }
    prompt, subject = prompts.load("tools.expand_apis"), f"{platform.id}/{group}"
    try:
        reply, _ = await ctx.llm.ask(prompt, values, ApisReply, stage="apis", subject=subject, repeat=attempt)
    except ReplyError as error:
        return group, [], [Rejection(stage="apis", subject=subject, reason=error.reason, detail=error.detail)]
    return group, reply.apis, []


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


async def _function_groups(ctx: Context, scenario: Scenario, platform: Platform, grown: StageResult[API]) -> dict[str, list[str]]:
    """Group -> capabilities; whatever the model forgot goes into its last group."""
    values = {
        "scenario": market_view(scenario),
        "platform": {"name": platform.name, "description": platform.description},
        "capabilities": [c.model_dump(exclude={"open"}) for c in scenario.capabilities],
    }
    names = [c.name for c in scenario.capabilities]
    groups: dict[str, list[str]] = {}
    placed: set[str] = set()
    try:
        reply, _ = await ctx.llm.ask(prompts.load("tools.expand_platform"), values, PlatformGroupsReply, stage="apis", subject=platform.id)
        for group in reply.groups:
            mine = [name for name in names if name in group.capabilities and name not in placed]
            placed.update(mine)
            if mine:
                groups.setdefault(group.name, []).extend(mine)
    except ReplyError as error:
        grown.rejected.append(Rejection(stage="apis", subject=platform.id, reason=error.reason, detail=error.detail))
    left = [name for name in names if name not in placed]
    if left:
        last = next(reversed(groups), "general")
        groups.setdefault(last, []).extend(left)
    return groups


def api_is_sound(reply: ApiReply, found: dict[str, API], missing: set[str]) -> tuple[str, str] | None:
    """Nothing, or (reason, detail) of what is wrong with a new API."""
    if reply.capability not in missing:
        return "unknown_capability", f"{reply.name} serves {reply.capability!r}, asked were {', '.join(sorted(missing))}"
    if reply.capability in found:
        return "capability_served_twice", f"{reply.name} and {found[reply.capability].name}"
    text = reply.description.casefold()
    same = [
        api.name
        for api in found.values()
        if api.name == reply.name or (api.description.casefold() == text and api.parameters == reply.parameters)
    ]
    if same:
        return "duplicate_api", f"{reply.name} repeats {same[0]}"
    problem = parameters_problem(reply.parameters)
    return ("bad_parameters", f"{reply.name}: {problem}") if problem else None


def parameters_problem(parameters: Mapping[str, Any]) -> str | None:
    """What keeps a JSON Schema from describing the arguments of an API, or None."""
    problem = schema_problem(parameters)
    if problem:
        return problem
    properties = parameters.get("properties", {})
    if parameters.get("type") != "object" or not isinstance(properties, dict):
        return "parameters must be of type object with properties"
    names = [str(name) for name in properties]
    bad = [name for name in names if not _PROPERTY.match(name)]
    if bad:
        return f"parameter name {bad[0]!r} is no identifier"
    unknown = [name for name in parameters.get("required", []) if name not in properties]
    if unknown:
        return f"required names {unknown[0]!r}, which is no property"
    if _refers(parameters):
        return "parameters hold a $ref; write the schema out"
    return "more than 100 parameters" if len(leaves(parameters)) > 100 else None


def _refers(schema: Any) -> bool:
    """Does a schema point elsewhere?"""
    if isinstance(schema, Mapping):
        return "$ref" in schema or "$dynamicRef" in schema or any(_refers(inner) for inner in schema.values())
    return isinstance(schema, list) and any(_refers(inner) for inner in schema)
