import json

import pytest

from pipelines.errors import ConfigError
from pipelines.imports import import_tools

DOC = {
    "name": "orchard.pick",
    "description": "Pick fruit.",
    "parameters": {
        "type": "dict",
        "properties": {
            "rows": {"type": "tuple", "items": {"type": "integer"}, "description": "Rows."},
            "weight": {"type": "float", "description": "Kilograms.", "default": 2.5},
            "note": {"type": "any", "description": "Anything."},
        },
        "required": ["rows"],
    },
}
PICK = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "integer"}, "description": "Rows."},
        "weight": {"type": "number", "description": "Kilograms.", "default": 2.5},
        "note": {"description": "Anything."},
    },
    "required": ["rows"],
}


def load(tmp_path, *lines, **options):
    path = tmp_path / "docs.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return import_tools(path, form="bfcl", **options)


def test_python_type_names_and_dotted_names_become_json_schema_and_identifiers(tmp_path):
    result = load(tmp_path, DOC)

    assert [(api.name, api.parameters) for api in result.apis] == [("orchard_pick", PICK)]
    assert result.counts["repairs"]["type"] == {"any": 1, "dict": 1, "float": 1, "tuple": 1}


def test_cases_carry_their_docs_under_function_and_repeat_them(tmp_path):
    other = {**DOC, "name": "orchard.prune"}

    result = load(tmp_path, {"id": "1", "question": [], "function": [DOC, other]}, {"id": "2", "function": [DOC]})

    assert [api.name for api in result.scenario.platform.apis] == ["orchard_pick", "orchard_prune"]
    assert result.counts["tools"] == 3


def test_a_type_that_the_format_does_not_know_is_set_aside_not_guessed(tmp_path):
    strange = {**DOC, "name": "odd", "parameters": {"type": "dict", "properties": {"a": {"type": "HashMap"}}}}

    result = load(tmp_path, DOC, strange)

    assert [(q.tool, q.reason) for q in result.quarantine] == [("odd", "unknown_type")]


def test_a_file_without_docs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="holds no function docs"):
        load(tmp_path, {"function": []})
