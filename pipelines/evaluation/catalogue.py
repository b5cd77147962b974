"""What the APIs of a run say of their arguments, and what solvers call its platforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.jsonio import read_lines
from pipelines.records import API, Scenario
from pipelines.world import leaves


class Catalogue:
    """Platform names and argument schemas by id; empty when the run folder is not there."""

    def __init__(self, names: dict[str, str] | None = None, apis: dict[tuple[str, str], dict[str, Any]] | None = None) -> None:
        self._names = names or {}
        self._apis = apis or {}
        self._arguments: dict[tuple[str, str], tuple[dict[str, dict[str, Any]], frozenset[str]]] = {}

    @classmethod
    def beside(cls, data: Path) -> Catalogue:
        """The catalogue of the run that a split file lies in, if it does."""
        root = run_of(data)
        if root is None:
            return cls()
        scenarios = list(read_lines(root / "01_scenarios.jsonl", Scenario))
        names = {platform.id: platform.name for scenario in scenarios for platform in scenario.platforms}
        apis = {(api.platform, api.name): dict(api.parameters) for api in read_lines(root / "02_apis.jsonl", API)}
        return cls(names, apis)

    def platform_name(self, platform: str) -> str:
        """What solvers call it; the last part of the id when nobody knows."""
        return self._names.get(platform) or platform.rpartition("/")[2]

    def arguments(self, platform: str, api: str) -> tuple[dict[str, dict[str, Any]], frozenset[str]]:
        """Dotted path -> schema of every argument, and the required ones."""
        key = platform, api
        if key not in self._arguments:
            found = leaves(self._apis.get(key) or {})
            self._arguments[key] = {leaf.path: leaf.schema for leaf in found}, frozenset(leaf.path for leaf in found if leaf.required)
        return self._arguments[key]


def run_of(data: Path) -> Path | None:
    """The run folder that a split file belongs to: `RUN/splits/<split>.jsonl`."""
    root = data.resolve().parent.parent
    return root if (root / "config.json").is_file() and (root / "02_apis.jsonl").is_file() else None
