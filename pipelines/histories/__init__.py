"""Stage 5: behaviour histories that show preferences and never state them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pipelines.errors import ReplyError
from pipelines.histories.plan import PlannedEvent, draw_drift, plan_events
from pipelines.histories.proof import Proof
from pipelines.histories.telling import events_that_tell, preference_not_explained
from pipelines.identify import TEACHERS, Ear, beliefs, settled
from pipelines.llm.prompts import Block, block
from pipelines.llm.schemas import first_error
from pipelines.records import API, Event, History, Profile, Rejection, Scenario
from pipelines.replies import EventReply, HistoryReply
from pipelines.stage import Context, StageResult, check_yield, gather
from pipelines.verify.leaks import preference_not_stated
from pipelines.views import market_view, tools_block, writer_view
from pipelines.world import World, margin, preference_of, ranking

ATTEMPTS = 3
SPARE = 3
"""Events planned beyond the drawn number, so that a dropped one does not make the history too short."""
EXTENSIONS = 5
"""So often a history gets more events before its user is given up."""
EVENTS_MORE = 3
"""Further events per context that is not settled."""
RECENT_DAYS = 75.0
"""Further events are of the present: after any change of mind."""
LEAST_SETTLED = 2
"""A preference that flips (Def. 3.1) needs two settled contexts."""


@dataclass
class Draft:
    """One user's history in one scenario while it is made."""

    profile: Profile
    scenario: Scenario
    history: History | None = None
    rejected: list[Rejection] = field(default_factory=list)
    tried: int = 0
    """Events asked for."""
    extended: int = 0
    """Events that came in extensions."""

    @property
    def key(self) -> str:
        """`<user>.<scenario>`."""
        return f"{self.profile.id}.{self.scenario.id}"

    def clear(self, min_margin: float) -> dict[str, str]:
        """Context -> gold platform, where the utilities have a clear favourite."""
        found = {}
        for context in self.scenario.contexts:
            wish = preference_of(self.profile, self.scenario.id, context.name)
            ranked = ranking(wish.weights, self.scenario.platforms) if wish is not None else []
            if margin(ranked) >= min_margin:
                found[context.name] = ranked[0].platform
        return found


class Writer:
    """Asks the model for events and keeps what is sound."""

    def __init__(self, ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API]) -> None:
        self.ctx = ctx
        self.world = World(scenarios, apis)
        self.tools: dict[str, Block] = {s.id: tools_block(s.platforms, self.world.apis_of, levels=False) for s in scenarios}
        self.markets: dict[str, Block] = {s.id: block(market_view(s)) for s in scenarios}
        self.ears = {s.id: Ear(s) for s in scenarios}

    async def begin(self, draft: Draft) -> Draft:
        """The first months; a draft whose history stays too short keeps none."""
        config, scenario = self.ctx.config, draft.scenario
        low, high = config.events
        names = [c.name for c in scenario.contexts]
        for attempt in range(ATTEMPTS):
            rng = config.rng("histories", draft.key, attempt)
            count = rng.randint(low, low + (high - low) // 2) + SPARE
            drift = draw_drift(rng, config, self.world, draft.profile, scenario)
            wanted = [names[i % len(names)] for i in range(count)]
            plan = plan_events(rng, config, self.world, draft.profile, scenario, wanted, drift)
            events = (await self._told(draft, plan, attempt))[: count - SPARE]
            if len(events) >= low:
                history = History(id=draft.key, user=draft.profile.id, scenario=scenario.id, events=[], drift=drift)
                draft.history = history.model_copy(update={"events": numbered(events)})
                return draft
            draft.rejected.append(_rejected(draft.key, "history_too_short", f"{len(events)} valid events, {low} wanted"))
        return draft

    async def settle(self, draft: Draft) -> Draft:
        """More events until every context with a clear favourite is settled, or the room is used up."""
        config = self.ctx.config
        for round_number in range(EXTENSIONS + 1):
            if draft.history is None:
                return draft
            self.judge(draft)
            open_contexts = [c for c in draft.clear(config.min_margin) if settled(draft.history.belief[c], config.min_posterior) is None]
            room = config.events[1] - len(draft.history.events)
            if not open_contexts or room < 1 or round_number == EXTENSIONS:
                break
            rng = config.rng("histories", draft.key, "more", round_number)
            wanted = (open_contexts * EVENTS_MORE)[:room]
            plan = plan_events(rng, config, self.world, draft.profile, draft.scenario, wanted, draft.history.drift, RECENT_DAYS)
            more = await self._told(draft, plan, ATTEMPTS + round_number)
            draft.extended += len(more)
            draft.history = draft.history.model_copy(update={"events": numbered([*draft.history.events, *more])})
        return draft

    def judge(self, draft: Draft) -> None:
        """Say what a solver can know from the history."""
        assert draft.history is not None
        seen = self.ears[draft.scenario.id].contexts(draft.history.events, draft.profile.id)
        found = beliefs(self.ctx.config, self.world, draft.scenario, draft.history.events, seen)
        draft.history = draft.history.model_copy(update={"belief": found})

    async def _told(self, draft: Draft, plan: Sequence[PlannedEvent], attempt: int) -> list[Event]:
        """The planned events in the model's words; one that is not valid, or states a preference, is dropped."""
        values = {
            "tools": self.tools[draft.scenario.id],
            "scenario": self.markets[draft.scenario.id],
            "person": writer_view(draft.profile, draft.scenario.id).model_dump(),
            "events": [
                {"number": i, "time": e.time.isoformat(), "platform": self.world.platform[e.platform].name, "api": e.api,
                 "context": e.context, "for_somebody_else": e.occasion == "one_off", "undone": e.returned}
                for i, e in enumerate(plan, start=1)
            ],
        }  # fmt: skip
        draft.tried += len(plan)
        try:
            reply, _ = await self.ctx.llm.ask(
                self.ctx.prompt("histories.simulate"), values, HistoryReply, stage="histories", subject=draft.key, repeat=attempt
            )
        except ReplyError as error:
            draft.rejected.append(_rejected(draft.key, error.reason, error.detail))
            return []
        told = {event.number: event for event in reply.events}
        events = []
        for number, planned in enumerate(plan, start=1):
            problem = event_is_valid(told.get(number), planned, self.world, draft.profile, draft.scenario)
            if problem is not None:
                draft.rejected.append(_rejected(f"{draft.key}.{number}", *problem))
                continue
            answer = told[number]
            events.append(
                Event(
                    id="e00", time=planned.time.isoformat(), platform=planned.platform, api=planned.api, arguments=answer.arguments,
                    summary=answer.summary, context=planned.context, rating=planned.rating, returned=planned.returned,
                    occasion=planned.occasion,
                )
            )  # fmt: skip
        if not events or not self.ctx.config.judge:
            return events
        told_by_judge = await events_that_tell(self.ctx, draft.key, events, attempt)
        for place, reason in told_by_judge.items():
            draft.rejected.append(_rejected(draft.key, "judge_preference_stated", f"{reason}: {events[place].summary!r}"))
        return [event for place, event in enumerate(events) if place not in told_by_judge]


async def simulate_histories(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], profiles: Sequence[Profile]
) -> StageResult[History]:
    """Let each user live for some months in each scenario, until what they prefer shows.

    One call per user and scenario, and one more for every extension. When, in which context, on which platform
    and with which API is drawn first (`plan.py`); the model fills in arguments and a line of summary. Then
    `identify.beliefs` says what a solver can know. A user whose contexts are not settled gets more events;
    with fewer than two settled contexts in the end, the history is dropped.

    Returns:
        One history per user and scenario, in that order.
    """
    result: StageResult[History] = StageResult()
    result.kept = [history async for history in stream_histories(ctx, scenarios, apis, profiles, result)]
    return result


async def stream_histories(
    ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API], profiles: Iterable[Profile], result: StageResult[History]
) -> AsyncIterator[History]:
    """The same, a window of `TEACHERS` users at a time, so that memory does not grow with the users.

    The first window's users teach what situations sound like; each user is judged without their own labels.
    Rejections, notes and counts go to `result`.
    """
    writer = Writer(ctx, scenarios, apis)
    proof = Proof(ctx.config, writer.world)
    counts: Counter[str] = Counter()
    waiting = iter(profiles)
    first = True
    while window := list(islice(waiting, TEACHERS)):
        drafts = [Draft(profile, scenario) for profile in window for scenario in scenarios]
        await gather(drafts, writer.begin)
        if first:
            for draft in drafts:
                if draft.history is not None:
                    writer.ears[draft.scenario.id].learn(draft.history)
        await gather(drafts, writer.settle)
        for draft in drafts:
            kept = _close(ctx, draft, counts)
            result.rejected.extend(draft.rejected)
            if kept is not None:
                if first:
                    proof.add(kept, draft.clear(ctx.config.min_margin))
                yield kept
        if first:
            result.notes |= proof.figures(writer.ears)
        first = False
        check_yield("histories", counts["kept"], result.rejected, ctx.config.max_rejected, unit={"not_identifiable", "no_history"})
    result.notes |= {name.replace("_", " "): count for name, count in counts.items() if name != "kept"}


def _close(ctx: Context, draft: Draft, counts: Counter[str]) -> History | None:
    """The history, or a rejection when too little of it can be known."""
    if draft.history is None:
        draft.rejected.append(_rejected(draft.key, "no_history", f"no attempt of {ATTEMPTS} gave enough valid events"))
        return None
    gold = draft.clear(ctx.config.min_margin)
    known = [c for c in gold if settled(draft.history.belief[c], ctx.config.min_posterior) is not None]
    if len(known) < LEAST_SETTLED:
        detail = f"{len(known)} of {len(gold)} contexts with a clear favourite are settled after {len(draft.history.events)} events"
        draft.rejected.append(_rejected(draft.key, "not_identifiable", detail))
        return None
    counts["kept"] += 1
    counts["contexts_settled"] += len(known)
    counts["contexts_dropped"] += len(gold) - len(known)
    counts["contexts_without_clear_favourite"] += len(draft.scenario.contexts) - len(gold)
    counts["histories_extended"] += draft.extended > 0
    counts["events_added"] += draft.extended
    counts["histories_with_drift"] += draft.history.drift is not None
    return draft.history


def numbered(events: Sequence[Event]) -> list[Event]:
    """Oldest first, `e01` the oldest."""
    ordered = sorted(events, key=lambda event: event.time)
    return [event.model_copy(update={"id": f"e{i:02d}"}) for i, event in enumerate(ordered, start=1)]


def event_is_valid(
    event: EventReply | None, planned: PlannedEvent, world: World, profile: Profile, scenario: Scenario
) -> tuple[str, str] | None:
    """Nothing, or (reason, detail)."""
    if event is None:
        return "event_missing", f"{planned.api} at {planned.time.isoformat()}"
    if event.api != planned.api:
        reason = "event_other_api" if (planned.platform, event.api) in world.api else "event_unknown_api"
        return reason, f"calls {event.api[:80]!r}, planned was {planned.api}"
    api = world.api[planned.platform, planned.api]
    problem = first_error(api.parameters, event.arguments)
    if problem:
        return "event_arguments_invalid", f"{api.name}: {problem}"
    unknown = [name for name in event.arguments if name not in (api.parameters.get("properties") or {})]  # type: ignore[operator]
    if unknown:
        return "event_arguments_invalid", f"{api.name}: no parameter {unknown[0]!r}"
    problem = preference_not_stated(event.summary, profile, scenario)
    if problem:
        return "preference_stated", problem
    problem = preference_not_explained(event.summary, scenario)
    return ("preference_explained", problem) if problem else None


def _rejected(subject: str, reason: str, detail: str) -> Rejection:
    return Rejection(stage="histories", subject=subject, reason=reason, detail=detail[:500])
