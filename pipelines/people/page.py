"""`report/profiles.html`: how different the people are, how platforms share them, how long their histories are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

import numpy as np
import numpy.typing as npt

from pipelines.jsonio import canonical, read_lines, write_text
from pipelines.people.tree import svg
from pipelines.profiles.diversity import distances
from pipelines.records import FeatureNode, History, Profile, Scenario
from pipelines.run import Run, maker
from pipelines.world import ranking

MOST_USERS = 5_000
"""The page shows at most so many users, the first ones, and says so."""
TOP = 8
"""Values shown of one feature."""
PALETTE = ("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1", "#975a16", "#319795", "#4a5568")
_STYLE = """body{font:14px sans-serif;margin:2em auto;max-width:70em;color:#222}h2{margin-top:2em}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(20em,1fr));gap:1.5em}
svg text{font:11px sans-serif;fill:#222}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}"""


def write_report(run: Run) -> list[str]:
    """Write `report/feature_tree.svg` and `report/profiles.html`; returns their names. The same run gives the same bytes."""
    folder = run.root / "report"
    made_by = maker(run.config.model)
    nodes = list(read_lines(run.file("03_features"), FeatureNode))
    write_text(folder / "feature_tree.svg", [svg(nodes, made_by)])
    write_text(folder / "profiles.html", _page(run, made_by))
    return ["feature_tree.svg", "profiles.html"]


def _page(run: Run, made_by: str) -> Iterator[str]:
    scenarios = list(read_lines(run.file("01_scenarios"), Scenario))
    people = list(islice(read_lines(run.file("04_profiles"), Profile), MOST_USERS))
    kept = run.manifest["stages"].get("04_profiles", {}).get("kept", len(people))
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>People</title><style>{_STYLE}</style>\n"
    yield f"<h1>People</h1><p>Made by {escape(made_by)}. {len(people):,} of {kept:,} users shown.</p>\n"
    yield _figures(run)
    yield "<h2>How different two users are</h2><p>Share of basic features in which two users differ.</p>"
    yield _histogram(distances([p.basic for p in people]), 0.0, 1.0)
    yield "<h2>Whose favourite each platform is</h2><div class='grid'>"
    for scenario in scenarios:
        yield _shares(scenario, people)
    yield "</div><h2>How long histories are</h2>"
    lengths = _lengths(run)
    yield _histogram(np.array(lengths, dtype=np.float64), run.config.events[0], run.config.events[1] + 1)
    yield "<h2>Values of basic features</h2><div class='grid'>"
    for feature in sorted({key for p in people for key in p.basic}):
        yield _values(feature, [_shown(p.basic.get(feature)) for p in people])
    yield "</div></html>\n"


def _figures(run: Run) -> str:
    rows = []
    for stage in ("03_features", "04_profiles", "05_histories"):
        for name, value in run.manifest["stages"].get(stage, {}).get("notes", {}).items():
            rows.append(f"<tr><td>{stage}<td>{escape(str(name))}<td>{escape(str(value))}")
        for reason, count in run.manifest["stages"].get(stage, {}).get("rejected", {}).items():
            rows.append(f"<tr><td>{stage}<td>rejected: {escape(reason)}<td>{count}")
    return f"<h2>Figures</h2><table><tr><th>stage<th>what<th>value{''.join(rows)}</table>\n"


def _lengths(run: Run) -> list[int]:
    if not run.file("05_histories").is_file():
        return []
    return [len(history.events) for history in islice(read_lines(run.file("05_histories"), History), MOST_USERS * 5)]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _bars(rows: Iterable[tuple[str, float, str]], colour: str = PALETTE[0]) -> str:
    """Horizontal bars: label, share from 0 to 1, what stands behind it."""
    parts, y = [], 0
    for label, share, told in rows:
        parts.append(
            f'<text x="0" y="{y + 12}">{escape(label[:26])}</text>'
            f'<rect x="150" y="{y + 2}" width="{max(share, 0) * 150:.1f}" height="12" fill="{colour}"/>'
            f'<text x="{155 + share * 150:.1f}" y="{y + 12}">{escape(told)}</text>'
        )
        y += 18
    return f'<svg viewBox="0 0 360 {max(y, 1)}" width="360" height="{max(y, 1)}">{"".join(parts)}</svg>'


def _values(feature: str, values: Sequence[str]) -> str:
    counts = Counter(values)
    top = counts.most_common(TOP)
    most = top[0][1] if top else 1
    more = f" ({len(counts) - TOP} more)" if len(counts) > TOP else ""
    rows = [(value, count / most, str(count)) for value, count in top]
    return f"<div><b>{escape(feature)}</b>: {len(counts)} values{more}<br>{_bars(rows)}</div>\n"


def _shares(scenario: Scenario, people: Sequence[Profile]) -> str:
    """Stacked bars: one per context, and one for all."""
    colours = {p.id: PALETTE[i % len(PALETTE)] for i, p in enumerate(scenario.platforms)}
    counts: dict[str, Counter[str]] = {"all": Counter(), **{c.name: Counter() for c in scenario.contexts}}
    for profile in people:
        for wish in profile.preferences:
            if wish.scenario == scenario.id:
                best = ranking(wish.weights, scenario.platforms)[0].platform
                counts["all"][best] += 1
                counts[wish.context][best] += 1
    parts, y = [], 0
    for name, count in counts.items():
        x, total = 130.0, max(count.total(), 1)
        parts.append(f'<text x="0" y="{y + 12}">{escape(name[:22])}</text>')
        for platform, colour in colours.items():
            width = 220 * count[platform] / total
            place = f'x="{x:.1f}" y="{y + 1}" width="{width:.1f}" height="14"'
            parts.append(f'<rect {place} fill="{colour}"><title>{count[platform]}</title></rect>')
            x += width
        y += 18
    legend = ", ".join(
        f"<span style='color:{colours[p.id]}'>■</span> {escape(p.name)} {counts['all'][p.id] / max(counts['all'].total(), 1):.0%}"
        for p in scenario.platforms
    )
    bars = f'<svg viewBox="0 0 360 {y}" width="360" height="{y}">{"".join(parts)}</svg>'
    return f"<div><b>{escape(scenario.name)}</b>: {legend}<br>{bars}</div>\n"


def _histogram(values: npt.NDArray[np.float64], low: float, high: float, bins: int = 20) -> str:
    if not len(values):
        return "<p>Nothing to show.</p>"
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    most = max(int(counts.max()), 1)
    parts = []
    for i, count in enumerate(counts):
        x, tall = 20 + i * 26, 100 * count / most
        parts.append(f'<rect x="{x}" y="{110 - tall:.1f}" width="24" height="{tall:.1f}" fill="{PALETTE[0]}"><title>{count}</title></rect>')
        if i % 4 == 0:
            parts.append(f'<text x="{x}" y="124">{edges[i]:.2f}</text>')
    told = f"mean {values.mean():.3f}, {len(values):,} values"
    return f'<svg viewBox="0 0 560 130" width="560" height="130">{"".join(parts)}</svg><p>{told}</p>\n'
