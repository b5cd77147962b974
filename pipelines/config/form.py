"""How the form of a deployment names a field: titles, units, and the base of all config models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

UNITS = {
    "apis_per_platform": "count",
    "ask": "share, 0 to 1",
    "attempts": "tries",
    "batch_poll_s": "seconds",
    "breaker_minutes": "minutes",
    "choice_noise": "temperature",
    "concurrency": "requests in flight",
    "contexts_per_scenario": "count",
    "distractor_share": "0 to 0.5",
    "drift_share": "0 to 1",
    "events": "least and most",
    "feature_roots": "least and most",
    "four_calls": "share, 0 to 1",
    "group_depth": "levels",
    "group_size": "count",
    "history": "share, 0 to 1",
    "judge_votes": "count",
    "layers": "branches per layer",
    "max_calls": "paid requests",
    "max_cost": "currency of the price file",
    "max_rejected": "share, up to 1",
    "max_rounds": "count",
    "max_tokens": "prompt and reply",
    "min_margin": "utility, 0 to 1",
    "min_posterior": "probability, 0 to 1",
    "no_tool": "share, 0 to 1",
    "now": "local time, YYYY-MM-DDThh:mm:ss",
    "one_off_share": "0 to 0.5",
    "override": "share, 0 to 1",
    "platforms_per_scenario": "count",
    "profile_irrelevant": "share, 0 to 1",
    "profile_share": "0 to 1",
    "queries_per_call": "count",
    "query_only_bound": "0 to 1",
    "rated_share": "0 to 1",
    "rpm": "requests per minute",
    "seed": "any whole number",
    "shard_users": "people per task",
    "test_new_apis": "samples",
    "test_new_platforms": "samples",
    "test_new_scenarios": "samples",
    "test_trained_users": "samples",
    "test_untrained_users": "samples",
    "three_calls": "share, 0 to 1",
    "timeout_s": "seconds",
    "tpm": "tokens per minute",
    "train": "samples",
    "two_calls": "share, 0 to 1",
    "untrained_users": "people",
    "users": "people",
}
"""Field -> unit; the form shows it behind the field's title."""


def form_title(name: str, _field: object = None) -> str:
    """How the form names a field: in words, with its unit."""
    words = name.removesuffix("_s").replace("_", " ")
    title = f"{words[:1].upper()}{words[1:]}".replace("Apis", "APIs")
    return f"{title} ({UNITS[name]})" if name in UNITS else title


class Strict(BaseModel):
    """Unknown keys are mistakes; attribute docstrings become the descriptions of the form."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, field_title_generator=form_title)
