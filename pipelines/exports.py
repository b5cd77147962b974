"""Datasets in the formats that others read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.jsonio import dumps, read_lines, write_text
from pipelines.loop import Population
from pipelines.records import API, FeatureNode, History, Profile, ProfileAccess, Sample, Scenario
from pipelines.run import Run
from pipelines.tool_exports import TOOL_FORMATS, export_tools
from pipelines.views import SolverView, platform_view, shown_view, solver_view

FORMATS = ("ptbench", *TOOL_FORMATS)


def export(run: Run, form: str) -> list[Path]:
    """Write `exports/<format>/`, one file per split, or per platform for the formats of tools; returns the files.

    Raises:
        ConfigError: for an unknown format, or a run without splits.
    """
    if form not in FORMATS:
        raise ConfigError(f"--format {form!r}: write one of {', '.join(FORMATS)}")
    if form in TOOL_FORMATS:
        return export_tools(run, form)
    splits = sorted((run.root / "splits").glob("*.jsonl"))
    if not splits:
        raise ConfigError(f"{run.root}: has no splits yet; finish it with `ptool run`")
    people = _population(run)
    written = []
    for split in splits:
        target = run.root / "exports" / form / split.stem / "data.json"
        write_text(
            target, _array(ptbench(sample, people, run.config.profile_access) for sample in read_lines(split, Sample) if sample.calls)
        )
        written.append(target)
    return written


def _population(run: Run) -> Population:
    def read(name: str, kind: Any) -> list[Any]:
        return list(read_lines(run.file(name), kind))

    return Population.of(
        read("01_scenarios", Scenario), read("02_apis", API), read("03_features", FeatureNode),
        read("04_profiles", Profile), read("05_histories", History),
    )  # fmt: skip


def _array(records: Iterator[dict[str, Any]]) -> Iterator[str]:
    """A JSON array, one record a line, without holding it in memory."""
    yield "[\n"
    first = True
    for record in records:
        yield dumps(record) if first else ",\n" + dumps(record)
        first = False
    yield "\n]\n"


def ptbench(sample: Sample, people: Population, access: ProfileAccess = "structured") -> dict[str, Any]:
    """The seven-key record of the published benchmark.

    The answer is `[platform, [{api: {parameter: [accepted values]}}]]`. Nested objects are one parameter,
    since that format knows top-level names only; its value lists then hold whole objects.
    """
    world = people.world
    scenario = world.scenario[sample.scenario]
    view: SolverView = solver_view(people.profiles[sample.user], people.histories[sample.user, sample.scenario], scenario.platforms)
    query_params: list[str] = []
    profile_params: list[str] = []
    calls = []
    for call, accepted in zip(sample.calls, sample.accepted, strict=True):
        arguments: dict[str, list[Any]] = {}
        for name, value in call.arguments.items():
            whole = isinstance(value, dict) and name not in accepted
            arguments[name] = [value] if whole else list(accepted[name])
        calls.append({call.api: arguments})
        for path, source in call.sources.items():
            names = query_params if source.kind == "query" else profile_params if source.kind == "profile" else None
            name = path.partition(".")[0]
            if names is not None and name not in names:
                names.append(name)
    platforms = [platform_view(p, world.apis_of[p.id], levels=False) for p in scenario.platforms]
    return {
        "user_profile": _profile(view, access),
        "platforms": [{key: value for key, value in p.items() if key != "apis"} for p in platforms],
        "tools": {p["name"]: p["apis"] for p in platforms},
        "query": sample.query,
        "answer": [world.platform[sample.platform].name if sample.platform else "", calls],
        "query_params": query_params,
        "profile_params": [name for name in profile_params if name not in query_params],
    }


def _profile(view: SolverView, access: ProfileAccess) -> dict[str, Any]:
    """The user in the run's `profile_access`: facts only when structured, one text instead of lines for a raw log."""
    if access == "raw_log":
        return {"basic_features": {}, "user_history": [shown_view(view, access)]}
    return {
        "basic_features": view.basic_features if access == "structured" else {},
        "user_history": [_line(event) for event in view.history],
    }


def _line(event: Any) -> str:
    stars = f" ({event.rating} of 5 stars)" if event.rating is not None else ""
    arguments = json.dumps(event.arguments, ensure_ascii=False)
    return f"{event.time[:16].replace('T', ' ')} on {event.platform}: {event.summary}{stars} [{event.api} {arguments}]"
