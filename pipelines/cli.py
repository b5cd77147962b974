"""The command line: `ptool`. Heavy imports happen inside the commands, so that `--help` is instant."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pipelines.errors import ConfigError, PtoolError, Unavailable
from pipelines.evaluation import commands as evaluation

if TYPE_CHECKING:
    from pipelines.config import RunConfig


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Parse, run, and turn every answerable error into one line and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 gets question marks, not a traceback
            stream.reconfigure(errors="replace")
    args = _parser().parse_args(argv)
    try:
        code = args.run(args)
    except PtoolError as error:
        print(f"ptool: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("ptool: interrupted; what is paid for is kept: run the same command again to go on", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # what we write ourselves is told elsewhere; this is a full or closed output
        print(f"ptool: cannot write the output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 2
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ptool", description="Make and score personalized tool-calling datasets.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="the whole pipeline; resumes by itself in an existing folder")
    _config_options(run)
    run.add_argument("--out", metavar="DIR", help="run folder or URL such as s3://bucket/run; default outputs/<preset>-seed<seed>")
    run.add_argument("--runner", choices=["local", "dask", "ray"], default="local", help="where shards of users run")
    run.add_argument("--cluster", metavar="URL", help="an existing Dask scheduler or Ray cluster; default: one is started here")
    run.add_argument("--workers", type=int, default=2, metavar="N", help="processes of a cluster started here")
    run.add_argument("--review", action="store_true", help="pause before the splits until a person approves in the Prefect UI")
    run.add_argument("--no-prefect", action="store_true", help="no server, no artifacts, seconds faster")
    run.add_argument("--json", action="store_true", help="print one JSON object last")
    run.add_argument("--batch", action="store_true", help="send through the provider's Batch API")
    run.set_defaults(run=_run)

    status = commands.add_parser("status", help="progress and cost, from the ledger")
    status.add_argument("folder", type=Path, metavar="RUN")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=_status)

    show = commands.add_parser("show", help="one record, pretty, with its evidence")
    show.add_argument("folder", type=Path, metavar="RUN")
    show.add_argument("stage", metavar="STAGE", nargs="?", default="samples", help="scenarios, profiles, samples, rejected/queries, ...")
    show.add_argument("id", nargs="?", help="default: the first few")
    show.add_argument("--n", type=whole_number, default=3, help="how many without an id")
    show.add_argument("--json", action="store_true", help="the record as JSON")
    show.add_argument("--wrong", action="store_true", help="RUN is a score folder: show what failed, and why")
    show.add_argument("--class", dest="error_class", metavar="C", help="with --wrong: format, platform, param_value, ...")
    show.set_defaults(run=_show)

    from pipelines.people.commands import add_commands as add_people

    add_people(commands)

    export = commands.add_parser("export", help="the splits in a trainer's or benchmark's format")
    export.add_argument("folder", type=Path, metavar="RUN")
    export.add_argument("--format", required=True, help="ptbench; of the tools: openapi, openai-tools, mcp")
    export.set_defaults(run=_export)

    splits = commands.add_parser("splits", help="sizes and certificate")
    splits.add_argument("folder", type=Path, metavar="RUN")
    splits.set_defaults(run=_splits)

    from pipelines import tool_commands

    tool_commands.add_commands(commands)

    server = commands.add_parser("offline-server", help="the offline model as an OpenAI-compatible server")
    server.add_argument("--port", type=port_number, default=8399)
    server.add_argument("--host", default="127.0.0.1")
    server.add_argument("--seed", type=int, default=0)
    server.add_argument("--latency-ms", type=milliseconds, default=0)
    server.add_argument("--fault-429", type=float, default=0, metavar="SHARE")
    server.add_argument("--fault-500", type=float, default=0, metavar="SHARE")
    server.add_argument("--malformed", type=float, default=0, metavar="SHARE")
    server.add_argument("--truncate", type=float, default=0, metavar="SHARE")
    server.add_argument("--batch-s", type=float, default=1, help="seconds that a batch takes")
    server.add_argument("--batch-expire", type=float, default=0, metavar="SHARE", help="batches that expire half done")
    server.set_defaults(run=_offline_server)

    evaluation.add_commands(commands)

    estimate = commands.add_parser("estimate", help="cost range before a run, measured by a small pilot (real calls)")
    _config_options(estimate)
    estimate.add_argument("--out", type=Path, metavar="DIR", help="keep the pilot's run folder here")
    estimate.add_argument("--json", action="store_true")
    estimate.set_defaults(run=_estimate)
    for module in ("pipelines.audit.commands", "pipelines.review", "pipelines.twins"):
        importlib.import_module(module).add_commands(commands)

    doctor = commands.add_parser("doctor", help="what would be called, and is it there")
    _config_options(doctor)
    doctor.set_defaults(run=_doctor)
    return parser


def whole_number(text: str) -> int:
    """0 or more; argparse names this function when the text is not."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def milliseconds(text: str) -> float:
    """0 or more."""
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError(text)
    return value


def port_number(text: str) -> int:
    """0 to 65,535."""
    value = whole_number(text)
    if value > 65_535:
        raise ValueError(text)
    return value


def _config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=["tiny", "quick", "paper"], help="default quick")
    parser.add_argument("--config", type=Path, metavar="F", help="YAML file of config fields")
    parser.add_argument("--scenario", action="append", metavar="S", help="name, or path of a YAML file; may be repeated")
    parser.add_argument("--model", metavar="M", help="offline, or openai:<model>")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--set", action="append", default=[], metavar="k=v", help="any config field; may be repeated")


def _config(args: argparse.Namespace) -> tuple[RunConfig, dict[str, str]]:
    from pipelines import config

    overrides = config.parse_overrides(args.set)
    if args.scenario:
        overrides["scenarios"] = args.scenario
    if args.model is not None:
        overrides["model"] = args.model
    if args.seed is not None:
        overrides["seed"] = args.seed
    if getattr(args, "batch", False):
        overrides["limits.batch"] = True
    return config.load(args.preset, args.config, overrides)


def _run(args: argparse.Namespace) -> int:
    from pipelines import report
    from pipelines.launch import Engine, Place, launch
    from pipelines.llm.advice import warnings_of
    from pipelines.run import Run, default_folder, load_run

    started = time.monotonic()
    config, origin = _config(args)
    if args.out is not None and ".." in Path(args.out).parts:
        raise ConfigError(f"--out {args.out[:80]!r}: goes up with `..`; write the folder itself")
    place = Place.of(args.out or str(default_folder(config)))
    engine = Engine(args.runner, args.cluster, args.workers, args.review, not args.no_prefect)
    root = place.root
    asyncio.run(place.fetch())
    asyncio.run(_preflight(config, root))
    for warning in warnings_of(config):
        print(f"ptool: warning: {warning}", file=sys.stderr)
    Run.create(root, config, origin)
    _tell_progress()
    print(f"ptool: {config.preset} with {config.model} in {args.out if place.url else root}", file=sys.stderr)
    failure: PtoolError | None = None
    try:
        launch(config, place, engine)
    except PtoolError as error:
        failure = error
    run = load_run(root)
    with run.reading():
        seconds = time.monotonic() - started
        print(report.summary_text(run, seconds))
        if args.json:
            print(json.dumps(report.summary(run, seconds), ensure_ascii=False))
    if failure is not None:
        raise failure
    return 0


async def _preflight(config: RunConfig, root: Path) -> None:
    """All that can be wrong is found before a folder or Prefect exists."""
    import tempfile

    from pipelines.llm.client import LLM
    from pipelines.llm.ledger import Ledger
    from pipelines.run import Run

    Run.check(root, config)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        llm = LLM(config.model, config.seed, ledger, config.limits, models=config.models)
        try:
            await llm.check()
        finally:
            await llm.close()
            ledger.close()


def _tell_progress() -> None:
    """A line per stage on stderr; other libraries' loggers are left alone."""
    import logging

    logger, handler = logging.getLogger("ptool"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("ptool: %(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _status(args: argparse.Namespace) -> int:
    from pipelines import report
    from pipelines.run import load_run
    from pipelines.status import live, live_text

    run = load_run(args.folder)
    with run.reading():
        if args.json:
            print(json.dumps({**report.summary(run, 0), "live": live(run)}, ensure_ascii=False))
        else:
            print(f"{report.summary_text(run)}\n\n{live_text(run)}")
    return 0


def _show(args: argparse.Namespace) -> int:
    from pipelines import report
    from pipelines.jsonio import dumps
    from pipelines.run import load_run

    if args.wrong:
        return evaluation.show_wrong(args)
    run = load_run(args.folder)
    for record in report.find(run, args.stage, args.id, args.n):
        print(dumps(record) if args.json else report.tell(run, record) + "\n")
    return 0


def _export(args: argparse.Namespace) -> int:
    from pipelines.exports import export
    from pipelines.run import load_run

    for path in export(load_run(args.folder), args.format):
        print(path)
    return 0


def _estimate(args: argparse.Namespace) -> int:
    from pipelines.estimate import print_estimate

    config, _ = _config(args)
    print_estimate(config, args.out, args.json)
    return 0


def _splits(args: argparse.Namespace) -> int:
    from pipelines.run import load_run

    run = load_run(args.folder)
    path = run.root / "splits" / "certificate.json"
    if not path.is_file():
        raise ConfigError(f"{args.folder}: has no splits yet; finish it with `ptool run`")
    print(path.read_text(encoding="utf-8"), end="")
    return 0


def _offline_server(args: argparse.Namespace) -> int:
    import uvicorn

    from pipelines.llm.offline.app import Faults, offline_app

    for name in ("fault_429", "fault_500", "malformed", "truncate", "batch_expire"):
        if not 0 <= getattr(args, name) <= 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {getattr(args, name)}; write a share from 0 to 1")
    faults = Faults(args.fault_429, args.fault_500, args.malformed, args.truncate, args.latency_ms, args.batch_expire, args.batch_s)
    _free(args.host, args.port)
    print(f"ptool: offline model at http://{args.host}:{args.port}/v1, seed {args.seed}; it is no language model", file=sys.stderr)
    uvicorn.run(offline_app(args.seed, faults), host=args.host, port=args.port, log_level="warning")
    return 0


def _free(host: str, port: int) -> None:
    """Make sure that the port can be had, before anything is promised."""
    import socket

    try:
        with socket.create_server((host, port)):
            return
    except OSError as error:
        raise Unavailable(f"{host}:{port}: {error.strerror}; choose another --host or --port") from None


def _doctor(args: argparse.Namespace) -> int:
    from importlib import metadata

    from pipelines.config import ROOT
    from pipelines.llm import prompts
    from pipelines.llm.advice import warnings_of
    from pipelines.replies import REPLIES

    config, origin = _config(args)
    rows: list[tuple[str, str]] = [("python", sys.version.split()[0])]
    rows += [(name, metadata.version(name)) for name in ("openai", "tenacity", "networkx", "scikit-learn", "jsonschema", "prefect")]
    rows += [("prompts", f"{sum(bool(prompts.load(name)) for name in REPLIES)} of {len(REPLIES)} load, in {ROOT / 'prompts'}")]
    rows += [("scenarios", ", ".join(s.name for s in config.scenarios)), ("model", f"{config.model} (from {origin['model']})")]
    server = os.environ.get("PREFECT_API_URL")
    rows += [("prefect server", server or "none; a temporary one is started for each run")]
    for name, value in rows:
        print(f"{name:<16} {value}")
    asyncio.run(_preflight(config, Path("doctor-writes-nothing")))
    for warning in warnings_of(config):
        print(f"ptool: warning: {warning}", file=sys.stderr)
    key = "set" if os.environ.get("OPENAI_API_KEY") else "not set"
    print(
        f"{'endpoint':<16} answers; OPENAI_API_KEY is {key}"
        if config.model != "offline"
        else f"{'endpoint':<16} in this process, no key needed"
    )
    return 0


if __name__ == "__main__":
    main()
