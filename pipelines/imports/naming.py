"""Names and one-line descriptions of imported platforms, from the words of their tools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pipelines.config import ImportedApi
from pipelines.imports.tool import words

NOT_A_SUBJECT = re.compile(  # verbs and fillers of API names
    "a|add|all|and|analyze|by|calculate|cancel|change|check|compare|convert|create|data|delete|detail(s|ed)?|edit|fetch|find|for|from|"
    "generate|get|info|information|latest|list|load|make|modify|new|of|place|post|query|random|read|realtime|remove|retrieve|save|search|"
    "send|set|shorten|show|start|stop|submit|the|to|track|update|upload|validate|view|with|write"
)


def subject(apis: Sequence[ImportedApi]) -> str:
    """The one or two words, verbs apart, that most API names share."""
    seen: Counter[str] = Counter()
    first: dict[str, str] = {}
    for api in apis:
        nouns = {word.rstrip("s"): word for word in words(api.name) if not NOT_A_SUBJECT.fullmatch(word)}
        for stem, word in nouns.items():
            first.setdefault(stem, word)
        seen.update(nouns.keys())
    order = list(first)
    top = [stem for stem in order if seen[stem] == max(seen.values()) and (seen[stem] > 1 or len(apis) == 1)][:2] or order[:1]
    return " ".join(first[stem].capitalize() for stem in top)[:60] or "Tools"


def doing(apis: Sequence[ImportedApi]) -> str:
    """The first sentences of the descriptions, as one clause."""
    clauses = []
    for api in apis:
        sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z])|(?<=[。！？])|\n", api.description.strip())[0].strip(" .。\t")[:120]
        clauses.append(sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence)
    shown = clauses[:8]
    return "; ".join(shown) + (f"; and {len(clauses) - len(shown)} more" if len(clauses) > len(shown) else "")
