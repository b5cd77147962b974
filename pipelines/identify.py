"""What a history tells about a user: a small Bayesian model over hidden weights, given what a solver sees.

Used of the user in question: of every event the words of its summary and arguments, its local hour, which
platform served it, its stars, whether it was undone, and the order of the events. Not used: the
context labels, occasions, drift and preferences of that user. What situations *sound* like (which words and
hours go with which context) is learned from the labelled events of other users, at most `TEACHERS` of
them (in a run of few users also from the user's other events); this stands in for the understanding of
language that a solver brings along. Known of the market:
trait levels, and the noise of the simulated choice.

The prior knows nothing of the population: all rankings of two to four traits, each length equally likely.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations

import numpy as np
import numpy.typing as npt

from pipelines import normal
from pipelines.config import RunConfig
from pipelines.records import Event, History, Scenario
from pipelines.world import World, rank_order_centroid

Floats = npt.NDArray[np.float64]

TEACHERS = 100
"""So many users teach what situations sound like; more would hardly add words."""
ENOUGH_USERS = 20
SMOOTHING = 0.3
STRENGTH = 1.0
"""So many events of all contexts together stand in for what a context has not shown yet."""
DOUBT = 0.03
"""However clear the words, an event may belong elsewhere."""
LIKES_BEST, LIKES_OTHER = 0.93, 0.35
"""How often the favourite, and another platform, gets four stars or more when there are stars."""
ALMOST_SURE = 0.01
"""Temperature of a reader who knows that only favourites are shown."""
_ONE_OFF = "one_off"
_HOURS = 4
"""Hours that count as one time of day."""


def posterior(history: History, context: str, platforms: Sequence[str]) -> dict[str, float]:
    """Platform id -> probability of being the favourite among some platforms in a context; even without a belief."""
    known = history.belief.get(context, {})
    shares = {platform: known.get(platform, 0.0) for platform in platforms}
    total = sum(shares.values())
    return {p: round(share / total, 4) if total > 0 else round(1 / len(platforms), 4) for p, share in shares.items()}


def event_words(event: Event) -> set[str]:
    """Everything in an event that tells its situation to a reader; the platform and the API's name do not."""
    texts = [event.summary]
    pending: list[object] = list(event.arguments.values())
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, str):
            texts.append(value[:200])
    hour = int(event.time[11:13]) // _HOURS
    return {_stem(word) for word in normal.words(" ".join(texts))} | {f"@{hour}"}


_stem = lru_cache(maxsize=50_000)(normal.stem)


@dataclass
class Ear:
    """What the contexts of one scenario sound like: how often each word went with each context.

    With `ENOUGH_USERS` a user is judged without any of their own labels. In a smaller run the user's other events
    teach too; the label of the event that is judged never does.
    """

    scenario: Scenario
    classes: list[str] = field(init=False)
    words: dict[str, Floats] = field(default_factory=dict)
    total: Floats = field(init=False)
    own: dict[str, dict[str, Floats]] = field(default_factory=dict)
    """User -> their share of `words`; the word `""` counts events."""
    labels: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(user, time, summary) -> class, of the events that taught."""

    def __post_init__(self) -> None:
        self.classes = [*(c.name for c in self.scenario.contexts), _ONE_OFF]
        self.total = np.zeros(len(self.classes))
        for at, context in enumerate(self.scenario.contexts):  # its name and description are worth one event
            told = normal.words(f"{context.name.replace('_', ' ')} {context.description}")
            self._count(self.words, at, {normal.stem(word) for word in told})
            self.total[at] += 1

    def learn(self, history: History) -> None:
        """Hear the labelled events of one user."""
        mine = self.own.setdefault(history.user, {})
        for event in history.events:
            at = self.classes.index(_ONE_OFF if event.occasion == "one_off" else event.context)
            self.labels[history.user, event.time, event.summary] = at
            words = event_words(event)
            for counts in (self.words, mine):
                self._count(counts, at, words | {""})
            self.total[at] += 1

    def _count(self, counts: dict[str, Floats], at: int, words: Iterable[str]) -> None:
        for word in words:
            counts.setdefault(word, np.zeros(len(self.classes)))[at] += 1

    def contexts(self, events: Sequence[Event], user: str) -> Floats:
        """Probability of every context for every event, shape (events, contexts).

        Naive Bayes over the words that are there; what goes to `one_off` belongs to no context.
        """
        many = len(self.own) >= ENOUGH_USERS
        none = np.zeros(len(self.classes))
        mine = self.own.get(user, {}) if many else {}
        scores = np.empty((len(events), len(self.classes)))
        for row, event in enumerate(events):
            itself, label = none, self.labels.get((user, event.time, event.summary))
            if not many and label is not None:
                itself = none.copy()
                itself[label] = 1
            total = self.total - mine.get("", none) - itself
            known = [(self.words[word], mine.get(word, none)) for word in sorted(event_words(event)) if word in self.words]
            heard = np.array([counts - own for counts, own in known]).reshape(-1, len(self.classes)) - itself
            usual = (heard.sum(axis=1, keepdims=True) + SMOOTHING) / (total.sum() + 2 * SMOOTHING)
            rates = (heard + STRENGTH * usual) / (total + STRENGTH)  # a context nobody taught finds every word as usual as all do
            scores[row] = np.log(total + SMOOTHING) + np.log(rates).sum(axis=0)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray((1 - DOUBT) * shares[:, :-1] + DOUBT / len(self.classes))


def ears_of(scenarios: Iterable[Scenario], histories: Iterable[History]) -> dict[str, Ear]:
    """What situations sound like in finished histories: of each scenario the first `TEACHERS`."""
    ears = {scenario.id: Ear(scenario) for scenario in scenarios}
    for history in histories:
        ear = ears[history.scenario]
        if len(ear.own) < TEACHERS:
            ear.learn(history)
    return ears


def believed(config: RunConfig, world: World, history: History, ears: Mapping[str, Ear]) -> History:
    """The history with what a solver can know from its events, computed anew."""
    seen = ears[history.scenario].contexts(history.events, history.user)
    found = beliefs(config, world, world.scenario[history.scenario], history.events, seen)
    return history.model_copy(update={"belief": found})


@lru_cache(maxsize=64)
def hypotheses(traits: int) -> tuple[Floats, Floats]:
    """All rankings of two to four of so many traits: weights, shape (rankings, traits), and their log prior."""
    rows, prior = [], []
    lengths = range(min(2, traits), min(4, traits) + 1)
    for length in lengths:
        ranked = list(permutations(range(traits), length))
        for order in ranked:
            row = np.zeros(traits)
            row[list(order)] = rank_order_centroid(length)
            rows.append(row)
            prior.append(-math.log(len(ranked)) - math.log(len(lengths)))
    return np.array(rows), np.array(prior)


def beliefs(config: RunConfig, world: World, scenario: Scenario, events: Sequence[Event], seen: Floats) -> dict[str, dict[str, float]]:
    """Context -> platform id -> probability of being the favourite now.

    An event speaks for a context as far as its words do (`seen`): its likelihood is a mixture of the user's
    soft choice there and a choice that tells nothing. Where minds may change, every event may be the first
    after the change; what came before then follows weights of its own.

    Args:
        events: Oldest first.
        seen: From `Ear.contexts`, shape (events, contexts).
    """
    platforms = [p.id for p in scenario.platforms]
    traits = [t.name for t in scenario.traits]
    weights, prior = hypotheses(len(traits))
    levels = np.array([[p.traits[t].level for t in traits] for p in scenario.platforms])
    worth = weights @ levels.T
    chosen, even = _likelihood(config, world, scenario, events, worth)
    best = worth.argmax(axis=1)
    drifts = config.drift_share if config.history_mode == "chronological" else 0.0
    found = {}
    for at, context in enumerate(scenario.contexts):
        heard = np.log(seen[:, at, None] * chosen + (1 - seen[:, at, None]) * even[:, None])
        score = prior + heard.sum(axis=0)
        if drifts and len(events) > 1:
            change = math.log(drifts / len(scenario.contexts) / (len(events) - 1))
            past = np.cumsum(heard, axis=0)
            before = _log_sum(past[:-1] + prior, axis=1)
            after = prior + past[-1] - past[:-1]
            stayed = score + math.log(max(1 - drifts / len(scenario.contexts), 1e-9))
            score = _log_sum(np.vstack([stayed, before[:, None] + after + change]), axis=0)
        share = np.exp(score - score.max())
        mass = np.bincount(best, weights=share / share.sum(), minlength=len(platforms))
        found[context.name] = {platform: round(float(mass[i]), 4) for i, platform in enumerate(platforms)}
    return found


def _likelihood(config: RunConfig, world: World, scenario: Scenario, events: Sequence[Event], worth: Floats) -> tuple[Floats, Floats]:
    """Of every event under every ranking, shape (events, rankings), and when the choice tells nothing, shape (events,)."""
    index = {p.id: i for i, p in enumerate(scenario.platforms)}
    certain = config.history_mode == "preferred_only"  # there the choice is the favourite, without noise
    logits = np.exp((worth - worth.max(axis=1, keepdims=True)) / (ALMOST_SURE if certain else config.choice_noise))
    soft: dict[tuple[int, ...], tuple[Floats, npt.NDArray[np.int64]]] = {}
    chosen, even = np.empty((len(events), len(worth))), np.empty(len(events))
    for row, event in enumerate(events):
        rivals = tuple(index[p.id] for p in world.candidates(scenario.id, world.api[event.platform, event.api].capability))
        if rivals not in soft:
            among = logits[:, rivals]
            shares = np.zeros_like(logits)
            shares[:, rivals] = among / among.sum(axis=1, keepdims=True)
            soft[rivals] = (1 - config.distractor_share) * shares + config.distractor_share / len(rivals), worth[:, rivals].argmax(axis=1)
        shares, top = soft[rivals]
        place = index[event.platform]
        chosen[row], even[row] = shares[:, place], 1 / len(rivals)
        if event.rating is not None or event.returned:
            liked = event.rating is not None and event.rating >= 4 and not event.returned
            is_best = np.array(rivals)[top] == place
            rate = np.where(is_best, LIKES_BEST, LIKES_OTHER)
            chosen[row] *= rate if liked else 1 - rate
            even[row] *= 0.5
    return chosen, even


def _log_sum(values: Floats, axis: int) -> Floats:
    top = values.max(axis=axis, keepdims=True)
    return np.asarray(np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis=axis)))


def settled(belief: Mapping[str, float], least: float) -> str | None:
    """The platform that a belief settles on, or None. Knows nothing of gold."""
    if not belief:
        return None
    likeliest = max(belief, key=lambda p: belief[p])
    return likeliest if belief[likeliest] >= least else None
