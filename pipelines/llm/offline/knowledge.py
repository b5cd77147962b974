"""What the offline model knows about a scenario: one YAML file per scenario and language.

The files are written by people and hold no answers to any test: banks of things, ways to ask for
them, ways to say each argument, platforms with their APIs. `wording.py` writes and reads text with them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.llm.offline.overlay import translated

HERE = Path(__file__).parent
SLOT = re.compile(r"\{([a-z_]*)\}")
PARAM = re.compile(r"(?P<path>[A-Za-z_][\w.]*):(?P<concept>[a-z_]+)(?P<required>!?)(?:=(?P<default>\S+))?")


class Part(BaseModel):
    """Base of all parts of a knowledge file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Trait(Part):
    """One axis on which the platforms of a scenario compete."""

    name: str = Field(pattern=r"^[a-z][a-z_]+$")
    what: str
    """What a high level means, for anyone: "how low the prices are"."""
    wants: list[str] = Field(min_length=3)
    """How a person who cares about it is described: "watches every cent"."""
    skips: list[str] = Field(min_length=2)
    """How a person who does not care about it is described: "is happy to pay more"."""
    appeals: list[str] = []
    """Life stages that care a little more about it."""


class Situation(Part):
    """A context: a situation that moves preferences."""

    name: str = Field(pattern=r"^[a-z][a-z_]+$")
    phrase: str
    """A noun phrase for prompts: "costly electronics"."""
    hours: tuple[int, int] = (7, 21)
    """First and last hour of the day in which it usually comes up."""
    workdays: bool = False
    """Monday to Friday only."""
    pulls: dict[str, float]
    """How strongly this situation pulls towards a trait, in [0, 1]; traits not named: 0.1."""
    cues: list[str] = Field(min_length=8)
    """Whole sentences that a person in this situation adds to a request."""
    trace: list[str] = Field(min_length=6)
    """Fragments that follow a past action: "as a birthday present for a friend"."""
    language: str = "en"
    """Language of its sentences."""
    shown_by_bank: bool = False
    """The banks alone show this situation, so that a cue is optional."""


class Concept(Part):
    """One kind of argument: what it means, which values it takes, how people say it."""

    type: Literal["string", "integer", "number", "money", "boolean", "date", "time", "enum", "array", "code"]
    what: list[str] = Field(min_length=2)
    """Two or three descriptions of a parameter that takes it; sibling APIs use different ones."""
    say: list[str] = []
    """Clauses with one `{}` that follow a request; one that ends in `.` is a sentence of its own."""
    bank: list[str] | dict[str, list[str]] = []
    """Values, or values per situation. `value | 40`: with a usual price in US dollars."""
    near: str | None = None
    """A money concept whose amount is near the usual price of this other concept's value."""
    range: tuple[float, float] | None = None
    step: float = 1
    count: tuple[int, int] = (1, 3)
    """How many values an array takes."""
    pattern: str | None = None
    """Of a code: `#` is a digit, `@` a capital letter, the rest stands for itself."""
    days: tuple[int, int] = (1, 40)
    """How far ahead a date lies."""
    feature: str | None = None
    """The basic feature of a person that can fill it."""
    language: str = "en"
    """Language in which its values are said."""

    def values(self, situation: str | None) -> list[str]:
        """Raw bank entries for one situation, or all of them."""
        if isinstance(self.bank, list):
            return self.bank
        if situation in self.bank:
            return self.bank[situation]
        return [entry for entries in self.bank.values() for entry in entries]

    @model_validator(mode="after")
    def _complete(self) -> Concept:
        if self.type in ("string", "enum", "array") and not self.bank:
            raise ValueError(f"a concept of type {self.type} needs a bank")
        if self.type in ("integer", "number", "money") and self.range is None and self.near is None:
            raise ValueError(f"a concept of type {self.type} needs a range (or near, for money)")
        if self.type == "code" and not self.pattern:
            raise ValueError("a code needs a pattern")
        for clause in self.say:
            if self.type != "boolean" and clause.count("{}") != 1:
                raise ValueError(f"write one {{}} in {clause!r}")
        return self


class ParameterUse(Part):
    """One parameter of an API: where it sits, what it takes."""

    path: str
    concept: str
    required: bool = False
    default: str | None = None


class ApiText(Part):
    """One API of one platform."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    text: str
    params: str = ""
    """`path:concept` items; `!` marks required, `=x` a default; `a.b:c` nests b in an object a."""

    @property
    def uses(self) -> list[ParameterUse]:
        """The parameters, parsed."""
        found = []
        for item in self.params.split():
            match = PARAM.fullmatch(item)
            if match is None:
                raise ValueError(f"{self.name}: cannot read parameter {item!r}; write path:concept, path:concept! or path:concept=default")
            found.append(
                ParameterUse(path=match["path"], concept=match["concept"], required=bool(match["required"]), default=match["default"])
            )
        return found


class CapabilityText(Part):
    """Something every platform of the scenario can do."""

    name: str = Field(pattern=r"^[a-z][a-z_]+$")
    group: str
    text: str
    open: bool = True
    """A person can start it on any platform; false for follow-ups such as tracking an order."""
    ask: list[str] = Field(min_length=6)
    """Requests with `{concept}` slots, no final full stop; a question ends in `?`."""
    done: list[str] = Field(min_length=3)
    """Past actions with `{concept}` slots, no subject, no full stop: "ordered {item}"."""
    apis: dict[str, ApiText]


class PlatformText(Part):
    """A platform and where it stands on every trait."""

    name: str
    text: str
    traits: dict[str, tuple[float, str]]
    """Trait -> [level in 0..1, a phrase that says so]."""


class Knowledge(Part):
    """All the offline model knows about one scenario."""

    scenario: str
    aliases: list[str] = []
    text: str
    traits: list[Trait] = Field(min_length=4, max_length=8)
    situations: list[Situation] = Field(min_length=3)
    platforms: list[PlatformText] = Field(min_length=2)
    groups: dict[str, str]
    """Function group -> description."""
    concepts: dict[str, Concept]
    capabilities: list[CapabilityText]

    @model_validator(mode="after")
    def _consistent(self) -> Knowledge:
        traits = {trait.name for trait in self.traits}
        names = [platform.name for platform in self.platforms]
        for platform in self.platforms:
            if set(platform.traits) != traits:
                raise ValueError(f"{platform.name}: traits must be exactly {sorted(traits)}")
        for situation in self.situations:
            if not set(situation.pulls) <= traits:
                raise ValueError(f"{situation.name}: pulls name unknown traits")
        situations = {s.name for s in self.situations}
        for name, concept in self.concepts.items():
            if isinstance(concept.bank, dict) and not set(concept.bank) <= situations:
                raise ValueError(f"concept {name}: bank keys must be situations {sorted(situations)}")
        for capability in self.capabilities:
            if capability.group not in self.groups:
                raise ValueError(f"{capability.name}: unknown group {capability.group}")
            if list(capability.apis) != names:
                raise ValueError(f"{capability.name}: apis must be given for {names}, in this order")
            known = {use.concept for api in capability.apis.values() for use in api.uses}
            for unknown in sorted(known - set(self.concepts)):
                raise ValueError(f"{capability.name}: unknown concept {unknown}")
            for template in [*capability.ask, *capability.done]:
                for slot in SLOT.findall(template):
                    if slot not in self.concepts:
                        raise ValueError(f"{capability.name}: {template!r} uses unknown concept {slot!r}")
        return self


@cache
def all_known(language: str) -> tuple[Knowledge, ...]:
    """Every knowledge file of a language."""
    return tuple(_read(path) for path in sorted((HERE / language).glob("*.yaml")) if not path.stem.startswith("_"))


@cache
def load(name: str, language: str) -> Knowledge | None:
    """The knowledge file of a scenario, or None when the offline model has never heard of it."""
    for path in sorted((HERE / language).glob("*.yaml")):
        if path.stem.startswith("_"):
            continue
        knowledge = _read(path)
        if name.casefold() in {knowledge.scenario.casefold(), *(a.casefold() for a in knowledge.aliases)}:
            return knowledge
    return None


@cache
def _read(path: Path) -> Knowledge:
    language, data = path.parent.name, read_bank(path)
    if language != "en":
        data = translated(
            read_bank(HERE / "en" / path.name), data, language, dict(zip(life_stages("en"), life_stages(language), strict=True))
        )
    return Knowledge.model_validate(data)


@cache
def life_stages(language: str) -> tuple[str, ...]:
    """The stages of life that the people of a language have; the order is the same in all."""
    return tuple(read_bank(HERE / language / "_people.yaml")["life_stages"])


@cache
def phrases(language: str) -> dict[str, Any]:
    """Fixed words of the offline model in a language."""
    return dict(read_bank(HERE / language / "_style.yaml")["phrases"])


def read_bank(path: Path) -> Any:
    """One of the model's own YAML files, with the fast safe loader where libyaml is there."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(path.read_text(encoding="utf-8"))
    return loader.get_single_data()
