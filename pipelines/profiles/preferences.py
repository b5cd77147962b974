"""Hidden preferences: rankings of traits per context, by call and by rule, so that favourites flip and platforms share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from pipelines.errors import ReplyError
from pipelines.llm.prompts import Block, block
from pipelines.records import Preference, Rejection, Scenario
from pipelines.replies import PreferencesReply, WishReply
from pipelines.stage import Context, gather
from pipelines.views import market_view
from pipelines.world import margin, ranking, weights_of

ATTEMPTS = 10
LEFT_OUT = "no_usable_preferences"
"""Reason for which a whole user is dropped."""
SHARE = (0.15, 0.60)
"""Each platform of three is the favourite in at least and at most so many of all (user, context) pairs."""
ENOUGH_PAIRS = 40
"""Shares of fewer pairs are chance, and are reported but not steered."""
ROUNDS = 4
"""So often some users of a window are asked again for the sake of the shares."""


@dataclass(frozen=True)
class Person:
    """One user before the preferences."""

    id: str
    basic: dict[str, JsonValue]
    path: tuple[int, ...]


@dataclass
class Chooser:
    """Asks for preferences window by window, and counts whose favourite every platform is."""

    ctx: Context
    scenarios: Sequence[Scenario]
    rejected: list[Rejection]
    shares: dict[str, Counter[str]] = field(default_factory=dict)
    """Scenario id -> platform id -> (user, context) pairs in which it is the favourite."""
    redrawn: int = 0
    """Users asked again for the sake of the shares."""

    async def choose(self, people: Sequence[Person]) -> dict[str, list[Preference]]:
        """User -> preferences of all scenarios, one call per scenario and family of siblings.

        A user who gets no usable preferences somewhere in `ATTEMPTS` attempts is left out, and counted.
        """
        families: dict[tuple[int, ...], list[Person]] = {}
        for person in people:
            families.setdefault(person.path[:-1], []).append(person)
        wishes: dict[tuple[str, str], list[Preference]] = {}
        markets = {scenario.id: block(market_view(scenario)) for scenario in self.scenarios}
        jobs = [(family, scenario) for family in families.values() for scenario in self.scenarios]

        async def ask(job: tuple[list[Person], Scenario]) -> dict[str, list[Preference]]:
            return await self._prefer(job[0], job[1], markets[job[1].id], [], 0)

        for (_, scenario), found in zip(jobs, await gather(jobs, ask), strict=True):
            wishes.update({(user, scenario.id): preferences for user, preferences in found.items()})
        able = [person for person in people if all((person.id, scenario.id) in wishes for scenario in self.scenarios)]
        for scenario in self.scenarios:
            await self._balance(able, scenario, markets[scenario.id], wishes)
        self.rejected.sort(key=lambda r: r.subject)
        return {person.id: [p for scenario in self.scenarios for p in wishes[person.id, scenario.id]] for person in able}

    async def _balance(
        self, people: Sequence[Person], scenario: Scenario, market: Block, wishes: dict[tuple[str, str], list[Preference]]
    ) -> None:
        """Keep every platform's share in range: ask some users of the window again, with traits to lean on.

        Those asked are the ones with the platform that is chosen too often in the most contexts; ties by id.
        """
        before = self.shares.get(scenario.id, Counter())
        total = Counter(before)
        for person in people:
            total += favourites(wishes[person.id, scenario.id], scenario)
        for round_number in range(1, ROUNDS + 1):
            problem = out_of_range(total, scenario)
            if problem is None or total.total() < ENOUGH_PAIRS:
                break
            many, few = problem
            chosen = {p.id: favourites(wishes[p.id, scenario.id], scenario) for p in people}
            by_excess = sorted(people, key=lambda p: (-chosen[p.id][many], p.id))
            again = by_excess[: max(1, len(people) // 4)]
            lean = leading_traits(scenario, few)
            found = await self._prefer(again, scenario, market, lean, 100 * round_number, keep=True)
            self.redrawn += len(again)
            for person in [person for person in again if person.id in found]:
                total -= chosen[person.id]
                wishes[person.id, scenario.id] = found[person.id]
                total += favourites(found[person.id], scenario)
        self.shares[scenario.id] = total

    async def _prefer(
        self, family: Sequence[Person], scenario: Scenario, market: Block, lean: Sequence[str], offset: int, keep: bool = False
    ) -> dict[str, list[Preference]]:
        """One call for siblings, repeated for those whose reply cannot be used.

        Args:
            keep: They have preferences already: one who gets no others is not left out.
        """
        waiting = {person.id: person.basic for person in family}
        found: dict[str, list[Preference]] = {}
        for attempt in range(ATTEMPTS):
            values = {
                "scenario": market,
                "people": [{"user": user, "basic_features": basic} for user, basic in waiting.items()],
                "attempt": attempt + 1,
                "lean": list(lean),
            }
            subject = f"{scenario.id}.{next(iter(waiting))}"
            try:
                reply, _ = await self.ctx.llm.ask(
                    self.ctx.prompt("profiles.prefer"), values, PreferencesReply, stage="profiles", subject=subject, repeat=offset + attempt
                )
            except ReplyError as error:
                self.rejected.append(Rejection(stage="profiles", subject=subject, reason=error.reason, detail=error.detail[:500]))
                continue
            for person in reply.people:
                if person.user not in waiting:
                    continue
                preferences, problem = usable(person.contexts, scenario, self.ctx.config.min_margin)
                if problem is None:
                    found[person.user] = preferences
                    del waiting[person.user]
                else:
                    who = f"{scenario.id}.{person.user}"
                    self.rejected.append(Rejection(stage="profiles", subject=who, reason=problem[0], detail=problem[1]))
            if not waiting:
                return found
        for user in () if keep else waiting:
            detail = f"no usable preferences in {scenario.name} after {ATTEMPTS} attempts; the user is left out"
            self.rejected.append(Rejection(stage="profiles", subject=user, reason=LEFT_OUT, detail=detail))
        return found

    def figures(self) -> dict[str, float | str]:
        """Shares per scenario for the manifest."""
        told: dict[str, float | str] = {}
        for scenario in self.scenarios:
            total = self.shares.get(scenario.id, Counter())
            shares = [f"{p.name} {total[p.id] / max(total.total(), 1):.0%}" for p in scenario.platforms]
            outside = out_of_range(total, scenario) is not None and total.total() >= ENOUGH_PAIRS
            told[f"favourites in {scenario.name}"] = ", ".join(shares) + (" (OUT OF RANGE)" if outside else "")
        if self.redrawn:
            told["users asked again for the shares"] = self.redrawn
        return told


def usable(answers: Sequence[WishReply], scenario: Scenario, min_margin: float) -> tuple[list[Preference], tuple[str, str] | None]:
    """The preferences of one user in one scenario, or what is wrong: at least two platforms must be clear favourites (Def. 3.1)."""
    traits = [trait.name for trait in scenario.traits]
    by_context = {answer.context: answer for answer in answers}
    preferences = []
    for context in scenario.contexts:
        answer = by_context.get(context.name)
        if answer is None:
            return [], ("context_missing", context.name)
        unknown = [t for t in answer.priorities if t not in traits]
        if unknown or len(set(answer.priorities)) != len(answer.priorities):
            return [], ("priorities_invalid", f"{context.name}: {', '.join(answer.priorities)}")
        preferences.append(
            Preference(
                scenario=scenario.id, context=context.name, words=answer.words,
                priorities=answer.priorities, weights=weights_of(answer.priorities, traits),
            )
        )  # fmt: skip
    rankings = [ranking(p.weights, scenario.platforms) for p in preferences]
    clear = {ranked[0].platform for ranked in rankings if margin(ranked) >= min_margin}
    if len(clear) < min(2, len(scenario.platforms)):
        return [], ("choice_never_varies", f"clear favourites: {', '.join(sorted(clear)) or 'none'}")
    return preferences, None


def favourites(preferences: Collection[Preference], scenario: Scenario) -> Counter[str]:
    """Platform id -> contexts of one user in which it is the favourite."""
    return Counter(ranking(p.weights, scenario.platforms)[0].platform for p in preferences)


def share_range(platforms: int) -> tuple[float, float]:
    """Least and greatest share of a platform: `SHARE` for three; with another number the same distance from equal shares."""
    return SHARE[0] * 3 / platforms, min(0.9, SHARE[1] * 3 / platforms)


def out_of_range(total: Mapping[str, int], scenario: Scenario) -> tuple[str, str] | None:
    """(platform chosen too often, platform chosen too seldom), or None when all shares are in range."""
    pairs = sum(total.values())
    shares = {p.id: total.get(p.id, 0) / max(pairs, 1) for p in scenario.platforms}
    least, most = share_range(len(shares))
    many, few = max(shares, key=lambda p: (shares[p], p)), min(shares, key=lambda p: (shares[p], p))
    return (many, few) if shares[many] > most or shares[few] < least else None


def leading_traits(scenario: Scenario, platform: str, count: int = 3) -> list[str]:
    """The traits on which a platform leads the others most."""
    mine = next(p for p in scenario.platforms if p.id == platform)
    others = [p for p in scenario.platforms if p.id != platform]
    lead = {t.name: mine.traits[t.name].level - max(p.traits[t.name].level for p in others) for t in scenario.traits}
    return sorted(lead, key=lambda t: (-lead[t], t))[:count]
