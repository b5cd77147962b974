"""Stage 9: splits by user, with exact sizes, and a certificate that proves what is disjoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.config import RunConfig
from pipelines.errors import ChecksFailed
from pipelines.jsonio import digest
from pipelines.plans import Allowed
from pipelines.records import Sample, SplitName
from pipelines.verify.leaks import word_set
from pipelines.world import World

PAPER_SPLITS: tuple[SplitName, ...] = ("train", "test_trained_users", "test_untrained_users")
HOLD_OUTS: dict[SplitName, str] = {"test_new_platforms": "platforms", "test_new_apis": "apis", "test_new_scenarios": "scenarios"}
"""Hold-out split -> what is new in it."""
SPLITS: tuple[SplitName, ...] = (*PAPER_SPLITS, *HOLD_OUTS)
FITTINGS = 40
LEAST = 0.02
NEAR_BOUND = 0.01
"""A larger share of test queries that nearly repeat a training query of the same user is a leak."""


@dataclass(frozen=True)
class Quotas:
    """How many samples each cell holds, and which users train never sees."""

    cells: Mapping[tuple[str, str], int]
    untrained: frozenset[str]
    extra: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    """What a cell gives to hold-out splits: split -> samples."""
    allowed: Allowed = field(default_factory=Allowed)
    """Held-out platforms and APIs."""
    scenarios: frozenset[str] = frozenset()
    """Held-out scenarios."""
    contexts: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    """How a cell's samples are shared out over contexts; without an entry evenly."""

    def of(self, user: str, scenario: str) -> int:
        """Samples wanted of one user in one scenario."""
        return self.cells.get((user, scenario), 0)


def hold_out(config: RunConfig, golds: Mapping[tuple[str, str], frozenset[str]], world: World) -> tuple[Allowed, frozenset[str]]:
    """What no other split may have as gold: one platform per scenario, the APIs of some capabilities, one scenario.

    Only what `config.samples` asks for is held out; held-out platforms stay visible as rivals, they are never gold in training.
    """
    scenarios = sorted({scenario for _, scenario in golds})
    held = (
        frozenset(config.rng("new-scenario").sample(scenarios, 1))
        if config.samples.test_new_scenarios and len(scenarios) > 1
        else frozenset()
    )
    platforms: set[str] = set()
    apis: set[str] = set()
    for scenario in scenarios:
        if scenario in held:
            continue
        mine = sorted({platform for cell, found in golds.items() if cell[1] == scenario for platform in found})
        if config.samples.test_new_platforms and len(mine) > 1:
            platforms.add(config.rng("new-platform", scenario).choice(mine))
        open_ones = [c.name for c in world.scenario[scenario].capabilities if c.open]
        if config.samples.test_new_apis and len(open_ones) > 2:
            count = max(1, len(open_ones) // 6)
            for capability in config.rng("new-api", scenario).sample(open_ones, count):
                apis |= {api.id for api in world.serving.get((scenario, capability), [])}
    return Allowed(frozenset(platforms), frozenset(apis)), held


def plan_quotas(
    config: RunConfig,
    users: Sequence[str],
    open_cells: Iterable[tuple[str, str]] | Mapping[tuple[str, str], frozenset[str]],
    world: World | None = None,
    apart: frozenset[str] | None = None,
) -> Quotas:
    """Share the wanted samples evenly over users, then over each user's open scenarios.

    Args:
        config: Sizes and seed.
        users: All user ids.
        open_cells: (user, scenario); with the platforms that can be gold there when something is held out.
        apart: The untrained users, where they are settled already; None: drawn here.

    Raises:
        ChecksFailed: when fewer users than needed have an open cell.
    """
    golds = open_cells if isinstance(open_cells, Mapping) else dict.fromkeys(open_cells, frozenset[str]())
    allowed, held = hold_out(config, golds, world) if world is not None else (Allowed(), frozenset[str]())
    scenarios: dict[str, list[str]] = {user: [] for user in users}
    for (user, scenario), found in golds.items():
        if scenario not in held and (not found or found - allowed.platforms):
            scenarios[user].append(scenario)
    able = [user for user in users if scenarios[user]]
    wanted = config.untrained_users if config.samples.test_untrained_users else 0
    if len(able) <= wanted:
        raise ChecksFailed(f"only {len(able)} of {len(users)} users have a scenario that supports a label; {wanted + 1} are needed")
    untrained = frozenset(config.rng("untrained").sample(able, wanted)) if apart is None else apart
    trained = [user for user in able if user not in untrained]
    cells: dict[tuple[str, str], int] = {}
    for group, total in (
        (trained, config.samples.train + config.samples.test_trained_users),
        ([user for user in able if user in untrained], config.samples.test_untrained_users),
    ):
        for turn, (user, share) in enumerate(zip(group, evenly(total, len(group)), strict=True)):
            mine = scenarios[user]
            shares = evenly(share, len(mine))
            for place, scenario in enumerate(mine):
                cells[user, scenario] = shares[(place + turn) % len(mine)]
    extra: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for split, fitting in (
        ("test_new_platforms", [c for c, found in golds.items() if c[1] not in held and found & allowed.platforms]),
        ("test_new_apis", [c for c in cells if allowed.apis]),
        ("test_new_scenarios", [c for c in golds if c[1] in held]),
    ):
        chosen = [cell for cell in fitting if cell[0] not in untrained]
        for cell, share in zip(chosen, evenly(getattr(config.samples, split), len(chosen)), strict=False):
            if share:
                extra[cell][split] = share
    return Quotas(cells, untrained, dict(extra), allowed, held)


def balance(golds: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[tuple[str, str], dict[str, float]]:
    """Per cell the share of each context, so that within a context all platforms are gold about equally often.

    Else a situation alone would tell the platform, whoever asks, and a solver could do without the user. Iterative
    proportional fitting of (cell) and (scenario, context, gold) totals; every context of a cell keeps at least `LEAST` of
    its samples, so that its platforms flip. Source: Deming and Stephan (1940), Ann. Math. Stat. 11(4).
    """
    share = {(cell, context): 1 / len(found) for cell, found in golds.items() for context in found}
    rivals: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell, found in golds.items():
        for context, gold in found.items():
            rivals[cell[1], context].add(gold)
    for _ in range(FITTINGS):
        by_gold: Counter[tuple[str, str, str]] = Counter()
        by_context: Counter[tuple[str, str]] = Counter()
        for (cell, context), mass in share.items():
            by_gold[cell[1], context, golds[cell][context]] += mass  # type: ignore[assignment]
            by_context[cell[1], context] += mass  # type: ignore[assignment]
        for cell, context in share:
            place = cell[1], context
            share[cell, context] *= by_context[place] / len(rivals[place]) / by_gold[cell[1], context, golds[cell][context]]
        for cell, found in golds.items():
            total = sum(share[cell, context] for context in found)
            for context in found:
                share[cell, context] /= total
    balanced = {}
    for cell, found in golds.items():
        floored = {context: max(share[cell, context], LEAST) for context in found}
        balanced[cell] = {context: round(mass / sum(floored.values()), 6) for context, mass in floored.items()}
    return balanced


def evenly(total: int, parts: int) -> list[int]:
    """`total` in `parts` whole numbers that differ by at most 1."""
    if parts == 0:
        return []
    return [total // parts + (i < total % parts) for i in range(parts)]


def assign_splits(
    config: RunConfig,
    quotas: Quotas,
    samples: Sequence[tuple[str, str, str]],
    strata: Mapping[str, str] | None = None,
    held: Mapping[str, SplitName] | None = None,
) -> dict[str, SplitName]:
    """Sample id -> split.

    Untrained users' samples are test; of each trained user's samples a near-equal number, spread over
    the scenarios and over the strata, is held out.

    Args:
        samples: (id, user, scenario) in file order.
        strata: Sample id -> stratum (kind or control); each is held out in proportion.
        held: Sample id -> hold-out split, of the samples that belong to one.
    """
    split: dict[str, SplitName] = dict(held or {})
    by_user: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for sample, user, scenario in samples:
        if sample in split:
            continue
        if user in quotas.untrained:
            split[sample] = "test_untrained_users"
        else:
            split[sample] = "train"
            by_user[user][scenario].append(sample)
    shares = evenly(config.samples.test_trained_users, len(by_user))
    kind_of = {sample: (strata or {}).get(sample, "") for sample, name in split.items() if name == "train"}
    usual = Counter(kind_of.values())
    taken: Counter[str] = Counter()
    for turn, (user, share) in enumerate(zip(by_user, shares, strict=True)):
        piles = [config.rng("held-out", user, s).sample(ids, len(ids)) for s, ids in by_user[user].items()]
        piles = piles[turn % len(piles) :] + piles[: turn % len(piles)]
        left = min(share, sum(map(len, piles)) - 1)
        while left:
            for pile in piles:
                if pile and left:
                    total = sum(taken.values()) + 1
                    best = max(pile, key=lambda s: usual[kind_of[s]] * total / len(kind_of) - taken[kind_of[s]])
                    pile.remove(best)
                    taken[kind_of[best]] += 1
                    split[best] = "test_trained_users"
                    left -= 1
    return split


def held_out_split(quotas: Quotas, sample: Sample) -> SplitName | None:
    """The hold-out split that a sample belongs to, by its gold; None for the others."""
    if sample.scenario in quotas.scenarios:
        return "test_new_scenarios"
    if sample.platform in quotas.allowed.platforms:
        return "test_new_platforms"
    if any(f"{sample.platform}/{call.api}" in quotas.allowed.apis for call in sample.calls):
        return "test_new_apis"
    return None


def stratum(sample: Sample) -> str:
    """What a split is balanced by: kinds or control, and the number of calls."""
    return f"{sample.control or '+'.join(sample.kinds)}/{len(sample.calls)}"


def certificate(samples: Iterator[Sample], untrained: frozenset[str], held: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a reader can check from the split files alone: sizes, groups, overlaps, near-duplicates.

    `same_input` counts test samples whose user and query text also occur in training; `same_text` those
    whose text occurs with another user, where the label may rightly differ. `python -m pipelines.audit.certificate RUN`
    computes all of it again with nothing but the standard library.
    """
    sizes: Counter[str] = Counter()
    users: dict[str, set[str]] = defaultdict(set)
    ids: dict[str, set[str]] = defaultdict(set)
    texts: dict[str, set[str]] = defaultdict(set)
    inputs: dict[str, set[str]] = defaultdict(set)
    golds: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    groups: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    words: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for sample in samples:
        name = str(sample.split)
        sizes[name] += 1
        users[name].add(sample.user)
        ids[name].add(sample.id)
        key = " ".join(sorted(word_set(sample.query)))
        texts[name].add(digest(key))
        inputs[name].add(digest(f"{sample.user} {key}"))
        words[name].append((sample.user, word_set(sample.query)))
        golds[name]["scenarios"].add(sample.scenario)
        if sample.platform:
            golds[name]["platforms"].add(sample.platform)
        golds[name]["apis"] |= {f"{sample.platform}/{call.api}" for call in sample.calls}
        for what, value in (("scenario", sample.scenario), ("platform", sample.platform or sample.act), ("kinds", stratum(sample))):
            groups[name][what][value] += 1
    tests = [name for name in sizes if name != "train"]
    others = {name: [other for other in sizes if other != name] for name in sizes}
    return {
        "sizes": {name: sizes[name] for name in SPLITS if name in sizes},
        "users": {name: sorted(users[name]) for name in sizes},
        "untrained_users": sorted(untrained),
        "disjoint_users": not users["train"] & users["test_untrained_users"],
        "disjoint_samples": all(not ids[name] & ids[other] for name in sizes for other in others[name]),
        "held_out": {key: sorted(value) for key, value in (held or {}).items()},
        "gold_also_elsewhere": {
            split: sorted(
                golds[split][what] & set().union(*(golds[other][what] for other in others[split])) & set((held or {}).get(what, ()))
            )
            for split, what in HOLD_OUTS.items()
            if split in sizes
        },
        "same_input_as_train": {name: len(inputs[name] & inputs["train"]) for name in tests},
        "same_text_as_train": {name: len(texts[name] & texts["train"]) for name in tests},
        "near_duplicates_of_own_train": {name: _near(words[name], words["train"]) for name in tests},
        "groups": {name: {what: dict(sorted(c.items())) for what, c in groups[name].items()} for name in sizes},
    }


def _near(tests: list[tuple[str, frozenset[str]]], train: list[tuple[str, frozenset[str]]]) -> int:
    """Test queries that share nine tenths of their words with a training query of the same user."""
    mine: dict[str, list[frozenset[str]]] = defaultdict(list)
    for user, words in train:
        mine[user].append(words)
    return sum(any(len(w & o) >= 0.9 * len(w | o) for o in mine[user]) for user, w in tests)


def certificate_problem(found: Mapping[str, Any]) -> str | None:
    """What in a certificate means a leak, or None."""
    if not found["disjoint_users"]:
        return "an untrained user has training samples"
    if not found["disjoint_samples"]:
        return "a sample is in two splits"
    elsewhere = {name: golds for name, golds in found["gold_also_elsewhere"].items() if golds}
    if elsewhere:
        return f"what is held out is gold elsewhere: {elsewhere}"
    same = {name: count for name, count in found["same_input_as_train"].items() if count}
    if same:
        return f"test samples repeat training inputs: {same}"
    near = {name: count for name, count in found["near_duplicates_of_own_train"].items() if count > NEAR_BOUND * found["sizes"][name]}
    return f"more than {NEAR_BOUND:.0%} of the test queries nearly repeat training: {near}" if near else None
