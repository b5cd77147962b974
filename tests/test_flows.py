"""The pipeline as a Prefect flow: the few tests that need a server share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from making import Made, files_of
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL
from prefect.testing.utilities import prefect_test_harness

import flows
from pipelines import config
from pipelines.config import ROOT


@pytest.fixture(scope="module")
def prefect_api() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=90):
        yield


async def test_the_flow_makes_the_same_bytes_and_leaves_artifacts_of_every_stage(prefect_api: None, tiny: Made, tmp_path: Path):
    settings, _ = config.load("tiny")
    path = await flows.synthesize(settings, str(tmp_path / "run"))

    without_origin = {name: data for name, data in files_of(Path(path)).items() if name != "config.json"}
    assert without_origin == {name: data for name, data in files_of(tiny.root).items() if name != "config.json"}
    async with get_client() as client:
        artifacts = {a.key: a for a in await client.read_artifacts()}
        runs = await client.read_flow_runs()
    stages = [
        f"0{i}-{name}"
        for i, name in enumerate(
            ["scenarios", "apis", "features", "profiles", "histories", "queries", "solutions", "samples", "splits"], start=1
        )
    ]
    assert {f"{stage}-{what}" for stage in stages for what in ("counts", "samples")} <= set(artifacts)
    table = json.loads(artifacts["08-samples-counts"].data)
    assert table[0] == {"what": "kept", "count": 24, "share": ""}
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    for stage in stages[:-1]:
        rows = {row["what"]: row["count"] for row in json.loads(artifacts[f"{stage}-counts"].data)}
        lost = manifest["stages"][stage.replace("-", "_")]["rejected"]
        assert {reason: rows[f"rejected: {reason}"] for reason in lost} == lost
    text = artifacts["08-samples-samples"].data
    assert text.count("passed 16 rules") == 3
    assert "offline model" in text
    assert all(len(str(a.data)) < 200_000 for a in artifacts.values())
    assert [run.name for run in runs] == ["tiny-1scenarios-seed7"]


def test_the_form_of_the_deployment_shows_every_field_of_the_config():
    from prefect.utilities.callables import parameter_schema

    schema = parameter_schema(flows.synthesize).model_dump()
    fields = schema["definitions"]["RunConfig"]["properties"]

    assert set(fields) == set(config.RunConfig.model_fields)
    assert all(field.get("description") or "$ref" in field or "allOf" in field for field in fields.values())
    assert "Limits" in schema["definitions"]
    assert "ScenarioSpec" in schema["definitions"]


def test_prefect_deploy_accepts_the_deployment(prefect_api: None):
    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value(), "PREFECT_LOGGING_LEVEL": "ERROR"}

    def prefect(*arguments: str) -> str:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect("work-pool", "create", "ptool", "--type", "process")
    prefect("deploy", "--all")
    shown = prefect("deployment", "inspect", "synthesize/dataset")

    assert "'definitions'" in shown or '"definitions"' in shown
    assert "RunConfig" in shown
    assert "flows.synthesize" in shown
