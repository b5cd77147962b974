"""What a solver sees holds nothing hidden."""

from __future__ import annotations

import json

from making import Made

from pipelines import normal
from pipelines.jsonio import dumps
from pipelines.views import SolverView, solver_view, tools_block


def test_a_solvers_view_contains_no_hidden_value(varied: Made):
    world = varied.people.world
    for (user, scenario_id), history in varied.people.histories.items():
        scenario, profile = world.scenario[scenario_id], varied.people.profiles[user]
        text = dumps(solver_view(profile, history, scenario.platforms)).casefold()
        for preference in profile.preferences:
            assert preference.words.casefold() not in text
        for context in scenario.contexts:
            assert f'"{context.name}"' not in text
            assert "_" not in context.name or context.name not in text
        assert '"weights"' not in text
        assert '"context"' not in text
        assert '"utilities"' not in text


def test_a_solvers_tools_hold_phrases_and_no_trait_levels(varied: Made):
    world = varied.people.world
    scenario = world.scenarios[0]
    for platform in json.loads(tools_block(scenario.platforms, world.apis_of, levels=False)):
        assert all(isinstance(trait, str) for trait in platform["traits"].values())
        assert all(set(api) == {"name", "description", "parameters"} for api in platform["apis"])


def test_the_solvers_type_has_no_field_for_what_is_hidden():
    assert set(SolverView.model_fields) == {"basic_features", "history", "timezone"}
    event = SolverView.model_fields["history"].annotation.__args__[0]

    assert "context" not in event.model_fields


def test_no_query_of_a_kept_sample_tells_what_the_profile_fills(varied: Made):
    for sample in varied.samples:
        profile = varied.people.profiles[sample.user]
        for call in sample.calls:
            for source in call.sources.values():
                if source.kind == "profile":
                    assert not normal.contains(normal.fold(sample.query), normal.fold(str(profile.basic[source.at])))
