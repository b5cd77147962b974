"""One user in text: facts, weights as bars, favourites with margins, and the histories as timelines."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.identify import settled
from pipelines.jsonio import read_lines
from pipelines.records import History, Profile, Scenario
from pipelines.run import Run
from pipelines.world import margin, ranking

WIDTH = 12
_MARK = {"usual": " ", "one_off": "○", "distractor": "·"}


def bar(value: float, width: int = WIDTH) -> str:
    """A value from 0 to 1 as blocks."""
    filled = round(min(max(value, 0.0), 1.0) * width)
    return "█" * filled + "·" * (width - filled)


def portrait(run: Run, profile: Profile) -> str:
    """Everything about one user of a run; histories when they are there already."""
    scenarios = list(read_lines(run.file("01_scenarios"), Scenario))
    histories = {h.scenario: h for h in _histories_of(run, profile.id)}
    lines = [f"{profile.id}  ({profile.timezone}, branch {'/'.join(map(str, profile.path))})", "", "basic features (visible)"]
    lines += [f"  {key:<22} {value}" for key, value in profile.basic.items()]
    for scenario in scenarios:
        lines += ["", f"== {scenario.name}: preferences (hidden)"]
        lines += _preferences(profile, scenario, histories.get(scenario.id), run.config.min_margin, run.config.min_posterior)
        if scenario.id in histories:
            lines += ["", f"== {scenario.name}: history", *timeline(histories[scenario.id])]
    return "\n".join(lines)


def _histories_of(run: Run, user: str) -> Iterator[History]:
    if run.file("05_histories").is_file():
        yield from (h for h in read_lines(run.file("05_histories"), History) if h.user == user)


def _preferences(profile: Profile, scenario: Scenario, history: History | None, min_margin: float, min_posterior: float) -> Iterator[str]:
    names = {p.id: p.name for p in scenario.platforms}
    for wish in profile.preferences:
        if wish.scenario != scenario.id:
            continue
        ranked = ranking(wish.weights, scenario.platforms)
        clear = "" if margin(ranked) >= min_margin else f", below min_margin {min_margin}: no label"
        yield f"  {wish.context}: {names[ranked[0].platform]}, margin {margin(ranked):.3f}{clear}"
        yield f"    {wish.words}"
        for trait, weight in sorted(wish.weights.items(), key=lambda item: -item[1]):
            if weight > 0:
                yield f"    {bar(weight)} {weight:.2f} {trait}"
        belief = history.belief.get(wish.context) if history is not None else None
        if belief:
            known = settled(belief, min_posterior)
            shares = ", ".join(f"{names.get(p, p)} {share:.2f}" for p, share in sorted(belief.items(), key=lambda item: -item[1]))
            yield f"    from the history: {shares} ({'settled' if known else 'not settled'})"


def timeline(history: History) -> Iterator[str]:
    """Events oldest first, months set apart; ○ for somebody else, · chosen at random, ↩ undone; the change of mind as a line."""
    month, drift = "", history.drift
    for event in history.events:
        if drift is not None and event.time >= drift.time:
            yield f"    ──── {drift.time[:10]}: changes mind in {drift.context}; before: {', '.join(drift.priorities)} ────"
            drift = None
        if event.time[:7] != month:
            month = event.time[:7]
            yield f"  {month}"
        stars = f" {'★' * event.rating}" if event.rating else ""
        undone = " ↩" if event.returned else ""
        place = event.platform.partition("/")[2]
        when = event.time[8:16].replace("T", " ")
        yield f"   {_MARK[event.occasion]}{event.id} {when} {place:<12} {event.summary}{stars}{undone}  [{event.context}]"
