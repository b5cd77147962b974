"""Stage 3: the feature tree, bottom up, from platform traits and API parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from pipelines import normal
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.features.clusters import Floats, Vectors, agreement, cluster, cosine_distances, reseeded, silhouette, vectors_of
from pipelines.features.grouping import FIXED, group_up
from pipelines.llm.embeddings import embed
from pipelines.records import API, FeatureKind, FeatureNode, Rejection, Scenario
from pipelines.replies import FeaturesReply
from pipelines.stage import Context, StageResult, gather
from pipelines.world import leaves

SECOND_SEED = 1000
"""Repeat index of the second seed's questions."""
SECOND_CLUSTERS = 24
"""So many clusters are named a second time, to see how far the result hangs on the seed."""
MOST_DEPTH = 10
OTHER = "other_details"


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


@dataclass
class Naming:
    """What the model made of the clusters."""

    parts: dict[str, list[tuple[FeatureKind, str, list[int]]]] = field(default_factory=dict)
    """Feature -> per cluster that named it: kind, description, leaf texts."""
    of: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Leaf text -> (cluster, feature)."""
    rejected: list[Rejection] = field(default_factory=list)

    def moved(self) -> float:
        """Share of leaf texts that the model took out of their cluster: split off, or joined with another's.

        A leaf stays when its feature is the largest of its cluster and the cluster is where the feature is largest.
        """
        sizes = Counter(self.of.values())
        biggest = {c: max(f for f in sizes if f[0] == c) for c in {c for c, _ in sizes}}
        homes: dict[str, tuple[int, str]] = {}
        for (number, feature), size in sorted(sizes.items()):
            if sizes[biggest[number]] < size:
                biggest[number] = (number, feature)
            if feature not in homes or size > sizes[homes[feature]]:
                homes[feature] = (number, feature)
        gone = sum(biggest[place[0]] != place or homes[place[1]] != place for place in self.of.values())
        return gone / max(len(self.of), 1)


async def build_tree(ctx: Context, scenarios: Sequence[Scenario], apis: Sequence[API]) -> StageResult[FeatureNode]:
    """Cluster leaves, let the model name and type each cluster, repeat with the features until few roots are left.

    Vectors come from the embedding model, where one is set and the endpoint has it, else they are TF-IDF of words and
    character n-grams; clusters are agglomerative with average linkage on cosine distance. The model may split a
    cluster; a leaf that it gives another cluster's feature moves there.

    Raises:
        ChecksFailed: when the result is no tree over all leaves.
    """
    result: StageResult[FeatureNode] = StageResult()
    texts = leaf_texts(scenarios, apis)
    vectors, origin = await _vectors(ctx, [leaf.text for leaf in texts])
    distance = cosine_distances(vectors)
    clusters = cluster(distance)
    naming = await _name(ctx, texts, clusters, 0)
    result.rejected = naming.rejected
    nodes = {feature: _merged(feature, parts, texts) for feature, parts in sorted(naming.parts.items())}
    roots = await group_up(ctx, nodes, result)
    result.kept = [nodes[key] for key in sorted(nodes, key=lambda k: (-nodes[k].height, k))]
    problem = tree_is_sound(result.kept, [leaf for text in texts for leaf in text.ids])
    if problem:
        raise ChecksFailed(f"feature tree: {problem}", result.rejected)
    result.rejected += without_basic_feature(scenarios, result.kept)
    second = await _again(ctx, texts, vectors)
    figures: dict[str, float | None] = {
        "silhouette": silhouette(distance, clusters),
        "share of leaves moved by the model": naming.moved(),
        "agreement between two seeds": agreement({str(i): feature for i, (_, feature) in naming.of.items()}, second),
    }
    result.notes = {
        "leaves": sum(len(t.ids) for t in texts),
        "clusters": len(clusters),
        "features": len(nodes),
        "roots": len(roots),
        "depth": max((node.height for node in result.kept), default=0),
        "vectors": origin,
        **{name: round(value, 3) for name, value in figures.items() if value is not None},
    }
    return result


async def _vectors(ctx: Context, texts: list[str]) -> tuple[Vectors | Floats, str]:
    name = ctx.config.embedding_model
    if name is not None:
        found = await embed(name, texts, ctx.llm.ledger, ctx.config.limits.timeout_s)
        if found is not None:
            return found, name
        return vectors_of(texts), f"tf-idf (the endpoint has no {name})"
    return vectors_of(texts), "tf-idf"


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


async def _again(ctx: Context, texts: Sequence[LeafText], vectors: Vectors | Floats) -> dict[str, str]:
    """Leaf text -> feature by a second seed, over some of its clusters; nothing of it enters the tree."""
    if len(texts) < 4:
        return {}
    order, distance = reseeded(vectors, ctx.config.rng("features", "second seed"))
    clusters = [sorted(order[i] for i in members) for members in cluster(distance)]
    step = max(1, len(clusters) // SECOND_CLUSTERS)
    naming = await _name(ctx, texts, clusters[::step][:SECOND_CLUSTERS], SECOND_SEED)
    return {str(index): feature for index, (_, feature) in naming.of.items()}


async def _name(ctx: Context, texts: Sequence[LeafText], clusters: Sequence[Sequence[int]], repeat: int) -> Naming:
    """Have the model name every cluster; features of the same name become one."""
    numbered = list(enumerate(clusters))

    async def name(item: tuple[int, Sequence[int]]) -> tuple[list[tuple[str, FeatureKind, str, list[int]]], list[Rejection]]:
        return await _name_cluster(ctx, texts, item[1], repeat)

    naming = Naming()
    for (number, _), (features, rejected) in zip(numbered, await gather(numbered, name), strict=True):
        naming.rejected.extend(rejected)
        for feature, kind, description, members in features:
            naming.parts.setdefault(feature, []).append((kind, description, members))
            naming.of.update(dict.fromkeys(members, (number, feature)))
    return naming


async def _name_cluster(
    ctx: Context, texts: Sequence[LeafText], members: Sequence[int], repeat: int
) -> tuple[list[tuple[str, FeatureKind, str, list[int]]], list[Rejection]]:
    leaf_of = {f"L{index}": texts[index] for index in members}
    told = [{"id": number, "origin": leaf.origin, "name": leaf.name, "description": leaf.description} for number, leaf in leaf_of.items()]
    values = {"leaves": told}
    subject = next(iter(leaf_of))
    left = set(leaf_of)
    found: list[tuple[str, FeatureKind, str, list[int]]] = []
    rejected: list[Rejection] = []
    for attempt in range(2):
        try:
            reply, _ = await ctx.llm.ask(
                ctx.prompt("features.name_cluster"), values, FeaturesReply, stage="features", subject=subject, repeat=repeat + attempt
            )
        except ReplyError as error:
            rejected.append(Rejection(stage="features", subject=subject, reason=error.reason, detail=error.detail[:500]))
            continue
        for feature in reply.features:
            mine = [number for number in dict.fromkeys(feature.leaves) if number in left]
            left.difference_update(mine)
            if mine:
                found.append((feature.name, feature.kind, feature.description, [int(number[1:]) for number in mine]))
        if not left:
            break
    if left:
        names = ", ".join(leaf_of[number].name for number in sorted(left))
        rejected.append(Rejection(stage="features", subject=subject, reason="leaf_unplaced", detail=names[:500]))
        found.append((OTHER, "request", FIXED["other_details"][ctx.config.language], sorted(int(number[1:]) for number in left)))
    return found, rejected


def _merged(name: str, parts: list[tuple[FeatureKind, str, list[int]]], texts: Sequence[LeafText]) -> FeatureNode:
    """One feature from all clusters that named it; the kind of most leaves wins."""
    votes: Counter[FeatureKind] = Counter()
    for kind, _, members in parts:
        votes[kind] += sum(len(texts[i].ids) for i in members)
    kind = votes.most_common(1)[0][0]
    return FeatureNode(
        id=name,
        name=name.replace("_", " "),
        description=parts[0][1],
        kind=kind,
        children=[],
        leaves=[leaf for _, _, members in parts for i in members for leaf in texts[i].ids],
        height=1,
    )


def without_basic_feature(scenarios: Sequence[Scenario], nodes: Sequence[FeatureNode]) -> list[Rejection]:
    """Scenarios none of whose parameters a fact about the user can fill: they hold no profile-dependent sample."""
    served = {leaf.partition("/")[0] for node in nodes if node.kind == "basic" for leaf in node.leaves if "/" in leaf}
    detail = "no parameter of its APIs hangs under a basic feature, so no argument can come from a profile"
    return [
        Rejection(stage="features", subject=scenario.id, reason="no_basic_feature", detail=detail)
        for scenario in scenarios
        if scenario.id not in served
    ]


def parameter_features(nodes: Sequence[FeatureNode]) -> dict[str, tuple[str, FeatureKind]]:
    """Leaf id -> (feature, kind): which arguments a profile can fill."""
    return {leaf: (node.id, node.kind) for node in nodes for leaf in node.leaves}


def tree_is_sound(nodes: Sequence[FeatureNode], wanted: Sequence[str]) -> str | None:
    """An arborescence below one virtual root that holds every leaf exactly once and is not too deep."""
    counts = Counter(leaf for node in nodes for leaf in node.leaves)
    twice = [leaf for leaf, count in counts.items() if count > 1]
    if twice:
        return f"leaf {twice[0]} hangs under two features"
    lost = [leaf for leaf in wanted if leaf not in counts]
    if lost:
        return f"leaf {lost[0]} hangs nowhere"
    graph = tree_graph(nodes)
    if not nx.is_arborescence(graph):
        return "the features do not form a tree"
    depth = nx.dag_longest_path_length(graph) - 1
    return f"{depth} layers of features, at most {MOST_DEPTH} are readable" if depth > MOST_DEPTH else None


def tree_graph(nodes: Sequence[FeatureNode]) -> nx.DiGraph[str]:
    """The tree below a virtual root `""`; leaves are called `leaf <id>`."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    children = {child for node in nodes for child in node.children}
    graph.add_node("")
    for node in nodes:
        graph.add_edges_from((node.id, child) for child in node.children)
        graph.add_edges_from((node.id, f"leaf {leaf}") for leaf in node.leaves)
        if node.id not in children:
            graph.add_edge("", node.id)
    return graph


def kinds(nodes: Sequence[FeatureNode]) -> Mapping[FeatureKind, int]:
    """How many features of each kind stand just above the leaves."""
    return Counter(node.kind for node in nodes if node.leaves)
