"""The market as structure: who can serve what, what a platform is worth to a user, who is gold.

Pure functions over records; every label of the dataset follows from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipelines.jsonio import unflatten as unflatten
from pipelines.records import API, FeatureNode, Platform, Preference, Profile, Scenario, Utility


def rank_order_centroid(count: int) -> list[float]:
    """Weights of `count` ranked criteria, most important first; they sum to 1.

    w_i = (1/n) sum_{k=i..n} 1/k, e.g. 0.611, 0.278, 0.111 for three.
    Source: Barron and Barrett (1996), Management Science 42(11).
    """
    return [sum(1 / k for k in range(i, count + 1)) / count for i in range(1, count + 1)]


def weights_of(priorities: Sequence[str], traits: Iterable[str]) -> dict[str, float]:
    """Trait -> weight from a ranking; traits not named get 0."""
    ranked = dict(zip(priorities, rank_order_centroid(len(priorities)), strict=True))
    return {trait: round(ranked.get(trait, 0.0), 6) for trait in traits}


def utility(weights: Mapping[str, float], platform: Platform) -> float:
    """U = sum over traits of weight x level, in [0, 1]."""
    return round(sum(weight * platform.traits[trait].level for trait, weight in weights.items()), 6)


def ranking(weights: Mapping[str, float], platforms: Iterable[Platform]) -> list[Utility]:
    """All platforms with their utility, best first; ties by id."""
    scored = [Utility(platform=platform.id, utility=utility(weights, platform)) for platform in platforms]
    return sorted(scored, key=lambda u: (-u.utility, u.platform))


def margin(ranked: Sequence[Utility]) -> float:
    """Utility of the best minus utility of the second best; 0 with fewer than two platforms."""
    return round(ranked[0].utility - ranked[1].utility, 6) if len(ranked) > 1 else 0.0


def dominates(one: Platform, other: Platform) -> bool:
    """At least as good on every trait."""
    return all(one.traits[t].level >= other.traits[t].level for t in other.traits)


@dataclass(frozen=True)
class Leaf:
    """One argument position of an API: a scalar or list at a dotted path."""

    path: str
    schema: dict[str, Any] = field(hash=False)
    required: bool

    @property
    def description(self) -> str:
        """What the parameter is, in the API's words."""
        return str(self.schema.get("description") or self.path.replace("_", " "))


def leaves(parameters: Mapping[str, Any], prefix: str = "", required: bool = True) -> list[Leaf]:
    """The argument positions of a JSON Schema object, nested objects opened.

    A required object that names none of its parts as required needs all of them: an empty one says nothing.
    """
    found: list[Leaf] = []
    properties = parameters.get("properties") or {}
    needed = parameters.get("required") or (list(properties) if prefix and required else [])
    for name, schema in properties.items():
        if not isinstance(schema, dict):
            continue
        path, must = f"{prefix}{name}", required and name in needed
        if schema.get("type") == "object" and schema.get("properties"):
            found += leaves(schema, f"{path}.", must)
        else:
            found.append(Leaf(path, schema, must))
    return found


def statable(schema: Mapping[str, Any]) -> bool:
    """Can a value of this schema be said in a sentence?"""
    if "enum" in schema:
        return any(isinstance(value, str) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return isinstance(items, dict) and items.get("type") in ("string", "number", "integer", None) and not items.get("properties")
    return kind in ("string", "number", "integer", "boolean") or (kind is None and "properties" not in schema)


def flatten(arguments: Mapping[str, Any], parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Arguments by dotted path; an object without declared properties stays one value."""
    flat: dict[str, Any] = {}
    for name, value in arguments.items():
        schema = (parameters.get("properties") or {}).get(name) or {}
        path = f"{prefix}{name}"
        if isinstance(value, dict) and schema.get("properties"):
            flat.update(flatten(value, schema, f"{path}."))
        else:
            flat[path] = value
    return flat


@dataclass(frozen=True)
class World:
    """Scenarios, APIs and the feature tree, indexed."""

    scenarios: Sequence[Scenario]
    apis: Sequence[API]
    features: Sequence[FeatureNode] = ()

    @cached_property
    def scenario(self) -> dict[str, Scenario]:
        """By id."""
        return {scenario.id: scenario for scenario in self.scenarios}

    @cached_property
    def platform(self) -> dict[str, Platform]:
        """By id."""
        return {p.id: p for scenario in self.scenarios for p in scenario.platforms}

    @cached_property
    def platform_named(self) -> dict[tuple[str, str], Platform]:
        """By scenario id and name."""
        return {(scenario.id, p.name): p for scenario in self.scenarios for p in scenario.platforms}

    @cached_property
    def api(self) -> dict[tuple[str, str], API]:
        """By platform id and API name."""
        return {(api.platform, api.name): api for api in self.apis}

    @cached_property
    def apis_of(self) -> dict[str, list[API]]:
        """Platform id -> its APIs, in file order."""
        found: dict[str, list[API]] = {platform: [] for platform in self.platform}
        for api in self.apis:
            found[api.platform].append(api)
        return found

    @cached_property
    def serving(self) -> dict[tuple[str, str], list[API]]:
        """Scenario id and capability -> the APIs that serve it, one per platform."""
        found: dict[tuple[str, str], list[API]] = {}
        for api in self.apis:
            found.setdefault((api.platform.partition("/")[0], api.capability), []).append(api)
        return found

    @cached_property
    def feature_of(self) -> dict[str, FeatureNode]:
        """Leaf id -> the feature it hangs under."""
        return {leaf: node for node in self.features for leaf in node.leaves}

    @cached_property
    def leaves_of(self) -> dict[str, list[Leaf]]:
        """API id -> its argument positions."""
        return {api.id: leaves(api.parameters) for api in self.apis}

    def profile_feature(self, api: API, path: str) -> str | None:
        """The basic feature that can fill an argument, if any."""
        node = self.feature_of.get(f"{api.id}#{path}")
        return node.id if node is not None and node.kind == "basic" else None

    def candidates(self, scenario: str, capability: str) -> list[Platform]:
        """The platforms that can serve a capability."""
        return [self.platform[api.platform] for api in self.serving.get((scenario, capability), [])]

    def gold(self, preference: Preference, capability: str) -> list[Utility]:
        """The ranking of all platforms that can serve a capability, for one user in one context."""
        return ranking(preference.weights, self.candidates(preference.scenario, capability))


def preference_of(profile: Profile, scenario: str, context: str) -> Preference | None:
    """What this user wants in this context."""
    for preference in profile.preferences:
        if preference.scenario == scenario and preference.context == context:
            return preference
    return None


def branches(path: int, layers: Sequence[int]) -> list[int]:
    """The branch taken at every layer by the n-th of all leaves."""
    digits = []
    for width in reversed(layers):
        digits.append(path % width)
        path //= width
    return digits[::-1]


def leaf_count(layers: Sequence[int]) -> int:
    """N = product of k_l."""
    return math.prod(layers)
