"""Variety of parameters: what each API is asked to look like, and what came of it."""

from __future__ import annotations

import bisect
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.config import RunConfig
from pipelines.records import API
from pipelines.world import Leaf, leaves

COUNTS = {0: 3, 1: 9, 2: 16, 3: 20, 4: 18, 5: 13, 6: 9, 7: 6, 8: 3, 9: 3}
"""How many APIs of a hundred should have so many parameters."""
SHOWN = {"enum": 0.4, "default": 0.35, "date": 0.3, "boolean": 0.3, "array": 0.25, "nested": 0.2}
"""Share of APIs with enough parameters that should show each form."""
FORMS = (*SHOWN, "string", "integer", "number")


def plan_shapes(config: RunConfig, scenario: str, capabilities: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What is asked for, one shape per capability: `parameters`, `required` and the forms to `show`.

    A shape belongs to the capability, so that siblings stay interchangeable. Quotas are met as nearly as the
    number of capabilities allows: each stands at its own quantile, in an order drawn from the seed.
    """
    rng = config.rng("shapes", scenario)
    shapes: dict[str, dict[str, Any]] = {}
    for capability, count in zip(_shuffled(rng, capabilities), _quantiles(len(capabilities)), strict=True):
        shapes[capability] = {"capability": capability, "parameters": count, "required": 0, "show": []}
    for form, share in SHOWN.items():
        able = [name for name in _shuffled(rng, capabilities) if len(shapes[name]["show"]) < shapes[name]["parameters"]]
        for name in able[: round(share * len(capabilities))]:
            shapes[name]["show"].append(form)
    for shape in shapes.values():
        count = shape["parameters"]
        shape["required"] = rng.randint(min(1, count), (count + 1) // 2)
    return {name: shapes[name] for name in capabilities}


def _shuffled(rng: random.Random, names: Sequence[str]) -> list[str]:
    return rng.sample(names, len(names))


def _quantiles(count: int) -> list[int]:
    """Numbers of parameters at evenly spaced points of the wanted distribution."""
    edges = list(itertools.accumulate(COUNTS.values()))
    return [list(COUNTS)[bisect.bisect_right(edges, (i + 0.5) / count * edges[-1])] for i in range(count)]


def forms_of(parameters: Mapping[str, Any]) -> set[str]:
    """Which forms an API shows."""
    found = {form for leaf in leaves(parameters) for form in _forms(leaf)}
    nested = any(isinstance(p, dict) and p.get("properties") for p in (parameters.get("properties") or {}).values())
    return found | ({"nested"} if nested else set())


def _forms(leaf: Leaf) -> set[str]:
    schema = leaf.schema
    kinds = schema.get("type")
    found = {str(kind) for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind in FORMS}
    if "enum" in schema:
        found.add("enum")
    if "default" in schema:
        found.add("default")
    if schema.get("format") in ("date", "date-time"):
        found.add("date")
    return found


def variety(config: RunConfig, apis: Sequence[API]) -> dict[str, Any]:
    """Wanted and found: APIs by number of parameters, APIs by form shown, and the share of required parameters."""
    found_counts: Counter[int] = Counter()
    wanted_counts: Counter[int] = Counter()
    found_forms: Counter[str] = Counter()
    wanted_forms: Counter[str] = Counter()
    required = total = 0
    offered: dict[str, dict[str, None]] = {}
    for api in apis:
        offered.setdefault(api.platform.partition("/")[0], {})[api.capability] = None
    shapes = {scenario: plan_shapes(config, scenario, list(names)) for scenario, names in offered.items()}
    for api in apis:
        mine = leaves(api.parameters)
        found_counts[len(mine)] += 1
        found_forms.update(forms_of(api.parameters))
        required += sum(leaf.required for leaf in mine)
        total += len(mine)
        shape = shapes[api.platform.partition("/")[0]][api.capability]
        wanted_counts[shape["parameters"]] += 1
        wanted_forms.update(shape["show"])
    sizes = sorted(found_counts | wanted_counts)
    return {
        "apis": len(apis),
        "parameters": {str(n): {"wanted": wanted_counts[n], "found": found_counts[n]} for n in sizes},
        "forms": {form: {"wanted": wanted_forms[form], "found": found_forms[form]} for form in FORMS},
        "required_share": round(required / total, 3) if total else 0.0,
        "mean_parameters": round(total / len(apis), 2) if apis else 0.0,
    }
