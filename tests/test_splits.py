"""Splits have exact sizes, share no user they should not, and prove it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import Made

from pipelines import config
from pipelines.errors import ChecksFailed
from pipelines.splits import assign_splits, certificate, certificate_problem, evenly, plan_quotas


def made_up(users: int, untrained: int, sizes: tuple[int, int, int], seed: int) -> config.RunConfig:
    train, trained, held = sizes
    return config.load(
        "tiny",
        None,
        {
            "seed": seed,
            "users": users,
            "untrained_users": untrained,
            "samples": {"train": train, "test_trained_users": trained, "test_untrained_users": held},
        },
    )[0]


@settings(max_examples=60, deadline=None)
@given(
    users=st.integers(2, 30),
    untrained=st.integers(1, 5),
    sizes=st.tuples(st.integers(60, 300), st.integers(0, 20), st.integers(1, 60)),
    seed=st.integers(0, 1000),
    scenarios=st.integers(1, 4),
)
def test_sizes_are_exact_and_untrained_users_are_never_trained_on(users, untrained, sizes, seed, scenarios):
    if untrained >= users:
        untrained = users - 1
    run = made_up(users, untrained, sizes, seed)
    names = [f"u{i:04d}" for i in range(users)]
    cells = [(user, f"s{s}") for user in names for s in range(scenarios)]
    quotas = plan_quotas(run, names, cells)
    samples = [(f"{u}.{s}.{n}", u, s) for u, s in cells for n in range(quotas.of(u, s))]
    split = assign_splits(run, quotas, samples)

    counts = {name: sum(v == name for v in split.values()) for name in ("train", "test_trained_users", "test_untrained_users")}
    assert counts == dict(zip(counts, sizes, strict=True))
    trained = {u for s, u, _ in samples if split[s] != "test_untrained_users"}
    assert not trained & quotas.untrained


@given(total=st.integers(0, 10_000), parts=st.integers(1, 200))
def test_even_shares_add_up_and_differ_by_one(total, parts):
    shares = evenly(total, parts)

    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


def test_a_user_without_an_open_scenario_gets_no_quota_and_others_take_it_over():
    run = made_up(3, 1, (14, 4, 6), 1)
    quotas = plan_quotas(run, ["a", "b", "c"], [("a", "s"), ("b", "s")])

    assert quotas.of("c", "s") == 0
    assert sum(quotas.cells.values()) == 24


def test_too_few_open_users_stop_the_run_with_their_number():
    run = made_up(3, 2, (14, 4, 6), 1)
    with pytest.raises(ChecksFailed, match="only 2 of 3 users"):
        plan_quotas(run, ["a", "b", "c"], [("a", "s"), ("b", "s")])


def test_the_certificate_can_be_made_again_from_the_split_files(tiny: Made):
    from pipelines.jsonio import read_lines
    from pipelines.records import Sample

    found = json.loads((tiny.root / "splits" / "certificate.json").read_text(encoding="utf-8"))
    samples = [s for p in sorted((tiny.root / "splits").glob("*.jsonl")) for s in read_lines(p, Sample)]
    again = certificate(iter(samples), frozenset(found["untrained_users"]))

    assert {k: again[k] for k in ("sizes", "disjoint_users", "same_input_as_train")} == {
        k: found[k] for k in ("sizes", "disjoint_users", "same_input_as_train")
    }
    assert certificate_problem(found) is None


def test_a_test_sample_that_repeats_a_training_input_is_a_leak(tiny: Made):
    train = next(s for s in tiny.samples if s.user not in ("u0002",))
    twins = [train.model_copy(update={"split": "train"}), train.model_copy(update={"split": "test_trained_users"})]
    renamed = [twins[0], twins[1].model_copy(update={"id": "another"})]

    assert certificate_problem(certificate(iter(twins), frozenset())) == "a sample is in two splits"
    assert "test_trained_users" in (certificate_problem(certificate(iter(renamed), frozenset())) or "")


def test_an_untrained_user_with_a_training_sample_is_a_leak(tiny: Made):
    sample = tiny.samples[0]
    both = [
        sample.model_copy(update={"split": "train"}),
        sample.model_copy(update={"split": "test_untrained_users", "query": "other", "id": "another"}),
    ]

    assert certificate_problem(certificate(iter(both), frozenset([sample.user]))) == "an untrained user has training samples"
