"""The last stage: split files, their certificate, and whether the run is complete."""

from __future__ import annotations

from typing import Any

from pipelines.errors import ChecksFailed
from pipelines.jsonio import file_digest, pretty, read_lines, write_lines, write_text
from pipelines.records import Sample
from pipelines.run import Run
from pipelines.splits import PAPER_SPLITS, Quotas, assign_splits, certificate, certificate_problem


def write_splits(run: Run, quotas: Quotas) -> dict[str, int]:
    """Write `splits/*.jsonl` and `splits/certificate.json`; returns the sizes.

    Raises:
        ChecksFailed: when the certificate shows a leak.
    """
    path = run.file("08_samples")
    index = [(sample.id, sample.user, sample.scenario) for sample in read_lines(path, Sample)]
    split_of = assign_splits(run.config, quotas, index)
    sizes: dict[str, int] = {}
    digests: dict[str, str] = {}
    for name in PAPER_SPLITS:
        sizes[name] = sum(split == name for split in split_of.values())
        target = run.root / "splits" / f"{name}.jsonl"
        write_lines(
            target,
            (sample.model_copy(update={"split": name}) for sample in read_lines(path, Sample) if split_of[sample.id] == name),
        )
        digests[name] = file_digest(target)
    found = certificate((s.model_copy(update={"split": split_of[s.id]}) for s in read_lines(path, Sample)), quotas.untrained)
    write_text(run.root / "splits" / "certificate.json", [pretty({**found, "sha256": digests}) + "\n"])
    wanted = run.config.samples.model_dump()
    run.manifest["splits"] = {"sizes": sizes, "wanted": wanted, "sha256": digests}
    run.manifest["complete"] = sizes == wanted
    run.write_manifest()
    problem = certificate_problem(found)
    if problem:
        raise ChecksFailed(f"splits: {problem}; see {run.root / 'splits' / 'certificate.json'}")
    return sizes


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
    return f"incomplete: missing {missing}; short cells: {cells}; most frequent rejections: {top}"
