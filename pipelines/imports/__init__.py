"""Real tools in: lists of OpenAI tools, OpenAPI documents, MCP servers and BFCL docs become scenarios with a real platform.

What can be repaired without guessing is repaired and logged; the rest is quarantined with a reason. The
input is data: it is parsed, bounded and copied, never run and never changed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from pipelines.config import MAX_FILE_BYTES, ImportedApi, ImportedPlatform, ScenarioSpec, clean_name, identifier
from pipelines.errors import ConfigError
from pipelines.imports.naming import doing, subject
from pipelines.imports.openai import WRITE, read_lists
from pipelines.imports.records import MAX_TOOLS, Collection, ImportResult, Quarantined, RawTool, Repair
from pipelines.imports.tool import TYPES, Tool
from pipelines.jsonio import canonical, write_lines, write_text

__all__ = ["Collection", "ImportResult", "Quarantined", "Repair", "collect_tools", "import_tools", "write_scenario", "write_scenarios"]

Format = Literal["openai", "openapi", "mcp", "bfcl"]
FATAL = {
    "too_many_parameters", "too_large", "too_deep", "reference_refused", "reference_missing", "reference_unreadable", "reference_circular",
}  # fmt: skip
"""Reasons that say the source itself is unfit: without `partial` they stop the whole import."""


def import_tools(
    source: Path | str,
    line: int | None = None,
    name: str | None = None,
    form: Format = "openai",
    partial: bool = False,
    allow_remote: bool = False,
    allow: Sequence[str] = (),
    server: str | None = None,
    timeout: float = 30.0,
) -> ImportResult:
    """The tools of a source as the platforms of new scenarios.

    Args:
        source: A file; for MCP a command, a URL or a client's configuration file; for OpenAPI with `allow_remote` a URL.
        line: Of a file of lists: this one only, counted from 1.
        name: Name of the scenario; left out: derived from the source.
        form: Format of the source.
        partial: Keep the good part of a source that is unfit in parts.
        allow_remote: Fetch OpenAPI documents by http.
        allow: MCP: commands that may be started, hosts that may be called.
        server: MCP: which server of a configuration file.
        timeout: MCP: seconds for everything together.

    Raises:
        ConfigError: when the source, the line or the name cannot be used, or no tool is accepted.
    """
    title = text = ""
    findings: list[str] = []
    if form == "openapi":
        from pipelines.imports.openapi import read_openapi

        title, text, raws, findings = read_openapi(str(source), allow_remote)
        found = collect([raws], Path(str(source)).name, apart=True)
    elif form == "mcp":
        from pipelines.imports.mcp import read_mcp

        title, text, raws, findings = read_mcp(str(source), allow, server, timeout, partial)
        found = collect([raws], title)
    elif form == "bfcl":
        from pipelines.imports.bfcl import BFCL_TYPES, read_bfcl

        found = collect(read_bfcl(Path(source), line, findings if partial else None), Path(source).name, BFCL_TYPES)
    else:
        found = collect_tools(Path(source), line, findings if partial else None)
    where = str(source)[:200] if line is None else f"{source}, line {line}"
    unfit = [q for q in found.quarantine if q.reason in FATAL]
    if unfit and not partial:
        more = f" (and {len(unfit) - 1} more)" if len(unfit) > 1 else ""
        first = f"{unfit[0].tool} at {unfit[0].position or '/'}: {unfit[0].detail[:300]}"
        raise ConfigError(f"{where}: {first}{more}; correct it, or keep the rest with --partial")
    if not found.apis:
        reasons = "; ".join(f"{q.tool}: {q.detail}" for q in found.quarantine[:3])
        raise ConfigError(f"{where}: none of {found.counts['tools']} tools can be used ({reasons[:600]}); correct them, or {WRITE}")
    stem = title or Path(str(source)).stem
    try:
        chosen = clean_name(name) if name is not None else identifier(stem) + (f"_{line}" if line is not None else "")
    except ValueError as error:
        raise ConfigError(f"--name: {error}") from None
    scenarios = [
        _scenario(f"{chosen}{suffix}", f"{brand}{word}" if brand else "", text, apis)
        for (suffix, word, apis), brand in ((part, _brand(title)) for part in _platforms(found, form))
    ]
    counts = {**found.counts, "scenarios": len(scenarios)}
    return ImportResult(found.lists, found.repairs, found.quarantine, counts, _apart(scenarios), findings)


def _platforms(found: Collection, form: Format) -> list[tuple[str, str, list[ImportedApi]]]:
    """(suffix of the scenario's name, suffix of the brand, tools) of each platform; a platform takes at most 64 tools."""
    together = _distinct(found.apis)
    if len(together) <= MAX_TOOLS:
        return [("", "", together)]
    if form == "openai" and max(map(len, found.lists)) > 1 and len(found.lists) > 1:
        return [(f"_{number}", "", apis) for number, apis in enumerate(found.lists, start=1) if apis]
    groups: dict[str, list[ImportedApi]] = {}
    for api in together:
        groups.setdefault(api.group, []).append(api)
    parts: list[tuple[str, list[ImportedApi]]] = []
    for group, apis in groups.items():
        for piece in _evenly(apis):
            if parts and len(parts[-1][1]) + len(piece) <= MAX_TOOLS and len(piece) < 8:
                parts[-1][1].extend(piece)
            else:
                parts.append((group, piece))
    return [(f"_{i}", f" {group or 'Part'} {i}"[:40], apis) for i, (group, apis) in enumerate(parts, start=1)]


def _evenly(apis: Sequence[ImportedApi]) -> list[list[ImportedApi]]:
    """As few pieces of at most 64 as there can be, of nearly the same size."""
    count = -(-len(apis) // MAX_TOOLS)
    bounds = [len(apis) * i // count for i in range(count + 1)]
    return [list(apis[low:high]) for low, high in itertools.pairwise(bounds)]


def _distinct(apis: Sequence[ImportedApi]) -> list[ImportedApi]:
    """Tools of several lists as one: the same structure once, every name once."""
    kept: dict[str, ImportedApi] = {}
    taken: set[str] = set()
    for api in apis:
        key = canonical(api.model_dump())
        if key in kept:
            continue
        name, count = api.name, 1
        while identifier(name) in taken:
            count += 1
            name = f"{api.name[:50]}_{count}"
        taken.add(identifier(name))
        kept[key] = api if name == api.name else api.model_copy(update={"name": name})
    return list(kept.values())


def _brand(title: str) -> str:
    """A title as a platform's name: no path, no control characters."""
    plain = "".join(c for c in title if c.isprintable())
    return re.sub(r"\s+", " ", re.sub(r"[/\\]|\.\.", " ", plain)).strip()[:40]


def _scenario(name: str, brand: str, text: str, apis: list[ImportedApi]) -> ScenarioSpec:
    brand = brand or f"{subject(apis)} Hub"
    clauses = doing(apis)
    about = text.strip() or f"{brand} offers {len(apis)} tools: {clauses}."
    return ScenarioSpec(
        name=name[:80],
        description=f"What people do with the tools of {brand}: {clauses}."[:2_000],
        platform=ImportedPlatform(name=brand, description=about[:2_000], apis=apis),
    )


def _apart(scenarios: list[ScenarioSpec]) -> list[ScenarioSpec]:
    """Brands are unique, so that the scenarios can stand in one run."""
    seen: Counter[str] = Counter()
    found = []
    for spec in scenarios:
        assert spec.platform is not None
        seen[spec.platform.name] += 1
        count = seen[spec.platform.name]
        brand = spec.platform.name if count == 1 else f"{spec.platform.name} {count}"
        found.append(spec if count == 1 else spec.model_copy(update={"platform": spec.platform.model_copy(update={"name": brand})}))
    return found


def collect_tools(source: Path, line: int | None = None, problems: list[str] | None = None) -> Collection:
    """Read, repair and sort out the OpenAI tools of a file or of one line; any number of them.

    Args:
        source: The file.
        line: Counted from 1; None: all.
        problems: Takes what is wrong with lines that cannot be read; None: the first one stops the import.

    Raises:
        ConfigError: naming file, line, what was found and what to write.
    """
    lists = [[RawTool(at, raw, number) for at, raw in tools] for number, tools in read_lists(source, line, problems)]
    found = collect(lists, source.name)
    if not found.counts["tools"]:
        raise ConfigError(f"{source}: holds no tools, only empty lists; {WRITE}")
    return found


def collect(lists: Sequence[Sequence[RawTool]], file: str, types: Mapping[str, str] = TYPES, apart: bool = False) -> Collection:
    """Repair and sort out raw tools, list by list; a list keeps each structure once.

    Args:
        lists: Raw tools.
        file: Name for the logs.
        types: Type names that are understood.
        apart: Two tools are two even when they look the same, as operations of one document are.
    """
    accepted: list[list[ImportedApi]] = []
    repairs: list[Repair] = []
    quarantine: list[Quarantined] = []
    written: list[str] = []
    good = missing = repeating = 0
    for raws in lists:
        kept: dict[str, ImportedApi] = {}
        taken: set[str] = set()
        repeats = False
        for given in raws:
            raw = given.raw
            tool = Tool.of(file, given, types)
            written.append(canonical(raw.get("function", raw) if isinstance(raw, dict) else raw))
            api = tool.read(raw)
            missing += sum(fault[0] == "required_missing" for fault in tool.faults)
            if api is None:
                quarantine.append(tool.quarantined())
            else:
                good += 1
                api = api.model_copy(update=given.extra)
                if (key := canonical([api.model_dump(), given.at if apart else ""])) in kept:
                    repeats = True
                    tool.log("duplicate", "tool", given.at, api.name, None, "the list has the same tool already; it is kept once")
                else:
                    kept[key] = tool.renamed(api, taken)
            repairs += tool.repairs
        accepted.append(list(kept.values()))
        repeating += repeats
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, what), count in sorted(Counter((r.kind, r.what) for r in repairs).items()):
        by_kind.setdefault(kind, {})[what] = count
    counts: dict[str, Any] = {"lists": len(lists), "tools": len(written), "accepted": good, "quarantined": len(quarantine)}
    counts |= {"distinct": len(set(written)), "required_missing": missing, "repeating_lists": repeating, "repairs": by_kind}
    return Collection(accepted, repairs, quarantine, counts)


def write_scenarios(result: ImportResult, out: Path) -> list[Path]:
    """Write every scenario: one as `out` or into the folder `out`, several into the folder `out`; the log beside them.

    Raises:
        ConfigError: when `out` is a .yaml file but there are several scenarios, or one is too large to be read back.
        Unavailable: when the folder cannot be written.
    """
    if len(result.scenarios) == 1:
        return [write_scenario(result, out)]
    if out.suffix in (".yaml", ".yml"):
        count = f"{len(result.scenarios)} scenarios of at most {MAX_TOOLS} tools"
        raise ConfigError(f"{out}: the source makes {count}; write a folder with --out")
    texts = {out / f"{spec.id}.yaml": _yaml(spec, out / f"{spec.id}.yaml") for spec in result.scenarios}
    _write_log(result, out / f"{out.name}.import.jsonl")
    for path, text in texts.items():
        write_text(path, [text])
    return list(texts)


def write_scenario(result: ImportResult, out: Path) -> Path:
    """Write the scenario, and beside it `<name>.import.jsonl` with the repairs and the quarantine.

    Args:
        result: From `import_tools`.
        out: A `.yaml` file, else the folder that gets `<scenario id>.yaml`.

    Raises:
        ConfigError: when `out` is no .yaml file or folder, or the scenario would be too large to be read back.
        Unavailable: when the folder cannot be written.
    """
    if out.suffix and out.suffix not in (".yaml", ".yml") and not out.is_dir():
        raise ConfigError(f"{out}: a scenario is a .yaml file; write a name such as {result.scenario.id}.yaml, or a folder")
    path = out if out.suffix in (".yaml", ".yml") else out / f"{result.scenario.id}.yaml"
    text = _yaml(result.scenario, path)
    _write_log(result, path.with_suffix(".import.jsonl"))
    write_text(path, [text])
    return path


def _yaml(spec: ScenarioSpec, path: Path) -> str:
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    data = spec.model_dump(mode="json", include={"name", "description", "platform"}, exclude_defaults=True)
    text: str = yaml.dump(data, Dumper=_plain_dumper(dumper), allow_unicode=True, sort_keys=False, width=120)
    if len(text.encode()) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: the scenario would have over {MAX_FILE_BYTES:,} bytes; import fewer tools with --line N")
    return text


def _plain_dumper(base: Any) -> Any:
    """Aliases are not read back, so none are written: what two parameters share is written twice."""
    return type("PlainDumper", (base,), {"ignore_aliases": lambda self, data: True})


def _write_log(result: ImportResult, path: Path) -> None:
    rows: list[dict[str, Any]] = [{"log": "repair", **r.model_dump()} for r in result.repairs]
    rows += [{"log": "quarantine", **q.model_dump()} for q in result.quarantine]
    rows += [{"log": "finding", "detail": finding} for finding in result.findings]
    write_lines(path, rows)
