"""`ptool add-scenario`: a finished run gets one more scenario; only what is new is asked for.

The new scenario is a generation of its own: a run with the same people, the same share of samples and the
parent's ledger, kept under `adding/` until it is complete. Only then is it merged: new records are
appended, so that every line about an old scenario keeps its bytes. People keep their basic features and
get preferences for the new scenario; the feature tree keeps its nodes and gets leaves and branches.
"""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.config import RunConfig, Samples, ScenarioSpec
from pipelines.errors import ChecksFailed, ConfigError
from pipelines.features import build_tree, tree_is_sound
from pipelines.finish import shortage
from pipelines.histories import simulate_histories
from pipelines.jsonio import dumps, file_digest, pretty, read_lines, write_lines, write_text
from pipelines.llm.client import LLM
from pipelines.loop import Population
from pipelines.profiles.preferences import Chooser, Person
from pipelines.records import API, FeatureNode, History, Profile, Sample, Scenario
from pipelines.run import LOOP, STAGES, Run, load_run
from pipelines.shards import fill, merge, plan
from pipelines.splits import PAPER_SPLITS, assign_splits, certificate, certificate_problem
from pipelines.stage import StageResult
from pipelines.tools import expand_apis, expand_scenarios
from pipelines.tools.tree import write_tools_report
from pipelines.world import leaves

INPUTS: dict[str, tuple[str, ...]] = {
    "01_scenarios": (),
    "02_apis": ("01_scenarios",),
    "03_features": ("01_scenarios", "02_apis"),
    "04_profiles": ("03_features",),
    "05_histories": ("02_apis", "04_profiles"),
    **dict.fromkeys(LOOP, ("02_apis", "03_features", "04_profiles", "05_histories")),
}
"""What each stage reads, as in `flows.pipeline`; the samples are keyed as one stage, `08_samples`."""


async def add_scenario(root: Path, spec: ScenarioSpec) -> dict[str, int]:
    """Extend the run in a folder by one scenario; returns the new sizes of its splits.

    Stopped at any point, the same command goes on where it was.

    Raises:
        ConfigError: when the folder holds no finished run, or has the scenario already.
        ChecksFailed: when the new scenario stays short of its samples, or a split would leak.
    """
    moved = finish_merge(root)
    parent = load_run(root)
    if moved and spec.id in {scenario.id for scenario in parent.config.scenarios}:
        return dict(parent.manifest["splits"]["sizes"])
    if not parent.manifest.get("splits") or any(name not in parent.manifest["stages"] for name in STAGES):
        raise ConfigError(f"{root}: is not finished; finish it with `ptool run`, then add the scenario")
    if spec.id in {scenario.id for scenario in parent.config.scenarios}:
        raise ConfigError(f"{root}: has the scenario {spec.name!r} already; give the new one another name")
    run = Run.open(root, parent.config, parent.origin)
    try:
        await run.llm.check()
        _stage_merge(run, await _grow(run, spec), spec)
        finish_merge(root)
    finally:
        await run.close()
    problem = shortage(load_run(root))
    if problem:
        raise ChecksFailed(problem)
    return dict(load_run(root).manifest["splits"]["sizes"])


def share(config: RunConfig, generations: Sequence[dict[str, Any]]) -> Samples:
    """Samples of one more scenario: what a scenario of the first generation has on average, rounded up."""
    count = len(generations[0]["scenarios"]) if generations else len(config.scenarios)
    wanted: dict[str, int] = generations[0]["samples"] if generations else config.samples.model_dump()
    return Samples(**{name: math.ceil(size / count) for name, size in wanted.items()})


async def _grow(run: Run, spec: ScenarioSpec) -> Run:
    """The new scenario as a run of its own, with the people of the old one and its ledger."""
    config = run.config.model_copy(update={"scenarios": [spec], "samples": share(run.config, run.generations)})
    child = Run.open(run.root / "adding" / spec.id, config, run.origin, lambda _: LLM(config.model, config.seed, run.ledger, config.limits))
    try:
        ctx, old = child.context, _World(run)
        brands = {platform.name.casefold() for scenario in old.scenarios for platform in scenario.platforms}

        async def profiles() -> StageResult[Profile]:
            people = [Person(p.id, p.basic, tuple(p.path)) for p in old.profiles]
            result: StageResult[Profile] = StageResult()
            chooser = Chooser(ctx, scenarios, result.rejected)
            wishes = await chooser.choose(people)
            result.notes = chooser.figures()
            result.kept = [p.model_copy(update={"preferences": wishes[p.id]}) for p in old.profiles]
            return result

        scenarios = await child.stage("01_scenarios", Scenario, [], lambda: expand_scenarios(ctx, [spec], brands))
        apis = await child.stage("02_apis", API, ["01_scenarios"], lambda: expand_apis(ctx, scenarios, [spec]))
        grown = await child.stage("03_features", FeatureNode, ["01_scenarios", "02_apis"], lambda: build_tree(ctx, scenarios, apis))
        features = joined(old.features, grown, spec.id)
        people = await child.stage("04_profiles", Profile, ["03_features"], profiles)
        inputs = ["02_apis", "04_profiles"]
        histories = await child.stage("05_histories", History, inputs, lambda: simulate_histories(ctx, scenarios, apis, people))
        population = Population.of(scenarios, apis, features, people, histories)
        quotas, shards = plan(child, population, old.untrained)
        key = child.key("08_samples", INPUTS["08_samples"])
        if not all(child.finished(name, key) for name in LOOP):
            merge(child, [await fill(child, population, quotas, shard, key) for shard in shards], key)
        index = [(s.id, s.user, s.scenario) for s in read_lines(child.file("08_samples"), Sample)]
        child.manifest["split_of"] = assign_splits(config, quotas, index)
    finally:
        await child.close()
    return child


class _World:
    """What the new generation needs to know of the old ones."""

    def __init__(self, run: Run) -> None:
        self.scenarios = list(read_lines(run.file("01_scenarios"), Scenario))
        self.features = list(read_lines(run.file("03_features"), FeatureNode))
        self.profiles = list(read_lines(run.file("04_profiles"), Profile))
        found = json.loads((run.root / "splits" / "certificate.json").read_text(encoding="utf-8"))
        self.untrained = frozenset(found["untrained_users"])


def joined(old: Sequence[FeatureNode], new: Sequence[FeatureNode], scenario: str) -> list[FeatureNode]:
    """The old tree with the new leaves: under old features of the same name and kind, the rest in branches of their own.

    Args:
        old: Nodes of the tree so far; ids, kinds and heights stay as they are.
        new: Nodes of the new scenario's own tree.
        scenario: Id of the new scenario, which makes ids unique.
    """
    known = {node.id: node for node in old}
    more: dict[str, list[str]] = {}
    name: dict[str, str | None] = {}
    for node in new:
        same = known.get(node.id)
        if same is not None and node.leaves and same.leaves and same.kind == node.kind:
            more.setdefault(node.id, []).extend(node.leaves)
            name[node.id] = None
        else:
            name[node.id] = node.id if same is None else f"{node.id}_{scenario}"
    added: list[FeatureNode] = []
    for node in sorted(new, key=lambda n: n.height):
        own = name[node.id]
        children = [found for child in node.children if (found := name[child]) is not None]
        if own is not None and (children or node.leaves):
            added.append(node.model_copy(update={"id": own, "children": children}))
        elif own is not None:
            name[node.id] = None  # all below it hangs in the old tree now
    kept = [node.model_copy(update={"leaves": [*node.leaves, *more[node.id]]}) if node.id in more else node for node in old]
    return [*kept, *sorted(added, key=lambda n: (-n.height, n.id))]


def _stage_merge(run: Run, child: Run, spec: ScenarioSpec) -> None:
    """Write the extended run beside the old one, complete to its config; `ready` says that it may be moved."""
    staged = run.root / "adding" / "merged"
    shutil.rmtree(staged, ignore_errors=True)
    old = _World(run)
    merged = Run(staged, _extended(run, child), run.origin)
    nodes = joined(old.features, list(read_lines(child.file("03_features"), FeatureNode)), spec.id)
    _check_tree(run, child, nodes)
    wishes = {p.id: p.preferences for p in read_lines(child.file("04_profiles"), Profile)}
    for name in STAGES:
        write_text(merged.file(name), _appended(run.file(name), child.file(name)))
        lost = f"rejected/{name}.jsonl"
        write_text(staged / lost, _appended(run.root / lost, child.root / lost))
    write_lines(merged.file("03_features"), nodes)
    write_lines(
        merged.file("04_profiles"),
        (p.model_copy(update={"preferences": [*p.preferences, *wishes[p.id]]}) for p in old.profiles),
    )
    split_of: dict[str, str] = child.manifest["split_of"]
    for split in PAPER_SPLITS:
        write_text(staged / "splits" / f"{split}.jsonl", _split(run, child, split, split_of))
    _write_account(run, child, merged, old.untrained, spec)
    write_tools_report(merged)
    write_text(run.root / "adding" / "ready", [f"{spec.id}\n"])


def finish_merge(root: Path) -> bool:
    """Move what is ready into the run; safe to repeat after a stop. Returns whether there was anything."""
    staged = root / "adding" / "merged"
    if not (root / "adding" / "ready").exists():
        return False
    files = sorted(path for path in staged.rglob("*") if path.is_file() and not path.name.endswith((".move", ".tmp")))
    for path in sorted(files, key=lambda p: p.name == "config.json"):  # the config comes last: it makes the extension real
        twin = path.with_name(f"{path.name}.move")
        twin.unlink(missing_ok=True)
        os.link(path, twin)  # moving a second name leaves the first for a later try
        target = root / path.relative_to(staged)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(twin, target)
    shutil.rmtree(root / "adding", ignore_errors=True)
    return True


def _check_tree(run: Run, child: Run, nodes: Sequence[FeatureNode]) -> None:
    wanted = []
    for owner in (run, child):
        scenarios = read_lines(owner.file("01_scenarios"), Scenario)
        wanted += [f"{s.id}#{t.name}" for s in scenarios for t in s.traits]
        wanted += [f"{a.id}#{leaf.path}" for a in read_lines(owner.file("02_apis"), API) for leaf in leaves(a.parameters)]
    problem = tree_is_sound(nodes, wanted)
    if problem:
        raise ChecksFailed(f"feature tree: {problem}")


def _appended(first: Path, second: Path) -> Iterator[str]:
    """The old file, byte for byte, then the new one."""
    for path in (first, second):
        if path.exists():
            with path.open(encoding="utf-8", newline="\n") as file:
                yield from file


def _split(run: Run, child: Run, split: str, split_of: Mapping[str, str]) -> Iterator[str]:
    yield from _appended(run.root / "splits" / f"{split}.jsonl", Path(os.devnull))
    for sample in read_lines(child.file("08_samples"), Sample):
        if split_of[sample.id] == split:
            yield dumps(sample.model_copy(update={"split": split})) + "\n"


def _extended(run: Run, child: Run) -> RunConfig:
    samples = {name: size + getattr(child.config.samples, name) for name, size in run.config.samples.model_dump().items()}
    return run.config.model_copy(update={"scenarios": [*run.config.scenarios, *child.config.scenarios], "samples": Samples(**samples)})


def _write_account(run: Run, child: Run, merged: Run, untrained: frozenset[str], spec: ScenarioSpec) -> None:
    """Certificate, manifest and config of the extended run."""
    first = {"scenarios": [s.id for s in run.config.scenarios], "samples": run.config.samples.model_dump()}
    generations = [*(run.generations or [first]), {"scenarios": [spec.id], "samples": child.config.samples.model_dump()}]
    merged.manifest = copy.deepcopy(run.manifest)
    stages: dict[str, Any] = merged.manifest["stages"]
    for name in STAGES:
        mine, new = stages[name], child.manifest["stages"][name]
        lost = Counter(mine["rejected"])
        lost.update(new["rejected"])
        short = {**mine["notes"].get("short", {}), **new["notes"].get("short", {})}
        mine |= {
            "sha256": file_digest(merged.file(name)),
            "kept": sum(1 for _ in merged.read(name)),
            "rejected": dict(sorted(lost.items(), key=lambda item: (-item[1], item[0]))),
            "notes": {**mine["notes"], **({"short": short} if short else {}), f"added {spec.id}": new["kept"]},
        }
    for name in STAGES:
        stages[name]["key"] = merged.key("08_samples" if name in LOOP else name, INPUTS[name])
    files = {split: merged.root / "splits" / f"{split}.jsonl" for split in PAPER_SPLITS}
    found = certificate((sample for path in files.values() for sample in read_lines(path, Sample)), untrained)
    problem = certificate_problem(found)
    if problem:
        raise ChecksFailed(f"splits: {problem}; nothing was added")
    digests = {split: file_digest(path) for split, path in files.items()}
    write_text(merged.root / "splits" / "certificate.json", [pretty({**found, "sha256": digests}) + "\n"])
    sizes = {split: found["sizes"].get(split, 0) for split in PAPER_SPLITS}
    wanted = {name: size for name, size in merged.config.samples.model_dump().items() if size or name in sizes}
    merged.manifest |= {"splits": {"sizes": sizes, "wanted": wanted, "sha256": digests}, "complete": sizes == wanted}
    merged.write_manifest()
    told = json.loads((run.root / "config.json").read_text(encoding="utf-8"))
    write_text(merged.root / "config.json", [pretty({**told, "data": merged.config.data(), "generations": generations}) + "\n"])
