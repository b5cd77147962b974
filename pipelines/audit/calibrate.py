"""How much of what is wrong do rules and judges catch, and how often do they accuse what is right?"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from pipelines.audit.counting import share
from pipelines.audit.defects import DEFECTS, Defect
from pipelines.audit.strict import item_of, read_population
from pipelines.config import RunConfig
from pipelines.jsonio import read_lines
from pipelines.llm.ledger import Ledger
from pipelines.records import Query, Rejection, Sample
from pipelines.stage import Context, gather
from pipelines.verify import leaks
from pipelines.verify.judges import hear, verdict_of
from pipelines.verify.rules import Item, first_broken

CLEAN = 300
"""Clean samples that are shown to rules and judges."""


async def calibrate(ctx: Context, root: Path, per_type: int) -> dict[str, Any]:
    """Plant each defect into up to `per_type` samples; returns detection per type, and false alarms, with intervals."""
    items = sample_items(root, ctx.config, max(CLEAN, 8 * per_type))
    types: dict[str, Any] = {}
    for defect in DEFECTS:
        planted = plant(defect, items, per_type, ctx.config)
        rules = [first_broken(item) is not None for item in planted]
        judges = await _judged(ctx, planted)
        types[defect.name] = _row(defect.structural, rules, judges)
    repeats = [(item, item) for item in items[:per_type]]
    caught = [leaks.not_a_duplicate(one.query.text, [leaks.word_set(other.query.text)]) is not None for one, other in repeats]
    types["duplicate query"] = _row(False, caught, await _judged(ctx, [one for one, _ in repeats]))
    clean = items[:CLEAN]
    accused = [first_broken(item) is not None for item in clean]
    judged = await _judged(ctx, clean)
    return {
        "per_type": types,
        "false_alarms": {
            "rules": share(sum(accused), len(clean)),
            "judges": share(sum(judged), len(clean)),
            "both": share(sum(a or j for a, j in zip(accused, judged, strict=True)), len(clean)),
        },
    }


def _row(structural: bool, rules: list[bool], judges: list[bool]) -> dict[str, Any]:
    return {
        "structural": structural,
        "rules": share(sum(rules), len(rules)),
        "judges": share(sum(judges), len(judges)),
        "both": share(sum(r or j for r, j in zip(rules, judges, strict=True)), len(rules)),
    }


def plant(defect: Defect, items: list[Item], count: int, config: RunConfig) -> list[Item]:
    """Up to `count` items with this defect."""
    planted: list[Item] = []
    for item in items:
        if len(planted) == count:
            break
        made = defect.plant(item, config.rng("defect", defect.name, item.query.id))
        if made is not None:
            planted.append(made)
    return planted


async def _judged(ctx: Context, items: list[Item]) -> list[bool]:
    """Does the panel of judges turn each item down?"""

    async def one(item: Item) -> bool:
        return verdict_of(await hear(ctx, item))[0] != "pass"

    return await gather(items, one)


def sample_items(root: Path, config: RunConfig, count: int) -> list[Item]:
    """Finished samples as items, spread over controls, kinds and numbers of calls, in a seeded order."""
    samples = list(read_lines(root / "08_samples.jsonl", Sample))
    piles: dict[tuple[Any, ...], list[Sample]] = defaultdict(list)
    rng: random.Random = config.rng("calibrate")
    for sample in rng.sample(samples, len(samples)):
        piles[sample.control, tuple(sample.kinds), len(sample.calls)].append(sample)
    chosen: list[Sample] = []
    while len(chosen) < min(count, len(samples)):
        for pile in piles.values():
            if pile:
                chosen.append(pile.pop())
    wanted = {sample.id for sample in chosen}
    text_of = {sample.id: sample.query for sample in chosen}
    queries = {q.slot.id: q for q in read_lines(root / "06_queries.jsonl", Query) if q.slot.id in wanted and q.text == text_of[q.slot.id]}
    people = read_population(root)
    return [item_of(s, queries[s.id], people.cell(s.user, s.scenario), config) for s in chosen[:count] if s.id in queries]


STRUCTURAL = {"invented_parameter", "missing_argument", "wrong_source"}
"""Mistakes of the offline model that a schema or a list of sources alone could tell."""
_NOT_LABELS = {"bad_json", "broken_event", "judge_too_strict"}


def measure_offline(root: Path) -> dict[str, Any] | None:
    """With the offline model the truth is known: its ledger names every mistake that it planted in a query or a solution.

    Precision: kept samples without a planted mistake. Yield: kept samples of all slots worded. A false alarm is a judge's no to an
    attempt that passed every rule and in which nothing was planted. None when nothing was planted: another model.
    """
    ledger = Ledger(root / "ledger.sqlite")
    try:
        made = list(ledger.mistakes())
    finally:
        ledger.close()
    planted: dict[str, set[str]] = defaultdict(set)
    for stage, subject, mistakes in made:
        for mistake in _mistakes(mistakes):
            if stage == "solutions":
                planted[subject].add(mistake)
            elif stage == "queries":
                slot, _, name = mistake.rpartition(":")
                planted[f"{slot}-{subject.rpartition('-')[2]}"].add(name)
    if not made:
        return None
    queries: dict[str, str] = {}
    last: dict[str, list[str]] = defaultdict(list)
    for query in read_lines(root / "06_queries.jsonl", Query):
        queries[query.id] = query.text
        last[query.slot.id].append(query.id)
    kept: set[str] = set()
    for sample in read_lines(root / "08_samples.jsonl", Sample):
        kept.add(next(q for q in reversed(last[sample.id]) if queries[q] == sample.query))
    worded, judged_no = set(queries), set()
    for name in ("06_queries", "07_solutions", "08_samples"):
        for rejection in read_lines(root / "rejected" / f"{name}.jsonl", Rejection):
            if rejection.round and (rejection.record or name != "06_queries"):
                worded.add(rejection.subject)
            if rejection.reason.startswith("judge"):
                judged_no.add(rejection.subject)
    wrong = {subject for subject in planted if subject in worded}
    structural = {subject for subject in wrong if planted[subject] & STRUCTURAL}
    by_type: dict[str, list[bool]] = defaultdict(list)
    for subject in wrong:
        for name in planted[subject]:
            by_type[name].append(subject not in kept)
    clean_judged = [subject for subject in kept | judged_no if subject not in wrong]
    return {
        "precision": share(len(kept - wrong), len(kept)),
        "yield": share(len(kept), len(worded)),
        "caught": share(len(wrong - kept), len(wrong)),
        "caught_structural": share(len(structural - kept), len(structural)),
        "caught_by_type": {name: share(sum(found), len(found)) for name, found in sorted(by_type.items())},
        "false_alarms_of_judges": share(sum(subject in judged_no for subject in clean_judged), len(clean_judged)),
        "dropped_without_a_planted_mistake": share(len(worded - kept - wrong), len(worded - wrong)),
    }


def _mistakes(text: str) -> list[str]:
    found = text.split(";")
    return [] if "bad_json" in found else [name for name in found if name.rpartition(":")[2] not in _NOT_LABELS]
