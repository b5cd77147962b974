"""The provider's Batch API as a second transport: many requests in one file, answered within a day, at a discount.

What is asked within a short while goes into one batch. Its remote id and the digests of its requests are in
the ledger before anyone waits for it, so a killed run finds it again and pays nothing twice; requests that
failed or expired in it go into the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import openai

from pipelines.config import Limits
from pipelines.errors import PtoolError
from pipelines.llm import wire
from pipelines.llm.endpoint import Endpoint, Request
from pipelines.llm.ledger import Ledger
from pipelines.llm.wire import Body, Fault

QUIET = 1.0
"""A batch is sent when nothing was added for this long, in seconds."""
MOST_REQUESTS = 10_000
MOST_BYTES = 90_000_000
_OVER = ("completed", "failed", "expired", "cancelled")
_INTENT = "intent:"


@dataclass
class _Batch:
    """One remote batch and who waits for it."""

    remote: str
    keys: list[str]
    open: set[str] = field(default_factory=set)
    """Keys whose result is not in the ledger yet."""


class Batches:
    """All batches of a run.

    Args:
        ledger: Keeps the remote ids.
        limits: How often to look.
    """

    def __init__(self, ledger: Ledger, limits: Limits) -> None:
        self._ledger = ledger
        self._limits = limits
        self._waiting: dict[str, asyncio.Future[Body]] = {}
        self._queue: dict[Endpoint, dict[str, str]] = {}
        self._sender: dict[Endpoint, asyncio.Task[None]] = {}
        self._pollers: dict[str, asyncio.Task[None]] = {}
        self._of: dict[str, _Batch] = {}
        for remote, keys in ledger.open_batches().items():
            batch = _Batch(remote, keys, set(keys))
            self._of.update(dict.fromkeys(keys, batch))

    async def exchange(self, endpoint: Endpoint, key: str, request: Request) -> Body:
        """One reply by way of a batch: an open one that holds the request already, or the next one.

        Raises:
            Fault: when the request failed in its batch, or the batch as a whole did.
        """
        future = self._waiting[key] = asyncio.get_running_loop().create_future()
        known = self._of.get(key)
        if known is not None:
            self._watch(endpoint, known)
        else:
            line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": endpoint.body(request)}
            self._queue.setdefault(endpoint, {})[key] = json.dumps(line, ensure_ascii=False)
            task = self._sender.get(endpoint)
            if task is None or task.done():
                self._sender[endpoint] = asyncio.create_task(self._send(endpoint))
        try:
            body: Body = await future
            return body
        finally:
            self._waiting.pop(key, None)

    def kept(self, key: str) -> None:
        """The result of a request is in the ledger, or it will be asked again in another batch."""
        batch = self._of.pop(key, None)
        if batch is not None:
            batch.open.discard(key)
            if not batch.open:
                self._ledger.put_batch(batch.remote, batch.keys, ended=True)

    def stop(self, error: PtoolError) -> None:
        """Nobody waits for a batch when the run stops; its id is in the ledger."""
        for task in [*self._sender.values(), *self._pollers.values()]:
            task.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    async def close(self) -> None:
        """End what still looks at batches."""
        for task in [*self._sender.values(), *self._pollers.values()]:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    # Sending

    async def _send(self, endpoint: Endpoint) -> None:
        queue = self._queue[endpoint]
        while queue:
            before = -1
            while len(queue) != before and len(queue) < MOST_REQUESTS:
                before = len(queue)
                await asyncio.sleep(QUIET)
            lines: dict[str, str] = {}
            size = 0
            for key in list(queue)[:MOST_REQUESTS]:
                if lines and size + len(queue[key]) > MOST_BYTES:
                    break
                size += len(queue[key])
                lines[key] = queue.pop(key)
            try:
                await self._submit(endpoint, lines)
            except Fault as fault:
                self._fail(lines, fault)

    async def _submit(self, endpoint: Endpoint, lines: dict[str, str]) -> None:
        """Upload, create, and note the id; before that the intent, by which a killed run finds the batch again."""
        name = uuid.uuid4().hex
        keys = list(lines)
        intent = _Batch(f"{_INTENT}{name}", keys, set(keys))
        client = endpoint.client
        try:
            data = "".join(f"{line}\n" for line in lines.values()).encode("utf-8", "replace")
            file = await client.files.create(file=(f"{name}.jsonl", data, "application/jsonl"), purpose="batch")
            self._ledger.put_batch(intent.remote, keys)
            made = await client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"ptool": name}
            )
        except openai.APIError as error:
            fault = wire.fault_of(error, self._limits.retry_statuses)
            if fault.kind not in ("timeout", "connection", "server_error"):
                self._ledger.put_batch(intent.remote, keys, ended=True)  # it was refused: no batch exists
                raise fault from None
            found = await self._find(endpoint, name)
            if found is None:
                self._ledger.put_batch(intent.remote, keys, ended=True)
                raise fault from None
            made_id = found
        else:
            made_id = made.id
        self._adopt(endpoint, intent, made_id)

    def _adopt(self, endpoint: Endpoint, intent: _Batch, remote: str) -> None:
        self._ledger.put_batch(remote, intent.keys)
        self._ledger.put_batch(intent.remote, intent.keys, ended=True)
        batch = _Batch(remote, intent.keys, set(intent.keys))
        self._of.update(dict.fromkeys(intent.keys, batch))
        self._watch(endpoint, batch)

    async def _find(self, endpoint: Endpoint, name: str) -> str | None:
        """The batch that was created for an intent, if it was."""
        try:
            page = await endpoint.client.batches.list(limit=100)
        except openai.APIError:
            return None
        return next((batch.id for batch in page.data if (batch.metadata or {}).get("ptool") == name), None)

    # Looking

    def _watch(self, endpoint: Endpoint, batch: _Batch) -> None:
        task = self._pollers.get(batch.remote)
        if task is None or task.done():  # whoever asks late has the results fetched again
            self._pollers[batch.remote] = asyncio.create_task(self._poll(endpoint, batch))

    async def _poll(self, endpoint: Endpoint, batch: _Batch) -> None:
        if batch.remote.startswith(_INTENT):
            found = await self._find(endpoint, batch.remote.removeprefix(_INTENT))
            if found is None:
                self._drop(batch, Fault("connection", "the batch was never created"))
            else:
                self._adopt(endpoint, batch, found)
            return
        while True:
            try:
                state = await endpoint.client.batches.retrieve(batch.remote)
                if state.status in _OVER:
                    results = await self._results(endpoint, state)
                    break
            except openai.NotFoundError:
                self._drop(batch, Fault("connection", f"the provider knows no batch {batch.remote}"))
                return
            except (openai.APIError, TimeoutError) as error:
                fault = wire.fault_of(error, self._limits.retry_statuses)
                if not fault.passing:
                    self._fail(batch.keys, fault)
                    return
                if endpoint.pace.given_up():
                    self._fail(batch.keys, fault)
                    return
            await asyncio.sleep(self._limits.batch_poll_s)
        missing = Fault("timeout" if state.status == "expired" else "connection", f"batch {state.status} without this request")
        for key in batch.keys:
            found_one = results.get(key, missing)
            if isinstance(found_one, Fault):
                self.kept(key)
            future = self._waiting.get(key)
            if future is None or future.done():
                continue
            if isinstance(found_one, Fault):
                future.set_exception(found_one)
            else:
                future.set_result(found_one)

    async def _results(self, endpoint: Endpoint, state: Any) -> dict[str, Body | Fault]:
        """By custom id, from the output and the error file, whichever there are."""
        found: dict[str, Body | Fault] = {}
        for name in (state.output_file_id, state.error_file_id):
            if not name:
                continue
            content = await endpoint.client.files.content(name)
            for line in content.content.splitlines():
                if line.strip():
                    key, result = _result(line)
                    found[key] = result
        return found

    def _drop(self, batch: _Batch, fault: Fault) -> None:
        for key in batch.keys:
            self.kept(key)
        self._fail(batch.keys, fault)

    def _fail(self, keys: Iterable[str], fault: Fault) -> None:
        for key in keys:
            future = self._waiting.get(key)
            if future is not None and not future.done():
                future.set_exception(Fault(fault.kind, fault.words, fault.status, fault.wait))


def _result(line: bytes) -> tuple[str, Body | Fault]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "", Fault("body_not_json", "a line of a batch result")
    key = str(row.get("custom_id")) if isinstance(row, dict) else ""
    response = row.get("response") if isinstance(row, dict) else None
    if not isinstance(response, dict):
        error = row.get("error") if isinstance(row, dict) else None
        told = str(error.get("message") or "") if isinstance(error, dict) else ""
        return key, Fault("server_error", told or "failed in its batch")
    status, body = response.get("status_code"), response.get("body")
    if status == 200:
        try:
            return key, wire.completion(body, ())
        except Fault as fault:
            return key, fault
    words = body.get("error", {}).get("message") if isinstance(body, dict) and isinstance(body.get("error"), dict) else ""
    kind = "throttled" if status == 429 else "bad_request" if isinstance(status, int) and 400 <= status < 500 else "server_error"
    return key, Fault(kind, str(words or "failed in its batch"), status if isinstance(status, int) else 0)
