"""Scoring some samples at once: what a worker process does, and what it hands back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pipelines.errors import ConfigError
from pipelines.evaluation import official
from pipelines.evaluation.answers import Answer, read_answer
from pipelines.evaluation.catalogue import Catalogue
from pipelines.evaluation.items import Item, item_of, problem
from pipelines.evaluation.metrics import official_vector, vector
from pipelines.evaluation.reader import load_line
from pipelines.evaluation.rendering import gold_text
from pipelines.evaluation.strict import Rules, Verdict, judge
from pipelines.jsonio import dumps

CellKey = tuple[str, str, str, str]
"""Split, scenario, kinds, user: the finest group; all others are sums of these."""
Sums = dict[CellKey, NDArray[np.float64]]
SCORERS = ("official", "strict", "lenient")
DETAILS = 12
"""Samples per chunk that are kept whole, for people to look at."""


@dataclass(frozen=True)
class Task:
    """A run of samples with their predictions."""

    part: str
    where: str
    first: int
    repeat: int
    pairs: Sequence[tuple[bytes, bytes | str | None]]
    by_order: bool
    scorers: tuple[str, ...]
    overrides: dict[str, str]
    many: bool = False
    """There are several repeats."""


@dataclass
class Done:
    """What scoring a task yields; small whatever the samples were."""

    first: int
    repeat: int = 0
    rows: str = ""
    """One JSON object a line, per sample."""
    disagreements: str = ""
    details: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, Sums] = field(default_factory=dict)
    table: official.Table = field(default_factory=official.Table)
    failures: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    between: Counter[str] = field(default_factory=Counter)
    """Disagreements: `official 0, strict 1, lenient 1` -> count."""
    unscorable: int = 0
    """Samples whose gold answer, written out, the official scorer calls wrong."""
    other_query: int = 0
    other_query_at: int = -1
    unqueried: int = 0
    """Lines without the query that would show which sample they belong to."""
    right: dict[str, int] = field(default_factory=dict)
    """Sample -> right or not; only with several repeats."""
    file_problem: str = ""
    """What would have stopped the published scorer: a blank or broken line, a line without `predict`."""


@dataclass(frozen=True)
class Prediction:
    """One line of predictions."""

    text: Any
    cut: bool = False
    failure: str = ""
    query: str | None = None


def prediction_of(line: bytes | str | None) -> Prediction:
    """Text and state of one prediction; whatever is wrong with it has a name."""
    if line is None:
        return Prediction(None, failure="missing_prediction")
    if line == "duplicate":
        return Prediction(None, failure="duplicate_prediction")
    value = load_line(line)
    if not isinstance(value, dict):
        return Prediction(None, failure="broken_line")
    query = value.get("query")
    query = query if isinstance(query, str) else None
    cut = value.get("finish") == "length"
    if "predict" in value:
        return Prediction(value["predict"], cut, query=query)
    if "calls" in value:
        return Prediction(dumps({"platform": value.get("platform") or "", "calls": value["calls"]}), cut, query=query)
    return Prediction(None, cut, "missing_prediction", query)


_CATALOGUE = Catalogue()


def start_worker(catalogue: Catalogue) -> None:
    """Give a worker process what all its tasks share."""
    global _CATALOGUE
    _CATALOGUE = catalogue


def score_task(task: Task, catalogue: Catalogue | None = None) -> Done:
    """Score the samples of a task.

    Raises:
        ConfigError: for data that no scorer could treat fairly, naming the record.
    """
    done = Done(task.first, task.repeat)
    keys: list[CellKey] = []
    vectors: dict[str, list[list[float]]] = {name: [] for name in task.scorers}
    rows: list[bytes] = []
    disagreements: list[str] = []
    for place, (raw, line) in enumerate(task.pairs, start=task.first):
        where = f"{task.where}, record {place + 1}"
        item = item_of(load_line(raw), where, task.part, catalogue or _CATALOGUE, place)
        prediction = prediction_of(line)
        _check_place(task, done, item, prediction, place)
        right: dict[str, int] = {}
        if "official" in task.scorers:
            right["official"] = _score_official(done, item, prediction, vectors["official"], where)
            if len(task.scorers) > 1:
                done.unscorable += not official.score(item.answer, (), (), gold_text(item)).overall
        verdict: Verdict | None = None
        for name in ("lenient", "strict"):
            if name in task.scorers:
                if verdict is None:
                    fault = problem(item)
                    if fault:
                        raise ConfigError(f"{where} ({item.id}): {fault}; repair the data, or use --scorer official")
                answer = Answer(failure=prediction.failure) if prediction.failure else read_answer(
                    prediction.text, prediction.cut, lenient=name == "lenient")  # fmt: skip
                verdict = judge(item, answer, Rules(name == "lenient", task.overrides))
                vectors[name].append(vector(verdict, item))
                right[name] = verdict.overall
        if task.many:
            done.right[item.id] = next((right[name] for name in ("strict", "lenient") if name in right), right.get("official", 0))
        keys.append((item.split, item.scenario, "+".join(item.kinds), item.user))
        row = _row(item, task, right, verdict, prediction)
        rows.append(orjson.dumps(row))
        if verdict is not None:
            done.flags.update(verdict.flags)
            if verdict.failure:
                done.failures[verdict.failure] += 1
        if len(set(right.values())) > 1:
            done.between[", ".join(f"{name} {right[name]}" for name in SCORERS if name in right)] += 1
            found = {**row, "query": item.query, "gold": gold_text(item), "prediction": _short(prediction.text)}
            disagreements.append(dumps(found) + "\n")
        wrong = not row["right"].get("strict", next(iter(right.values())))
        if len(done.details) < DETAILS and (wrong or place % 5 == 0):
            done.details.append(_detail(item, row, verdict, prediction))
    done.rows = b"".join(row + b"\n" for row in rows).decode()
    done.disagreements = _clean("".join(disagreements))
    done.sums = {name: _summed(keys, found) for name, found in vectors.items()}
    return done


def _check_place(task: Task, done: Done, item: Item, prediction: Prediction, place: int) -> None:
    """Look for what the published scorer would stop at, and for lines that answer another record's query."""
    if task.pairs[place - task.first][1] is None:
        return
    if prediction.failure in ("broken_line", "missing_prediction") and not done.file_problem:
        done.file_problem = f"line {place + 1} is blank, no JSON, or has no `predict`"
    if task.by_order and prediction.failure in ("", "missing_prediction"):
        if prediction.query is None:
            done.unqueried += 1
        elif prediction.query != item.query:
            done.other_query += 1
            done.other_query_at = place if done.other_query_at < 0 else done.other_query_at


def _score_official(done: Done, item: Item, prediction: Prediction, vectors: list[list[float]], where: str) -> int:
    result = official.score(item.answer, item.query_params, item.profile_params, prediction.text)
    try:
        done.table.add(result, item.query_params, item.profile_params)
        vectors.append(official_vector(result, item))
    except TypeError:
        raise ConfigError(f"{where}: query_params and profile_params must be lists of parameter names") from None
    return result.overall


def _row(item: Item, task: Task, right: dict[str, int], verdict: Verdict | None, prediction: Prediction) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": _clean(item.id), "user": _clean(item.user), "split": _clean(item.split), "scenario": _clean(item.scenario),
        "repeat": task.repeat,
    }  # fmt: skip
    row["right"] = {name: right[name] for name in SCORERS if name in right}
    if verdict is not None:
        row |= {"classes": list(verdict.classes), "failure": verdict.failure, "chosen": _clean(verdict.chosen), "regret": verdict.regret}
        if verdict.flags:
            row["flags"] = list(verdict.flags)
    elif prediction.failure:
        row["failure"] = prediction.failure
    return row


def _detail(item: Item, row: dict[str, Any], verdict: Verdict | None, prediction: Prediction) -> dict[str, Any]:
    found = verdict.differences[:6] if verdict is not None else []
    return {
        **row,
        "query": _clean(item.query[:600]),
        "gold": _clean(gold_text(item)[:900]),
        "prediction": _short(prediction.text),
        "differences": [{"what": d.what, "where": d.where, "gold": _short(d.gold), "made": _short(d.made)} for d in found],
    }


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return _clean("" if value is None else str(value)[:900])


def _clean(text: str) -> str:
    """Without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode()


def _summed(keys: Sequence[CellKey], vectors: list[list[float]]) -> Sums:
    """Vectors added up per cell."""
    if not vectors:
        return {}
    cells: dict[CellKey, int] = {}
    places = np.array([cells.setdefault(key, len(cells)) for key in keys])
    matrix = np.array(vectors)
    sums = np.stack([np.bincount(places, weights=matrix[:, m], minlength=len(cells)) for m in range(matrix.shape[1])], axis=1)
    return {key: sums[place] for key, place in cells.items()}
