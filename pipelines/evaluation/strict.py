"""Our scorer: one prediction against one sample, exact about acts, fair about writing.

Calls are matched by the best assignment, so two calls of one API are possible, and counted once each. A documented
default spelt out, or left out, is no difference. Hits are per occurrence of an argument, never more than gold has.
The lenient scorer also forgives word order, types and a platform's name before an API's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from pipelines.evaluation.answers import Answer, Call
from pipelines.evaluation.items import Expected, Item
from pipelines.evaluation.values import kind_of, same_value
from pipelines.normal import fold

CLASSES = ("format", "platform", "tool_wrong", "tool_missing", "tool_extra", "param_missing", "param_extra", "param_value")
"""Error classes. A sample may be in `platform` and one more; the tool, param and value levels exclude each other."""
SOURCES = ("query", "profile", "history", "other")


@dataclass
class Difference:
    """One thing that is not as gold has it."""

    what: str
    """A class of `CLASSES`."""
    where: str
    """`api` or `api.path`."""
    gold: Any
    made: Any


@dataclass
class Verdict:
    """What the strict scorer says of one prediction; the figures are 0 or 1 unless they are counts."""

    format: int = 0
    platform: int = 0
    tool_names: int = 0
    tool_param_names: int = 0
    tool_param_values: int = 0
    overall: int = 0
    hits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    """Arguments right, by source."""
    wanted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    """Arguments that gold has, by source."""
    classes: tuple[str, ...] = ()
    failure: str = ""
    hedges: int = 0
    forbidden: int = 0
    """1 when an argument holds a profile value that must not be used here."""
    regret: float | None = None
    """Utility of the best platform minus that of the chosen one; the worst candidate when none of them was chosen."""
    chosen: str = ""
    flags: tuple[str, ...] = ()
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """How to score."""

    lenient: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Comparator by parameter name, `api.parameter` or `platform/api.parameter`."""


def judge(item: Item, answer: Answer, rules: Rules = Rules()) -> Verdict:
    """Score one prediction.

    Invariants: overall = platform and value; value <= param names <= names <= format.
    """
    verdict = Verdict(flags=tuple(answer.flags))
    for call in item.calls:
        for path in call.accepted:
            for source in call.sources.get(path) or ("other",):
                verdict.wanted[source if source in SOURCES else "other"] += 1
    _judge_platform(item, answer, verdict)
    if answer.failure:
        verdict.failure = answer.failure
        verdict.classes = ("format",)
        verdict.hedges = int(answer.failure == "multi_platform")
        verdict.differences.append(Difference("format", answer.failure, "", answer.detail))
        return verdict
    verdict.format = 1
    if item.act != "call" or answer.act != "call":
        return _judge_act(item, answer, verdict)
    lost = _judge_calls(item, answer, rules, verdict)
    verdict.overall = int(verdict.platform and verdict.tool_param_values)
    verdict.classes = (("platform",) if not verdict.platform else ()) + lost
    verdict.forbidden = int(any(_holds(call.arguments, item.must_not) for call in answer.calls))
    return verdict


def _judge_platform(item: Item, answer: Answer, verdict: Verdict) -> None:
    mine = _folded(answer.platform)
    verdict.chosen = next((name for name in item.utilities if _folded(name) == mine), answer.platform[:60])
    verdict.platform = int(bool(mine) and mine == _folded(item.platform) and item.act == "call" and not answer.failure)
    if verdict.platform and answer.platform != item.platform:
        verdict.flags += ("folded_name",)
    if item.utilities and item.act == "call":
        best = max(item.utilities.values())
        worth = item.utilities.get(verdict.chosen) if not answer.failure and answer.act == "call" else None
        verdict.regret = round(best - (min(item.utilities.values()) if worth is None else worth), 6)
    if not verdict.platform and not answer.failure and item.act == "call":
        verdict.differences.append(Difference("platform", "platform", item.platform, answer.platform))


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    return fold(name)


def _judge_act(item: Item, answer: Answer, verdict: Verdict) -> Verdict:
    """Where the right answer is a question or no call, or the solver did one of these."""
    right = int(item.act == answer.act)
    verdict.platform = verdict.tool_names = verdict.tool_param_names = verdict.tool_param_values = verdict.overall = right
    if not right:
        verdict.classes = ("tool_extra",) if item.act != "call" and answer.act == "call" else ("tool_missing",)
        verdict.differences = [Difference(verdict.classes[0], "act", item.act, answer.act)]
    verdict.forbidden = int(any(_holds(call.arguments, item.must_not) for call in answer.calls))
    return verdict


def _judge_calls(item: Item, answer: Answer, rules: Rules, verdict: Verdict) -> tuple[str, ...]:
    made = [_named(call, item, rules, verdict) for call in answer.calls]
    pairs, missing, extra = _match(item, made, rules)
    for place in missing:
        verdict.differences.append(Difference("tool_missing", item.calls[place].api, item.calls[place].accepted, None))
    for place in extra:
        verdict.differences.append(Difference("tool_extra", made[place].api, None, made[place].arguments))
        verdict.hedges |= int(any(call.api == made[place].api for call in item.calls))
    names_ok, params_ok, values_ok = not missing and not extra, True, True
    found: set[str] = set()
    for gold, other in pairs:
        differences, hits = _compare(item, item.calls[gold], made[other], rules)
        for source, count in hits.items():
            verdict.hits[source] += count
        for difference in differences:
            found.add(difference.what)
            params_ok = params_ok and difference.what == "param_value"
            values_ok = False
        verdict.differences.extend(differences)
    verdict.tool_names = int(names_ok)
    verdict.tool_param_names = int(names_ok and params_ok)
    verdict.tool_param_values = int(names_ok and params_ok and values_ok)
    if missing or extra:
        return ("tool_wrong",) if missing and extra else ("tool_missing",) if missing else ("tool_extra",)
    names = tuple(name for name in ("param_missing", "param_extra") if name in found)
    return names or (("param_value",) if "param_value" in found else ())


def _named(call: Call, item: Item, rules: Rules, verdict: Verdict) -> Call:
    """The call under the API's own spelling, where only the letter case, or leniently a platform prefix, differs."""
    known = [gold.api for gold in item.calls]
    if call.api in known:
        return call
    name = call.api
    if rules.lenient:
        for mark in ("__", "."):
            prefix, found, rest = name.partition(mark)
            if found and fold(prefix) == fold(item.platform):
                name = rest
    same = next((one for one in known if fold(one) == fold(name)), None)
    if same is None:
        return call
    verdict.flags += ("folded_name",)
    return Call(same, call.arguments, call.problems)


def _match(item: Item, made: list[Call], rules: Rules) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Pairs of gold and made calls of one name that agree best, and what is left of either side."""
    gold = item.calls
    if len(gold) == 1 and len(made) == 1:
        return ([(0, 0)], [], []) if gold[0].api == made[0].api else ([], [0], [0])
    if item.ordered:
        pairs = [(i, i) for i in range(min(len(gold), len(made))) if gold[i].api == made[i].api]
    elif gold and made:
        worth = np.zeros((len(gold), len(made)))
        for i, one in enumerate(gold):
            for j, other in enumerate(made):
                if one.api == other.api:
                    differences, hits = _compare(item, one, other, rules)
                    worth[i, j] = 1 + (not differences) + sum(hits.values()) / 1000 - len(differences) / 1e6
        rows, columns = linear_sum_assignment(worth, maximize=True)
        pairs = [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if worth[i, j] > 0]
    else:
        pairs = []
    taken, used = {i for i, _ in pairs}, {j for _, j in pairs}
    return pairs, [i for i in range(len(gold)) if i not in taken], [j for j in range(len(made)) if j not in used]


def _compare(item: Item, gold: Expected, call: Call, rules: Rules) -> tuple[list[Difference], dict[str, int]]:
    """What differs between two calls of one API, and the hits by source."""
    made = _flat(call.arguments, gold)
    differences: list[Difference] = []
    hits: dict[str, int] = {}
    for path, accepted in gold.accepted.items():
        schema = gold.schemas.get(path) or {}
        left_out = path not in made
        if left_out and not ("default" in schema and path not in gold.required):
            differences.append(Difference("param_missing", f"{gold.api}.{path}", accepted, None))
            continue
        value = schema["default"] if left_out else made[path]
        kind = _kind(item, gold, path, schema, accepted[0], rules)
        if any(same_value(kind, value, one, schema, rules.lenient) for one in accepted):
            for source in gold.sources.get(path) or ("other",):
                source = source if source in SOURCES else "other"
                hits[source] = hits.get(source, 0) + 1
        else:
            what = "param_missing" if left_out else "param_value"
            differences.append(Difference(what, f"{gold.api}.{path}", accepted, None if left_out else value))
    for path, value in made.items():
        if path not in gold.accepted:
            schema = gold.schemas.get(path) or {}
            if "default" in schema and same_value(kind_of(path, schema, schema["default"]), value, schema["default"], schema):
                continue
            differences.append(Difference("param_extra", f"{gold.api}.{path}", None, value))
    differences += [Difference("param_extra", gold.api, None, problem) for problem in call.problems]
    return differences, hits


def _kind(item: Item, gold: Expected, path: str, schema: Mapping[str, Any], value: Any, rules: Rules) -> str:
    if rules.overrides:
        for name in (f"{item.platform}/{gold.api}.{path}", f"{gold.api}.{path}", path):
            if name in rules.overrides:
                return rules.overrides[name]
    return kind_of(path, schema, value)


def _flat(arguments: Mapping[str, Any], gold: Expected, prefix: str = "") -> dict[str, Any]:
    """Arguments by path: an object is opened where gold or the schema has paths inside it."""
    if not any(isinstance(value, dict) for value in arguments.values()):
        return dict(arguments) if not prefix else {f"{prefix}{name}": value for name, value in arguments.items()}
    flat: dict[str, Any] = {}
    for name, value in arguments.items():
        path = f"{prefix}{name}"
        inside = f"{path}."
        if (
            isinstance(value, dict)
            and path not in gold.accepted
            and (any(p.startswith(inside) for p in gold.accepted) or any(p.startswith(inside) for p in gold.schemas))
        ):
            flat.update(_flat(value, gold, inside))
        else:
            flat[path] = value
    return flat


def _holds(value: Any, texts: tuple[str, ...]) -> bool:
    if not texts:
        return False
    if isinstance(value, dict):
        return any(_holds(inner, texts) for inner in value.values())
    if isinstance(value, list):
        return any(_holds(inner, texts) for inner in value)
    return any(fold(text) in fold(str(value)) for text in texts)
