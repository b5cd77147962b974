"""Rules on the calls of an answer: names, types, and where every value comes from."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from pipelines import normal
from pipelines.llm.schemas import first_error
from pipelines.records import API, Source
from pipelines.verify.item import Item
from pipelines.verify.said import said, same
from pipelines.verify.settled import held_by
from pipelines.world import leaves


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
            problem = _out_of_reach(item, api, path, value, source, schemas.get(path, {})) if source else None
            if problem:
                return f"{call.api}: {path}={value!r}: {problem}"
    return None


def stray_date(item: Item) -> str | None:
    """Where a date or a time is taken from the query, the query holds no other one that it could have been."""
    meant = {str(value) for call, flat in zip(item.solution.calls, item.flat, strict=True) for value in flat.values()}
    text = item.query.text
    dates = [(f, str(f.value)) for f in normal.find_dates(text, item.today)]
    times = [(f, str(f.value)) for f in normal.find_times(text)]
    for found in (dates, times):
        if any(value in meant for _, value in found):
            for place, value in found:
                if value not in meant:
                    return f"also says {text[place.start : place.end]!r}, which no argument means"
    return None


def _out_of_reach(item: Item, api: API | None, path: str, value: JsonValue, source: Source, schema: dict[str, Any]) -> str | None:
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
        held = held_by(item.cell.world, event, api, path) if api is not None else None
        if held is None:
            return f"event {source.at} gives nothing for {path}"
        return None if same(value, held) else f"event {source.at} says {held!r}"
    if source.kind == "default":
        return None if "default" in schema and same(value, schema["default"]) else f"the default is {schema.get('default')!r}"
    return f"source {source.kind!r} needs an earlier call or a derivation rule; there is none"
