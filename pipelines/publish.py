"""Write `schemas/`: the JSON Schema of every published record and of every reply a model must give."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from pipelines import records
from pipelines.config import ROOT, RunConfig
from pipelines.jsonio import pretty, write_text
from pipelines.records import Record
from pipelines.replies import REPLIES


def schemas() -> dict[str, str]:
    """Path below `schemas/` -> text."""
    kinds = [kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, Record) and kind is not Record]
    found: dict[str, type[BaseModel]] = {f"records/{kind.__name__}.json": kind for kind in kinds}
    found |= {f"replies/{name}.json": reply for name, reply in REPLIES.items()}
    found["config.json"] = RunConfig
    return {path: pretty(kind.model_json_schema()) + "\n" for path, kind in found.items()}


def main(folder: Path = ROOT / "schemas") -> None:
    """Write every schema; a file that no model stands behind any more is removed."""
    wanted = schemas()
    for name, text in wanted.items():
        write_text(folder / name, [text])
    for path in folder.rglob("*.json"):
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()


if __name__ == "__main__":
    main()
