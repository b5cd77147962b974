"""Every prompt exists in both languages, with the same header, variables and tags."""

from __future__ import annotations

import json
import re

import pytest

from pipelines.llm import prompts
from pipelines.llm.offline.model import RATES, answer

NAMES = prompts.names()


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_of_prompts_differs_in_words_only(name: str):
    english, chinese = prompts.load(name), prompts.load(name, language="zh")
    texts = [(prompts.PROMPTS / part / f"{name}.md").read_text(encoding="utf-8") for part in ("", "zh")]
    tags = [re.findall(r"</?[a-z_]+>|\{\{.*?\}\}", text) for text in texts]

    assert english.header.model_copy(update={"purpose": ""}) == chinese.header.model_copy(update={"purpose": ""})
    assert tags[0] == tags[1]
    assert english.ref != chinese.ref
    assert re.search(r"[\u4e00-\u9fff]", chinese.header.purpose)


def test_there_is_no_prompt_in_one_language_only():
    assert prompts.names(prompts.PROMPTS / "zh") == NAMES


def test_the_offline_model_answers_in_the_language_of_the_prompt():
    def ask(language: str) -> dict:
        prompt = prompts.load("tools.expand_scenario", language=language)
        scenario = {"name": "shopping", "description": "x"}
        messages = prompt.render(scenario=scenario, platforms=3, contexts=4, capabilities=8)
        messages[0]["content"] += "\n\n" + prompts.SCHEMA_NAMED[language].format(name=prompt.name)
        text, _ = answer({"messages": messages, "seed": 1}, 1, {**RATES, "bad_json": 0})
        return json.loads(text)

    english, chinese = ask("en"), ask("zh")
    assert [c["name"] for c in english["capabilities"]] == [c["name"] for c in chinese["capabilities"]]
    assert re.search(r"[\u4e00-\u9fff]", chinese["traits"][0]["description"])
    assert not re.search(r"[\u4e00-\u9fff]", json.dumps(english, ensure_ascii=False))
