"""A bare HTTP server that answers every chat completion alike after a set wait; the other side of the LLM benchmarks.

python benchmarks/llm_mock_server.py PORT LATENCY_MS [REPLY_BYTES]

It parses just enough of HTTP/1.1 to keep up with thousands of requests a second on one core.
"""

from __future__ import annotations

import asyncio
import json
import sys

VALUE = {"title": "A short answer", "score": 7, "tags": ["one", "two"], "note": ""}


def reply(size: int) -> bytes:
    """A whole HTTP response whose body has about `size` bytes."""
    value = {**VALUE, "note": "x" * max(0, size - 500)}
    body = json.dumps(
        {
            "id": "mock",
            "object": "chat.completion",
            "created": 0,
            "model": "mock",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(value)}}],
            "usage": {"prompt_tokens": 400, "completion_tokens": 60, "total_tokens": 460},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Mock(asyncio.Protocol):
    """One connection, one request at a time."""

    latency = 0.1
    response = b""
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer once the whole request is there."""
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        low = head.lower()
        size = int(low.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0) if b"content-length:" in low else 0
        if len(body) < size:
            return
        self._data = b""
        asyncio.get_running_loop().call_later(self.latency, self._answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.response)


async def serve(port: int) -> None:
    """Until killed."""
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    Mock.latency = float(sys.argv[2]) / 1000
    Mock.response = reply(int(sys.argv[3]) if len(sys.argv) > 3 else 700)
    asyncio.run(serve(int(sys.argv[1])))
