"""The API tree: scenario, platform, function groups, API. As a graph, as Mermaid, as a picture, and as a file of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import networkx as nx

from pipelines.errors import ChecksFailed
from pipelines.jsonio import pretty, read_lines, write_lines, write_text
from pipelines.records import API, Scenario
from pipelines.run import Run, maker
from pipelines.tools.equivalence import equivalences
from pipelines.tools.variety import variety

ROOT = "all"
MERMAID_NODES = 400
"""Nodes of the Mermaid tree at most; APIs are counted, not drawn, when there are more."""
COLOURS = {"root": "#5b6472", "scenario": "#2f6f8f", "platform": "#b0642c", "group": "#5f8a4c", "api": "#444444"}
ROW, COLUMN, MARGIN = 16, 210, 28
"""Points of the picture: height of a line, width of a level, edge."""


def api_tree(scenarios: Sequence[Scenario], apis: Sequence[API]) -> nx.DiGraph[str]:
    """An arborescence; each node has `kind` (root, scenario, platform, group, api) and `label`.

    Raises:
        ChecksFailed: when the records do not form a tree whose leaves are the APIs.
    """
    tree: nx.DiGraph[str] = nx.DiGraph()
    tree.add_node(ROOT, kind="root", label="APIs")

    def below(parent: str, node: str, kind: str, label: str) -> None:
        if node not in tree:
            tree.add_node(node, kind=kind, label=label)
            tree.add_edge(parent, node)

    for scenario in scenarios:
        below(ROOT, scenario.id, "scenario", scenario.name)
        for platform in scenario.platforms:
            below(scenario.id, platform.id, "platform", platform.name)
    for api in apis:
        parent = api.platform
        for name in api.group.split("/"):
            node = f"{parent}:{name}"
            below(parent, node, "group", name.replace("_", " "))
            parent = node
        below(parent, api.id, "api", api.name)
    leaves = {node for node in tree if tree.out_degree(node) == 0}
    if not nx.is_arborescence(tree) or leaves != {api.id for api in apis}:
        raise ChecksFailed("the APIs form no tree: a platform without APIs, or an API of no platform")
    return tree


def mermaid(tree: nx.DiGraph[str]) -> str:
    """A flow chart from left to right; without the APIs, but with their number, when they are many."""
    small = len(tree) <= MERMAID_NODES
    shown = [node for node in tree if small or tree.nodes[node]["kind"] != "api"][:MERMAID_NODES]
    number = {node: f"n{i}" for i, node in enumerate(shown)}
    lines = ["flowchart LR"]
    for node in shown:
        count = sum(tree.nodes[child]["kind"] == "api" for child in tree.successors(node))
        more = f" ({count})" if count and not small else ""
        lines.append(f'  {number[node]}["{_safe(tree.nodes[node]["label"])}{more}"]')
    lines += [f"  {number[a]} --> {number[b]}" for a, b in tree.edges if a in number and b in number]
    return "\n".join(lines) + "\n"


def _safe(label: str) -> str:
    """Text that can end neither a Mermaid label nor the code block around it."""
    plain = "".join(c if c.isalnum() or c in " _-.,()'" else " " for c in label)
    return " ".join(plain.split())[:60] or "?"


def svg(tree: nx.DiGraph[str], title: str) -> Iterator[str]:
    """The whole tree as a picture, one API a line, scenarios from top to bottom."""
    place: dict[str, tuple[float, float]] = {}
    rows = 0
    depths = nx.single_source_shortest_path_length(tree, ROOT)
    for node in nx.dfs_postorder_nodes(tree, ROOT):
        depth = depths[node]
        children = list(tree.successors(node))
        if children:
            heights = [place[child][1] for child in children]
            y = (min(heights) + max(heights)) / 2
        else:
            y = MARGIN * 2 + rows * ROW
            rows += 1
        place[node] = (MARGIN + depth * COLUMN, y)
    width = max(x for x, _ in place.values()) + COLUMN + MARGIN
    height = MARGIN * 3 + rows * ROW
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    yield ' font-family="sans-serif" font-size="11" role="img">\n'
    yield f"<title>{escape(title)}</title>\n"
    yield f'<rect width="100%" height="100%" fill="white"/>\n<text x="{MARGIN}" y="{MARGIN}" font-size="14">{escape(title)}</text>\n'
    for parent, child in tree.edges:
        (x1, y1), (x2, y2) = place[parent], place[child]
        start = x1 + min(COLUMN - 30, 8 + 6.2 * len(_short(tree.nodes[parent]["label"])))
        middle = (start + x2) / 2
        curve = f"M{start:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2 - 6:.1f} {y2:.1f}"
        yield f'<path d="{curve}" fill="none" stroke="#c4c9d0"/>\n'
    for node, (x, y) in place.items():
        data = tree.nodes[node]
        weight = ' font-weight="bold"' if data["kind"] in ("scenario", "platform") else ""
        colour = COLOURS[data["kind"]]
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        yield f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{colour}"{weight}>{escape(_short(data["label"]))}</text>\n'
    yield "</svg>\n"


def _short(label: str) -> str:
    printable = "".join(c for c in label if c.isprintable())
    return printable if len(printable) <= 30 else printable[:29] + "…"


def write_tools_report(run: Run) -> list[Path]:
    """Write what stages 1 and 2 made as a whole; returns the files.

    `report/api_tree.json` (networkx node-link), `.mmd` and `.svg`, `equivalence.jsonl`, `parameter_variety.json`.
    """
    scenarios = list(read_lines(run.file("01_scenarios"), Scenario))
    apis = list(read_lines(run.file("02_apis"), API))
    tree = api_tree(scenarios, apis)
    folder = run.root / "report"
    title = f"{len(scenarios)} scenarios, {sum(len(s.platforms) for s in scenarios)} platforms, {len(apis)} APIs; {maker(run.config.model)}"
    data: dict[str, Any] = nx.node_link_data(tree, edges="edges")
    told = {"made_by": maker(run.config.model), **variety(run.config, apis)}
    write_text(folder / "api_tree.json", [pretty(data) + "\n"])
    write_text(folder / "api_tree.mmd", [f"%% {title}\n", mermaid(tree)])
    write_text(folder / "api_tree.svg", svg(tree, title))
    write_lines(folder / "equivalence.jsonl", equivalences(apis))
    write_text(folder / "parameter_variety.json", [pretty(told) + "\n"])
    names = ("api_tree.json", "api_tree.mmd", "api_tree.svg", "equivalence.jsonl", "parameter_variety.json")
    return [folder / name for name in names]


def tree_markdown(run: Run) -> str:
    """The tree for the Prefect UI: Mermaid, then wanted and found forms of parameters."""
    apis = list(read_lines(run.file("02_apis"), API))
    tree = api_tree(list(read_lines(run.file("01_scenarios"), Scenario)), apis)
    told = variety(run.config, apis)
    rows = [f"| {form} | {count['wanted']} | {count['found']} |" for form, count in told["forms"].items()]
    rows += [f"| {size} parameters | {count['wanted']} | {count['found']} |" for size, count in told["parameters"].items()]
    table = "\n".join(["| APIs that show | wanted | found |", "|---|---|---|", *rows])
    return f"Made by {maker(run.config.model)}.\n\n```mermaid\n{mermaid(tree)}```\n\n{table}\n"
