"""Scores for people: a Markdown table and plots as plain SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pipelines.evaluation.metrics import METRICS, NAMES, PAPER
from pipelines.jsonio import write_text

INK, FAINT, BAR, ERROR = "#1f2933", "#d9dee3", "#2f6f9f", "#b4552d"


def number(value: float | None) -> str:
    """Three digits, or a dash for nothing counted."""
    return "–" if value is None else f"{value:.3f}"


def with_interval(one: Mapping[str, Any], what: str = "micro") -> str:
    """`0.250 [0.100, 0.400]`."""
    value, low, high = ("value", "low", "high") if what == "micro" else ("macro", "macro_low", "macro_high")
    if one[value] is None:
        return "–"
    return number(one[value]) + (f" [{number(one[low])}, {number(one[high])}]" if one[low] is not None else "")


def odd_counts(joined: Mapping[str, Any]) -> list[str]:
    """What did not meet its sample, in words."""
    names = ("missing", "extra", "unknown_ids", "duplicates", "blank", "broken")
    return [f"{joined[name]} {name.replace('_', ' ')}" for name in names if joined[name]]


def write_report(out: Path, scores: Mapping[str, Any]) -> None:
    """`scores.md` and `plots/*.svg`."""
    write_text(out / "scores.md", [markdown(scores)])
    metrics = scores["groups"]["all"]["metrics"]
    title = f"{scores['solver']}, {scores['scorer']} scorer"
    write_text(out / "plots" / "accuracies.svg", [bars(title, {n: metrics[n] for n in PAPER}, BAR)])
    errors = {n.removeprefix("error_"): metrics[n] for n in NAMES if n.startswith("error_") and n in metrics}
    if errors:
        write_text(out / "plots" / "errors.svg", [bars(f"{title}: errors", errors, ERROR)])
    groups = {name: group["metrics"]["overall"] for name, group in scores["groups"].items()}
    write_text(out / "plots" / "groups.svg", [bars(f"{title}: overall by group", groups, BAR)])


def cell(text: object) -> str:
    """Text that cannot end a table cell or start markup."""
    line = " ".join(str(text).split()).replace("|", "\\|").replace("`", "'")
    return line.replace("<", "&lt;").replace(">", "&gt;")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(cell(c) for c in row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def markdown(scores: Mapping[str, Any]) -> str:
    """The whole report."""
    groups = scores["groups"]
    whole = groups["all"]
    parts = [f"# Scores of {cell(scores['solver'])}\n", _origin(scores)]
    if whole["few_users"]:
        parts.append(f"**Only {whole['users']} users**: intervals over so few users are too narrow to be trusted.\n")
    parts.append("## Scorers side by side\n")
    parts.append(table(["scorer", *PAPER], [[n, *(number(row[m]) for m in PAPER)] for n, row in scores["scorers"].items()]))
    if scores["disagreements"]:
        rows = [[what, count] for what, count in scores["disagreements"].items()]
        parts += ["Disagreements on `overall`; each is a line of `disagreements.jsonl`.\n", table(["verdicts", "samples"], rows)]
    unscorable = (scores["official"] or {}).get("gold_it_cannot_score")
    if unscorable is not None:
        count = f"{unscorable} of {whole['samples']}"
        parts.append(f"The official scorer calls the written-out gold answer itself wrong for {count} samples.\n")
    parts += ["## Metrics\n", f"95 % intervals from draws of users; {scores['scorer']} scorer.\n"]
    formulas = {metric.name: metric.formula for metric in METRICS}
    rows = [
        [name, with_interval(one), with_interval(one, "macro"), f"{one['count']:g}", formulas[name]]
        for name, one in whole["metrics"].items()
        if one["value"] is not None
    ]
    parts.append(table(["metric", "micro", "macro over users", "counted", "formula"], rows))
    parts.append("## Groups\n")
    shown = [n for n in (*PAPER, "regret") if n in whole["metrics"]]
    rows = [[name, g["samples"], g["users"], *(with_interval(g["metrics"][m]) for m in shown)] for name, g in groups.items()]
    parts.append(table(["group", "samples", "users", *shown], rows))
    if scores["failures"]:
        parts += ["## Format failures\n", table(["failure", "samples"], list(scores["failures"].items()))]
    if scores["forgiven"]:
        parts += ["## Forgiven writing\n", table(["what", "samples"], list(scores["forgiven"].items()))]
    if scores["repeats"]:
        repeats = scores["repeats"]
        rows = [["mean", number(repeats["mean"])], ["standard deviation", number(repeats["standard_deviation"])]]
        rows += [[f"pass^{k}", number(value)] for k, value in repeats["pass_power"].items()]
        parts += [f"## {repeats['count']} repeats\n", table(["what", "overall"], rows)]
    return "\n".join(parts)


def _origin(scores: Mapping[str, Any]) -> str:
    lines = [f"Data: {cell(scores['data']['path'])}, made by {cell(scores['made_by'])}.\n"]
    for joined in scores["joined"]:
        odd = odd_counts(joined)
        text = f"- {cell(joined['part'])}: {joined['predictions']} joined by {joined['by']}"
        lines.append(text + (f"; {', '.join(odd)}" if odd else "") + "".join(f"; {cell(note)}" for note in joined["notes"]) + "\n")
    return "\n".join(lines)


def bars(title: str, values: Mapping[str, Mapping[str, Any]], colour: str) -> str:
    """Horizontal bars from 0 to 1 with intervals, as one SVG without anything from outside."""
    height, left, width = 26, 240, 420
    total = 60 + height * len(values)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 80} {total}" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<text x="12" y="22" font-size="15" fill="{INK}">{escape(title[:80])}</text>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = left + tick * width
        parts.append(f'<line x1="{x}" x2="{x}" y1="34" y2="{total - 22}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{x}" y="{total - 6}" text-anchor="middle" font-size="11" fill="{INK}">{tick:g}</text>')
    for place, (name, one) in enumerate(values.items()):
        y = 40 + place * height
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end" fill="{INK}">{escape(name[:34])}</text>')
        if one["value"] is None:
            parts.append(f'<text x="{left + 6}" y="{y + 14}" fill="{INK}">nothing counted</text>')
            continue
        size = min(max(one["value"], 0), 1) * width
        parts.append(f'<rect x="{left}" y="{y + 2}" width="{size:.1f}" height="{height - 10}" fill="{colour}"/>')
        if one.get("low") is not None and one.get("high") is not None:
            low, high = (left + min(max(one[k], 0), 1) * width for k in ("low", "high"))
            middle = y + 2 + (height - 10) / 2
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{INK}" stroke-width="2"/>')
            size = max(size, high - left)
        parts.append(f'<text x="{left + size + 6:.1f}" y="{y + 14}" fill="{INK}">{number(one["value"])}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
