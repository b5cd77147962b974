"""Stage 4: users, top down. Layer by layer, each branch gets k_l values in one call; then preferences."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any

from pydantic import JsonValue

from pipelines.errors import ChecksFailed, ReplyError
from pipelines.jsonio import canonical
from pipelines.llm.schemas import first_error
from pipelines.profiles.diversity import figures, no_twins, spread
from pipelines.profiles.plausible import first_contradiction
from pipelines.profiles.preferences import LEFT_OUT, Chooser, Person
from pipelines.records import API, FeatureNode, Profile, Rejection, Scenario
from pipelines.replies import BranchReply
from pipelines.stage import Context, StageResult, check_yield, gather
from pipelines.world import Leaf, branches, leaves

ATTEMPTS = 5
WINDOW = 100
"""Users whose preferences are asked for at once; shares of platforms are steered between windows."""

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
PERSON: list[dict[str, tuple[str, dict[str, Any]]]] = [
    {
        "life_stage": ("Where the person stands in life, e.g. student, new parent, retiree.", _TEXT),
    },
    {
        "region": ("The part of the world the person lives in.", _TEXT),
        "home_city": ("The city the person lives in.", _TEXT),
        "time_zone": ("IANA time zone of the home city.", {"type": "string", "pattern": "^[A-Za-z]+(/[A-Za-z_+-]+)+$|^UTC$"}),
    },
    {
        "name": ("Full name.", _TEXT),
        "age": ("Age in years.", {"type": "integer", "minimum": 16, "maximum": 100}),
        "gender": ("Gender.", _TEXT),
        "occupation": ("What the person does for a living.", _TEXT),
        "household_size": ("People in the household.", {"type": "integer", "minimum": 1, "maximum": 12}),
    },
]
"""What every person has, coarse to fine; features of the tree join the last layer.

Only the coarsest facts are shared by many users, so that branching binds little together: with region in the first
layer and occupation in the second, mean Cramér's V between layers was 0.23 instead of 0.19 for 80 users.
"""


async def assign_profiles(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], features: Sequence[FeatureNode]
) -> StageResult[Profile]:
    """Give N = product of k_l users their basic features, then their hidden preferences per scenario and context.

    Each call emits only k_l children of one parent, so no call grows with N. When the tree gives more users than
    wanted, those too close to others go (max-min distance). Preferences are rankings of traits; weights follow by rule.

    Raises:
        ChecksFailed: when a branch gets no valid people in five attempts, a user no usable preferences, or more
            is rejected than `max_rejected`.
    """
    result: StageResult[Profile] = StageResult()
    result.kept = [profile async for profile in stream_profiles(ctx, scenarios, apis, features, result)]
    problem = no_twins(result.kept)
    if problem:
        raise ChecksFailed(f"profiles: {problem}", result.rejected)
    return result


async def stream_profiles(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], features: Sequence[FeatureNode], result: StageResult[Profile]
) -> AsyncIterator[Profile]:
    """The same, some families of siblings at a time; of all users only the basic features are held.

    Rejections and notes go to `result`.
    """
    layers = ctx.config.branching
    wanted = layer_features(layers, features, apis)
    people = await assign_basics(ctx, layers, wanted, result)
    check_yield("profiles", len(people), result.rejected, ctx.config.max_rejected)
    chosen = spread(people, ctx.config.users)
    result.notes = {
        "layers": "x".join(map(str, layers)),
        "trimmed": len(people) - len(chosen),
        **figures([people[i] for i in chosen], [list(layer) for layer in wanted]),
    }
    chooser = Chooser(ctx, scenarios, result.rejected)
    numbered = [Person(f"u{n:04d}", people[index], tuple(branches(index, layers))) for n, index in enumerate(chosen, start=1)]
    window: list[Person] = []
    kept = 0
    for _, family in groupby(numbered, key=lambda person: person.path[:-1]):
        window.extend(family)
        if len(window) >= WINDOW or window[-1] is numbered[-1]:
            wishes = await chooser.choose(window)
            kept += len(wishes)
            check_yield("profiles", kept, result.rejected, ctx.config.max_rejected, unit={LEFT_OUT})
            for person in [person for person in window if person.id in wishes]:
                yield Profile(
                    id=person.id, basic=person.basic, preferences=wishes[person.id], timezone=str(person.basic.get("time_zone", "UTC")),
                    language=ctx.config.language, path=list(person.path),
                )  # fmt: skip
            window = []
    result.notes |= chooser.figures()


async def assign_basics(
    ctx: Context, layers: Sequence[int], wanted: Sequence[dict[str, tuple[str, dict[str, Any]]]], result: StageResult[Profile]
) -> list[dict[str, JsonValue]]:
    """The basic features of all N people, layer by layer, in the order of their branches."""
    level: list[dict[str, JsonValue]] = [{}]
    for number, width in enumerate(layers):
        asked = list(enumerate(level))

        async def branch(item: tuple[int, dict[str, JsonValue]], number: int = number, width: int = width) -> list[dict[str, JsonValue]]:
            return await assign_branch(ctx, item[0], item[1], number, width, wanted[number], result)

        level = [child for children in await gather(asked, branch) for child in children]
    return level


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


async def assign_branch(
    ctx: Context,
    index: int,
    parent: dict[str, JsonValue],
    layer: int,
    width: int,
    wanted: dict[str, tuple[str, dict[str, Any]]],
    result: StageResult[Profile],
) -> list[dict[str, JsonValue]]:
    """Give one parent `width` children in one call, repeated for those that cannot be used."""
    subject = f"layer{layer + 1}.{index}"
    children: list[dict[str, JsonValue]] = []
    problems: list[str] = []
    for attempt in range(ATTEMPTS):
        values = {
            "known": parent,
            "features": [{"id": key, "description": text, "schema": schema} for key, (text, schema) in wanted.items()],
            "count": width - len(children),
            "branch": f"{subject}, attempt {attempt + 1}",
            "problems": problems[-3:],
        }
        try:
            reply, _ = await ctx.llm.ask(
                ctx.prompt("profiles.branch"), values, BranchReply, stage="profiles", subject=subject, repeat=attempt
            )
        except ReplyError as error:
            result.rejected.append(Rejection(stage="profiles", subject=subject, reason=error.reason, detail=error.detail))
            continue
        for person in reply.people:
            problem = person_is_valid({**parent, **person}, wanted, children, date.fromisoformat(ctx.config.now[:10]))
            if problem is None and len(children) < width:
                children.append({**parent, **{key: person[key] for key in wanted}})
            elif problem is not None:
                problems.append(f"{problem[0].replace('_', ' ')}: {problem[1]}"[:200])
                result.rejected.append(Rejection(stage="profiles", subject=subject, reason=problem[0], detail=problem[1][:500]))
        if len(children) == width:
            return children
    top = ", ".join(f"{reason} {count}" for reason, count in Counter(r.reason for r in result.rejected).most_common(3))
    raise ChecksFailed(
        f"profiles: {subject} has {len(children)} of {width} valid people after {ATTEMPTS} attempts; most frequent reasons: {top}; "
        "see rejected/04_profiles.jsonl",
        result.rejected,
    )


def person_is_valid(
    person: dict[str, JsonValue], wanted: dict[str, tuple[str, dict[str, Any]]], siblings: Sequence[dict[str, JsonValue]], today: date
) -> tuple[str, str] | None:
    """Nothing, or (reason, detail): typed, free of contradictions, and unlike the siblings.

    Args:
        person: With the facts of the parent.
        wanted: Features of this layer, with description and schema.
    """
    missing = [key for key in wanted if key not in person]
    if missing:
        return "feature_missing", ", ".join(missing)
    for key, (_, schema) in wanted.items():
        wrong = first_error(schema, person[key])
        if wrong:
            return "feature_invalid", f"{key}: {wrong}"
    problem = first_contradiction(person, today)
    if problem is not None:
        return problem
    mine = canonical({key: person[key] for key in wanted})
    if wanted and any(canonical({key: other.get(key) for key in wanted}) == mine for other in siblings):
        return "duplicate_profile", mine[:200]
    return None
