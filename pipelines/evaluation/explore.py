"""`ptool show SCORES --wrong`: failed samples with all it takes to see why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.evaluation.answers import Answer, read_answer
from pipelines.evaluation.chunks import prediction_of
from pipelines.evaluation.items import Item
from pipelines.evaluation.reader import Part, Predictions, find_parts, load_line, record_id, records
from pipelines.evaluation.rendering import gold_text
from pipelines.evaluation.seen import Seen, Source
from pipelines.evaluation.strict import CLASSES, Rules, Verdict, judge
from pipelines.jsonio import file_digest

CUT = 600


def wrong(scores: Path, error_class: str | None, count: int) -> Iterator[str]:
    """Failed samples of a scoring, one text each.

    Args:
        scores: `scores.json`, its folder, or the folder of an evaluation.
        error_class: One of `strict.CLASSES`, or None for any.

    Raises:
        ConfigError: for a folder without scores, an unknown class, or data that changed since.
    """
    if error_class is not None and error_class not in CLASSES:
        raise ConfigError(f"--class {error_class}: write one of {', '.join(CLASSES)}")
    folder = find_scores(scores)
    told = read_scores(folder)
    rules = Rules(told["scorer"] == "lenient", told["options"]["overrides"])
    left = count
    for part, file in _pairs(told):
        for item, seen, verdict, text in _failed(part, file, rules, folder, error_class):
            if left <= 0:
                return
            left -= 1
            yield describe(item, seen, verdict, text, error_class)
    if left == count:
        yield f"no wrong samples{f' of class {error_class}' if error_class else ''}"


def find_scores(path: Path) -> Path:
    """The folder that holds `scores.json`.

    Raises:
        ConfigError: when there is none.
    """
    for folder in (path.parent if path.name == "scores.json" else path, path / "scores"):
        if (folder / "scores.json").is_file():
            return folder
    raise ConfigError(f"{path}: has no scores.json; write the folder that `ptool score` printed")


def read_scores(folder: Path) -> dict[str, Any]:
    """What `scores.json` holds.

    Raises:
        ConfigError: when it is no such file.
    """
    value = load_line((folder / "scores.json").read_bytes())
    if not isinstance(value, dict) or not all(key in value for key in ("groups", "solver", "data", "options", "predictions")):
        raise ConfigError(f"{folder / 'scores.json'}: is no score file; score the predictions again")
    return value


def _pairs(told: dict[str, Any]) -> Iterator[tuple[Part, Path]]:
    parts = {part.name: part for part in find_parts(Path(told["data"]["path"]))}
    for known, joined in zip(told["data"]["files"], told["joined"], strict=True):
        part = parts.get(known["part"])
        if part is None or file_digest(part.path) != known["sha256"]:
            raise ConfigError(f"{known['path']}: is not the file that was scored; score it again")
        yield part, Path(joined["file"])


def _failed(
    part: Part, file: Path, rules: Rules, folder: Path, error_class: str | None
) -> Iterator[tuple[Item, Seen | None, Verdict, str]]:
    ids = [record_id(raw, part, place) for place, raw in enumerate(records(part))]
    predictions = Predictions(file, ids)
    try:
        for (item, seen), line in zip(Source(part).items(), predictions.in_order(), strict=True):
            prediction = prediction_of(line)
            lenient = rules.lenient
            answer = (
                Answer(failure=prediction.failure) if prediction.failure else read_answer(prediction.text, prediction.cut, lenient=lenient)
            )
            verdict = judge(item, answer, rules)
            if not verdict.overall and (error_class is None or error_class in verdict.classes):
                yield item, seen, verdict, prediction.text if isinstance(prediction.text, str) else ""
    finally:
        predictions.close()


def describe(item: Item, seen: Seen | None, verdict: Verdict, text: str, error_class: str | None) -> str:
    """Query, profile facts, gold with evidence, prediction, and what differs."""
    lines = [f"{item.id}  {', '.join(verdict.classes)}{f' ({verdict.failure})' if verdict.failure else ''}", f"  query       {item.query}"]
    facts = _facts(item, seen)
    if facts:
        lines.append("  profile     " + "; ".join(f"{name}: {value}" for name, value in facts.items()))
    lines.append(f"  gold        {gold_text(item)}")
    lines += [f"    {line}" for line in _evidence(item)]
    lines.append(f"  prediction  {_cut(text) or '(nothing)'}")
    lines.append("  differs")
    for difference in verdict.differences:
        if difference.what == "platform" and item.utilities:
            lost = f"; utility {item.utilities.get(verdict.chosen, 'unknown')} against {item.utilities.get(item.platform)}"
        else:
            lost = ""
        mark = "*" if error_class == difference.what else "-"
        lines.append(
            f"    {mark} {difference.what} {difference.where}: gold {_shown(difference.gold)}, made {_shown(difference.made)}{lost}"
        )
    return "\n".join(_plain(line) for line in lines) + "\n"


def _facts(item: Item, seen: Seen | None) -> dict[str, Any]:
    """The profile facts that gold uses; all of them where the data does not tell which."""
    person = seen.person if seen is not None and isinstance(seen.person, dict) else {}
    used = [s.get("at") for c in item.raw.get("calls") or () for s in c["sources"].values() if s.get("kind") == "profile"]
    if "calls" in item.raw:
        return {name: person[name] for name in used if name in person}
    return dict(list(person.items())[:12])


def _evidence(item: Item) -> list[str]:
    lines = []
    for call in item.raw.get("calls") or ():
        for path, source in call["sources"].items():
            lines.append(f"{call['api']}.{path} from the {source.get('kind')}: {_shown(source.get('at'))}")
    if item.utilities:
        ranked = sorted(item.utilities.items(), key=lambda pair: -pair[1])
        lines.append("utilities " + ", ".join(f"{name} {value:.3f}" for name, value in ranked))
        context = item.raw.get("context")
        found = item.raw.get("evidence", {}).get("events") or []
        lines.append(f"context {context} (hidden); {len(found)} events show it: {', '.join(found[:8])}")
    return lines


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    return text if len(text) <= CUT else text[: CUT - 1] + "…"


def _plain(line: str) -> str:
    """Without control characters, which could write over the terminal, and without lone surrogates."""
    line = "".join(c if c.isprintable() or c == " " else f"\\x{ord(c):02x}" for c in line)
    return line.encode("utf-8", "replace").decode()
