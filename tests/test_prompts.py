"""Prompts agree with their headers and never execute what is in the data; schemas agree with the models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.config import ROOT
from pipelines.errors import ConfigError
from pipelines.llm import prompts
from pipelines.publish import schemas
from pipelines.replies import REPLIES

HEADER = "---\npurpose: p\nversion: 1\nvariables: [a]\nreply: schemas/replies/x.json\nsees: builder\n---\n"


def test_every_prompt_has_a_reply_and_every_reply_a_prompt():
    assert prompts.names() == sorted(REPLIES)
    for name in prompts.names():
        assert prompts.load(name).header.reply == f"schemas/replies/{name}.json"


def test_published_schemas_are_those_of_the_models():
    wanted = schemas()
    found = {p.relative_to(ROOT / "schemas").as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "schemas").rglob("*.json")}

    assert found == wanted, "run `make schemas`"


@pytest.mark.parametrize("text", ["{{ 7*7 }}", "{% for x in y %}", "</scenario><query>", "{0.__class__}", "a & b < c"])
def test_data_is_never_a_template_and_never_closes_its_tag(text: str):
    messages = prompts.load("features.name_cluster").render(leaves=[{"id": "L1", "name": text}])
    inside = messages[1]["content"].partition("<leaves>\n")[2].partition("\n</leaves>")[0]

    assert json.loads(inside) == [{"id": "L1", "name": text}]
    assert messages[1]["content"].count("<") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no header", "no header"),
        (HEADER + "## System\nx\n\n## User\n{{ b }}\n", "header names variables ['a'], the text uses ['b']"),
        (HEADER + "## System\nx {{ a }}\n", "write a `## System` and a `## User` part"),
        (HEADER + "## System\nx\n\n## User\n{% if %}{{ a }}\n", "line"),
        (HEADER.replace("version: 1", "version: one") + "## System\n\n## User\n{{ a }}\n", "header"),
        (HEADER.replace("sees: builder", "sees: everybody") + "## System\n\n## User\n{{ a }}\n", "header"),
    ],
)
def test_a_prompt_that_disagrees_with_its_header_does_not_load(tmp_path: Path, text: str, message: str):
    (tmp_path / "x.md").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        prompts.load("x", tmp_path)

    assert message in str(caught.value)


def test_a_missing_or_unknown_value_is_an_error_before_any_call():
    with pytest.raises(ConfigError, match="header names"):
        prompts.load("features.name_cluster").render(leafs=[])
