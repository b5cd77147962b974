"""The tiny run, for tests that need people and tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from making import Made


@pytest.fixture(scope="session")
def run_folder(tiny: Made) -> Path:
    """A finished run of the tiny preset. Tests may read it only."""
    return tiny.root


@pytest.fixture(scope="session")
def split(run_folder: Path) -> Path:
    """Its test split of untrained users."""
    return run_folder / "splits" / "test_untrained_users.jsonl"
