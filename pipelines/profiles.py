"""Stage 4: users, top down. Layer by layer, each branch gets k_l values in one call; then preferences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import JsonValue

from pipelines.errors import ChecksFailed, ReplyError
from pipelines.jsonio import canonical
from pipelines.llm import prompts
from pipelines.llm.schemas import first_error
from pipelines.records import API, FeatureNode, Preference, Profile, Rejection, Scenario
from pipelines.replies import BranchReply, PreferencesReply, WishReply
from pipelines.stage import Context, StageResult, gather
from pipelines.views import market_view
from pipelines.world import Leaf, World, branches, leaves, margin, ranking, weights_of

ATTEMPTS = 5

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
PERSON: list[dict[str, tuple[str, dict[str, Any]]]] = [
    {
        "life_stage": ("Where the person stands in life, e.g. student, new parent, retiree.", _TEXT),
        "region": ("The part of the world the person lives in.", _TEXT),
    },
    {
        "home_city": ("The city the person lives in.", _TEXT),
        "occupation": ("What the person does for a living.", _TEXT),
        "household_size": ("People in the household.", {"type": "integer", "minimum": 1, "maximum": 12}),
        "time_zone": ("IANA time zone of the home city.", {"type": "string", "pattern": "^[A-Za-z]+(/[A-Za-z_+-]+)+$|^UTC$"}),
    },
    {
        "name": ("Full name.", _TEXT),
        "age": ("Age in years.", {"type": "integer", "minimum": 16, "maximum": 100}),
        "gender": ("Gender.", _TEXT),
    },
]
"""What every person has, coarse to fine; features of the tree join the last layer."""


async def assign_profiles(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], features: Sequence[FeatureNode]
) -> StageResult[Profile]:
    """Give N = product of k_l users their basic features, then their hidden preferences per scenario and context.

    Each call emits only k_l children of one parent, so no call grows with N. More users than wanted are
    trimmed evenly. Preferences are rankings of traits; their weights follow by rule.

    Raises:
        ChecksFailed: when a branch gets no valid people in five attempts, or a user no usable preferences.
    """
    result: StageResult[Profile] = StageResult()
    layers = ctx.config.branching
    wanted = layer_features(layers, features, apis)
    level: list[dict[str, JsonValue]] = [{}]
    for number, width in enumerate(layers):
        asked = [(index, parent) for index, parent in enumerate(level)]

        async def branch(item: tuple[int, dict[str, JsonValue]], number: int = number, width: int = width) -> list[dict[str, JsonValue]]:
            return await _branch(ctx, item[0], item[1], number, width, wanted[number], result)

        level = [child for children in await gather(asked, branch) for child in children]
    chosen = _trim(len(level), ctx.config.users)
    people = [(f"u{i + 1:04d}", level[index], branches(index, layers)) for i, index in enumerate(chosen)]
    wishes = await prefer(ctx, scenarios, apis, people, result)
    for user, basic, path in people:
        result.kept.append(
            Profile(
                id=user, basic=basic, preferences=wishes[user], timezone=str(basic.get("time_zone", "UTC")),
                language=ctx.config.language, path=path,
            )
        )  # fmt: skip
    problem = no_twins(result.kept)
    if problem:
        raise ChecksFailed(f"profiles: {problem}")
    result.notes = {"mean_pairwise_distance": round(mean_distance(result.kept), 3), "layers": "x".join(map(str, layers))}
    return result


def layer_features(
    layers: Sequence[int], features: Sequence[FeatureNode], apis: Sequence[API]
) -> list[dict[str, tuple[str, dict[str, Any]]]]:
    """Which features each layer assigns: coarse facts first, the tree's own features in the last."""
    by_id = {f"{api.id}#{leaf.path}": leaf for api in apis for leaf in leaves(api.parameters)}
    own = {
        node.id: (node.description, feature_schema(node, by_id))
        for node in sorted(features, key=lambda n: n.id)
        if node.kind == "basic" and node.leaves
    }
    groups = [dict(group) for group in PERSON]
    groups[-1].update({key: value for key, value in own.items() if all(key not in group for group in PERSON)})
    while len(groups) > len(layers):
        groups[0:2] = [{**groups[0], **groups[1]}]
    while len(groups) < len(layers):
        items = list(groups[-1].items())
        half = max(1, len(items) // 2)
        groups[-1:] = [dict(items[:half]), dict(items[half:])] if len(items) > 1 else [groups[-1], {}]
    return groups


def feature_schema(node: FeatureNode, by_id: Mapping[str, Leaf]) -> dict[str, Any]:
    """JSON Schema of a feature's value: the form that most of its parameters take."""
    votes: Counter[str] = Counter()
    shapes: dict[str, dict[str, Any]] = {}
    for leaf_id in node.leaves:
        leaf = by_id.get(leaf_id)
        if leaf is None:
            continue
        shape: dict[str, Any] = {key: leaf.schema[key] for key in ("type", "enum", "format", "pattern", "items") if key in leaf.schema}
        votes[canonical(shape)] += 1
        shapes.setdefault(canonical(shape), shape)
    return shapes[votes.most_common(1)[0][0]] if votes else dict(_TEXT)


async def _branch(
    ctx: Context,
    index: int,
    parent: dict[str, JsonValue],
    layer: int,
    width: int,
    wanted: dict[str, tuple[str, dict[str, Any]]],
    result: StageResult[Profile],
) -> list[dict[str, JsonValue]]:
    subject = f"layer{layer + 1}.{index}"
    children: list[dict[str, JsonValue]] = []
    for attempt in range(ATTEMPTS):
        values = {
            "known": parent,
            "features": [{"id": key, "description": text, "schema": schema} for key, (text, schema) in wanted.items()],
            "count": width - len(children),
            "branch": f"{subject}, attempt {attempt + 1}",
        }
        try:
            reply, _ = await ctx.llm.ask(
                prompts.load("profiles.branch"), values, BranchReply, stage="profiles", subject=subject, repeat=attempt
            )
        except ReplyError as error:
            result.rejected.append(Rejection(stage="profiles", subject=subject, reason=error.reason, detail=error.detail))
            continue
        for person in reply.people:
            problem = person_is_valid(person, wanted, children)
            if problem is None and len(children) < width:
                children.append({**parent, **{key: person[key] for key in wanted}})
            elif problem is not None:
                result.rejected.append(Rejection(stage="profiles", subject=subject, reason=problem[0], detail=problem[1]))
        if len(children) == width:
            return children
    raise ChecksFailed(
        f"profiles: {subject} has {len(children)} of {width} valid people after {ATTEMPTS} attempts; see rejected/04_profiles.jsonl"
    )


def person_is_valid(
    person: dict[str, JsonValue], wanted: dict[str, tuple[str, dict[str, Any]]], siblings: Sequence[dict[str, JsonValue]]
) -> tuple[str, str] | None:
    """Nothing, or (reason, detail)."""
    missing = [key for key in wanted if key not in person]
    if missing:
        return "feature_missing", ", ".join(missing)
    for key, (_, schema) in wanted.items():
        problem = first_error(schema, person[key])
        if problem:
            return "feature_invalid", f"{key}: {problem}"
    mine = canonical({key: person[key] for key in wanted})
    if wanted and any(canonical({key: other.get(key) for key in wanted}) == mine for other in siblings):
        return "duplicate_profile", mine[:200]
    return None


def _trim(total: int, wanted: int) -> list[int]:
    """Evenly spread indices, so that trimming thins all branches alike."""
    return sorted({i * total // wanted for i in range(wanted)})


async def prefer(
    ctx: Context,
    scenarios: Sequence[Scenario],
    apis: Sequence[API],
    people: Sequence[tuple[str, dict[str, JsonValue], list[int]]],
    result: StageResult[Profile],
) -> dict[str, list[Preference]]:
    """Hidden preferences, one call per scenario and family of siblings; redrawn for users whose choice never varies."""
    world = World(scenarios, apis)
    families: dict[tuple[int, ...], list[tuple[str, dict[str, JsonValue], list[int]]]] = {}
    for person in people:
        families.setdefault(tuple(person[2][:-1]), []).append(person)
    jobs = [(family, scenario) for family in families.values() for scenario in scenarios]
    wishes: dict[tuple[str, str], list[Preference]] = {}

    async def ask(job: tuple[list[tuple[str, dict[str, JsonValue], list[int]]], Scenario]) -> None:
        family, scenario = job
        open_users = {user: basic for user, basic, _ in family}
        for attempt in range(2 * ATTEMPTS):
            values = {
                "scenario": market_view(scenario),
                "people": [{"user": user, "basic_features": basic} for user, basic in open_users.items()],
                "attempt": attempt + 1,
            }
            subject = f"{scenario.id}.{next(iter(open_users))}"
            try:
                reply, _ = await ctx.llm.ask(
                    prompts.load("profiles.prefer"), values, PreferencesReply, stage="profiles", subject=subject, repeat=attempt
                )
            except ReplyError as error:
                result.rejected.append(Rejection(stage="profiles", subject=subject, reason=error.reason, detail=error.detail))
                continue
            for person in reply.people:
                if person.user not in open_users:
                    continue
                preferences, problem = _usable(person.contexts, scenario, world, ctx.config.min_margin)
                if problem is None:
                    wishes[person.user, scenario.id] = preferences
                    del open_users[person.user]
                else:
                    result.rejected.append(
                        Rejection(stage="profiles", subject=f"{scenario.id}.{person.user}", reason=problem[0], detail=problem[1])
                    )
            if not open_users:
                return
        raise ChecksFailed(
            f"profiles: no usable preferences for {', '.join(open_users)} in {scenario.name}; see rejected/04_profiles.jsonl"
        )

    await gather(jobs, ask)
    result.rejected.sort(key=lambda r: r.subject)
    return {user: [p for scenario in scenarios for p in wishes[user, scenario.id]] for user, _, _ in people}


def _usable(
    answers: Sequence[WishReply], scenario: Scenario, world: World, min_margin: float
) -> tuple[list[Preference], tuple[str, str] | None]:
    traits = [trait.name for trait in scenario.traits]
    by_context = {answer.context: answer for answer in answers}
    preferences = []
    for context in scenario.contexts:
        answer = by_context.get(context.name)
        if answer is None:
            return [], ("context_missing", context.name)
        unknown = [t for t in answer.priorities if t not in traits]
        if unknown or len(set(answer.priorities)) != len(answer.priorities):
            return [], ("priorities_invalid", f"{context.name}: {', '.join(answer.priorities)}")
        preferences.append(
            Preference(
                scenario=scenario.id, context=context.name, words=answer.words,
                priorities=answer.priorities, weights=weights_of(answer.priorities, traits),
            )
        )  # fmt: skip
    rankings = [ranking(p.weights, scenario.platforms) for p in preferences]
    clear = {ranked[0].platform for ranked in rankings if margin(ranked) >= min_margin}
    if len(clear) < 2:
        return [], ("choice_never_varies", f"clear favourites: {', '.join(sorted(clear)) or 'none'}")
    return preferences, None


def no_twins(profiles: Sequence[Profile]) -> str | None:
    """No two users have the same basic features."""
    seen: dict[str, str] = {}
    for profile in profiles:
        key = canonical(profile.basic)
        if key in seen:
            return f"{profile.id} and {seen[key]} are the same person"
        seen[key] = profile.id
    return None


def mean_distance(profiles: Sequence[Profile]) -> float:
    """Mean share of basic features in which two users differ, over at most 2,000 pairs (Hamming, 0 to 1)."""
    if len(profiles) < 2:
        return 0.0
    keys = sorted({key for profile in profiles for key in profile.basic})
    codes: dict[str, int] = {}
    matrix = np.array([[codes.setdefault(canonical(p.basic.get(key)), len(codes)) for key in keys] for p in profiles])
    pairs = np.random.default_rng(0).integers(0, len(profiles), size=(2000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return float((matrix[pairs[:, 0]] != matrix[pairs[:, 1]]).mean())
