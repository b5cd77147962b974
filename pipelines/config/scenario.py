"""What a user writes of a scenario; what is left out, the model proposes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator

from pipelines.config.form import Strict
from pipelines.config.names import clean_identifier, clean_name, identifier, no_twins


class SituationSpec(Strict):
    """A context given by hand."""

    name: str
    """The name, e.g. urgent."""

    description: str = Field(max_length=500)
    """Which requests belong here, one phrase."""

    _name = field_validator("name")(clean_identifier)


class CapabilitySpec(Strict):
    """A capability given by hand."""

    name: str
    """The name, e.g. search_products."""

    description: str = Field(default="", max_length=500)
    """The effect, one sentence."""

    open: bool = True
    """Can a user start it on any platform? Off for follow-ups such as tracking an order."""

    _name = field_validator("name")(clean_identifier)


class ImportedApi(Strict):
    """One real API, as `ptool import-tools` wrote it."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")
    """As it is called."""

    description: str = Field(max_length=20_000)
    """As its maker wrote it."""

    parameters: dict[str, JsonValue]
    """JSON Schema of the arguments."""

    verb: Literal["read", "write"] | None = None
    """Whether it only looks or also changes something, where the source says so."""

    group: str = Field(default="", max_length=60)
    """Function group in the source."""

    returns: str = Field(default="", max_length=500)
    """What comes back, where the source says so."""


class ImportedPlatform(Strict):
    """A platform of real APIs; competitors are synthesised around it."""

    name: str
    """The brand."""

    description: str = Field(max_length=2_000)
    """One or two sentences."""

    apis: list[ImportedApi] = Field(min_length=1)
    """Its real APIs."""

    _name = field_validator("name")(clean_name)


class ScenarioSpec(Strict):
    """A scenario as a user names it; what is left out, the model proposes."""

    name: str
    """The name, e.g. smart_home."""

    description: str = Field(max_length=2_000)
    """What people do in it, one or two sentences."""

    contexts: list[SituationSpec] | None = None
    """Situations that move preferences; left out: the model proposes four."""

    capabilities: list[CapabilitySpec] | None = None
    """What any platform can do; the model adds more when the platforms need more APIs."""

    platform: ImportedPlatform | None = None
    """A platform of real APIs, written by `ptool import-tools`."""

    _name = field_validator("name")(clean_name)

    @field_validator("capabilities", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [{"name": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("capabilities")
    @classmethod
    def _some(cls, value: list[CapabilitySpec] | None) -> list[CapabilitySpec] | None:
        if value is not None and not value:
            raise ValueError("is empty: list at least one capability, or leave the key out to have the model propose them")
        if value is not None:
            no_twins("capabilities", [identifier(item.name) for item in value])
        return value

    @field_validator("contexts")
    @classmethod
    def _two(cls, value: list[SituationSpec] | None) -> list[SituationSpec] | None:
        if value is not None and len(value) < 2:
            raise ValueError("names fewer than 2: a preference needs situations to differ in; add one or leave the key out")
        if value is not None:
            no_twins("contexts", [identifier(item.name) for item in value])
        return value

    @property
    def id(self) -> str:
        """The scenario's id."""
        return identifier(self.name)
