"""Accepted values: each follows from a rule, fits the schema, and means the same."""

from __future__ import annotations

from typing import Any

import pytest
from making import Made

from pipelines.llm.schemas import first_error
from pipelines.records import Source
from pipelines.verify.accepted import accepted_values, optional_defaults
from pipelines.world import leaves

QUERY = Source(kind="query", at="AA Batteries")


@pytest.mark.parametrize(
    ("value", "schema", "values", "why"),
    [
        (3.0, {"type": "number"}, [3.0, 3], ["gold", "whole_number"]),
        (3, {"type": "integer"}, [3], ["gold"]),
        ("AA batteries", {"type": "string"}, ["AA batteries", "AA Batteries"], ["gold", "as_said"]),
        ("a kettle", {"type": "string"}, ["a kettle", "kettle"], ["gold", "article_dropped"]),
        ("a kettle", {"type": "string", "enum": ["a kettle", "kettle"]}, ["a kettle"], ["gold"]),
        ("2026-03-14", {"type": "string", "format": "date"}, ["2026-03-14"], ["gold"]),
        ("19:30", {"type": "string"}, ["19:30", "19:30:00", "7:30 PM"], ["gold", "seconds_added", "twelve_hours"]),
        ("(212) 555-0117", {"type": "string"}, ["(212) 555-0117", "2125550117"], ["gold", "digits_only"]),
        ("(212) 555-0117", {"type": "string", "pattern": r"^\("}, ["(212) 555-0117"], ["gold"]),
        (True, {"type": "boolean"}, [True], ["gold"]),
        (["a kettle"], {"type": "array"}, [["a kettle"], ["kettle"]], ["gold", "article_dropped"]),
    ],
)
def test_alternatives_come_from_rules(value: Any, schema: dict, values: list, why: list):
    assert accepted_values(value, schema, QUERY) == (values, why)


def test_words_that_mean_something_else_are_not_accepted_as_said():
    assert accepted_values("red paint", {"type": "string"}, QUERY)[0] == ["red paint"]


def test_a_default_may_be_left_out_or_given_but_only_where_it_is_optional():
    schema = {
        "type": "object",
        "properties": {n: {"type": "integer", "default": 1} for n in ("a", "b", "c")} | {"d": {"type": "integer"}},
        "required": ["c"],
    }

    assert optional_defaults(leaves(schema), {"a": 1, "b": 2, "c": 1}) == {"a": 1}


def test_all_accepted_values_of_a_run_fit_their_schemas_and_say_why(varied: Made):
    for item, sample in zip(varied.items(), varied.samples, strict=True):
        for api, accepted, why, flat in zip(item.apis, sample.accepted, sample.why, item.flat, strict=True):
            assert api is not None
            schemas = {leaf.path: leaf.schema for leaf in item.cell.world.leaves_of[api.id]}
            assert set(accepted) == set(why) == set(flat)
            for path, values in accepted.items():
                assert values[0] == flat[path]
                assert why[path][0] == "gold"
                assert len(values) == len(why[path])
                assert all(first_error(schemas[path], value) is None for value in values)
