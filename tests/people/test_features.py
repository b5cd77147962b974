"""The feature tree: every leaf once, roots in range, figures that mean what they say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import networkx as nx
import pytest
from making import Made
from scripted import Scripted, context

from pipelines.errors import ConfigError
from pipelines.features import Naming, build_tree, parameter_features, tree_graph, tree_is_sound
from pipelines.features.clusters import agreement, cluster, cosine_distances, silhouette, vectors_of
from pipelines.llm.embeddings import embed
from pipelines.llm.ledger import Ledger
from pipelines.records import API, FeatureNode, Scenario, Trait
from pipelines.stage import StageResult


def named(kind: str = "request") -> Any:
    def answer(values: dict[str, Any]) -> dict[str, Any]:
        told = {"description": "some fact", "kind": kind}
        return {"features": [{**told, "name": f"about_{leaf['name']}", "leaves": [leaf["id"]]} for leaf in values["leaves"]]}

    return answer


def grouped(values: dict[str, Any]) -> dict[str, Any]:
    members = [f["id"] for f in values["features"]]
    return {"groups": [{"name": f"area_of_{members[0]}", "description": "an area", "kind": "request", "members": members}]}


def api_with(*parameters: str) -> API:
    properties = {name: {"type": "string", "description": f"The {name} of it"} for name in parameters}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return API(id="s/p/a", platform="s/p", name="a", description="does", capability="c", group="g", parameters=schema, returns="r")


def market(traits: list[str]) -> Scenario:
    axes = [Trait(name=t, description=f"how {t}") for t in traits]
    return Scenario(id="s", name="s", description="d", traits=axes, contexts=[], capabilities=[], platforms=[])


def build(llm: Scripted, traits: list[str], parameters: list[str], **overrides: object) -> StageResult[FeatureNode]:
    return asyncio.run(build_tree(context(llm, **overrides), [market(traits)], [api_with(*parameters)] if parameters else []))


WORDS = [
    "colour",
    "size",
    "street",
    "city",
    "budget",
    "deadline",
    "brand",
    "weight",
    "phone",
    "email",
    "diet",
    "seat",
    "gate",
    "hotel",
    "room",
]


def test_the_tree_holds_every_leaf_once_with_its_roots_in_range(varied: Made):
    nodes = list(varied.people.world.features)
    found = [leaf for node in nodes for leaf in node.leaves]
    children = {child for node in nodes for child in node.children}

    assert len(found) == len(set(found))
    assert nx.is_arborescence(tree_graph(nodes))
    assert 3 <= sum(node.id not in children for node in nodes) <= 12
    notes = json.loads((varied.root / "manifest.json").read_text())["stages"]["03_features"]["notes"]
    assert {"silhouette", "share of leaves moved by the model", "agreement between two seeds"} <= set(notes)


def test_parameters_map_to_the_feature_that_can_fill_them(varied: Made):
    nodes = list(varied.people.world.features)
    found = parameter_features(nodes)

    assert {kind for _, kind in found.values()} == {"basic", "preference", "request"}
    assert all(kind == "preference" for leaf, (_, kind) in found.items() if "/" not in leaf)


@pytest.mark.parametrize("least", [1, 4])
def test_rounds_stop_inside_the_range_of_roots(least: int):
    result = build(Scripted(features__name_cluster=named(), features__group=grouped), [], WORDS, feature_roots=[least, 5])

    assert least <= result.notes["roots"] <= 5
    assert tree_is_sound(result.kept, [f"s/p/a#{word}" for word in WORDS]) is None


def test_a_model_that_groups_nothing_still_ends_with_a_tree():
    def single(values: dict[str, Any]) -> dict[str, Any]:
        told = {"description": "some area", "kind": "request"}
        return {"groups": [{**told, "name": f"x_{f['id']}", "members": [f["id"]]} for f in values["features"]]}

    alone = Scripted(features__name_cluster=named(), features__group=single)
    result = build(alone, [], WORDS, feature_roots=[1, 3])

    assert result.notes["roots"] <= 3


def test_one_leaf_is_a_tree():
    result = build(Scripted(features__name_cluster=named()), ["price"], [])

    assert [(n.id, n.leaves) for n in result.kept] == [("about_price", ["s#price"])]
    assert result.notes["roots"] == 1


def test_parameters_that_give_no_basic_feature_are_a_counted_rejection():
    bare = build(Scripted(features__name_cluster=named("request")), ["price"], ["colour"])
    basic = build(Scripted(features__name_cluster=named("basic")), ["price"], ["colour"])

    assert [(r.subject, r.reason) for r in bare.rejected] == [("s", "no_basic_feature")]
    assert basic.rejected == []


def test_a_leaf_the_model_forgets_hangs_under_other_details_and_is_counted():
    def first(values: dict[str, Any]) -> dict[str, Any]:
        return {"features": [{"name": "first", "description": "some fact", "kind": "request", "leaves": [values["leaves"][0]["id"]]}]}

    lazy = Scripted(features__name_cluster=first)
    result = build(lazy, [], ["colour", "size", "street"])

    assert any(r.reason == "leaf_unplaced" for r in result.rejected)
    assert {leaf for n in result.kept for leaf in n.leaves} == {"s/p/a#colour", "s/p/a#size", "s/p/a#street"}


def test_moved_leaves_are_those_split_off_or_joined_with_another_cluster():
    naming = Naming(of={0: (0, "a"), 1: (0, "a"), 2: (0, "b"), 3: (1, "b"), 4: (1, "b"), 5: (1, "b")})

    assert naming.moved() == pytest.approx(1 / 6)
    assert Naming(of={0: (0, "a"), 1: (1, "b")}).moved() == 0


def test_alike_texts_share_a_cluster_and_the_silhouette_says_so():
    texts = ["home street address", "street address of home", "price limit dollars", "dollars price limit at most"]
    distance = cosine_distances(vectors_of(texts))
    clusters = cluster(distance, size=2)

    assert clusters == [[0, 1], [2, 3]]
    good, bad = silhouette(distance, clusters), silhouette(distance, [[0, 2], [1, 3]])
    assert good is not None
    assert bad is not None
    assert good > 0.2 > bad
    assert silhouette(distance, [[0, 1, 2, 3]]) is None


def test_agreement_is_one_for_renamed_and_near_zero_for_unrelated_assignments():
    one = {str(i): f"f{i % 4}" for i in range(80)}

    assert agreement(one, {k: v.upper() for k, v in one.items()}) == 1
    assert abs(agreement(one, {str(i): f"g{i // 20}" for i in range(80)}) or 0) < 0.1


def endpoint(status: int = 200, short: bool = False) -> tuple[httpx2.AsyncClient, list[int]]:
    calls: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        texts = json.loads(request.content)["input"]
        calls.append(len(texts))
        rows = [{"object": "embedding", "index": i, "embedding": [float(len(t)), 1.0]} for i, t in enumerate(texts)][
            : -1 if short else None
        ]
        body = {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
        return httpx2.Response(status, json=body if status == 200 else {"error": {"message": "no"}})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer)), calls


def test_vectors_of_an_endpoint_are_asked_for_once_and_kept_in_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    ledger = Ledger(tmp_path / "l.sqlite")
    client, calls = endpoint()
    one = asyncio.run(embed("m", ["a", "bbb"], ledger, 5, client))
    other, again = endpoint()
    two = asyncio.run(embed("m", ["a", "bbb"], ledger, 5, other))
    ledger.close()

    assert one is not None
    assert two is not None
    assert one.tolist() == two.tolist() == [[1.0, 1.0], [3.0, 1.0]]
    assert (calls, again) == ([2], [])


def test_an_endpoint_without_embeddings_gives_none_and_a_broken_one_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    ledger = Ledger(tmp_path / "l.sqlite")
    assert asyncio.run(embed("m", ["a"], ledger, 5, endpoint(404)[0])) is None
    with pytest.raises(ConfigError, match="1 vectors for 2 texts"):
        asyncio.run(embed("m", ["a", "b"], ledger, 5, endpoint(short=True)[0]))
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not"):
        asyncio.run(embed("m", ["a"], ledger, 5))
    ledger.close()
