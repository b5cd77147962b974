"""`ptool import-tools` and `ptool add-scenario`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

FORMATS = ("openai", "openapi", "mcp", "bfcl")
SHOWN = 20
"""Log lines on the terminal; the file beside the scenario has all."""


def add_commands(commands: Any) -> None:
    """Add both to the command line."""
    extend = commands.add_parser("add-scenario", help="extend a finished run; untouched scenarios keep their bytes")
    extend.add_argument("folder", type=Path, metavar="RUN")
    extend.add_argument("scenario", metavar="FILE", help="scenario file, or the name of one that comes with ptool")
    extend.add_argument("--json", action="store_true", help="print one JSON object last")
    extend.set_defaults(run=_add_scenario)

    imports = commands.add_parser("import-tools", help="real APIs become a platform of a new scenario")
    imports.add_argument(
        "source", metavar="SRC", help="file of tools or OpenAPI; for mcp a command line, a URL or a JSON file with mcpServers"
    )
    imports.add_argument("--format", choices=FORMATS, default="openai")
    imports.add_argument("--line", type=int, help="of a file of lists: take this line only, counted from 1")
    imports.add_argument("--name", help="name of the scenario")
    imports.add_argument("--out", type=Path, metavar="PATH", help="scenario file, or folder; default here")
    imports.add_argument("--partial", action="store_true", help="keep the good part of a source that is unfit in parts")
    imports.add_argument("--allow-remote", action="store_true", help="openapi: fetch documents by http")
    imports.add_argument("--allow", action="append", default=[], metavar="NAME", help="mcp: a command or host that may be used; repeat")
    imports.add_argument("--server", help="mcp: which server of a JSON file")
    imports.add_argument("--timeout", type=float, default=30.0, metavar="S", help="mcp: seconds for everything together; default 30")
    imports.add_argument("--json", action="store_true", help="print the counts as one JSON object")
    imports.set_defaults(run=_import)


def _add_scenario(args: argparse.Namespace) -> int:
    import asyncio
    import time

    from pipelines import report
    from pipelines.config import read_scenario
    from pipelines.extend import add_scenario
    from pipelines.run import load_run

    started = time.monotonic()
    load_run(args.folder)
    spec = read_scenario(args.scenario)
    root = args.folder.absolute()
    asyncio.run(add_scenario(root, spec))
    run = load_run(root)
    with run.reading():
        seconds = time.monotonic() - started
        print(report.summary_text(run, seconds))
        if args.json:
            print(json.dumps(report.summary(run, seconds), ensure_ascii=False))
    return 0


def _import(args: argparse.Namespace) -> int:
    from pipelines.errors import ConfigError
    from pipelines.imports import import_tools, write_scenarios

    if not 0 < args.timeout <= 3600:
        raise ConfigError(f"--timeout is {args.timeout}; write seconds from 1 to 3600")
    result = import_tools(
        args.source, args.line, args.name, args.format, args.partial, args.allow_remote, args.allow, args.server, args.timeout
    )
    many = len(result.scenarios) > 1
    default = Path(f"{Path(args.source).stem}_scenarios") if many else Path(f"{result.scenario.id}.yaml")
    paths = write_scenarios(result, args.out or default)
    lines = [*result.log, *result.findings]
    for entry in lines[:SHOWN]:
        print(f"ptool: {entry}", file=sys.stderr)
    if len(lines) > SHOWN:
        print(f"ptool: {len(lines) - SHOWN} more lines in the .import.jsonl file beside the scenario", file=sys.stderr)
    if args.json:
        print(json.dumps(result.counts, ensure_ascii=False))
        return 0
    where = f"{len(paths)} scenarios in {paths[0].parent}" if many else str(paths[0])
    done = f"{result.counts['accepted']} of {result.counts['tools']} tools"
    print(f"{where}: {done}; run it with `ptool run --scenario {paths[0]}`")
    return 0
