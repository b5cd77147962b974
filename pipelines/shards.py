"""The sample stages in shards of users: each shard keeps its own files, all are merged in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pipelines.jsonio import read_lines, write_lines, write_text
from pipelines.loop import Population, fill_cells
from pipelines.records import Query, Record, Rejection, Sample, Solution
from pipelines.run import LOOP, STAGES, Run
from pipelines.splits import Quotas, balance, plan_quotas

Kind = TypeVar("Kind", bound=Record)
_REJECTED = {"06_queries": "queries", "07_solutions": "solutions", "08_samples": "verify"}


@dataclass(frozen=True)
class Shard:
    """Some users' cells."""

    number: int
    cells: tuple[tuple[str, str], ...]


def plan(run: Run, population: Population, apart: frozenset[str] | None = None) -> tuple[Quotas, list[Shard]]:
    """Quotas of all cells, and the cells in shards of whole users; `apart` are the untrained users where that is settled."""
    golds = population.golds(run.context)
    cells = list(golds)
    platforms = {cell: frozenset(found.values()) for cell, found in golds.items()}
    quotas = plan_quotas(run.config, list(population.profiles), platforms, population.world, apart)
    quotas = replace(quotas, contexts=balance(golds))
    users = list(dict.fromkeys(user for user, _ in cells))
    size = run.config.limits.shard_users
    shards = []
    for number, start in enumerate(range(0, len(users), size)):
        mine = set(users[start : start + size])
        shards.append(Shard(number, tuple(cell for cell in cells if cell[0] in mine)))
    return quotas, shards


async def fill(run: Run, population: Population, quotas: Quotas, shard: Shard, key: str) -> Path:
    """Fill one shard's cells, or find them done; returns its folder."""
    folder = run.part(shard.number)
    done = folder / "done"
    mark = f"{key} {shard.cells}"
    if done.exists() and done.read_text(encoding="utf-8") == mark:
        return folder
    people = replace(population, strangers=run.config.needed)
    results = await fill_cells(run.context, people, quotas, shard.cells)
    made: dict[str, list[Record]] = {
        "06_queries": [record for result in results for record in result.queries],
        "07_solutions": [record for result in results for record in result.solutions],
        "08_samples": [record for result in results for record in result.samples],
    }
    for name in LOOP:
        write_lines(folder / f"{name}.jsonl", made[name])
        lost = [r for result in results for r in result.rejected if r.stage == _REJECTED[name]]
        write_lines(folder / f"{name}.rejected.jsonl", lost)
    short = [{"cell": r.key, "short": r.short, "empty": dict(sorted(r.empty.items()))} for r in results if r.short]
    write_lines(folder / "short.jsonl", short)
    write_text(done, [mark])
    return folder


async def fill_alone(address: str, limits: dict[str, Any], number: int, key: str) -> str:
    """Fill one shard in a process of its own, from the files of stages 1 to 5; returns the shard's folder.

    Every process asks the same ledger, so a shard that is done again after its process died pays only for what was
    in flight.

    Args:
        address: The run folder, or the URL it is mirrored to.
        limits: As in the config; `concurrency` counts for this process.
        number: Which shard; the plan is made again here and is the same everywhere.
        key: Of the sample stages, as the parent computed it.
    """
    from pipelines.remote import Mirror, is_url, local_path, work_folder

    mirror = Mirror(address, work_folder(address)) if is_url(address) else None
    if mirror is not None:
        await mirror.fetch(but_parts=True)
    run = Run.join(work_folder(address) if mirror is not None else local_path(address), limits)
    try:
        population = Population.of(*(list(run.read(name)) for name in list(STAGES)[:5]))  # type: ignore[arg-type]
        quotas, shards = plan(run, population)
        folder = await fill(run, population, quotas, shards[number], key)
    finally:
        await run.close()
    if mirror is not None:
        await mirror.send(folder.relative_to(run.root).as_posix())
    return str(folder)


def merge(run: Run, folders: Sequence[Path], key: str) -> None:
    """Put the shards' files together in their order, and note what stayed empty."""
    import json

    short: dict[str, int] = {}
    empty: Counter[str] = Counter()
    for folder in folders:
        for line in (folder / "short.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            short[entry["cell"]] = entry["short"]
            empty.update(entry["empty"])
    kinds: dict[str, Any] = {"06_queries": Query, "07_solutions": Solution, "08_samples": Sample}
    for name in LOOP:
        notes = {"short": dict(sorted(short.items())), "empty": dict(sorted(empty.items()))} if name == "08_samples" and short else {}
        run.keep(name, key, _chain(folders, f"{name}.jsonl", kinds[name]), _chain(folders, f"{name}.rejected.jsonl", Rejection), notes)
    run.drop_parts()


def _chain(folders: Sequence[Path], name: str, kind: type[Kind]) -> Iterator[Kind]:
    for folder in folders:
        yield from read_lines(folder / name, kind)
