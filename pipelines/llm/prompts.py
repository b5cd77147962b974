"""Prompts: Markdown files with a checked header. The only module that reads `prompts/`.

A prompt has a `## System` and a `## User` part. What is shared between calls (tools first, then the
user, then the single request) comes first, so that providers' prefix caches work. Data goes in
through the `json` filter only: as JSON between tags, with angle brackets escaped, so that no text in
the data can close its tag or be taken for a template.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import jinja2
import jinja2.meta
import jinja2.sandbox
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.config import ROOT
from pipelines.errors import ConfigError
from pipelines.jsonio import digest, dumps

PROMPTS = ROOT / "prompts"
SCHEMA_NAMED = {
    "en": "Answer with one JSON object that fits the schema `{name}`.",
    "zh": "请只用一个 JSON 对象作答，它须符合模式 `{name}`。",
}
"""Language -> the last sentence of the system part. The offline model knows from it what is asked, and in which language."""
REPAIR = {
    "en": "That reply cannot be used: {problem}\nSend the whole corrected JSON object.",
    "zh": "这个回答无法使用：{problem}\n请发送改正后的完整 JSON 对象。",
}
Reader = Literal["writer", "assistant", "judge", "solver", "builder"]


class Block(str):
    """JSON that was dumped once and is shared by many prompts."""

    __slots__ = ()


def block(value: Any) -> Block:
    """JSON for a prompt: no character in it can close a tag."""
    text = dumps(value)
    return Block(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


class Header(BaseModel):
    """What stands between the `---` lines of a prompt file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    purpose: str
    version: int
    variables: list[str]
    reply: str
    """Path of the reply schema, `schemas/replies/<name>.json`."""
    sees: Reader
    """Which facts may go in: `builder` none of a user, `writer` and `assistant` hidden preferences in words,
    `judge` and `solver` only what the solver sees."""


class Prompt:
    """One loaded prompt."""

    def __init__(self, name: str, header: Header, system: str, user: str, text: str, language: str = "en") -> None:
        self.name = name
        self.language = language
        self.header = header
        self.ref = f"{name}@{header.version}-{digest(text)[:8]}"
        self._system = _ENVIRONMENT.from_string(system)
        self._user = _ENVIRONMENT.from_string(user)

    def render(self, **values: Any) -> list[dict[str, str]]:
        """The messages; values must be exactly the header's variables."""
        if set(values) != set(self.header.variables):
            raise ConfigError(f"prompt {self.name}: got {sorted(values)}, the header names {sorted(self.header.variables)}")
        return [
            {"role": "system", "content": self._system.render(values)},
            {"role": "user", "content": self._user.render(values)},
        ]


def _json_filter(value: Any) -> str:
    return value if isinstance(value, Block) else block(value)


_ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
)
_ENVIRONMENT.filters["json"] = _json_filter


@cache
def load(name: str, folder: Path = PROMPTS, language: str = "en") -> Prompt:
    """Read and check one prompt: `<name>.md` is English, `<language>/<name>.md` any other language.

    Raises:
        ConfigError: when the file is missing, or header and text disagree.
    """
    path = folder / f"{name}.md" if language == "en" else folder / language / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the prompt: {error.strerror}") from None
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise ConfigError(f"{path}: no header; begin with `---`, then purpose, version, variables, reply, sees, then `---`")
    try:
        header = Header.model_validate(yaml.safe_load(parts[1]))
    except (ValidationError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: header: {str(error).splitlines()[0]}") from None
    system, mark, user = parts[2].partition("\n## User\n")
    if not mark or "## System\n" not in system:
        raise ConfigError(f"{path}: write a `## System` and a `## User` part")
    try:
        used = jinja2.meta.find_undeclared_variables(_ENVIRONMENT.parse(parts[2]))
        prompt = Prompt(name, header, system.partition("## System\n")[2].strip(), user.strip(), text, language)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"{path}: line {error.lineno} of the text: {error.message}") from None
    if used != set(header.variables):
        raise ConfigError(f"{path}: header names variables {sorted(header.variables)}, the text uses {sorted(used)}")
    return prompt


def names(folder: Path = PROMPTS) -> list[str]:
    """All prompts, by name."""
    return sorted(path.stem for path in folder.glob("*.md") if path.stem != "README")
