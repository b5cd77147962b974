"""Typed defects to plant into good samples, to measure what rules and judges catch.

A defect takes a sound item and gives the same item with one thing wrong, or None when this item cannot carry it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue

from pipelines.queries import choice
from pipelines.records import Source, ToolCall
from pipelines.verify.rules import Item
from pipelines.world import unflatten

Plant = Callable[[Item, random.Random], Item | None]


@dataclass(frozen=True)
class Defect:
    """One kind of mistake."""

    name: str
    plant: Plant
    structural: bool = False
    """True for what a schema alone could tell: a name, a type or an argument that is not there."""


def with_calls(item: Item, calls: list[ToolCall], **changes: Any) -> Item:
    """The item with another answer."""
    return replace(item, solution=item.solution.model_copy(update={"calls": calls, **changes}))


def with_text(item: Item, text: str) -> Item:
    """The item with another query text."""
    return replace(item, query=item.query.model_copy(update={"text": text}))


def with_call(item: Item, number: int = 0, **changes: Any) -> Item:
    """The item with one call changed."""
    calls = list(item.solution.calls)
    calls[number] = calls[number].model_copy(update=changes)
    return with_calls(item, calls)


def with_value(item: Item, path: str, value: JsonValue) -> Item:
    """The item with another value at a path of its first call."""
    return with_call(item, arguments=unflatten({**item.flat[0], path: value}))


def without(item: Item, path: str) -> Item:
    """The item without one argument of its first call."""
    flat = {key: value for key, value in item.flat[0].items() if key != path}
    sources = {key: source for key, source in item.solution.calls[0].sources.items() if key != path}
    return with_call(item, arguments=unflatten(flat), sources=sources)


def paths(item: Item, kind: str | None = None, of: type | tuple[type, ...] = object) -> list[str]:
    """Paths of the first call whose value has this type and source."""
    if not item.solution.calls:
        return []
    sources = item.solution.calls[0].sources
    return [
        path
        for path, value in item.flat[0].items()
        if isinstance(value, of) and not (isinstance(value, bool) and of is not object) and (kind is None or sources[path].kind == kind)
    ]


def _schema(item: Item, path: str) -> dict[str, Any]:
    api = item.apis[0]
    assert api is not None
    return next((leaf.schema for leaf in item.cell.world.leaves_of[api.id] if leaf.path == path), {})


def _one(item: Item, rng: random.Random, kind: str | None = None, of: type | tuple[type, ...] = object) -> str | None:
    found = paths(item, kind, of)
    return rng.choice(found) if found else None


def _on_other_platform(item: Item, platform: str) -> Item | None:
    """The same calls on another platform: its API, its names, the same values where a sibling parameter takes them."""
    calls = []
    world = item.cell.world
    for call, api, flat in zip(item.solution.calls, item.apis, item.flat, strict=True):
        if api is None:
            return None
        theirs = next((a for a in world.serving[item.cell.scenario.id, api.capability] if a.platform == platform), None)
        if theirs is None:
            return None
        arguments: dict[str, JsonValue] = {}
        sources: dict[str, Source] = {}
        for leaf in world.leaves_of[theirs.id]:
            feature = world.feature_of.get(f"{theirs.id}#{leaf.path}")
            same = [p for p in flat if feature is not None and world.feature_of.get(f"{api.id}#{p}") is feature]
            if same:
                arguments[leaf.path] = flat[same[0]]
                sources[leaf.path] = call.sources[same[0]]
        calls.append(ToolCall(api=theirs.name, arguments=unflatten(arguments), sources=sources))
    return with_calls(item, calls, platform=platform)


def _wrong_platform(item: Item, rng: random.Random) -> Item | None:
    others = [p.id for p in item.cell.scenario.platforms if p.id != item.solution.platform]
    return _on_other_platform(item, rng.choice(others)) if item.solution.calls and others else None


def _stale_preference(item: Item, rng: random.Random) -> Item | None:
    """The platform that is right in another context of the same user."""
    if not item.solution.calls or item.choice is None or item.slot.control == "profile_irrelevant":
        return None
    for context in item.choice.flips_with:
        other = choice(item.cell, context, item.slot.capability, item.min_margin)
        if other is not None and other.gold != item.solution.platform:
            return _on_other_platform(item, other.gold)
    return None


def _rivals_api(item: Item, rng: random.Random) -> Item | None:
    if not item.solution.calls:
        return None
    mine = {api.name for api in item.cell.world.apis_of[item.solution.platform]}
    serving = item.cell.world.serving[item.cell.scenario.id, item.slot.capability]
    rivals = [a.name for a in serving if a.platform != item.solution.platform and a.name not in mine]
    return with_call(item, api=rng.choice(rivals)) if rivals else None


def _missing_required(item: Item, rng: random.Random) -> Item | None:
    api = item.apis[0] if item.apis else None
    needed = [leaf.path for leaf in item.cell.world.leaves_of[api.id] if leaf.required and leaf.path in item.flat[0]] if api else []
    return without(item, rng.choice(needed)) if needed else None


def _wrong_enum(item: Item, rng: random.Random) -> Item | None:
    found = [path for path in paths(item, None, str) if "enum" in _schema(item, path)]
    return with_value(item, rng.choice(found), "no such value") if found else None


def _another_enum(item: Item, rng: random.Random) -> Item | None:
    for path in paths(item, None, str):
        others = [v for v in _schema(item, path).get("enum") or [] if v != item.flat[0][path]]
        if others:
            return with_value(item, path, rng.choice(others))
    return None


def _off_by_one(item: Item, rng: random.Random) -> Item | None:
    path = _one(item, rng, "query", (int, float))
    if path is None:
        return None
    value = item.flat[0][path]
    assert isinstance(value, (int, float))
    return with_value(item, path, value + rng.choice([1, -1, 10]))


def _broken_type(item: Item, rng: random.Random) -> Item | None:
    path = _one(item, rng, None, str)
    return with_value(item, path, {"value": item.flat[0][path]}) if path else None


def _unreachable(item: Item, rng: random.Random) -> Item | None:
    free = [p for p in paths(item, "query", str) if not {"enum", "format", "pattern"} & set(_schema(item, p))]
    return (
        with_value(item, rng.choice(free), rng.choice(["a thing nobody asked for", "Quite Another 77", "something else"])) if free else None
    )


def _other_source(item: Item, rng: random.Random) -> Item | None:
    path = _one(item, rng, "query", str)
    if path is None or not item.cell.history.events:
        return None
    event = rng.choice(item.cell.history.events)
    return with_call(item, sources={**item.solution.calls[0].sources, path: Source(kind="history", at=event.id)})


def _other_persons_value(item: Item, rng: random.Random) -> Item | None:
    path = _one(item, rng, "profile", str)
    if path is None or "enum" in _schema(item, path):
        return None
    value = str(item.flat[0][path])
    changed = value.replace(value[0], "7" if value[0].isdigit() and value[0] != "7" else "X", 1)
    return with_value(item, path, changed)


def _leaked_value(item: Item, rng: random.Random) -> Item | None:
    told = [s.at for call in item.solution.calls for s in call.sources.values() if s.kind == "profile"]
    values = [str(item.cell.profile.basic[f]) for f in told if isinstance(item.cell.profile.basic.get(f), str)]
    return with_text(item, f"{item.query.text} As you know: {rng.choice(values)}.") if values else None


def _leaked_preference(item: Item, rng: random.Random) -> Item | None:
    words = [p.words for p in item.cell.profile.preferences if p.scenario == item.cell.scenario.id and p.context == item.slot.context]
    return with_text(item, f"{item.query.text} {words[0]}") if words and item.slot.control != "no_tool" else None


def _platform_named(item: Item, rng: random.Random) -> Item | None:
    others = [p.name for p in item.cell.scenario.platforms if p.id != item.solution.platform]
    return with_text(item, f"{item.query.text} Maybe {rng.choice(others)}?") if others else None


def _wrong_language(item: Item, rng: random.Random) -> Item | None:
    other = (
        "请帮我处理一下这件事情，谢谢你的帮助，越快越好。"
        if item.cell.profile.language == "en"
        else "Please see to this for me as soon as you can."
    )
    return with_text(item, other * (1 + len(item.query.text) // 12))


def _needless_question(item: Item, rng: random.Random) -> Item | None:
    return (
        with_calls(item, [], platform="", act="ask", missing=["platform"], question="Which platform?") if item.slot.act == "call" else None
    )


def _needless_refusal(item: Item, rng: random.Random) -> Item | None:
    return with_calls(item, [], platform="", act="none", missing=[]) if item.slot.act != "none" else None


def _call_instead(item: Item, rng: random.Random) -> Item | None:
    """A call although the right act is to ask or to decline."""
    if item.slot.act == "call":
        return None
    platform = item.cell.scenario.platforms[0]
    api = item.cell.world.apis_of[platform.id][0]
    return with_calls(item, [ToolCall(api=api.name, arguments={}, sources={})], platform=platform.id, act="call", missing=[])


def _dropped_call(item: Item, rng: random.Random) -> Item | None:
    return with_calls(item, item.solution.calls[:-1]) if len(item.solution.calls) > 1 else None


def _repeated_call(item: Item, rng: random.Random) -> Item | None:
    return with_calls(item, [*item.solution.calls, item.solution.calls[-1]]) if item.solution.calls else None


def _swapped_calls(item: Item, rng: random.Random) -> Item | None:
    return with_calls(item, item.solution.calls[::-1]) if len(item.solution.calls) > 1 else None


def _profile_used(item: Item, rng: random.Random) -> Item | None:
    """The profile's value although the query overrides it."""
    for argument in item.slot.arguments:
        held = item.cell.profile.basic.get(argument.feature or "")
        if item.slot.control == "override" and argument.source == "query" and argument.feature and held is not None:
            made = with_value(item, argument.path, held)
            sources = {**item.solution.calls[0].sources, argument.path: Source(kind="profile", at=argument.feature)}
            return with_call(made, sources=sources)
    return None


def _older_event(item: Item, rng: random.Random) -> Item | None:
    """A value "as last time" from another event than the last."""
    path = _one(item, rng, "history")
    if path is None:
        return None
    last = item.solution.calls[0].sources[path].at
    older = [e for e in item.cell.history.events if e.id != last]
    if not older:
        return None
    return with_call(item, sources={**item.solution.calls[0].sources, path: Source(kind="history", at=rng.choice(older).id)})


def _no_source(item: Item, rng: random.Random) -> Item | None:
    return with_call(item, sources={}) if item.solution.calls and item.flat[0] else None


def _calling(plant: Callable[[Item], Item]) -> Plant:
    return lambda item, rng: plant(item) if item.solution.calls else None


DEFECTS: tuple[Defect, ...] = (
    Defect("wrong platform", _wrong_platform),
    Defect("stale preference", _stale_preference),
    Defect("rival's API", _rivals_api, structural=True),
    Defect("hallucinated API", _calling(lambda i: with_call(i, api="do_everything")), structural=True),
    Defect("hallucinated parameter", _calling(lambda i: with_value(i, "express_lane", True)), structural=True),
    Defect("missing required", _missing_required, structural=True),
    Defect("wrong enum", _wrong_enum, structural=True),
    Defect("broken argument type", _broken_type, structural=True),
    Defect("argument without source", _no_source, structural=True),
    Defect("another enum value", _another_enum),
    Defect("value off by one", _off_by_one),
    Defect("unreachable value", _unreachable),
    Defect("wrong source", _other_source),
    Defect("altered profile value", _other_persons_value),
    Defect("profile value despite override", _profile_used),
    Defect("older event than last time", _older_event),
    Defect("leaked profile value", _leaked_value),
    Defect("leaked preference", _leaked_preference),
    Defect("platform named", _platform_named),
    Defect("wrong language", _wrong_language),
    Defect("needless question", _needless_question),
    Defect("needless refusal", _needless_refusal),
    Defect("call where none is right", _call_instead),
    Defect("dropped call", _dropped_call),
    Defect("repeated call", _repeated_call),
    Defect("swapped calls", _swapped_calls),
)
"""A duplicate query needs a second sample, so `calibrate` plants it itself."""
