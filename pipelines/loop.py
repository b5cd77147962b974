"""Stages 6 to 8 as a loop per user and scenario: plan, word, solve, verify, and draw rejected slots again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipelines.llm.prompts import Block, block
from pipelines.queries import Cell, choice, draw_slot, platforms_brief, slot_is_fair, write_queries
from pipelines.records import API, FeatureNode, History, Profile, Query, Rejection, Sample, Scenario, Solution
from pipelines.solutions import solve_queries
from pipelines.splits import Quotas
from pipelines.stage import Context, gather
from pipelines.verify import leaks
from pipelines.verify.samples import verify
from pipelines.views import market_view, solver_view, tools_block, writer_view
from pipelines.world import World

ALARM_AFTER = 4
"""Rounds before the yield of a cell is judged."""
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


@dataclass(frozen=True)
class Population:
    """Everything the sample stages read, with the prompt blocks that all cells of a scenario share."""

    world: World
    profiles: dict[str, Profile]
    histories: dict[tuple[str, str], History]
    market: dict[str, Block]
    brief: dict[str, Block]
    tools: dict[str, Block]

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
            block(writer_view(profile, scenario).model_dump(mode="json")),
            block(solver_view(profile, history, found.platforms).model_dump(mode="json")["history"]),
        )

    def open_cells(self, ctx: Context) -> Iterator[tuple[str, str]]:
        """(user, scenario) of the cells in which the structure supports at least one label."""
        for user in self.profiles:
            for scenario in self.world.scenario:
                if (user, scenario) in self.histories and _can_hold(ctx, self.cell(user, scenario)):
                    yield user, scenario


def _can_hold(ctx: Context, cell: Cell) -> bool:
    for context in cell.scenario.contexts:
        for capability in cell.scenario.capabilities:
            found = choice(cell, context.name, capability.name, ctx.config.min_margin)
            if capability.open and found and slot_is_fair(found, ctx.config.min_margin, ctx.config.min_posterior) is None:
                return True
    return False


async def fill_cells(ctx: Context, population: Population, quotas: Quotas, cells: Sequence[tuple[str, str]]) -> list[CellResult]:
    """Fill the quota of every cell; results in the order of the cells."""

    async def fill(key: tuple[str, str]) -> CellResult:
        return await fill_cell(ctx, population.cell(*key), quotas.of(*key))

    return await gather(cells, fill)


async def fill_cell(ctx: Context, cell: Cell, quota: int) -> CellResult:
    """Rounds until every slot holds a verified sample, the rounds are used up, or the yield alarm fires."""
    result = CellResult(cell.key)
    attempts = dict.fromkeys(range(1, quota + 1), 0)
    filled: dict[int, Sample] = {}
    accepted: list[frozenset[str]] = []
    tried = 0
    for round_number in range(1, ctx.config.max_rounds + 1):
        slots = []
        for number in attempts:
            if number in filled:
                continue
            attempts[number] += 1
            slot, rejected = draw_slot(ctx, cell, number, attempts[number])
            result.rejected.extend(rejected)
            if slot is not None:
                slots.append(slot)
        if not slots:
            break
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
    return result
