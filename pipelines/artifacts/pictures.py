"""Plots as SVG data URIs: no plotting library, no file server, no request to any other host."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pipelines import report
from pipelines.artifacts.text import svg_text
from pipelines.records import History, Sample, Scenario
from pipelines.run import Run

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222255")
"""Told apart with any colour vision (Paul Tol's bright scheme, and one dark)."""
MAX_ROWS = 48
MAX_COLUMNS = 30
_LEFT, _TOP, _CELL = 260, 150, 26


def data_uri(parts: Sequence[str], width: int, height: int, title: str) -> str:
    """A whole SVG picture as an address that an `img` can show."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><title>{svg_text(title, 200)}</title><rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="12" y="22" font-size="14" fill="#222">{svg_text(title, 120)}</text>'
    )
    picture = "".join([head, *parts, "</svg>"])
    return "data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode()


def _text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="#222" {extra}>{svg_text(words)}</text>'


def coverage_map(run: Run) -> str:
    """Heat map: samples per situation (rows) and capability (columns); an empty cell is a hole in the dataset."""
    counts: Counter[tuple[str, str]] = Counter()
    for sample in run.read("08_samples"):
        assert isinstance(sample, Sample)
        counts[f"{sample.scenario}: {sample.context}", sample.capability] += 1
    planned = [f"{s.id}: {c.name}" for s in run.read("01_scenarios") if isinstance(s, Scenario) for c in s.contexts]
    rows = list(dict.fromkeys(planned + [row for row, _ in counts]))[:MAX_ROWS]
    weight: Counter[str] = Counter()
    for (_, column), count in counts.items():
        weight[column] += count
    columns = [column for column, _ in sorted(weight.items(), key=lambda item: (-item[1], item[0]))][:MAX_COLUMNS]
    most = max(counts.values(), default=1)
    parts = [
        f'<text transform="translate({_LEFT + i * _CELL + 17},{_TOP - 8}) rotate(-45)" fill="#222">{svg_text(column, 26)}</text>'
        for i, column in enumerate(columns)
    ]
    for j, row in enumerate(rows):
        y = _TOP + j * _CELL
        parts.append(_text(_LEFT - 8, y + 17, row, "end"))
        for i, column in enumerate(columns):
            count = counts[row, column]
            share = count / most
            fill = f"rgb({round(247 - 200 * share)},{round(251 - 150 * share)},{round(255 - 90 * share)})"
            ink = "#fff" if share > 0.55 else "#333"
            x = _LEFT + i * _CELL
            parts.append(f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" fill="{fill}" stroke="#ddd"/>')
            if count:
                parts.append(f'<text x="{x + 12}" y="{y + 17}" font-size="10" text-anchor="middle" fill="{ink}">{count}</text>')
    hidden = len(weight) - len(columns)
    more = f"; {hidden} rarer capabilities not drawn" if hidden else ""
    origin = " of the offline model" if run.config.model.endswith("offline") else ""
    title = f"{sum(counts.values()):,} samples{origin} per situation and capability{more}"
    return data_uri(parts, max(_LEFT + len(columns) * _CELL + 130, 900), _TOP + len(rows) * _CELL + 20, title)


def cost_plot(run: Run) -> str:
    """Bars: calls and tokens of every stage, and the cost where the price is known."""
    usage = run.ledger.usage()
    stages = [(name, usage[key]) for name, key in report.LEDGER_STAGE.items() if key in usage]
    calls, tokens = max((u.calls for _, u in stages), default=1), max((u.tokens for _, u in stages), default=1)
    parts = [_text(170, 50, "model calls"), _text(500, 50, "tokens: prompt (dark) and reply (light)")]
    for i, (name, used) in enumerate(stages):
        y = 64 + i * 30
        parts.append(_text(160, y + 15, name, "end"))
        wide = 230 * used.calls / max(calls, 1)
        parts.append(
            f'<rect x="170" y="{y}" width="{wide:.1f}" height="20" fill="{COLOURS[0]}"/>' + _text(176 + wide, y + 15, f"{used.calls:,}")
        )
        prompt, reply = (260 * part / max(tokens, 1) for part in (used.prompt_tokens, used.reply_tokens))
        parts.append(f'<rect x="500" y="{y}" width="{prompt:.1f}" height="20" fill="{COLOURS[2]}"/>')
        parts.append(f'<rect x="{500 + prompt:.1f}" y="{y}" width="{reply:.1f}" height="20" fill="{COLOURS[3]}"/>')
        parts.append(_text(506 + prompt + reply, y + 15, f"{used.tokens:,}"))
    total = run.ledger.total()
    title = f"{total.calls:,} calls, {total.tokens:,} tokens; cost: {report.cost_words(run)}"
    return data_uri(parts, 900, 84 + len(stages) * 30, title)


def timeline(history: History) -> str:
    """Dots: one user's events over time, a row per platform, a colour per situation."""
    platforms = sorted({event.platform for event in history.events})
    contexts = list(dict.fromkeys(event.context for event in history.events))
    times = [datetime.fromisoformat(event.time).timestamp() for event in history.events]
    first, last = min(times, default=0.0), max(times, default=1.0)
    parts = []
    for i, platform in enumerate(platforms):
        y = 70 + i * 36
        parts += [_text(190, y + 4, platform.partition("/")[2], "end"), f'<line x1="200" y1="{y}" x2="860" y2="{y}" stroke="#ddd"/>']
    for event, time in zip(history.events, times, strict=True):
        x = 205 + 650 * (time - first) / max(last - first, 1)
        y = 70 + platforms.index(event.platform) * 36
        colour = COLOURS[contexts.index(event.context) % len(COLOURS)]
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{colour}" fill-opacity="0.8"/>')
    foot = 70 + len(platforms) * 36
    if history.events:
        parts += [_text(200, foot, history.events[0].time[:10]), _text(860, foot, history.events[-1].time[:10], "end")]
    for i, context in enumerate(contexts):
        x, y = 200 + (i % 3) * 220, foot + 24 + (i // 3) * 20
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="5" fill="{COLOURS[i % len(COLOURS)]}"/>' + _text(x + 12, y, context))
    height = foot + 30 + 20 * ((len(contexts) + 2) // 3)
    return data_uri(parts, 900, height, f"{history.user} in {history.scenario}: {len(history.events)} events")
