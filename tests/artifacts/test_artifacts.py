"""What people look at: content of the artifacts, without Prefect."""

from __future__ import annotations

import base64
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from making import Made

from pipelines import artifacts, report
from pipelines.artifacts import Artifact, Before
from pipelines.artifacts.text import cell, label
from pipelines.artifacts.trees import Node, _api_diagram, mermaid, picture
from pipelines.run import STAGES, load_run

NAMES = [*STAGES, "09_splits"]


def all_of(root: Path, before: dict[str, Before] | None = None) -> dict[str, Artifact]:
    run = load_run(root)
    with run.reading():
        found = [a for name in NAMES for a in artifacts.of_stage(run, name, (before or {}).get(f"{artifacts.slug(name)}-counts"))]
        found.append(artifacts.of_run(run, "http://127.0.0.1:4200/artifacts/key"))
    return {artifact.key: artifact for artifact in found}


@pytest.fixture(scope="module")
def shown(varied: Made) -> dict[str, Artifact]:
    return all_of(varied.root)


def svg(uri: str) -> ElementTree.Element:
    kind, _, data = uri.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(data))


def test_every_stage_and_the_run_have_what_a_person_looks_for(shown: dict[str, Artifact]):
    extra = {"api-tree", "feature-tree", "profile-card", "history-timeline", "sample-and-rejection", "coverage", "cost", "dataset-card"}

    assert set(shown) == extra | {f"{artifacts.slug(name)}-{what}" for name in NAMES for what in ("counts", "samples")}
    assert all(re.fullmatch("[a-z0-9-]+", key) for key in shown)


def test_each_is_small_and_marked_as_data_of_the_offline_model(shown: dict[str, Artifact]):
    for key, artifact in shown.items():
        assert artifact.size < artifacts.MAX_BYTES, key
        text = artifact.title + str(artifact.data)
        if artifact.kind == "image":
            text = "".join(svg(artifact.data).itertext())
        assert "offline" in text, key


def test_the_table_tells_in_kept_losses_calls_tokens_and_cost(shown: dict[str, Artifact], varied: Made):
    rows = {row["what"]: row["count"] for row in shown["08-samples-counts"].data}
    manifest = json.loads((varied.root / "manifest.json").read_text(encoding="utf-8"))["stages"]

    assert rows["in: 07_solutions"] == manifest["07_solutions"]["kept"]
    assert rows["kept"] == manifest["08_samples"]["kept"] == 56
    assert {reason: rows[f"rejected: {reason}"] for reason in manifest["08_samples"]["rejected"]} == manifest["08_samples"]["rejected"]
    assert rows["model calls"] >= 56
    assert rows["tokens"] > 1000
    assert rows["cost"] == "0 (offline)"


def test_the_next_run_shows_what_is_new_changed_and_gone(varied: Made, tmp_path: Path):
    old = tmp_path / "old"
    shutil.copytree(varied.root, old)
    lines = (old / "08_samples.jsonl").read_text(encoding="utf-8").splitlines()
    changed = json.loads(lines[1]) | {"query": "another"}
    stranger = json.loads(lines[2]) | {"id": "u9999.shopping.001"}
    (old / "08_samples.jsonl").write_text("\n".join([json.dumps(changed), json.dumps(stranger), *lines[3:]]) + "\n", encoding="utf-8")
    before = Before(
        [{"what": "kept", "count": 50}, {"what": "rejected: gone_reason", "count": 4}, {"what": "run folder", "count": str(old)}]
    )
    found = all_of(varied.root, {"08-samples-counts": before})
    rows = {row["what"]: row for row in found["08-samples-counts"].data}
    text = found["08-samples-samples"].data

    assert (rows["kept"]["previous"], rows["kept"]["change"]) == (50, "+6")
    assert (rows["rejected: gone_reason"]["count"], rows["rejected: gone_reason"]["change"]) == (0, "-4")
    assert "| 53 | 1 | 2 | 1 |" in text
    assert "Gone: `u9999.shopping.001`" in text


def test_a_previous_run_whose_files_are_gone_is_said_to_be_gone(varied: Made):
    before = Before([{"what": "run folder", "count": "/nowhere/at/all"}])

    assert "Its files are gone: `/nowhere/at/all`" in all_of(varied.root, {"05-histories-counts": before})["05-histories-samples"].data


def test_the_trees_show_every_platform_api_and_feature(shown: dict[str, Artifact], varied: Made):
    text = shown["api-tree"].data
    drawn = " ".join("".join(svg(uri).itertext()) for uri in re.findall(r"\((data:[^)]+)\)", text))
    for apis in varied.people.world.apis_of.values():
        for api in apis:
            assert f'"{api.name}"' in text
            assert api.name[:27] in drawn
    assert text.count("```mermaid") == 2
    assert shown["feature-tree"].data.count("```mermaid") == 3


def test_pictures_are_sound_xml_without_scripts_or_addresses(shown: dict[str, Artifact]):
    for key in ("coverage", "cost"):
        root = svg(shown[key].data)
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {"svg", "title", "rect", "text", "line", "circle", "path"}
        assert "http" not in base64.b64decode(shown[key].data.partition(",")[2]).decode().replace("http://www.w3.org/2000/svg", "")


HOSTILE = '<img src=x onerror=alert(1)> "]; click n0 "javascript:alert(1)" ``` | [x](http://evil.example) & \u202e'


def test_hostile_text_is_never_markup():
    assert "<" not in label(HOSTILE)
    assert label(HOSTILE)[1:-1].count('"') == 0
    assert "[" not in label(HOSTILE)
    assert re.search(r"(?<!\\)[<>|`\[\]]", cell(HOSTILE)) is None
    assert "onerror" in "".join(svg(picture(HOSTILE, [Node(HOSTILE)])).itertext())
    fenced = report.fenced(HOSTILE).splitlines()
    assert fenced[0] == fenced[-1] == "````"
    assert mermaid([Node(HOSTILE)]).count("```") == 2


def test_a_tree_too_big_to_read_is_folded(varied: Made):
    scenario = varied.people.world.scenarios[0]
    many = {p.id: {f"group {g}": [f"api_{g}_{i}" for i in range(20)] for g in range(4)} for p in scenario.platforms}
    title, [root] = _api_diagram(scenario, many)

    assert title == f"{scenario.name}: 3 platforms, 240 APIs"
    assert root.size() == 1 + 3 + 12
    assert root.children[0].children[0].text == "group 0: 20 APIs"


def test_the_card_links_to_every_artifact_and_names_the_files(shown: dict[str, Artifact], varied: Made):
    card = shown["dataset-card"].data
    for key in ("api-tree", "coverage", "cost", "08-samples-counts"):
        assert f"(http://127.0.0.1:4200/artifacts/key/{key})" in card
    assert f"`{varied.root}/splits/train.jsonl`" in card
    assert "56 samples, complete" in card


def test_no_key_reaches_an_artifact(shown: dict[str, Artifact], monkeypatch: pytest.MonkeyPatch, varied: Made):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-words")

    assert "sk-very-secret-words" not in str([artifact.data for artifact in all_of(varied.root).values()])
