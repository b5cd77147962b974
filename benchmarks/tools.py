"""Speed of tools: import of lists, a 10 MB OpenAPI document, near-duplicates among 100,000 APIs, calls of one more scenario.

`python benchmarks/tools.py [LIST.jsonl ...]` prints a table for RESULTS.md; files of real tool lists may be named.
Each part runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

MANY = 100_000
SOME = 10_000


def main() -> None:
    """All parts, one after the other."""
    lists = [Path(name) for name in sys.argv[1:]]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jsonschema", "referencing", "PyYAML", "scikit-learn", "numpy"))
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}")
    print("| what | wall | CPU | peak memory | result |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        if lists:
            report(f"import of {len(lists)} files of tool lists", import_lists, lists)
        for name in ("document.json", "document.yaml"):
            path = Path(folder) / name
            write_document(path)
            report(f"import of a {path.stat().st_size / 1e6:.1f} MB OpenAPI document ({path.suffix[1:]})", import_document, path)
        report(f"near-duplicates among {MANY:,} APIs (MinHash, LSH)", prune_many, MANY)
        report(f"near-duplicates among {SOME:,} APIs, both methods", prune_both, SOME)
        report("model calls of one more scenario, the 5th and the 6th", add_scenarios, Path(folder) / "run")


def report(what: str, part: Callable[..., str], *arguments: object) -> None:
    """Run one part in a new process and print its row."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=measured, args=(theirs, part, arguments))
    process.start()
    theirs.close()
    seconds, cpu, memory, result = ours.recv()
    process.join()
    print(f"| {what} | {seconds:.1f} s | {cpu:.1f} s | {memory:.2f} GiB | {result} |", flush=True)


def measured(pipe: multiprocessing.connection.Connection, part: Callable[..., str], arguments: tuple[object, ...]) -> None:
    """Time and peak memory of a part."""
    started = time.monotonic()
    result = part(*arguments)
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send((seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2, result))


def import_lists(paths: list[Path]) -> str:
    """Counts of each file."""
    from pipelines.imports import import_tools

    counts = [import_tools(path).counts for path in paths]
    return "; ".join(f"{c['tools']} tools, {c['accepted']} accepted, {c['distinct']} distinct" for c in counts)


def write_document(path: Path) -> None:
    """An OpenAPI document of about 10 MB: 4,500 operations, shared and circular schemas."""
    import yaml

    rng = random.Random(7)
    count = 4_500 if path.suffix == ".json" else 5_200
    schemas = {
        f"Thing{i}": {
            "type": "object",
            "description": " ".join(rng.choices(WORDS, k=30)),
            "properties": {
                **{f"field_{j}": {"type": "string", "description": " ".join(rng.choices(WORDS, k=12))} for j in range(8)},
                "owner": {"$ref": f"#/components/schemas/Thing{(i + 1) % 6}"} if i < 6 else {"type": "integer"},
            },
        }
        for i in range(count)
    }
    paths = {
        f"/things{i}/{{id}}": {
            "post": {
                "operationId": f"changeThing{i}",
                "description": " ".join(rng.choices(WORDS, k=25)),
                "tags": [f"part{i % 90}"],
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/Thing{i}"}}}},
                "responses": {"200": {"description": "Done."}},
            }
        }
        for i in range(count)
    }
    document = {"openapi": "3.1.0", "info": {"title": "Bench", "version": "1"}, "paths": paths, "components": {"schemas": schemas}}
    if path.suffix == ".json":
        path.write_text(json.dumps(document, indent=1))
    else:
        path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False))


def import_document(path: Path) -> str:
    """One API per operation."""
    from pipelines.imports import import_tools

    result = import_tools(path, form="openapi")
    return f"{result.counts['accepted']:,} of {result.counts['tools']:,} operations, {len(result.scenarios)} scenarios"


WORDS = [
    a + b for a in ("ka", "lo", "mi", "ne", "ru", "sta", "pol", "ver", "qui", "dro") for b in ("ban", "del", "fir", "gor", "hum", "jil")
] + [f"{a}{b}{c}" for a in "bdfglmnprst" for b in ("ar", "en", "il", "or", "us") for c in ("a", "e", "ik", "on", "um", "et", "ix")]


def made_up(count: int) -> tuple[list[object], set[int]]:
    """APIs of which every tenth repeats an earlier one with one word changed, and which ones do."""
    from pipelines.tools.prune import ApiText

    rng = random.Random(11)
    texts: list[list[str]] = []
    planted: set[int] = set()
    for index in range(count):
        if index >= 10 and index % 10 == 0:
            words = list(texts[rng.randrange(index)])
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            planted.add(index)
        else:
            words = rng.choices(WORDS, k=rng.randint(30, 60))
        texts.append(words)
    return [ApiText(f"api_{i}", " ".join(words)) for i, words in enumerate(texts)], planted


def prune_many(count: int) -> str:
    """How many of the planted repetitions are found."""
    from pipelines.tools.prune import near_duplicates

    apis, planted = made_up(count)
    started = time.process_time()
    found = {dropped.index for dropped in near_duplicates(apis)}  # type: ignore[arg-type]
    seconds = time.process_time() - started
    share = len(found & planted) / len(planted)
    return f"{seconds:.1f} s of CPU without making them up; {share:.2%} of {len(planted):,} planted found, {len(found - planted)} others"


def prune_both(count: int) -> str:
    """The same APIs with all pairs and with hashing: how much faster, and what it misses."""
    from pipelines.tools import prune

    apis, _ = made_up(count)
    times, found = [], []
    for bound in (10**9, 0):
        prune.ALL_PAIRS = bound
        started = time.process_time()
        found.append({dropped.index for dropped in prune.near_duplicates(apis)})  # type: ignore[arg-type]
        times.append(time.process_time() - started)
    shared = len(found[0] & found[1]) / len(found[0])
    return f"all pairs {times[0]:.1f} s, hashed {times[1]:.1f} s, ratio {times[0] / times[1]:.1f}; {shared:.2%} of what all pairs find"


def add_scenarios(root: Path) -> str:
    """Calls for the 5th and the 6th scenario of one run."""
    import asyncio

    import flows
    from pipelines import config
    from pipelines.extend import add_scenario
    from pipelines.run import Run, load_run

    settings, origin = config.load("quick", None, {"scenarios": ["shopping", "takeout", "work", "travel"]})

    async def make() -> None:
        run = Run.open(root, settings, origin)
        try:
            await flows.pipeline(run)
        finally:
            await run.close()

    def calls() -> int:
        run = load_run(root)
        with run.reading():
            return run.ledger.total().calls

    asyncio.run(make())
    counts = [calls()]
    sixth = root.parent / "garden.yaml"
    sixth.write_text("name: garden_care\ndescription: Looking after a garden, from seeds to hedges.\n")
    for scenario in ("entertainment", str(sixth)):
        asyncio.run(add_scenario(root, config.read_scenario(scenario)))
        counts.append(calls())
    fifth, last = counts[1] - counts[0], counts[2] - counts[1]
    return f"{counts[0]:,} for the first four; {fifth} for the 5th, {last} for the 6th, ratio {last / fifth:.2f}"


if __name__ == "__main__":
    main()
