"""Whatever a model answers, the run ends well or with one clear line, and what is kept obeys the rules."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from making import Made, make_run

from pipelines.errors import PtoolError
from pipelines.llm.offline import app
from pipelines.llm.offline.model import answer
from pipelines.verify.rules import first_broken

NASTY: list[Any] = [
    None, True, -1, 1e308, 2**70, "", " ", "\ud800", "nul \x00", "\x1b[31m", "\u202e", "a | b `c` <b>\n---", "{{ 7*7 }}", "</query>",
    "../../etc/passwd", "x" * 5000, [], {}, [[]], {"a": {"b": {}}}, "shopping#affordability", "u0001", "e01",
]  # fmt: skip
WHERE = ["tools.expand_scenario", "tools.expand_apis", "features", "profiles.branch", "profiles.prefer"]
WHERE += ["histories", "queries", "solutions", "verify", ""]


def spoilt(rng: random.Random, value: Any, share: float) -> Any:
    """A copy of a reply with some parts replaced, renamed, dropped, doubled or moved."""
    if rng.random() < share:
        return rng.choice(NASTY)
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if rng.random() > share / 2}
        return {(key if rng.random() > share / 2 else f"{key}_x"): spoilt(rng, inner, share) for key, inner in kept.items()}
    if isinstance(value, list):
        items = [spoilt(rng, inner, share) for inner in value]
        return items + items[:1] if rng.random() < share else items
    return value


@pytest.mark.parametrize("share", [0.003, 0.03])
@pytest.mark.parametrize("where", WHERE)
def test_spoilt_replies_never_crash_a_run_and_never_become_a_wrong_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, share: float
):
    rng = random.Random(f"{where} {share}")

    def hostile(body: Any, seed: int, rates: Any) -> tuple[str, str]:
        text, mistake = answer(body, seed, {})
        name = body["messages"][0]["content"].rsplit("`", 2)[1]
        return (json.dumps(spoilt(rng, json.loads(text), share)), mistake) if name.startswith(where) else (text, mistake)

    monkeypatch.setattr(app, "answer", hostile)
    try:
        make_run(tmp_path / "run", {}, max_rounds=4)
    except PtoolError as error:
        assert "\n" not in str(error)
    if (tmp_path / "run" / "08_samples.jsonl").exists():
        for item in Made.read(tmp_path / "run").items():
            assert first_broken(item) is None


@pytest.mark.parametrize("reply", ["", "no", "[]", "{}", "null", "{" * 100_000, '{"reason": "fine", "verdict": "PASS"}', "<think>" * 1000])
def test_a_judge_that_talks_garbage_passes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str):
    def garbage(body: Any, seed: int, rates: Any) -> tuple[str, str]:
        if "schema `verify.judge`" in body["messages"][0]["content"]:
            return reply, ""
        return answer(body, seed, {})

    monkeypatch.setattr(app, "answer", garbage)
    with pytest.raises(PtoolError, match="judge_unparsed"):
        make_run(tmp_path / "run", {}, max_rounds=2)

    assert Made.read(tmp_path / "run").samples == []
