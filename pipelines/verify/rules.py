"""The rules of stage 8 in their order: small pure functions over one item, each nothing when fine, else what is wrong.

No rule asks a model, and no text in the data can change what a rule does. The name of the first that fails is the reason
counted.
"""

from __future__ import annotations

from pipelines.verify.calls import (
    missing_required,
    schema_invalid,
    source_missing,
    stray_date,
    unknown_api,
    unknown_parameter,
    unreachable_value,
)
from pipelines.verify.item import Item, Rule
from pipelines.verify.plans import (
    asks_for_another,
    last_time_not_said,
    other_capability,
    override_not_real,
    plan_not_followed,
    profile_matters,
    settled_after_all,
    tool_fits,
    wrong_act,
)
from pipelines.verify.preferences import (
    ambiguous_preference,
    kind_not_met,
    no_rival,
    not_identifiable,
    platform_named,
    preference_mismatch,
    preference_stated,
    profile_told,
    wrong_language,
)

__all__ = ["RULES", "Item", "Rule", "first_broken"]

RULES: tuple[Rule, ...] = (
    platform_named,
    profile_told,
    preference_stated,
    wrong_language,
    unknown_api,
    unknown_parameter,
    missing_required,
    schema_invalid,
    source_missing,
    unreachable_value,
    stray_date,
    wrong_act,
    tool_fits,
    settled_after_all,
    asks_for_another,
    no_rival,
    ambiguous_preference,
    preference_mismatch,
    other_capability,
    plan_not_followed,
    kind_not_met,
    override_not_real,
    profile_matters,
    last_time_not_said,
    not_identifiable,
)


def first_broken(item: Item) -> tuple[str, str] | None:
    """The first rule that an item breaks, as (name, detail), or None."""
    for rule in RULES:
        problem = rule(item)
        if problem is not None:
            return rule.__name__, problem
    return None
