"""For authors of knowledge files: write requests at random, read them back, say what was lost.

`python -m pipelines.llm.offline.check shopping [--show 20]`
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from datetime import date
from typing import Any

from pipelines.llm.offline import knowledge
from pipelines.llm.offline.wording import Fact, Market, deed, read_capability, read_facts, read_situation, request, values_for

TODAY = date(2026, 3, 2)


def main() -> None:
    """Round trip of every capability, situation and API of one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--language", default="en")
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    known = knowledge.load(args.scenario, args.language)
    if known is None:
        raise SystemExit(f"no knowledge file for {args.scenario!r}")
    scenario: dict[str, Any] = {
        "name": known.scenario,
        "contexts": [{"name": s.name, "description": s.phrase} for s in known.situations],
        "capabilities": [{"name": c.name, "description": c.text} for c in known.capabilities],
    }
    market = Market(scenario, args.language)
    _pareto(known)
    rng = random.Random(1)
    lost: Counter[str] = Counter()
    examples: dict[str, str] = {}
    total = 0
    shown = []
    for capability in known.capabilities:
        for situation in known.situations:
            for platform, api in capability.apis.items():
                for _ in range(4):
                    facts = [Fact(u.path, u.concept, known.concepts[u.concept]) for u in api.uses]
                    stated = [f for f, u in zip(facts, api.uses, strict=True) if u.required or rng.random() < 0.4]
                    ability = market.ability(capability.name, capability.text)
                    text = request(rng, ability, stated, situation, TODAY, args.language)
                    total += 1
                    shown.append((situation.name, capability.name, text))
                    problems = []
                    found = read_capability(text, market)
                    if found != capability.name:
                        problems.append(f"capability {capability.name} read as {found}")
                    seen = read_situation(text, market)
                    if seen != situation.name:
                        problems.append(f"situation {situation.name} read as {seen}")
                    read = read_facts(text, ability, facts, TODAY)
                    for fact in facts:
                        if fact in stated and fact.path not in read:
                            problems.append(f"{capability.name}/{platform}: {fact.slot} not read back")
                        elif fact not in stated and fact.path in read and fact.concept.type != "boolean":
                            problems.append(f"{capability.name}/{platform}: {fact.slot} read though not stated")
                    for problem in problems:
                        lost[problem] += 1
                        examples.setdefault(problem, text)
    for problem, count in lost.most_common(60):
        print(f"{count:4d} {problem}\n       e.g. {examples[problem]}")
    print(f"{total} requests, {sum(lost.values())} losses of {len(lost)} kinds")
    for where in rng.sample(shown, args.show):
        print(f"[{where[0]} / {where[1]}] {where[2]}")
    for _ in range(args.show):
        capability, situation = rng.choice(known.capabilities), rng.choice(known.situations)
        api = rng.choice(list(capability.apis.values()))
        facts = [Fact(u.path, u.concept, known.concepts[u.concept]) for u in api.uses]
        values = values_for(rng, facts, situation.name, TODAY)
        print(f"[{situation.name} / {capability.name}] {deed(rng, market.ability(capability.name, ''), values, situation)}")


def _pareto(known: knowledge.Knowledge) -> None:
    for one in known.platforms:
        for other in known.platforms:
            if one is not other and all(one.traits[t][0] >= other.traits[t][0] for t in one.traits):
                print(f"{one.name} dominates {other.name}")
    dealt = sum(c.open for c in known.capabilities)
    print(f"{len(known.capabilities)} capabilities, {dealt} open, {sum(c.open for c in known.capabilities[:8])} of the first 8")
    for capability in known.capabilities:
        asked = {slot for ask in capability.ask for slot in knowledge.SLOT.findall(ask)}
        for platform, api in capability.apis.items():
            missing = asked - {use.concept for use in api.uses}
            if missing:
                print(f"{capability.name}/{platform}: asks use {sorted(missing)}, its API does not take it")
    features = {c.name for c in known.capabilities for a in c.apis.values() for u in a.uses if c.open and known.concepts[u.concept].feature}
    print(f"{len(features)} open capabilities can use a profile value")


if __name__ == "__main__":
    main()
