"""`ptool audit RUN`: the quality report of a finished run."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ChecksFailed, ConfigError

if TYPE_CHECKING:
    from pipelines.records import Sample
    from pipelines.run import Run


def add_commands(commands: Any) -> None:
    """`audit`."""
    audit = commands.add_parser("audit", help="quality report of a run: proofs, leaks, learnability, coverage")
    audit.add_argument("folder", type=Path, metavar="RUN")
    audit.add_argument("--strict", action="store_true", help="also prove every sample again from the files alone")
    audit.add_argument(
        "--calibrate", action="store_true", help="also plant defects and measure what rules and judges catch (asks the model)"
    )
    audit.add_argument("--per-type", type=int, default=60, metavar="N", help="samples per planted defect; default 60")
    audit.add_argument("--processes", type=int, metavar="N", help="for --strict; default one per core")
    audit.add_argument("--json", action="store_true", help="print the report as one JSON object")
    audit.set_defaults(run=_audit)


def _audit(args: argparse.Namespace) -> int:
    from pipelines.audit.counting import told
    from pipelines.jsonio import pretty, write_text
    from pipelines.run import load_run

    if not 1 <= args.per_type <= 5000:
        raise ConfigError(f"--per-type is {args.per_type}; write 1 to 5000")
    if args.processes is not None and not 1 <= args.processes <= 64:
        raise ConfigError(f"--processes is {args.processes}; write 1 to 64")
    run = load_run(args.folder)
    found = audit(run, strict=args.strict, processes=args.processes)
    if args.calibrate:
        found["calibration"] = asyncio.run(_calibrated(args.folder, args.per_type))
    from pipelines.audit import page

    report = args.folder / "report"
    write_text(report / "audit.json", [pretty(found) + "\n"])
    write_text(report / "audit.md", [page.markdown(found)])
    for name, drawn in page.plots(found).items():
        write_text(report / name, [drawn])
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        if args.strict:
            print(f"proved again from the files: {found['strict']['checked']:,} samples, {found['strict']['violations']:,} violations")
            for entry in found["strict"]["shown"][:5]:
                print(f"  {entry['sample']}: {entry['rule']}: {entry['detail'][:120]}")
        for name, row in (found.get("offline") or {}).items():
            if name != "caught_by_type":
                print(f"{name.replace('_', ' ')}: {told(row)}")
        for name, row in found["learnability"]["readers"].items():
            print(f"gold platform from {name}: {told(row)}")
        print(f"flip pairs: {told(found['flip_pairs'])}")
        if args.calibrate:
            print(f"false alarms on clean samples, rules and judges: {told(found['calibration']['false_alarms']['both'])}")
            weakest = sorted(found["calibration"]["per_type"].items(), key=lambda item: item[1]["both"]["share"] or 0)[:3]
            print("least caught: " + "; ".join(f"{name} {told(row['both'])}" for name, row in weakest))
        print(report / "audit.md")
    if found["problems"]:
        raise ChecksFailed(f"audit: {'; '.join(found['problems'])}; see {report / 'audit.md'}")
    return 0


def audit(run: Run, strict: bool = False, processes: int | None = None) -> dict[str, Any]:
    """The report as JSON: what the files say, and `problems`, empty when all checks hold.

    Raises:
        ConfigError: when the run holds no splits, or no samples.
    """
    from pipelines.audit import learn, texts
    from pipelines.audit.calibrate import measure_offline
    from pipelines.audit.strict import prove, read_population
    from pipelines.jsonio import read_lines
    from pipelines.records import Sample
    from pipelines.run import maker

    splits = sorted((run.root / "splits").glob("*.jsonl"))
    if not splits:
        raise ConfigError(f"{run.root}: has no splits yet; finish it with `ptool run`")
    found: dict[str, Any] = {"run": run.root.name, "made_by": maker(run.config.model), "problems": []}
    if strict:
        found["strict"] = prove(run.root, processes).report()
        if found["strict"]["violations"]:
            found["problems"].append(f"{found['strict']['violations']} violations in {found['strict']['checked']} samples")
    samples = [_light(sample) for split in splits for sample in read_lines(split, Sample)]
    if not samples:
        raise ConfigError(f"{run.root}: its splits are empty; nothing to audit")
    found["samples"] = len(samples)
    found["coverage"] = texts.coverage(samples)
    found["flip_pairs"] = texts.flip_pairs(samples)
    found["quotas"] = _quotas(run, samples)
    found["needed"] = _needed(samples)
    found["texts"] = texts.describe_texts(samples, run.config.seed)
    found["learnability"] = learn.learnability(samples, read_population(run.root), run.config.seed)
    problem = learn.problem_of(found["learnability"], run.config.query_only_bound)
    if problem:
        found["problems"].append(problem)
    if (run.root / "ledger.sqlite").exists():
        found["offline"] = measure_offline(run.root)
    return found


def _light(sample: Sample) -> Sample:
    """Without what the audit of the whole does not read, so that 100,000 fit in memory."""
    return sample.model_copy(update={"evidence": None, "accepted": [], "why": [], "optional": [], "prompts": []})


def _quotas(run: Run, samples: list[Sample]) -> dict[str, Any]:
    """Wanted and met shares of controls, several calls and values of last time."""
    from pipelines.plans import CALLS, USUAL

    asked = run.config.shares.model_dump()
    empty = run.manifest["stages"].get("08_samples", {}).get("notes", {}).get("empty", {})
    rows: dict[str, Any] = {}
    for name, usual in USUAL.items():
        if name in CALLS:
            got = sum(len(s.calls) == CALLS[name] for s in samples)
        elif name == "history":
            got = sum(any(source.kind == "history" for call in s.calls for source in call.sources.values()) for s in samples)
        else:
            got = sum(s.control == name for s in samples)
        wanted = usual if asked[name] is None else asked[name]
        short = got < 0.8 * wanted * len(samples)
        why = f"{empty[name]} slots stayed empty" if name in empty else "the structure supports no more" if short else ""
        rows[name] = {"wanted": wanted, "got": round(got / len(samples), 4), "samples": got, "why": why}
    return rows


def _needed(samples: list[Sample]) -> dict[str, Any]:
    """The gate `needed`, where it ran: per split and condition the share that a solver gets right."""
    from pipelines.audit.counting import share

    rows: dict[str, dict[str, list[bool]]] = {}
    for sample in samples:
        for condition, result in sample.verification.needed.items():
            rows.setdefault(str(sample.split), {}).setdefault(condition, []).append(result == "passes")
    return {split: {name: share(sum(found), len(found)) for name, found in conditions.items()} for split, conditions in rows.items()}


async def _calibrated(folder: Path, per_type: int) -> dict[str, Any]:
    from pipelines.audit.calibrate import calibrate
    from pipelines.run import Run, load_run

    run = Run.open(folder, load_run(folder).config)
    try:
        return await calibrate(run.context, folder, per_type)
    finally:
        await run.close()
