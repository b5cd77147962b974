"""The rules of stage 8: small pure functions over one item, each nothing when fine, else what is wrong.

No rule asks a model, and no text in the data can change what a rule does. `RULES` is their order; the
name of the first that fails is the reason counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

from pydantic import JsonValue

from pipelines import normal
from pipelines.llm.schemas import first_error
from pipelines.queries import Cell, Choice, choice
from pipelines.records import API, Query, Solution, Source
from pipelines.verify import leaks
from pipelines.world import flatten, leaves


@dataclass(frozen=True)
class Item:
    """A query with its solution and the structure behind both."""

    cell: Cell
    query: Query
    solution: Solution
    min_margin: float
    min_posterior: float

    @cached_property
    def choice(self) -> Choice | None:
        """What the structure says about the slot's context and capability."""
        return choice(self.cell, self.query.slot.context, self.query.slot.capability, self.min_margin)

    @cached_property
    def apis(self) -> list[API | None]:
        """The API of every call; None when the platform has no such API."""
        return [self.cell.world.api.get((self.solution.platform, call.api)) for call in self.solution.calls]

    @cached_property
    def flat(self) -> list[dict[str, JsonValue]]:
        """Per call: dotted path -> value."""
        return [
            flatten(call.arguments, api.parameters if api is not None else {})
            for call, api in zip(self.solution.calls, self.apis, strict=True)
        ]

    @property
    def today(self) -> date:
        """The day the query was asked, in the user's zone."""
        return datetime.fromisoformat(self.query.slot.time).date()


Rule = Callable[[Item], str | None]


def unknown_api(item: Item) -> str | None:
    """Every call names an API of the chosen platform."""
    unknown = [call.api for call, api in zip(item.solution.calls, item.apis, strict=True) if api is None]
    return f"{item.solution.platform} has no {unknown[0]!r}" if unknown else None


def unknown_parameter(item: Item) -> str | None:
    """Every argument is a parameter of its API."""
    for api, flat in zip(item.apis, item.flat, strict=True):
        known = {leaf.path for leaf in leaves(api.parameters)} if api else set()
        unknown = [path for path in flat if path not in known]
        if unknown:
            return f"{api.name if api else '?'} has no parameter {unknown[0]!r}"
    return None


def missing_required(item: Item) -> str | None:
    """Every required parameter has an argument."""
    for api, flat in zip(item.apis, item.flat, strict=True):
        missing = [leaf.path for leaf in leaves(api.parameters) if leaf.required and leaf.path not in flat] if api else []
        if missing:
            return f"{api.name if api else '?'} needs {missing[0]!r}"
    return None


def schema_invalid(item: Item) -> str | None:
    """Types, enums, formats and bounds hold."""
    for call, api in zip(item.solution.calls, item.apis, strict=True):
        problem = first_error(api.parameters, call.arguments) if api else None
        if problem:
            return f"{call.api}: {problem}"
    return None


def source_missing(item: Item) -> str | None:
    """Every argument names its source, and no source is left over."""
    for call, flat in zip(item.solution.calls, item.flat, strict=True):
        for path in flat:
            if path not in call.sources:
                return f"{call.api}: {path} names no source"
        for path in call.sources:
            if path not in flat:
                return f"{call.api}: a source is named for {path}, which has no argument"
    return None


def unreachable_value(item: Item) -> str | None:
    """Every argument is found, after normalisation, in the source it names."""
    for call, api, flat in zip(item.solution.calls, item.apis, item.flat, strict=True):
        schemas = {leaf.path: leaf.schema for leaf in leaves(api.parameters)} if api else {}
        for path, value in flat.items():
            source = call.sources.get(path)
            problem = _out_of_reach(item, path, value, source, schemas.get(path, {})) if source else None
            if problem:
                return f"{call.api}: {path}={value!r}: {problem}"
    return None


def _out_of_reach(item: Item, path: str, value: JsonValue, source: Source, schema: dict[str, Any]) -> str | None:
    if source.kind == "query":
        if not source.at.strip() or normal.fold(source.at) not in normal.fold(item.query.text):
            return f"the query does not say {source.at!r}"
        return None if said(value, source.at, path, schema, item.today) else f"{source.at!r} does not say it"
    if source.kind == "profile":
        if source.at not in item.cell.profile.basic:
            return f"the profile has no {source.at!r}"
        return None if same(value, item.cell.profile.basic[source.at]) else f"the profile says {item.cell.profile.basic[source.at]!r}"
    if source.kind == "history":
        event = next((e for e in item.cell.history.events if e.id == source.at), None)
        if event is None:
            return f"the history has no event {source.at!r}"
        held = list(event.arguments.values())
        return None if any(same(value, other) for other in held) else f"event {source.at} does not hold it"
    if source.kind == "default":
        return None if "default" in schema and same(value, schema["default"]) else f"the default is {schema.get('default')!r}"
    return f"source {source.kind!r} needs an earlier call or a derivation rule; there is none"


def said(value: JsonValue, words: str, path: str, schema: dict[str, Any], today: date) -> bool:
    """Do these words say this value? Numbers, dates and times by value, a true flag by its name, text by its letters."""
    if isinstance(value, bool):
        name = {normal.stem(w) for w in normal.words(f"{path.replace('.', ' ')} {schema.get('description', '')}")} - _COMMON
        name |= {normal.stem(w) for w in _camel(path)}
        return value and bool(name & {normal.stem(w) for w in normal.words(words)})
    if isinstance(value, (int, float)):
        return any(abs(float(str(found.value)) - value) < 1e-9 for found in normal.find_numbers(words))
    if isinstance(value, list):
        return bool(value) and all(said(part, words, path, {}, today) for part in value)
    if not isinstance(value, str):
        return False
    if normal.contains(_letters(words), _letters(value)):
        return True
    if any(str(found.value) == value for found in normal.find_times(words)):
        return True
    return any(isinstance(found.value, date) and found.value.isoformat() == value for found in normal.find_dates(words, today))


_COMMON = {
    normal.stem(w)
    for w in [
        "whether",
        "to",
        "the",
        "a",
        "an",
        "of",
        "if",
        "for",
        "is",
        "be",
        "or",
        "and",
        "it",
        "with",
        "on",
        "in",
        "should",
        "true",
        "when",
    ]
}


def _camel(path: str) -> list[str]:
    spaced = "".join(f" {c}" if c.isupper() else c for c in path)
    return [word for word in normal.words(spaced) if word not in ("is", "has", "with", "the")]


def _letters(text: str) -> str:
    """Text for comparison: folded, underscores and hyphens as spaces."""
    return " ".join(normal.fold(text).replace("_", " ").replace("-", " ").split())


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal after normalisation."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) < 1e-9
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, str) and isinstance(other, str):
        return _letters(one) == _letters(other)
    return one == other


def other_capability(item: Item) -> str | None:
    """The calls do what the slot was drawn for."""
    wanted = item.query.slot.capability
    other = [api.name for api in item.apis if api is not None and api.capability != wanted]
    return f"{other[0]} does not serve {wanted}" if other else None


def no_rival(item: Item) -> str | None:
    """Def. 3.1: at least two platforms can serve every capability used."""
    for api in item.apis:
        if api is not None and len(item.cell.world.serving[item.cell.scenario.id, api.capability]) < 2:
            return f"only {api.platform} serves {api.capability}"
    return None


def ambiguous_preference(item: Item) -> str | None:
    """Def. 3.1: the best platform is better than the second by the margin."""
    found = item.choice
    if found is None:
        return f"no preference for {item.query.slot.context}"
    return f"margin {found.margin} is below {item.min_margin}" if found.margin < item.min_margin else None


def preference_mismatch(item: Item) -> str | None:
    """The platform that the model chose from words is the argmax of the utilities."""
    found = item.choice
    if found is None or found.gold == item.solution.platform:
        return None
    return f"the model chose {item.solution.platform}, the utilities say {found.gold} in {item.query.slot.context}"


def not_identifiable(item: Item) -> str | None:
    """The visible history makes the gold platform the likeliest."""
    found = item.choice
    if found is None:
        return None
    likeliest = max(found.posterior, key=lambda p: found.posterior[p])
    if likeliest == found.gold and found.posterior[found.gold] >= item.min_posterior:
        return None
    return f"history gives {found.gold} only {found.posterior.get(found.gold)}"


def kind_not_met(item: Item) -> str | None:
    """Def. 3.1 needs a context in which the platform flips, Def. 3.2 a value that is in the profile and not in the query."""
    kinds = item.query.slot.kinds
    if "tool_preference" in kinds and not (item.choice and item.choice.flips_with):
        return "no context flips the platform"
    if "profile_dependent" not in kinds:
        return None
    for call, flat in zip(item.solution.calls, item.flat, strict=True):
        for path, value in flat.items():
            source = call.sources.get(path)
            if source is not None and source.kind == "profile" and not said(value, item.query.text, path, {}, item.today):
                return None
    return "no argument comes from the profile alone"


def plan_not_followed(item: Item) -> str | None:
    """One call on the planned API; arguments and their sources are the ones that were drawn."""
    slot = item.query.slot
    if len(item.solution.calls) != 1:
        return f"{len(item.solution.calls)} calls, planned was one"
    call, flat = item.solution.calls[0], item.flat[0]
    if call.api != slot.api:
        return f"calls {call.api}, planned was {slot.api}"
    planned = {argument.path: argument for argument in slot.arguments}
    for path, argument in planned.items():
        source = call.sources.get(path)
        if path not in flat or source is None:
            return f"{path} has no argument"
        if source.kind != argument.source:
            return f"{path} comes from the {source.kind}, planned was the {argument.source}"
        if argument.feature is not None and source.at != argument.feature:
            return f"{path} comes from {source.at}, planned was {argument.feature}"
    extra = [path for path in flat if path not in planned and call.sources[path].kind != "default"]
    return f"{extra[0]} was not planned" if extra else None


def platform_named(item: Item) -> str | None:
    """The query leaves the choice of platform to the solver."""
    return leaks.platform_not_named(item.query.text, item.cell.scenario.platforms)


def profile_told(item: Item) -> str | None:
    """The query does not tell what the profile is to fill."""
    told = [a.feature for a in item.query.slot.arguments if a.source == "profile" and a.feature]
    return leaks.profile_not_told(item.query.text, item.cell.profile, told)


def preference_stated(item: Item) -> str | None:
    """The query states no hidden preference."""
    return leaks.preference_not_stated(item.query.text, item.cell.profile, item.cell.scenario)


RULES: tuple[Rule, ...] = (
    platform_named,
    profile_told,
    preference_stated,
    unknown_api,
    unknown_parameter,
    missing_required,
    schema_invalid,
    source_missing,
    unreachable_value,
    no_rival,
    ambiguous_preference,
    preference_mismatch,
    other_capability,
    plan_not_followed,
    kind_not_met,
    not_identifiable,
)


def first_broken(item: Item) -> tuple[str, str] | None:
    """The first rule that an item breaks, as (name, detail), or None."""
    for rule in RULES:
        problem = rule(item)
        if problem is not None:
            return rule.__name__, problem
    return None
