"""Counterfactual twins and preference pairs: what a label depends on, shown by changing just that.

A twin is a finished sample whose user differs in one thing: one weight order (and the history that follows from it), one event, or one
profile value. Its label is
computed again; the twin's answer must pass every rule in the changed world, and where the label changed the old answer must break
one. Nothing is asked of a model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import JsonValue

from pipelines.errors import ConfigError
from pipelines.records import Event, Record, Sample, ToolCall

if TYPE_CHECKING:
    from pipelines.queries import Cell
    from pipelines.verify.rules import Item

Kind = Literal["weight", "event", "profile"]
KINDS: tuple[Kind, ...] = ("weight", "event", "profile")


class Answer(Record):
    """What is right in one world."""

    act: Literal["call", "ask"]
    platform: str
    """Platform id; empty when the right act is to ask."""

    calls: list[ToolCall]


class Twin(Record):
    """A sample and its counterpart in a world that differs in one thing. Source: `twins.make_twins`."""

    id: str
    """`<sample>~<kind>`."""

    of: str
    kind: Kind
    at: str
    """What was changed: `preferences.<context>`, `history.<event id>` or `basic.<feature>`."""

    before: JsonValue
    after: JsonValue
    query: str
    label_changed: bool
    broken: str
    """The rule that the old answer breaks in the changed world; empty when the label stays."""

    old: Answer
    new: Answer


class PreferencePair(Record):
    """A better and a worse answer to the same request. Source: `twins.make_pairs`."""

    id: str
    user: str
    scenario: str
    time: str
    query: str
    change: dict[str, JsonValue]
    """Empty: the user as the run knows them; else the one change (`at`, `after`) under which `chosen` is right."""

    chosen: Answer
    rejected: Answer
    why: str
    """The rule that the rejected answer breaks, or how it came about."""


def make_twins(root: Path, kinds: tuple[Kind, ...], most: int) -> Iterator[Twin]:
    """Up to `most` twins of each kind, of samples in a seeded order.

    A change under which no answer can be proved (a required argument that the other platform's API wants and nobody gives) is left out.
    """
    from pipelines.audit.calibrate import sample_items
    from pipelines.identify import believed, ears_of
    from pipelines.run import load_run

    config = load_run(root).config
    items = [item for item in sample_items(root, config, 10**9) if item.slot.act == "call"]
    basics = {item.cell.profile.id: item.cell.profile.basic for item in items}
    histories = {item.cell.key: item.cell.history for item in items}
    world = items[0].cell.world if items else None
    ears = ears_of(world.scenarios, histories.values()) if world is not None else {}

    def believe(cell: Cell) -> Cell:
        return replace(cell, history=believed(config, cell.world, cell.history, ears))

    for kind in kinds:
        made = 0
        for item in items:
            if made == most:
                break
            twin = _twin(item, kind, basics, believe)
            if twin is not None:
                made += 1
                yield twin


def _twin(item: Item, kind: Kind, basics: dict[str, dict[str, JsonValue]], believe: Callable[[Cell], Cell]) -> Twin | None:
    changed = {"weight": _other_weights, "event": _other_event, "profile": _other_value}[kind](item, basics)
    if changed is None:
        return None
    cell, at, before, after = changed
    if cell.history is not item.cell.history:
        cell = believe(cell)
    there = replace(item, cell=cell)
    broken = _broken(there)
    if broken is None:
        new = there
    else:
        found = _relabelled(there)
        if found is None or _broken(found) is not None:
            return None
        new = found
    if kind == "profile" and _profile_read(item, at.removeprefix("basic.")) != (broken is not None):
        raise AssertionError(f"{item.query.id}: a change of {at} must change the label just where it is read")
    return Twin(
        id=f"{item.slot.id}~{kind}", of=item.slot.id, kind=kind, at=at, before=before, after=after, query=item.query.text,
        label_changed=broken is not None, broken=broken or "", old=_answer(item), new=_answer(new),
    )  # fmt: skip


def _answer(item: Item) -> Answer:
    solution = item.solution
    return Answer(act="ask" if solution.act == "ask" else "call", platform=solution.platform, calls=solution.calls)


def _broken(item: Item) -> str | None:
    from pipelines.verify.rules import first_broken

    found = first_broken(item)
    return found[0] if found is not None else None


def _profile_read(item: Item, feature: str) -> bool:
    return any(source.kind == "profile" and source.at == feature for call in item.solution.calls for source in call.sources.values())


Changed = tuple["Cell", str, JsonValue, JsonValue]


def _other_weights(item: Item, _basics: Any) -> Changed | None:
    """The user cares most about what came second."""
    from pipelines.world import weights_of

    context, scenario = item.slot.context, item.cell.scenario.id
    preferences = list(item.cell.profile.preferences)
    for place, old in enumerate(preferences):
        if (old.scenario, old.context) == (scenario, context) and len(old.priorities) > 1:
            order = [old.priorities[1], old.priorities[0], *old.priorities[2:]]
            preferences[place] = old.model_copy(update={"priorities": order, "weights": weights_of(order, old.weights)})
            profile = item.cell.profile.model_copy(update={"preferences": preferences})
            cell = _lived(replace(item.cell, profile=profile), item)
            return cell, f"preferences.{context}", list(old.priorities), list(order)
    return None


def _lived(cell: Cell, item: Item) -> Cell:
    """The history that follows: what happened in this context on the old favourite happened on the new one."""
    from pipelines.queries import choice

    old, new = item.choice, choice(cell, item.slot.context, item.slot.capability, item.min_margin)
    if old is None or new is None or old.gold == new.gold:
        return cell
    events = []
    for event in cell.history.events:
        here = event.context == item.slot.context and event.platform == old.gold
        events.append((_moved(cell, event, new.gold) if here else None) or event)
    return replace(cell, history=cell.history.model_copy(update={"events": events}))


def _moved(cell: Cell, event: Event, platform: str) -> Event | None:
    """The same event on another platform, with the arguments that its sibling API takes; None without a sibling."""
    from pipelines.verify.settled import held_by
    from pipelines.world import unflatten

    world = cell.world
    capability = world.api[event.platform, event.api].capability
    api = next((a for a in world.serving[cell.scenario.id, capability] if a.platform == platform), None)
    if api is None:
        return None
    held = {leaf.path: held_by(world, event, api, leaf.path) for leaf in world.leaves_of[api.id]}
    arguments = unflatten({path: value for path, value in held.items() if value is not None})
    return event.model_copy(update={"platform": platform, "api": api.name, "arguments": arguments})


def _other_event(item: Item, _basics: Any) -> Changed | None:
    """The last event of this context on the gold platform happened on the runner-up instead."""
    found = item.choice
    if found is None or len(found.ranked) < 2 or item.slot.control == "profile_irrelevant":
        return None
    rival = found.ranked[1].platform
    events = list(item.cell.history.events)
    for place in range(len(events) - 1, -1, -1):
        old = events[place]
        if old.context != item.slot.context or old.platform != found.gold:
            continue
        moved = _moved(item.cell, old, rival)
        if moved is None:
            continue
        events[place] = moved
        history = item.cell.history.model_copy(update={"events": events})
        return replace(item.cell, history=history), f"history.{old.id}", old.platform, rival
    return None


def _other_value(item: Item, basics: dict[str, dict[str, JsonValue]]) -> Changed | None:
    """A basic feature has the value of another user: one that the sample reads where there is one, else any."""
    mine = item.cell.profile.basic
    read = [s.at for call in item.solution.calls for s in call.sources.values() if s.kind == "profile"]
    told = {a.feature for a in item.slot.arguments if a.feature}
    for feature in [*read, *(name for name in mine if name not in told)]:
        others = [b[feature] for b in basics.values() if feature in b and b[feature] != mine.get(feature)]
        if feature in mine and others and isinstance(mine[feature], str):
            profile = item.cell.profile.model_copy(update={"basic": {**mine, feature: others[0]}})
            return replace(item.cell, profile=profile), f"basic.{feature}", mine[feature], others[0]
    return None


def _relabelled(item: Item) -> Item | None:
    """The item with the plan and the answer that the changed world demands."""
    from pipelines.verify.settled import flat_choice

    found = item.choice
    if found is None:
        return None
    slot = item.slot
    if slot.control != "profile_irrelevant" and flat_choice(found, item.min_margin, item.min_posterior):
        asked = slot.model_copy(update={"control": "ask", "kinds": [], "platform": "", "missing": ["platform"], "then": []})
        solution = item.solution.model_copy(update={"act": "ask", "platform": "", "calls": [], "missing": ["platform"]})
        return replace(item, query=item.query.model_copy(update={"slot": asked}), solution=solution)
    gold = slot.platform if slot.control == "profile_irrelevant" else found.gold
    return on_platform(_refilled(item), gold)


def _refilled(item: Item) -> Item:
    """The same calls with the profile's values as they are now."""
    from pipelines.world import unflatten

    calls = []
    for call, flat in zip(item.solution.calls, item.flat, strict=True):
        now = {
            path: item.cell.profile.basic[call.sources[path].at] if call.sources[path].kind == "profile" else value
            for path, value in flat.items()
        }
        calls.append(call.model_copy(update={"arguments": unflatten(now)}))
    return replace(item, solution=item.solution.model_copy(update={"calls": calls}))


def on_platform(item: Item, platform: str) -> Item | None:
    """Plan and answer carried over to a platform: sibling parameters take the values; None when a required one gets none."""
    from pipelines.records import PlannedArgument
    from pipelines.world import unflatten

    world, scenario = item.cell.world, item.cell.scenario.id
    if platform == item.solution.platform:
        return item
    calls, plans = [], []
    for plan, call, api, flat in zip(item.slot.planned, item.solution.calls, item.apis, item.flat, strict=True):
        theirs = next((a for a in world.serving.get((scenario, plan.capability), []) if a.platform == platform), None)
        if theirs is None or api is None:
            return None
        arguments: dict[str, JsonValue] = {}
        sources, planned = {}, []
        for leaf in world.leaves_of[theirs.id]:
            feature = world.feature_of.get(f"{theirs.id}#{leaf.path}")
            from_old = [p for p in flat if feature is not None and world.feature_of.get(f"{api.id}#{p}") is feature]
            if from_old:
                source = call.sources[from_old[0]]
                arguments[leaf.path], sources[leaf.path] = flat[from_old[0]], source
                kept = next((a for a in plan.arguments if a.path == from_old[0]), None)
                if kept is not None:
                    planned.append(PlannedArgument(path=leaf.path, source=kept.source, feature=kept.feature, event=kept.event))
            elif leaf.required:
                return None
        if set(flat) - _carried(world, api.id, theirs.id, arguments):
            return None  # what the query says would be lost
        calls.append(ToolCall(api=theirs.name, arguments=unflatten(arguments), sources=sources))
        plans.append(plan.model_copy(update={"api": theirs.name, "arguments": planned}))
    slot = item.slot.model_copy(update={"platform": platform, "api": plans[0].api, "arguments": plans[0].arguments, "then": plans[1:]})
    solution = item.solution.model_copy(update={"platform": platform, "calls": calls})
    return replace(item, query=item.query.model_copy(update={"slot": slot}), solution=solution)


def _carried(world: Any, old_api: str, new_api: str, arguments: dict[str, JsonValue]) -> set[str]:
    """The paths of the old API whose feature is among the new arguments."""
    features = {id(world.feature_of.get(f"{new_api}#{path}")) for path in arguments}
    return {leaf.path for leaf in world.leaves_of[old_api] if id(world.feature_of.get(f"{old_api}#{leaf.path}")) in features}


def make_pairs(root: Path, twins: list[Twin]) -> Iterator[PreferencePair]:
    """Pairs from twins whose label changed, and from rejected attempts that a rule can repair into a provable answer."""
    from pipelines.jsonio import read_lines

    samples = {s.id: s for s in read_lines(root / "08_samples.jsonl", Sample)}
    for twin in twins:
        if not twin.label_changed:
            continue
        sample = samples[twin.of]
        common = {"user": sample.user, "scenario": sample.scenario, "time": sample.time, "query": sample.query}
        changed: dict[str, JsonValue] = {"at": twin.at, "after": twin.after}
        yield PreferencePair(id=f"{twin.id}.there", change=changed, chosen=twin.new, rejected=twin.old, why=twin.broken, **common)
        if twin.kind != "weight" or twin.new.act == "call":
            yield PreferencePair(
                id=f"{twin.id}.here",
                change={},
                chosen=twin.old,
                rejected=twin.new,
                why=f"right only if {twin.at} were {twin.after!r}"[:300],
                **common,
            )
    yield from _repaired(root)


def _repaired(root: Path) -> Iterator[PreferencePair]:
    """Rejected attempts: the same answer on the gold platform, or without what does not exist, where that passes every rule."""
    from pipelines.audit.strict import read_population
    from pipelines.jsonio import read_lines
    from pipelines.records import Query, Rejection, Solution
    from pipelines.run import load_run
    from pipelines.verify.rules import Item

    config = load_run(root).config
    lost = {r.subject: r for r in read_lines(root / "rejected" / "08_samples.jsonl", Rejection) if r.record}
    people = read_population(root)
    queries = {q.id: q for q in read_lines(root / "06_queries.jsonl", Query) if q.id in lost}
    for solution in read_lines(root / "07_solutions.jsonl", Solution):
        query = queries.get(solution.id)
        if query is None or not solution.calls or query.slot.act != "call":
            continue
        item = Item(people.cell(query.slot.user, query.slot.scenario), query, solution, config.min_margin, config.min_posterior)
        better = _repair(item)
        if better is not None:
            yield PreferencePair(
                id=f"{query.id}.repaired", user=query.slot.user, scenario=query.slot.scenario, time=query.slot.time, query=query.text,
                change={}, chosen=_answer(better), rejected=_answer(item), why=lost[solution.id].reason,
            )  # fmt: skip


def _repair(item: Item) -> Item | None:
    from pipelines.world import unflatten

    tries = []
    elsewhere = _mirrored(item)
    if elsewhere is not None:
        tries.append(elsewhere)
    calls = []
    for call, api, flat in zip(item.solution.calls, item.apis, item.flat, strict=True):
        known = {leaf.path for leaf in item.cell.world.leaves_of[api.id]} if api is not None else set(flat)
        kept = {path: value for path, value in flat.items() if path in known}
        calls.append(
            call.model_copy(update={"arguments": unflatten(kept), "sources": {p: s for p, s in call.sources.items() if p in kept}})
        )
    tries.append(replace(item, solution=item.solution.model_copy(update={"calls": calls})))
    return next((found for found in tries if found.solution != item.solution and _broken(found) is None), None)


def _mirrored(item: Item) -> Item | None:
    """The answer on the planned platform, the plan as it is."""
    if item.solution.platform == item.slot.platform or len(item.solution.calls) != len(item.slot.planned):
        return None
    carried = on_platform(item, item.slot.platform)
    return replace(carried, query=item.query) if carried is not None else None


# Commands


def add_commands(commands: Any) -> None:
    """`twins` and `pairs`."""
    for name, text in (
        ("twins", "counterfactual twins: change one weight order, event or profile value, and see which labels change"),
        ("pairs", "preference pairs from twins and from rejected attempts"),
    ):
        parser = commands.add_parser(name, help=text)
        parser.add_argument("folder", type=Path, metavar="RUN")
        parser.add_argument("--change", choices=[*KINDS, "all"], default="all", help="what differs; default all")
        parser.add_argument("--n", type=int, default=100, help="most twins of each kind; default 100")
        parser.set_defaults(run=_export, what=name)


def _export(args: argparse.Namespace) -> int:
    from pipelines.jsonio import write_lines

    if not 1 <= args.n <= 1_000_000:
        raise ConfigError(f"--n is {args.n}; write 1 to 1000000")
    if not (args.folder / "08_samples.jsonl").is_file():
        raise ConfigError(f"{args.folder}: has no samples yet; finish it with `ptool run`")
    kinds = KINDS if args.change == "all" else (args.change,)
    twins = list(make_twins(args.folder, kinds, args.n))
    path = args.folder / "exports" / f"{args.what}.jsonl"
    if args.what == "twins":
        write_lines(path, twins)
        for kind in kinds:
            mine = [twin for twin in twins if twin.kind == kind]
            print(f"{kind}: {len(mine)} twins, {sum(twin.label_changed for twin in mine)} labels change")
    else:
        pairs = list(make_pairs(args.folder, twins))
        write_lines(path, pairs)
        print(f"{len(pairs)} pairs, {sum(pair.id.endswith('.repaired') for pair in pairs)} of them from rejected attempts")
    print(path)
    return 0
