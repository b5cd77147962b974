"""Does an event tell why a platform was chosen? A rule for words and synonyms, a judge for paraphrase."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from pipelines import normal
from pipelines.errors import ReplyError
from pipelines.records import Event, Scenario
from pipelines.replies import ToldReply
from pipelines.stage import Context

REASON = re.compile(
    r"\b(because|since it|since they|as it is|as they are|for (its|their)|thanks to (its|their|the)|due to|known for|"
    r"the (most|best|least|cheapest|fastest|greenest|safest)|prefer\w*|favou?rite (app|shop|site|platform|service)|"
    r"always (use|choose|go)\w*)\b"
    r"|因为[它他她]|就[冲图]它|图的(就)?是|看[中重]的是|更?偏[好爱]|更喜欢|最[爱常喜]欢?用的|(总是|向来|一向)只?[用选去]"
)
LONG = 5
"""Letters of a word that can give a trait away; a pair of Chinese characters always can."""
TELLING = 2
"""So many such words after a reason give it away; one alone (`first`, `everything`) accuses the innocent."""


def preference_not_explained(text: str, scenario: Scenario) -> str | None:
    """No reason is given in the words of a trait: its name, its description, or how the platforms' levels are put.

    These texts are the synonyms that the market itself uses; words that its capabilities use too prove nothing.
    """
    found = REASON.search(normal.fold(text))
    if found is None:
        return None
    after = {normal.stem(word) for word in normal.words(normal.fold(text)[found.start() :])}
    told = sorted(after & _trait_words(_texts_of(scenario), _deeds_of(scenario)))
    return f"gives a reason ({found.group(0)!r}, {', '.join(told)}): {text!r}" if len(told) >= TELLING else None


def _texts_of(scenario: Scenario) -> tuple[str, ...]:
    traits = [f"{t.name.replace('_', ' ')} {t.description}" for t in scenario.traits]
    return (*traits, *(level.phrase for p in scenario.platforms for level in p.traits.values()))


def _deeds_of(scenario: Scenario) -> tuple[str, ...]:
    capabilities = [f"{c.name} {c.description}" for c in scenario.capabilities]
    return (*capabilities, *(f"{c.name} {c.description}" for c in scenario.contexts))


@lru_cache(maxsize=256)
def _trait_words(texts: tuple[str, ...], deeds: tuple[str, ...]) -> frozenset[str]:
    common = {normal.stem(word) for text in deeds for word in normal.words(text.replace("_", " "))}
    return frozenset(normal.stem(word) for text in texts for word in normal.words(text) if len(word) >= LONG or not word.isascii()) - common


async def events_that_tell(ctx: Context, subject: str, events: Sequence[Event], repeat: int) -> dict[int, str]:
    """Position of every event that, to a judge, says what the person prefers or why a platform was chosen -> why.

    One call for all; the judge sees what a solver sees: the lines alone. A reply that cannot be used passes none
    of them: all are given back as `unparsed`.
    """
    values = {"lines": [{"number": i, "line": event.summary} for i, event in enumerate(events)]}
    for attempt in range(2):
        try:
            reply, _ = await ctx.llm.ask(
                ctx.prompt("histories.judge"), values, ToldReply, stage="histories", subject=subject, repeat=2 * repeat + attempt
            )
        except ReplyError:
            continue
        return {told.number: told.reason for told in reply.telling if 0 <= told.number < len(events)}
    return dict.fromkeys(range(len(events)), "unparsed")
