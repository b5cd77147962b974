"""Stage tables beside those of the run before, and what is new in the records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.jsonio import digest, raw_lines
from pipelines.run import STAGES, Run

FOLDER = "run folder"
"""The row that lets the next run find this one's files."""
MAX_COMPARED = 50_000
"""Records up to which two files are compared one by one."""
SHOWN = 12


@dataclass(frozen=True)
class Before:
    """The table of the same stage in the run that was published last."""

    rows: list[dict[str, Any]]

    @property
    def folder(self) -> Path | None:
        """Where that run's files were; they may be gone."""
        for row in self.rows:
            if row.get("what") == FOLDER:
                return Path(str(row.get("count")))
        return None


def compare(rows: list[dict[str, Any]], before: Before | None) -> list[dict[str, Any]]:
    """The rows with the figures of the run before and the difference; rows that only it had come last."""
    old = {row.get("what"): row.get("count") for row in before.rows} if before is not None else {}
    compared = []
    for row in rows:
        was = old.pop(row["what"], "")
        compared.append({**row, "previous": was, "change": _change(was, row["count"])})
    for what, was in old.items():
        if isinstance(was, int):
            compared.append({"what": what, "count": 0, "share": "", "previous": was, "change": _change(was, 0)})
    return compared


def _change(was: Any, now: Any) -> str:
    if isinstance(was, int) and isinstance(now, int) and was != now:
        return f"{now - was:+,}"
    return ""


def news(run: Run, name: str, before: Before | None) -> str:
    """Which records are new, changed or gone against the run before, by id."""
    if name not in STAGES:
        return ""
    head = "### Against the run before"
    if before is None:
        return f"{head}\n\nThis is the first run on this server."
    folder = before.folder
    if folder is None or not (folder / f"{name}.jsonl").is_file():
        return f"{head}\n\nIts files are gone: `{folder}`."
    here, there = _digests(run.file(name)), _digests(folder / f"{name}.jsonl")
    if here is None or there is None:
        return f"{head}\n\nMore than {MAX_COMPARED:,} records; compare the counts in the table."
    fresh = [one for one in here if one not in there]
    gone = [one for one in there if one not in here]
    changed = [one for one in here if one in there and here[one] != there[one]]
    same = len(here) - len(fresh) - len(changed)
    lines = [
        head,
        "",
        f"Run folder then: `{folder}`",
        "",
        f"| same | changed | new | gone |\n|---|---|---|---|\n| {same:,} | {len(changed):,} | {len(fresh):,} | {len(gone):,} |",
    ]
    for word, ids in (("New", fresh), ("Changed", changed), ("Gone", gone)):
        if ids:
            shown = ", ".join(f"`{one}`" for one in ids[:SHOWN])
            lines += ["", f"{word}: {shown}{f' and {len(ids) - SHOWN:,} more' if len(ids) > SHOWN else ''}"]
    return "\n".join(lines)


def _digests(path: Path) -> dict[str, str] | None:
    import json

    found: dict[str, str] = {}
    for _, line in raw_lines(path):
        if len(found) >= MAX_COMPARED:
            return None
        record = json.loads(line)
        found[str(record.get("id", digest(line)))] = digest(line)
    return found
