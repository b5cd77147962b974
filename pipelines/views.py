"""What each reader may see of a user. One type per reader, so that a leak is a type error first.

The solver (the model under test) and the judge see basic features and history; the writer and the
assistant also see the preferences in words. Nobody sees weights, utilities or the gold platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from pipelines.jsonio import dumps
from pipelines.llm.prompts import Block, block
from pipelines.records import API, History, Platform, Preference, Profile, ProfileAccess, Record, Scenario


class SeenEvent(Record):
    """An event without its context."""

    id: str
    time: str
    platform: str
    """Platform name."""
    api: str
    arguments: dict[str, JsonValue]
    summary: str
    rating: int | None
    returned: bool


class SolverView(Record):
    """All that a solver may see of a user."""

    basic_features: dict[str, JsonValue]
    history: list[SeenEvent]
    timezone: str


class SeenPreference(Record):
    """A preference in words, for the models that write."""

    context: str
    words: str
    priorities: list[str]


class WriterView(Record):
    """What the user agent and the assistant agent see: the user with preferences in words."""

    basic_features: dict[str, JsonValue]
    preferences: list[SeenPreference]


def solver_view(profile: Profile, history: History, platforms: Sequence[Platform]) -> SolverView:
    """The user as the model under test sees them."""
    names = {platform.id: platform.name for platform in platforms}
    events = [
        SeenEvent(
            id=event.id,
            time=event.time,
            platform=names[event.platform],
            api=event.api,
            arguments=event.arguments,
            summary=event.summary,
            rating=event.rating,
            returned=event.returned,
        )
        for event in history.events
    ]
    return SolverView(basic_features=profile.basic, history=events, timezone=profile.timezone)


def shown_view(view: SolverView, access: ProfileAccess) -> dict[str, JsonValue] | str:
    """The same user in one of three ways: facts and events as JSON, events alone, or the raw text of an activity log."""
    if access == "raw_log":
        return "\n".join(_log_line(event) for event in view.history)
    hidden = {"basic_features"} if access == "events_only" else None
    seen: dict[str, JsonValue] = view.model_dump(mode="json", exclude=hidden)
    return seen


def _log_line(event: SeenEvent) -> str:
    stars = f" rated {event.rating}/5" if event.rating is not None else ""
    undone = " undone" if event.returned else ""
    arguments = " ".join(f"{name}={dumps(value)}" for name, value in event.arguments.items())
    return f"{event.time[:16].replace('T', ' ')} {event.platform} {event.api} {arguments} | {event.summary}{stars}{undone}"


def writer_view(profile: Profile, scenario: str) -> WriterView:
    """The user as the models that write see them."""
    return WriterView(
        basic_features=profile.basic,
        preferences=[_seen(p) for p in profile.preferences if p.scenario == scenario],
    )


def _seen(preference: Preference) -> SeenPreference:
    return SeenPreference(context=preference.context, words=preference.words, priorities=preference.priorities)


def market_view(scenario: Scenario) -> dict[str, Any]:
    """The scenario as prompts see it: contexts, capabilities and traits, no user."""
    return {
        "name": scenario.name,
        "description": scenario.description,
        "contexts": [{"name": c.name, "description": c.description} for c in scenario.contexts],
        "capabilities": [{"name": c.name, "description": c.description} for c in scenario.capabilities],
        "traits": [{"name": t.name, "description": t.description} for t in scenario.traits],
    }


def platform_view(platform: Platform, apis: Sequence[API], levels: bool) -> dict[str, Any]:
    """A platform with its tools; trait levels as numbers only for the models that write."""
    traits: dict[str, Any] = {
        name: {"level": trait.level, "phrase": trait.phrase} if levels else trait.phrase for name, trait in platform.traits.items()
    }
    return {
        "name": platform.name,
        "description": platform.description,
        "traits": traits,
        "apis": [{"name": a.name, "description": a.description, "parameters": a.parameters} for a in apis],
    }


def tools_block(platforms: Sequence[Platform], apis_of: dict[str, list[API]], levels: bool) -> Block:
    """All platforms of a scenario with all their tools, dumped once and shared by many prompts."""
    return block([platform_view(platform, apis_of[platform.id], levels) for platform in platforms])
