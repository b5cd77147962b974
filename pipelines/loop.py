"""Stages 6 to 8 as a loop per user and scenario: plan, word, solve, verify, and draw rejected slots again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipelines.llm.prompts import Block, block
from pipelines.plans import Allowed, Target, draw_slot, targets
from pipelines.queries import Cell, choice, platforms_brief, slot_is_fair, write_queries
from pipelines.records import API, FeatureNode, History, Profile, Query, Rejection, Sample, Scenario, Solution, Style
from pipelines.solutions import solve_queries
from pipelines.splits import Quotas
from pipelines.stage import Context, gather
from pipelines.verify import leaks
from pipelines.verify.samples import verify
from pipelines.views import market_view, solver_view, tools_block, writer_view
from pipelines.world import World

ALARM_AFTER = 4
"""Rounds before the yield of a cell is judged."""
STUBBORN = 5
"""Attempts at a special target before a plain one takes its place."""
PATIENCE = 2
"""Rounds in which the structure may fail to support a special target before a plain one takes its place."""
ALARM_BELOW = 0.1
"""A cell that accepts a smaller share of its attempts than this is stopped."""


@dataclass
class CellResult:
    """All that one cell made, round by round."""

    key: str
    queries: list[Query] = field(default_factory=list)
    solutions: list[Solution] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    short: int = 0
    """Slots left empty when the loop gave up."""
    empty: Counter[str] = field(default_factory=Counter)
    """The same by what they were to become."""


@dataclass(frozen=True)
class Population:
    """Everything the sample stages read, with the prompt blocks that all cells of a scenario share."""

    world: World
    profiles: dict[str, Profile]
    histories: dict[tuple[str, str], History]
    market: dict[str, Block]
    brief: dict[str, Block]
    tools: dict[str, Block]
    strangers: bool = False
    """Do cells also carry another user, for the gate `needed`?"""

    @classmethod
    def of(
        cls,
        scenarios: Sequence[Scenario],
        apis: Sequence[API],
        features: Sequence[FeatureNode],
        profiles: Sequence[Profile],
        histories: Sequence[History],
    ) -> Population:
        """Index the records of stages 1 to 5."""
        world = World(scenarios, apis, features)
        return cls(
            world,
            {p.id: p for p in profiles},
            {(h.user, h.scenario): h for h in histories},
            {s.id: block(market_view(s)) for s in scenarios},
            {s.id: platforms_brief(s.platforms) for s in scenarios},
            {s.id: tools_block(s.platforms, world.apis_of, levels=True) for s in scenarios},
        )

    def cell(self, user: str, scenario: str) -> Cell:
        """One user in one scenario; there must be a history."""
        profile, history = self.profiles[user], self.histories[user, scenario]
        found = self.world.scenario[scenario]
        return Cell(
            self.world,
            profile,
            found,
            history,
            self.market[scenario],
            self.brief[scenario],
            self.tools[scenario],
            *self._person(profile, history, found),
            self._stranger(user, found),
        )

    def _person(self, profile: Profile, history: History, scenario: Scenario) -> tuple[Block, Block]:
        return (
            block(writer_view(profile, scenario.id).model_dump(mode="json")),
            block(solver_view(profile, history, scenario.platforms).model_dump(mode="json")["history"]),
        )

    def _stranger(self, user: str, scenario: Scenario) -> tuple[Block, Block] | None:
        """The next user with a history in the scenario."""
        if not self.strangers:
            return None
        users = [other for other in self.profiles if (other, scenario.id) in self.histories]
        other = users[(users.index(user) + 1) % len(users)]
        return self._person(self.profiles[other], self.histories[other, scenario.id], scenario) if other != user else None

    def golds(self, ctx: Context) -> dict[tuple[str, str], dict[str, str]]:
        """(user, scenario) of the cells in which the structure supports a label -> context -> the platform that is gold in it."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        for user in self.profiles:
            for scenario in self.world.scenario:
                if (user, scenario) in self.histories:
                    golds = _golds(ctx, self.cell(user, scenario))
                    if golds:
                        found[user, scenario] = golds
        return found


def _golds(ctx: Context, cell: Cell) -> dict[str, str]:
    """Context -> gold platform of most open capabilities, where there is a fair one."""
    found: dict[str, str] = {}
    for context in cell.scenario.contexts:
        counts: Counter[str] = Counter()
        for capability in cell.scenario.capabilities:
            here = choice(cell, context.name, capability.name, ctx.config.min_margin) if capability.open else None
            if here and slot_is_fair(here, ctx.config.min_margin, ctx.config.min_posterior) is None:
                counts[here.gold] += 1
        if counts:
            found[context.name] = counts.most_common(1)[0][0]
    return found


async def fill_cells(ctx: Context, population: Population, quotas: Quotas, cells: Sequence[tuple[str, str]]) -> list[CellResult]:
    """Fill the quota of every cell; results in the order of the cells."""

    async def fill(key: tuple[str, str]) -> CellResult:
        return await fill_cell(
            ctx, population.cell(*key), quotas.of(*key), quotas.extra.get(key, {}), quotas.allowed, quotas.contexts.get(key, {})
        )

    return await gather(cells, fill)


def cell_targets(ctx: Context, cell: Cell, quota: int, extra: Mapping[str, int], contexts: Mapping[str, float]) -> list[Target]:
    """All targets of one cell: its usual quota, then what it gives to hold-out splits."""
    usual = contexts or {context.name: 1.0 for context in cell.scenario.contexts}
    wanted = targets(ctx.config.shares.model_dump(), ctx.config.rng("targets", cell.key), quota, usual)
    for group, count in extra.items():
        for number in range(len(wanted) + 1, len(wanted) + 1 + count):
            wanted.append(Target("", number, Style(), group=group))
    return wanted


async def fill_cell(
    ctx: Context,
    cell: Cell,
    quota: int,
    extra: Mapping[str, int] | None = None,
    allowed: Allowed | None = None,
    contexts: Mapping[str, float] | None = None,
) -> CellResult:
    """Rounds until every slot holds a verified sample, the rounds are used up, or the yield alarm fires.

    A target that the structure has not supported for `PATIENCE` rounds, or that `STUBBORN` answers have missed, is drawn
    as a plain one, unless its share was asked for by number; the coverage table tells both.
    """
    result = CellResult(cell.key)
    wanted = {target.number: target for target in cell_targets(ctx, cell, quota, extra or {}, contexts or {})}
    attempts = dict.fromkeys(wanted, 0)
    undrawn: Counter[int] = Counter()
    quota = len(wanted)
    filled: dict[int, Sample] = {}
    accepted: list[frozenset[str]] = []
    tried = 0
    for round_number in range(1, ctx.config.max_rounds + 1):
        slots = []
        for number in attempts:
            if number in filled:
                continue
            attempts[number] += 1
            special = wanted[number].special
            usual = bool(special) and getattr(ctx.config.shares, special) is None
            if usual and attempts[number] > STUBBORN:
                wanted[number] = replace(wanted[number], special="")
            slot, rejected = draw_slot(ctx, cell, wanted[number], attempts[number], allowed)
            result.rejected.extend(rejected)
            if slot is not None:
                slots.append(slot)
                continue
            undrawn[number] += 1
            if usual and undrawn[number] >= PATIENCE:
                wanted[number] = replace(wanted[number], special="")
        if not slots and round_number > PATIENCE:
            break
        if not slots:
            continue
        tried += len(slots)
        written = await write_queries(ctx, cell, slots)
        solved = await solve_queries(ctx, cell, written.kept)
        solution_of = {solution.id: solution for solution in solved.kept}
        pairs = [(query, solution_of[query.id]) for query in written.kept if query.id in solution_of]
        checked = await verify(ctx, cell, pairs, accepted)
        result.queries.extend(written.kept)
        result.solutions.extend(solved.kept)
        result.rejected.extend([*written.rejected, *solved.rejected, *checked.rejected])
        for sample in checked.kept:
            filled[int(sample.id.rpartition(".")[2])] = sample
            accepted.append(leaks.word_set(sample.query))
        if len(filled) == quota or (round_number >= ALARM_AFTER and len(filled) < ALARM_BELOW * tried):
            break
    result.samples = [filled[number] for number in sorted(filled)]
    result.short = quota - len(filled)
    for number, target in wanted.items():
        if number not in filled:
            result.empty[target.special or target.group or "plain"] += 1
    return result
