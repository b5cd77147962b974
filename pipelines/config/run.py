"""One run of the pipeline: what defines the data, and the limits that do not."""

from __future__ import annotations

import hashlib
import json
import math
import random
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pipelines.config.files import read_scenario
from pipelines.config.form import Strict
from pipelines.config.names import no_twins
from pipelines.config.scenario import ScenarioSpec
from pipelines.records import HistoryMode, ProfileAccess

MOST_COARSE = 8
"""Life stages that a first layer can tell apart; more users widen the finer layers."""

Preset = Literal["tiny", "quick", "paper"]
Language = Literal["en", "zh"]


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

    retry_statuses: list[int] = Field(default=[])
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

    judge_models: list[str] = Field(default=[])
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
        no_twins("scenarios", [scenario.id for scenario in self.scenarios])
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
