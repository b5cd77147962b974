"""Stage 9: splits by user, with exact sizes, and a certificate that proves what is disjoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.config import RunConfig
from pipelines.errors import ChecksFailed
from pipelines.jsonio import digest
from pipelines.records import Sample, SplitName
from pipelines.verify.leaks import word_set

PAPER_SPLITS: tuple[SplitName, ...] = ("train", "test_trained_users", "test_untrained_users")


@dataclass(frozen=True)
class Quotas:
    """How many samples each cell holds, and which users train never sees."""

    cells: Mapping[tuple[str, str], int]
    untrained: frozenset[str]

    def of(self, user: str, scenario: str) -> int:
        """Samples wanted of one user in one scenario."""
        return self.cells.get((user, scenario), 0)


def plan_quotas(
    config: RunConfig, users: Sequence[str], open_cells: Iterable[tuple[str, str]], apart: frozenset[str] | None = None
) -> Quotas:
    """Share the wanted samples evenly over users, then over each user's open scenarios.

    Args:
        config: Sizes and seed.
        users: All user ids.
        open_cells: (user, scenario) that can hold a sample.
        apart: The untrained users, where they are settled already; None: drawn here.

    Raises:
        ChecksFailed: when fewer users than needed have an open cell.
    """
    scenarios: dict[str, list[str]] = {user: [] for user in users}
    for user, scenario in open_cells:
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
    return Quotas(cells, untrained)


def evenly(total: int, parts: int) -> list[int]:
    """`total` in `parts` whole numbers that differ by at most 1."""
    if parts == 0:
        return []
    return [total // parts + (i < total % parts) for i in range(parts)]


def assign_splits(config: RunConfig, quotas: Quotas, samples: Sequence[tuple[str, str, str]]) -> dict[str, SplitName]:
    """Sample id -> split.

    Untrained users' samples are test; of each trained user's samples a near-equal number, spread over
    the scenarios, is held out.

    Args:
        samples: (id, user, scenario) in file order.
    """
    split: dict[str, SplitName] = {}
    by_user: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for sample, user, scenario in samples:
        if user in quotas.untrained:
            split[sample] = "test_untrained_users"
        else:
            split[sample] = "train"
            by_user[user][scenario].append(sample)
    shares = evenly(config.samples.test_trained_users, len(by_user))
    for turn, (user, share) in enumerate(zip(by_user, shares, strict=True)):
        piles = [config.rng("held-out", user, s).sample(ids, len(ids)) for s, ids in by_user[user].items()]
        piles = piles[turn % len(piles) :] + piles[: turn % len(piles)]
        order = [ids[i] for i in range(max(map(len, piles))) for ids in piles if i < len(ids)]
        for sample in order[: min(share, len(order) - 1)]:
            split[sample] = "test_trained_users"
    return split


def certificate(samples: Iterator[Sample], untrained: frozenset[str]) -> dict[str, Any]:
    """What a reader can check from the split files alone: sizes, groups, overlaps, near-duplicates.

    `same_input` counts test samples whose user and query text also occur in training; `same_text` those
    whose text occurs with another user, where the label may rightly differ.
    """
    sizes: Counter[str] = Counter()
    users: dict[str, set[str]] = defaultdict(set)
    texts: dict[str, set[str]] = defaultdict(set)
    inputs: dict[str, set[str]] = defaultdict(set)
    groups: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    words: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for sample in samples:
        name = str(sample.split)
        sizes[name] += 1
        users[name].add(sample.user)
        key = " ".join(sorted(word_set(sample.query)))
        texts[name].add(digest(key))
        inputs[name].add(digest(f"{sample.user} {key}"))
        words[name].append((sample.user, word_set(sample.query)))
        for what, value in (("scenario", sample.scenario), ("platform", sample.platform), ("kinds", "+".join(sample.kinds))):
            groups[name][what][value] += 1
    tests = [name for name in sizes if name != "train"]
    return {
        "sizes": {name: sizes[name] for name in PAPER_SPLITS if name in sizes},
        "users": {name: sorted(users[name]) for name in sizes},
        "untrained_users": sorted(untrained),
        "disjoint_users": not users["train"] & users["test_untrained_users"],
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
    same = {name: count for name, count in found["same_input_as_train"].items() if count}
    return f"test samples repeat training inputs: {same}" if same else None
