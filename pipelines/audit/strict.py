"""Prove every sample again, from the files of the run alone: no model, no ledger.

For each line of `splits/*.jsonl`: the plan that `06_queries.jsonl` holds for it is found, every rule of stage 8 is applied to the
line itself, and evidence, accepted values and all other derived fields are computed again from stages 1 to 5 and compared.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.config import RunConfig
from pipelines.errors import ConfigError
from pipelines.identify import believed, ears_of, settled
from pipelines.jsonio import digest, file_digest, raw_lines, read_lines
from pipelines.loop import Population
from pipelines.queries import Cell
from pipelines.records import API, FeatureNode, History, Profile, Query, Sample, Scenario, Solution
from pipelines.run import load_run
from pipelines.verify.rules import RULES, Item
from pipelines.verify.samples import answers, evidence_of, missing_of

BATCH = 500
"""Lines that a worker proves at a time."""
WORKERS_FROM = 3_000
"""Fewer samples than this are proved in one process."""
SHOWN = 50
"""So many violations are written out; all are counted."""
_ID = re.compile(rb'"id":\s*"([^"]+)-(\d+)"')


@dataclass
class Violations:
    """What was found, and how much was looked at."""

    checked: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)
    shown: list[dict[str, str]] = field(default_factory=list)
    corrected: set[str] = field(default_factory=set)
    """Samples that people corrected (`ptool review`): they answer for these, not the structure."""

    def add(self, where: str, rule: str, detail: str) -> None:
        """Count one, and keep the first few in words."""
        self.by_rule[rule] += 1
        if len(self.shown) < SHOWN:
            self.shown.append({"sample": where, "rule": rule, "detail": detail[:300]})

    def report(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "checked": self.checked,
            "violations": sum(self.by_rule.values()),
            "corrected_by_hand": len(self.corrected),
            "by_rule": dict(sorted(self.by_rule.items())),
            "shown": self.shown,
        }


def read_population(root: Path) -> Population:
    """Stages 1 to 5 of a run."""

    def read(name: str, kind: Any) -> list[Any]:
        path = root / f"{name}.jsonl"
        if not path.is_file():
            raise ConfigError(f"{root}: has no {path.name}; finish the run with `ptool run`")
        return list(read_lines(path, kind))

    return Population.of(
        read("01_scenarios", Scenario), read("02_apis", API), read("03_features", FeatureNode),
        read("04_profiles", Profile), read("05_histories", History),
    )  # fmt: skip


def prove(root: Path, processes: int | None = None) -> Violations:
    """Every sample of every split, and what holds of the files as a whole.

    Args:
        processes: Left out: one per core when there are many samples.

    Raises:
        ConfigError: when the folder holds no splits.
    """
    found = Violations()
    splits = sorted((root / "splits").glob("*.jsonl"))
    if not splits:
        raise ConfigError(f"{root}: has no splits yet; finish it with `ptool run`")
    kept = dict(_fingerprints(root / "08_samples.jsonl"))
    plans = _plans(root / "06_queries.jsonl")
    seen: set[str] = set()
    by_hand = _corrected(root)
    jobs = _jobs(root, splits, plans)
    many = len(kept) >= WORKERS_FROM
    workers = processes or (min(os.cpu_count() or 1, 8) if many else 1)
    for part in _run(root, jobs, workers):
        for where, rule, detail, fingerprint in part:
            if where in by_hand:
                found.corrected.add(where)
            elif rule:
                found.add(where, rule, detail)
            if rule:
                continue
            found.checked += 1
            if where in seen:
                found.add(where, "sample_twice", "is in the splits more than once")
            seen.add(where)
            if kept.get(where) != fingerprint and where not in by_hand:
                found.add(where, "sample_changed", "differs from 08_samples.jsonl, or is not there")
    for lost in sorted(set(kept) - seen - by_hand):
        found.add(lost, "sample_lost", "is in 08_samples.jsonl and in no split")
    _certificate(root, splits, found)
    _beliefs(root, found)
    return found


def _beliefs(root: Path, found: Violations) -> None:
    """What each history is said to settle, computed anew from the events alone: the settled platform must be the likeliest."""
    config, people = load_run(root).config, read_population(root)
    ears = ears_of(people.world.scenarios, people.histories.values())
    for history in people.histories.values():
        anew = believed(config, people.world, history, ears).belief
        for context, shares in history.belief.items():
            platform = settled(shares, config.min_posterior)
            likeliest = max(anew[context], key=lambda p: (anew[context][p], p)) if anew.get(context) else None
            if platform is not None and likeliest != platform:
                found.add(f"{history.id}.{context}", "belief_differs", f"says {platform}, its events say {likeliest}")


def _certificate(root: Path, splits: list[Path], found: Violations) -> None:
    path = root / "splits" / "certificate.json"
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))["sha256"]
    except (OSError, ValueError, KeyError):
        found.add("certificate.json", "no_certificate", "is not there, or names no digests")
        return
    for split in splits:
        if stated.get(split.stem) != file_digest(split):
            found.add(split.name, "split_changed", "its digest is not the one in the certificate")


def _corrected(root: Path) -> set[str]:
    """Ids of the samples that were corrected or withdrawn by hand."""
    path = root / "review" / "history.jsonl"
    if not path.is_file():
        return set()
    return {entry["sample"] for _, line in raw_lines(path) if (entry := json.loads(line))["done"] != "kept"}


def fingerprint(sample: Sample) -> str:
    """Digest of a sample without what the split adds."""
    return digest(sample.model_copy(update={"split": None, "canary": ""}).model_dump_json())


def _fingerprints(path: Path) -> Iterator[tuple[str, str]]:
    for sample in read_lines(path, Sample):
        yield sample.id, fingerprint(sample)


def _plans(path: Path) -> dict[str, list[int]]:
    """Slot id -> where in the file the queries of its attempts begin."""
    found: dict[str, list[int]] = {}
    at = 0
    with path.open("rb") as file:
        for line in file:
            match = _ID.search(line)
            if match is not None:
                found.setdefault(match[1].decode(), []).append(at)
            at += len(line)
    return found


Job = list[tuple[str, bytes, list[int]]]
Finding = tuple[str, str, str, str]
"""Where, rule (empty when proved), detail, fingerprint."""


def _jobs(root: Path, splits: list[Path], plans: dict[str, list[int]]) -> Iterator[Job]:
    def lines() -> Iterator[tuple[str, bytes, list[int]]]:
        for split in splits:
            with split.open("rb") as file:
                for line in file:
                    match = re.search(rb'"id":\s*"([^"]+)"', line)
                    yield split.stem, line, plans.get(match[1].decode(), []) if match else []

    all_lines = lines()
    while job := list(islice(all_lines, BATCH)):
        yield job


def _run(root: Path, jobs: Iterable[Job], workers: int) -> Iterator[list[Finding]]:
    if workers == 1:
        prover = Prover(root)
        for job in jobs:
            yield prover.prove(job)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start, initargs=(root,)) as pool:
        waiting = []
        for job in jobs:  # a few jobs ahead of the workers, never all lines at once
            waiting.append(pool.submit(_work, job))
            if len(waiting) > 4 * workers:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


_PROVER: list[Prover] = []


def _start(root: Path) -> None:
    _PROVER.append(Prover(root))


def _work(job: Job) -> list[Finding]:
    return _PROVER[0].prove(job)


class Prover:
    """One process's view of the run."""

    def __init__(self, root: Path) -> None:
        self.config: RunConfig = load_run(root).config
        self.people = read_population(root)
        self.queries = (root / "06_queries.jsonl").open("rb")
        self.cell = lru_cache(maxsize=64)(self._cell)

    def _cell(self, user: str, scenario: str) -> Cell:
        return self.people.cell(user, scenario)

    def prove(self, job: Job) -> list[Finding]:
        """All findings of a batch of split lines."""
        found: list[Finding] = []
        for split, line, places in job:
            try:
                sample = Sample.model_validate_json(line)
            except ValidationError as error:
                found.append((split, "not_a_sample", str(error).splitlines()[-1], ""))
                continue
            problems = list(self.problems(sample, split, places))
            found += [(sample.id, rule, detail, "") for rule, detail in problems]
            found.append((sample.id, "", "", fingerprint(sample)))
        return found

    def problems(self, sample: Sample, split: str, places: list[int]) -> Iterator[tuple[str, str]]:
        """What is wrong with one sample."""
        if sample.split != split:
            yield "wrong_split", f"says {sample.split}, stands in {split}"
        query = self._query(sample, places)
        if query is None:
            yield "no_plan", "06_queries.jsonl holds no query with this text for the slot"
            return
        if (sample.user, sample.scenario) not in self.people.histories or sample.user not in self.people.profiles:
            yield "no_user", f"{sample.user} has no history in {sample.scenario}"
            return
        item = item_of(sample, query, self.cell(sample.user, sample.scenario), self.config)
        for rule in RULES:
            problem = rule(item)
            if problem is not None:
                yield rule.__name__, problem
        yield from derived_problems(sample, item)

    def _query(self, sample: Sample, places: list[int]) -> Query | None:
        for place in reversed(places):
            self.queries.seek(place)
            query = Query.model_validate_json(self.queries.readline())
            if query.text == sample.query:
                return query
        return None


def item_of(sample: Sample, query: Query, cell: Cell, config: RunConfig) -> Item:
    """A finished sample as the rules see it: its own answer, not the solution file's."""
    missing = list(sample.missing)
    answer = Solution(id=query.id, platform=sample.platform, calls=sample.calls, prompt="", act=sample.act, missing=missing)
    return Item(cell, query, answer, config.min_margin, config.min_posterior)


def derived_problems(sample: Sample, item: Item) -> Iterator[tuple[str, str]]:
    """Fields of a sample that follow from other files and do not say what these say."""
    slot = item.slot
    plan = ("user", "scenario", "context", "capability", "kinds", "time", "control", "style")
    for name in plan:
        if getattr(sample, name) != getattr(slot, name):
            yield "field_not_of_the_plan", f"{name} is {getattr(sample, name)!r}, the plan says {getattr(slot, name)!r}"
    if sample.act != slot.act:
        yield "field_not_of_the_plan", f"act is {sample.act!r}, the plan says {slot.act!r}"
    if sample.missing != missing_of(item):
        yield "field_not_of_the_plan", f"missing is {sample.missing}, the plan says {missing_of(item)}"
    if sample.evidence != evidence_of(item):
        yield "evidence_differs", "computed again from profile and history it is another"
    accepted, why, optional = answers(item)
    if (sample.accepted, sample.why, sample.optional) != (accepted, why, optional):
        yield "accepted_differs", "computed again from the schema they are others"
    if set(sample.verification.rules) != {rule.__name__ for rule in RULES}:
        yield "rules_differ", "its list of passed rules is not the list of rules"
