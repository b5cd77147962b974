"""What may be asked for, and the one line that says why something may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import config
from pipelines.cli import main
from pipelines.errors import ConfigError


def write(folder: Path, text: str | bytes, name: str = "given.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("userz: 3\n", "userz: unknown key; did you mean 'users'?"),
        ("api_key: secret\n", "api_key"),
        ("users: -3\n", "users: Input should be greater than or equal to 1 (found -3)"),
        ("limits: {concurrency: 0}\n", "limits.concurrency: Input should be greater"),
        ("samples: {trane: 3}\n", "samples.trane: unknown key; did you mean 'train'?"),
        ("preset: huge\n", "preset is 'huge'; write one of tiny, quick, paper"),
        ("untrained_users: 8\n", "untrained_users is 8 of 8 users"),
        ("layers: [2, 2]\n", "layers [2, 2] give 4 users, 8 are wanted"),
        ("events: [9, 3]\n", "events is [9, 3]"),
        ("scenarios: [shopping, shopping]\n", "scenarios names 'shopping' twice"),
        ("scenarios: [moon]\n", "no scenario 'moon'"),
        ("- a\n", "holds a list; write a mapping"),
        ("", "is empty"),
        ("a: [1\nb: }\n", "line 2: not YAML"),
        ("a: &x [1]\nb: *x\n", "line 2: YAML aliases (*x) are not read"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        ("a: !!python/object/apply:os.getcwd []\n", "not YAML"),
        ("[" * 5000 + "\n", "not"),
    ],
)
def test_a_bad_config_file_ends_with_one_line_that_names_it(tmp_path: Path, text: str | bytes, message: str):
    with pytest.raises(ConfigError) as caught:
        config.load(None, write(tmp_path, text))

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\ndescription: b\ncapabilities: []\n", "capabilities: is empty: list at least one"),
        ("name: a/b\ndescription: c\n", "contains a path"),
        ("name: '..'\ndescription: c\n", "contains a path"),
        ('name: "a\\0b"\ndescription: c\n', "contains a control character"),
        (f"name: {'x' * 300}\ndescription: c\n", "has 300 characters; write at most 80"),
        ("name: ''\ndescription: c\n", "is empty"),
        ("name: a\n", "description: Field required"),
        ("name: a\ndescription: b\ncapabilities: [x, x]\n", "capabilities names 'x' twice"),
        ("name: a\ndescription: b\ncontexts: [{name: c, description: d}]\n", "names fewer than 2"),
        ("name: a\ndescription: b\ncapabilites: [x]\n", "did you mean 'capabilities'?"),
    ],
)
def test_a_bad_scenario_file_ends_with_one_line_that_names_it(tmp_path: Path, text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        config.load(None, None, {"scenarios": [str(write(tmp_path, text))]})

    assert message in str(caught.value)
    assert "given.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config", "missing.yaml"],
        ["--set", "users"],
        ["--set", "users=many"],
        ["--set", "scenarios=7"],
        ["--model", "gpt"],
        ["--model", "openai:x"],
        ["--out", "x" * 300],
        ["--out", "a\nb"],
    ],
)
def test_a_bad_command_exits_2_with_one_line_and_writes_nothing(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(["run", "--preset", "tiny", *(arguments if "--out" in arguments else [*arguments, "--out", "made"])])

    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.startswith("ptool: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_endpoint_exits_2_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key-1234")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(SystemExit) as caught:
        main(["run", "--preset", "tiny", "--model", "openai:x", "--out", str(tmp_path / "made")])

    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert "http://127.0.0.1:9/v1/ does not answer" in error
    assert "canary" not in error
    assert not (tmp_path / "made").exists()


def test_a_folder_with_other_files_is_not_taken_for_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit) as caught:
        main(["run", "--preset", "tiny", "--out", str(tmp_path)])

    assert caught.value.code == 2
    assert "holds files but no run" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_later_layers_win_and_say_where_a_value_came_from(tmp_path: Path):
    given = write(tmp_path, "preset: tiny\nseed: 3\nmin_margin: 0.2\n")
    effective, origin = config.load(None, given, config.parse_overrides(["seed=4", "limits.concurrency=2"]))

    assert (effective.preset, effective.seed, effective.min_margin, effective.limits.concurrency) == ("tiny", 4, 0.2, 2)
    assert origin["seed"] == "--set"
    assert origin["min_margin"] == str(given)
    assert origin["users"] == "preset tiny"
    assert origin["max_rounds"] == "default"


def test_the_paper_preset_asks_for_the_papers_sizes():
    paper, _ = config.load("paper")

    assert (len(paper.scenarios), paper.platforms_per_scenario, paper.apis_per_platform, paper.users) == (5, 3, 24, 80)
    assert (paper.samples.train, paper.samples.test_trained_users, paper.samples.test_untrained_users) == (7096, 474, 609)
    assert paper.branching == [4, 4, 5]


def test_limits_are_no_part_of_what_defines_the_data():
    one, _ = config.load("tiny", None, {"limits": {"concurrency": 1}})
    other, _ = config.load("tiny", None, {"limits": {"concurrency": 64}})

    assert one.data() == other.data()


@pytest.mark.parametrize("users", [1, 2, 3, 5, 8, 12, 80, 97, 1000])
def test_derived_layers_reach_the_wanted_number_of_users(users: int):
    import math

    effective, _ = config.load(
        "tiny", None, {"users": users, "untrained_users": 0, "samples": {"train": 4, "test_trained_users": 0, "test_untrained_users": 0}}
    )

    assert math.prod(effective.branching) >= users
    assert math.prod(effective.branching) < 1.5 * users + 3
