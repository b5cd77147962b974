"""The files and batches endpoints of the offline server: enough of the Batch API to test against.

A batch is over `wait_s` after it was made. Each of its requests meets the same faults as a single one would;
what failed stands in the error file, and a share of batches expires half done.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Answer = Callable[[bytes, str], Response]
MAX_LINES = 50_000


@dataclass
class Shelf:
    """Files and batches of one server."""

    answer: Answer
    """Body and attempt number to a response."""
    seed: int
    expire: float
    wait_s: float
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: Counter[bytes] = field(default_factory=Counter)

    def routes(self) -> list[Route]:
        """The endpoints."""
        return [
            Route("/v1/files", self.upload, methods=["POST"]),
            Route("/v1/files/{id}/content", self.content),
            Route("/v1/batches", self.create, methods=["POST"]),
            Route("/v1/batches", self.listed),
            Route("/v1/batches/{id}", self.retrieve),
        ]

    async def upload(self, request: Request) -> Response:
        """Keep a file."""
        data = _file_part(await request.body(), request.headers.get("content-type", ""))
        if data is None:
            return _error(400, "no file in the form")
        name = self._keep(data)
        return JSONResponse(
            {
                "id": name,
                "object": "file",
                "bytes": len(data),
                "created_at": 0,
                "filename": f"{name}.jsonl",
                "purpose": "batch",
                "status": "processed",
            }
        )

    async def content(self, request: Request) -> Response:
        """The bytes of a file."""
        data = self.files.get(request.path_params["id"])
        return _error(404, "no such file") if data is None else Response(data, media_type="application/jsonl")

    async def create(self, request: Request) -> Response:
        """Begin a batch."""
        body = await request.json()
        data = self.files.get(str(body.get("input_file_id")))
        lines = data.splitlines() if data is not None else []
        if not lines or len(lines) > MAX_LINES:
            return _error(400, "no input file, or no lines in it")
        made = {
            "id": f"batch-{len(self.batches) + 1}",
            "object": "batch",
            "endpoint": body.get("endpoint"),
            "input_file_id": body["input_file_id"],
            "completion_window": "24h",
            "status": "in_progress",
            "created_at": 0,
            "metadata": body.get("metadata"),
            "output_file_id": None,
            "error_file_id": None,
            "over_at": time.monotonic() + self.wait_s,
        }
        self.batches[str(made["id"])] = made
        return JSONResponse(_shown(made))

    async def retrieve(self, request: Request) -> Response:
        """A batch, finished when its time is over."""
        batch = self.batches.get(request.path_params["id"])
        if batch is None:
            return _error(404, "no such batch")
        if batch["status"] == "in_progress" and time.monotonic() >= batch["over_at"]:
            self._finish(batch)
        return JSONResponse(_shown(batch))

    async def listed(self, _: Request) -> Response:
        """All batches, newest first."""
        return JSONResponse({"object": "list", "data": [_shown(b) for b in reversed(self.batches.values())], "has_more": False})

    def _finish(self, batch: dict[str, Any]) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        expired = random.Random(f"{self.seed} {batch['id']}").random() < self.expire
        good: list[dict[str, Any]] = []
        bad: list[dict[str, Any]] = []
        for line in lines[: len(lines) // 2] if expired else lines:
            raw = json.dumps(line["body"], ensure_ascii=False).encode()
            self.seen[raw] += 1
            response = self.answer(raw, str(self.seen[raw]))
            row: dict[str, Any] = {"id": f"r-{line['custom_id']}", "custom_id": line["custom_id"], "response": None, "error": None}
            try:
                row["response"] = {"status_code": response.status_code, "request_id": "r", "body": json.loads(bytes(response.body))}
            except ValueError:
                row["error"] = {"code": "server_error", "message": "the reply was lost"}
            (good if response.status_code == 200 and row["response"] else bad).append(row)
        batch["status"] = "expired" if expired else "completed"
        batch["output_file_id"] = self._keep_rows(good)
        batch["error_file_id"] = self._keep_rows(bad)

    def _keep_rows(self, rows: list[dict[str, Any]]) -> str | None:
        return self._keep("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()) if rows else None

    def _keep(self, data: bytes) -> str:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = data
        return name


def _shown(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in batch.items() if key != "over_at"}


def _file_part(body: bytes, kind: str) -> bytes | None:
    """The file in a multipart form."""
    _, found, boundary = kind.partition("boundary=")
    if not found:
        return None
    for part in body.split(b"--" + boundary.strip('"').encode()):
        head, mark, data = part.partition(b"\r\n\r\n")
        if mark and b'name="file"' in head:
            return data.removesuffix(b"\r\n")
    return None


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None}}, status_code=status)
