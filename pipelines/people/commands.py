"""`ptool people RUN [USER]`: the report pages, and one user as a solver may see them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError


def add_commands(commands: Any) -> None:
    """The commands of this topic."""
    people = commands.add_parser("people", help="pages about the people of a run; one user as a solver sees them")
    people.add_argument("folder", type=Path, metavar="RUN")
    people.add_argument("user", nargs="?", help="a user, e.g. u0007: print what a solver sees; left out: write the pages")
    people.add_argument("--scenario", metavar="S", help="one scenario; default all")
    people.add_argument("--access", choices=["structured", "events_only", "raw_log"], help="default: the run's profile_access")
    people.set_defaults(run=_people)


def _people(args: argparse.Namespace) -> int:
    from pipelines.jsonio import pretty, read_lines
    from pipelines.people.page import write_report
    from pipelines.records import History, Profile, Scenario
    from pipelines.run import load_run
    from pipelines.views import shown_view, solver_view

    run = load_run(args.folder)
    for stage in ("03_features", "04_profiles"):
        if not run.file(stage).is_file():
            raise ConfigError(f"{args.folder}: has no {stage} yet; finish it with `ptool run`")
    if args.user is None:
        for name in write_report(run):
            print(run.root / "report" / name)
        return 0
    profile = next((p for p in read_lines(run.file("04_profiles"), Profile) if p.id == args.user), None)
    if profile is None:
        raise ConfigError(
            f"{run.file('04_profiles')}: holds no user {args.user!r}; `ptool show {args.folder} profiles` lists the first ones"
        )
    scenarios = {s.id: s for s in read_lines(run.file("01_scenarios"), Scenario)}
    if args.scenario is not None and args.scenario not in scenarios:
        raise ConfigError(f"{args.folder}: has no scenario {args.scenario!r}; write one of {', '.join(scenarios)}")
    access = args.access or run.config.profile_access
    if not run.file("05_histories").is_file():
        raise ConfigError(f"{args.folder}: has no 05_histories yet; finish it with `ptool run`")
    for history in read_lines(run.file("05_histories"), History):
        if history.user == args.user and args.scenario in (None, history.scenario):
            seen = shown_view(solver_view(profile, history, scenarios[history.scenario].platforms), access)
            print(seen if isinstance(seen, str) else pretty(seen))
    return 0
