"""Small SVG plots, drawn by hand: no plotting library, and the same bytes every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, ROW, LEFT, RIGHT = 760, 24, 210, 70
_HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12">'


def bars_with_intervals(title: str, rows: Mapping[str, Mapping[str, Any]], mark: float | None = None, mark_name: str = "") -> str:
    """One bar per share (`counting.share`), its 95 % interval as a line; `mark` is a vertical line, e.g. the prior."""
    plot = WIDTH - LEFT - RIGHT
    height = 40 + ROW * len(rows) + 24
    parts = [_HEAD.format(w=WIDTH, h=height), f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>']
    for place, (name, row) in enumerate(rows.items()):
        y = 36 + place * ROW
        value = row["share"] or 0.0
        low, high = (LEFT + plot * end for end in row["interval"])
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{plot * value:.1f}" height="{ROW - 8}" fill="#4c78a8"/>',
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 11}" y2="{y + 11}" stroke="#222" stroke-width="2"/>',
            f'<text x="{WIDTH - RIGHT + 8}" y="{y + 14}">{100 * value:.1f} %</text>',
        ]
    if mark is not None:
        x = LEFT + plot * mark
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="30" y2="{height - 24}" stroke="#e45756" stroke-dasharray="4 3"/>',
            f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" fill="#e45756">{escape(mark_name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def bars(title: str, counts: Mapping[str, int], most: int = 40) -> str:
    """One bar per count; the most frequent `most` of them."""
    rows: Sequence[tuple[str, int]] = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    top = max((count for _, count in rows), default=1)
    plot = WIDTH - LEFT - RIGHT
    parts = [_HEAD.format(w=WIDTH, h=44 + ROW * len(rows)), f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>']
    for place, (name, count) in enumerate(rows):
        y = 36 + place * ROW
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name[-34:])}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{plot * count / top:.1f}" height="{ROW - 8}" fill="#4c78a8"/>',
            f'<text x="{LEFT + plot * count / top + 6:.1f}" y="{y + 14}">{count:,}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
