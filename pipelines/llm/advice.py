"""What is allowed and unwise about the models of a config."""

from __future__ import annotations

import os

from pipelines.config import ModelSpec, RunConfig
from pipelines.llm.endpoint import OPENAI, unsafe_url


def warnings_of(config: RunConfig) -> list[str]:
    """One line each; nothing for the offline model, which is no language model."""
    found = []
    specs = {role: config.spec(role) for role in ("builder", "writer", "solver", "judge")}
    for url in sorted({_url(spec) for spec in specs.values() if spec.model != "offline"}):
        if unsafe_url(url):
            found.append(f"{url} is plain http to another machine: the key and all data travel in the clear; use https")
    judge = specs["judge"]
    if config.judge and judge.model != "offline":
        same = [role for role in ("writer", "solver") if specs[role].model == judge.model and _url(specs[role]) == _url(judge)]
        if same:
            found.append(f"{judge.model} judges what it made as {' and '.join(same)}: name another model in models.judge")
    if os.environ.get("OPENAI_API_BASE") and not os.environ.get("OPENAI_BASE_URL"):
        found.append("OPENAI_API_BASE is not read; set OPENAI_BASE_URL")
    return found


def _url(spec: ModelSpec) -> str:
    return spec.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
