"""JSON in and out: real characters, one record a line, atomic files, errors that name file and line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.errors import ConfigError, Unavailable

Model = TypeVar("Model", bound=BaseModel)


def dumps(value: Any) -> str:
    """Compact JSON with real characters; a model is dumped by its field order."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON with sorted keys, for digests and comparisons."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def pretty(value: Any) -> str:
    """Indented JSON for people."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)


def digest(text: str | bytes) -> str:
    """First 16 hex digits of SHA-256."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write a whole file or nothing: temporary file, fsync, rename.

    Raises:
        Unavailable: when the folder is read-only, full or gone.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise Unavailable(f"{path}: cannot write: {error.strerror}; free or choose another folder with --out") from None
    except BaseException:  # whoever makes the pieces failed
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """One JSON record a line, atomically."""
    write_text(path, (dumps(record) + "\n" for record in records))


def read_lines(path: Path, model: type[Model]) -> Iterator[Model]:
    """The records of a file, one by one.

    Raises:
        ConfigError: naming file and line of what cannot be read.
    """
    for number, line in raw_lines(path):
        try:
            yield model.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"{path}, line {number}: not a {model.__name__}: {where + ': ' if where else ''}{first['msg']}; "
                "restore the file, or delete it to have its stage made again from the ledger"
            ) from None


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line number (from 1) and bytes of every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror}") from None


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths back to nested arguments."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, last = path.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested
