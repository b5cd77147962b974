"""`ptool evaluate`: ask a solver every request, keep what it says, score it, and print what brackets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2

from pipelines import __version__
from pipelines.config import ROOT, Limits
from pipelines.errors import ConfigError
from pipelines.evaluation.asking import Request, Solver, prompt_of
from pipelines.evaluation.baselines import BASELINES, Baseline
from pipelines.evaluation.catalogue import run_of
from pipelines.evaluation.items import Item
from pipelines.evaluation.reader import Part, find_parts, load_line
from pipelines.evaluation.retrieval import Examples, retrieved
from pipelines.evaluation.score import score
from pipelines.evaluation.seen import Seen, Setting, Source, changed
from pipelines.evaluation.summary import Options
from pipelines.evaluation.templates import Template
from pipelines.jsonio import dumps, pretty, write_text
from pipelines.llm.completions import Completions
from pipelines.llm.ledger import Ledger
from pipelines.run import maker
from pipelines.stage import gather

WINDOW = 500
"""Samples whose prompts are in memory at once."""


def evaluate(
    data: Path, out: Path, solver: Solver, options: Options, limits: Limits, http_client: httpx2.AsyncClient | None = None
) -> dict[str, Any]:
    """Run a solver over the data and score it; returns what `scores.json` holds. Resumes from the ledger in `out`.

    Args:
        http_client: Only for tests: the transport.

    Raises:
        ConfigError: for options or data that cannot be used.
        Stopped: when a budget is used up or the endpoint keeps failing; what is paid for is kept.
    """
    solver.check()
    parts = find_parts(data)
    if solver.model in BASELINES:
        _claim(out, solver)
        for part in parts:
            _run_baseline(part, _predictions(out, part, parts), solver)
    else:
        asyncio.run(_ask_all(parts, out, solver, limits, http_client))
    return score(data, out, out / "scores", replace(options, name=options.name or solver.name))


def default_out(data: Path, solver: Solver) -> Path:
    """`RUN/evaluations/<data>-<solver>` beside the data's run, else `outputs/evaluations/...`."""
    first = find_parts(data)[0]
    root = run_of(first.path)
    folder = root / "evaluations" if root is not None else ROOT / "outputs" / "evaluations"
    label = f"{first.name if data.is_file() else 'tests'}-{solver.name}"
    return folder / "".join(c if c.isalnum() or c in "-_.=" else "_" for c in label)[:150]


def _claim(out: Path, solver: Solver) -> None:
    """One folder, one evaluation: the same solver resumes it, another one is refused."""
    told = {"ptool": __version__, "solver": solver.name, "made_by": maker(solver.model.partition(":")[0]), **asdict(solver)}
    if solver.model not in BASELINES:
        told["prompt"] = prompt_of(solver).ref
    path = out / "solver.json"
    if path.is_file():
        known, ours = load_line(path.read_bytes()), load_line(dumps(told))
        other = [k for k in ours if k not in ("ptool", "made_by") and known.get(k) != ours[k]] if isinstance(known, dict) else []
        if other:
            raise ConfigError(f"{out}: holds another evaluation ({', '.join(other)} differ); choose another folder with --out")
    write_text(path, [pretty(told) + "\n"])


def _predictions(out: Path, part: Part, parts: Sequence[Part]) -> Path:
    return out / part.name / "predictions.jsonl" if len(parts) > 1 else out / "predictions.jsonl"


def _run_baseline(part: Part, path: Path, solver: Solver) -> None:
    source = Source(part)

    def lines() -> Iterator[str]:
        for repeat in range(solver.repeats):
            baseline = Baseline(solver.model, solver.seed + 7919 * repeat, source)
            for item, seen in source:
                shown = changed(seen, solver.setting, source)
                yield _line(item, repeat, {"predict": baseline.answer(item, shown), "finish": "stop"})

    write_text(path, lines())


def _line(item: Item, repeat: int, told: dict[str, Any]) -> str:
    return dumps({"id": item.id, **({"repeat": repeat} if repeat else {}), **told}) + "\n"


async def _ask_all(parts: Sequence[Part], out: Path, solver: Solver, limits: Limits, http_client: httpx2.AsyncClient | None) -> None:
    template = Template(solver.template) if solver.template else None
    _claim(out, solver)
    ledger = Ledger(out / "ledger.sqlite")
    try:
        completions = Completions(solver.model, ledger, limits, http_client)
        try:
            for part in parts:
                source = Source(part)
                lines = [line async for line in _asked(source, solver, completions, template)]
                write_text(_predictions(out, part, parts), lines)
        finally:
            await completions.close()
    finally:
        ledger.close()


async def _asked(source: Source, solver: Solver, completions: Completions, template: Template | None) -> AsyncIterator[str]:
    """One line per sample and repeat, in the order of the samples."""
    examples = Examples(source) if solver.setting.shots else None
    prompt = prompt_of(solver)
    for repeat in range(solver.repeats):
        samples = iter(source)
        while window := list(islice(samples, WINDOW)):

            async def one(pair: tuple[Item, Seen], repeat: int = repeat) -> str:
                item, seen = pair
                request = Request(solver, prompt, template, _shown(seen, solver.setting, source, examples), repeat)
                return _line(item, repeat, await request.answer(completions))

            for line in await gather(window, one):
                yield line


def _shown(seen: Seen, setting: Setting, source: Source, examples: Examples | None) -> Seen:
    shown = changed(seen, setting, source)
    if setting.retrieve:
        shown = replace(shown, tools=retrieved(shown.tools, shown.query, setting.retrieve))
    if examples is not None:
        shown = replace(shown, examples=examples.of(seen.id, seen.scenario, seen.query, setting.shots, setting.shots_from))
    return shown
