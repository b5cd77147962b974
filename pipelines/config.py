"""What a run is: one pydantic model, filled from a preset, a YAML file and `--set k=v`, in that order.

The fields of `RunConfig` define the data; everything under `limits` does not, and may differ when a
run is resumed. Scenario files are read here too, since they are part of what defines the data.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import random
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, ValidationInfo, field_validator, model_validator

from pipelines.errors import ConfigError
from pipelines.records import HistoryMode, ProfileAccess

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ROOT / "scenarios"
MAX_FILE_BYTES = 4_000_000
MAX_NAME = 80
MOST_COARSE = 8
"""Life stages that a first layer can tell apart; more users widen the finer layers."""

Preset = Literal["tiny", "quick", "paper"]
Language = Literal["en", "zh"]


UNITS = {
    "apis_per_platform": "count",
    "ask": "share, 0 to 1",
    "attempts": "tries",
    "batch_poll_s": "seconds",
    "breaker_minutes": "minutes",
    "choice_noise": "temperature",
    "concurrency": "requests in flight",
    "contexts_per_scenario": "count",
    "distractor_share": "0 to 0.5",
    "drift_share": "0 to 1",
    "events": "least and most",
    "feature_roots": "least and most",
    "four_calls": "share, 0 to 1",
    "group_depth": "levels",
    "group_size": "count",
    "history": "share, 0 to 1",
    "judge_votes": "count",
    "layers": "branches per layer",
    "max_calls": "paid requests",
    "max_cost": "currency of the price file",
    "max_rejected": "share, up to 1",
    "max_rounds": "count",
    "max_tokens": "prompt and reply",
    "min_margin": "utility, 0 to 1",
    "min_posterior": "probability, 0 to 1",
    "no_tool": "share, 0 to 1",
    "now": "local time, YYYY-MM-DDThh:mm:ss",
    "one_off_share": "0 to 0.5",
    "override": "share, 0 to 1",
    "platforms_per_scenario": "count",
    "profile_irrelevant": "share, 0 to 1",
    "profile_share": "0 to 1",
    "queries_per_call": "count",
    "query_only_bound": "0 to 1",
    "rated_share": "0 to 1",
    "rpm": "requests per minute",
    "seed": "any whole number",
    "shard_users": "people per task",
    "test_new_apis": "samples",
    "test_new_platforms": "samples",
    "test_new_scenarios": "samples",
    "test_trained_users": "samples",
    "test_untrained_users": "samples",
    "three_calls": "share, 0 to 1",
    "timeout_s": "seconds",
    "tpm": "tokens per minute",
    "train": "samples",
    "two_calls": "share, 0 to 1",
    "untrained_users": "people",
    "users": "people",
}
"""Field -> unit; the form shows it behind the field's title."""


def form_title(name: str, _field: object = None) -> str:
    """How the form names a field: in words, with its unit."""
    words = name.removesuffix("_s").replace("_", " ")
    title = f"{words[:1].upper()}{words[1:]}".replace("Apis", "APIs")
    return f"{title} ({UNITS[name]})" if name in UNITS else title


class Strict(BaseModel):
    """Unknown keys are mistakes; attribute docstrings become the descriptions of the form."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, field_title_generator=form_title)


def clean_name(value: str) -> str:
    """A name that is safe in paths, ids and logs.

    Raises:
        ValueError: with slashes, `..`, control characters, or more than 80 characters.
    """
    value = value.strip()
    if not value:
        raise ValueError("is empty; write a name of 1 to 80 characters")
    if len(value) > MAX_NAME:
        raise ValueError(f"has {len(value)} characters; write at most {MAX_NAME}")
    if "/" in value or "\\" in value or ".." in value:
        raise ValueError(f"{value!r} contains a path; write a plain name such as smart_home")
    if any(unicodedata.category(char).startswith("C") for char in value):
        raise ValueError(f"{value!r} contains a control character; write a plain name such as smart_home")
    return value


def clean_identifier(value: str) -> str:
    """A name that becomes part of APIs and labels: ASCII letters, digits and underscores.

    Raises:
        ValueError: when no such identifier can be made of it.
    """
    value = clean_name(value)
    if not re.match(r"[a-z][a-z0-9_]*$", identifier(value)):
        raise ValueError(f"{value!r} is no identifier; write ASCII letters such as turn_on_lights, and the words in `description`")
    return value


def identifier(name: str) -> str:
    """The id form of a name: lower case, words joined by `_`; a digest when nothing readable is left."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", name).casefold())
    joined = "_".join(words)[:60]
    return joined or "x" + hashlib.sha256(name.encode()).hexdigest()[:8]


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
            _no_twins("capabilities", [identifier(item.name) for item in value])
        return value

    @field_validator("contexts")
    @classmethod
    def _two(cls, value: list[SituationSpec] | None) -> list[SituationSpec] | None:
        if value is not None and len(value) < 2:
            raise ValueError("names fewer than 2: a preference needs situations to differ in; add one or leave the key out")
        if value is not None:
            _no_twins("contexts", [identifier(item.name) for item in value])
        return value

    @property
    def id(self) -> str:
        """The scenario's id."""
        return identifier(self.name)


class Limits(Strict):
    """What may differ between two runs of the same data: speed, patience, money."""

    concurrency: int = Field(default=16, ge=1, le=1024)
    """Requests in flight at once."""

    timeout_s: float = Field(default=120, gt=0, le=3600)
    """Patience for one reply, in seconds."""

    attempts: int = Field(default=8, ge=1, le=50)
    """Failures of one request (5xx, time-outs, broken replies) while the endpoint serves others; 429 and outages do not count."""

    rpm: int | None = Field(default=None, ge=1)
    """Requests a minute to one endpoint, at most."""

    tpm: int | None = Field(default=None, ge=1)
    """Tokens a minute to one endpoint, at most, prompt and reply together."""

    breaker_minutes: float = Field(default=10, gt=0, le=1440)
    """Stop, resumable, when an endpoint had failures and no success for this long."""

    retry_statuses: list[int] = []
    """More HTTP statuses that this provider means as passing faults, e.g. [400]."""

    max_calls: int | None = Field(default=None, ge=1)
    """Stop new work after this many paid requests."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Stop new work after this many tokens, prompt and reply together."""

    max_cost: float | None = Field(default=None, gt=0)
    """Stop new work when this much money is spent, in the currency of the price file."""

    prices: str | None = None
    """Path of a YAML file of prices per million tokens; see docs/models.md."""

    ledger: str | None = None
    """`postgresql://user@host/database` instead of a file in the run folder; the password comes from PGPASSWORD."""

    batch: bool = False
    """Send through the provider's Batch API: slower, and cheaper where the provider says so."""

    batch_poll_s: float = Field(default=30, gt=0, le=3600)
    """Seconds between two looks at a batch."""

    reask_refused: bool = False
    """Ask again what was cut or refused in an earlier session, instead of keeping that outcome."""

    shard_users: int = Field(default=4, ge=1, le=1000)
    """Users per task of the sample stages."""


class ModelSpec(Strict):
    """A model for some of the stages: its name, and where it differs, its endpoint and the variable of its key."""

    model: str = Field(min_length=1, max_length=200)
    """`offline`, or `openai:<model>`."""

    base_url: str | None = Field(default=None, max_length=500, pattern=r"^https?://[^@\s]+$")
    """Endpoint; left out: OPENAI_BASE_URL. No user name or password in it."""

    key_variable: str = Field(default="OPENAI_API_KEY", pattern=r"^[A-Z_][A-Z0-9_]{0,99}$")
    """Name of the environment variable that holds the key; never the key."""


class Models(Strict):
    """Models by role; a role that is left out uses `model`."""

    builder: ModelSpec | None = None
    """Scenarios, APIs, features and basic profiles: the bulk, a cheap model may do."""

    writer: ModelSpec | None = None
    """Preferences, histories and queries: what a person says and does."""

    solver: ModelSpec | None = None
    """The assistant agent that answers the queries."""

    judge: ModelSpec | None = None
    """The second opinion; another model than the solver and the writer is worth more."""


class Samples(Strict):
    """How many samples each split holds, exactly."""

    train: int = Field(default=150, ge=1, le=10_000_000)
    """Training samples of the trained users."""

    test_trained_users: int = Field(default=24, ge=0, le=10_000_000)
    """Held-out samples of the same users."""

    test_untrained_users: int = Field(default=26, ge=0, le=10_000_000)
    """Samples of users that training never sees."""

    test_new_platforms: int = Field(default=0, ge=0)
    """Samples whose gold platform is gold in no other split; one platform per scenario is held out."""

    test_new_apis: int = Field(default=0, ge=0)
    """Samples that call an API which no other split calls; some capabilities' APIs are held out."""

    test_new_scenarios: int = Field(default=0, ge=0)
    """Samples of a scenario that no other split has; one scenario is held out."""

    @property
    def total(self) -> int:
        """Samples in all splits together."""
        return (
            self.train + self.test_trained_users + self.test_untrained_users
            + self.test_new_platforms + self.test_new_apis + self.test_new_scenarios
        )  # fmt: skip


class Shares(Strict):
    """Shares of the slots that are drawn as something special.

    Left out: the usual share wherever the structure supports it, and what it does not support is told in the
    coverage table. Given: must be met, else the run ends incomplete.
    """

    override: float | None = Field(default=None, ge=0, le=1)
    """The query states a value that differs from the profile's. Usually 0.08."""

    profile_irrelevant: float | None = Field(default=None, ge=0, le=1)
    """The query names the platform and states every argument. Usually 0.05."""

    no_tool: float | None = Field(default=None, ge=0, le=1)
    """Nothing fits. Usually 0.04."""

    ask: float | None = Field(default=None, ge=0, le=1)
    """Neither history nor profile settles it. Usually 0.05."""

    history: float | None = Field(default=None, ge=0, le=1)
    """An argument is "as last time". Usually 0.06."""

    two_calls: float | None = Field(default=None, ge=0, le=1)
    """Usually 0.1."""

    three_calls: float | None = Field(default=None, ge=0, le=1)
    """Usually 0.04."""

    four_calls: float | None = Field(default=None, ge=0, le=1)
    """Usually 0.02."""

    @model_validator(mode="after")
    def _possible(self) -> Shares:
        total = sum(value or 0 for value in self.model_dump().values())
        if total > 1:
            raise ValueError(f"sum to {total:g}; write shares that sum to at most 1")
        return self


class RunConfig(Strict):
    """One run of the pipeline. Everything but `limits` defines the data."""

    preset: Preset = "quick"
    """The preset the run started from."""

    seed: int = Field(default=7, ge=0, le=2**31 - 1)
    """Draws the plan, the users and the model's sampling."""

    language: Language = "en"
    """Language of all texts: `en` or `zh`; names of APIs and parameters are ASCII in both."""

    model: str = Field(default="offline", min_length=1, max_length=200)
    """`offline`, or `openai:<model>` with OPENAI_BASE_URL and OPENAI_API_KEY in the environment."""

    models: Models = Models()
    """Other models for single roles."""

    scenarios: list[ScenarioSpec] = Field(min_length=1, max_length=100)
    """The scenarios, in full; on the command line and in a config file a name or a path stands for one."""

    platforms_per_scenario: int = Field(default=3, ge=2, le=8)
    """Competing platforms."""

    apis_per_platform: int = Field(default=8, ge=2, le=64)
    """APIs of each platform, exactly."""

    group_depth: int = Field(default=2, ge=1, le=4)
    """Levels of function groups between a platform and its APIs, at most."""

    group_size: int = Field(default=7, ge=2, le=64)
    """A function group with more APIs is split again while the depth allows."""

    contexts_per_scenario: int = Field(default=4, ge=2, le=8)
    """Situations that move preferences."""

    users: int = Field(default=8, ge=1, le=100_000)
    """People."""

    untrained_users: int = Field(default=2, ge=0)
    """Users kept out of training."""

    layers: list[Annotated[int, Field(ge=1, le=200)]] | None = None
    """Branching k_l of the top-down profile assignment; their product must reach `users`. Left out: derived."""

    feature_roots: tuple[int, int] = (3, 12)
    """How many roots the feature tree may end with."""

    embedding_model: str | None = Field(default=None, min_length=1, max_length=200)
    """Model of the endpoint's embeddings for the feature tree; left out, or unknown there: TF-IDF, computed here."""

    events: tuple[int, int] = (20, 40)
    """Events per user and scenario, least and most; the upper half is for users whose favourites do not show yet."""

    history_mode: HistoryMode = "chronological"
    """`preferred_only`: favourites alone, no noise, no ratings; `rated`: every event has stars;
    `chronological`: some ratings, and some users change their mind."""

    profile_access: ProfileAccess = "structured"
    """How exports show a user: `structured` facts and events, `events_only`, or `raw_log` text."""

    choice_noise: float = Field(default=0.06, gt=0, le=1)
    """Temperature of the soft choice of a platform in the histories."""

    rated_share: float = Field(default=0.2, ge=0, le=1)
    """Share of events with stars; all of them in the mode `rated`, none in `preferred_only`."""

    one_off_share: float = Field(default=0.05, ge=0, le=0.5)
    """Share of events on behalf of somebody else, such as gifts."""

    distractor_share: float = Field(default=0.03, ge=0, le=0.5)
    """Share of events on a platform chosen at random."""

    drift_share: float = Field(default=0.15, ge=0, le=1)
    """Share of histories with a change of mind in one context; mode `chronological` only."""

    min_margin: float = Field(default=0.05, ge=0, le=1)
    """A label needs the best platform to be this much better than the second."""

    min_posterior: float = Field(default=0.9, ge=0, le=1)
    """A context is settled when the visible history makes one platform at least this likely; gold must be the one."""

    max_rejected: float = Field(default=0.5, gt=0, le=1)
    """The stages that make people stop when they reject a larger share than this (the yield alarm)."""

    profile_share: float = Field(default=0.5, ge=0, le=1)
    """Share of slots that need a profile value where the API allows it."""

    samples: Samples = Samples()
    """Exact sizes of the splits."""

    queries_per_call: int = Field(default=8, ge=1, le=32)
    """Queries the user agent words in one reply."""

    max_rounds: int = Field(default=12, ge=1, le=100)
    """How often rejected slots of a user and scenario are drawn again before the yield alarm."""

    judge: bool = True
    """Ask a judge about every sample that passed the rules."""

    judge_votes: int = Field(default=1, ge=1, le=9)
    """Votes per judging model; more than half of all votes must pass."""

    judge_models: list[str] = []
    """Models that judge, by name; left out: the run's model."""

    needed: bool = False
    """Gate: a solver without the profile, or with another user's, must fail, and one with everything must pass."""

    shares: Shares = Shares()
    """Controls, several calls and values from the history."""

    query_only_bound: float = Field(default=0.1, ge=0, le=1)
    """The audit fails when the query text alone tells the gold platform better than the prior by more than this."""

    now: str = Field(default="2026-03-02T09:00:00", pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
    """The day the queries are asked, local time."""

    limits: Limits = Limits()
    """What does not change the data."""

    @field_validator("now", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        """YAML reads an unquoted time as a time."""
        return value.replace(tzinfo=None).isoformat() if isinstance(value, datetime) else value

    @field_validator("now")
    @classmethod
    def _is_a_moment(cls, value: str) -> str:
        datetime.fromisoformat(value)
        return value

    @field_validator("scenarios", mode="before")
    @classmethod
    def _named(cls, value: Any, seen: ValidationInfo) -> Any:
        if isinstance(value, str):
            value = [part for part in value.split(",") if part.strip()]
        if isinstance(value, list):
            language = seen.data.get("language", "en")
            return [read_scenario(item, language) if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="after")
    def _possible(self) -> RunConfig:
        _no_twins("scenarios", [scenario.id for scenario in self.scenarios])
        if self.untrained_users >= self.users:
            raise ValueError(f"untrained_users is {self.untrained_users} of {self.users} users; leave at least one to train on")
        if self.samples.test_untrained_users and not self.untrained_users:
            raise ValueError("samples.test_untrained_users needs untrained_users of at least 1")
        if self.events[0] < 1 or self.events[1] < self.events[0] or self.events[1] > 200:
            raise ValueError(f"events is {list(self.events)}; write [least, most] with 1 <= least <= most <= 200")
        if self.feature_roots[0] < 1 or self.feature_roots[1] < self.feature_roots[0]:
            raise ValueError(f"feature_roots is {list(self.feature_roots)}; write [least, most] with 1 <= least <= most")
        if self.layers is not None and (min(self.layers, default=0) < 1 or math.prod(self.layers) < self.users):
            raise ValueError(f"layers {self.layers} give {math.prod(self.layers)} users, {self.users} are wanted; raise one of them")
        return self

    def rng(self, *key: object) -> random.Random:
        """A generator that depends on the seed and the key, never on who came first."""
        text = json.dumps([self.seed, *map(str, key)])
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))

    @property
    def branching(self) -> list[int]:
        """The k_l in force: given, or near-equal factors whose product is the least that reaches `users`."""
        if self.layers is not None:
            return self.layers
        depth = 1 if self.users <= 3 else 2 if self.users < 8 else 3
        best: list[int] = []
        for first in range(1, min(self.users, MOST_COARSE) + 1 if depth == 3 else self.users + 1):
            rest = [first] if depth == 1 else _split(self.users, first, depth)
            if math.prod(rest) >= self.users and (not best or _worse(best, rest)):
                best = rest
        return best

    def data(self) -> dict[str, Any]:
        """The half that defines the data, as JSON."""
        return self.model_dump(mode="json", exclude={"limits"})

    def spec(self, role: str) -> ModelSpec:
        """The model of a role: `builder`, `writer`, `solver` (or `assistant`), `judge`."""
        found: ModelSpec | None = getattr(self.models, "solver" if role == "assistant" else role, None)
        return found or ModelSpec(model=self.model)


def _split(users: int, first: int, depth: int) -> list[int]:
    rest = math.ceil(users / first)
    if depth == 2:
        return [first, rest]
    second = max(1, round(math.sqrt(rest)))
    while rest % second and second > 1:
        second -= 1
    return [first, second, math.ceil(rest / second)]


def _worse(old: list[int], new: list[int]) -> bool:
    """Less overshoot wins, then the flatter tree, then the wider last layer."""
    return (math.prod(new), max(new) - min(new), new) < (math.prod(old), max(old) - min(old), old)


def _no_twins(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} names {name!r} twice; keep one")
        seen.add(name)


PRESETS: dict[Preset, dict[str, Any]] = {
    "tiny": {
        "scenarios": ["shopping"],
        "platforms_per_scenario": 2,
        "apis_per_platform": 6,
        "users": 3,
        "untrained_users": 1,
        "samples": {"train": 14, "test_trained_users": 4, "test_untrained_users": 6},
    },
    "quick": {"scenarios": ["shopping", "takeout"]},
    "paper": {
        "scenarios": ["shopping", "takeout", "entertainment", "work", "travel"],
        "apis_per_platform": 24,
        "users": 80,
        "untrained_users": 6,
        "layers": [4, 4, 5],
        "samples": {"train": 7096, "test_trained_users": 474, "test_untrained_users": 609},
    },
}


def load(
    preset: Preset | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[RunConfig, dict[str, str]]:
    """The effective config and where each of its fields came from.

    Args:
        preset: Starts from it; a file may name one with `preset:`; else `quick`.
        file: A YAML mapping of fields.
        overrides: `--set` values by dotted key, already parsed.

    Raises:
        ConfigError: naming the file or option, the field, what was found and what to write.
    """
    given = read_yaml(file) if file is not None else {}
    refuse_keys(given, str(file))
    refuse_keys(dict(overrides or {}), "--set")
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: holds a {type(given).__name__}; write a mapping such as `users: 8`")
    chosen = preset or given.get("preset") or "quick"
    if chosen not in PRESETS:
        raise ConfigError(f"{file}: preset is {chosen!r}; write one of {', '.join(PRESETS)}")
    merged: dict[str, Any] = {"preset": chosen}
    origin: dict[str, str] = {}
    layers: list[tuple[str, Mapping[str, Any]]] = [(f"preset {chosen}", PRESETS[chosen])]
    if file is not None and isinstance(given.get("scenarios"), list):
        given["scenarios"] = [_beside(file, item) for item in given["scenarios"]]
    layers.append((str(file), {key: value for key, value in given.items() if key != "preset"}))
    layers.append(("--set", _nest(overrides or {})))
    for name, layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            origin[key] = name
    where = str(file) if file is not None else "config"
    config = _validated(RunConfig, merged, where, origin)
    for field in RunConfig.model_fields:
        origin.setdefault(field, "default")
    return config, origin


_KEY_NAME = re.compile(r"(^|[._-])(api_?key|secret|password|access_?token|authorization)$", re.IGNORECASE)
_KEY_VALUE = re.compile(r"\b(sk-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|AIza[A-Za-z0-9_-]{30,}|Bearer\s+\S{12,})")
_URL_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


def refuse_keys(value: Any, where: str, path: str = "") -> None:
    """Credentials belong in the environment: a config that holds one is refused, without repeating it.

    Raises:
        ConfigError: naming file and field of what looks like a key.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else str(name)
            if isinstance(inner, str) and inner and _KEY_NAME.search(str(name)):
                raise ConfigError(f"{where}: {here}: keys are not read from a config; export it, and name the variable in key_variable")
            refuse_keys(inner, where, here)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            refuse_keys(inner, where, f"{path}.{number}")
    elif isinstance(value, str) and (_KEY_VALUE.search(value) or _URL_PASSWORD.search(value)):
        raise ConfigError(f"{where}: {path}: holds a key or password; take it out (and revoke it), and put it into the environment")


def _beside(file: Path, item: Any) -> Any:
    """A scenario path in a config file counts from that file."""
    if isinstance(item, str) and item.endswith((".yaml", ".yml")) and not Path(item).is_absolute():
        return str(file.parent / item)
    return item


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """`k=v` words to values; v is read as YAML, so `3`, `true` and `[a, b]` have types.

    Raises:
        ConfigError: without `=`, or when the value is not YAML.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {pair!r}: no `=`; write key=value, e.g. --set users=12")
        try:
            found[key.strip()] = yaml.safe_load(text) if len(text) < MAX_FILE_BYTES else text
        except (yaml.YAMLError, ValueError, RecursionError):
            found[key.strip()] = text
    return found


def read_scenario(item: str, language: str = "en") -> ScenarioSpec:
    """A scenario by name (a file in `scenarios/`, or in `scenarios/<language>/`) or by path.

    Raises:
        ConfigError: when there is no such file, or it is not a scenario.
    """
    path = Path(item)
    if not item.endswith((".yaml", ".yml")):
        name = item.strip()
        known = sorted(file.stem for file in SCENARIOS.glob("*.yaml"))
        if name not in known:
            raise ConfigError(f"scenarios: no scenario {name[:100]!r}; write one of {', '.join(known)}, or the path of a .yaml file")
        path = SCENARIOS / f"{name}.yaml"
        own = SCENARIOS / language / f"{name}.yaml"
        path = own if language != "en" and own.is_file() else path
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds a {type(data).__name__}; write a mapping with name and description")
    refuse_keys(data, str(path))
    return _validated(ScenarioSpec, data, str(path), {})


def read_yaml(path: Path) -> Any:
    """One YAML document: UTF-8, bounded, no aliases, no tags.

    Raises:
        ConfigError: naming the file and, where known, the line.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes; write a smaller file")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{str(path)[:200]!r}: cannot read: {reason}; write the path of a YAML file") from None
    if not text.strip():
        raise ConfigError(f"{path}: is empty; write a mapping such as `name: smart_home`")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise ConfigError(f"{path}, line {line}: YAML aliases (*{event.anchor}) are not read; write the value out")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}{where}: not YAML: {problem}; correct that line") from None
    except ValueError as error:
        raise ConfigError(f"{path}: holds a value that is none: {error}; quote it") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; flatten it") from None


_Model = TypeVar("_Model", bound=Strict)


def _validated(model: type[_Model], data: dict[str, Any], where: str, origin: Mapping[str, str]) -> _Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in first["loc"])
        top = str(first["loc"][0]) if first["loc"] else ""
        place = origin.get(top, where)
        if first["type"] == "extra_forbidden":
            known = _fields_at(model, first["loc"])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"
            raise ConfigError(f"{place}: {location}: unknown key; {hint}") from None
        found = repr(first.get("input"))
        found = found if len(found) <= 80 else found[:77] + "..."
        message = first["msg"].removeprefix("Value error, ")
        what = f"{location}: " if location else ""
        shown = f" (found {found})" if first["type"] not in ("value_error", "missing") else ""
        raise ConfigError(f"{place}: {what}{message}{shown}") from None


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    fields = model.model_fields
    for part in location[:-1]:
        if isinstance(part, str) and part in fields:
            inner = _models_in(fields[part].annotation)
            fields = inner[0].model_fields if inner else fields
    return list(fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
