"""Stages 1 and 2 against a model that says what the test wants."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from making import Made

from pipelines import config
from pipelines.config import ScenarioSpec
from pipelines.errors import ChecksFailed, ReplyError
from pipelines.llm.offline import model as offline
from pipelines.records import Scenario
from pipelines.replies import REPLIES
from pipelines.stage import Context
from pipelines.tools import expand_apis, expand_scenarios
from pipelines.tools.prune import api_text, near_duplicates

PETS = ScenarioSpec(name="pet_care", description="Looking after pets.")


class Model:
    """The offline model's answers, changed by the test before they are checked."""

    def __init__(self, change=lambda name, repeat, reply: reply) -> None:
        self.change = change
        self.asked: list[tuple[str, str]] = []

    async def ask(self, prompt: Any, values: dict[str, Any], reply: Any, *, stage: str, subject: str, repeat: int = 0):
        self.asked.append((prompt.name, subject))
        messages = prompt.render(**values)
        blocks = {m["tag"]: offline._parsed(m["json"]) for text in messages for m in offline._TAGGED.finditer(text["content"])}
        import random

        call = offline.Call(blocks, random.Random(f"{subject} {repeat}"), "en", {})
        answer = self.change(prompt.name, repeat, copy.deepcopy(offline.HANDLERS[prompt.name](call)))
        return REPLIES[prompt.name].model_validate(answer), SimpleNamespace()


def context(model: Model, **overrides: Any) -> Context:
    settings, _ = config.load("tiny", None, {"apis_per_platform": 8, **overrides})
    return Context(settings, model)


async def market(model: Model, **overrides: Any):
    return await expand_scenarios(context(model, **overrides), [PETS])


async def test_a_phrase_that_reads_as_another_level_rejects_the_market_and_asks_again():
    def change(name, repeat, reply):
        if name == "tools.judge_traits" and repeat == 0:
            reply["bands"] = [{**band, "band": "low" if band["band"] == "high" else band["band"]} for band in reply["bands"]]
        return reply

    result = await market(Model(change))

    assert [r.reason for r in result.rejected] == ["trait_text_disagrees"]
    assert "reads as low" in result.rejected[0].detail
    assert len(result.kept) == 1


async def test_a_judge_that_leaves_a_phrase_out_never_counts_as_a_pass():
    def change(name, repeat, reply):
        if name == "tools.judge_traits":
            reply["bands"] = reply["bands"][1:]
        return reply

    with pytest.raises(ChecksFailed, match="no usable market in 4 attempts"):
        await market(Model(change))


async def test_a_list_of_capabilities_that_is_too_short_is_completed_by_asking_again():
    def change(name, repeat, reply):
        if name == "tools.expand_scenario" and repeat == 0:
            reply["capabilities"] = reply["capabilities"][:3]
        return reply

    whole, completed = await market(Model()), await market(Model(change))

    names = [c.name for c in completed.kept[0].capabilities]
    assert [r.reason for r in completed.rejected] == ["wrong_count"]
    assert len(names) == 8
    assert names[:3] == [c.name for c in whole.kept[0].capabilities][:3]


async def test_a_brand_that_another_scenario_has_is_asked_again():
    first = (await market(Model())).kept[0]
    taken = {first.platforms[0].name.casefold()}

    result = await expand_scenarios(context(Model()), [PETS], taken)

    assert result.rejected[0].reason == "brand_taken"
    assert not taken & {p.name.casefold() for p in result.kept[0].platforms}


async def apis(model: Model, scenario: Scenario, **overrides: Any):
    return await expand_apis(context(model, **overrides), [scenario], [PETS])


async def test_near_duplicates_are_dropped_with_their_likeness_and_the_number_is_made_up_again():
    scenario = (await market(Model())).kept[0]
    words = [f"{a}{b}" for a in ("bar", "cor", "del", "fan", "gol") for b in ("a", "et", "im", "on", "ush", "ax", "ilo", "und")]

    def change(name, repeat, reply):
        if name == "tools.expand_apis" and repeat == 0:
            for i, api in enumerate(reply["apis"][:2]):
                api["description"] = f"{' '.join(words)} {i}"
                api["name"] = f"care{i}"
                api["parameters"] = {"type": "object", "properties": {}}
        return reply

    result = await apis(Model(change), scenario)

    dropped = [r for r in result.rejected if r.reason == "near_duplicate"]
    assert dropped
    assert all("similarity" in r.detail for r in dropped)
    for platform in scenario.platforms:
        mine = [api for api in result.kept if api.platform == platform.id]
        assert {api.capability for api in mine} == {c.name for c in scenario.capabilities}
        assert near_duplicates([api_text(api) for api in mine]) == []


async def test_a_match_that_breaks_a_rule_is_left_out_and_told():
    scenario = (await market(Model())).kept[0]

    def change(name, repeat, reply):
        if name == "tools.match_parameters":
            first = reply["capabilities"][0]
            parts = [m["parameters"] for m in first["matches"]]
            first["matches"].append({"meaning": "made_up", "about": "request", "parameters": [{"platform": "Nobody", "path": "x"}]})
            first["matches"].append({"meaning": "again", "about": "request", "parameters": parts[0]})
        return reply

    result = await apis(Model(change), scenario)

    told = [r.detail for r in result.rejected if r.reason == "match_invalid"]
    assert len(told) == 2
    assert "there is no parameter 'x'" in told[0]
    assert "already means" in told[1]
    assert all("made_up" not in api.meanings.values() for api in result.kept)


async def test_without_a_usable_map_parameters_of_the_same_path_are_matched():
    scenario = (await market(Model())).kept[0]

    def change(name, repeat, reply):
        if name == "tools.match_parameters":
            raise ReplyError("not_json", "cut")
        return reply

    result = await apis(Model(change), scenario)

    assert [r.reason for r in result.rejected][:2] == ["not_json", "not_json"]
    assert all(path == meaning for api in result.kept for path, meaning in api.meanings.items())


async def test_groups_are_asked_for_depth_first_and_name_their_path():
    model = Model()
    scenario = (await market(model, apis_per_platform=20)).kept[0]
    model.asked.clear()

    await apis(model, scenario, apis_per_platform=20, group_size=4, group_depth=2)

    first = scenario.platforms[0].id
    asked = [subject for name, subject in model.asked if name == "tools.expand_platform" and subject.startswith(first)]
    assert asked[0] == first
    assert any(subject.startswith(f"{first}/") for subject in asked[1:])


def test_known_markets_are_matched_without_a_gap(varied: Made):
    world = varied.people.world
    for api in world.apis:
        assert set(api.meanings) == {leaf.path for leaf in world.leaves_of[api.id]}
