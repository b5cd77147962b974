"""Stage 3: the feature tree, bottom up, from platform traits and API parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion, make_union

from pipelines import normal
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.llm import prompts
from pipelines.records import API, FeatureKind, FeatureNode, Rejection, Scenario
from pipelines.replies import FeatureGroupsReply, FeaturesReply
from pipelines.stage import Context, StageResult, gather
from pipelines.world import leaves

CLUSTER_SIZE = 12
"""Leaves shown to the model at once; small enough to name, large enough to see what belongs together."""
FAN_IN = 4
MAX_ROUNDS = 8


@dataclass(frozen=True)
class LeafText:
    """A leaf as the clustering and the model see it."""

    ids: tuple[str, ...]
    """Leaves with the very same text share one."""
    name: str
    description: str
    origin: str
    """`trait` or `parameter`."""

    @property
    def text(self) -> str:
        """What is embedded."""
        return f"{' '.join(normal.words(self.name))} {self.description}"


async def build_tree(ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API]) -> StageResult[FeatureNode]:
    """Cluster leaves, let the model name and type each cluster, repeat with the features until few roots are left.

    Vectors are TF-IDF of words and character n-grams; clusters are agglomerative with average linkage
    on cosine distance. A cluster may be split by the model; features of the same name become one.

    Raises:
        ChecksFailed: when the result is no tree over all leaves.
    """
    result: StageResult[FeatureNode] = StageResult()
    texts = leaf_texts(scenarios, apis)
    clusters = cluster([leaf.text for leaf in texts], math.ceil(len(texts) / CLUSTER_SIZE))
    numbered = [[(f"L{i}", texts[i]) for i in members] for members in clusters]

    async def name(members: list[tuple[str, LeafText]]) -> tuple[list[tuple[str, FeatureKind, str, list[str]]], list[Rejection]]:
        return await _name_cluster(ctx, members)

    found: dict[str, list[tuple[FeatureKind, str, list[str]]]] = {}
    for features, rejected in await gather(numbered, name):
        result.rejected.extend(rejected)
        for feature, kind, description, ids in features:
            found.setdefault(feature, []).append((kind, description, ids))
    nodes = {feature: _merged(feature, parts) for feature, parts in sorted(found.items())}
    roots = list(nodes)
    for height in range(2, MAX_ROUNDS + 2):
        if len(roots) <= ctx.config.feature_roots[1]:
            break
        roots = await _group(ctx, nodes, roots, height, result)
    result.kept = [nodes[key] for key in sorted(nodes, key=lambda k: (-nodes[k].height, k))]
    problem = tree_is_sound(result.kept, [leaf for text in texts for leaf in text.ids])
    if problem:
        raise ChecksFailed(f"feature tree: {problem}")
    result.notes = {"leaves": sum(len(t.ids) for t in texts), "clusters": len(clusters), "roots": len(roots)}
    return result


def leaf_texts(scenarios: Sequence[Scenario], apis: Sequence[API]) -> list[LeafText]:
    """All leaves in file order; equal texts are one entry with several ids."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for scenario in scenarios:
        for trait in scenario.traits:
            merged.setdefault((trait.name, trait.description, "trait"), []).append(f"{scenario.id}#{trait.name}")
    for api in apis:
        for leaf in leaves(api.parameters):
            merged.setdefault((leaf.path, leaf.description, "parameter"), []).append(f"{api.id}#{leaf.path}")
    return [LeafText(tuple(ids), name, description, origin) for (name, description, origin), ids in merged.items()]


def cluster(texts: Sequence[str], count: int) -> list[list[int]]:
    """Indices of the texts in `count` clusters, in order of their first member."""
    if len(texts) <= 1 or count <= 1:
        return [list(range(len(texts)))] if texts else []
    union: FeatureUnion = make_union(
        TfidfVectorizer(analyzer="word", sublinear_tf=True), TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4), sublinear_tf=True)
    )
    vectors = union.fit_transform(texts)
    similarity = (vectors @ vectors.T).toarray()
    lengths = np.sqrt(np.maximum(similarity.diagonal(), 1e-12))
    distance = np.clip(1 - similarity / lengths[:, None] / lengths[None, :], 0, 2)
    labels = AgglomerativeClustering(n_clusters=min(count, len(texts)), metric="precomputed", linkage="average").fit_predict(distance)
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(int(label), []).append(index)
    clusters = list(groups.values())
    return [part for members in clusters for part in _bounded(members)]


def _bounded(members: list[int]) -> list[list[int]]:
    """Average linkage can make one huge cluster; the model is shown at most three times the usual size."""
    size = 3 * CLUSTER_SIZE
    return [members[i : i + size] for i in range(0, len(members), size)]


async def _name_cluster(
    ctx: Context, members: list[tuple[str, LeafText]]
) -> tuple[list[tuple[str, FeatureKind, str, list[str]]], list[Rejection]]:
    leaf_of = dict(members)
    values = {
        "leaves": [{"id": number, "origin": leaf.origin, "name": leaf.name, "description": leaf.description} for number, leaf in members]
    }
    left = set(leaf_of)
    found: list[tuple[str, FeatureKind, str, list[str]]] = []
    rejected: list[Rejection] = []
    for attempt in range(2):
        try:
            reply, _ = await ctx.llm.ask(
                prompts.load("features.name_cluster"), values, FeaturesReply, stage="features", subject=members[0][0], repeat=attempt
            )
        except ReplyError as error:
            rejected.append(Rejection(stage="features", subject=members[0][0], reason=error.reason, detail=error.detail))
            continue
        for feature in reply.features:
            mine = [number for number in dict.fromkeys(feature.leaves) if number in left]
            left.difference_update(mine)
            if mine:
                ids = [leaf for number in mine for leaf in leaf_of[number].ids]
                found.append((feature.name, feature.kind, feature.description, ids))
        if not left:
            break
    if left:
        names = ", ".join(leaf_of[number].name for number in sorted(left))
        rejected.append(Rejection(stage="features", subject=members[0][0], reason="leaf_unplaced", detail=names))
        ids = [leaf for number, text in members if number in left for leaf in text.ids]
        found.append(("other_details", "request", "Details of single requests that fit no other feature.", ids))
    return found, rejected


def _merged(name: str, parts: list[tuple[FeatureKind, str, list[str]]]) -> FeatureNode:
    """One feature from all clusters that named it; the kind of most leaves wins."""
    votes: Counter[FeatureKind] = Counter()
    for kind, _, ids in parts:
        votes[kind] += len(ids)
    kind = votes.most_common(1)[0][0]
    return FeatureNode(
        id=name,
        name=name.replace("_", " "),
        description=parts[0][1],
        kind=kind,
        children=[],
        leaves=[leaf for _, _, ids in parts for leaf in ids],
        height=1,
    )


async def _group(ctx: Context, nodes: dict[str, FeatureNode], roots: list[str], height: int, result: StageResult[FeatureNode]) -> list[str]:
    """One round: roots of the same kind are clustered and get parents."""
    jobs: list[list[str]] = []
    for kind in ("basic", "preference", "request"):
        same = [root for root in roots if nodes[root].kind == kind]
        groups = cluster([f"{nodes[r].name} {nodes[r].description}" for r in same], math.ceil(len(same) / FAN_IN))
        jobs += [[same[i] for i in members] for members in groups]

    async def name(members: list[str]) -> list[FeatureNode] | Rejection:
        if len(members) == 1:
            return []
        values = {
            "features": [{"id": m, "name": nodes[m].name, "description": nodes[m].description, "kind": nodes[m].kind} for m in members]
        }
        try:
            reply, _ = await ctx.llm.ask(prompts.load("features.group"), values, FeatureGroupsReply, stage="features", subject=members[0])
        except ReplyError as error:
            return Rejection(stage="features", subject=members[0], reason=error.reason, detail=error.detail)
        left = set(members)
        parents = []
        for group in reply.groups:
            mine = [m for m in dict.fromkeys(group.members) if m in left]
            left.difference_update(mine)
            if mine:
                parents.append(
                    FeatureNode(
                        id=group.name, name=group.name.replace("_", " "), description=group.description,
                        kind=nodes[mine[0]].kind, children=mine, leaves=[], height=height,
                    )
                )  # fmt: skip
        return parents

    new_roots: list[str] = []
    for members, answer in zip(jobs, await gather(jobs, name), strict=True):
        if isinstance(answer, Rejection):
            result.rejected.append(answer)
            answer = []
        adopted: set[str] = set()
        for parent in answer:
            known = nodes.get(parent.id)
            if known is not None and (known.kind != parent.kind or known.height != height):
                parent = parent.model_copy(update={"id": f"{parent.id}_{parent.kind}_{height}"})
                known = nodes.get(parent.id)
            if known is not None:
                parent = known.model_copy(update={"children": [*known.children, *parent.children]})
            nodes[parent.id] = parent
            if parent.id not in new_roots:
                new_roots.append(parent.id)
            adopted.update(parent.children)
        new_roots += [m for m in members if m not in adopted]
    if len(new_roots) >= len(roots):  # a model that groups nothing must not keep the loop alive
        return _forced(nodes, new_roots, height)
    return new_roots


def _forced(nodes: dict[str, FeatureNode], roots: list[str], height: int) -> list[str]:
    forced = []
    for kind in ("basic", "preference", "request"):
        same = [root for root in roots if nodes[root].kind == kind]
        if same:
            key = f"all_{kind}_{height}"
            nodes[key] = FeatureNode(
                id=key, name=f"all {kind} features", description="Features that the model left ungrouped.",
                kind=kind, children=same, leaves=[], height=height,
            )  # fmt: skip
            forced.append(key)
    return forced


def tree_is_sound(nodes: Sequence[FeatureNode], wanted: Sequence[str]) -> str | None:
    """An arborescence below one virtual root that holds every leaf exactly once."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    counts = Counter(leaf for node in nodes for leaf in node.leaves)
    twice = [leaf for leaf, count in counts.items() if count > 1]
    if twice:
        return f"leaf {twice[0]} hangs under two features"
    lost = [leaf for leaf in wanted if leaf not in counts]
    if lost:
        return f"leaf {lost[0]} hangs nowhere"
    children = {child for node in nodes for child in node.children}
    for node in nodes:
        graph.add_edges_from((node.id, child) for child in node.children)
        graph.add_edges_from((node.id, f"leaf {leaf}") for leaf in node.leaves)
        if node.id not in children:
            graph.add_edge("", node.id)
    return None if nx.is_arborescence(graph) else "the features do not form a tree"
