"""Rules that hold an answer to its plan, and controls to what makes them controls."""

from __future__ import annotations

from pydantic import JsonValue

from pipelines import normal
from pipelines.records import API, PlannedCall, ToolCall
from pipelines.verify.item import Item
from pipelines.verify.said import said, same, says_again
from pipelines.verify.settled import flat_choice, nothing_settles, siblings


def wrong_act(item: Item) -> str | None:
    """The assistant calls, asks or declines as the structure demands."""
    wanted, did = item.slot.act, item.solution.act
    return None if wanted == did else f"act is {did!r}, planned was {wanted!r} ({item.slot.control or 'a call'})"


def other_capability(item: Item) -> str | None:
    """The calls do what the slot was drawn for, in its order."""
    wanted = [call.capability for call in item.slot.planned]
    for api, capability in zip(item.apis, wanted, strict=False):
        if api is not None and api.capability != capability:
            return f"{api.name} does not serve {capability}"
    return None


def plan_not_followed(item: Item) -> str | None:
    """The planned calls in their order; arguments and their sources are the ones that were drawn."""
    planned, calls = item.slot.planned, item.solution.calls
    if item.slot.act != "call":
        return None
    if len(calls) != len(planned):
        return f"calls: {len(calls)}, planned: {len(planned)}"
    for number, (plan, call, flat) in enumerate(zip(planned, calls, item.flat, strict=True)):
        problem = _off_plan(plan, call, flat)
        if problem is not None:
            return f"call {number}: {problem}"
    return None


def _off_plan(plan: PlannedCall, call: ToolCall, flat: dict[str, JsonValue]) -> str | None:
    if call.api != plan.api:
        return f"api is {call.api}, planned was {plan.api}"
    planned = {argument.path: argument for argument in plan.arguments}
    for path, argument in planned.items():
        source = call.sources.get(path)
        if path not in flat or source is None:
            return f"{path} has no argument"
        if source.kind != argument.source:
            return f"{path} comes from the {source.kind}, planned was the {argument.source}"
        wanted = argument.event if argument.source == "history" else argument.feature if argument.source == "profile" else None
        if wanted is not None and source.at != wanted:
            return f"{path} comes from {source.at}, planned was {wanted}"
    extra = [path for path in flat if path not in planned and call.sources[path].kind != "default"]
    return f"{extra[0]} was not planned" if extra else None


def override_not_real(item: Item) -> str | None:
    """Control `override`: the query states a value that differs from the one in the profile."""
    if item.slot.control != "override":
        return None
    over = [a for a in item.slot.arguments if a.source == "query" and a.feature]
    if not over:
        return "nothing of the profile is overridden"
    for argument in over:
        stated, held = item.flat[0].get(argument.path) if item.flat else None, item.cell.profile.basic.get(argument.feature or "")
        if stated is not None and same(stated, held):
            return f"{argument.path} is what the profile says: {held!r}"
    return None


def profile_matters(item: Item) -> str | None:
    """Control `profile_irrelevant`: no value comes from the user, and the query names the platform."""
    if item.slot.control != "profile_irrelevant":
        return None
    for call in item.solution.calls:
        for path, source in call.sources.items():
            if source.kind not in ("query", "default"):
                return f"{path} comes from the {source.kind}"
    return None


def last_time_not_said(item: Item) -> str | None:
    """A value from the history needs a query that points back, and the most recent event that did the same."""
    for plan in item.slot.planned:
        for argument in plan.arguments:
            if argument.source != "history":
                continue
            if not says_again(item.query.text):
                return f"{argument.path} is as last time, but the query does not say so"
            last = next((e for e in reversed(item.cell.history.events) if _serves(item, e.platform, e.api) == plan.capability), None)
            if last is None or last.id != argument.event:
                return f"last time is {last.id if last else 'never'}, planned was {argument.event}"
    return None


def _serves(item: Item, platform: str, api: str) -> str | None:
    found = item.cell.world.api.get((platform, api))
    return found.capability if found is not None else None


def tool_fits(item: Item) -> str | None:
    """Control `no_tool`: no API of the scenario serves what is asked for."""
    if item.slot.control != "no_tool":
        return None
    serving = item.cell.world.serving.get((item.cell.scenario.id, item.slot.capability), [])
    return f"{serving[0].name} serves {item.slot.capability}" if serving else None


def settled_after_all(item: Item) -> str | None:
    """Control `ask`: neither query, profile, history nor a default gives what is missing."""
    if item.slot.control != "ask":
        return None
    if item.slot.missing == ["platform"]:
        found = item.choice
        if found is None or not flat_choice(found, item.min_margin, item.min_posterior):
            return f"the platform is settled: {found.gold if found else 'none'}"
        return None
    api = item.planned_api
    if api is None or not item.slot.missing:
        return "nothing is missing"
    for path in item.slot.missing:
        problem = nothing_settles(item.cell, api, path) or _stated(item, api, path)
        if problem:
            return problem
    return None


def _stated(item: Item, api: API, path: str) -> str | None:
    """A missing enum value, date or number that stands in the query after all; free text needs the assistant and the judge."""
    leaf = next(leaf for leaf in item.cell.world.leaves_of[api.id] if leaf.path == path)
    text = item.query.text
    for value in leaf.schema.get("enum") or []:
        if isinstance(value, str) and said(value, text, path, {}, item.today):
            return f"the query says {value!r} for {path}"
    others = [a for a in item.slot.arguments if a.source == "query"]
    if leaf.schema.get("format") == "date" and not others and normal.find_dates(text, item.today):
        return f"the query holds a date for {path}"
    if leaf.schema.get("type") in ("integer", "number") and not others and normal.find_numbers(text):
        return f"the query holds a number for {path}"
    return None


def asks_for_another(item: Item) -> str | None:
    """Control `ask`: the assistant asks for what is missing, and for nothing that is settled."""
    if item.slot.control != "ask" or item.solution.act != "ask":
        return None
    api = item.planned_api
    if item.slot.missing == ["platform"] or api is None:
        wanted = {"platform"}
    else:
        wanted = {key for path in item.slot.missing for key in siblings(item.cell.world, api, path)}
    other = [entry for entry in item.solution.missing if entry not in wanted]
    if other or not item.solution.missing:
        return f"asks for {', '.join(other) or 'nothing'}, missing is {', '.join(item.slot.missing)}"
    return None
