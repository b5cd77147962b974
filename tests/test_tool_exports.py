import json
from pathlib import Path

import pytest
from making import make_run
from openapi_spec_validator import OpenAPIV31SpecValidator

from pipelines.errors import ConfigError
from pipelines.exports import export
from pipelines.imports import import_tools
from pipelines.jsonio import read_lines
from pipelines.records import API, Scenario
from pipelines.run import load_run
from pipelines.tool_exports import TOOL_FORMATS

READ_BACK = {"openapi": "openapi", "openai-tools": "openai", "mcp": "mcp"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("tools") / "run"
    make_run(root, scenarios=["travel"], apis_per_platform=8)
    return root


def apis_of(folder: Path, platform: str) -> list[API]:
    return [api for api in read_lines(folder / "02_apis.jsonl", API) if api.platform == platform]


@pytest.mark.parametrize("form", TOOL_FORMATS)
def test_what_is_exported_is_imported_again_as_the_same_tools(folder, form):
    paths = export(load_run(folder), form)

    platforms = [p for s in read_lines(folder / "01_scenarios.jsonl", Scenario) for p in s.platforms]
    assert len(paths) == len(platforms) == 2
    for path, platform in zip(paths, platforms, strict=True):
        back = import_tools(path, form=READ_BACK[form])
        mine = apis_of(folder, platform.id)
        assert [(a.name, a.description, a.parameters) for a in back.apis] == [(a.name, a.description, a.parameters) for a in mine]
        assert back.counts["repairs"] == {}
        if form != "openai-tools":
            assert (back.scenario.platform.name, back.scenario.platform.description) == (platform.name, platform.description)
        if form == "openapi":
            assert [(a.group, a.returns) for a in back.apis] == [(a.group, a.returns) for a in mine]


def test_a_public_validator_accepts_every_openapi_document_and_it_says_who_made_it(folder):
    for path in export(load_run(folder), "openapi"):
        written = json.loads(path.read_text(encoding="utf-8"))

        assert list(OpenAPIV31SpecValidator(written).iter_errors()) == []
        assert "offline model" in written["info"]["x-made-by"]


def test_an_unknown_format_is_refused_with_the_known_ones(folder):
    with pytest.raises(ConfigError, match="openapi, openai-tools, mcp"):
        export(load_run(folder), "xml")
