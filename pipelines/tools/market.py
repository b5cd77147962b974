"""Stage 1: from a scenario's name to a market: traits, contexts, capabilities and platforms that compete."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence

from pipelines.config import RunConfig, ScenarioSpec, identifier
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.records import Capability, Platform, Rejection, Scenario, Situation, Trait, TraitLevel
from pipelines.replies import ScenarioReply, TraitBandsReply
from pipelines.stage import Context, StageResult, gather
from pipelines.tools.rules import wrong_language
from pipelines.world import dominates, ranking, weights_of

ATTEMPTS = 4


async def expand_scenarios(ctx: Context, specs: Sequence[ScenarioSpec], taken: Collection[str] = ()) -> StageResult[Scenario]:
    """Give every scenario its traits, contexts, capabilities and competing platforms.

    One call per scenario. A reply that breaks a rule (a platform dominated or never best, names not
    unique, wrong counts, a phrase that a judge reads as another level) is rejected and asked again.

    Args:
        ctx: Config and model.
        specs: The scenarios as the user named them.
        taken: Brands, case-folded, that other scenarios of the run have already.

    Raises:
        ChecksFailed: when a scenario cannot be expanded in four attempts.
    """
    prompt = ctx.prompt("tools.expand_scenario")
    result: StageResult[Scenario] = StageResult()

    async def expand(spec: ScenarioSpec) -> tuple[Scenario, list[Rejection]]:
        dropped: list[Rejection] = []
        so_far: list[Capability] = []
        for attempt in range(ATTEMPTS):
            try:
                values = _scenario_values(spec, ctx.config, so_far)
                reply, _ = await ctx.llm.ask(prompt, values, ScenarioReply, stage="scenarios", subject=spec.id, repeat=attempt)
                so_far = _capabilities(spec, reply, ctx.config, so_far)
                scenario = _scenario(spec, reply, ctx.config, so_far)
                twins = [platform.name for platform in scenario.platforms if platform.name.casefold() in taken]
                if twins:
                    raise ReplyError("brand_taken", ", ".join(twins))
                if ctx.config.judge:
                    await judge_traits(ctx, scenario, attempt)
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


def _scenario_values(spec: ScenarioSpec, config: RunConfig, so_far: Sequence[Capability] = ()) -> dict[str, object]:
    given: dict[str, object] = {"name": spec.name, "description": spec.description}
    if spec.contexts is not None:
        given["contexts"] = [{"name": identifier(c.name), "description": c.description} for c in spec.contexts]
    capabilities = list(so_far) or _given_capabilities(spec)
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
            Capability(name=name, description=_told(api.description, name)) for name, api in zip(names, spec.platform.apis, strict=True)
        ]
    return [
        Capability(name=identifier(c.name), description=c.description or identifier(c.name).replace("_", " ").capitalize(), open=c.open)
        for c in spec.capabilities or ()
    ]


def _told(description: str, name: str) -> str:
    """What a real API says of itself; too short a word is told with its name."""
    text = description.strip()[:500]
    return text if len(text) > 4 else f"{name.replace('_', ' ').capitalize()}. {text}".strip()


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


def _capabilities(spec: ScenarioSpec, reply: ScenarioReply, config: RunConfig, so_far: Sequence[Capability]) -> list[Capability]:
    """What is given or known so far, topped up from the reply to the wanted number; a short list is asked to be completed."""
    found = list(so_far) or _given_capabilities(spec)
    known = {c.name for c in found}
    for c in reply.capabilities:
        if c.name not in known and len(found) < api_count(spec, config):
            found.append(Capability(name=c.name, description=c.description, open=c.open))
            known.add(c.name)
    return found


def _scenario(spec: ScenarioSpec, reply: ScenarioReply, config: RunConfig, capabilities: list[Capability]) -> Scenario:
    """The reply as a record, if it keeps the rules.

    Raises:
        ReplyError: named after the rule that failed.
    """
    values = _scenario_values(spec, config)
    traits = [Trait(name=t.name, description=t.description) for t in reply.traits]
    contexts = [
        Situation(name=c.name, description=c.description, hours=(c.hours[0], c.hours[1]), workdays=c.workdays) for c in reply.contexts
    ]
    if spec.contexts is not None:
        contexts = [Situation(name=identifier(c.name), description=c.description) for c in spec.contexts]
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
    given = {c.description for c in _given_capabilities(spec)}
    told = [*(t.description for t in traits), *(p.description for p in platforms if not p.imported)]
    told += [*(level.phrase for p in platforms for level in p.traits.values()), *(c.description for c in capabilities)]
    if spec.contexts is None:
        told += [c.description for c in contexts]
    foreign = wrong_language([text for text in told if text not in given], None if spec.platform is not None else config.language)
    if foreign:
        raise ReplyError("wrong_language", foreign)
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


BANDS = {"low": (0.0, 0.5), "middle": (0.2, 0.8), "high": (0.5, 1.0)}
"""Levels that a phrase of each band may stand for; they overlap, since words are no numbers."""


async def judge_traits(ctx: Context, scenario: Scenario, attempt: int) -> None:
    """Let a judge who sees no level read every trait phrase as low, middle or high.

    Raises:
        ReplyError: `trait_text_disagrees` when a phrase does not say its level, or the judge left one out.
    """
    items = [(f"p{i}.{trait}", platform, trait) for i, platform in enumerate(scenario.platforms) for trait in platform.traits]
    ctx.config.rng("judge_traits", scenario.id).shuffle(items)
    values = {
        "traits": [{"name": t.name, "description": t.description} for t in scenario.traits],
        "phrases": [{"id": key, "trait": trait, "phrase": platform.traits[trait].phrase} for key, platform, trait in items],
    }
    prompt = ctx.prompt("tools.judge_traits")
    reply, _ = await ctx.llm.ask(prompt, values, TraitBandsReply, stage="scenarios", subject=scenario.id, repeat=attempt)
    read = {band.id: band for band in reply.bands}
    wrong = []
    for key, platform, trait in items:
        level, band = platform.traits[trait], read.get(key)
        if band is None:
            raise ReplyError("trait_text_unjudged", f"the judge says nothing of {platform.name}'s {trait}")
        low, high = BANDS[band.band]
        if not low <= level.level <= high:
            wrong.append(f"{platform.name} {trait} {level.level:.2f} reads as {band.band}: {level.phrase!r}")
    if wrong:
        raise ReplyError("trait_text_disagrees", "; ".join(wrong[:5]))
