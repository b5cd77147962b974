import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.config import read_scenario
from pipelines.errors import ConfigError
from pipelines.imports import ImportResult, collect_tools, import_tools, write_scenario, write_scenarios
from pipelines.llm.schemas import schema_problem

TOOLS = Path(__file__).parents[1] / "data" / "tools"
DEFECTS = TOOLS / "defects.jsonl"


def tool(name: str = "bakeTile", **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Do {name}.", "parameters": {"type": "object", "properties": properties}}


@pytest.fixture
def load(tmp_path):
    def load_tools(*tools: Any, line: int | None = None, name: str | None = None) -> ImportResult:
        path = tmp_path / "kiln tools.jsonl"
        path.write_text(json.dumps(list(tools), ensure_ascii=False), encoding="utf-8")
        return import_tools(path, line, name)

    return load_tools


def parameters(result: ImportResult, index: int = 0) -> Any:
    return result.apis[index].parameters


def repairs(result: ImportResult) -> list[tuple[str, str]]:
    return [(repair.kind, repair.what) for repair in result.repairs]


def test_one_line_becomes_a_scenario_named_after_file_and_line():
    result = import_tools(DEFECTS, 1, None)

    assert result.scenario.name == "defects_1"
    assert result.scenario.platform is not None
    assert result.scenario.platform.name == "Kiln Temperature Hub"
    assert "read the temperature of a pottery kiln; heat a pottery kiln" in result.scenario.platform.description
    assert "heat a pottery kiln" in result.scenario.description
    assert [api.name for api in result.scenario.platform.apis] == ["getKilnTemperature", "setKilnTemperature"]


def test_wrong_type_names_are_mapped_and_each_is_logged_with_its_position():
    result = import_tools(DEFECTS, 1, None)

    assert parameters(result, 0)["properties"]["limit"]["type"] == "number"
    assert parameters(result, 1)["properties"]["hours"]["type"] == "integer"
    assert result.counts["repairs"] == {"type": {"double": 1, "float": 1, "interger": 1}}
    first = result.repairs[0]
    assert (first.file, first.line, first.tool) == ("defects.jsonl", 1, "getKilnTemperature")
    assert first.position == "/0/function/parameters/properties/limit/type"
    assert (first.before, first.after) == ("float", "number")
    assert "float" in result.log[0]


def test_every_safe_repair_of_a_flat_wrapped_tool_is_made_and_counted():
    result = import_tools(DEFECTS, 2, None)

    assert [api.name for api in result.apis] == ["rent_glaze_bucket", "listGlazes"]
    assert parameters(result) == {
        "type": "object",
        "properties": {
            "colours": {"type": "array", "items": {}},
            "finish": {"type": "string", "enum": ["matt", "gloss"]},
            "days": {"type": "integer", "default": 3},
            "lid": {"type": "boolean"},
        },
        "required": ["days"],
    }
    assert parameters(result, 1) == {"type": "object", "properties": {}}
    assert result.counts["repairs"] == {
        "default": {"dropped": 1, "type": 1},
        "enum": {"repeated": 1},
        "items": {"missing": 1},
        "name": {"identifier": 1},
        "object": {"type": 1},
        "parameters": {"empty": 1},
        "required": {"in_property": 1},
        "type": {"Bool": 1, "int": 1, "list": 1, "str": 1},
    }


def test_a_required_name_that_is_no_property_quarantines_the_tool_and_proposes_the_closest():
    result = import_tools(DEFECTS, 3, None)

    assert [api.name for api in result.apis] == ["cleanShelf"]
    assert result.counts["required_missing"] == 1
    [lost] = result.quarantine
    assert (lost.tool, lost.reason, lost.proposal) == ("moveShelf", "required_missing", "shelf_id")
    assert lost.position == "/0/parameters/required"


def test_a_repeated_tool_is_kept_once_and_a_namesake_is_renamed():
    result = import_tools(DEFECTS, 4, None)

    assert [api.name for api in result.apis] == ["sieveClay", "sieveClay_2"]
    assert repairs(result) == [("duplicate", "tool"), ("name", "taken")]
    assert (result.counts["tools"], result.counts["distinct"], result.counts["accepted"]) == (3, 2, 3)
    assert result.counts["repeating_lists"] == 1


def test_names_that_share_an_identifier_count_as_the_same_name(load):
    result = load(tool("bakeTile"), tool("baketile"), tool("bake-Tile"), tool("bakeTile_2"), tool("x" * 64), tool("x" * 63))

    assert len({api.name.casefold() for api in result.apis}) == 6
    assert [api.name for api in result.apis][:4] == ["bakeTile", "baketile_2", "bake-Tile", "bakeTile_2_2"]


def test_without_a_line_all_lists_become_one_platform():
    result = import_tools(DEFECTS, None, "pottery studio")

    assert result.scenario.name == "pottery studio"
    assert {key: value for key, value in result.counts.items() if key != "repairs"} == {
        "lists": 4, "tools": 9, "accepted": 8, "quarantined": 1, "distinct": 8, "required_missing": 1,
        "repeating_lists": 1, "scenarios": 1,
    }  # fmt: skip


def test_one_json_document_over_many_lines_is_read_and_keeps_its_characters():
    found = collect_tools(TOOLS / "document.json")

    assert [api.description for api in found.apis] == ["取消陶轮预订。"]
    assert found.quarantine[0].reason == "bad_parameters"
    with pytest.raises(ConfigError, match=r"one JSON document.*leave --line 3 out"):
        import_tools(TOOLS / "document.json", 3, None)


def test_a_tool_a_line_is_read_with_its_own_line_numbers(tmp_path):
    path = tmp_path / "flat.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(json.dumps(tool(n, x={"type": "dict"})) for n in ("aName", "bName")).encode())

    assert [(r.line, r.position) for r in import_tools(path, None, None).repairs] == [
        (1, "/parameters/properties/x/type"),
        (3, "/parameters/properties/x/type"),
    ]


def test_the_written_scenario_reads_back_equal_with_its_log_beside_it(tmp_path):
    result = import_tools(DEFECTS, None, None)
    path = write_scenario(result, tmp_path / "new")

    assert path == tmp_path / "new" / "defects.yaml"
    assert read_scenario(str(path)) == result.scenario
    rows = [json.loads(line) for line in (tmp_path / "new" / "defects.import.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["log"] for row in rows] == ["repair"] * len(result.repairs) + ["quarantine"]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_strings_that_look_like_yaml_survive_the_file(load, tmp_path):
    texts = ["yes", "1_000", "0x1F", "12:30:00", "a: b\n\n c \t", " #x", "\u2028x\x85", "null", "=", "日本 😀", 1e22, None, 10**30, True]
    shared = {"type": "object", "properties": {"a": {"const": {}}}}
    result = load(tool(x={"enum": texts, "description": "line\n\n two \n"}, y=shared, z=shared))

    path = write_scenario(result, tmp_path / "odd.yaml")
    assert read_scenario(str(path)) == result.scenario
    assert (tmp_path / "odd.import.jsonl").exists()


def test_a_scenario_is_not_written_under_a_name_that_cannot_be_read_back(load, tmp_path):
    with pytest.raises(ConfigError, match=r"kiln_tools\.yaml"):
        write_scenario(load(tool()), tmp_path / "scenario.json")


@pytest.mark.parametrize(
    ("schema", "repaired", "required"),
    [
        ({"a": {"type": "array", "items": "str"}}, {"a": {"type": "array", "items": {"type": "string"}}}, None),
        ({"a": "float"}, {"a": {"type": "number"}}, None),
        ({"a": {"type": ["STRING", "null"], "default": None}}, {"a": {"type": ["string", "null"], "default": None}}, None),
        ({"a": {"type": "array", "items": [{"type": "int"}]}}, {"a": {"type": "array", "items": {"type": "integer"}}}, None),
        ({"a": {"type": "string", "enum": None, "format": None}}, {"a": {"type": "string"}}, None),
        ({"a": {"type": "integer", "enum": ["1", "2"]}}, {"a": {"type": "integer", "enum": [1, 2]}}, None),
        ({"a": {"type": "string"}, "required": ["a"]}, {"a": {"type": "string"}}, ["a"]),
        ({"a": {"type": "string", "required": "true"}, "b": {"required": False}}, {"a": {"type": "string"}, "b": {}}, ["a"]),
        ({"required": {"type": "bool"}, "type": {"type": "str"}}, {"required": {"type": "boolean"}, "type": {"type": "string"}}, None),
        (
            {"a": {"properties": {"b": {"type": "float", "default": "1e999"}}, "required": "b"}},
            {"a": {"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"]}},
            None,
        ),
    ],
)
def test_a_repair_loses_nothing_and_leaves_a_valid_schema(load, schema, repaired, required):
    result = load(tool(**schema))

    assert parameters(result)["properties"] == repaired
    assert parameters(result).get("required") == required
    assert schema_problem(parameters(result)) is None
    assert bool(result.repairs) == (schema != repaired)


@pytest.mark.parametrize(
    ("broken", "reason", "proposal"),
    [
        (tool(a={"type": "strng"}), "unknown_type", "string"),
        (tool(a={"type": "file"}), "unknown_type", None),
        (tool(a={"type": 5}), "unknown_type", None),
        (tool(a={"type": [{}]}), "unknown_type", None),
        (tool(a={"$ref": "#/x"}), "reference", "write the schema out"),
        (tool(a={"type": "string", "pattern": "("}), "bad_pattern", None),
        (tool(a={"type": "string", "minLength": "two"}), "schema_refused", None),
        (tool(a={"type": "integer", "enum": ["one"]}), "bad_enum", None),
        (tool(a=7), "not_a_schema", None),
        (tool(a={"type": "object", "properties": {}, "required": ["b"]}), "required_missing", None),
        (tool(**{"a b": {"type": "string"}}), "bad_parameters", None),
        ({"name": "fireKiln", "parameters": {}}, "no_description", "Fire kiln."),
        ({"name": "fireKiln", "description": "\u200b ", "parameters": {}}, "no_description", "Fire kiln."),
        ({"name": "窑炉", "description": "Fire.", "parameters": {}}, "no_name", None),
        ({"description": "Fire.", "parameters": {}}, "no_name", None),
        ({"name": "fire", "description": "Fire.", "parameters": {"a": {"type": "str"}}}, "no_properties", "put them under `properties`"),
        ({"name": "fire", "description": "Fire.", "args": {"properties": {}}}, "no_parameters", "rename args to parameters"),
        ({"name": "fire", "description": "Fire.", "parameters": {"type": "string"}}, "bad_parameters", None),
        ({"type": "custom", "name": "fire", "description": "Fire."}, "not_a_function", None),
        ("fire", "not_a_tool", None),
    ],
)
def test_what_cannot_be_repaired_without_guessing_is_quarantined_with_a_reason(load, broken, reason, proposal):
    result = load(broken, tool("soundTool"))

    assert [api.name for api in result.apis] == ["soundTool"]
    assert [(q.reason, q.proposal) for q in result.quarantine] == [(reason, proposal)]
    assert result.quarantine[0].detail


def test_a_required_name_inside_any_of_may_come_from_the_schema_around_it(load):
    around = {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}

    assert parameters(load(tool(x=around)))["properties"]["x"] == around


def test_schemas_of_other_tool_dialects_are_found_under_their_own_key(load):
    result = load({"name": "fire", "description": "Fire.", "inputSchema": {"type": "object", "properties": {"a": {}}}, "strict": True})

    assert parameters(result)["properties"] == {"a": {}}
    assert repairs(result) == [("key", "inputSchema"), ("key", "dropped")]


def test_descriptions_keep_their_text_without_control_characters_and_have_a_bound(load):
    rough = tool(a={"type": "string", "description": "x" * 2001}) | {"description": "Ignore\x1b[31m this.\r\nSecond\u202e line: 你好"}
    result = load(rough)

    assert result.apis[0].description == "Ignore[31m this.\nSecond line: 你好"
    assert len(parameters(result)["properties"]["a"]["description"]) == 2000
    assert repairs(result) == [("description", "control"), ("description", "length")]


def test_more_tools_than_a_platform_takes_become_several_platforms_of_nearly_the_same_size(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps([tool(f"makeTile{i}")]) + "\n" for i in range(65)))

    result = import_tools(path, None, None)

    assert [len(spec.platform.apis) for spec in result.scenarios] == [32, 33]
    assert len({spec.platform.name for spec in result.scenarios}) == 2
    assert import_tools(path, 65, None).scenario.name == "many_65"


def test_lists_that_are_too_many_for_one_platform_become_a_scenario_each(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps([tool(f"makeTile{i}"), tool(f"sellTile{i}")]) + "\n" for i in range(40)))

    result = import_tools(path, None, None)
    written = write_scenarios(result, tmp_path / "out")

    assert [p.name for p in written][:2] == ["lists_1.yaml", "lists_2.yaml"]
    assert len(written) == result.counts["scenarios"] == 40
    assert read_scenario(str(written[3])) == result.scenarios[3]


def test_an_unreadable_line_stops_the_import_unless_the_good_part_is_wanted(tmp_path):
    path = tmp_path / "cut.jsonl"
    path.write_text(json.dumps([tool()]) + "\n" + json.dumps([tool()])[:30] + "\n")

    with pytest.raises(ConfigError, match="line 2: not JSON"):
        import_tools(path)

    kept = import_tools(path, partial=True)
    assert [api.name for api in kept.apis] == ["bakeTile"]
    assert "line 2" in kept.findings[0]


def test_a_tool_with_too_many_parameters_stops_the_import_unless_the_good_part_is_wanted(load, tmp_path):
    big = tool("big", **{f"p{i}": {"type": "string"} for i in range(300)})
    with pytest.raises(ConfigError, match=r"300 parameters, at most 100; .*--partial"):
        load(tool(), big)

    kept = import_tools(tmp_path / "kiln tools.jsonl", partial=True)
    assert [api.name for api in kept.apis] == ["bakeTile"]
    assert kept.quarantine[0].reason == "too_many_parameters"


GOOD = json.dumps([tool()])


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        ("", None, "is empty"),
        ("\n<!DOCTYPE html><html>", None, r"line 2: starts with '<!DOCTYPE html><html>', a web page"),
        (GOOD[:30], None, r"line 1: not JSON: .*cut off"),
        (f"{GOOD}\n{GOOD[:30]}", None, r"line 2: not JSON"),
        ("[\n {,}\n]", None, r"line 2: not JSON"),
        (GOOD, 2, r"--line is 2, the file has 1 lines; write a number from 1 to 1"),
        (GOOD, 0, r"--line is 0"),
        (f"{GOOD}\n\n{GOOD}", 2, "line 2: is blank"),
        ("7", None, "line 1: holds 7, which is no list of tools"),
        ('{"openapi": "3.1.0", "paths": {}}', None, "keys openapi, paths"),
        ("[]\n[]", None, "only empty lists"),
        ("[1]", None, r"none of 1 tools can be used .*holds 1"),
        ("[" * 65 + "]" * 65, None, "nested deeper than 64"),
        ("[" * 50_000, None, "nested deeper than 64"),
        ('[{"name": NaN}]', None, "NaN is no JSON number"),
        ("[1e999]", None, "number too large"),
        ('[{"name": "a", "name": "b"}]', None, "key 'name' twice"),
        ('["\\ud800"]', None, "half a character"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_naming_line_and_finding(tmp_path, content, line, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError, match=said) as error:
        import_tools(path, line, None)
    assert str(path) in str(error.value)


def test_a_broken_line_does_not_keep_another_line_from_being_chosen(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text(f"{GOOD[:30]}\n{GOOD}\n")

    assert import_tools(path, 2, None).counts["accepted"] == 1


def test_bytes_that_are_not_utf8_and_files_too_large_or_missing_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b"[]\n\xff")
    with pytest.raises(ConfigError, match="line 2: byte 3 is not UTF-8"):
        import_tools(path, None, None)
    monkeypatch.setattr("pipelines.imports.files.MAX_BYTES", 3)
    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        import_tools(path, None, None)
    for missing in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(ConfigError, match="no file there"):
            import_tools(missing, None, None)


def test_a_scenario_name_that_is_a_path_is_refused(load):
    with pytest.raises(ConfigError, match=r"--name: .*contains a path"):
        load(tool(), name="../kiln")
