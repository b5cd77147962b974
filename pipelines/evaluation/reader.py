"""Files in: data of either layout, predictions joined by id or by order. Nothing is lost on the way without being counted."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from pipelines.errors import ConfigError

FOLDERS = ("test_trained_user", "test_untrained_user", "test_trained_users", "test_untrained_users")
MAX_RECORD = 64 * 1024 * 1024
"""Characters of one record."""
MAX_LINE = 64 * 1024 * 1024
_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*"([^"\\]*)"')
_PIECE = 4 * 1024 * 1024


@dataclass(frozen=True)
class Part:
    """One data file."""

    name: str
    """Folder or split name, for results."""
    path: Path
    array: bool
    """A JSON array; else one record a line."""


def find_parts(data: Path) -> list[Part]:
    """The data files behind a path: a file, a folder of the published layout, a run or its `splits/`.

    Raises:
        ConfigError: when nothing to score is there.
    """
    if not data.exists():
        raise ConfigError(f"{data}: is not there; write a split file, a data.json, or a folder that holds them")
    if data.is_file():
        return [_part(data.parent.name if data.name == "data.json" else data.stem, data)]
    found = [_part(name, data / name / "data.json") for name in FOLDERS if (data / name / "data.json").is_file()]
    if not found:
        folder = data / "splits" if (data / "splits").is_dir() else data
        found = [_part(path.stem, path) for path in sorted(folder.glob("test_*.jsonl"))]
    if not found:
        raise ConfigError(f"{data}: holds no test_*_user/data.json and no splits/test_*.jsonl; write the data file itself")
    return found


def _part(name: str, path: Path) -> Part:
    try:
        with path.open("rb") as file:
            head = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror}") from None
    if not head:
        raise ConfigError(f"{path}: is empty; write a file with records")
    return Part(name, path, head[:1] == b"[")


def records(part: Part) -> Iterator[bytes]:
    """The records of a data file, one by one, undecoded; a large array is never held whole.

    Raises:
        ConfigError: naming the place of what is no JSON.
    """
    if not part.array:
        with part.path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield line
        return
    decoder = json.JSONDecoder()
    with part.path.open(encoding="utf-8-sig", errors="strict") as text:
        buffer, at, count, ended = "", 0, 0, False

        def more() -> bool:
            nonlocal buffer, at, ended
            try:
                piece = text.read(_PIECE)
            except UnicodeDecodeError as error:
                raise ConfigError(f"{part.path}: is not UTF-8 after record {count}: {error.reason}") from None
            ended = not piece
            buffer, at = buffer[at:] + piece, 0
            return bool(piece)

        def skip(marks: str) -> str:
            nonlocal at
            while True:
                while at < len(buffer) and buffer[at] in marks:
                    at += 1
                if at < len(buffer) or not more():
                    return buffer[at] if at < len(buffer) else ""

        skip(" \t\r\n")
        at += 1  # the opening bracket, which `_part` saw
        while True:
            mark = skip(" \t\r\n,")
            if mark == "]":
                at += 1
                if skip(" \t\r\n"):
                    raise ConfigError(f"{part.path}: text after the array; write one JSON array")
                return
            while True:
                try:
                    _, end = decoder.raw_decode(buffer, at)
                    if end == len(buffer) and not ended and more():
                        continue
                    break
                except (ValueError, RecursionError) as error:
                    if len(buffer) - at < MAX_RECORD and more():
                        continue
                    raise ConfigError(f"{part.path}: record {count} is no JSON: {error}"[:300]) from None
            yield buffer[at:end].encode("utf-8", "surrogatepass")
            at, count = end, count + 1


@dataclass
class Joined:
    """How predictions met the samples; every count that is not 0 is shown with the scores."""

    by: str = ""
    """`id` or `order`."""
    samples: int = 0
    predictions: int = 0
    missing: int = 0
    extra: int = 0
    """By order: lines after the last sample; they are not scored."""
    unknown_ids: int = 0
    duplicates: int = 0
    """Ids predicted more than once; the sample fails unless all its predictions are the same."""
    blank: int = 0
    broken: int = 0
    repeats: int = 1
    notes: list[str] = field(default_factory=list)


class Predictions:
    """One file of predictions. Lines stay in the file; only places are kept.

    Args:
        path: One JSON object a line, with `predict`, and `id` where the writer knew it.
        ids: The ids of all samples, in order.
    """

    def __init__(self, path: Path, ids: list[str]) -> None:
        self.path = path
        self.joined = Joined(samples=len(ids))
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise ConfigError(f"{path}: cannot read: {error.strerror}; write a file with one prediction a line") from None
        self._ids = ids
        self._at: array[int] = array("q")
        """By order, or while ids come in the order of the samples: where each line begins."""
        self._places: dict[tuple[str, int], int] | None = None
        """By id, once they do not."""
        self._clash: set[tuple[str, int]] = set()
        self._position = 0
        self._scan()

    def _scan(self) -> None:
        by_id = self._first_has_id()
        self.joined.by = "id" if by_id else "order"
        offset = 0
        for line in self._file:
            here, offset = offset, offset + len(line)
            blank = not line.strip()
            self.joined.blank += blank
            self.joined.predictions += not blank
            if not by_id:
                self._at.append(here)
            elif not blank:
                key = self._key(line)
                if key is None:
                    self.joined.broken += 1
                else:
                    self._place(key, here)
        self._position = -1
        self._resolve_clashes()
        total = len(self._ids)
        if not by_id:
            while self._at and not self._line(self._at[-1]).strip():
                self._at.pop()
            self.joined.missing = max(0, total - len(self._at))
            self.joined.extra = max(0, len(self._at) - total)
            return
        found = len(self._places) if self._places is not None else len(self._at)
        if not found:
            raise ConfigError(f"{self.path}: none of its ids is in the data; score the split that it was made for")
        self.joined.repeats = 1 + max((repeat for _, repeat in self._places or ()), default=0)
        self.joined.missing = total * self.joined.repeats - found

    def _place(self, key: tuple[str, int], here: int) -> None:
        if self._places is None:
            place = len(self._at)
            if place < len(self._ids) and key == (self._ids[place], 0):
                self._at.append(here)
                return
            self._places = {(sample, 0): at for sample, at in zip(self._ids, self._at, strict=False)}
            self._known = set(self._ids)
            self._again: list[tuple[tuple[str, int], int]] = []
        if key[0] not in self._known:
            self.joined.unknown_ids += 1
        elif key in self._places:
            self.joined.duplicates += 1
            self._again.append((key, here))
        else:
            self._places[key] = here

    def _resolve_clashes(self) -> None:
        """Several predictions of one sample are one when they are the same, byte for byte."""
        if self._places is not None:
            for key, here in self._again:
                if self._line(here).strip() != self._line(self._places[key]).strip():
                    self._clash.add(key)

    def _first_has_id(self) -> bool:
        has_id = False
        for line in self._file:
            if line.strip():
                value = load_line(line)
                if isinstance(value, dict):
                    has_id = "id" in value
                    break
        self._file.seek(0)
        self._position = -1
        return has_id

    def _key(self, line: bytes) -> tuple[str, int] | None:
        found = _ID.match(line)
        if found and b'"repeat"' not in line and line.rstrip()[-1:] == b"}":
            return found[1].decode("utf-8", "replace"), 0
        value = load_line(line)
        if not isinstance(value, dict) or not isinstance(value.get("id"), (str, int)):
            return None
        repeat = value.get("repeat", 0)
        return (str(value["id"]), repeat) if isinstance(repeat, int) and 0 <= repeat < 1000 else None

    def _line(self, offset: int) -> bytes:
        if self._position != offset:
            self._file.seek(offset)
        line = self._file.readline()
        self._position = offset + len(line)
        return line

    def in_order(self, repeat: int = 0) -> Iterator[bytes | str | None]:
        """For every sample its line, `duplicate` when it has several that differ, or None."""
        self._position = -1
        for place, sample in enumerate(self._ids):
            if self._places is None:
                yield self._line(self._at[place]) if place < len(self._at) else None
            else:
                offset = self._places.get((sample, repeat))
                yield "duplicate" if (sample, repeat) in self._clash else None if offset is None else self._line(offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_DIGITS = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_LONG = b"0" * 19
"""Whole numbers from here on lose digits in the fast parser."""


def load_line(line: bytes | str) -> Any:
    """JSON of a line, or None when it is none. The fast parser does all but what only the other one takes."""
    if isinstance(line, bytes) and _LONG not in line.translate(_DIGITS):
        with suppress(ValueError):
            return orjson.loads(line)
    try:
        return json.loads(line) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None


def record_id(raw: bytes, part: Part, place: int) -> str:
    """The id of a record without reading all of it where possible; by place where it has none."""
    found = _ID.match(raw)
    if found:
        return found[1].decode("utf-8", "replace")
    value = load_line(raw)
    known = value.get("id") if isinstance(value, dict) else None
    return str(known) if known else f"{part.name}.{place:06d}"
