"""What an import leaves behind: repairs, tools that were not accepted, and the scenario around the accepted ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from pipelines.config import ImportedApi, ScenarioSpec, Strict
from pipelines.jsonio import dumps

MAX_TOOLS = 64
MAX_TEXT = 2_000
MAX_PARAMETERS = 100


class Repair(Strict):
    """One change made to one tool; `before` is what the file says."""

    file: str
    line: int
    tool: str
    position: str
    """JSON pointer within the list, e.g. `/0/function/parameters/properties/price/type`."""

    kind: str
    """type, required, object, parameters, items, enum, default, null, schema, name, description, key or duplicate."""

    what: str
    """The case within the kind: the type name, else a word."""

    before: JsonValue
    after: JsonValue
    why: str

    def __str__(self) -> str:
        """One line for people."""
        change = f"{dumps(self.before)[:80]} -> {dumps(self.after)[:80]}"
        return f"{self.file}, line {self.line}: {self.tool}: {self.position or '/'}: {self.kind}: {change}: {self.why}"


class Quarantined(Strict):
    """One tool that was not accepted: the first thing wrong with it, and all of them in `detail`."""

    file: str
    line: int
    tool: str
    position: str
    reason: str
    detail: str
    proposal: str | None
    """What to write instead; null when nothing comes close."""

    def __str__(self) -> str:
        """One line for people."""
        hint = f"; proposed: {self.proposal}" if self.proposal else ""
        return f"{self.file}, line {self.line}: {self.tool}: {self.position or '/'}: not accepted: {self.reason}: {self.detail}{hint}"


@dataclass(frozen=True)
class Note:
    """A change made while a tool was taken out of its format: kind, case, position, before, after, why."""

    kind: str
    what: str
    at: str
    before: Any
    after: Any
    why: str


@dataclass
class RawTool:
    """One tool as a format gives it, before it is repaired and checked."""

    at: str
    raw: Any
    line: int = 1
    notes: list[Note] = field(default_factory=list)
    faults: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    """(reason, position, detail, proposal)."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Fields of the imported API that the format knows beside name, description and parameters."""


@dataclass(frozen=True)
class Collection:
    """What a source holds, however many tools: accepted ones, both logs and the counts."""

    lists: list[list[ImportedApi]]
    """Accepted tools, list by list, each once per list."""
    repairs: list[Repair]
    quarantine: list[Quarantined]
    counts: dict[str, Any]
    """lists, tools, accepted, quarantined, distinct (structures as written), required_missing, repeating_lists,
    repairs by kind and case."""

    @property
    def apis(self) -> list[ImportedApi]:
        """All accepted tools."""
        return [api for apis in self.lists for api in apis]

    @property
    def log(self) -> list[str]:
        """Both logs as lines for people: repairs, then what was not accepted."""
        return [str(entry) for entry in (*self.repairs, *self.quarantine)]


@dataclass(frozen=True)
class ImportResult(Collection):
    """One scenario per platform around the accepted tools, and what was done to get there."""

    scenarios: list[ScenarioSpec]
    findings: list[str]
    """What a public validator has against the source as a whole."""

    @property
    def scenario(self) -> ScenarioSpec:
        """The first scenario; the only one unless the source holds more tools than a platform takes."""
        return self.scenarios[0]
