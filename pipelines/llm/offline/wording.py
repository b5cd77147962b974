"""How the offline model writes requests and past actions, and reads them.

One `Ability` is what it knows of one capability: ways to ask, ways to tell, and what each parameter
takes. For the scenarios of its knowledge files that is hand-written; for anything else it is guessed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from typing import Any

from pipelines import normal
from pipelines.llm.offline import generic, knowledge
from pipelines.llm.offline.concepts import Reading, Value, draw, read_all
from pipelines.llm.offline.knowledge import HERE, SLOT, CapabilityText, Concept, Knowledge, Situation, life_stages, phrases, read_bank


@dataclass(frozen=True)
class Ability:
    """One capability, as the offline model can word it."""

    name: str
    asks: tuple[str, ...]
    dones: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """One argument to be stated or read: its key is `<path>#<slot>`."""

    path: str
    slot: str
    concept: Concept

    @property
    def key(self) -> str:
        """Path and slot in one word."""
        return f"{self.path}#{self.slot}"


class Market:
    """What the offline model knows of the scenario that a prompt is about."""

    def __init__(self, scenario: Mapping[str, Any], language: str) -> None:
        self.language = language
        self.known: Knowledge | None = knowledge.load(str(scenario["name"]), language)
        self.scenario = scenario
        self._capabilities = {c.name: c for c in self.known.capabilities} if self.known else {}

    def ability(self, name: str, description: str) -> Ability:
        """Ways to ask for a capability."""
        text = self._capabilities.get(name)
        if text is not None:
            return Ability(name, tuple(text.ask), tuple(text.done))
        return _guessed(name, description, self.language)

    def fact(self, capability: str, path: str, description: str, schema: dict[str, Any]) -> Fact:
        """What a parameter of a capability takes."""
        slot = _slots(self.known.scenario, capability, self.language).get(path) if self.known else None
        if slot is not None and self.known is not None:
            return Fact(path, slot, self.known.concepts[slot])
        return Fact(path, path.replace(".", "_"), generic.guess(path, description, schema, self.language))

    def situation(self, name: str) -> Situation:
        """A context by name; one that only this scenario's author knows is worded from its description."""
        known: list[Situation] = [*(self.known.situations if self.known else ()), *generic.lexicon(self.language).situations]
        for situation in known:
            if situation.name == name:
                return situation
        text = next((str(c["description"]) for c in self.scenario["contexts"] if c["name"] == name), name.replace("_", " "))
        return _worded(name, text, self.language)

    def situation_of(self, name: str, basic: Mapping[str, Any]) -> Situation:
        """A context in the words of one person: who is retired does not speak of a job, where there is enough else to say."""
        found = self.situation(name)
        if basic.get("life_stage") != life_stages(self.language)[-1]:
            return found
        employed = tuple(phrases(self.language)["employed"])
        cues = [cue for cue in found.cues if not any(word in cue.lower() for word in employed)]
        trace = [text for text in found.trace if not any(word in text.lower() for word in employed)]
        return found.model_copy(update={"cues": cues if len(cues) > 3 else found.cues, "trace": trace if len(trace) > 3 else found.trace})

    @property
    def situations(self) -> list[Situation]:
        """All contexts of the scenario."""
        return [self.situation(str(context["name"])) for context in self.scenario["contexts"]]

    @property
    def capabilities(self) -> list[tuple[Ability, CapabilityText | None]]:
        """All capabilities of the scenario, with their knowledge where there is some."""
        return [
            (self.ability(str(c["name"]), str(c["description"])), self._capabilities.get(str(c["name"])))
            for c in self.scenario["capabilities"]
        ]


@cache
def _slots(scenario: str, capability: str, language: str) -> dict[str, str]:
    """Parameter path -> concept, over all platforms of one known capability."""
    known = knowledge.load(scenario, language)
    for text in known.capabilities if known else ():
        if text.name == capability:
            return {use.path: use.concept for api in text.apis.values() for use in api.uses}
    return {}


@cache
def _guessed(name: str, description: str, language: str) -> Ability:
    lex = generic.lexicon(language)
    phrase = generic.phrase(description or name.replace("_", " "))
    return Ability(
        name,
        tuple(ask.replace("PHRASE", phrase) for ask in lex.asks),
        tuple(done.replace("PHRASE", phrase) for done in lex.dones),
    )


@cache
def _worded(name: str, text: str, language: str) -> Situation:
    text = text.strip().rstrip(".。")
    fixed = phrases(language)
    frames, traces = fixed["cues"], fixed["traces"]
    return Situation(
        language=language, name=name, phrase=text, pulls={}, cues=[f.format(text) for f in frames], trace=[t.format(text) for t in traces]
    )


@cache
def _style(language: str) -> dict[str, Any]:
    data: dict[str, Any] = read_bank(HERE / language / "_style.yaml")
    return data


def values_for(
    rng: random.Random, facts: Sequence[Fact], situation: str, today: date, fixed: Mapping[str, Any] | None = None
) -> dict[str, Value]:
    """A coherent value per slot; prices come after the things they belong to."""
    chosen: dict[str, Value] = {}
    for fact in sorted(facts, key=lambda f: f.concept.near is not None):
        if fact.slot in chosen:
            continue
        feature = fact.concept.feature
        if fixed is not None and feature is not None and feature in fixed:
            value = fixed[feature]
            chosen[fact.slot] = Value(value, str(value))
        else:
            chosen[fact.slot] = draw(rng, fact.slot, fact.concept, situation, today, chosen)
    return chosen


@dataclass(frozen=True)
class Wish:
    """One thing to ask for: what to state, and what shall be as last time."""

    ability: Ability
    facts: Sequence[Fact]
    again: Sequence[str] = ()
    """Descriptions of what shall be as it was last time; a person just says so."""


def request(
    rng: random.Random, ability: Ability, facts: Sequence[Fact], situation: Situation, today: date, language: str,
    again: Sequence[str] = (), tone: str | None = None, length: str = "medium",
) -> str:  # fmt: skip
    """A request in the user's voice that states every fact and shows the situation."""
    return requests_in_one(rng, [Wish(ability, facts, again)], situation, today, language, tone, length)


def requests_in_one(
    rng: random.Random, wishes: Sequence[Wish], situation: Situation, today: date, language: str,
    tone: str | None = None, length: str = "medium",
) -> str:  # fmt: skip
    """Several requests in one message, joined so that a reader can tell them apart."""
    style = _style(language)
    register = tone or rng.choice(["plain", "plain", "friendly", "chatty", "polite"])
    opener = rng.choice(style["openers"][register]) if length != "short" else ""
    closer = rng.choice(style["closers"][register]) if length != "short" else ""
    parts: list[str] = []
    for place, wish in enumerate(wishes):
        sentence, *own = _sentences(rng, wish, situation, today)
        if place:
            joiner = rng.choice(style["joiners"])
            parts += [joiner + _lowered(sentence), *own]
            continue
        if opener.rstrip().endswith((",", ":", "but")):
            sentence = _lowered(sentence)
        parts += [opener + sentence, *own]
    if not situation.shown_by_bank or length == "long" or (length != "short" and rng.random() < 0.5):
        cue = rng.choice(situation.cues)
        parts = [cue, *parts] if not opener and rng.random() < 0.5 else [*parts, cue]
        if length == "long" and len(situation.cues) > 1:
            parts.append(rng.choice([other for other in situation.cues if other != cue]))
    if closer:
        parts.append(closer)
    return str(phrases(language)["marks"]["gap"]).join(part.strip() for part in parts)


def _lowered(sentence: str) -> str:
    return sentence if sentence.startswith(("I ", "I'", "I’")) else sentence[0].lower() + sentence[1:]


def _sentences(rng: random.Random, wish: Wish, situation: Situation, today: date) -> list[str]:
    """The request itself with the clauses that fit into it, then what needs a sentence of its own."""
    values = values_for(rng, wish.facts, situation.name, today)
    marks = phrases(situation.language)["marks"]
    available = {fact.slot for fact in wish.facts}
    asks = [ask for ask in wish.ability.asks if set(SLOT.findall(ask)) <= available] or list(wish.ability.asks)
    fullest = [ask for ask in asks if SLOT.search(ask)]
    ask = rng.choice(fullest or asks)
    again = rng.choice(phrases(situation.language)["again"]) if wish.again else ""
    for slot in SLOT.findall(ask):
        if slot not in values:
            ask, again = ask.replace("{" + slot + "}", marks["same_again"] if wish.again else marks["it"]), ""
    sentence = SLOT.sub(lambda m: values[m.group(1)].words, ask)
    question = sentence.endswith(("?", "？"))
    sentence = sentence.rstrip("?.？。")
    inline: list[str] = []
    own: list[str] = []
    for fact in rng.sample(list(wish.facts), len(wish.facts)):
        if "{" + fact.slot + "}" in ask or not fact.concept.say:
            continue
        short = [clause for clause in fact.concept.say if not clause.endswith((".", "。"))]
        clause = rng.choice(short if short and len(inline) < 2 and rng.random() < 0.75 else list(fact.concept.say))
        text = clause.replace("{}", values[fact.slot].words)
        (own if clause.endswith((".", "。")) else inline).append(text)
    own += [text[0].upper() + text[1:] + marks["stop"] for text in inline[3:]]
    joined = marks["comma"].join(inline[:3])
    if inline and question and situation.language == "zh":  # a question first, what there is to say about it after
        sentence += marks["question"] + joined + marks["stop"]
    else:
        sentence += (marks["clause"] if inline else "") + joined + marks["question" if question else "stop"]
    return [sentence, *own, *([again] if again else [])]


def split_requests(text: str, language: str) -> list[str]:
    """The parts of a message that asks for several things."""
    parts, gap = [text], phrases(language)["marks"]["gap"]
    for joiner in _style(language)["joiners"]:
        parts = [piece for part in parts for piece in part.split(joiner.strip() + gap)]
    return [part.strip() for part in parts if part.strip()]


def read_again(text: str, language: str) -> bool:
    """Does a message want something as it was last time?"""
    told = normal.fold(text)
    frames = [*phrases(language)["again"], phrases(language)["marks"]["same_again"]]
    return any(normal.fold(frame).rstrip(".。") in told for frame in frames)


def deed(rng: random.Random, ability: Ability, values: Mapping[str, Value], situation: Situation) -> str:
    """A past action, one line, in which the situation shows."""
    dones = [done for done in ability.dones if set(SLOT.findall(done)) <= set(values)] or list(ability.dones)
    done = rng.choice(dones)
    marks = phrases(situation.language)["marks"]
    text = SLOT.sub(lambda m: values[m.group(1)].words if m.group(1) in values else marks["something"], done)
    if not situation.shown_by_bank or rng.random() < 0.35:
        text += marks["comma"] + rng.choice(situation.trace)
    return text[0].upper() + text[1:]


# Reading


@lru_cache(maxsize=4096)
def _pieces(asks: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(piece.lower() for piece in SLOT.split(ask.rstrip("?.？。"))[::2] if piece.strip()) for ask in asks)


def how_well(text: str, ability: Ability) -> int:
    """How many letters of one of the capability's requests stand in the text, in order; 0 when none fits."""
    low = text.lower()
    best = 0
    for pieces in _pieces(ability.asks):
        at, score = 0, 0
        for piece in pieces:
            found = low.find(piece, at)
            if found < 0:
                score = 0
                break
            at, score = found + len(piece), score + len(piece)
        best = max(best, score)
    return best


def read_capability(text: str, market: Market) -> str | None:
    """Which capability a request is about: the best-fitting request, else the most shared words."""
    scored = [(how_well(text, ability), ability.name) for ability, _ in market.capabilities]
    best = max(scored, default=(0, ""))
    if best[0] > 0:
        return best[1]
    mine = {normal.stem(word) for word in normal.words(text)}
    shared = [
        (len(mine & {normal.stem(w) for w in normal.words(f"{c['name']} {c['description']}")}), str(c["name"]))
        for c in market.scenario["capabilities"]
    ]
    return max(shared, default=(0, ""))[1] or None


def read_situation(text: str, market: Market) -> str | None:
    """Which situation a request is in: its own sentences first, then the things it names."""
    low = text.lower()
    for situation in market.situations:
        if any(cue.lower().rstrip(".!?。！？") in low for cue in situation.cues):
            return situation.name
    best: tuple[int, str] | None = None
    for concept in market.known.concepts.values() if market.known else ():
        if not isinstance(concept.bank, dict):
            continue
        for name, value in _situated(tuple((s, tuple(v)) for s, v in concept.bank.items())):
            if value in low and (best is None or len(value) > best[0]):
                best = (len(value), name)
    return best[1] if best else None


@lru_cache(maxsize=512)
def _situated(bank: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[tuple[str, str], ...]:
    """Values that belong to one situation only."""
    homes: dict[str, set[str]] = {}
    for situation, entries in bank:
        for entry in entries:
            homes.setdefault(entry.partition("|")[0].strip().lower(), set()).add(situation)
    return tuple((next(iter(where)), value) for value, where in homes.items() if len(where) == 1)


def read_facts(text: str, ability: Ability, facts: Sequence[Fact], today: date) -> dict[str, Reading]:
    """Parameter path -> what the text states for it."""
    read = read_all(text, {fact.key: fact.concept for fact in facts}, ability.asks, today)
    return {key.partition("#")[0]: reading for key, reading in read.items()}
