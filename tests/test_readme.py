"""What the README shows is what a newcomer sees."""

from __future__ import annotations

import re
from pathlib import Path

from making import make_run

from pipelines import report
from pipelines.config import ROOT
from pipelines.run import load_run


def test_the_sample_and_the_rejection_of_the_readme_are_those_of_the_quick_preset(tmp_path: Path):
    make_run(tmp_path / "run", preset="quick")
    run = load_run(tmp_path / "run")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"`\.venv/bin/ptool show outputs/quick-seed7 (\S+) (\S+)`\n\n```\n(.*?)```", text, re.DOTALL)

    assert len(shown) == 2
    for stage, wanted, block in shown:
        (record,) = report.find(run, stage, wanted)
        assert report.describe(record).strip() == block.strip()
