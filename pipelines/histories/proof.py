"""Does the identification work? Agreement with gold on kept contexts, and the same with shuffled histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pipelines.config import RunConfig
from pipelines.identify import Ear, beliefs, settled
from pipelines.records import Event, History
from pipelines.world import World


class Proof:
    """Collects kept histories with their gold; says at the end how often the likeliest platform is gold."""

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config, self.world = config, world
        self.histories: list[History] = []
        self.gold: dict[tuple[str, str], str] = {}
        """(history, context) -> gold platform, kept contexts only."""

    def add(self, history: History, gold: Mapping[str, str]) -> None:
        """One kept history; a context is kept when it has a clear favourite and is settled, rightly or wrongly."""
        self.histories.append(history)
        for context, platform in gold.items():
            if settled(history.belief[context], self.config.min_posterior) is not None:
                self.gold[history.id, context] = platform

    def figures(self, ears: Mapping[str, Ear]) -> dict[str, float | str]:
        """Agreement on kept contexts: as simulated, with choices shuffled, and what chance would give."""
        if not self.gold:
            return {}
        real, _ = self._agreement({h.id: h.belief for h in self.histories})
        shuffled, chance = self._agreement(self._shuffled(ears))
        others, _ = self._agreement(self._of_others())
        return {
            "contexts proved": len(self.gold),
            "posterior agrees with gold": round(real, 4),
            "with shuffled histories": round(shuffled, 4),
            "by chance": round(chance, 4),
            "with another user's history": round(others, 4),
            "events heard in their context": round(self._heard(ears), 4),
        }

    def _agreement(self, found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> tuple[float, float]:
        """Share of kept contexts whose likeliest platform is gold, and what it would be if the two were independent."""
        hits = 0
        golds: dict[str, Counter[str]] = {}
        picks: dict[str, Counter[str]] = {}
        for (history, context), gold in self.gold.items():
            belief = found[history][context]
            pick = max(belief, key=lambda p: (belief[p], p))
            hits += pick == gold
            scenario = history.partition(".")[2]
            golds.setdefault(scenario, Counter())[gold] += 1
            picks.setdefault(scenario, Counter())[pick] += 1
        total = len(self.gold)
        chance = sum(sum(golds[s][p] * picks[s][p] for p in golds[s]) / picks[s].total() for s in golds) / total
        return hits / total, chance

    def _of_others(self) -> dict[str, dict[str, dict[str, float]]]:
        """Everybody gets the next user's belief: what is right then is common taste, not this user's."""
        by_scenario: dict[str, list[History]] = {}
        for history in self.histories:
            by_scenario.setdefault(history.scenario, []).append(history)
        return {h.id: group[i - 1].belief for group in by_scenario.values() for i, h in enumerate(group)}

    def _heard(self, ears: Mapping[str, Ear]) -> float:
        """Share of events of the user's own that sound most like the context they were planned in."""
        hits = total = 0
        for history in self.histories:
            ear = ears[history.scenario]
            for event, shares in zip(history.events, ear.contexts(history.events, history.user), strict=True):
                if event.occasion != "one_off":
                    total += 1
                    hits += ear.classes[int(shares.argmax())] == event.context
        return hits / max(total, 1)

    def _shuffled(self, ears: Mapping[str, Ear]) -> dict[str, dict[str, dict[str, float]]]:
        """Beliefs when every event keeps its words and time, but its choice (platform, stars) is dealt anew.

        Dealt among all events of the same scenario and capability, so that shares of platforms stay as they are.
        """
        found = {}
        decks: dict[tuple[str, str], list[Event]] = {}
        for history in self.histories:
            for event in history.events:
                decks.setdefault(self._deck(history, event), []).append(event)
        for key, deck in decks.items():
            self.config.rng("shuffle", *key).shuffle(deck)
        for history in self.histories:
            dealt = [self._swap(event, decks[self._deck(history, event)].pop()) for event in history.events]
            found[history.id] = self._beliefs(history, dealt, ears)
        return found

    def _deck(self, history: History, event: Event) -> tuple[str, str]:
        return history.scenario, self.world.api[event.platform, event.api].capability

    def _swap(self, event: Event, other: Event) -> Event:
        choice = {"platform": other.platform, "api": other.api, "rating": other.rating, "returned": other.returned}
        return event.model_copy(update=choice)

    def _beliefs(self, history: History, events: Sequence[Event], ears: Mapping[str, Ear]) -> dict[str, dict[str, float]]:
        seen = ears[history.scenario].contexts(history.events, history.user)
        return beliefs(self.config, self.world, self.world.scenario[history.scenario], events, seen)
