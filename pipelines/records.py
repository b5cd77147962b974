"""The shapes of everything the pipeline makes; published as `schemas/records/*.json`.

One line of a stage file is one record. All records are frozen, refuse unknown keys and carry their
field descriptions into the JSON Schema. Ids are readable: `shopping`, `shopping/parcelo`,
`shopping/parcelo/find_items`, `u0007`, `u0007.shopping.012`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

FeatureKind = Literal["basic", "preference", "request"]
SourceKind = Literal["query", "profile", "history", "default", "call", "derived"]
SampleKind = Literal["tool_preference", "profile_dependent"]
Occasion = Literal["usual", "one_off", "distractor"]
HistoryMode = Literal["preferred_only", "rated", "chronological"]
ProfileAccess = Literal["structured", "events_only", "raw_log"]
Control = Literal["profile_irrelevant", "override", "no_tool", "ask"]
Act = Literal["call", "ask", "none"]
SplitName = Literal[
    "train",
    "test_trained_users",
    "test_untrained_users",
    "test_new_platforms",
    "test_new_apis",
    "test_new_scenarios",
]


class Record(BaseModel):
    """Base of all records: frozen, no unknown keys, attribute docstrings become descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Trait(Record):
    """One axis on which the platforms of a scenario compete. Source: `tools.expand_scenarios`."""

    name: str
    """Identifier, snake_case, e.g. `after_sales`."""

    description: str
    """What a level of 1 means, for any user."""


class Situation(Record):
    """A context: a situation that moves preferences. Source: `tools.expand_scenarios`.

    Never shown to the solver: it has to read the situation out of the query and the history.
    """

    name: str
    """Identifier, snake_case, e.g. `costly_electronics`."""

    description: str
    """A phrase that says which requests belong here."""

    hours: tuple[int, int] = (7, 21)
    """First and last local hour, 0 to 23, in which it usually comes up; the span may pass midnight."""

    workdays: bool = False
    """True when it comes up from Monday to Friday only."""


class Capability(Record):
    """Something that every platform of the scenario can do. Source: the scenario file, `tools.expand_scenarios`."""

    name: str
    """Identifier, snake_case, e.g. `search_products`."""

    description: str
    """The effect, in one sentence."""

    open: bool = True
    """True when a user can start it on any platform; false for follow-ups such as tracking an order."""


class TraitLevel(Record):
    """Where one platform stands on one trait."""

    level: float = Field(ge=0, le=1)
    """0 is the worst of the market, 1 the best."""

    phrase: str
    """The level in words; this, never the number, is what a solver sees."""


class Platform(Record):
    """A competitor within a scenario. Source: `tools.expand_scenarios` or `tools.import_tools`."""

    id: str
    """`<scenario>/<platform>`."""

    name: str
    """The brand, as users and solvers read it; unique in the run."""

    description: str
    """One or two sentences."""

    traits: dict[str, TraitLevel]
    """Trait name -> level. No platform of a scenario is at least as good as another on every trait."""

    imported: bool = False
    """True when its APIs are real ones, read from a file."""


class Scenario(Record):
    """One everyday domain with its market. Source: `tools.expand_scenarios`."""

    id: str
    """The name as an identifier."""

    name: str
    """As the user wrote it."""

    description: str
    """What people do here."""

    traits: list[Trait]
    contexts: list[Situation]
    capabilities: list[Capability]
    platforms: list[Platform]


class API(Record):
    """One callable function of one platform. Source: `tools.expand_apis` or `tools.import_tools`."""

    id: str
    """`<scenario>/<platform>/<name>`."""

    platform: str
    """Platform id."""

    name: str
    """What a tool call names; an ASCII identifier, unique within its platform."""

    description: str
    """The effect, without praise."""

    capability: str
    """The capability it serves; its siblings on other platforms serve the same one."""

    group: str
    """Function group of the API tree; groups within groups are joined by `/`."""

    parameters: dict[str, JsonValue]
    """JSON Schema 2020-12 of the arguments: an object with `properties` and `required`."""

    returns: str
    """What comes back, in one sentence."""

    meanings: dict[str, str] = {}
    """Parameter path -> what it means, in a word that all siblings share. Source: `tools.match_parameters`."""

    personal: list[str] = []
    """Meanings among them that are lasting facts about the user, such as an address: told once, not with each request."""


class Equivalence(Record):
    """Which parameters of the APIs of one capability mean the same. Source: `tools.equivalences`, from the APIs' meanings."""

    scenario: str
    capability: str

    apis: dict[str, str]
    """Platform id -> API name."""

    parameters: dict[str, dict[str, str]]
    """Meaning -> platform id -> parameter path."""

    problems: list[str]
    """Why the APIs are not interchangeable; empty when they are."""


class FeatureNode(Record):
    """One node of the feature tree. Source: `features.build_tree`.

    The tree is built bottom up: traits and API parameters are leaves, every leaf hangs under exactly
    one feature, features under broader features, until the number of roots is in range.
    """

    id: str
    """snake_case, unique in the tree."""

    name: str
    description: str

    kind: FeatureKind
    """`basic`: an observable fact about a user; `preference`: hidden, shows in behaviour only;
    `request`: belongs to the single request and says nothing about the user."""

    children: list[str]
    """Ids of narrower features; empty just above the leaves."""

    leaves: list[str]
    """`<platform id>#<trait>` or `<API id>#<parameter path>`."""

    height: int = Field(ge=1)
    """1 just above the leaves."""


class Preference(Record):
    """What one user wants in one situation. Hidden from every solver. Source: `profiles.assign`."""

    scenario: str
    context: str

    words: str
    """The preference in words, for the models that write."""

    priorities: list[str]
    """Traits that matter, most important first."""

    weights: dict[str, float]
    """Trait -> weight; they sum to 1. Rank-order-centroid weights of `priorities`."""


class Profile(Record):
    """One user. Source: `profiles.assign`."""

    id: str
    """`u0001`, ..."""

    basic: dict[str, JsonValue]
    """Observable facts: feature id -> value. All that a solver may see of the profile."""

    preferences: list[Preference]
    """Hidden: one per scenario and context."""

    timezone: str
    """IANA name."""

    language: str
    """`en` or `zh`."""

    path: list[int]
    """Which branch was taken at every layer of the top-down assignment."""


class Event(Record):
    """One thing a user did on a platform. Source: `histories.simulate`. Shows preferences, never states them."""

    id: str
    """Unique within the user's scenario, `e01` the oldest."""

    time: str
    """Local time, ISO 8601 with offset."""

    platform: str
    """Platform id."""

    api: str
    """API name on that platform."""

    arguments: dict[str, JsonValue]
    """Valid against the API's parameters."""

    summary: str
    """One line, no subject: "ordered two bags of cat litter"."""

    context: str
    """The situation it happened in. Hidden from the solver."""

    rating: int | None = Field(default=None, ge=1, le=5)
    """Stars the user gave afterwards, if any."""

    returned: bool = False
    """The user undid it afterwards: sent it back, cancelled it, left."""

    occasion: Occasion = "usual"
    """`usual`: chosen by the user's own preference; `one_off`: on behalf of somebody else, and the summary
    says so; `distractor`: chosen at random. Hidden from the solver."""


class Drift(Record):
    """A change of mind: what one user wanted in one situation before a moment. Hidden. Gold follows the present."""

    time: str
    """ISO 8601; events before it follow the earlier weights in this context."""

    context: str
    priorities: list[str]
    """Traits that mattered then, most important first."""

    weights: dict[str, float]
    """Trait -> weight then."""


class History(Record):
    """The events of one user in one scenario, oldest first. Source: `histories.simulate_histories`."""

    id: str
    """`<user>.<scenario>`."""

    user: str
    scenario: str
    events: list[Event]

    drift: Drift | None = None
    """The change of mind within the months shown, if there is one."""

    belief: dict[str, dict[str, float]] = {}
    """Context -> platform id -> probability of being the user's favourite there, from what a solver sees of the
    events. Source: `identify.beliefs`."""


class PlannedArgument(Record):
    """Where one argument of the gold call has to come from, fixed before any words are written."""

    path: str
    """Dotted path inside the API's arguments."""

    source: SourceKind
    """`query`: the text must state it; `profile`: the text must not, the profile does; `history`: the text says
    "as last time", an event holds it."""

    feature: str | None = None
    """Source profile: the basic feature that fills it. Source query: the basic feature that it overrides."""

    event: str | None = None
    """Source history: id of the event that is "last time"."""


class PlannedCall(Record):
    """A call after the first, on the same platform."""

    capability: str
    api: str
    """API name on the gold platform."""

    arguments: list[PlannedArgument]


class Style(Record):
    """How the query is to be worded; drawn by quota, shown to the user agent."""

    tone: Literal["plain", "friendly", "chatty", "polite"] = "plain"
    length: Literal["short", "medium", "long"] = "medium"


class Slot(Record):
    """A place in the dataset that a sample is to fill: the plan, drawn before the words."""

    id: str
    """`<user>.<scenario>.<number>`."""

    user: str
    scenario: str
    context: str
    capability: str

    attempt: int = Field(ge=1)
    """1 for the first draw; a rejected slot is drawn again."""

    kinds: list[SampleKind]
    """Empty for the controls `profile_irrelevant`, `no_tool` and `ask`."""

    platform: str
    """Gold platform id: the argmax of the user's utility in this context; the platform that the query names for the
    control `profile_irrelevant`; empty when nothing is to be called."""

    api: str
    """Gold API name of the first call; empty for the control `no_tool`."""

    arguments: list[PlannedArgument]
    """Of the first call."""

    time: str
    """When the user asks, ISO 8601 with offset; relative dates count from here."""

    control: Control | None = None
    """A control instead of, or besides (`override`), the two kinds."""

    then: list[PlannedCall] = []
    """The calls after the first, at most three."""

    missing: list[str] = []
    """Control `ask`: required arguments of the first call that neither query, profile nor history gives."""

    wants: str = ""
    """Control `no_tool`: what is asked for, in words; no platform has a capability for it."""

    style: Style = Style()

    @property
    def act(self) -> Act:
        """What the right answer does."""
        return {"ask": "ask", "no_tool": "none"}.get(self.control or "", "call")  # type: ignore[return-value]

    @property
    def planned(self) -> list[PlannedCall]:
        """All calls of the right answer, in order; empty when nothing is to be called."""
        if self.act != "call":
            return []
        return [PlannedCall(capability=self.capability, api=self.api, arguments=self.arguments), *self.then]


class Query(Record):
    """What the user says. Source: `queries.write`, the user agent."""

    id: str
    """The slot's id and attempt, `u0007.shopping.012-1`."""

    slot: Slot
    text: str
    prompt: str
    """Reference of the prompt that asked for it: name, version, digest."""


class Source(Record):
    """Where the value of one argument was found."""

    kind: SourceKind

    at: str = ""
    """query: the words of the query, verbatim; profile: feature id; history: event id; default: empty;
    call: index of the earlier call; derived: name of the rule."""


class ToolCall(Record):
    """One call of a solution."""

    api: str
    """API name on the solution's platform."""

    arguments: dict[str, JsonValue]

    sources: dict[str, Source]
    """Dotted path of every scalar or list argument -> where it comes from."""


class Solution(Record):
    """The assistant agent's answer to one query. Source: `solutions.solve`."""

    id: str
    """The query's id."""

    platform: str
    """Platform id, chosen by the model from the preferences in words; empty when it calls nothing."""

    calls: list[ToolCall]
    prompt: str

    act: Act = "call"
    """`ask`: it asks the user first; `none`: no tool fits."""

    missing: list[str] = []
    """Act `ask`: what it asks for: `platform`, or names of parameters."""

    question: str = ""
    """Act `ask`: its question in words."""


class Utility(Record):
    """How much one platform is worth to this user in this context."""

    platform: str
    utility: float


class Evidence(Record):
    """Why the label is what it is; everything here can be recomputed from the other files."""

    utilities: list[Utility]
    """All platforms that can serve the capability, best first."""

    margin: float
    """Utility of the best minus utility of the second best."""

    events: list[str]
    """Ids of the events of the same context on the gold platform."""

    posterior: dict[str, float]
    """Platform id -> probability of being preferred in this context, from the visible history."""

    flips_with: list[str]
    """Contexts in which the same user's gold platform for this capability is another one."""


class Vote(Record):
    """One verdict of one judge."""

    model: str
    verdict: Literal["pass", "fail", "unparsed"]
    reason: str


class Verification(Record):
    """What checked the sample."""

    rules: list[str]
    """Names of the rules that passed; a sample that fails one is a rejection, not a sample."""

    judge: Literal["pass", "fail", "unparsed", "none"]
    """The verdict of the majority."""

    judge_reason: str
    """The reason of the first vote with that verdict."""

    votes: list[Vote] = []
    """All votes, disagreement included; empty without a judge."""

    needed: dict[str, Literal["fails", "passes"]] = {}
    """The `needed` gate where it ran: what a solver did `without_profile`, with a `shuffled_profile`, with `everything`."""


class Sample(Record):
    """One verified item of the dataset. Source: `verify`, `splits.assign`."""

    id: str
    user: str
    scenario: str
    context: str
    """Hidden from the solver."""

    capability: str
    kinds: list[SampleKind]
    time: str
    query: str
    platform: str
    """Gold platform id."""

    calls: list[ToolCall]

    accepted: list[dict[str, list[JsonValue]]]
    """Per call: dotted path -> values that count as right; the gold value is the first."""

    why: list[dict[str, list[str]]] = []
    """Per call: dotted path -> for each accepted value the rule that accepts it (`gold`, `whole_number`, `letter_case`, ...)."""

    optional: list[dict[str, JsonValue]] = []
    """Per call: dotted path -> the schema's default: the argument may be left out, or given with exactly this value."""

    act: Act = "call"
    """What is right: `call` the calls; `ask` the user first (`calls` is empty, `missing` says for what); `none`: no tool
    fits (`calls` is empty)."""

    control: Control | None = None
    """`profile_irrelevant`: the query names the platform and states every argument, whoever asks; `override`: the query states
    a value that differs from the profile's; `no_tool`; `ask`. Null for the two kinds alone."""

    missing: list[str] = []
    """Act `ask`: the required parameters (of the sibling APIs, `<API id>#<path>`) to ask for, or `platform`."""

    overrides: dict[str, str] = {}
    """Control `override`: `<call index>.<dotted path>` -> the basic feature whose value must not be used."""

    style: Style = Style()
    """How the query was to be worded."""

    evidence: Evidence
    verification: Verification
    split: SplitName | None = None
    canary: str = ""
    """In test splits: a string that training data must not hold."""

    prompts: list[str]
    """Prompt references of the query and of the solution."""


class Rejection(Record):
    """Something that was made and dropped."""

    stage: str
    subject: str
    reason: str
    """snake_case name of the rule or judge."""

    detail: str
    """What was found, where."""

    round: int = 0
    """Round of the loop in which it happened; 0 outside the loop."""

    record: dict[str, Any] | None = None
    """What was dropped, as far as it got."""
