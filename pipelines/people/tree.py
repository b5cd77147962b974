"""The feature tree as pictures: a Mermaid diagram for artifacts, an SVG for the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pipelines.records import FeatureNode

COLOURS = {"basic": "#2b6cb0", "preference": "#b83280", "request": "#718096"}
MOST_NODES = 150
"""A Mermaid diagram of more is not readable, and an artifact must stay small."""
_ROW, _COLUMN = 22, 260


def mermaid(nodes: Sequence[FeatureNode]) -> str:
    """Features and how many leaves each holds; leaves themselves are left out."""
    shown = list(nodes)[:MOST_NODES]
    number = {node.id: f"n{i}" for i, node in enumerate(shown)}
    lines = ["graph LR"]
    for node in shown:
        lines.append(f'  {number[node.id]}["{_safe(node.name)}{f" ({len(node.leaves)})" if node.leaves else ""}"]:::{node.kind}')
        lines += [f"  {number[node.id]} --> {number[child]}" for child in node.children if child in number]
    lines += [f"  classDef {kind} fill:#fff,stroke:{colour}" for kind, colour in COLOURS.items()]
    if len(nodes) > MOST_NODES:
        lines.append(f'  more["… {len(nodes) - MOST_NODES} more"]')
    return "\n".join(lines)


def _safe(text: str) -> str:
    return "".join(char if char.isalnum() or char in " -_" else " " for char in text)[:60]


def svg(nodes: Sequence[FeatureNode], made_by: str) -> str:
    """The tree from left to right, roots first, every feature with its number of leaves and an example."""
    by_id = {node.id: node for node in nodes}
    children = {child for node in nodes for child in node.children}
    roots = [node for node in nodes if node.id not in children]
    top = max((node.height for node in nodes), default=1)
    parts: list[str] = []
    rows = 0

    def place(node: FeatureNode) -> tuple[float, float]:
        nonlocal rows
        x = 20 + (top - node.height) * _COLUMN
        below = [place(by_id[child]) for child in node.children]
        if below:
            y = sum(at for _, at in below) / len(below)
        else:
            rows += 1
            y = 40 + rows * _ROW
        for to_x, to_y in below:
            bend = (x + 150 + to_x) / 2
            parts.append(f'<path d="M{x + 150:.0f},{y:.0f} C{bend:.0f},{y:.0f} {bend:.0f},{to_y:.0f} {to_x - 6:.0f},{to_y:.0f}"/>')
        example = f" ({len(node.leaves)}: {node.leaves[0].partition('#')[2]} …)" if node.leaves else ""
        parts.append(
            f'<circle cx="{x - 2:.0f}" cy="{y - 4:.0f}" r="4" fill="{COLOURS[node.kind]}"/>'
            f'<text x="{x + 6:.0f}" y="{y:.0f}"><title>{escape(node.description)}</title>{escape((node.name + example)[:70])}</text>'
        )
        return x, y

    for root in roots:
        place(root)
        rows += 0.5  # type: ignore[assignment]
    legend = "".join(
        f'<circle cx="{20 + 120 * i}" cy="16" r="4" fill="{colour}"/><text x="{28 + 120 * i}" y="20">{kind}</text>'
        for i, (kind, colour) in enumerate(COLOURS.items())
    )
    width, height = 20 + top * _COLUMN + 300, 80 + rows * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
        f"<title>Feature tree; made by {escape(made_by)}</title>"
        "<style>text{font:12px sans-serif;fill:#222}path{fill:none;stroke:#bbb}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{legend}{"".join(parts)}</svg>\n'
    )
