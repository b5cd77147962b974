"""A real OpenAI-compatible server (llama.cpp), opt-in: its replies are poor, its wire behaviour is real.

Set PTOOL_LLAMA_SERVER to a `llama-server` program and PTOOL_GGUF to a small instruct model. Without them the test is skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.config import Limits
from pipelines.evaluation.asking import Solver
from pipelines.evaluation.evaluate import evaluate
from pipelines.evaluation.seen import Setting
from pipelines.evaluation.summary import Options

SERVER, WEIGHTS = os.environ.get("PTOOL_LLAMA_SERVER", ""), os.environ.get("PTOOL_GGUF", "")
SMALL = Setting(profile="none", retrieve=2)
"""Prompts that a tiny model on a busy machine can read."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    if not SERVER or not WEIGHTS:
        pytest.skip("NOT TRIED WITH A REAL SERVER: set PTOOL_LLAMA_SERVER and PTOOL_GGUF")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "-np", "1", "-t", "1", "-c", "8192", "--jinja", "--no-webui", "--device", "none"]
    server = subprocess.Popen([SERVER, "-m", WEIGHTS, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(240):
            assert server.poll() is None, "the server ended"
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.parametrize(
    "solver",
    [
        Solver("openai:tiny", max_tokens=24, setting=SMALL),
        Solver("openai:tiny", mode="tools", max_tokens=24, setting=SMALL),
        Solver("openai:tiny", mode="json", max_tokens=24, setting=SMALL),
        Solver("openai:tiny", endpoint="completions", template="qwen", max_tokens=24, setting=SMALL),
    ],
    ids=lambda s: f"{s.mode}-{s.endpoint}",
)
def test_a_real_server_answers_in_every_mode(solver: Solver, base_url: str, split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = evaluate(split, tmp_path, solver, Options(draws=0), Limits(concurrency=1, timeout_s=300))

    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found["groups"]["all"]["metrics"]["overall"]["count"] == len(lines) > 0
    assert {line["finish"] for line in lines} <= {"stop", "length", "tool_calls"}
    assert any(line["predict"] for line in lines)
    cut = [line for line in lines if line["finish"] == "length"]
    assert found["failures"].get("truncation", 0) <= len(cut)
