"""Single things worth reading: a user, a history, a proved sample with a rejection, the dataset as a whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipelines import report
from pipelines.artifacts.pictures import timeline
from pipelines.artifacts.text import cell
from pipelines.jsonio import read_lines
from pipelines.records import History, Profile, Rejection, Sample
from pipelines.run import LOOP, STAGES, Run

_CUT = 12_000
"""Characters of one record in a card."""


def profile_card(run: Run) -> str:
    """The first user: what everybody sees, and what only the proof knows."""
    profile = next((record for record in run.read("04_profiles") if isinstance(record, Profile)), None)
    if profile is None:
        return "No profile was kept."
    lines = [
        report.maker_line(run),
        "",
        f"## {profile.id}",
        "",
        f"Time zone {cell(profile.timezone)}, language {cell(profile.language)}.",
        "",
    ]
    lines += ["### Basic features: visible", "", "| feature | value |", "|---|---|"]
    lines += [f"| {cell(key)} | {cell(str(value))} |" for key, value in list(profile.basic.items())[:40]]
    lines += [
        "",
        "### Preferences: hidden from every solver",
        "",
        "| scenario | situation | in words | what counts most |",
        "|---|---|---|---|",
    ]
    for wish in profile.preferences[:40]:
        most = ", ".join(f"{trait} {weight:.2f}" for trait, weight in sorted(wish.weights.items(), key=lambda i: -i[1]) if weight > 0)
        lines.append(f"| {cell(wish.scenario)} | {cell(wish.context)} | {cell(wish.words, 400)} | {cell(most)} |")
    return "\n".join(lines)


def history_timeline(run: Run) -> str:
    """The first history as a picture, then its events."""
    history = next((record for record in run.read("05_histories") if isinstance(record, History)), None)
    if history is None:
        return "No history was kept."
    lines = [report.maker_line(run), "", f"![events over time]({timeline(history)})", ""]
    lines += ["| time | platform | what happened | situation (hidden) | stars |", "|---|---|---|---|---|"]
    for event in history.events[:60]:
        stars = "★" * (event.rating or 0)
        platform = event.platform.partition("/")[2]
        lines.append(f"| {event.time[:16]} | {cell(platform)} | {cell(event.summary)} | {cell(event.context)} | {stars} |")
    return "\n".join(lines)


def proved_and_rejected(run: Run) -> str:
    """One sample that passed with all its evidence, and one that did not with the reason."""
    samples = [record for record in run.read("08_samples") if isinstance(record, Sample)]
    parts = [report.maker_line(run)]
    if samples:
        best = max(samples, key=lambda s: (len(s.kinds), len(s.evidence.flips_with), s.evidence.margin, s.id))
        parts += ["### Proved", report.fenced(report.cut_lines(report.describe(best), _CUT))]
    for name in ("08_samples", "07_solutions", "06_queries"):
        path = run.root / "rejected" / f"{name}.jsonl"
        lost = next(iter(read_lines(path, Rejection)), None) if path.is_file() else None
        if lost is not None:
            parts += [f"### Rejected: `{lost.reason}`", report.fenced(report.cut_lines(report.describe(lost), _CUT))]
            break
    else:
        parts.append("Nothing was rejected by the sample stages.")
    return "\n\n".join(parts)


def review_card(run: Run) -> str:
    """The numbers a person needs to approve or reject the samples, with three of them."""
    samples = [record for record in run.read("08_samples") if isinstance(record, Sample)]
    margins = sorted(sample.evidence.margin for sample in samples)
    judged = Counter(sample.verification.judge for sample in samples)
    kinds = Counter("+".join(sample.kinds) for sample in samples)
    flips = sum(bool(sample.evidence.flips_with) for sample in samples)
    lines = [report.maker_line(run), "", f"**{len(samples):,} samples** for {run.config.samples.total:,} places in the splits."]
    lines += ["", "| number | value |", "|---|---|", f"| yield of the sample stages | {report.sample_yield(run):.1%} |"]
    if margins:
        lines.append(f"| margin of the gold platform: least, median | {margins[0]:.3f}, {margins[len(margins) // 2]:.3f} |")
    lines += [
        f"| platform flips in another situation | {flips:,} of {len(samples):,} |",
        f"| judge | {cell(', '.join(f'{word} {count:,}' for word, count in sorted(judged.items())))} |",
        f"| kinds | {cell(', '.join(f'{word} {count:,}' for word, count in sorted(kinds.items())))} |",
        f"| distinct queries | {len({sample.query for sample in samples}):,} |",
        "",
        "| rejected at | reason | count |",
        "|---|---|---|",
    ]
    for name in LOOP:
        for reason, count in list(run.manifest["stages"][name]["rejected"].items())[:8]:
            lines.append(f"| {name} | {cell(reason)} | {count:,} |")
    for sample in samples[:: max(len(samples) // 3, 1)][:3]:
        lines += ["", report.fenced(report.cut_lines(report.describe(sample), 2_000))]
    return "\n".join(lines)


def dataset_card(run: Run, page: str | None) -> str:
    """What was made, from what, what was lost, and where everything is."""
    config, manifest = run.config, run.manifest
    splits = manifest.get("splits", {"sizes": {}, "wanted": {}})
    state = "complete" if manifest.get("complete") else "incomplete"
    lines = [f"# {cell(run.root.name)}: {sum(splits['sizes'].values()):,} samples, {state}", "", report.maker_line(run), ""]
    lines += ["| split | samples | wanted |", "|---|---|---|"]
    lines += [f"| {name} | {size:,} | {splits['wanted'].get(name, 0):,} |" for name, size in splits["sizes"].items()]
    names = ", ".join(cell(scenario.name) for scenario in config.scenarios)
    total = run.ledger.total()
    lines += [
        "",
        f"Scenarios: {names}. Users: {config.users} ({config.untrained_users} untrained). Seed {config.seed}, language {config.language}.",
        "",
        f"Model: {cell(config.model)}. {total.calls:,} calls, {total.tokens:,} tokens, cost {report.cost_words(run)}.",
        "",
        "| stage | kept | lost | most frequent reasons |",
        "|---|---|---|---|",
    ]
    for name in STAGES:
        entry = manifest["stages"].get(name)
        if entry is not None:
            reasons = ", ".join(f"{reason} {count}" for reason, count in list(entry["rejected"].items())[:3])
            link = f"[{name}]({page}/{name.replace('_', '-')}-counts)" if page else name
            lines.append(f"| {link} | {entry['kept']:,} | {sum(entry['rejected'].values()):,} | {cell(reasons)} |")
    if page:
        keys = ("api-tree", "feature-tree", "profile-card", "history-timeline", "sample-and-rejection", "coverage", "cost")
        lines += ["", "Look at: " + ", ".join(f"[{key.replace('-', ' ')}]({page}/{key})" for key in keys) + "."]
    lines += ["", "Files:", ""]
    lines += [f"- `{place}`" for place in _places(run)]
    return "\n".join(lines)


def _places(run: Run) -> list[str]:
    base = str(run.address)
    found: list[Path] = [*sorted((run.root / "splits").glob("*")), run.root / "manifest.json", run.root / "rejected"]
    return [f"{base}/{path.relative_to(run.root).as_posix()}" for path in found if path.exists()]
