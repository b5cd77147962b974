"""What settles an argument or a platform, and what does not: shared by the plan and by the rules that prove it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from pipelines.records import API, Event
from pipelines.world import World, flatten

if TYPE_CHECKING:
    from pipelines.queries import Cell, Choice


def flat_choice(found: Choice, min_margin: float, min_posterior: float) -> bool:
    """Neither the utilities nor the history prefer one platform: the right act is to ask."""
    return len(found.ranked) > 1 and found.margin < min_margin and max(found.posterior.values()) < min_posterior


def nothing_settles(cell: Cell, api: API, path: str) -> str | None:
    """Nothing when only the query could give this argument, else what else settles it."""
    leaf = next((leaf for leaf in cell.world.leaves_of[api.id] if leaf.path == path), None)
    if leaf is None:
        return f"{api.name} has no parameter {path!r}"
    if not leaf.required:
        return f"{path} may be left out"
    if "default" in leaf.schema or "const" in leaf.schema:
        return f"the schema of {path} has a default"
    feature = cell.world.feature_of.get(f"{api.id}#{path}")
    if feature is not None and feature.kind != "request":
        return f"{path} belongs to the user ({feature.id})"
    return None


def siblings(world: World, api: API, path: str) -> list[str]:
    """`<API id>#<path>` of the parameters of all APIs of the same capability that hang under the same feature, sorted."""
    mine = f"{api.id}#{path}"
    feature = world.feature_of.get(mine)
    found = {mine}
    for other in world.serving.get((api.platform.partition("/")[0], api.capability), []):
        for leaf in world.leaves_of[other.id]:
            key = f"{other.id}#{leaf.path}"
            if feature is not None and world.feature_of.get(key) is feature:
                found.add(key)
    return sorted(found)


def held_by(world: World, event: Event, api: API, path: str) -> JsonValue:
    """The value that an event gave for the same thing as this parameter; None when it gave none, or more than one."""
    feature = world.feature_of.get(f"{api.id}#{path}")
    theirs = world.api.get((event.platform, event.api))
    if theirs is None:
        return None
    if theirs.id == api.id:
        return flatten(event.arguments, api.parameters).get(path)
    if feature is None:
        return None
    held = [
        value for key, value in flatten(event.arguments, theirs.parameters).items() if world.feature_of.get(f"{theirs.id}#{key}") is feature
    ]
    return held[0] if len(held) == 1 else None
