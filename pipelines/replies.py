"""What a model must answer to each prompt; published as `schemas/replies/<prompt>.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from pipelines.records import Act, FeatureKind, SourceKind

SNAKE = r"^[a-z][a-z0-9_]{0,63}$"


class Reply(BaseModel):
    """Base of all replies; attribute docstrings reach the model as descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class NamedThing(Reply):
    name: str = Field(pattern=SNAKE)
    description: str = Field(min_length=3, max_length=500)


class ContextReply(NamedThing):
    hours: list[int] = Field(default=[7, 21], min_length=2, max_length=2)
    """First and last local hour, 0 to 23, in which it usually comes up; the span may pass midnight."""

    workdays: bool = False
    """True when it comes up from Monday to Friday only."""

    @field_validator("hours")
    @classmethod
    def _of_a_day(cls, value: list[int]) -> list[int]:
        if not all(0 <= hour <= 23 for hour in value):
            raise ValueError("hours run from 0 to 23")
        return value


class CapabilityReply(NamedThing):
    open: bool = True
    """True when a user can start it on any platform; false for follow-ups such as tracking an order."""


class TraitReply(Reply):
    trait: str
    level: float = Field(ge=0, le=1)
    phrase: str = Field(min_length=3, max_length=200)
    """The level in words."""


class PlatformReply(Reply):
    name: str = Field(min_length=2, max_length=60)
    description: str = Field(min_length=3, max_length=500)
    traits: list[TraitReply]


class ScenarioReply(Reply):
    """Answer to `tools.expand_scenario`."""

    traits: list[NamedThing] = Field(min_length=4, max_length=8)
    contexts: list[ContextReply] = Field(min_length=2, max_length=8)
    capabilities: list[CapabilityReply]
    platforms: list[PlatformReply]


class GroupReply(NamedThing):
    capabilities: list[str] = Field(min_length=1)
    """Names from the capability list; each belongs to one group."""


class PlatformGroupsReply(Reply):
    """Answer to `tools.expand_platform`."""

    groups: list[GroupReply] = Field(min_length=1)


class ApiReply(Reply):
    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    capability: str
    description: str = Field(min_length=5, max_length=1000)
    parameters: dict[str, JsonValue]
    """JSON Schema 2020-12 of type object."""
    returns: str = Field(min_length=3, max_length=500)


class ApisReply(Reply):
    """Answer to `tools.expand_apis`."""

    apis: list[ApiReply] = Field(min_length=1)


class TraitBand(Reply):
    id: str
    band: Literal["low", "middle", "high"]


class TraitBandsReply(Reply):
    """Answer to `tools.judge_traits`."""

    bands: list[TraitBand] = Field(min_length=1)
    """One entry per phrase."""


class MatchedParameter(Reply):
    platform: str
    """Name of the platform."""
    path: str
    """Path of the parameter."""


class MatchReply(Reply):
    meaning: str = Field(pattern=SNAKE)
    about: Literal["person", "request"]
    """person: a lasting fact about the user, such as an address; request: anything that differs from request to request."""
    parameters: list[MatchedParameter] = Field(min_length=1)


class CapabilityMatchesReply(Reply):
    capability: str
    matches: list[MatchReply]


class MatchesReply(Reply):
    """Answer to `tools.match_parameters`."""

    capabilities: list[CapabilityMatchesReply] = Field(min_length=1)


class FeatureReply(NamedThing):
    kind: FeatureKind
    leaves: list[str] = Field(min_length=1)
    """Ids of the leaves it covers."""


class FeaturesReply(Reply):
    """Answer to `features.name_cluster`."""

    features: list[FeatureReply] = Field(min_length=1)


class FeatureGroupReply(NamedThing):
    kind: FeatureKind
    members: list[str] = Field(min_length=1)
    """Ids of the features it covers."""


class FeatureGroupsReply(Reply):
    """Answer to `features.group`."""

    groups: list[FeatureGroupReply] = Field(min_length=1)


class BranchReply(Reply):
    """Answer to `profiles.branch`: one entry per wanted child."""

    people: list[dict[str, JsonValue]] = Field(min_length=1)
    """Feature id -> value."""


class WishReply(Reply):
    context: str
    priorities: list[str] = Field(min_length=2, max_length=4)
    """Trait names, most important first."""
    words: str = Field(min_length=10, max_length=500)
    """The same in one sentence about the person."""


class PersonWishesReply(Reply):
    user: str
    contexts: list[WishReply] = Field(min_length=2)


class PreferencesReply(Reply):
    """Answer to `profiles.prefer`."""

    people: list[PersonWishesReply] = Field(min_length=1)


class EventReply(Reply):
    number: int
    """The number of the planned event."""
    arguments: dict[str, JsonValue]
    api: str
    """The name of the API that was called, as planned."""
    summary: str = Field(min_length=5, max_length=300)
    """One line in the past, no subject."""


class HistoryReply(Reply):
    """Answer to `histories.simulate`."""

    events: list[EventReply] = Field(min_length=1)


class TellingReply(Reply):
    number: int
    """The number of the line."""
    reason: str = Field(min_length=3, max_length=500)
    """The words that give the preference away."""


class ToldReply(Reply):
    """Answer to `histories.judge`: the lines that state a preference; none when all are fine."""

    telling: list[TellingReply]


class QueryReply(Reply):
    slot: str
    text: str = Field(min_length=3, max_length=1000)


class QueriesReply(Reply):
    """Answer to `queries.write`."""

    queries: list[QueryReply] = Field(min_length=1)


class SourceReply(Reply):
    path: str
    """Dotted path of the argument."""
    kind: SourceKind
    at: str = ""
    """query: the words of the query, verbatim; profile: the feature; history: the event id."""


class CallReply(Reply):
    api: str
    arguments: dict[str, JsonValue]
    sources: list[SourceReply]
    """One entry per argument."""


class SolutionReply(Reply):
    """Answer to `solutions.solve`."""

    act: Act = "call"
    """`call`: make the calls; `ask`: ask the user first; `none`: no tool fits."""
    platform: str = ""
    """Name of the platform; empty unless you call."""
    calls: list[CallReply] = Field(default=[], max_length=8)
    """In order; empty unless you call."""
    missing: list[str] = Field(default=[], max_length=8)
    """Act `ask`: `platform`, or `<platform name>#<tool name>#<path>` of the parameter that nothing tells."""
    question: str = Field(default="", max_length=1000)
    """Act `ask`: the question to the user."""

    @model_validator(mode="after")
    def _fits_its_act(self) -> SolutionReply:
        if self.act == "call" and not self.calls:
            raise ValueError("act is call, so calls must hold at least one call")
        if self.act != "call" and self.calls:
            raise ValueError(f"act is {self.act}, so calls must be empty")
        if self.act == "ask" and not self.missing:
            raise ValueError("act is ask, so missing must say for what")
        return self


class JudgeReply(Reply):
    """Answer to `verify.judge`: the reason comes before the verdict."""

    reason: str = Field(min_length=3, max_length=1000)
    verdict: Literal["pass", "fail"]


REPLIES: dict[str, type[Reply]] = {
    "tools.expand_scenario": ScenarioReply,
    "tools.expand_platform": PlatformGroupsReply,
    "tools.expand_apis": ApisReply,
    "tools.judge_traits": TraitBandsReply,
    "tools.match_parameters": MatchesReply,
    "features.name_cluster": FeaturesReply,
    "features.group": FeatureGroupsReply,
    "profiles.branch": BranchReply,
    "profiles.prefer": PreferencesReply,
    "histories.simulate": HistoryReply,
    "histories.judge": ToldReply,
    "queries.write": QueriesReply,
    "solutions.solve": SolutionReply,
    "verify.judge": JudgeReply,
}
