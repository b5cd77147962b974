"""Making runs without Prefect, and reading them back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import flows
from pipelines import config
from pipelines.jsonio import read_lines
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.llm.offline.app import offline_http_client
from pipelines.loop import Population
from pipelines.records import API, FeatureNode, History, Profile, Query, Sample, Scenario, Solution
from pipelines.run import Run
from pipelines.verify.rules import Item

NO_MISTAKES: dict[str, float] = {}


def make_run(folder: Path, rates: dict[str, float] | None = None, preset: config.Preset = "tiny", **overrides: object) -> dict[str, int]:
    """The pipeline without Prefect; `rates` sets how often the offline model errs."""
    settings, origin = config.load(preset, None, overrides)

    def model(ledger: Ledger) -> LLM:
        client = offline_http_client(rates=rates) if rates is not None else None
        return LLM(settings.model, settings.seed, ledger, settings.limits, client)

    async def go() -> dict[str, int]:
        run = Run.open(folder, settings, origin, model)
        try:
            return await flows.pipeline(run)
        finally:
            await run.close()

    return asyncio.run(go())


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a run but the ledger and the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(("ledger.", ".lock"))
    }


@dataclass(frozen=True)
class Made:
    """A finished run, read back."""

    root: Path
    people: Population
    samples: list[Sample]
    queries: dict[str, Query]
    solutions: dict[str, Solution]

    @classmethod
    def read(cls, root: Path) -> Made:
        def lines(name: str, kind: type) -> list:
            return list(read_lines(root / f"{name}.jsonl", kind))

        people = Population.of(
            lines("01_scenarios", Scenario),
            lines("02_apis", API),
            lines("03_features", FeatureNode),
            lines("04_profiles", Profile),
            lines("05_histories", History),
        )
        return cls(
            root,
            people,
            lines("08_samples", Sample),
            {q.id: q for q in lines("06_queries", Query)},
            {s.id: s for s in lines("07_solutions", Solution)},
        )

    def split_samples(self) -> list[Sample]:
        """All samples, as the split files hold them."""
        return [s for path in sorted((self.root / "splits").glob("*.jsonl")) for s in read_lines(path, Sample)]

    def items(self) -> list[Item]:
        """What the rules saw, for every kept sample."""
        found = []
        for sample in self.samples:
            query = max((q for q in self.queries.values() if q.slot.id == sample.id), key=lambda q: q.slot.attempt)
            found.append(Item(self.people.cell(sample.user, sample.scenario), query, self.solutions[query.id], 0.05, 0.5))
        return found
