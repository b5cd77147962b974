"""What to ask, drawn before any word is written: the slots of stage 6.

A slot fixes who asks, in which context, for which capabilities, how many calls that takes, where every argument
comes from, and whether it is a control. Structure alone decides; the models that word and solve it never see the gold.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import JsonValue

from pipelines.histories.plan import at_hour, local_now
from pipelines.llm.schemas import first_error
from pipelines.queries import Cell, Choice, choice, slot_is_fair
from pipelines.records import API, Control, Event, PlannedArgument, PlannedCall, Rejection, SampleKind, Slot, Style
from pipelines.stage import Context
from pipelines.verify.settled import flat_choice, held_by, nothing_settles
from pipelines.world import Leaf, statable

OPTIONAL_SHARE = 0.35
"""So often an optional argument is stated."""
RARE = 0.05
"""So often one that not every rival could take."""
MOST_ARGUMENTS = 5
"""A first call gets no optional argument beyond this many."""
USUAL: dict[str, float] = {
    "override": 0.08, "profile_irrelevant": 0.05, "no_tool": 0.04, "ask": 0.05, "history": 0.06,
    "two_calls": 0.1, "three_calls": 0.04, "four_calls": 0.02,
}  # fmt: skip
"""Shares of `config.shares` that were left out."""
CALLS = {"two_calls": 2, "three_calls": 3, "four_calls": 4}
TONES: tuple[Any, ...] = ("plain", "plain", "friendly", "chatty", "polite")
LENGTHS: tuple[Any, ...] = ("medium", "short", "medium", "long")
OUTSIDE: tuple[tuple[str, str], ...] = (
    ("carry_furniture_upstairs", "Carry a wardrobe up to the third floor by hand."),
    ("water_plants_in_person", "Walk over and water the tomato plants on the balcony."),
    ("sharpen_kitchen_knives", "Sharpen a set of kitchen knives on a whetstone."),
    ("settle_family_quarrel", "Talk two cousins out of a quarrel over an inheritance."),
    ("predict_lottery_numbers", "Foretell the winning lottery numbers of this weekend."),
    ("walk_the_neighbours_dog", "Take a neighbour's dog for a walk around the pond."),
    ("tune_the_piano", "Tune an upright piano that has drifted flat."),
    ("sweep_the_chimney", "Sweep the chimney before the first frost."),
    ("whittle_a_wooden_spoon", "Whittle a spoon out of a branch of cherry wood."),
    ("unjam_the_garage_door", "Unjam a garage door that is stuck halfway."),
)
_OUTSIDE_ZH = {
    "carry_furniture_upstairs": "徒手把衣柜抬上三楼。",
    "water_plants_in_person": "亲自过去给阳台上的番茄浇水。",
    "sharpen_kitchen_knives": "用磨刀石把一套菜刀磨快。",
    "settle_family_quarrel": "劝两个堂兄弟别再为遗产吵架。",
    "predict_lottery_numbers": "预言这个周末的彩票号码。",
    "walk_the_neighbours_dog": "牵着邻居的狗绕池塘走一圈。",
    "tune_the_piano": "给一架走音的立式钢琴调音。",
    "sweep_the_chimney": "赶在头场霜之前扫烟囱。",
    "whittle_a_wooden_spoon": "用樱桃木枝削一把勺子。",
    "unjam_the_garage_door": "把卡在半截的车库门弄活。",
}
"""Wishes that no tool of any scenario serves: the control `no_tool` when the run has no other scenario to borrow from."""


@dataclass(frozen=True)
class Target:
    """What a slot is to become, by quota; `special` is a key of `USUAL` or nothing."""

    special: str
    number: int
    style: Style
    context: str = ""
    """Where the draw begins; empty: anywhere."""
    group: str = ""
    """The hold-out split that it is for; empty for the others."""

    @property
    def control(self) -> Control | None:
        """The control that it is drawn as."""
        return self.special if self.special in ("override", "profile_irrelevant", "no_tool", "ask") else None  # type: ignore[return-value]

    @property
    def calls(self) -> int:
        """How many calls it takes."""
        return CALLS.get(self.special, 1)


def targets(
    shares: Mapping[str, float | None], rng: random.Random, quota: int, contexts: Mapping[str, float] | None = None
) -> list[Target]:
    """The quota of one cell as targets, in a shuffled order.

    Systematic sampling: cumulative shares and one random offset, so that over many cells the totals are the shares.

    Args:
        shares: `config.shares`; the usual share where one is None.
        contexts: Share of each context; they need not sum to 1.
    """
    specials = _systematic({n: u if shares.get(n) is None else shares[n] or 0.0 for n, u in USUAL.items()}, 1.0, rng, quota)
    places = _systematic(contexts or {}, sum((contexts or {}).values()) or 1.0, rng, quota)
    start = rng.randrange(len(TONES) * len(LENGTHS))
    return [
        Target(special, number, Style(tone=TONES[(start + number) % len(TONES)], length=LENGTHS[(start + number) % len(LENGTHS)]), place)
        for number, (special, place) in enumerate(zip(specials, places, strict=True), start=1)
    ]


def _systematic(shares: Mapping[str, float], total: float, rng: random.Random, count: int) -> list[str]:
    """`count` draws by share of `total`, in a shuffled order; what the shares leave over is an empty name."""
    ends: list[tuple[float, str]] = []
    reached = 0.0
    for name, part in shares.items():
        reached += part / total
        ends.append((reached, name))
    offset = rng.random()
    drawn = [next((name for end, name in ends if (place + offset) / count < end), "") for place in range(count)]
    rng.shuffle(drawn)
    return drawn


@dataclass(frozen=True)
class Allowed:
    """Which gold a slot may have, so that hold-outs stay out of training."""

    platforms: frozenset[str] = frozenset()
    """Held-out platforms."""
    apis: frozenset[str] = frozenset()
    """Held-out API ids."""

    def fits(self, group: str, platform: str, apis: list[str]) -> bool:
        """Does this gold belong to the group?"""
        new_platform, new_api = platform in self.platforms, any(api in self.apis for api in apis)
        if group == "test_new_scenarios":
            return True
        if group == "test_new_platforms":
            return new_platform and not new_api
        if group == "test_new_apis":
            return new_api and not new_platform
        return not new_platform and not new_api


def draw_slot(
    ctx: Context, cell: Cell, target: Target, attempt: int, allowed: Allowed | None = None
) -> tuple[Slot | None, list[Rejection]]:
    """Draw one slot for a target.

    Capabilities and contexts rotate so that two slots in a row want the same capability in different contexts: their gold
    platforms often differ (Def. 3.1). A draw that the structure does not support is a rejection and costs no model call.
    """
    slot_id = f"{cell.key}.{target.number:03d}"
    rng = ctx.config.rng("slot", slot_id, attempt)
    rejected: list[Rejection] = []
    unfit: Rejection | None = None
    for context, capability in _rotation(ctx, cell, target, attempt):
        found = choice(cell, context, capability, ctx.config.min_margin)
        made = _Draw(ctx, cell, target, rng, context, capability, found, allowed or Allowed()).slot(slot_id, attempt)
        if isinstance(made, Slot):
            return made, rejected
        problem = Rejection(stage="queries", subject=f"{slot_id}-{attempt}", reason=made[0], detail=made[1], round=0)
        if made[0] in UNFIT:
            unfit = problem
        else:
            rejected.append(problem)
    return None, [*rejected, unfit] if unfit is not None else rejected


UNFIT = frozenset(
    {"needs_profile", "nothing_to_override", "no_last_time", "no_second_capability", "all_settled", "held_out"}
)  # fmt: skip
"""Such a draw supports a label, but not what the slot is to become: nothing is lost, so only a slot that finds nothing else tells it."""
FAITHFUL = 12
"""So many capabilities are tried in the context that the slot was to have."""
DRAWS = 36
"""So many draws find a slot that the structure allows, or the round goes without it."""


def _rotation(ctx: Context, cell: Cell, target: Target, attempt: int) -> Iterator[tuple[str, str]]:
    """The target's context with several capabilities first, then other contexts; two slots in a row begin with one capability."""
    contexts = [c.name for c in cell.scenario.contexts]
    capabilities = [c.name for c in cell.scenario.capabilities if c.open] or [c.name for c in cell.scenario.capabilities]
    order = ctx.config.rng("capability", cell.key, (target.number + 1) // 2).sample(capabilities, len(capabilities))
    order = order[(attempt - 1) % len(order) :] + order[: (attempt - 1) % len(order)]
    first = [target.context] * min(FAITHFUL, len(order)) if target.context else []
    others = [contexts[(target.number + attempt + draw) % len(contexts)] for draw in range(DRAWS - len(first))]
    for draw, context in enumerate(first):
        yield context, order[draw]
    for draw, context in enumerate(others):
        yield context, order[(draw // len(contexts)) % len(order)]


Problem = tuple[str, str]


@dataclass(frozen=True)
class _Draw:
    """One try at a slot: a context and a capability are given, the rest is drawn."""

    ctx: Context
    cell: Cell
    target: Target
    rng: random.Random
    context: str
    capability: str
    found: Choice | None
    allowed: Allowed

    def slot(self, slot_id: str, attempt: int) -> Slot | Problem:
        """A slot, or why there is none."""
        special = self.target.special
        if special == "no_tool":
            made = self._no_tool()
        elif self.found is None:
            return "no_preference", self.context
        elif special == "ask":
            made = self._ask(self.found)
        elif special == "profile_irrelevant":
            made = self._named(self.found)
        else:
            made = self._kinds(self.found)
        if not isinstance(made, dict):
            return made
        now = local_now(self.ctx.config.now, self.cell.profile.timezone)
        situation = next(c for c in self.cell.scenario.contexts if c.name == self.context)
        asked = at_hour(self.rng, now + timedelta(days=self.rng.randint(0, 6)), situation)
        fields: dict[str, Any] = {
            "id": slot_id, "user": self.cell.profile.id, "scenario": self.cell.scenario.id, "context": self.context,
            "capability": self.capability, "attempt": attempt, "kinds": [], "platform": "", "api": "", "arguments": [],
            "time": asked.isoformat(), "control": self.target.control, "style": self.target.style,
        }  # fmt: skip
        return Slot.model_validate({**fields, **made})

    def _api(self, platform: str, capability: str) -> API:
        return next(a for a in self.cell.world.serving[self.cell.scenario.id, capability] if a.platform == platform)

    def _kinds(self, found: Choice) -> dict[str, Any] | Problem:
        """The two kinds of the paper, with what the target adds: an override, more calls, a value of last time."""
        config, target = self.ctx.config, self.target
        unfair = slot_is_fair(found, config.min_margin, config.min_posterior)
        if unfair is not None:
            return unfair
        api = self._api(found.gold, self.capability)
        want_profile = self.rng.random() < config.profile_share and target.special != "override"
        planned = plan_arguments(self.rng, self.cell, api, want_profile)
        if planned is None:
            return "not_statable", f"{api.name} requires an argument that no sentence can state"
        if target.special == "override" and not any(a.feature for a in planned):
            return "nothing_to_override", f"{api.name} requires nothing that the profile holds"
        if target.special != "override" and any(a.source == "query" and a.feature for a in planned):
            return "needs_profile", f"{api.name} requires what the profile holds"
        if target.special == "history":
            again = self._as_last_time(api, planned)
            if again is None:
                return "no_last_time", f"no event holds what {api.name} requires"
            planned = again
        then = self._then(found, api) if target.calls > 1 else []
        if then is None:
            return "no_second_capability", f"{found.gold} is not best at {target.calls} capabilities in {self.context}"
        calls = [api.id, *(self._api(found.gold, call.capability).id for call in then)]
        if not self.allowed.fits(target.group, found.gold, calls):
            return "held_out", f"{found.gold} and its APIs do not belong to {target.group or 'training'}"
        kinds: list[SampleKind] = []
        if found.flips_with:
            kinds.append("tool_preference")
        if any(a.source == "profile" for a in [*planned, *(a for call in then for a in call.arguments)]):
            kinds.append("profile_dependent")
        if not kinds:
            return "no_kind", f"{self.capability} in {self.context} neither flips the platform nor needs the profile"
        return {"kinds": kinds, "platform": found.gold, "api": api.name, "arguments": planned, "then": then}

    def _then(self, found: Choice, first: API) -> list[PlannedCall] | None:
        """More calls on the same platform, each of a capability in which it is gold as well."""
        config, world = self.ctx.config, self.cell.world
        others = [c.name for c in self.cell.scenario.capabilities if c.open and c.name != first.capability]
        made: list[PlannedCall] = []
        for capability in self.rng.sample(others, len(others)):
            if len(made) == self.target.calls - 1:
                break
            theirs = choice(self.cell, self.context, capability, config.min_margin)
            if theirs is None or theirs.gold != found.gold or slot_is_fair(theirs, config.min_margin, config.min_posterior):
                continue
            api = next(a for a in world.serving[self.cell.scenario.id, capability] if a.platform == found.gold)
            planned = plan_arguments(self.rng, self.cell, api, True, optional_share=0)
            if planned is None or any(a.source == "query" and a.feature for a in planned):
                continue
            made.append(PlannedCall(capability=capability, api=api.name, arguments=planned))
        return made if len(made) == self.target.calls - 1 else None

    def _as_last_time(self, api: API, planned: list[PlannedArgument]) -> list[PlannedArgument] | None:
        """One required argument from the most recent event that did the same."""
        event = last_event(self.cell, api.capability)
        if event is None:
            return None
        schemas = {leaf.path: leaf for leaf in self.cell.world.leaves_of[api.id]}
        for place, argument in enumerate(planned):
            leaf = schemas[argument.path]
            if argument.source != "query" or argument.feature or not leaf.required:
                continue
            value = held_by(self.cell.world, event, api, argument.path)
            if value is not None and isinstance(value, str) and _fits(leaf, value):
                changed = PlannedArgument(path=argument.path, source="history", event=event.id)
                return [*planned[:place], changed, *planned[place + 1 :]]
        return None

    def _named(self, found: Choice) -> dict[str, Any] | Problem:
        """The query names a platform, by choice not the user's, and states every argument: nobody's profile matters."""
        others = [u.platform for u in found.ranked[1:]] or [found.gold]
        platform = self.rng.choice(others)
        api = self._api(platform, self.capability)
        planned = plan_arguments(self.rng, self.cell, api, False)
        if planned is None:
            return "not_statable", f"{api.name} requires an argument that no sentence can state"
        if any(a.feature for a in planned):
            return "needs_profile", f"{api.name} requires what the profile holds"
        if not self.allowed.fits(self.target.group, platform, [api.id]):
            return "held_out", f"{platform} does not belong to {self.target.group or 'training'}"
        return {"platform": platform, "api": api.name, "arguments": planned}

    def _ask(self, found: Choice) -> dict[str, Any] | Problem:
        """A required argument, or the platform, that nothing settles."""
        config = self.ctx.config
        api = self._api(found.gold, self.capability)
        planned = plan_arguments(self.rng, self.cell, api, True, optional_share=0)
        if planned is None:
            return "not_statable", f"{api.name} requires an argument that no sentence can state"
        if flat_choice(found, config.min_margin, config.min_posterior):
            return {"api": api.name, "arguments": planned, "missing": ["platform"]}
        unfair = slot_is_fair(found, config.min_margin, config.min_posterior)
        if unfair is not None:
            return unfair
        open_paths = [a.path for a in planned if a.source == "query" and nothing_settles(self.cell, api, a.path) is None]
        if not open_paths:
            return "all_settled", f"{api.name} requires nothing that only the query could give"
        path = open_paths[0]
        return {"api": api.name, "arguments": [a for a in planned if a.path != path], "missing": [path]}

    def _no_tool(self) -> dict[str, Any] | Problem:
        """A wish of another scenario, or one that no scenario serves."""
        mine = {c.name for c in self.cell.scenario.capabilities}
        borrowed = [
            (f"{scenario.id}__{c.name}", c.description)
            for scenario in self.cell.world.scenarios
            if scenario.id != self.cell.scenario.id
            for c in scenario.capabilities
            if c.open and c.name not in mine
        ]
        outside = [(name, _OUTSIDE_ZH[name]) for name, _ in OUTSIDE] if self.cell.profile.language == "zh" else list(OUTSIDE)
        wishes = outside if not borrowed or self.rng.random() < 0.5 else borrowed
        name, wants = self.rng.choice(wishes)
        return {"capability": name, "wants": wants}


def last_event(cell: Cell, capability: str) -> Event | None:
    """The most recent event that used a capability, on whatever platform."""
    for event in reversed(cell.history.events):
        api = cell.world.api.get((event.platform, event.api))
        if api is not None and api.capability == capability:
            return event
    return None


def plan_arguments(
    rng: random.Random, cell: Cell, api: API, want_profile: bool, optional_share: float = OPTIONAL_SHARE
) -> list[PlannedArgument] | None:
    """Fix the source of every argument: the profile fills required ones only, the query the rest.

    An optional argument that the query does not state is left out; so a solver need not guess whether a fact of the profile
    was meant. A required one that the query states although the profile holds it names the feature that it overrides.
    """
    planned: list[PlannedArgument] = []
    optional: list[Leaf] = []
    for leaf in cell.world.leaves_of[api.id]:
        feature = cell.world.profile_feature(api, leaf.path)
        held = feature if feature in cell.profile.basic else None
        if not leaf.required:
            if statable(leaf.schema) and held is None:
                optional.append(leaf)
            continue
        if want_profile and held is not None and _fits(leaf, cell.profile.basic[held]):
            planned.append(PlannedArgument(path=leaf.path, source="profile", feature=held))
        elif statable(leaf.schema):
            planned.append(PlannedArgument(path=leaf.path, source="query", feature=held))
        elif "default" in leaf.schema:
            planned.append(PlannedArgument(path=leaf.path, source="default"))
        else:
            return None
    for leaf in optional:
        if rng.random() < _stated_share(cell, api, leaf, optional_share) and len(planned) < MOST_ARGUMENTS:
            planned.append(PlannedArgument(path=leaf.path, source="query"))
    return planned


def _stated_share(cell: Cell, api: API, leaf: Leaf, usual: float) -> float:
    """How often an optional argument is stated, so that what is said does not give the platform away.

    What some rival requires is always said, what only some platforms can take hardly ever.
    """
    if not usual:
        return 0.0
    world = cell.world
    feature = world.feature_of.get(f"{api.id}#{leaf.path}")
    rivals = [other for other in world.serving[cell.scenario.id, api.capability] if other.id != api.id]
    taken = [
        [
            theirs
            for theirs in world.leaves_of[other.id]
            if feature is not None and world.feature_of.get(f"{other.id}#{theirs.path}") is feature
        ]
        for other in rivals
    ]
    if any(theirs.required for leaves in taken for theirs in leaves):
        return 1.0
    return usual if all(taken) else RARE


def _fits(leaf: Leaf, value: JsonValue) -> bool:
    return first_error(leaf.schema, value) is None
