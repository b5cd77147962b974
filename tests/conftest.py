"""Runs made once, without Prefect, that most tests read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from making import NO_MISTAKES, Made, make_run


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The tiny preset as users get it; no test writes into its folder."""
    root = tmp_path_factory.mktemp("tiny") / "run"
    make_run(root)
    return Made.read(root)


@pytest.fixture(scope="session")
def tiny(pristine: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A copy of it, in which tests may leave reports."""
    return Made.read(Path(shutil.copytree(pristine.root, tmp_path_factory.mktemp("copy") / "run")))


@pytest.fixture(scope="session")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two scenarios, three platforms, no planted mistakes: for planting our own."""
    root = tmp_path_factory.mktemp("varied") / "run"
    make_run(
        root,
        NO_MISTAKES,
        scenarios=["shopping", "travel"],
        platforms_per_scenario=3,
        apis_per_platform=12,
        users=4,
        samples={"train": 40, "test_trained_users": 6, "test_untrained_users": 10},
    )
    return Made.read(root)
