"""The published scorer's numbers, quirks included: a faithful repetition that is safe on hostile output.

Behaviour: `docs/scoring.md` lists every quirk with its result. Intended differences: the scorer never dies,
never hangs and never runs model output; where the published one would, the sample is a format failure,
counted as `unsafe_expression`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipelines.errors import ConfigError
from pipelines.evaluation.expressions import Unreadable, UnsafeExpression, read

ACCURACIES = ("format", "platforms", "tool_names", "tool_param_names", "tool_param_values", "query_params", "profile_params", "overall")
"""The columns of `acc_results.csv`, in its order."""
PER_SAMPLE = ("format", "platforms", "tool_names", "tool_param_names", "tool_param_values", "overall")
ERRORS = (
    "func_wrong_error", "func_missing_error", "func_excessive_error", "param_missing_error", "param_excessive_error", "value_error",
)  # fmt: skip
"""The columns of `error_results.csv`. Missing and excessive are swapped there: `func_missing_error` counts extra calls."""
PUBLISHED_WEIGHTS = {"untrained": 609, "trained": 474}


class Result(NamedTuple):
    """What one sample adds to the published tables."""

    format: int = 0
    platforms: int = 0
    tool_names: int = 0
    tool_param_names: int = 0
    tool_param_values: int = 0
    overall: int = 0
    query_hits: int = 0
    profile_hits: int = 0
    errors: tuple[str, ...] = ()
    """Columns of `error_results.csv` that count this sample."""
    unwritten: tuple[str, ...] = ()
    """Flags that are computed and never written: platform_error, query_value_error, profile_value_error, format_error."""
    failure: str = ""
    """Why it is a format failure: `syntax`, `crash` (the comparison raised) or `unsafe_expression`."""


def score(answer: Any, query_params: Any, profile_params: Any, prediction: Any) -> Result:
    """One sample.

    Args:
        answer: The record's `answer`: `[platform, [{api: {parameter: [accepted values]}}]]`, whatever it really is.
        query_params: Names whose hits count as query-related; anything that knows `in`.
        profile_params: The same for the profile.
        prediction: The model's output, whatever it is.
    """
    try:
        platform, calls = read(prediction)
    except UnsafeExpression:
        return Result(failure="unsafe_expression", unwritten=("format_error",))
    except (Unreadable, SyntaxError, UnicodeError):
        return Result(failure="syntax", unwritten=("format_error",))
    except Exception:  # the published scorer catches everything here, and so must its repetition
        return Result(failure="crash", unwritten=("format_error",))
    try:
        return _compare_calls(answer, query_params, profile_params, platform, calls)
    except Exception:  # same
        return Result(failure="crash", unwritten=("format_error",))


def _compare_calls(answer: Any, query_params: Any, profile_params: Any, platform: Any, calls: Sequence[tuple[str, Any]]) -> Result:
    gold_platform, gold_calls = answer
    gold: list[tuple[str, Any]] = []
    for entry in gold_calls:
        name = next(iter(entry.keys()), None)
        if name is None:
            raise IndexError("a gold call without a name")
        gold.append((name, entry[name]))
    name_ok = param_ok = value_ok = True
    extra_call = lost_call = extra_param = lost_param = wrong_value = wrong_query = wrong_profile = False
    query_hits = profile_hits = 0
    first_gold: dict[Any, Any] = {}
    for name, accepted in gold:
        first_gold.setdefault(name, accepted)
    first_made: dict[Any, Any] = {}
    for name, arguments in calls:
        first_made.setdefault(name, arguments)
        if name not in first_gold:
            name_ok, extra_call = False, True
            continue
        accepted = first_gold[name]
        for key, value in arguments.items():
            if key not in accepted:
                param_ok, extra_param = False, True
                right = False
            else:
                right = same(value, accepted[key])
                value_ok = value_ok and right
            if right:
                query_hits += key in query_params
                profile_hits += key not in query_params and key in profile_params
            elif key in query_params:
                wrong_query = True
            elif key in profile_params:
                wrong_profile = True
    for name, accepted in gold:
        if name not in first_made:
            name_ok, lost_call = False, True
            continue
        made = first_made[name]
        for key, alternatives in accepted.items():
            if key not in made:
                param_ok, lost_param = False, True
            elif not same(made[key], alternatives):
                value_ok, wrong_value = False, True
    param_ok = param_ok and name_ok
    value_ok = value_ok and param_ok
    platform_ok = bool(gold_platform == platform)
    unwritten = [n for n, flag in (("platform_error", not platform_ok), ("query_value_error", wrong_query),
                                   ("profile_value_error", wrong_profile)) if flag]  # fmt: skip
    return Result(
        1, int(platform_ok), int(name_ok), int(param_ok), int(value_ok), int(platform_ok and value_ok), query_hits, profile_hits,
        _columns(extra_call, lost_call, extra_param, lost_param, wrong_value), tuple(unwritten),
    )  # fmt: skip


def _columns(extra_call: bool, lost_call: bool, extra_param: bool, lost_param: bool, wrong_value: bool) -> tuple[str, ...]:
    """The exclusive levels of the published table, with its swap of missing and excessive."""
    if extra_call and lost_call:
        return ("func_wrong_error",)
    if extra_call:
        return ("func_missing_error",)
    if lost_call:
        return ("func_excessive_error",)
    if extra_param or lost_param:
        return (("param_missing_error",) if extra_param else ()) + (("param_excessive_error",) if lost_param else ())
    return ("value_error",) if wrong_value else ()


def same(value: Any, alternatives: Any) -> bool:
    """The published comparison; raises where that raises.

    `same(6, [5, 6])` is False: a whole number is compared with the first alternative only, within 0.01.
    """
    if isinstance(value, str):
        if value == "true":
            return True in alternatives
        if value == "false":
            return False in alternatives
        return value.lower() in [one.lower() for one in alternatives]
    if isinstance(value, bool):
        return value in alternatives
    if isinstance(value, list):
        wanted = [{item.lower() for item in one} for one in alternatives]
        return {item.lower() for item in value} in wanted
    if isinstance(value, int):
        return bool(abs(value - alternatives[0]) <= 0.01)
    return value in alternatives


@dataclass
class Table:
    """Sums over one split, enough for its two CSV files."""

    records: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PER_SAMPLE, 0))
    query_hits: int = 0
    profile_hits: int = 0
    query_total: int = 0
    profile_total: int = 0
    errors: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERRORS, 0))
    failures: dict[str, int] = field(default_factory=dict)
    """Format failures by reason; the published files do not have them."""

    def add(self, result: Result, query_params: Any, profile_params: Any) -> None:
        """Count one sample; failed samples stay in every denominator."""
        self.records += 1
        for name in PER_SAMPLE:
            self.sums[name] += getattr(result, name)
        self.query_hits += result.query_hits
        self.profile_hits += result.profile_hits
        self.query_total += len(query_params)
        self.profile_total += len(profile_params)
        for name in result.errors:
            self.errors[name] += 1
        if result.failure:
            self.failures[result.failure] = self.failures.get(result.failure, 0) + 1

    def merge(self, other: Table) -> None:
        """Add another part of the same split."""
        for name in ("records", "query_hits", "profile_hits", "query_total", "profile_total"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.sums, other.sums), (self.errors, other.errors), (self.failures, other.failures)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count

    def problem(self) -> str | None:
        """Where the published scorer divides by zero and writes no file."""
        if not self.records:
            return "no records"
        if not self.query_total:
            return "no query parameters in the whole split"
        if not self.profile_total:
            return "no profile parameters in the whole split"
        return None

    def accuracies(self) -> dict[str, float]:
        """The eight columns.

        Raises:
            ConfigError: where the published scorer divides by zero.
        """
        problem = self.problem()
        if problem:
            raise ConfigError(f"official scorer: {problem}, so it divides by zero and writes nothing; use --scorer strict")
        found = {name: self.sums[name] / self.records for name in PER_SAMPLE}
        found["query_params"] = self.query_hits / self.query_total
        found["profile_params"] = self.profile_hits / self.profile_total
        return {name: found[name] for name in ACCURACIES}


def overall(trained: Mapping[str, float], untrained: Mapping[str, float], weights: Mapping[str, int]) -> dict[str, float]:
    """Every column as the weighted mean of the two splits, the two parameter columns as well.

    With weights 609 and 474, 0.2 on trained and 0.4 on untrained users give (609 x 0.4 + 474 x 0.2) / 1083 = 0.3125.
    """
    total = weights["untrained"] + weights["trained"]
    return {n: (weights["untrained"] * untrained[n] + weights["trained"] * trained[n]) / total for n in ACCURACIES}


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, float]]) -> str:
    """A header and one line per row, in the published layout (line ends as the csv module writes them)."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\r\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(dict(row) for row in rows)
    return text.getvalue()
