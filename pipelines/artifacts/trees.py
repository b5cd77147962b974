"""The API tree and the feature tree: a picture that every UI shows, and the same as Mermaid to copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipelines.artifacts.pictures import data_uri
from pipelines.artifacts.text import cell, label, svg_text
from pipelines.records import API, FeatureNode, Scenario
from pipelines.report import maker_line
from pipelines.run import Run

MAX_NODES = 140
"""Of one diagram; above it the lowest level is folded into counts (Mermaid itself gives up at 500 edges)."""
MAX_CHARS = 150_000
"""Of one artifact; what does not fit is named."""
KINDS = {"basic": "Basic features (visible)", "preference": "Preferences (hidden from solvers)", "request": "Of the request alone"}


@dataclass
class Node:
    """One box of a drawn tree."""

    text: str
    children: list[Node] = field(default_factory=list)

    def size(self) -> int:
        """Boxes in this tree."""
        return 1 + sum(child.size() for child in self.children)


def api_tree(run: Run) -> str:
    """Scenario, platforms, function groups and APIs; one diagram per scenario."""
    platforms: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for record in run.read("02_apis"):
        assert isinstance(record, API)
        platforms[record.platform][record.group].append(record.name)
    return _page(run, "02_apis", (_api_diagram(s, platforms) for s in run.read("01_scenarios") if isinstance(s, Scenario)))


def _api_diagram(scenario: Scenario, platforms: dict[str, dict[str, list[str]]]) -> tuple[str, list[Node]]:
    count = sum(len(names) for p in scenario.platforms for names in platforms[p.id].values())
    fold = count > MAX_NODES - 20
    root = Node(scenario.name)
    for platform in scenario.platforms:
        groups = platforms[platform.id].items()
        root.children.append(
            Node(
                platform.name,
                [Node(f"{group}: {len(names)} APIs") if fold else Node(group, [Node(name) for name in names]) for group, names in groups],
            )
        )
    return f"{scenario.name}: {len(scenario.platforms)} platforms, {count} APIs", [root]


def feature_tree(run: Run) -> str:
    """Roots to the lowest features, with the number of traits and parameters under each; one diagram per kind."""
    nodes = {record.id: record for record in run.read("03_features") if isinstance(record, FeatureNode)}
    return _page(run, "03_features", (_feature_diagram(kind, nodes) for kind in KINDS if any(n.kind == kind for n in nodes.values())))


def _feature_diagram(kind: str, nodes: dict[str, FeatureNode]) -> tuple[str, list[Node]]:
    below = {child for node in nodes.values() for child in node.children}
    mine = {one: node for one, node in nodes.items() if node.kind == kind}
    fold = len(mine) > MAX_NODES

    def draw(node: FeatureNode, depth: int) -> Node:
        leaves = f", {len(node.leaves)} leaves" if node.leaves else ""
        known = [nodes[child] for child in node.children if child in nodes]
        if fold and depth > 1:
            return Node(f"{node.name}: {len(known)} features{leaves}", [])
        return Node(f"{node.name}{leaves}", [draw(child, depth + 1) for child in known])

    roots = [draw(node, 0) for one, node in mine.items() if one not in below]
    return f"{KINDS[kind]}: {len(mine)} features under {len(roots)} roots", roots[:MAX_NODES]


def _page(run: Run, name: str, diagrams: Iterator[tuple[str, list[Node]]]) -> str:
    parts, left = [maker_line(run)], 0
    for title, roots in diagrams:
        drawn = [f"### {cell(title)}", f"![{cell(title)}]({picture(title, roots)})", mermaid(roots)]
        if sum(map(len, parts)) + sum(map(len, drawn)) > MAX_CHARS:
            left += 1
            continue
        parts += drawn
    if left:
        parts.append(f"{left} more do not fit here; all are in `{name}.jsonl`.")
    return "\n\n".join(parts)


def mermaid(roots: Iterable[Node]) -> str:
    """The trees as a Mermaid flow chart in a fence."""
    lines = ["```mermaid", "flowchart LR"]
    number = 0

    def draw(node: Node) -> str:
        nonlocal number
        me, number = f"n{number}", number + 1
        lines.append(f"  {me}[{label(node.text)}]")
        for child in node.children:
            lines.append(f"  {me} --> {draw(child)}")
        return me

    for root in roots:
        draw(root)
    return "\n".join([*lines, "```"])


def picture(title: str, roots: Iterable[Node], wide: int = 220, high: int = 22) -> str:
    """The trees from left to right as an SVG data URI; a parent stands beside the middle of its children."""
    parts: list[str] = []
    row = depth = 0

    def draw(node: Node, level: int) -> float:
        nonlocal row, depth
        depth = max(depth, level)
        below = [draw(child, level + 1) for child in node.children]
        if not below:
            row += 1
        y = sum(below) / len(below) if below else 30 + row * high
        x = 12 + level * wide
        for other in below:
            parts.append(f'<path d="M{x + wide - 40} {y:.0f}L{x + wide - 4} {other:.0f}" stroke="#999"/>')
        parts.append(f'<rect x="{x}" y="{y - 9:.0f}" width="{wide - 40}" height="18" rx="4" fill="#eaf1fa"/>')
        parts.append(f'<text x="{x + 6}" y="{y + 4:.0f}">{svg_text(node.text, 28)}</text>')
        return y

    for root in roots:
        draw(root, 0)
    return data_uri(parts, max(12 + (depth + 1) * wide, 700), 50 + row * high, title)
