"""What of the flow needs no server; `deployed/` has the rest."""

from __future__ import annotations

import asyncio
from typing import Any

from prefect.utilities.callables import parameter_schema

import flows
from pipelines import config
from pipelines.config import UNITS
from pipelines.stage import PROGRESS, Progress, gather


def form() -> dict[str, Any]:
    return parameter_schema(flows.synthesize).model_dump()


def test_the_form_shows_every_field_of_the_config_with_title_and_description():
    schema = form()
    fields = schema["definitions"]["RunConfig"]["properties"]

    assert set(fields) == set(config.RunConfig.model_fields)
    assert {"Limits", "Samples", "ScenarioSpec", "SituationSpec", "CapabilitySpec"} <= set(schema["definitions"])
    for name, definition in schema["definitions"].items():
        for field, shape in definition.get("properties", {}).items():
            assert shape.get("description"), f"{name}.{field} says nothing"
            assert shape.get("title") or "$ref" in shape, f"{name}.{field} has no title"


def test_every_number_of_the_form_has_a_unit_and_a_default_within_its_range():
    for name, definition in form()["definitions"].items():
        for field, shape in definition.get("properties", {}).items():
            kinds = [shape, *shape.get("anyOf", [])]
            if any(kind.get("type") in ("integer", "number") for kind in kinds):
                assert field in UNITS, f"{name}.{field} has no unit in config.UNITS"
                assert f"({UNITS[field]})" in shape["title"]
                bounds = {key for kind in kinds for key in kind if "inimum" in key or "aximum" in key}
                assert bounds, f"{name}.{field} has no range"
                assert "default" in shape


def test_choices_are_selects():
    schema = form()

    assert schema["definitions"]["RunConfig"]["properties"]["preset"]["enum"] == ["tiny", "quick", "paper"]
    assert schema["properties"]["runner"]["enum"] == ["local", "dask", "ray"]


async def test_progress_follows_the_items_that_are_done():
    progress = Progress()
    token = PROGRESS.set(progress)
    seen: list[float] = []

    async def work(item: int) -> int:
        await asyncio.sleep(0)
        seen.append(progress.share)
        return item

    async def nested(item: int) -> list[int]:
        return await gather(range(item), work)

    try:
        await gather([3, 3], nested)
    finally:
        PROGRESS.reset(token)

    assert progress.share == 1
    assert (progress.done, progress.total) == (8, 8)
    assert min(seen) < 0.5
    assert sorted(seen) == seen
