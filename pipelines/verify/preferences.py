"""Rules on the platform: Def. 3.1 and 3.2 of the method, and whether a solver could know."""

from __future__ import annotations

from pipelines.queries import named_platform, told_by_profile
from pipelines.verify import leaks
from pipelines.verify.item import Item, by_preference, choices_of
from pipelines.verify.said import said


def platform_named(item: Item) -> str | None:
    """The query leaves the choice of platform to the solver, unless naming it is the plan."""
    return leaks.platform_named_as_planned(item.query.text, item.cell.scenario.platforms, named_platform(item.slot))


def profile_told(item: Item) -> str | None:
    """The query does not tell what the profile is to fill."""
    return leaks.profile_not_told(item.query.text, item.cell.profile, told_by_profile(item.slot))


def preference_stated(item: Item) -> str | None:
    """The query states no hidden preference."""
    return leaks.preference_not_stated(item.query.text, item.cell.profile, item.cell.scenario)


def wrong_language(item: Item) -> str | None:
    """The query is in the user's language."""
    return leaks.language_is(item.query.text, item.cell.profile.language)


def no_rival(item: Item) -> str | None:
    """Def. 3.1: at least two platforms can serve every capability used."""
    for api in item.apis:
        if api is not None and len(item.cell.world.serving[item.cell.scenario.id, api.capability]) < 2:
            return f"only {api.platform} serves {api.capability}"
    return None


def ambiguous_preference(item: Item) -> str | None:
    """Def. 3.1: the best platform is better than the second by the margin, for every call."""
    if not by_preference(item):
        return None
    for call, found in choices_of(item):
        if found is None:
            return f"no preference for {item.slot.context}"
        if found.margin < item.min_margin:
            return f"margin {found.margin} for {call.capability} is below {item.min_margin}"
    return None


def preference_mismatch(item: Item) -> str | None:
    """The platform that the model chose from words is the argmax of the utilities, or the one that the query names."""
    if item.slot.act != "call" or item.solution.act != "call":
        return None
    if not by_preference(item):
        named = item.slot.platform
        return None if named == item.solution.platform else f"the model chose {item.solution.platform}, the query names {named}"
    for _, found in choices_of(item):
        if found is not None and found.gold != item.solution.platform:
            return f"the model chose {item.solution.platform}, the utilities say {found.gold} in {item.slot.context}"
    return None


def not_identifiable(item: Item) -> str | None:
    """The visible history makes the gold platform the likeliest, for every call."""
    if not by_preference(item):
        return None
    for _, found in choices_of(item):
        if found is None:
            continue
        if not found.shown(item.min_posterior):
            return f"history gives {found.gold} only {found.posterior.get(found.gold)}"
    return None


def kind_not_met(item: Item) -> str | None:
    """Def. 3.1 needs a context in which the platform flips, Def. 3.2 a value that is in the profile and not in the query."""
    kinds = item.slot.kinds
    if "tool_preference" in kinds and not (item.choice and item.choice.flips_with):
        return "the platform is the same in all contexts"
    if "profile_dependent" not in kinds:
        return None
    for call, flat in zip(item.solution.calls, item.flat, strict=True):
        for path, value in flat.items():
            source = call.sources.get(path)
            if source is not None and source.kind == "profile" and not said(value, item.query.text, path, {}, item.today):
                return None
    return "no argument comes from the profile alone"
