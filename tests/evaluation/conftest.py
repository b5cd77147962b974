"""The tiny run, for tests that need people and tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from making import Made

from pipelines.jsonio import write_lines


@pytest.fixture(scope="session")
def run_folder(tiny: Made) -> Path:
    """A finished run of the tiny preset. Tests may read it only."""
    return tiny.root


@pytest.fixture(scope="session")
def single_calls(tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples with one call, nothing overridden and nothing repeated: what the offline solver was built for."""
    root = Path(shutil.copytree(tiny.root, tmp_path_factory.mktemp("single") / "run"))
    path = root / "splits" / "single_calls.jsonl"
    wanted = [
        s
        for s in tiny.split_samples()
        if len(s.calls) == 1 and s.control is None and all(x.kind != "history" for x in s.calls[0].sources.values())
    ]
    write_lines(path, wanted)
    return path


@pytest.fixture(scope="session")
def split(run_folder: Path) -> Path:
    """Its test split of untrained users."""
    return run_folder / "splits" / "test_untrained_users.jsonl"
