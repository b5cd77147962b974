"""Lists of OpenAI function tools: a list a line, a tool a line, or one JSON document."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.imports.files import decoded, read_bytes
from pipelines.jsonio import dumps

MAX_DEPTH = 64
WRAPPERS = ("tools", "functions")
WRITE = 'write one list of tools a line, e.g. [{"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}]'


def read_lists(source: Path, line: int | None, problems: list[str] | None = None) -> list[tuple[int, list[tuple[str, Any]]]]:
    """(line, [(JSON pointer, tool)]) of every list: a list a line, a tool a line, or one JSON document.

    Args:
        source: The file.
        line: Counted from 1; None: all.
        problems: Takes what is wrong with lines that cannot be read, which are then left out.
    """
    text = _read(source)
    total = text.count("\n") + (not text.endswith("\n"))
    if line is not None and not 1 <= line <= total:
        raise ConfigError(f"{source}: --line is {line}, the file has {total} lines; write a number from 1 to {total}")
    rows = [(number, row) for number, row in enumerate(text.split("\n"), start=1) if row.strip()]
    if len(rows) > 1 and (_opens(text) or not any(_opens(row) for _, row in rows)):
        if line is not None and _opens(text):
            raise ConfigError(f"{source}: is one JSON document, not a list a line; leave --line {line} out")
        rows = [(rows[0][0], text)] if line is None else rows
    if line is not None:
        rows = [(number, row) for number, row in rows if number == line]
        if not rows:
            raise ConfigError(f"{source}, line {line}: is blank; choose a line that holds a list of tools")
    lists = []
    for number, row in rows:
        try:
            lists.append((number, _tools_in(_parse(source, number, row), f"{source}, line {number}")))
        except ConfigError as error:
            if problems is None:
                raise
            problems.append(str(error))
    return lists


def _read(source: Path) -> str:
    text = decoded(read_bytes(source, "a JSON or JSONL file of tools"), str(source))
    if not text.strip():
        raise ConfigError(f"{source}: is empty; {WRITE}")
    if text.lstrip().startswith("<"):
        line = len(text) - len(text.lstrip())
        start = text.lstrip()[:30].split("\n")[0]
        raise ConfigError(f"{source}, line {text.count(chr(10), 0, line) + 1}: starts with {start!r}, a web page; save the raw JSON file")
    return text


def _opens(text: str) -> bool:
    """Whether a text is one JSON list or object; too deep a one counts, so that its depth is what gets reported."""
    try:
        return isinstance(json.loads(text), list | dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _parse(source: Path, number: int, text: str) -> Any:
    """JSON within the bounds: no NaN, no key twice, whole characters, depth at most 64."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if twice:
            raise ConfigError(f"{source}, line {number}: an object has the key {twice[0][:80]!r} twice; keep one")
        return dict(pairs)

    def refuse(word: str) -> Any:
        raise ConfigError(f"{source}, line {number}: {word} is no JSON number; write a number or leave the key out")

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        depth, level = 0, [value]
        while level:
            depth += 1
            level = [
                child for node in level if isinstance(node, list | dict) for child in (node.values() if isinstance(node, dict) else node)
            ]
        if depth > MAX_DEPTH:
            raise RecursionError
        dumps(value).encode()
    except json.JSONDecodeError as error:
        number = error.lineno if "\n" in text else number
        cut = "; is the text cut off?" if error.pos >= len(text.rstrip()) or "Unterminated" in error.msg else ""
        near = text[max(0, error.pos - 20) : error.pos + 20].strip()
        raise ConfigError(
            f"{source}, line {number}: not JSON: {error.msg.removesuffix(' at')} (column {error.colno}, near {near!r}){cut}; {WRITE}"
        ) from None
    except UnicodeEncodeError:
        raise ConfigError(f"{source}, line {number}: holds half a character (a lone \\ud800 to \\udfff); write whole characters") from None
    except RecursionError:
        raise ConfigError(f"{source}, line {number}: nested deeper than {MAX_DEPTH} levels; flatten it") from None
    except ValueError:
        raise ConfigError(f"{source}, line {number}: holds a number too large to be read; write a smaller one, or a string") from None
    return value


def _tools_in(value: Any, where: str) -> list[tuple[str, Any]]:
    """(JSON pointer, tool) of a list, a wrapped list or a single tool."""
    if isinstance(value, list):
        return [(f"/{index}", tool) for index, tool in enumerate(value)]
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: holds {dumps(value)[:60]}, which is no list of tools; {WRITE}")
    for key in value:
        if (key in WRAPPERS or key.endswith("_tools")) and isinstance(value[key], list):
            return [(f"/{key}/{index}", tool) for index, tool in enumerate(value[key])]
    if "function" in value or "name" in value:
        return [("", value)]
    raise ConfigError(f"{where}: holds an object with the keys {', '.join(value)[:100] or '(none)'}, which is no tool; {WRITE}")
