"""`ptool score`: join, score in parallel, add up, and write. Never calls a model."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.evaluation import official
from pipelines.evaluation.catalogue import Catalogue
from pipelines.evaluation.chunks import Done, Task, score_task, start_worker
from pipelines.evaluation.reader import Part, Predictions, find_parts, record_id, records
from pipelines.evaluation.report import write_report
from pipelines.evaluation.summary import KEPT_DETAILS, Options, Scored, cell_lines, names_of, sum_of, summary, write_official
from pipelines.jsonio import dumps, pretty, write_text

CHUNK = 1_000
PARALLEL_FROM = 20_000
"""Fewer samples are scored in this process: starting others takes longer."""


def score(data: Path, predictions: Path, out: Path, options: Options) -> dict[str, Any]:
    """Score predictions against data and write everything into a folder; returns what `scores.json` holds.

    Raises:
        ConfigError: for files that cannot be read or joined; nothing is written then.
    """
    parts = find_parts(data)
    files = [_predictions_of(predictions, part, len(parts)) for part in parts]
    scored = Scored()
    pieces: dict[str, list[str]] = {"disagreements": []}

    def rows() -> Iterator[str]:
        for part, file in zip(parts, files, strict=True):
            for done in _score_part(part, file, options, scored, shared=len(parts) > 1 and len(set(files)) == 1):
                pieces["disagreements"].append(done.disagreements)
                yield done.rows

    write_text(out / "rows.jsonl", rows())
    if not scored.samples:
        (out / "rows.jsonl").unlink(missing_ok=True)
        raise ConfigError(f"{data}: holds no records; write a file with at least one")
    if "official" in options.scorers:
        write_official(out, parts, scored, options)
    found = summary(data, parts, files, scored, options)
    if len(options.scorers) > 1:
        write_text(out / "disagreements.jsonl", pieces["disagreements"])
    write_text(out / "details.jsonl", (dumps(detail) + "\n" for detail in scored.details[:KEPT_DETAILS]))
    write_text(out / "cells.jsonl", cell_lines(scored.sums[options.main]))
    write_text(out / "scores.json", [pretty(found) + "\n"])
    write_report(out, found)
    return found


def _predictions_of(predictions: Path, part: Part, parts: int) -> Path:
    if predictions.is_file():
        return predictions
    if not predictions.is_dir():
        raise ConfigError(f"{predictions}: is not there; write a predictions file, or the folder that holds them")
    tried = [predictions / part.name / name for name in ("generation.jsonl", "predictions.jsonl")]
    tried += [predictions / f"{part.name}.jsonl"]
    if parts == 1:
        tried += [predictions / "generation.jsonl", predictions / "predictions.jsonl"]
    tried += [predictions / "predictions.jsonl"]
    for path in tried:
        if path.is_file():
            return path
    raise ConfigError(f"{predictions}: has no predictions for {part.name}; write {part.name}/generation.jsonl")


def _score_part(part: Part, file: Path, options: Options, scored: Scored, shared: bool) -> Iterator[Done]:
    ids = [record_id(raw, part, place) for place, raw in enumerate(records(part))]
    if len(set(ids)) != len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise ConfigError(f"{part.path}: id {twice!r} occurs more than once; ids must be unique")
    predictions = Predictions(file, ids)
    joined = predictions.joined
    if shared and joined.by == "order":
        raise ConfigError(f"{file}: has no ids, so it fits one data file; write {part.name}/generation.jsonl for each")
    table = scored.tables.setdefault(part.name, official.Table())
    stopped = ""
    other, other_at, unqueried = 0, -1, 0
    try:
        for done in _scored(part, predictions, ids, options):
            table.merge(done.table)
            _add(scored, done, options)
            stopped = stopped or done.file_problem
            other, unqueried = other + done.other_query, unqueried + done.unqueried
            other_at = done.other_query_at if other_at < 0 else other_at
            yield done
    finally:
        predictions.close()
    _check_join(file, predictions, options, other, other_at, unqueried)
    if stopped or joined.blank or joined.broken:
        joined.notes.append("blank or broken lines stop the published scorer; here they are counted as failures")
        if options.scorer == "official":
            raise ConfigError(f"{file}: {stopped or 'has blank or broken lines'}: the published scorer stops there; use --scorer strict")
        scored.problems.append(f"{file.name}: {stopped or 'blank or broken lines'}")
    if shared:
        joined.unknown_ids = 0
    scored.joined.append({"part": part.name, "file": str(file.resolve()), **asdict(joined)})


def _check_join(file: Path, predictions: Predictions, options: Options, other: int, other_at: int, unqueried: int) -> None:
    """By order, counts must agree, or the queries must show which lines are missing; the official scorer trusts the order."""
    joined = predictions.joined
    if joined.by == "id":
        return
    if other:
        note = f"line {other_at + 1} answers another query than record {other_at + 1} asks ({other} such lines)"
        if options.scorer != "official":
            raise ConfigError(f"{file}: {note}; give each line the `id` of its record")
        joined.notes.append(note)
    if joined.missing or joined.extra:
        note = f"{joined.samples - joined.missing + joined.extra} lines for {joined.samples} records"
        if options.scorer != "official" and unqueried:
            raise ConfigError(f"{file}: {note}, and no ids to tell which is whose; give each line the `id` of its record")
        joined.notes.append(note)


def _scored(part: Part, predictions: Predictions, ids: Sequence[str], options: Options) -> Iterator[Done]:
    """The parts of the work, in order; by other processes when there is much of it."""
    catalogue = Catalogue.beside(part.path)

    def tasks() -> Iterator[Task]:
        for repeat in range(predictions.joined.repeats):
            pairs = zip(records(part), predictions.in_order(repeat), strict=True)
            first = 0
            while chunk := list(islice(pairs, CHUNK)):
                yield Task(
                    part.name, str(part.path), first, repeat, chunk, predictions.joined.by == "order", options.scorers, options.overrides,
                    predictions.joined.repeats > 1,
                )  # fmt: skip
                first += len(chunk)

    workers = options.workers or len(os.sched_getaffinity(0))
    if workers == 1 or len(ids) * predictions.joined.repeats < PARALLEL_FROM:
        for task in tasks():
            yield score_task(task, catalogue)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), start_worker, (catalogue,)) as pool:
        waiting: deque[Future[Done]] = deque()
        for task in tasks():
            waiting.append(pool.submit(score_task, task))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _add(scored: Scored, done: Done, options: Options) -> None:
    for name, sums in done.sums.items():
        mine = scored.sums.setdefault(name, {})
        for key, vector in sums.items():
            known = mine.get(key)
            mine[key] = vector if known is None else known + vector
    scored.failures.update(done.failures)
    scored.flags.update(done.flags)
    scored.between.update(done.between)
    scored.unscorable += done.unscorable
    scored.samples += done.rows.count("\n")
    if len(scored.details) < KEPT_DETAILS:
        scored.details.extend(done.details)
    if options.main in done.sums:
        pair = scored.by_repeat.setdefault(done.repeat, [0.0, 0.0])
        total = sum_of(done.sums[options.main])
        place, width = names_of(options.main).index("overall"), len(names_of(options.main))
        pair[0] += float(total[place])
        pair[1] += float(total[width + place])
    for sample, right in done.right.items():
        scored.right[sample] = scored.right.get(sample, 0) + right
