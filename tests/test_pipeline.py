"""The whole, without Prefect."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from making import Made, files_of, make_run

from pipelines.errors import ChecksFailed, ConfigError, Stopped
from pipelines.jsonio import read_lines
from pipelines.records import Rejection, Sample

STAGES = ["01_scenarios", "02_apis", "03_features", "04_profiles", "05_histories", "06_queries", "07_solutions", "08_samples"]


def test_the_tiny_preset_makes_what_it_promises(pristine: Made):
    sizes = {p.stem: sum(1 for _ in read_lines(p, Sample)) for p in (pristine.root / "splits").glob("*.jsonl")}
    platforms = [p for s in pristine.people.world.scenarios for p in s.platforms]

    assert sizes == {"train": 14, "test_trained_users": 4, "test_untrained_users": 6}
    assert len(platforms) == 2
    assert [len(pristine.people.world.apis_of[p.id]) for p in platforms] == [6, 6]
    assert len(pristine.people.profiles) == 3


def test_every_stage_leaves_its_file_and_its_rejections(pristine: Made):
    for name in STAGES:
        assert (pristine.root / f"{name}.jsonl").exists()
        assert (pristine.root / "rejected" / f"{name}.jsonl").exists()


def test_the_manifest_counts_every_loss_by_reason(pristine: Made):
    manifest = json.loads((pristine.root / "manifest.json").read_text(encoding="utf-8"))
    for name in STAGES:
        lost = [r.reason for r in read_lines(pristine.root / "rejected" / f"{name}.jsonl", Rejection)]
        assert sum(manifest["stages"][name]["rejected"].values()) == len(lost)
        assert set(manifest["stages"][name]["rejected"]) == set(lost)


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_bytes_do_not_depend_on_concurrency_or_shards(pristine: Made, tmp_path: Path, concurrency: int):
    make_run(tmp_path / "run", limits={"concurrency": concurrency, "shard_users": 1 + concurrency % 3})

    assert files_of(tmp_path / "run") == files_of(pristine.root)


def test_another_seed_makes_other_data(pristine: Made, tmp_path: Path):
    make_run(tmp_path / "run", seed=8)

    assert (tmp_path / "run" / "08_samples.jsonl").read_bytes() != (pristine.root / "08_samples.jsonl").read_bytes()


def test_a_used_up_budget_stops_and_a_higher_one_goes_on_to_the_same_bytes(pristine: Made, tmp_path: Path):
    for calls in (3, 20, 45):
        with pytest.raises(Stopped, match="max_calls"):
            make_run(tmp_path / "run", limits={"max_calls": calls, "concurrency": 2})
    make_run(tmp_path / "run")

    assert files_of(tmp_path / "run") == files_of(pristine.root)


def test_a_run_that_cannot_meet_its_quota_says_which_cells_are_short(tmp_path: Path):
    with pytest.raises(ChecksFailed, match=r"missing .*short cells: u000"):
        make_run(tmp_path / "run", rates={"wrong_platform": 1.0})

    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["complete"] is False
    assert manifest["stages"]["08_samples"]["rejected"]["preference_mismatch"] > 20


def test_a_changed_prompt_makes_only_what_depends_on_it_again(pristine: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import shutil

    from pipelines.llm import prompts

    folder = tmp_path / "prompts"
    shutil.copytree(prompts.PROMPTS, folder)
    run = tmp_path / "run"
    shutil.copytree(pristine.root, run)
    text = (folder / "queries.write.md").read_text(encoding="utf-8")
    (folder / "queries.write.md").write_text(text.replace("No two messages are alike.", "Never write two alike."), encoding="utf-8")
    original = prompts.load
    monkeypatch.setattr(prompts, "load", lambda name, language="en": original(name, folder, language))
    before = _calls(run)
    make_run(run)
    after = _calls(run)

    assert {stage for stage in after if after[stage] != before.get(stage)} == {"queries", "solutions", "verify"}
    for name in STAGES[:5]:
        assert (run / f"{name}.jsonl").read_bytes() == (pristine.root / f"{name}.jsonl").read_bytes()


def _calls(run: Path) -> dict[str, int]:
    from pipelines.llm.ledger import Ledger

    ledger = Ledger(run / "ledger.sqlite")
    found = {stage: usage.calls for stage, usage in ledger.usage().items()}
    ledger.close()
    return found


def test_a_changed_stage_file_is_named_and_nothing_is_written(pristine: Made, tmp_path: Path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(pristine.root, run)
    lines = (run / "04_profiles.jsonl").read_text(encoding="utf-8").splitlines()
    (run / "04_profiles.jsonl").write_text("\n".join([lines[0], "{broken", *lines[2:]]) + "\n", encoding="utf-8")
    before = files_of(run)
    with pytest.raises(ConfigError, match=r"04_profiles\.jsonl, line 2: not a Profile"):
        make_run(run)

    assert files_of(run) == before


def test_a_deleted_stage_file_is_made_again_from_the_ledger_without_a_call(pristine: Made, tmp_path: Path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(pristine.root, run)
    (run / "05_histories.jsonl").unlink()
    before = _calls(run)
    make_run(run)

    assert files_of(run) == files_of(pristine.root)
    assert _calls(run) == before


def test_another_config_in_the_same_folder_is_refused_by_naming_the_fields(pristine: Made):
    with pytest.raises(ConfigError, match=r"seed \(7 there, 9 here\).*min_margin"):
        make_run(pristine.root, seed=9, min_margin=0.2)


def test_a_scenario_named_like_a_template_stays_that_text(tmp_path: Path):
    spec = {"name": "{{ 7*7 }}", "description": "{% for x in y %} {{ config }}", "capabilities": ["switch_on", "check_it"]}
    make_run(tmp_path / "run", scenarios=[spec])
    text = (tmp_path / "run" / "01_scenarios.jsonl").read_text(encoding="utf-8")

    assert '"name":"{{ 7*7 }}"' in text
    assert '"49"' not in text


def test_a_scenario_nobody_has_heard_of_gives_a_full_dataset(tmp_path: Path):
    path = Path(__file__).parent / "data" / "smart_home.yaml"
    sizes = make_run(tmp_path / "run", scenarios=[str(path)], users=4, platforms_per_scenario=3)
    made = Made.read(tmp_path / "run")

    assert sum(sizes.values()) == 24
    assert {"turn_on_lights", "set_thermostat", "lock_doors", "schedule_cleaning"} <= {s.capability for s in made.samples}
    assert len({s.query for s in made.samples}) == 24


def test_after_sigkill_nothing_is_paid_twice_and_the_bytes_are_the_same(pristine: Made, tmp_path: Path):
    port = _free_port()
    server = [sys.executable, "-m", "pipelines.cli", "offline-server", "--port", str(port), "--latency-ms", "30"]
    process = subprocess.Popen(server, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        script = (
            "import sys; from pathlib import Path; sys.path.insert(0, 'tests'); from making import make_run;"
            "make_run(Path(sys.argv[1]), model='openai:offline', limits={'concurrency': 4})"
        )
        environment = {**os.environ, "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"}
        command = [sys.executable, "-c", script, str(tmp_path / "run")]
        ledger = tmp_path / "run" / "ledger.sqlite"
        for wanted in (10, 40, 60):
            child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            while child.poll() is None and not (ledger.exists() and _rows(ledger) >= wanted):
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
            child.wait()
        subprocess.run(command, env=environment, check=True)
        stats = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/stats").read())
    finally:
        process.terminate()
        process.wait()

    assert stats["duplicates"] <= 3 * 4  # at most what was in flight at each kill
    assert stats["requests"] - stats["duplicates"] == _rows(ledger)
    for name in STAGES:
        assert (tmp_path / "run" / f"{name}.jsonl").read_bytes() == (pristine.root / f"{name}.jsonl").read_bytes()
    for split in ("train", "test_trained_users", "test_untrained_users"):
        one, other = tmp_path / "run" / "splits" / f"{split}.jsonl", pristine.root / "splits" / f"{split}.jsonl"
        assert one.read_bytes() == other.read_bytes()


def _rows(ledger: Path) -> int:
    import sqlite3

    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
            return int(connection.execute("select count(*) from replies").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(400):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/stats").read()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the offline server did not start")
