"""From `prefect deploy` to a finished dataset, as a person in the UI goes: start, cancel, retry, review."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from making import Made, files_of
from serving import Finished, Model, Prefect, tiny_parameters, wait_until

from pipelines.jsonio import read_lines
from pipelines.records import Sample


def test_a_deployment_run_with_parameters_completes_with_the_bytes_of_the_command_line(
    deployed: Prefect, finished: Finished, pristine: Made
):
    assert finished.run["name"] == "tiny-1scenarios-seed7"
    assert set(finished.run["tags"]) == {"ptool", "dataset"}
    for name, data in files_of(pristine.root).items():
        if name != "config.json":  # it tells where each field came from
            assert (finished.out / name).read_bytes() == data, name


def test_every_stage_leaves_its_artifacts_with_figures_that_agree_with_the_files(deployed: Prefect, finished: Finished):
    artifacts = deployed.artifacts(finished.run["id"])
    manifest = json.loads((finished.out / "manifest.json").read_text(encoding="utf-8"))
    for name, entry in manifest["stages"].items():
        key = name.replace("_", "-")
        rows = {row["what"]: row["count"] for row in json.loads(artifacts[f"{key}-counts"]["data"])}
        assert rows["kept"] == entry["kept"]
        assert {reason: rows[f"rejected: {reason}"] for reason in entry["rejected"]} == entry["rejected"]
        assert f"{key}-samples" in artifacts
    for stage in ("01-scenarios", "02-apis", "03-features", "04-profiles", "05-histories", "08-samples", "09-splits"):
        assert artifacts[f"{stage}-progress"]["data"] == 100
    assert {"api-tree", "feature-tree", "profile-card", "history-timeline", "sample-and-rejection", "coverage", "cost"} <= set(artifacts)
    assert f"({deployed.address}/artifacts/key/coverage)" in artifacts["dataset-card"]["data"]
    assert all(len(json.dumps(artifact["data"])) < 200_000 for artifact in artifacts.values())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"users": 0}, "users"),
        ({"min_margin": 2}, "min_margin"),
        ({"preset": "huge"}, "preset"),
        ({"colour": "red"}, "colour"),
        ({"limits": {"concurrency": 5000}}, "concurrency"),
        ({"samples": {"train": "many"}}, "train"),
    ],
)
def test_the_form_refuses_what_the_config_refuses(deployed: Prefect, change: dict[str, Any], told: str):
    found = deployed.get("/deployments/name/synthesize/dataset")
    body = {"parameters": {"config": {**tiny_parameters(), **change}}, "state": {"type": "SCHEDULED"}}
    answer = deployed.post(f"/deployments/{found['id']}/create_flow_run", body)

    assert answer["status"] == 409
    assert told in answer["detail"]


def test_an_api_key_is_refused_where_only_its_name_belongs(deployed: Prefect):
    found = deployed.get("/deployments/name/synthesize/dataset")
    for value in ("sk-" + "a1B2" * 12, "Bearer xyz"):
        body = {"parameters": {"config": tiny_parameters(), "key_name": value}, "state": {"type": "SCHEDULED"}}
        assert deployed.post(f"/deployments/{found['id']}/create_flow_run", body)["status"] == 409


@pytest.fixture(scope="module")
def reviewed(deployed: Prefect, slow_model: Model, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run, cancelled in the middle, retried, paused for review: what was seen on the way."""
    out = tmp_path_factory.mktemp("reviewed") / "run"
    settings = tiny_parameters(model="openai:offline", limits={"concurrency": 2})
    before = slow_model.stats()
    run_id = deployed.start("synthesize/dataset", config=settings, out=str(out), review=True)
    wait_until(lambda: slow_model.stats()["requests"] >= before["requests"] + 20, "20 requests")
    deployed.post(f"/flow_runs/{run_id}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    cancelled = deployed.wait(run_id, "Cancelled")
    stopped = slow_model.stats()["requests"]
    time.sleep(2)
    later = slow_model.stats()["requests"]
    files = {path.name for path in out.iterdir()}
    retry = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
    deployed.post(f"/flow_runs/{run_id}/set_state", {"state": retry, "force": True})
    progress: list[float] = []

    def paused_at_last() -> Any:
        shown = deployed.artifacts(run_id).get("08-samples-progress")
        if shown is not None:
            progress.append(shown["data"])
        run = deployed.run(run_id)
        assert run["state"]["name"] not in ("Failed", "Crashed", "Completed"), run["state"]
        return run if run["state"]["name"] == "Paused" else None

    paused = wait_until(paused_at_last, "the review")
    return {
        "progress": progress,
        "id": run_id,
        "out": out,
        "before": before,
        "cancelled": cancelled,
        "stopped": stopped,
        "later": later,
        "files": files,
        "paused": paused,
    }


def test_cancel_stops_paying_and_leaves_a_resumable_run(reviewed: dict[str, Any]):
    assert reviewed["later"] == reviewed["stopped"]
    assert reviewed["stopped"] - reviewed["before"]["requests"] < 70
    assert "ledger.sqlite" in reviewed["files"]
    assert "08_samples.jsonl" not in reviewed["files"]


def test_retry_resumes_from_the_ledger(reviewed: dict[str, Any], slow_model: Model):
    assert slow_model.stats()["duplicates"] - reviewed["before"]["duplicates"] <= 2  # what was in flight at the cancel


def test_the_progress_of_a_stage_moves(reviewed: dict[str, Any]):
    assert sorted(reviewed["progress"]) == reviewed["progress"]
    assert any(0 < value < 100 for value in reviewed["progress"])


def test_the_review_shows_the_numbers_and_only_the_form_s_answers_are_taken(reviewed: dict[str, Any], deployed: Prefect, pristine: Made):
    details = reviewed["paused"]["state"]["state_details"]
    keyset = details["run_input_keyset"]

    schema = deployed.get(f"/flow_runs/{reviewed['id']}/input/{keyset['schema']}")
    description = deployed.text(f"/flow_runs/{reviewed['id']}/input/{keyset['description']}")
    assert schema["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert "**24 samples**" in description
    assert "yield of the sample stages" in description
    assert "judge" in description
    refused = deployed.post(f"/flow_runs/{reviewed['id']}/resume", {"run_input": {"decision": "perhaps"}})
    assert "perhaps" in json.dumps(refused)
    assert not (reviewed["out"] / "splits").exists()

    deployed.post(f"/flow_runs/{reviewed['id']}/resume", {"run_input": {"decision": "approve", "notes": "read three"}})
    deployed.wait(reviewed["id"], "Completed")
    review = json.loads((reviewed["out"] / "review.json").read_text(encoding="utf-8"))
    assert (review["decision"], review["notes"]) == ("approve", "read three")
    assert sum(1 for _ in read_lines(reviewed["out"] / "splits" / "train.jsonl", Sample)) == 14
    assert (reviewed["out"] / "08_samples.jsonl").read_bytes() == (pristine.root / "08_samples.jsonl").read_bytes()


def test_a_failed_stage_says_why_in_the_state_message(deployed: Prefect, tmp_path: Path):
    run_id = deployed.start(
        "synthesize/dataset", config=tiny_parameters(limits={"max_calls": 3, "concurrency": 1}), out=str(tmp_path / "run")
    )
    run = deployed.wait(run_id, "Failed")

    assert "02_apis: limits.max_calls of 3 is used up" in run["state"]["message"]
    assert "what is paid for is kept" in run["state"]["message"]


def test_the_evaluate_deployment_scores_a_finished_run(deployed: Prefect, finished: Finished, tmp_path: Path):
    data = str(finished.out / "splits" / "test_trained_users.jsonl")
    run_id = deployed.start("evaluate/evaluate", data=data, model="oracle", out=str(tmp_path / "scores"))
    run = deployed.wait(run_id, "Completed")
    scores = json.loads((tmp_path / "scores" / "scores" / "scores.json").read_text(encoding="utf-8"))

    assert run["name"] == "oracle-strict"
    assert scores["groups"]["all"]["samples"] == 4
    assert "oracle: 4 samples" in deployed.artifacts(run_id)["evaluation"]["data"]


def test_the_add_scenario_deployment_extends_a_finished_run(deployed: Prefect, pristine: Made, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(pristine.root, folder)
    scenario = {"name": "smart_home", "description": "Lights, heating, locks and cleaning at home."}
    run_id = deployed.start("add-scenario/add-scenario", folder=str(folder), scenario=scenario)
    run = deployed.wait(run_id, "Completed")
    artifacts = deployed.artifacts(run_id)

    assert run["name"] == "add-smart_home"
    assert (folder / "08_samples.jsonl").read_bytes().startswith((pristine.root / "08_samples.jsonl").read_bytes())
    rows = {row["what"]: row["count"] for row in json.loads(artifacts["01-scenarios-counts"]["data"])}
    assert rows["kept"] == 2
    assert "smart" in artifacts["api-tree"]["data"]
    assert "dataset-card" in artifacts
