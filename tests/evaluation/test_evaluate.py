"""Running solvers: built-in ones, the offline model in every mode, faults, budgets, resuming, experiments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipelines.config import Limits
from pipelines.errors import ConfigError, Stopped, Unavailable
from pipelines.evaluation.asking import Solver
from pipelines.evaluation.baselines import BASELINES
from pipelines.evaluation.brackets import bracket, broken
from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.experiments import EXPERIMENTS, experiment
from pipelines.evaluation.reader import Part
from pipelines.evaluation.seen import Setting, Source, changed
from pipelines.evaluation.summary import Options
from pipelines.exports import export
from pipelines.llm.offline.app import Faults, offline_http_client
from pipelines.run import load_run

PLAIN = Options(draws=0)
LIMITS = Limits(concurrency=4)


def overall(found: dict[str, Any], metric: str = "overall") -> float:
    return found["groups"]["all"]["metrics"][metric]["value"]


def predictions(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_built_in_solvers_bracket_the_benchmark(split: Path, tmp_path: Path):
    found = bracket(split, tmp_path, Options(draws=50), 0)

    assert list(found["solvers"]) == list(BASELINES)
    assert found["solvers"]["oracle"]["overall"]["value"] == 1
    assert found["solvers"]["random"]["overall"]["value"] < 0.2
    assert found["solvers"]["query-only"]["profile_params"]["value"] in (0, None)
    assert 0 < found["chance"] < 1


def test_brackets_say_when_gold_is_wrong_or_queries_give_the_platform_away():
    def row(value: float) -> dict[str, Any]:
        return {"overall": {"value": value}, "platforms": {"value": value, "low": value - 0.05}}

    assert broken({"oracle": row(1), "query-only": row(0.35)}, 0.33) is None
    assert "gold answers score 0.900" in str(broken({"oracle": row(0.9), "query-only": row(0.3)}, 0.33))
    assert "give it away" in str(broken({"oracle": row(1), "query-only": row(0.8)}, 0.33))


@pytest.mark.parametrize("solver", ["oracle", "history-majority"])
def test_a_built_in_solver_answers_the_same_twice_and_on_the_exported_file(solver: str, run_folder: Path, split: Path, tmp_path: Path):
    exported = next(path for path in export(load_run(run_folder), "ptbench") if path.parent.name == split.stem)
    for name in ("a", "b"):
        evaluate(split, tmp_path / name, Solver(solver), PLAIN, LIMITS)
    foreign = evaluate(exported, tmp_path / "foreign", Solver(solver), PLAIN, LIMITS)

    assert (tmp_path / "a" / "predictions.jsonl").read_bytes() == (tmp_path / "b" / "predictions.jsonl").read_bytes()
    assert foreign["groups"]["all"]["samples"] == len(predictions(tmp_path / "a"))
    if solver == "oracle":
        assert overall(foreign) == 1


@pytest.mark.parametrize(
    "solver",
    [
        Solver("offline:1"),
        Solver("offline:1", mode="tools"),
        Solver("offline:1", mode="json"),
        Solver("offline:1", endpoint="completions", template="qwen"),
        Solver("offline:1", endpoint="completions", template="deepseek"),
    ],
    ids=lambda s: s.name,
)
def test_a_skilled_model_scores_in_every_mode(solver: Solver, single_calls: Path, tmp_path: Path):
    found = evaluate(single_calls, tmp_path, solver, PLAIN, LIMITS)

    assert overall(found, "format") == 1
    assert overall(found) >= 0.75
    recorded = json.loads((tmp_path / "solver.json").read_text())
    assert (recorded["temperature"], recorded["max_tokens"], recorded["seed"]) == (0.0, 512, 0)
    assert recorded["prompt"].startswith(f"{solver.mode}@1-")
    assert "offline model" in recorded["made_by"]


def test_less_skill_scores_less(split: Path, tmp_path: Path):
    scores = [overall(evaluate(split, tmp_path / str(s), Solver(f"offline:{s}", repeats=4), PLAIN, LIMITS)) for s in (0, 0.5, 1)]

    assert scores == sorted(scores)
    assert scores[0] < 0.4 < scores[2]


def test_concurrency_changes_no_byte_and_a_second_run_asks_nothing(split: Path, tmp_path: Path):
    for name, concurrency in (("one", 1), ("many", 16)):
        evaluate(split, tmp_path / name, Solver("offline:0.5"), PLAIN, Limits(concurrency=concurrency))
    before = (tmp_path / "one" / "predictions.jsonl").read_bytes()

    assert before == (tmp_path / "many" / "predictions.jsonl").read_bytes()
    dead = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    evaluate(split, tmp_path / "one", Solver("offline:0.5"), PLAIN, Limits(attempts=1), dead)
    assert before == (tmp_path / "one" / "predictions.jsonl").read_bytes()


def test_a_folder_holds_one_evaluation(split: Path, tmp_path: Path):
    evaluate(split, tmp_path, Solver("random"), PLAIN, LIMITS)

    with pytest.raises(ConfigError, match=r"holds another evaluation .*seed"):
        evaluate(split, tmp_path, Solver("random", seed=1), PLAIN, LIMITS)


def test_a_used_up_budget_stops_and_the_same_command_goes_on(split: Path, tmp_path: Path):
    with pytest.raises(Stopped, match="max_calls of 2 is used up"):
        evaluate(split, tmp_path, Solver("offline"), PLAIN, Limits(max_calls=2, concurrency=1))

    assert not (tmp_path / "predictions.jsonl").exists()
    resumed = evaluate(split, tmp_path, Solver("offline"), PLAIN, LIMITS)
    whole = evaluate(split, tmp_path / "whole", Solver("offline"), PLAIN, LIMITS)
    assert resumed["groups"] == whole["groups"]


def test_faults_of_the_endpoint_are_retried_and_change_nothing(split: Path, tmp_path: Path):
    faults = offline_http_client(0, Faults(too_many=0.3, server_error=0.1, malformed=0.1))
    evaluate(split, tmp_path / "faulty", Solver("offline"), PLAIN, Limits(attempts=20), faults)
    evaluate(split, tmp_path / "calm", Solver("offline"), PLAIN, LIMITS)

    assert (tmp_path / "faulty" / "predictions.jsonl").read_bytes() == (tmp_path / "calm" / "predictions.jsonl").read_bytes()


def test_cut_answers_are_told_apart(split: Path, tmp_path: Path):
    found = evaluate(split, tmp_path, Solver("offline:1"), PLAIN, LIMITS, offline_http_client(0, Faults(truncate=1.0)))

    assert set(found["failures"]) == {"truncation"}
    assert overall(found, "truncation") == 1


def server(reply: Any, status: int = 200) -> httpx2.AsyncClient:
    async def chat(_: Request) -> Response:
        return JSONResponse(reply, status)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "stop", "message": fields}]}


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (message(content=None), "empty"),
        (message(content="I'm sorry, I can't help."), "refusal"),
        (message(content="word " * 200_000), "too_long"),
        (message(content=[{"type": "text", "text": "no answer"}]), "syntax"),
        (message(content=None, tool_calls=[{"function": {"name": "x", "arguments": "{broken"}}]), "syntax"),
        (message(content=None, tool_calls=[{"function": {"name": "x", "arguments": "[" * 5000}}, None, {}]), "syntax"),
    ],
)
def test_whatever_a_model_says_is_a_counted_row(reply: Any, failure: str, split: Path, tmp_path: Path):
    found = evaluate(split, tmp_path, Solver("offline", mode="tools"), PLAIN, Limits(attempts=1), server(reply))

    assert set(found["failures"]) == {failure}
    assert overall(found) == 0
    assert found["groups"]["all"]["metrics"]["overall"]["count"] == len(predictions(tmp_path))


def test_a_refused_key_stops_at_once_and_a_refused_request_is_a_failed_sample(split: Path, tmp_path: Path):
    with pytest.raises(Unavailable, match="check OPENAI_API_KEY"):
        evaluate(split, tmp_path / "key", Solver("offline"), PLAIN, LIMITS, server({"error": {"message": "who are you"}}, 401))
    found = evaluate(split, tmp_path / "long", Solver("offline"), PLAIN, LIMITS, server({"error": {"message": "too long"}}, 400))

    assert overall(found) == 0
    assert {line["finish"] for line in predictions(tmp_path / "long")} == {"rejected"}


def test_native_calls_on_two_platforms_are_hedging(split: Path, tmp_path: Path):
    source = Source(Part("test", split, False))
    _, seen = next(iter(source))
    names = [f"{platform['name']}__{platform['apis'][0]['name']}" for platform in seen.tools[:2]]
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in names]
    found = evaluate(split, tmp_path, Solver("offline", mode="tools"), PLAIN, LIMITS, server(message(content=None, tool_calls=calls)))

    assert set(found["failures"]) == {"multi_platform"}
    assert overall(found, "hedging") == 1


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (Solver("offline", endpoint="completions"), "needs --template"),
        (Solver("offline", endpoint="completions", template="qwen", mode="tools"), "--mode text or json"),
        (Solver("offline", endpoint="completions", template="no/such.jinja"), "no such file"),
        (Solver("offline", temperature=9), "--temperature"),
        (Solver("offline", setting=Setting(shots=99)), "--shots"),
        (Solver("gpt"), "write offline, openai:<model>"),
    ],
)
def test_options_that_cannot_work_are_one_line_before_anything_is_asked(solver: Solver, words: str, split: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match=words):
        evaluate(split, tmp_path, solver, PLAIN, LIMITS)


def test_a_split_file_without_its_run_can_be_scored_but_not_evaluated(split: Path, tmp_path: Path):
    alone = tmp_path / "test_alone.jsonl"
    alone.write_bytes(split.read_bytes())

    with pytest.raises(ConfigError, match="needs its run folder"):
        evaluate(alone, tmp_path / "out", Solver("oracle"), PLAIN, LIMITS)


def hidden_texts(run_folder: Path) -> set[str]:
    profiles = [json.loads(line) for line in (run_folder / "04_profiles.jsonl").read_text(encoding="utf-8").splitlines()]
    return {preference["words"] for profile in profiles for preference in profile["preferences"]}


SETTINGS = [
    Setting(),
    Setting(profile="no-basic"),
    Setting(profile="no-history"),
    Setting(profile="none"),
    Setting(context="events"),
    Setting(context="log"),
    Setting(candidates="all"),
    Setting(distractors=4),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_solver_sees_what_its_setting_says_and_never_what_is_hidden(setting: Setting, run_folder: Path, split: Path):
    source = Source(Part("test", split, False))
    hidden = hidden_texts(run_folder)
    for item, seen in source:
        shown = changed(seen, setting, source)
        text = json.dumps(shown.__dict__, ensure_ascii=False)
        assert not any(words in text for words in hidden)
        assert '"context"' not in text
        assert '"level"' not in text
        city = seen.person["home_city"]
        knows = setting.profile in ("all", "no-history") and setting.context != "events"
        assert (f'"home_city": "{city}"' in text or f"profile.home_city = {city}" in text) is knows
        happened = seen.history[0]["summary"]
        assert (happened in text) is (setting.profile in ("all", "no-basic")), item.id
        assert ("shoe_size" in text) is bool(setting.distractors)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_one_table_with_intervals_and_one_plot(name: str, split: Path, tmp_path: Path):
    solver = Solver("offline:1")
    found = experiment(name, split, tmp_path, solver, Options(draws=30), LIMITS)

    table = (tmp_path / "table.md").read_text()
    assert all(f"| {cell} |" in table for cell in found["cells"])
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + len(found["cells"])
    first = next(iter(found["cells"].values()))
    assert first["metrics"]["overall"]["low"] is not None
    assert first["against_first"]["difference"] == 0
    if name == "profile-ablation":
        assert found["cells"]["none"]["metrics"]["overall"]["value"] < first["metrics"]["overall"]["value"]


def test_examples_come_from_train_and_are_shown(split: Path, tmp_path: Path):
    seen: list[str] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        seen.append(json.loads(request.content)["messages"][1]["content"])
        return httpx2.Response(200, json=message(content="none: x"))

    solver = Solver("offline", setting=Setting(shots=2))
    evaluate(split, tmp_path, solver, PLAIN, LIMITS, httpx2.AsyncClient(transport=httpx2.MockTransport(reply)))

    trained = {json.loads(line)["query"] for line in (split.parent / "train.jsonl").read_text(encoding="utf-8").splitlines()}
    assert all(text.count("<example>") == 2 for text in seen)
    assert all(any(json.dumps(query, ensure_ascii=False)[1:-1].replace("&", "\\u0026") in text for query in trained) for text in seen)


def test_retrieval_shows_fewer_tools(split: Path, tmp_path: Path):
    counts: list[int] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        counts.append(len(json.loads(request.content)["tools"]))
        return httpx2.Response(200, json=message(content="none: x"))

    solver = Solver("offline", mode="tools", setting=Setting(retrieve=5))
    evaluate(split, tmp_path, solver, PLAIN, LIMITS, httpx2.AsyncClient(transport=httpx2.MockTransport(reply)))

    assert set(counts) == {5}


def test_repeats_ask_with_other_seeds(split: Path, tmp_path: Path):
    solver = Solver("offline:0.5")
    evaluate(split, tmp_path, replace(solver, repeats=2), PLAIN, LIMITS)
    lines = predictions(tmp_path)

    half = len(lines) // 2
    assert [line.get("repeat") for line in lines] == [None] * half + [1] * half
    assert [a["predict"] for a in lines[:half]] != [b["predict"] for b in lines[half:]]
