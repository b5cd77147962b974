"""The upper rounds of the feature tree: features get parents until the number of roots is in range."""

from __future__ import annotations

from pipelines.errors import ReplyError
from pipelines.features.clusters import cluster, cosine_distances, vectors_of
from pipelines.records import FeatureKind, FeatureNode, Rejection
from pipelines.replies import FeatureGroupsReply
from pipelines.stage import Context, StageResult, gather

FAN_IN = 4
MAX_ROUNDS = 8
KINDS: tuple[FeatureKind, ...] = ("basic", "preference", "request")
FIXED = {
    "other_details": {"en": "Details of single requests that fit no other feature.", "zh": "单次请求中不属于其他特征的细节。"},
    "ungrouped": {"en": "Features that the model left ungrouped.", "zh": "模型没有归组的特征。"},
}
"""Descriptions that no model writes, by language."""


async def group_up(ctx: Context, nodes: dict[str, FeatureNode], result: StageResult[FeatureNode]) -> list[str]:
    """Add parents to `nodes`, round by round; returns the roots.

    A round that would leave fewer roots than wanted is partly undone: its largest groups open again. Features
    fewer than the least number of roots stay roots.
    """
    least, most = ctx.config.feature_roots
    roots = list(nodes)
    for height in range(2, MAX_ROUNDS + 2):
        if len(roots) <= most:
            break
        roots = _opened(nodes, await _round(ctx, nodes, roots, height, result), height, least, most)
    return roots


def _opened(nodes: dict[str, FeatureNode], roots: list[str], height: int, least: int, most: int) -> list[str]:
    """Undo the new groups whose opening brings the number of roots into range, the largest first."""
    for root in sorted(roots, key=lambda r: (-len(nodes[r].children), r)):
        if len(roots) >= least:
            break
        children = nodes[root].children
        if nodes[root].height == height and len(roots) - 1 + len(children) <= most:
            roots = [r for r in roots if r != root] + children
            del nodes[root]
    return roots


async def _round(ctx: Context, nodes: dict[str, FeatureNode], roots: list[str], height: int, result: StageResult[FeatureNode]) -> list[str]:
    """Roots of the same kind are clustered and get parents."""
    jobs: list[list[str]] = []
    for kind in KINDS:
        same = [root for root in roots if nodes[root].kind == kind]
        texts = [f"{nodes[r].name} {nodes[r].description}" for r in same]
        groups = cluster(cosine_distances(vectors_of(texts)), FAN_IN) if len(same) > 1 else [list(range(len(same)))] if same else []
        jobs += [[same[i] for i in members] for members in groups]

    async def name(members: list[str]) -> list[FeatureNode] | Rejection:
        return await _name_group(ctx, nodes, members, height) if len(members) > 1 else []

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
        return _forced(nodes, new_roots, height, ctx.config.language)
    return new_roots


async def _name_group(ctx: Context, nodes: dict[str, FeatureNode], members: list[str], height: int) -> list[FeatureNode] | Rejection:
    values = {"features": [{"id": m, "name": nodes[m].name, "description": nodes[m].description, "kind": nodes[m].kind} for m in members]}
    try:
        reply, _ = await ctx.llm.ask(ctx.prompt("features.group"), values, FeatureGroupsReply, stage="features", subject=members[0])
    except ReplyError as error:
        return Rejection(stage="features", subject=members[0], reason=error.reason, detail=error.detail[:500])
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


def _forced(nodes: dict[str, FeatureNode], roots: list[str], height: int, language: str) -> list[str]:
    forced = []
    for kind in KINDS:
        same = [root for root in roots if nodes[root].kind == kind]
        if same:
            key = f"all_{kind}_{height}"
            nodes[key] = FeatureNode(
                id=key, name=f"all {kind} features", description=FIXED["ungrouped"][language],
                kind=kind, children=same, leaves=[], height=height,
            )  # fmt: skip
            forced.append(key)
    return forced
