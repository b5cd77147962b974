"""People check a sample of the data: a sheet goes out, comes back filled, and what they corrected is applied with its history.

The sheet is CSV or JSONL. A person writes `right` or `wrong`; if wrong, which argument (`<call>.<path>`, or `platform`, `query`,
`act`), the right value, and where it comes from (`query` or `profile`).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from pipelines.errors import ConfigError
from pipelines.records import Record, Sample, Source

if TYPE_CHECKING:
    from pipelines.loop import Population
    from pipelines.run import Run

SHOWN = ("id", "split", "stratum", "time", "query", "facts", "act", "platform", "answer")
FILLED = ("verdict", "wrong", "value", "provenance", "note")
MOST_BYTES = 50_000_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Correction(Record):
    """One row of a filled sheet that was applied."""

    sample: str
    split: str
    verdict: str
    wrong: str
    """`<call>.<path>`, `platform`, `query` or `act`; empty for a right sample."""

    before: JsonValue
    after: JsonValue
    provenance: str
    note: str
    sheet: str
    """SHA-256 of the sheet."""

    done: str
    """`kept`, `corrected` or `withdrawn`."""


def add_commands(commands: Any) -> None:
    """`review`."""
    review = commands.add_parser("review", help="a sheet for people to check, and back: accuracy and corrections")
    review.add_argument("folder", type=Path, metavar="RUN")
    review.add_argument("--n", type=int, default=10, help="samples per stratum; default 10")
    review.add_argument("--format", choices=["csv", "jsonl"], default="csv")
    review.add_argument("--out", type=Path, metavar="FILE", help="the sheet; default RUN/review/sheet.csv")
    review.add_argument("--read", type=Path, metavar="FILE", help="read a filled sheet back and apply it")
    review.add_argument("--json", action="store_true", help="print the accuracy as one JSON object")
    review.set_defaults(run=_review)


def _review(args: argparse.Namespace) -> int:
    from pipelines.audit.counting import told
    from pipelines.run import load_run

    run = load_run(args.folder)
    if not sorted((run.root / "splits").glob("*.jsonl")):
        raise ConfigError(f"{run.root}: has no splits yet; finish it with `ptool run`")
    if args.read is None:
        if not 1 <= args.n <= 10_000:
            raise ConfigError(f"--n is {args.n}; write 1 to 10000")
        path = args.out or run.root / "review" / f"sheet.{args.format}"
        count = write_sheet(run, path, args.n, args.format)
        print(f"{path}: {count} samples; fill {', '.join(FILLED)}, then `ptool review {args.folder} --read {path}`")
        return 0
    found = apply_sheet(run, args.read)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(f"accuracy: {told(found['accuracy'])}")
    print(f"{found['corrected']} corrected, {found['withdrawn']} withdrawn, {found['unfilled']} rows not filled")
    for name, row in found["per_stratum"].items():
        print(f"  {name}: {told(row)}")
    return 0


def write_sheet(run: Run, path: Path, count: int, form: str) -> int:
    """Draw `count` samples per stratum (split and kind or control) and write them; returns how many."""
    from pipelines.audit.strict import read_population
    from pipelines.jsonio import dumps, write_text
    from pipelines.splits import stratum

    piles: dict[str, list[Sample]] = defaultdict(list)
    for sample in _samples(run):
        piles[f"{sample.split} {stratum(sample)}"].append(sample)
    people = read_population(run.root)
    rows = []
    for name, pile in sorted(piles.items()):
        rng = run.config.rng("review", name)
        rows += [_row(sample, name, people) for sample in rng.sample(pile, min(count, len(pile)))]
    if form == "jsonl":
        write_text(path, (dumps(row) + "\n" for row in rows))
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, [*SHOWN, *FILLED])
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
        write_text(path, [text.getvalue()])
    return len(rows)


def _row(sample: Sample, name: str, people: Population) -> dict[str, Any]:
    profile = people.profiles[sample.user]
    read = {s.at for call in sample.calls for s in call.sources.values() if s.kind == "profile"} | set(sample.overrides.values())
    lines = []
    for number, call in enumerate(sample.calls):
        lines.append(
            {
                "call": number,
                "api": call.api,
                "arguments": call.arguments,
                "sources": {p: f"{s.kind} {s.at}" for p, s in call.sources.items()},
            }
        )
    return {
        "id": sample.id, "split": sample.split, "stratum": name, "time": sample.time, "query": sample.query,
        "facts": {feature: profile.basic.get(feature) for feature in sorted(read)}, "act": sample.act, "platform": sample.platform,
        "answer": lines or sample.missing, "verdict": "", "wrong": "", "value": "", "provenance": "", "note": "",
    }  # fmt: skip


def _cell(value: Any) -> str:
    """Text for a spreadsheet; what would be a formula there gets an apostrophe."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _samples(run: Run) -> Iterator[Sample]:
    from pipelines.jsonio import read_lines

    for path in sorted((run.root / "splits").glob("*.jsonl")):
        yield from read_lines(path, Sample)


def read_sheet(path: Path) -> list[dict[str, str]]:
    """The rows of a filled sheet, all values as text.

    Raises:
        ConfigError: naming the file, the row and what to write instead.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path}: larger than {MOST_BYTES:,} bytes; read it in parts")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8; save the sheet as CSV UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror}; write the path of the filled sheet") from None
    if path.suffix == ".jsonl":
        rows = []
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise ConfigError(f"{path}, line {number}: not JSON; restore the line") from None
            if not isinstance(row, dict):
                raise ConfigError(f"{path}, line {number}: not an object; restore the line")
            rows.append({str(k): v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in row.items()})
    else:
        try:
            rows = [{str(k): (v or "") for k, v in row.items() if k is not None} for row in csv.DictReader(io.StringIO(text, newline=""))]
        except csv.Error as error:
            raise ConfigError(f"{path}: not CSV: {error}; save the sheet as CSV UTF-8") from None
    for number, row in enumerate(rows, start=2):
        missing = [name for name in ("id", "verdict") if name not in row]
        if missing:
            raise ConfigError(f"{path}, row {number}: has no column {missing[0]!r}; keep the columns of the sheet")
    return rows


def apply_sheet(run: Run, path: Path) -> dict[str, Any]:
    """Accuracy with its interval; corrections are written into the splits, what stood there goes to `review/history.jsonl`.

    All rows are checked before anything is written. A wrong sample with a right value is corrected; one without is withdrawn.
    """
    from pipelines.audit.counting import share
    from pipelines.audit.strict import read_population
    from pipelines.jsonio import file_digest, read_lines, write_lines

    rows = read_sheet(path)
    sheet = file_digest(path)
    known = {sample.id: sample for sample in _samples(run)}
    people = read_population(run.root)
    made: list[Correction] = []
    changed: dict[str, Sample | None] = {}
    counts: dict[str, list[bool]] = defaultdict(list)
    unfilled = 0
    for number, row in enumerate(rows, start=2):
        where = f"{path}, row {number}"
        verdict = row["verdict"].strip().casefold()
        if not verdict:
            unfilled += 1
            continue
        sample = known.get(row["id"].lstrip("'"))
        if sample is None:
            raise ConfigError(f"{where}: no sample {row['id'][:80]!r} in the splits; keep the ids of the sheet")
        if verdict not in ("right", "wrong"):
            raise ConfigError(f"{where}: verdict is {row['verdict'][:40]!r}; write right or wrong")
        if sample.id in {correction.sample for correction in made}:
            raise ConfigError(f"{where}: {sample.id} stands in the sheet twice; keep one row")
        counts[row.get("stratum") or "all"].append(verdict == "right")
        correction, after = _correct(sample, row, verdict, people, where, sheet)
        made.append(correction)
        if correction.done != "kept":
            changed[sample.id] = after
    history = run.root / "review" / "history.jsonl"
    old = list(read_lines(history, Correction)) if history.exists() else []
    write_lines(history, [*old, *made])
    if changed:
        _rewrite(run, changed)
    right = sum(sum(found) for found in counts.values())
    return {
        "accuracy": share(right, sum(map(len, counts.values()))),
        "per_stratum": {name: share(sum(found), len(found)) for name, found in sorted(counts.items())},
        "corrected": sum(correction.done == "corrected" for correction in made),
        "withdrawn": sum(correction.done == "withdrawn" for correction in made),
        "unfilled": unfilled,
    }


def _correct(
    sample: Sample, row: Mapping[str, str], verdict: str, people: Population, where: str, sheet: str
) -> tuple[Correction, Sample | None]:
    from pipelines.world import flatten

    wrong, text, provenance = (row.get(name, "").strip().lstrip("'") for name in ("wrong", "value", "provenance"))
    common = {
        "sample": sample.id, "split": str(sample.split), "verdict": verdict, "wrong": wrong, "provenance": provenance,
        "note": row.get("note", "")[:1000], "sheet": sheet,
    }  # fmt: skip
    if provenance not in ("", "query", "profile"):
        raise ConfigError(f"{where}: provenance is {provenance[:40]!r}; write query or profile, or leave it empty")
    place, _, path = wrong.partition(".")
    is_argument = place.isdigit() and bool(path)
    if (verdict == "right" and not provenance) or (verdict == "wrong" and not text and not provenance):
        done = "kept" if verdict == "right" else "withdrawn"
        return Correction(before=None, after=None, done=done, **common), None
    if not is_argument and wrong in ("platform", "query", "act"):
        return Correction(before=None, after=text, done="withdrawn", **common), None
    if not is_argument or int(place) >= len(sample.calls):
        raise ConfigError(f"{where}: wrong is {wrong[:60]!r}; write <call>.<path> such as 0.item, or platform, query or act")
    number = int(place)
    call = sample.calls[number]
    api = people.world.api[sample.platform, call.api]
    schema = next((leaf.schema for leaf in people.world.leaves_of[api.id] if leaf.path == path), None)
    if schema is None:
        known = ", ".join(leaf.path for leaf in people.world.leaves_of[api.id])
        raise ConfigError(f"{where}: {api.name} has no parameter {path[:60]!r}; write one of {known}")
    flat = flatten(call.arguments, api.parameters)
    before = flat.get(path)
    value = _value(text, schema, where, path) if text else before
    if value is None:
        raise ConfigError(f"{where}: {path} has no value to keep; write one into the column value")
    kind: Any = provenance or (call.sources[path].kind if path in call.sources else "query")
    at = row.get("note", "").strip() if kind != "query" else ""
    feature = people.world.profile_feature(api, path)
    source = Source(
        kind=kind, at=feature or at if kind == "profile" else call.sources[path].at if path in call.sources and not text else at
    )
    after = _with_argument(sample, number, path, value, source, schema, api.parameters)
    return Correction(before=before, after=value, done="corrected", **common), after


def _value(text: str, schema: Mapping[str, Any], where: str, path: str) -> JsonValue:
    """The text as a value of the schema: as it stands, or read as JSON."""
    from pipelines.llm.schemas import first_error

    candidates: list[JsonValue] = [text]
    with contextlib.suppress(ValueError, RecursionError):
        candidates.append(json.loads(text))
    for candidate in candidates:
        if first_error(dict(schema), candidate) is None:
            return candidate
    raise ConfigError(f"{where}: value {text[:60]!r} does not fit {path}: {first_error(dict(schema), candidates[-1])}; write one that does")


def _with_argument(
    sample: Sample, number: int, path: str, value: JsonValue, source: Source, schema: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Sample:
    from pipelines.verify.accepted import accepted_values
    from pipelines.world import flatten, unflatten

    calls, accepted, why = list(sample.calls), list(sample.accepted), list(sample.why)
    call = calls[number]
    flat = {**flatten(call.arguments, parameters), path: value}
    calls[number] = call.model_copy(update={"arguments": unflatten(flat), "sources": {**call.sources, path: source}})
    values, reasons = accepted_values(value, dict(schema), source)
    accepted[number] = {**accepted[number], path: values}
    why[number] = {**why[number], path: ["corrected_by_hand", *reasons[1:]]}
    return sample.model_copy(update={"calls": calls, "accepted": accepted, "why": why})


def _rewrite(run: Run, changed: Mapping[str, Sample | None]) -> None:
    """Split files with the corrections, and a certificate that knows of them; the first originals stay in `review/before/`."""
    from pipelines.jsonio import file_digest, pretty, read_lines, write_lines, write_text
    from pipelines.splits import certificate

    folder = run.root / "splits"
    for path in sorted(folder.glob("*.jsonl")):
        samples = list(read_lines(path, Sample))
        if not any(sample.id in changed for sample in samples):
            continue
        before = run.root / "review" / "before" / path.name
        if not before.exists():
            write_text(before, [path.read_text(encoding="utf-8")])
        after = [changed.get(sample.id, sample) for sample in samples]
        write_lines(path, [sample for sample in after if sample is not None])
    old = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    made = certificate(_samples(run), frozenset(old["untrained_users"]), old.get("held_out", {}))
    digests = {path.stem: file_digest(path) for path in sorted(folder.glob("*.jsonl"))}
    write_text(folder / "certificate.json", [pretty({**old, **made, "sha256": digests, "corrected_by_hand": sorted(changed)}) + "\n"])
