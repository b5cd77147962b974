import asyncio
import os
import shutil

import pytest
from making import files_of, make_run

from pipelines import config
from pipelines.errors import ConfigError
from pipelines.extend import add_scenario, joined
from pipelines.jsonio import read_lines
from pipelines.llm.ledger import Ledger
from pipelines.records import API, FeatureNode, Profile, Sample, Scenario
from pipelines.run import Run, load_run
from pipelines.world import World, leaves

APPENDED = ["01_scenarios", "02_apis", "05_histories", "06_queries", "07_solutions", "08_samples"]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    root = tmp_path_factory.mktemp("extend") / "run"
    make_run(root)
    return root


@pytest.fixture
def folder(before, tmp_path):
    return shutil.copytree(before, tmp_path / "run")


def extend(folder, name="takeout"):
    return asyncio.run(add_scenario(folder, config.read_scenario(name)))


def test_every_line_about_an_old_scenario_keeps_its_bytes(folder, before):
    sizes = extend(folder)

    assert sizes == {"train": 28, "test_trained_users": 8, "test_untrained_users": 12}
    old, new = files_of(before), files_of(folder)
    for name in [f"{stage}.jsonl" for stage in APPENDED] + [name for name in old if name.startswith(("splits/t", "rejected/"))]:
        assert new[name].startswith(old[name]), name
    assert len(new["08_samples.jsonl"]) > len(old["08_samples.jsonl"])
    assert not (folder / "adding").exists()


def test_people_stay_the_same_people_and_get_preferences_for_the_new_scenario(folder, before):
    extend(folder)

    for old, new in zip(read_lines(before / "04_profiles.jsonl", Profile), read_lines(folder / "04_profiles.jsonl", Profile), strict=True):
        assert new.model_copy(update={"preferences": new.preferences[: len(old.preferences)]}) == old
        assert {p.scenario for p in new.preferences} == {"shopping", "takeout"}


def test_the_feature_tree_holds_every_leaf_of_old_and_new_once(folder):
    extend(folder)

    apis = list(read_lines(folder / "02_apis.jsonl", API))
    scenarios = list(read_lines(folder / "01_scenarios.jsonl", Scenario))
    found = [leaf for node in read_lines(folder / "03_features.jsonl", FeatureNode) for leaf in node.leaves]
    wanted = [f"{a.id}#{leaf.path}" for a in apis for leaf in leaves(a.parameters)] + [
        f"{s.id}#{t.name}" for s in scenarios for t in s.traits
    ]
    assert sorted(found) == sorted(wanted)


def test_untrained_users_stay_untrained_and_every_new_sample_names_a_platform_of_the_new_market(folder):
    extend(folder)

    world = World(list(read_lines(folder / "01_scenarios.jsonl", Scenario)), list(read_lines(folder / "02_apis.jsonl", API)))
    train = {s.user for s in read_lines(folder / "splits" / "train.jsonl", Sample)}
    apart = {s.user for s in read_lines(folder / "splits" / "test_untrained_users.jsonl", Sample)}
    assert not train & apart
    fresh = [s for s in read_lines(folder / "08_samples.jsonl", Sample) if s.scenario == "takeout"]
    assert len(fresh) == 24
    assert all((s.platform, call.api) in world.api for s in fresh for call in s.calls)
    assert all(s.platform.startswith("takeout/") for s in fresh if s.calls)


def test_only_calls_about_the_new_scenario_are_made(folder, before):
    extend(folder)

    def subjects(root):
        ledger = Ledger(root / "ledger.sqlite")
        rows = {row[0]: row[1:] for row in ledger._connection.exec_driver_sql("select digest, stage, subject from replies")}
        ledger.close()
        return rows

    old, new = subjects(before), subjects(folder)
    added = [row for digest, row in new.items() if digest not in old]
    assert set(old) <= set(new)
    assert added
    assert all("takeout" in subject or stage == "features" for stage, subject in added)


def test_an_extended_run_is_finished_and_can_be_extended_again(folder):
    extend(folder)
    extend(folder, "travel")

    run = load_run(folder)
    Run.check(folder, run.config)
    assert [g["scenarios"] for g in run.generations] == [["shopping"], ["takeout"], ["travel"]]
    assert run.manifest["complete"]
    assert [s.id for s in run.config.scenarios] == ["shopping", "takeout", "travel"]


def test_stopped_while_moving_the_same_command_ends_with_the_same_bytes(folder, tmp_path, monkeypatch):
    whole = shutil.copytree(folder, tmp_path / "whole")
    extend(whole)
    real, moved = os.replace, []

    def stop(source, target):
        if str(source).endswith(".move"):
            moved.append(source)
            if len(moved) == 6:
                raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        extend(folder)
    monkeypatch.setattr(os, "replace", real)

    extend(folder)
    assert files_of(folder) == files_of(whole)


def test_stopped_while_asking_the_same_command_ends_with_the_same_bytes(folder, tmp_path, monkeypatch):
    whole = shutil.copytree(folder, tmp_path / "whole")
    extend(whole)

    async def stop(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.extend.simulate_histories", stop)
        with pytest.raises(KeyboardInterrupt):
            extend(folder)
    extend(folder)

    assert files_of(folder) == files_of(whole)


def test_an_unfinished_run_and_a_known_scenario_are_refused(folder):
    with pytest.raises(ConfigError, match="has the scenario 'shopping' already"):
        extend(folder, "shopping")
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"splits"', '"other"'))
    with pytest.raises(ConfigError, match="is not finished"):
        extend(folder)


def node(name, kind="basic", children=(), held=(), height=1):
    return FeatureNode(id=name, name=name, description=name, kind=kind, children=list(children), leaves=list(held), height=height)


def test_new_leaves_join_an_old_feature_of_the_same_kind_and_others_get_a_branch_of_their_own():
    old = [node("place", children=["city"], height=2), node("city", held=["a"])]
    new = [
        node("home", children=["city", "garden"], height=2),
        node("all", children=["only"], height=2),
        node("city", held=["b"]),
        node("garden", held=["c"]),
        node("only", kind="basic", held=["d"]),
        node("place", kind="request", held=["e"]),
    ]

    found = {n.id: n for n in joined(old, new, "pets")}

    assert found["city"].leaves == ["a", "b"]
    assert found["home"].children == ["garden"]
    assert found["place"] == old[0]
    assert found["place_pets"].leaves == ["e"]
