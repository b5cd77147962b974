"""What people read of a run: the summary, the tables and samples of each stage, one record with its evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.jsonio import pretty, read_lines
from pipelines.llm.budget import money
from pipelines.people.portrait import portrait, timeline
from pipelines.people.tree import mermaid
from pipelines.records import (
    API,
    FeatureNode,
    History,
    Profile,
    Query,
    Record,
    Rejection,
    Sample,
    Scenario,
    Solution,
    ToolCall,
)
from pipelines.run import LOOP, STAGES, Run, maker

CUT = 120
"""Characters of a table cell."""
LEDGER_STAGE = {
    "01_scenarios": "scenarios",
    "02_apis": "apis",
    "03_features": "features",
    "04_profiles": "profiles",
    "05_histories": "histories",
    "06_queries": "queries",
    "07_solutions": "solutions",
    "08_samples": "verify",
}


def cut(text: str, size: int = CUT) -> str:
    """One line of at most `size` characters."""
    text = " ".join(text.split())
    return text if len(text) <= size else text[: size - 1] + "…"


def fenced(text: str) -> str:
    """Text in a code block that it cannot close: model text is never rendered."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


# One stage


def stage_title(run: Run, name: str) -> str:
    """What the artifact is, and who made the data."""
    return f"{name} of {run.root.name}; made by {maker(run.config.model)}"


def maker_line(run: Run) -> str:
    """One sentence that no artifact may lack: who made the data."""
    return f"Made by {maker(run.config.model)}."


def cost_words(run: Run, stage: str | None = None) -> str:
    """What the run or one stage has cost so far, in words: an unknown price is said to be unknown."""
    used = run.ledger.total() if stage is None else run.ledger.usage()[stage]
    if run.config.model == "offline" and not used.unpriced:
        return "0 (offline)"
    return money(used.cost, used.unpriced, "in all sessions")


def stage_line(run: Run, name: str) -> str:
    """One line for the log of a run."""
    entry = run.manifest["stages"].get(name)
    if entry is None:
        return f"{name}: {run.manifest.get('splits', {}).get('sizes', {})}"
    lost = ", ".join(f"{reason} {count}" for reason, count in list(entry["rejected"].items())[:4]) or "nothing"
    return f"{name}: kept {entry['kept']:,}, lost {lost}{'; as before' if name in run.reused else ''}"


def sample_yield(run: Run) -> float:
    """Samples kept per slot attempted in the sample stages; 1 when nothing was lost."""
    stages = run.manifest["stages"]
    kept = stages.get("08_samples", {}).get("kept", 0)
    lost = sum(sum(stages.get(name, {}).get("rejected", {}).values()) for name in LOOP)
    return round(kept / (kept + lost), 3) if kept + lost else 1.0


def stage_rows(run: Run, name: str) -> list[dict[str, Any]]:
    """The stage's table: in, kept, a row per reason of loss, calls, tokens, cost, and the run's folder."""
    entry = run.manifest["stages"].get(name, {})
    usage = run.ledger.usage().get(LEDGER_STAGE.get(name, ""))
    names = [*STAGES, "09_splits"]
    before = names[names.index(name) - 1] if name != names[0] else ""
    came = run.manifest["stages"].get(before, {}).get("kept", len(run.config.scenarios))
    rows: list[dict[str, Any]] = [{"what": f"in: {before or 'scenarios of the config'}", "count": came, "share": ""}]
    rows.append({"what": "kept", "count": entry.get("kept", 0), "share": ""})
    lost = sum(entry.get("rejected", {}).values())
    total = entry.get("kept", 0) + lost
    for reason, count in entry.get("rejected", {}).items():
        rows.append({"what": f"rejected: {reason}", "count": count, "share": f"{count / total:.1%}"})
    if usage is not None:
        rows.append({"what": "model calls", "count": usage.calls, "share": ""})
        rows.append({"what": "tokens", "count": usage.tokens, "share": ""})
        rows.append({"what": "cost", "count": cost_words(run, LEDGER_STAGE[name]), "share": ""})
    for note, value in entry.get("notes", {}).items():
        rows.append({"what": note, "count": cut(str(value)), "share": ""})
    if name == "09_splits" or not entry:
        sizes = run.manifest.get("splits", {}).get("sizes", {})
        rows = [rows[0], *({"what": split, "count": size, "share": ""} for split, size in sizes.items())]
    return [*rows, {"what": "run folder", "count": str(run.root), "share": ""}]


def stage_samples(run: Run, name: str, count: int = 3) -> str:
    """Some records in Markdown, spread over the file, and one rejection with its reason."""
    parts = [f"Made by {maker(run.config.model)}. Full file: `{name}`.\n"]
    if name == "09_splits":
        for split in run.manifest.get("splits", {}).get("sizes", {}):
            path = run.root / "splits" / f"{split}.jsonl"
            parts += [f"### {split}", *(fenced(describe(sample)) for sample in islice(read_lines(path, Sample), 1))]
        return "\n\n".join(parts)
    if name == "03_features":
        parts.append(f"```mermaid\n{mermaid(list(read_lines(run.file(name), FeatureNode)))}\n```")
    total = run.manifest["stages"].get(name, {}).get("kept", 0)
    wanted = {i * max(total - 1, 0) // max(count - 1, 1) for i in range(count)}
    for place, record in enumerate(run.read(name)):
        if place in wanted:
            parts.append(fenced(cut_lines(tell(run, record))))
    lost = run.root / "rejected" / f"{name}.jsonl"
    for rejection in islice(read_lines(lost, Rejection), 1) if lost.exists() else ():
        parts += [f"One rejection: `{rejection.reason}`", fenced(cut_lines(describe(rejection)))]
    return "\n\n".join(parts)


def cut_lines(text: str, size: int = 6000) -> str:
    """Bounded text, so that an artifact stays small."""
    return text if len(text) <= size else text[:size] + "\n…"


# One record


def describe(record: Record) -> str:
    """A record as a person wants to read it."""
    for kind, tell in _TELLERS.items():
        if isinstance(record, kind):
            return str(tell(record))
    return pretty(record.model_dump(mode="json"))


def tell(run: Run, record: Record) -> str:
    """A record with what the run knows around it: a profile with its favourites and histories."""
    return portrait(run, record) if isinstance(record, Profile) else describe(record)


def _bar(value: float, width: int = 20) -> str:
    return "█" * round(value * width) + "·" * (width - round(value * width))


def _scenario(s: Scenario) -> str:
    lines = [f"{s.name}: {s.description}", "", "contexts"]
    lines += [f"  {c.name}: {c.description}" for c in s.contexts]
    lines += ["capabilities"] + [f"  {c.name}{'' if c.open else ' (follow-up)'}: {c.description}" for c in s.capabilities]
    for p in s.platforms:
        lines += [f"{p.name} ({p.id}): {p.description}"]
        lines += [f"  {_bar(t.level)} {t.level:.2f} {name}: {t.phrase}" for name, t in p.traits.items()]
    return "\n".join(lines)


def _api(a: API) -> str:
    return f"{a.id}\n{a.description}\nserves {a.capability}, group {a.group}\n{pretty(a.parameters)}\nreturns: {a.returns}"


def _feature(f: FeatureNode) -> str:
    below = ", ".join(f.children) or f"{len(f.leaves)} leaves: {', '.join(f.leaves[:6])}{' …' if len(f.leaves) > 6 else ''}"
    return f"{f.name} [{f.kind}, height {f.height}]: {f.description}\n  {below}"


def _profile(p: Profile) -> str:
    lines = [f"{p.id}  ({p.timezone}, branch {p.path})", "", "basic features (visible)"]
    lines += [f"  {key}: {value}" for key, value in p.basic.items()]
    lines.append("preferences (hidden)")
    for wish in p.preferences:
        lines.append(f"  {wish.scenario} / {wish.context}: {wish.words}")
        lines += [f"    {_bar(w, 12)} {w:.2f} {trait}" for trait, w in wish.weights.items() if w > 0]
    return "\n".join(lines)


def _history(h: History) -> str:
    return "\n".join([f"{h.user} in {h.scenario}: {len(h.events)} events", *timeline(h)])


def _query(q: Query) -> str:
    plan = ", ".join(f"{a.path} from {a.source}" for a in q.slot.arguments)
    head = f"{q.id}  [{q.slot.context} / {q.slot.capability} / {'+'.join(q.slot.kinds)}]"
    return f"{head}\n  {q.text}\n  plan: {q.slot.platform} {q.slot.api}({plan})"


def _solution(s: Solution) -> str:
    return f"{s.id}  {s.platform}\n" + "\n".join(call_lines(s.calls))


def call_lines(calls: list[ToolCall]) -> list[str]:
    """Calls with the source of every argument."""
    lines = []
    for call in calls:
        lines.append(f"  {call.api}({json.dumps(call.arguments, ensure_ascii=False)})")
        lines += [f"    {path} <- {source.kind}{': ' + repr(source.at) if source.at else ''}" for path, source in call.sources.items()]
    return lines


def _sample(s: Sample) -> str:
    lines = [
        f"{s.id}  [{'+'.join(s.kinds)}]  {s.split or ''}",
        f"  user {s.user} asks at {s.time}: {s.query}",
        f"  gold platform: {s.platform}",
        *call_lines(s.calls),
        f"  evidence (hidden from the solver): context {s.context}, margin {s.evidence.margin:.3f}",
    ]
    lines += [
        f"    {_bar(u.utility)} {u.utility:.3f} {u.platform}   posterior from history {s.evidence.posterior.get(u.platform, 0):.2f}"
        for u in s.evidence.utilities
    ]
    lines.append(
        f"    shown by events {', '.join(s.evidence.events) or 'none'}; flips in {', '.join(s.evidence.flips_with) or 'no context'}"
    )
    lines.append(f"  passed {len(s.verification.rules)} rules; judge: {s.verification.judge}: {s.verification.judge_reason}")
    return "\n".join(lines)


def _rejection(r: Rejection) -> str:
    record = f"\n{pretty(r.record)}" if r.record else ""
    return f"{r.subject} rejected at {r.stage}, round {r.round}: {r.reason}\n  {r.detail}{record}"


_TELLERS: dict[type[Record], Any] = {
    Scenario: _scenario,
    API: _api,
    FeatureNode: _feature,
    Profile: _profile,
    History: _history,
    Query: _query,
    Solution: _solution,
    Sample: _sample,
    Rejection: _rejection,
}


def find(run: Run, stage: str, wanted: str | None, count: int = 3) -> Iterator[Record]:
    """Records of a stage by id, or the first few.

    Args:
        stage: `profiles`, `04_profiles`, `samples`, a split such as `train`, or `rejected/queries`.

    Raises:
        ConfigError: when the stage or the id is not there.
    """
    path, kind = _file_of(run, stage)
    records = read_lines(path, kind)
    if wanted is None:
        yield from islice(records, count)
        return
    hit = False
    for record in records:
        if _id_of(record) == wanted or _id_of(record).startswith(f"{wanted}-"):
            hit = True
            yield record
    if not hit:
        raise ConfigError(f"{path}: holds no record {wanted!r}; `ptool show {run.root} {stage}` lists the first ones")


def _id_of(record: Record) -> str:
    return record.subject if isinstance(record, Rejection) else str(getattr(record, "id", ""))


def _file_of(run: Run, stage: str) -> tuple[Path, type[Record]]:
    short = {name.partition("_")[2]: name for name in STAGES}
    rejected = stage.startswith("rejected/")
    name = short.get(stage.removeprefix("rejected/"), stage.removeprefix("rejected/"))
    path = run.root / "rejected" / f"{name}.jsonl" if rejected else run.file(name)
    kind: type[Record] = Rejection if rejected else STAGES.get(name, Sample)
    if name not in STAGES and not rejected:
        path = run.root / "splits" / f"{name}.jsonl"
    if not path.is_file():
        splits = sorted(p.stem for p in (run.root / "splits").glob("*.jsonl"))
        known = ", ".join([*short, *splits, "rejected/<stage>"])
        raise ConfigError(f"{run.root}: no stage {stage!r}; write one of {known}")
    return path, kind


# The whole run


def summary(run: Run, seconds: float) -> dict[str, Any]:
    """What `ptool run --json` prints."""
    stages = run.manifest["stages"]
    total = run.ledger.total()
    return {
        "run": str(run.root),
        "model": run.config.model,
        "made_by": maker(run.config.model),
        "complete": bool(run.manifest.get("complete")),
        "stages": {name: {"kept": entry["kept"], "rejected": entry["rejected"]} for name, entry in stages.items()},
        "splits": run.manifest.get("splits", {}).get("sizes", {}),
        "rejects": _reasons(stages),
        "calls": total.calls,
        "tokens": total.tokens,
        "cost": None if total.unpriced else round(total.cost, 6),
        "seconds": round(seconds, 1),
    }


def _reasons(stages: dict[str, Any]) -> dict[str, int]:
    reasons: dict[str, int] = {}
    for entry in stages.values():
        for reason, count in entry["rejected"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    return dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0])))


def summary_text(run: Run, seconds: float | None = None) -> str:
    """The table at the end of a run, and of `ptool status`."""
    usage = run.ledger.usage()
    lines = [
        f"{run.root}",
        f"data: {maker(run.config.model)}; language {run.config.language}; seed {run.config.seed}",
        "",
        f"{'stage':<14} {'kept':>7} {'lost':>7} {'calls':>7} {'tokens':>12}   lost to",
    ]
    for name in STAGES:
        entry = run.manifest["stages"].get(name)
        used = usage.get(LEDGER_STAGE[name])
        if entry is None and used is None:
            continue
        rejected: dict[str, int] = entry["rejected"] if entry else {}
        reasons = ", ".join(f"{reason} {count}" for reason, count in list(rejected.items())[:4])
        more = f", {len(rejected) - 4} more" if len(rejected) > 4 else ""
        again = " (as before)" if name in run.reused else ""
        kept = f"{entry['kept']:,}" if entry else "…"
        lines.append(
            f"{name:<14} {kept:>7} {sum(rejected.values()):>7,} "
            f"{used.calls if used else 0:>7,} {used.tokens if used else 0:>12,}   {reasons}{more}{again}"
        )
    total = run.ledger.total()
    lines.append(f"{'all':<14} {'':>7} {'':>7} {total.calls:>7,} {total.tokens:>12,}")
    splits = run.manifest.get("splits")
    if splits:
        lines += ["", f"{'split':<22} {'samples':>8} {'wanted':>8}"]
        lines += [f"{name:<22} {size:>8,} {splits['wanted'][name]:>8,}" for name, size in splits["sizes"].items()]
    lines += ["", f"cost: {cost_words(run)}" + (f"; {seconds:.1f} s" if seconds is not None else "")]
    if splits:
        lines += [
            "look at:",
            f"  {run.root / 'splits'}",
            f"  {run.root / 'rejected'}",
            f"  ptool show {run.root} samples",
            f"  ptool export {run.root} --format ptbench",
        ]
    return "\n".join(lines)
