"""What every API must keep to, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.llm.schemas import schema_problem
from pipelines.records import API
from pipelines.replies import ApiReply
from pipelines.verify.leaks import description_is
from pipelines.world import leaves

_PROPERTY = re.compile(r"^[A-Za-z_][A-Za-z0-9_\-\[\]]{0,127}$")
"""No dots: a dotted path names a place inside nested arguments."""


def api_is_sound(reply: ApiReply, found: dict[str, API], missing: set[str], language: str | None = None) -> tuple[str, str] | None:
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
    if problem:
        return "bad_parameters", f"{reply.name}: {problem}"
    foreign = wrong_language([reply.description, reply.returns, *descriptions(reply.parameters)], language)
    return ("wrong_language", f"{reply.name}: {foreign}") if foreign else None


def wrong_language(texts: Iterable[str], language: str | None) -> str | None:
    """The first description that is not in the run's language; with no language nothing is asked."""
    if language is None:
        return None
    return next((problem for text in texts if (problem := description_is(text, language))), None)


def descriptions(schema: Mapping[str, Any]) -> Iterator[str]:
    """The descriptions of all parameters of a JSON Schema, nested ones too."""
    for inner in (schema.get("properties") or {}).values():
        if isinstance(inner, Mapping):
            if inner.get("description"):
                yield str(inner["description"])
            yield from descriptions(inner)


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
