"""Servers that are not there, or not ours: one line, before anything is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import flows
from pipelines import launch
from pipelines.config import ROOT
from pipelines.errors import ConfigError, Unavailable


@contextmanager
def pretender(status: int, body: object) -> Iterator[str]:
    """A server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, "", "wants another PREFECT_API_AUTH_STRING"),
        (200, "2.20.4", r"the server is Prefect 2\.20\.4, this is 3\."),
        (404, "", "answers 404 and is no Prefect API"),
        (200, {"x": 1}, "is no Prefect API"),
    ],
)
async def test_a_server_that_does_not_fit_is_told_by_what_does_not_fit(status: int, body: object, told: str):
    with pretender(status, body) as url, pytest.raises(Unavailable, match=told):
        await flows.check_server(url)


async def test_no_server_at_the_url_is_told_with_what_to_do():
    with pytest.raises(Unavailable, match=r"no Prefect server answers .*prefect server start.*or unset PREFECT_API_URL"):
        await flows.check_server("http://127.0.0.1:9/api")


def test_from_the_command_line_no_server_is_exit_code_2_and_one_line(tmp_path: Path):
    environment = {**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api", "PREFECT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "pipelines.cli", "run", "--preset", "tiny", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("ptool: PREFECT_API_URL is http://127.0.0.1:9/api: no Prefect server answers")


def test_a_home_that_cannot_be_written_is_replaced_for_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for name in launch.PREFECT_SETTINGS:
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "home"))
    launch.quiet_prefect()

    assert Path(os.environ["PREFECT_HOME"]).is_dir()
    assert "cannot be written" in capsys.readouterr().err
    assert os.environ["PREFECT_LOGGING_LEVEL"] == "kept"


def test_a_database_that_is_none_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "prefect.db").write_bytes(b"certainly not a database")
    for name in launch.PREFECT_SETTINGS:
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    launch.quiet_prefect()

    assert os.environ["PREFECT_HOME"] != str(tmp_path)
    assert "prefect.db is no database" in capsys.readouterr().err
    assert (tmp_path / "prefect.db").read_bytes() == b"certainly not a database"


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ({"cluster": "tcp://x:1"}, "--cluster tcp://x:1: needs --runner"),
        ({"prefect": False, "runner": "dask"}, "--no-prefect"),
        ({"prefect": False, "review": True}, "--no-prefect"),
        ({"workers": 0}, "--workers is 0"),
    ],
)
def test_options_that_exclude_each_other_are_refused(engine: dict[str, object], told: str):
    with pytest.raises(ConfigError, match=told):
        launch.Engine(**engine)  # type: ignore[arg-type]


async def test_a_key_name_that_nothing_has_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_ENDPOINT_KEY", "value")
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    await flows.use_key("MY_ENDPOINT_KEY")

    assert os.environ["OPENAI_API_KEY"] == "value"
