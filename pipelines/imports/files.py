"""Bytes and text of imported files, bounded."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import ConfigError

MAX_BYTES = 64_000_000


def read_bytes(path: Path, wanted: str) -> bytes:
    """A whole file.

    Args:
        path: The file.
        wanted: What to write instead, for the error.

    Raises:
        ConfigError: when it is not there, cannot be read or is too large.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"{str(path)[:200]!r}: no file there; write the path of {wanted}")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{str(path)[:200]!r}: cannot read: {reason}; write the path of a file that can be read") from None
    return bounded(content, str(path))


def bounded(content: bytes, where: str) -> bytes:
    """The same, unless it is too large."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{where}: larger than {MAX_BYTES:,} bytes; split the file")
    return content


def decoded(content: bytes, where: str) -> str:
    """The text, which must be UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{where}, line {line}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
