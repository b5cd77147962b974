"""Function docs as the Berkeley function-calling leaderboard writes them: Python type names, dotted names, one case a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.imports.openai import read_lists
from pipelines.imports.records import RawTool
from pipelines.imports.tool import TYPES

BFCL_TYPES = {**TYPES, "tuple": "array", "any": ""}
"""`tuple` is a list of fixed length, `any` no constraint; the format has both and says so."""


def read_bfcl(source: Path, line: int | None, problems: list[str] | None = None) -> list[list[RawTool]]:
    """The functions of a file: a doc a line, or cases with their docs under `function`.

    Raises:
        ConfigError: as for lists of OpenAI tools.
    """
    found: list[RawTool] = []
    for number, tools in read_lists(source, line, problems):
        for at, raw in tools:
            functions = raw.get("function") if isinstance(raw, dict) else None
            if isinstance(functions, list):
                found += [RawTool(f"{at}/function/{i}", one, number) for i, one in enumerate(functions)]
            else:
                found.append(RawTool(at, _flat(raw), number))
    if not found:
        raise ConfigError(f"{source}: holds no function docs; write one a line: {{'name': ..., 'description': ..., 'parameters': ...}}")
    return [found]


def _flat(raw: Any) -> Any:
    return raw["function"] if isinstance(raw, dict) and isinstance(raw.get("function"), dict) else raw
