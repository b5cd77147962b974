import json
import re
from collections import Counter
from xml.etree import ElementTree

import networkx as nx
import pytest
from making import Made, make_run

from pipelines.errors import ChecksFailed
from pipelines.jsonio import read_lines
from pipelines.records import API, Equivalence
from pipelines.run import load_run
from pipelines.tools.tree import api_tree, mermaid, svg, tree_markdown


def records(made: Made):
    return made.people.world.scenarios, made.people.world.apis


def test_the_tree_is_an_arborescence_from_scenarios_to_apis(varied: Made):
    scenarios, apis = records(varied)
    tree = api_tree(scenarios, apis)

    assert nx.is_arborescence(tree)
    assert {node for node in tree if tree.out_degree(node) == 0} == {api.id for api in apis}
    for api in apis:
        kinds = [tree.nodes[node]["kind"] for node in nx.shortest_path(tree, "all", api.id)]
        assert kinds[:3] == ["root", "scenario", "platform"]
        assert kinds[-1] == "api"
        assert set(kinds[3:-1]) == {"group"}


def test_a_run_keeps_its_tree_its_picture_and_its_maps(varied: Made):
    scenarios, apis = records(varied)
    folder = varied.root / "report"

    kept = nx.node_link_graph(json.loads((folder / "api_tree.json").read_text()), edges="edges")
    assert nx.utils.graphs_equal(kept, api_tree(scenarios, apis))
    picture = ElementTree.parse(folder / "api_tree.svg")
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {platform.name for s in scenarios for platform in s.platforms} <= set(words)
    assert len(words) == len(kept) + 1
    assert "offline model" in words[0]
    maps = list(read_lines(folder / "equivalence.jsonl", Equivalence))
    assert {(m.scenario, m.capability) for m in maps} == {(s.id, c.name) for s in scenarios for c in s.capabilities}
    assert all(len(m.apis) >= 2 and m.problems == [] for m in maps)
    variety = json.loads((folder / "parameter_variety.json").read_text())
    assert variety["apis"] == len(apis) == sum(size["found"] for size in variety["parameters"].values())


def test_names_can_break_neither_the_chart_nor_the_picture(varied: Made):
    scenarios, apis = records(varied)
    evil = '"] --> x\n```\n<script>alert(1)</script> & %%'
    tree = api_tree([scenarios[0].model_copy(update={"name": evil}), *scenarios[1:]], apis)

    chart = mermaid(tree)
    assert "```" not in chart
    assert "<" not in chart
    assert all(re.fullmatch(r"flowchart LR|  n\d+\[\"[^\"\[\]]+\"\]|  n\d+ --> n\d+", line) for line in chart.splitlines())
    ElementTree.fromstring("".join(svg(tree, evil)))


def test_a_large_tree_is_charted_without_its_apis_but_with_their_number(varied: Made):
    scenarios, apis = records(varied)
    many = [api.model_copy(update={"id": f"{api.id}_{i}", "name": f"{api.name}_{i}"}) for i in range(20) for api in apis]

    chart = mermaid(api_tree(scenarios, many))

    assert apis[0].name not in chart
    assert re.search(r"\(\d+\)", chart)


def test_the_artifact_stays_small_and_says_who_made_it(varied: Made):
    text = tree_markdown(load_run(varied.root))

    assert len(text.encode()) < 200_000
    assert "offline model" in text
    assert "```mermaid" in text


def test_a_platform_without_apis_is_no_tree(varied: Made):
    scenarios, apis = records(varied)
    with pytest.raises(ChecksFailed, match="form no tree"):
        api_tree(scenarios, [api for api in apis if api.platform != scenarios[0].platforms[0].id])


@pytest.mark.parametrize("depth", [1, 2])
def test_depth_and_size_of_groups_are_config(tmp_path, depth):
    pets = tmp_path / "pets.yaml"
    pets.write_text("name: pet_care\ndescription: Looking after pets.\n")

    make_run(tmp_path / "run", scenarios=[str(pets)], apis_per_platform=20, group_depth=depth, group_size=4)

    apis = list(read_lines(tmp_path / "run" / "02_apis.jsonl", API))
    assert max(api.group.count("/") + 1 for api in apis) == depth
    assert depth == 1 or max(Counter((api.platform, api.group) for api in apis).values()) <= 5
    counts = {platform: sum(api.platform == platform for api in apis) for platform in {api.platform for api in apis}}
    assert list(counts.values()) == [20, 20]
