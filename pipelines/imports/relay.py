"""Stands between the MCP client and a server that it started, so that a flood ends instead of filling memory or disk.

Run as a program: `relay.py MAX_BYTES MAX_LINE COMMAND ARGS...`. The server reads our standard input itself;
its output passes through while it is small enough, and of its error stream only the end is kept.
"""

from __future__ import annotations

import os
import signal
import subprocess  # starts one allowed command, never a shell
import sys
import threading

FLOODED = 70
"""Exit code when the server wrote too much."""


def main(argv: list[str]) -> int:
    """Pass the server's output on; returns its exit code, or `FLOODED`."""
    most, longest, *command = int(argv[0]), int(argv[1]), *argv[2:]
    try:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # noqa: S603
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 69
    signal.signal(signal.SIGTERM, lambda *_: _end(server))
    assert server.stdout is not None
    assert server.stderr is not None
    tail = bytearray()

    def listen(stream: int) -> None:
        while piece := os.read(stream, 65536):
            tail.extend(piece)
            del tail[:-2000]

    listener = threading.Thread(target=listen, args=(server.stderr.fileno(),), daemon=True)
    listener.start()
    total = line = 0
    while piece := os.read(server.stdout.fileno(), 65536):
        total += len(piece)
        line = len(piece) - piece.rfind(b"\n") - 1 if b"\n" in piece else line + len(piece)
        if total > most or line > longest:
            _end(server)
            print(f"wrote more than {longest if line > longest else most:,} bytes", file=sys.stderr)
            return FLOODED
        try:
            _write_all(piece)
        except OSError:
            _end(server)
            return 0
    listener.join(1)
    sys.stderr.buffer.write(bytes(tail))
    return server.wait()


def _write_all(piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view) :]


def _end(server: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(server.pid, signal.SIGKILL)
    except OSError:
        server.kill()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
