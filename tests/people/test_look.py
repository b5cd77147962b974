"""A person can look: portraits, timelines, pages, trees; and a solver sees no more than its mode allows."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from making import Made

from pipelines.cli import main
from pipelines.people.tree import mermaid, svg
from pipelines.records import FeatureNode


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_a_portrait_shows_weights_margins_beliefs_and_the_timeline(varied: Made, capsys: pytest.CaptureFixture[str]):
    user = next(iter(varied.people.histories))[0]
    text = told(capsys, "show", str(varied.root), "profiles", user)
    profile = varied.people.profiles[user]

    assert str(profile.basic["name"]) in text
    assert "█" in text
    assert "margin 0." in text
    assert "from the history:" in text
    history = varied.people.histories[user, "shopping"]
    assert all(event.summary in text for event in history.events)
    if history.drift is not None:
        assert "changes mind in" in text


def test_the_pages_are_written_by_the_run_and_escape_what_the_model_wrote(varied: Made):
    page = (varied.root / "report" / "profiles.html").read_text(encoding="utf-8")
    tree = (varied.root / "report" / "feature_tree.svg").read_text(encoding="utf-8")

    ET.fromstring(tree)
    assert "offline model" in page
    assert "offline model" in tree
    assert "posterior agrees with gold" in page
    assert "home_city" in page
    assert "<script" not in page
    assert len(page) < 200_000


def test_hostile_names_stay_text_in_both_pictures():
    node = FeatureNode(
        id="x", name='<script>alert("]")</script>', description="a & b < c", kind="basic", children=[], leaves=["s#<b>"], height=1
    )

    assert "<script>" not in svg([node], "me & <you>")
    ET.fromstring(svg([node], "me & <you>"))
    assert "<" not in mermaid([node])
    assert mermaid([node]).count('"]') == 1


def test_the_people_command_shows_a_user_in_three_ways_and_nothing_hidden(varied: Made, capsys: pytest.CaptureFixture[str]):
    user = next(iter(varied.people.histories))[0]
    place = ("people", str(varied.root), user, "--scenario", "shopping")
    structured = json.loads(told(capsys, *place, "--access", "structured"))
    events_only = json.loads(told(capsys, *place, "--access", "events_only"))
    log = told(capsys, *place, "--access", "raw_log")

    assert set(structured) == {"basic_features", "history", "timezone"}
    assert set(events_only) == {"history", "timezone"}
    assert len(log.strip().splitlines()) == len(structured["history"])
    scenario = varied.people.world.scenario["shopping"]
    for context in scenario.contexts:
        assert f"[{context.name}]" not in log
        assert f'"{context.name}"' not in json.dumps(structured)
    assert "occasion" not in json.dumps(structured)
    assert "belief" not in json.dumps(structured)


def test_an_unknown_user_or_scenario_is_one_line_and_exit_code_2(varied: Made, capsys: pytest.CaptureFixture[str]):
    assert "holds no user 'u9999'" in told(capsys, "people", str(varied.root), "u9999", code=2)
    assert "write one of shopping, travel" in told(capsys, "people", str(varied.root), "u0001", "--scenario", "moon", code=2)
