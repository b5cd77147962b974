"""A Chinese run holds Chinese: texts, descriptions, people; names of APIs and parameters stay ASCII."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from making import Made, files_of, make_run

from pipelines import config
from pipelines.errors import ChecksFailed
from pipelines.llm import prompts
from pipelines.verify import leaks
from pipelines.world import leaves

HAN = re.compile(r"[\u4e00-\u9fff]")
ENGLISH = re.compile(r"[A-Za-z]{3,} [a-z]{2,}")
CHOICES = {"language": "zh"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("zh") / "run"
    make_run(root, **CHOICES)
    return Made.read(root)


def descriptions(made: Made) -> Iterator[str]:
    for scenario in made.people.world.scenarios:
        yield scenario.description
        yield from (item.description for item in (*scenario.traits, *scenario.contexts, *scenario.capabilities, *scenario.platforms))
        yield from (level.phrase for platform in scenario.platforms for level in platform.traits.values())
    for api in made.people.world.apis:
        yield from (api.description, api.returns)
        yield from (leaf.description for leaf in leaves(api.parameters))
        yield from re.findall(r'"description": "([^"]*)"', json.dumps(api.parameters, ensure_ascii=False))
    yield from (node.description for node in made.people.world.features)


def test_a_tiny_chinese_run_makes_all_its_samples(made: Made):
    assert len(made.samples) == 24
    assert all("platform" not in sample.query and HAN.search(sample.query) for sample in made.samples)


def test_no_description_has_any_english_left(made: Made):
    found = list(descriptions(made))

    assert len(found) > 100
    assert [text for text in found if not HAN.search(text) or ENGLISH.search(text) or leaks.description_is(text, "zh")] == []


def test_an_english_run_has_no_chinese_in_its_descriptions(tiny: Made):
    assert [text for text in descriptions(tiny) if HAN.search(text)] == []


def test_names_stay_ascii_identifiers(made: Made):
    for api in made.people.world.apis:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", api.name)
        assert all(re.fullmatch(r"[A-Za-z0-9_.]+", leaf.path) for leaf in leaves(api.parameters))


def test_queries_and_histories_hold_no_latin_letters_but_addresses_codes_and_platforms(made: Made):
    names = "|".join(platform.name for scenario in made.people.world.scenarios for platform in scenario.platforms)
    allowed = re.compile(rf"[\w.+-]+@example\.(?:com|org|net)|[A-Z]{{1,2}}-?\d[\d-]*|\bG\b|{names}", re.ASCII)
    texts = [s.query for s in made.samples]
    texts += [event.summary for history in made.people.histories.values() for event in history.events]

    assert len(texts) > 60
    assert [text for text in texts if re.search(r"[A-Za-z]", allowed.sub("", text))] == []


def test_people_are_of_chinese_cities_and_nobody_can_have_their_number(made: Made):
    for profile in made.people.profiles.values():
        assert profile.language == "zh"
        assert profile.timezone == "Asia/Shanghai"
        assert re.fullmatch(r"[\u4e00-\u9fff]{2,3}", str(profile.basic["name"]))
        for feature, value in profile.basic.items():
            if feature == "phone":
                assert re.fullmatch(r"128-\d{4}-\d{4}", str(value))
            if feature in ("home_address", "work_address"):
                assert str(profile.basic["home_city"]) in str(value)


def test_the_same_seed_gives_the_same_chinese_bytes_at_any_concurrency(tmp_path: Path, made: Made):
    make_run(tmp_path / "run", limits={"concurrency": 1}, **CHOICES)
    again, first = files_of(tmp_path / "run"), files_of(made.root)
    data = [name for name in first if name.endswith(".jsonl")]

    assert len(data) > 8
    assert {name: again[name] for name in data} == {name: first[name] for name in data}


def test_the_prompts_in_use_are_the_chinese_ones(made: Made):
    manifest = json.loads((made.root / "manifest.json").read_text(encoding="utf-8"))
    used = {ref for stage in manifest["stages"].values() for ref in stage.get("prompts", [])}

    assert used
    assert used <= {prompts.load(name, language="zh").ref for name in prompts.names()}


def test_an_unknown_scenario_is_worded_from_the_generic_lexicon_in_chinese(tmp_path: Path):
    house = {"name": "smart_home", "description": "在家里控制灯光、暖气、门锁和扫地机器人。"}
    house["capabilities"] = [
        {"name": "set_thermostat", "description": "设定房间的温度。"},
        {"name": "lock_doors", "description": "锁上家里的门。"},
    ]  # type: ignore[assignment]
    make_run(tmp_path / "run", scenarios=[house], shares={"history": 0}, **CHOICES)
    samples = Made.read(tmp_path / "run").samples

    assert len(samples) == 24
    assert all(HAN.search(sample.query) for sample in samples)


def test_a_known_scenario_has_its_description_in_the_language_of_the_run():
    chinese, _ = config.load("tiny", None, {"language": "zh"})
    english, _ = config.load("tiny", None, {})

    assert HAN.search(chinese.scenarios[0].description)
    assert not HAN.search(english.scenarios[0].description)


def test_a_model_that_describes_in_the_wrong_language_is_rejected_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from pipelines.llm.offline import markets

    def english_phrases(*args: Any) -> dict[str, Any]:
        return {**original(*args), "description": "Searches all listings by words"}

    original = markets._known_api
    monkeypatch.setattr(markets, "_known_api", english_phrases)
    with pytest.raises(ChecksFailed, match="no sound API"):
        make_run(tmp_path / "run", **CHOICES)
