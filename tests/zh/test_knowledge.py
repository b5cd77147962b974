"""The Chinese knowledge files say what the English ones say, and what is written in Chinese can be read back."""

from __future__ import annotations

import random
import re
from datetime import date

import pytest

from pipelines.llm.offline import knowledge, markets, people
from pipelines.llm.offline.overlay import translated
from pipelines.llm.offline.wording import Fact, Market, read_capability, read_facts, read_situation, request
from pipelines.tools.rules import descriptions
from pipelines.verify.leaks import description_is

TODAY = date(2026, 3, 2)
CHINESE = sorted(path.stem for path in (knowledge.HERE / "zh").glob("[!_]*.yaml"))


def both(name: str) -> tuple[knowledge.Knowledge, knowledge.Knowledge]:
    english, chinese = knowledge.load(name, "en"), knowledge.load(name, "zh")
    assert english is not None
    assert chinese is not None
    return english, chinese


@pytest.mark.parametrize("name", CHINESE)
def test_names_and_shapes_are_those_of_the_english_file(name: str):
    english, chinese = both(name)

    assert [t.name for t in chinese.traits] == [t.name for t in english.traits]
    assert [s.name for s in chinese.situations] == [s.name for s in english.situations]
    for ours, theirs in zip(chinese.capabilities, english.capabilities, strict=True):
        assert (ours.name, ours.open, ours.group) == (theirs.name, theirs.open, theirs.group)
        for platform, api in ours.apis.items():
            other = theirs.apis[platform]
            assert api.name == other.name
            assert [(u.path, u.concept, u.required) for u in api.uses] == [(u.path, u.concept, u.required) for u in other.uses]
            for use in api.uses:
                concept = chinese.concepts[use.concept]
                if use.default and concept.type == "enum":
                    assert use.default.replace("_", " ") in concept.values(None)


@pytest.mark.parametrize("name", CHINESE)
def test_no_text_of_a_chinese_file_is_english(name: str):
    _, chinese = both(name)
    texts = [text for c in chinese.capabilities for text in (*c.ask, *c.done, c.text, *(a.text for a in c.apis.values()))]
    texts += [text for s in chinese.situations for text in (*s.cues, *s.trace, s.phrase)]
    texts += [text for c in chinese.concepts.values() for text in (*c.what, *c.say)]

    assert [text for text in texts if re.search(r"[A-Za-z]{2,}", re.sub(r"\{[a-z_]*\}", "", text))] == []
    assert [text for text in texts if re.search(r"[,?!;]", text)] == []


@pytest.mark.parametrize("name", CHINESE)
def test_every_api_made_of_a_chinese_file_is_described_in_chinese(name: str):
    _, known = both(name)
    apis = [markets._known_api(known, capability, platform, "zh") for capability in known.capabilities for platform in capability.apis]
    texts = [text for api in apis for text in (api["description"], api["returns"], *descriptions(api["parameters"]))]

    assert len(apis) == 72
    assert [problem for text in texts if (problem := description_is(text, "zh"))] == []


@pytest.mark.parametrize("name", CHINESE)
def test_what_is_written_in_chinese_can_be_read_back_from_the_text_alone(name: str):
    _, known = both(name)
    scenario = {
        "name": known.scenario,
        "contexts": [{"name": s.name, "description": s.phrase} for s in known.situations],
        "capabilities": [{"name": c.name, "description": c.text} for c in known.capabilities],
    }
    market, rng = Market(scenario, "zh"), random.Random(5)
    lost = []
    for capability in known.capabilities:
        for situation in known.situations:
            for api in capability.apis.values():
                facts = [Fact(use.path, use.concept, known.concepts[use.concept]) for use in api.uses]
                ability = market.ability(capability.name, capability.text)
                text = request(rng, ability, facts, situation, TODAY, "zh")
                read = read_facts(text, ability, facts, TODAY)
                if read_capability(text, market) != capability.name or read_situation(text, market) != situation.name:
                    lost.append(text)
                lost += [f"{fact.slot}: {text}" for fact in facts if fact.path not in read]

    assert lost == []


def test_a_file_that_lacks_a_concept_says_which():
    base = knowledge.read_bank(knowledge.HERE / "en" / "shopping.yaml")
    own = knowledge.read_bank(knowledge.HERE / "zh" / "shopping.yaml")
    del own["concepts"]["item"]
    own["concepts"]["thing"] = {}
    with pytest.raises(ValueError, match="concepts: lacks item; has thing that English has not"):
        translated(base, own, "zh", {})


def test_addresses_mails_and_ages_of_chinese_people_agree():
    rng = random.Random(4)
    for start in people.life_stages(rng, 8, "zh"):
        for situation in people.situations(rng, start, 2, "zh"):
            for person in people.persons(rng, situation, ["home_address", "phone", "email", "manager_name", "diet"], 3, "zh"):
                assert person["home_city"] in person["home_address"]
                assert re.fullmatch(r"128-\d{4}-\d{4}", person["phone"])
                assert re.fullmatch(r"[a-z0-9._-]{3,}@example\.(com|org|net)", person["email"])
                assert person["manager_name"] != person["name"]
                assert person["life_stage"] in knowledge.life_stages("zh")
