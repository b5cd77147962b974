"""The automation of docs/prefect.md: a low yield is told to whoever wants to know."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from serving import Prefect, wait_until

from pipelines.config import ROOT


@pytest.fixture
def mailbox() -> Iterator[tuple[str, list[str]]]:
    """Somebody who is told things over HTTP."""
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", received
    server.shutdown()
    server.server_close()


def test_a_run_with_a_low_yield_is_told_by_the_automation_of_the_docs(server: Prefect, mailbox: tuple[str, list[str]], tmp_path: Path):
    url, received = mailbox
    kind = server.get("/block_types/slug/custom-webhook")
    schema = server.post("/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}})[0]
    data = {"name": "mailbox", "url": url, "method": "POST", "json_data": {"subject": "{{subject}}", "body": "{{body}}"}}
    block = server.post(
        "/block_documents/", {"name": "mailbox", "data": data, "block_type_id": kind["id"], "block_schema_id": schema["id"]}
    )
    text = (ROOT / "docs" / "prefect.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(# low_yield\.yaml.*?)```", text, re.DOTALL)
    assert found is not None
    (tmp_path / "low_yield.yaml").write_text(re.sub(r"0{8}-[0-]+", block["id"], found.group(1)), encoding="utf-8")
    server.cli("automation", "create", "--from-file", str(tmp_path / "low_yield.yaml"))

    def tell() -> bool:
        event = {
            "id": str(uuid4()),
            "event": "ptool.dataset.low-yield",
            "occurred": datetime.now(UTC).isoformat(),
            "resource": {"prefect.resource.id": "ptool.dataset.here"},
            "payload": {"folder": "/runs/here", "samples": 3, "yield": 0.12},
        }
        answer = server.post("/events", [event])
        assert answer is None, answer
        time.sleep(1)
        return bool(received)

    wait_until(tell, "the notification")
    assert json.loads(received[0]) == {"subject": "Low yield", "body": "/runs/here kept only 0.12 of its attempts"}
