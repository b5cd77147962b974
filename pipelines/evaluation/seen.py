"""What a solver sees of a sample, from either layout, and the changes that experiments make to it.

Built from `views.solver_view`, or from a seven-key record, which holds nothing else; so hidden values cannot come in.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.evaluation.catalogue import Catalogue, run_of
from pipelines.evaluation.items import Item, item_of
from pipelines.evaluation.reader import Part, load_line, records
from pipelines.exports import _population
from pipelines.loop import Population
from pipelines.records import Scenario
from pipelines.run import load_run
from pipelines.views import platform_view, solver_view

PROFILES = ("all", "no-basic", "no-history", "none")
CONTEXTS = ("structured", "events", "log")


@dataclass(frozen=True)
class Seen:
    """One request as a solver sees it."""

    id: str
    scenario: str
    query: str
    asked_at: str
    tools: Any
    """Platforms with `name`, `description`, `traits` in words and `apis`; whatever the record holds for foreign data."""
    person: Any
    history: Any
    examples: tuple[dict[str, str], ...] = ()
    """Solved requests of other samples: `query` and `answer`."""


@dataclass(frozen=True)
class Setting:
    """How much a solver gets to see: one cell of an experiment."""

    profile: str = "all"
    """`all`, `no-basic`, `no-history` or `none`."""
    context: str = "structured"
    """`structured`, `events` (no basic features, events as JSON) or `log` (everything as lines of text)."""
    shots: int = 0
    shots_from: str = "retrieved"
    """`retrieved`: the most similar requests of train; `random`: any of the scenario."""
    candidates: str = "scenario"
    """`scenario`: its platforms; `all`: the platforms of all scenarios."""
    retrieve: int = 0
    """APIs that a retriever lets through; 0 for all."""
    distractors: int = 0
    """Made-up profile fields that mean nothing."""


class Source:
    """Samples with what solvers see of them."""

    def __init__(self, part: Part) -> None:
        self.part = part
        root = run_of(part.path)
        self.root: Path | None = root
        self.catalogue = Catalogue.beside(part.path)
        self._people: Population | None = _population(load_run(root)) if root is not None else None
        self._tools: dict[str, Any] = {}

    def __iter__(self) -> Iterator[tuple[Item, Seen]]:
        for place, raw in enumerate(records(self.part)):
            where = f"{self.part.path}, record {place + 1}"
            item = item_of(load_line(raw), where, self.part.name, self.catalogue, place)
            yield item, self._seen(item, where)

    def items(self) -> Iterator[tuple[Item, Seen | None]]:
        """The samples as well where the run folder is gone; then without what solvers see."""
        for place, raw in enumerate(records(self.part)):
            where = f"{self.part.path}, record {place + 1}"
            item = item_of(load_line(raw), where, self.part.name, self.catalogue, place)
            yield item, self._seen(item, where) if "answer" in item.raw or self._people is not None else None

    def _seen(self, item: Item, where: str) -> Seen:
        if "answer" in item.raw:
            return _foreign(item)
        people = self._people
        if people is None:
            raise ConfigError(f"{where}: needs its run folder for tools and people; evaluate RUN/splits/..., or an exported data.json")
        profile, history = people.profiles[item.user], people.histories[item.user, item.scenario]
        scenario = people.world.scenario[item.scenario]
        view = solver_view(profile, history, scenario.platforms).model_dump(mode="json")
        return Seen(
            id=item.id,
            scenario=scenario.name,
            query=item.query,
            asked_at=str(item.raw.get("time") or ""),
            tools=self._platforms(people, [scenario]),
            person={**view["basic_features"], "timezone": view["timezone"]},
            history=view["history"],
        )

    def _platforms(self, people: Population, scenarios: Sequence[Scenario]) -> Any:
        key = "+".join(scenario.id for scenario in scenarios)
        if key not in self._tools:
            self._tools[key] = [
                platform_view(platform, people.world.apis_of[platform.id], levels=False)
                for scenario in scenarios
                for platform in scenario.platforms
            ]
        return self._tools[key]

    def all_platforms(self) -> Any:
        """The platforms of all scenarios.

        Raises:
            ConfigError: for data without its run.
        """
        if self._people is None:
            raise ConfigError(f"{self.part.path}: needs its run folder to show other scenarios' platforms")
        return self._platforms(self._people, self._people.world.scenarios)


def _foreign(item: Item) -> Seen:
    """A seven-key record; tools in the shape of our exports are brought into ours."""
    record = item.raw
    tools, platforms = record["tools"], record["platforms"]
    if isinstance(tools, dict) and all(isinstance(apis, list) for apis in tools.values()):
        about = {p["name"]: p for p in platforms if isinstance(p, dict) and "name" in p} if isinstance(platforms, list) else {}
        shown: Any = [{**about.get(name, {}), "name": name, "apis": apis} for name, apis in tools.items()]
    else:
        shown = {"platforms": platforms, "tools": tools}
    user = record["user_profile"]
    person = user.get("basic_features", {}) if isinstance(user, dict) else user
    history = user.get("user_history", []) if isinstance(user, dict) else []
    return Seen(item.id, item.scenario, item.query, str(record.get("asked_at") or ""), shown, person, history)


DISTRACTORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("favourite_colour", ("teal", "ochre", "burgundy")), ("shoe_size", ("38", "41", "44")), ("blood_type", ("A+", "0-", "B+")),
    ("zodiac_sign", ("Aries", "Libra", "Pisces")), ("handedness", ("left", "right")), ("childhood_pet", ("a hamster", "a tortoise")),
    ("musical_instrument", ("oboe", "banjo", "none")), ("eye_colour", ("green", "brown", "grey")), ("lucky_number", ("3", "17", "42")),
    ("first_school", ("Millbrook Primary", "Hollow Lane School")), ("tea_or_coffee", ("tea", "coffee")), ("hobby", ("origami", "curling")),
)  # fmt: skip
"""Made-up fields that no request can need."""


def changed(seen: Seen, setting: Setting, source: Source) -> Seen:
    """What a solver sees under a setting; examples and retrieval are added by `retrieval`."""
    person, history = seen.person, seen.history
    if setting.distractors and isinstance(person, dict):
        rng = random.Random(f"distractors {seen.id}")
        extra = {name: rng.choice(values) for name, values in DISTRACTORS[: setting.distractors] if name not in person}
        mixed = [*person.items(), *extra.items()]
        rng.shuffle(mixed)
        person = dict(mixed)
    if setting.profile in ("no-basic", "none") or setting.context == "events":
        person = {}
    if setting.profile in ("no-history", "none"):
        history = []
    if setting.context == "log":
        person, history = {}, _log(person, history)
    tools = source.all_platforms() if setting.candidates == "all" else seen.tools
    return replace(seen, person=person, history=history, tools=tools)


def _log(person: Any, history: Any) -> str:
    """Profile and events as one raw text, newest last."""
    facts = [f"profile.{name} = {value}" for name, value in person.items()] if isinstance(person, dict) else [str(person)]
    lines = [_line(event) for event in history] if isinstance(history, list) else [str(history)]
    return "\n".join([*facts, *lines])


def _line(event: Any) -> str:
    if not isinstance(event, Mapping):
        return str(event)
    stars = f" rating={event['rating']}" if event.get("rating") is not None else ""
    arguments = json.dumps(event.get("arguments"), ensure_ascii=False)
    return f"{event.get('time')} {event.get('platform')} {event.get('api')} {arguments} {event.get('summary')}{stars}"
