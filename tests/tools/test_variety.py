import pytest

from pipelines import config
from pipelines.tools.variety import COUNTS, SHOWN, forms_of, plan_shapes

SETTINGS, _ = config.load("tiny")


@pytest.mark.parametrize("count", [1, 6, 24, 100])
def test_quotas_are_met_as_nearly_as_the_number_of_capabilities_allows(count):
    shapes = plan_shapes(SETTINGS, "pets", [f"do_{i}" for i in range(count)])

    assert list(shapes) == [f"do_{i}" for i in range(count)]
    for size, wanted in COUNTS.items():
        assert abs(sum(s["parameters"] == size for s in shapes.values()) - wanted * count / 100) <= 1
    able = sum(s["parameters"] > 0 for s in shapes.values())
    for form, share in SHOWN.items():
        shown = sum(form in s["show"] for s in shapes.values())
        assert shown <= round(share * count)
        assert shown >= min(round(share * count), able) - 2 or count == 1


def test_no_shape_asks_for_more_forms_or_requirements_than_parameters():
    for shape in plan_shapes(SETTINGS, "pets", [f"do_{i}" for i in range(100)]).values():
        assert len(shape["show"]) <= shape["parameters"]
        assert min(1, shape["parameters"]) <= shape["required"] <= shape["parameters"]


def test_the_seed_and_the_scenario_decide_the_shapes():
    names = [f"do_{i}" for i in range(24)]
    assert plan_shapes(SETTINGS, "pets", names) == plan_shapes(SETTINGS, "pets", names)
    assert plan_shapes(SETTINGS, "pets", names) != plan_shapes(SETTINGS, "cars", names)


def test_every_form_is_recognised():
    properties = {
        "a": {"type": "string", "enum": ["x"]},
        "b": {"type": "integer", "default": 1},
        "c": {"type": "string", "format": "date"},
        "d": {"type": ["boolean", "null"]},
        "e": {"type": "array", "items": {"type": "string"}},
        "f": {"type": "object", "properties": {"g": {"type": "number"}}},
    }

    assert forms_of({"type": "object", "properties": properties}) == {
        "enum", "default", "date", "boolean", "array", "nested", "string", "integer", "number",
    }  # fmt: skip
