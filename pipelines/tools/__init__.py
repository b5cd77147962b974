"""Stages 1 and 2: from a scenario's name to competing platforms with APIs."""

from pipelines.tools.apis import expand_apis
from pipelines.tools.market import api_count, each_is_best_for_someone, expand_scenarios, none_dominated
from pipelines.tools.rules import api_is_sound, parameters_problem

__all__ = [
    "api_count", "api_is_sound", "each_is_best_for_someone", "expand_apis", "expand_scenarios", "none_dominated", "parameters_problem",
]  # fmt: skip
