"""`ptool score`, `ptool evaluate`, `ptool leaderboard`: options in, files and a few lines out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.evaluation.summary import Options


def add_commands(commands: Any) -> None:
    """Add the benchmark's commands to the parser."""
    score = commands.add_parser("score", help="score predictions against data; never calls a model")
    score.add_argument("data", type=Path, metavar="DATA", help="split file, data.json, folder of test_*_user/, or a run")
    score.add_argument("predictions", type=Path, metavar="PREDICTIONS", help="generation.jsonl, predictions.jsonl, or their folder")
    score.add_argument("--against", type=Path, metavar="PREDICTIONS", help="compare with these, paired by sample and user")
    score.add_argument("--out", type=Path, metavar="OUT", help="default: scores/ beside the predictions")
    _score_options(score)
    score.set_defaults(run=_score)

    evaluate = commands.add_parser("evaluate", help="run a solver over data and score it; resumes by itself")
    evaluate.add_argument("data", type=Path, metavar="DATA", help="split file of a run, exported data.json, or a run")
    evaluate.add_argument("--model", required=True, metavar="M", help="offline[:SKILL], openai:<model>, oracle, random, query-only, ...")
    evaluate.add_argument("--out", type=Path, metavar="OUT", help="default: evaluations/<data>-<solver> in the run")
    evaluate.add_argument("--mode", choices=["text", "tools", "json"], default="text", help="published text form, native tools, JSON")
    evaluate.add_argument("--endpoint", choices=["chat", "completions"], default="chat")
    evaluate.add_argument(
        "--template", default="", metavar="T", help="of raw prompts: qwen, llama3, mistral, xlam, hammer, deepseek, a file"
    )
    evaluate.add_argument("--skill", type=float, metavar="S", help="of the offline model, 0 to 1")
    evaluate.add_argument("--temperature", type=float, default=0.0)
    evaluate.add_argument("--max-tokens", type=int, default=512, help="of one answer")
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument("--repeats", type=int, default=1, metavar="K", help="ask everything K times: pass^k and variance")
    evaluate.add_argument("--profile", choices=["all", "no-basic", "no-history", "none"], default="all")
    evaluate.add_argument("--context", choices=["structured", "events", "log"], default="structured")
    evaluate.add_argument("--shots", type=int, default=0, metavar="N", help="examples from train")
    evaluate.add_argument("--shots-from", choices=["retrieved", "random"], default="retrieved")
    evaluate.add_argument("--candidates", choices=["scenario", "all"], default="scenario", help="whose platforms are shown")
    evaluate.add_argument("--retrieve", type=int, default=0, metavar="N", help="show only the N APIs that fit the query best")
    evaluate.add_argument("--distractors", type=int, default=0, metavar="N", help="useless profile fields")
    evaluate.add_argument(
        "--experiment", metavar="E", help="profile-ablation, context-forms, shots, candidates, tool-retrieval, distractors"
    )
    evaluate.add_argument("--no-brackets", action="store_true", help="leave out the built-in solvers")
    evaluate.add_argument("--concurrency", type=int, default=16)
    evaluate.add_argument("--max-calls", type=int, help="stop new requests after so many in all")
    evaluate.add_argument("--max-total-tokens", type=int, help="stop new requests after so many tokens in all")
    _score_options(evaluate)
    evaluate.set_defaults(run=_evaluate)

    leaderboard = commands.add_parser("leaderboard", help="many score files, one page")
    leaderboard.add_argument("folder", type=Path, metavar="DIR", help="searched for scores.json at any depth")
    leaderboard.add_argument("--out", type=Path, metavar="OUT", help="default: DIR")
    leaderboard.set_defaults(run=_leaderboard)


def _score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scorer", choices=["strict", "official", "lenient", "all"], default="strict")
    parser.add_argument("--official-weights", action="store_true", help="weigh the untrained and trained split 609 to 474")
    parser.add_argument("--comparators", type=Path, metavar="F", help="YAML: parameter name -> exact, number, datetime, set, ...")
    parser.add_argument("--draws", type=int, default=2_000, help="bootstrap draws of users; 0 for no intervals")
    parser.add_argument("--bootstrap-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes; default one per core")
    parser.add_argument("--name", default="", help="the solver's name, for tables")
    parser.add_argument("--json", action="store_true", help="print scores.json")


def options_of(args: argparse.Namespace) -> Options:
    """Options from the command line.

    Raises:
        ConfigError: for numbers out of range or a bad comparator file.
    """
    import yaml

    from pipelines.evaluation.summary import Options
    from pipelines.evaluation.values import checked_overrides

    if not 0 <= args.draws <= 100_000:
        raise ConfigError(f"--draws is {args.draws}; write 0 to 100000")
    overrides: dict[str, str] = {}
    if args.comparators:
        try:
            overrides = checked_overrides(yaml.safe_load(args.comparators.read_text(encoding="utf-8")), str(args.comparators))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"{args.comparators}: cannot be read: {str(error).splitlines()[0]}") from None
    return Options(args.scorer, overrides, args.draws, args.bootstrap_seed, args.official_weights, args.name, max(args.workers, 0))


def _score(args: argparse.Namespace) -> int:
    from pipelines.evaluation.score import score
    from pipelines.evaluation.versus import versus

    options = options_of(args)
    base = args.predictions if args.predictions.is_dir() else args.predictions.parent
    out = args.out or base / "scores"
    found = score(args.data, args.predictions, out, options)
    if args.against:
        second = score(args.data, args.against, out / "against", options)
        found["against"] = versus(out, found, second, options)
    print(json.dumps(found, ensure_ascii=False) if args.json else told(found, out))
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from pydantic import ValidationError

    from pipelines.config import Limits
    from pipelines.evaluation import brackets
    from pipelines.evaluation.asking import Solver
    from pipelines.evaluation.evaluate import default_out, evaluate
    from pipelines.evaluation.experiments import experiment
    from pipelines.evaluation.seen import Setting

    options = options_of(args)
    setting = Setting(args.profile, args.context, args.shots, args.shots_from, args.candidates, args.retrieve, args.distractors)
    solver = Solver(
        _model(args), args.mode, args.endpoint, args.template, args.temperature, args.max_tokens, args.seed, args.repeats, setting
    )
    try:
        limits = Limits(concurrency=args.concurrency, max_calls=args.max_calls, max_tokens=args.max_total_tokens)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}") from None
    out = args.out or default_out(args.data, solver)
    if args.experiment:
        out = args.out or out.with_name(f"{out.name}-{args.experiment}")
        result = experiment(args.experiment, args.data, out, solver, options, limits)
        print(json.dumps(result, ensure_ascii=False) if args.json else (out / "table.md").read_text(encoding="utf-8"))
        print(f"look at: {out / 'table.md'}, {out / 'plot.svg'}", file=sys.stderr)
        return 0
    found = evaluate(args.data, out, solver, options, limits)
    around = None if args.no_brackets else brackets.bracket(args.data, out, options, args.seed)
    if args.json:
        print(json.dumps({**found, "brackets": around}, ensure_ascii=False))
    else:
        print("\n".join([told(found, out / "scores"), *(brackets.told(around) if around else [])]))
    return 0


def show_wrong(args: argparse.Namespace) -> int:
    """`ptool show SCORES --wrong`."""
    from pipelines.evaluation.explore import wrong

    for text in wrong(args.folder, args.error_class, args.n):
        print(text)
    return 0


def _leaderboard(args: argparse.Namespace) -> int:
    from pipelines.evaluation.leaderboard import write_leaderboard

    out = args.out or args.folder
    count = write_leaderboard(args.folder, out)
    print(f"{count} score files; look at: {out / 'index.html'}, {out / 'leaderboard.csv'}")
    return 0


def _model(args: argparse.Namespace) -> str:
    """The model's name with the dial in it.

    Raises:
        ConfigError: for a model that nobody knows, or a dial that fits no model.
    """
    from pipelines.evaluation.baselines import BASELINES

    model = str(args.model)
    name, _, dial = model.partition(":")
    if args.skill is not None:
        if model != "offline" or not 0 <= args.skill <= 1:
            raise ConfigError(f"--skill {args.skill}: goes with --model offline, and is 0 to 1")
        return f"offline:{args.skill:g}"
    if name == "offline" and dial and not (dial.replace(".", "", 1).isdigit() and float(dial) <= 1):
        raise ConfigError(f"--model {model}: write offline, or offline:<skill from 0 to 1>")
    if name not in ("offline", "openai") and model not in BASELINES:
        raise ConfigError(f"--model {model!r}: write offline, openai:<model>, or a built-in solver: {', '.join(BASELINES)}")
    return model


def told(scores: dict[str, Any], out: Path) -> str:
    """What the terminal shows."""
    from pipelines.evaluation.metrics import PAPER
    from pipelines.evaluation.report import number, odd_counts, with_interval

    whole = scores["groups"]["all"]
    lines = [f"{scores['solver']}: {whole['samples']} samples of {whole['users']} users; data made by {scores['made_by']}"]
    if len(scores["scorers"]) > 1:
        lines.append(f"{'':<20}" + "".join(f"{name:>12}" for name in scores["scorers"]))
        lines += [f"{m:<20}" + "".join(f"{number(row[m]):>12}" for row in scores["scorers"].values()) for m in PAPER]
        lines.append(f"they disagree on {sum(scores['disagreements'].values())} samples: {out / 'disagreements.jsonl'}")
    for name in (*PAPER, "regret", "hedging"):
        one = whole["metrics"].get(name)
        if one is not None and one["value"] is not None:
            lines.append(f"{name:<20}{with_interval(one)}")
    if whole["few_users"]:
        lines.append(f"only {whole['users']} users: the intervals are too narrow to be trusted")
    if scores["failures"]:
        lines.append("format failures: " + ", ".join(f"{k} {v}" for k, v in scores["failures"].items()))
    for joined in scores["joined"]:
        odd = [*odd_counts(joined), *joined["notes"]]
        if odd:
            print(f"ptool: {joined['part']}: {'; '.join(odd)}", file=sys.stderr)
    if scores["repeats"]:
        repeats = scores["repeats"]
        powers = ", ".join(f"pass^{k} {v:.3f}" for k, v in repeats["pass_power"].items())
        spread = f"mean {repeats['mean']:.3f}, standard deviation {repeats['standard_deviation']:.3f}"
        lines.append(f"{repeats['count']} repeats: {spread}; {powers}")
    if scores.get("against"):
        lines += scores["against"]["told"]
    for problem in (scores["official"] or {}).get("problems", []):
        print(f"ptool: official scorer wrote no tables: {problem}", file=sys.stderr)
    return "\n".join([*lines, f"look at: {out / 'scores.md'}"])
