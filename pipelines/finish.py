"""The last stage: split files, their certificate, and whether the run is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.errors import ChecksFailed
from pipelines.jsonio import canonical, digest, file_digest, pretty, read_lines, write_lines, write_text
from pipelines.records import Sample, SplitName
from pipelines.run import Run, maker
from pipelines.splits import (
    PAPER_SPLITS,
    SPLITS,
    Quotas,
    assign_splits,
    certificate,
    certificate_problem,
    held_out_split,
    stratum,
)


def write_splits(run: Run, quotas: Quotas) -> dict[str, int]:
    """Write `splits/*.jsonl` and `splits/certificate.json`; returns the sizes.

    Raises:
        ChecksFailed: when the certificate shows a leak.
    """
    path = run.file("08_samples")
    index, strata = [], {}
    held: dict[str, SplitName] = {}
    for sample in read_lines(path, Sample):
        index.append((sample.id, sample.user, sample.scenario))
        strata[sample.id] = stratum(sample)
        group = held_out_split(quotas, sample)
        if group is not None:
            held[sample.id] = group
    split_of = assign_splits(run.config, quotas, index, strata, held)
    wanted = {name: size for name, size in run.config.samples.model_dump().items() if size or name in PAPER_SPLITS}
    canary = canary_of(run)
    sizes: dict[str, int] = {}
    digests: dict[str, str] = {}

    def lines(name: SplitName) -> Iterator[Sample]:
        for sample in read_lines(path, Sample):
            if split_of[sample.id] == name:
                yield sample.model_copy(update={"split": name, "canary": canary if name != "train" else ""})

    for name in SPLITS:
        if name not in wanted:
            continue
        sizes[name] = sum(split == name for split in split_of.values())
        target = run.root / "splits" / f"{name}.jsonl"
        write_lines(target, lines(name))
        digests[name] = file_digest(target)
    outside = {"platforms": quotas.allowed.platforms, "apis": quotas.allowed.apis, "scenarios": quotas.scenarios}
    found = certificate((s.model_copy(update={"split": split_of[s.id]}) for s in read_lines(path, Sample)), quotas.untrained, outside)
    made_by = {"made_by": maker(run.config.model), "seed": run.config.seed, "canary": canary}
    write_text(run.root / "splits" / "certificate.json", [pretty({**made_by, **found, "sha256": digests}) + "\n"])
    run.manifest["splits"] = {"sizes": sizes, "wanted": wanted, "sha256": digests}
    run.manifest["complete"] = sizes == wanted and not unmet(run)
    run.write_manifest()
    problem = certificate_problem(found)
    if problem:
        raise ChecksFailed(f"splits: {problem}; see {run.root / 'splits' / 'certificate.json'}")
    return sizes


def canary_of(run: Run) -> str:
    """A string that stands in every test sample of this run and nowhere else: training data that holds it has seen the test."""
    made = run.manifest["stages"]["08_samples"]["sha256"]  # by content: the same data by another way has the same canary
    key = digest(canonical([made, "canary"])) + digest(canonical(["canary", made]))
    return f"ptool-canary-{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:32]}: this text must not be in training data"


def unmet(run: Run) -> dict[str, str]:
    """Shares that were asked for by number and not met: share -> what is missing."""
    empty: dict[str, int] = run.manifest["stages"]["08_samples"]["notes"].get("empty", {})
    asked = run.config.shares.model_dump()
    return {name: f"{count} slots of {name} stayed empty" for name, count in empty.items() if asked.get(name)}


def shortage(run: Run) -> str | None:
    """What is missing from the wanted sizes and where, or None."""
    splits: dict[str, Any] = run.manifest["splits"]
    missing = {k: splits["wanted"][k] - size for k, size in splits["sizes"].items() if splits["wanted"][k] != size}
    if not missing:
        return None
    short: dict[str, int] = run.manifest["stages"]["08_samples"]["notes"].get("short", {})
    cells = ", ".join(f"{cell} ({count})" for cell, count in list(short.items())[:5])
    reasons: dict[str, int] = {}
    for name in ("06_queries", "07_solutions", "08_samples"):
        for reason, count in run.manifest["stages"][name]["rejected"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    top = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items(), key=lambda i: -i[1])[:3])
    empty: dict[str, int] = run.manifest["stages"]["08_samples"]["notes"].get("empty", {})
    what = f"; slots left empty: {', '.join(f'{name} {count}' for name, count in empty.items())}" if empty else ""
    return f"incomplete: missing {missing}; short cells: {cells or 'no cell can hold them'}{what}; most frequent rejections: {top}"
