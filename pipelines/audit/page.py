"""The audit as a page for people: `report/audit.md` with its plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.audit.counting import told
from pipelines.audit.plots import bars, bars_with_intervals


def plots(found: Mapping[str, Any]) -> dict[str, str]:
    """File name -> SVG."""
    drawn: dict[str, str] = {}
    readers = found.get("learnability", {}).get("readers")
    if readers:
        prior = readers["prior"]["share"]
        drawn["learnability.svg"] = bars_with_intervals("Who can tell the gold platform?", readers, prior, "prior")
    for name in ("platform", "context", "kind"):
        counts = found.get("coverage", {}).get(name)
        if counts:
            drawn[f"coverage_{name}.svg"] = bars(f"Samples per {name}", counts)
    types = found.get("calibration", {}).get("per_type")
    if types:
        drawn["detection.svg"] = bars_with_intervals("Planted defects caught by rules and judges", {n: r["both"] for n, r in types.items()})
    return drawn


def markdown(found: Mapping[str, Any]) -> str:
    """All sections that the audit has."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Audit of {_safe(found['run'])}"
    yield ""
    verdict = "checks failed" if found["problems"] else "all checks hold"
    yield f"Data: {found['made_by']}. {found['samples']:,} samples. Verdict: **{verdict}**."
    for problem in found["problems"]:
        yield f"- {_safe(problem)}"
    strict = found.get("strict")
    if strict:
        yield from ("", "## Proved again from the files", "")
        yield f"{strict['checked']:,} samples, {strict['violations']:,} violations."
        yield from (f"- {rule}: {count:,}" for rule, count in strict["by_rule"].items())
    if found.get("offline"):
        yield from ("", "## Against the truth that the offline model knows", "")
        yield from ("| figure | share with 95 % interval |", "|---|---|")
        for name in ("precision", "yield", "caught", "caught_structural", "false_alarms_of_judges", "dropped_without_a_planted_mistake"):
            yield f"| {name.replace('_', ' ')} | {told(found['offline'][name])} |"
        for name, row in found["offline"]["caught_by_type"].items():
            yield f"| caught: {name} | {told(row)} |"
    calibration = found.get("calibration")
    if calibration:
        yield from ("", "## Calibration: planted defects caught", "", "![detection](detection.svg)", "")
        yield from ("| defect | structural | rules | judges | both |", "|---|---|---|---|---|")
        for name, row in calibration["per_type"].items():
            yield f"| {name} | {'yes' if row['structural'] else ''} | {told(row['rules'])} | {told(row['judges'])} | {told(row['both'])} |"
        for who, row in calibration["false_alarms"].items():
            yield f"| *false alarms on clean samples: {who}* | | | | {told(row)} |"
    learn = found.get("learnability")
    if learn and learn["readers"]:
        yield from ("", "## Who can tell the gold platform?", "", "![learnability](learnability.svg)", "")
        yield from ("| reader | accuracy |", "|---|---|")
        yield from (f"| {name} | {told(row)} |" for name, row in learn["readers"].items())
        if learn["per_argument"]:
            yield from (
                "",
                "Arguments from the profile, guessed without it:",
                "",
                "| feature | values | commonest value | query text |",
                "|---|---|---|---|",
            )
            for name, row in learn["per_argument"].items():
                yield f"| {name} | {row['values']} | {told(row['prior'])} | {told(row['query']) if 'query' in row else 'free text'} |"
    texts = found.get("texts")
    if texts:
        near, words, templates = texts["near_duplicates"], texts["lexical"], texts["templates"]
        yield from ("", "## How different the queries are", "", "| figure | value |", "|---|---|")
        yield from (f"| near-duplicates: {name.replace('_', ' ')} | {count:,} |" for name, count in near.items())
        yield f"| distinct words | {words['distinct_words']:,} of {words['words']:,} |"
        yield f"| distinct word pairs, share | {words['distinct_pairs_share']} |"
        yield f"| mean distance of meanings (0 alike, 1 unrelated) | {texts['meaning']['mean_distance']} |"
        yield f"| sentences that come again | {told(templates['reused_sentences'])} |"
        yield f"| openings of three words | {templates['openings']:,} |"
    yield from ("", "## Coverage", "")
    yield f"(user, scenario) pairs whose samples flip the platform for one capability: {told(found['flip_pairs'])}"
    for name, row in found["quotas"].items():
        yield f"- {name}: wanted {row['wanted']:.1%}, got {row['got']:.1%} ({row['samples']:,}){'; ' + row['why'] if row['why'] else ''}"
    yield from ("", "![platforms](coverage_platform.svg)", "![contexts](coverage_context.svg)", "![kinds](coverage_kind.svg)")


def _safe(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")
