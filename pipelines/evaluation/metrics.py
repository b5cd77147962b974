"""Every metric, defined once: a sum over samples divided by a sum over samples.

A metric is the pair (what one sample adds to the numerator, what it adds to the denominator). The value over any group is the
ratio of the two sums (micro); macro is the mean of the ratio over users. Failed samples stay in every denominator,
except where the name says `_given_`. `docs/scoring.md` is written from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.evaluation.items import Item
from pipelines.evaluation.official import Result
from pipelines.evaluation.strict import CLASSES, Verdict

Parts = tuple[float, float]


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    formula: str
    example: str
    """A worked example."""
    parts: Callable[[Verdict, Item], Parts]
    better: str = "up"
    """`up` when more is better, `down` when less is."""


def _flag(name: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (getattr(verdict, name), 1)


def _source(name: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (verdict.hits[name], verdict.wanted[name])


def _given(name: str, condition: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (getattr(verdict, name) * getattr(verdict, condition), getattr(verdict, condition))


def _class(name: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (name in verdict.classes, 1)


def _kind(*names: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (verdict.overall, 1) if any(n in item.kinds for n in names) else (0, 0)


def _act(act: str) -> Callable[[Verdict, Item], Parts]:
    return lambda verdict, item: (verdict.overall, 1) if item.act == act else (0, 0)


METRICS: tuple[Metric, ...] = (
    Metric("overall", "right platform and every call, argument and value right / samples", "3 of 4 samples: 0.75", _flag("overall")),
    Metric("format", "readable answers / samples", "one of 4 is cut: 0.75", _flag("format")),
    Metric("platforms", "answers on the gold platform / samples", "2 of 4: 0.5", _flag("platform")),
    Metric("tool_names", "samples whose calls pair up with gold's by API / samples", "one of 4 adds a call: 0.75", _flag("tool_names")),
    Metric("tool_param_names", "of these, no argument missing or extra / samples", "one more lacks one: 0.5", _flag("tool_param_names")),
    Metric("tool_param_values", "of these, every value right / samples", "one more has a wrong date: 0.25", _flag("tool_param_values")),
    Metric("query_params", "right arguments from the query / arguments from the query", "5 of 6 occurrences: 0.833", _source("query")),
    Metric("profile_params", "right arguments from the profile / arguments from the profile", "1 of 4: 0.25", _source("profile")),
    Metric("history_params", "right arguments from the history / arguments from the history", "0 of 2: 0", _source("history")),
    Metric("other_params", "right arguments from defaults, calls and rules / such arguments", "1 of 1: 1", _source("other")),
    Metric(
        "param_accuracy_per_sample", "mean over samples with arguments of right / gold arguments", "1 of 2 and 3 of 3: 0.75",
        lambda v, i: (sum(v.hits.values()) / sum(v.wanted.values()), 1) if sum(v.wanted.values()) else (0, 0),
    ),
    Metric(
        "tool_names_given_platform", "right calls and right platform / right platform", "2 of 2: 1", _given("tool_names", "platform"),
    ),
    Metric(
        "values_given_platform", "overall right / right platform", "1 of 2 on the right platform: 0.5",
        _given("tool_param_values", "platform"),
    ),
    Metric(
        "values_given_tools", "every value right / samples whose calls pair up", "1 of 3: 0.333",
        _given("tool_param_values", "tool_names"),
    ),
    Metric(
        "regret", "sum of u(best) - u(chosen) / samples with utilities; no candidate chosen counts as the worst one",
        "0.8 - 0.5 once in 4 samples: 0.075", lambda v, i: (v.regret or 0, v.regret is not None), "down",
    ),
    Metric("hedging", "answers on two platforms, or more calls of an API than gold / samples", "1 of 4: 0.25", _flag("hedges"), "down"),
    Metric("ask_accuracy", "questions asked where asking is right / such samples", "1 of 2: 0.5", _act("ask")),
    Metric("no_tool_accuracy", "no call where none fits / such samples", "2 of 2: 1", _act("no_tool")),
    Metric("override_accuracy", "overall right / samples whose query overrides the profile", "1 of 2: 0.5", _kind("override")),
    Metric(
        "must_not_use", "no forbidden profile value used / samples that forbid one", "1 of 2: 0.5",
        lambda v, i: (1 - v.forbidden, 1) if i.must_not else (0, 0),
    ),
    Metric(
        "needless_asking", "questions or refusals to call where a call is right / such samples", "1 of 4: 0.25",
        lambda v, i: (v.format and not v.platform and any(d.where == "act" for d in v.differences), 1) if i.act == "call" else (0, 0),
        "down",
    ),
    *(Metric(f"error_{n}", f"samples in class {n} / samples", "1 of 4: 0.25", _class(n), "down") for n in CLASSES),
    Metric(
        "truncation", "answers cut by the token limit / samples", "1 of 4: 0.25", lambda v, i: (v.failure == "truncation", 1), "down",
    ),
)  # fmt: skip
NAMES = tuple(metric.name for metric in METRICS)
PAPER = ("format", "platforms", "tool_names", "tool_param_names", "tool_param_values", "query_params", "profile_params", "overall")
BETTER = {metric.name: metric.better for metric in METRICS}


def vector(verdict: Verdict, item: Item) -> list[float]:
    """Numerators, then denominators, in the order of `NAMES`."""
    parts = [metric.parts(verdict, item) for metric in METRICS]
    return [float(n) for n, _ in parts] + [float(d) for _, d in parts]


def official_vector(result: Result, item: Item) -> list[float]:
    """The published scorer's eight accuracies in the same form, in the order of `PAPER`."""
    return [
        result.format, result.platforms, result.tool_names, result.tool_param_names, result.tool_param_values,
        result.query_hits, result.profile_hits, result.overall,
        1, 1, 1, 1, 1, len(item.query_params), len(item.profile_params), 1,
    ]  # fmt: skip
