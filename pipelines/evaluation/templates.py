"""Prompt templates for endpoints that take raw text: the published families, and any Hugging Face chat template by path.

Templates run in a sandbox without attributes of their data; one that loops or grows too long is stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from pipelines.errors import ConfigError

HERE = Path(__file__).parent / "chat_templates"
MAX_TEMPLATE = 200_000
MAX_PROMPT = 20_000_000


@dataclass(frozen=True)
class Family:
    """How one family of models writes a conversation."""

    file: str
    bos: str
    eos: str
    stop: tuple[str, ...]
    """Texts that end an answer."""


FAMILIES: dict[str, Family] = {
    "qwen": Family("qwen", "", "<|im_end|>", ("<|im_end|>", "<|endoftext|>")),
    "hammer": Family("qwen", "", "<|im_end|>", ("<|im_end|>", "<|endoftext|>")),  # Hammer 2.1 is tuned from Qwen 2.5
    "llama3": Family("llama3", "<|begin_of_text|>", "<|eot_id|>", ("<|eot_id|>", "<|end_of_text|>")),
    "mistral": Family("mistral", "<s>", "</s>", ("</s>",)),
    "xlam": Family("mistral", "<s>", "</s>", ("</s>",)),  # xLAM-7b-r is tuned from Mistral 7B
    "deepseek": Family("deepseek", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", ("<｜end▁of▁sentence｜>",)),
}


class Template:
    """One chat template: `qwen`, ... or the path of a `.jinja` file or of a `tokenizer_config.json`.

    Raises:
        ConfigError: when it is not there or no template.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name in FAMILIES:
            family = FAMILIES[name]
            self.bos, self.eos, self.stop = family.bos, family.eos, family.stop
            text = (HERE / f"{family.file}.jinja").read_text(encoding="utf-8")
        else:
            text, self.bos, self.eos = _from_file(Path(name))
            self.stop = (self.eos,) if self.eos else ()
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
        environment.globals["raise_exception"] = _raise
        try:
            self._template = environment.from_string(text)
        except jinja2.TemplateError as error:
            raise ConfigError(f"--template {name}: {error}; write a Hugging Face chat template") from None

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt, ending where the assistant begins.

        Raises:
            ConfigError: when the template refuses these messages.
        """
        pieces: list[str] = []
        size = 0
        try:
            for piece in self._template.generate(
                messages=[dict(message) for message in messages], add_generation_prompt=True, bos_token=self.bos, eos_token=self.eos
            ):
                size += len(piece)
                if size > MAX_PROMPT:
                    raise ConfigError(f"--template {self.name}: renders more than {MAX_PROMPT:,} characters")
                pieces.append(piece)
        except (jinja2.TemplateError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ConfigError(f"--template {self.name}: cannot render: {error}") from None
        return "".join(pieces)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _from_file(path: Path) -> tuple[str, str, str]:
    if not path.is_file():
        raise ConfigError(f"--template {path}: no such file; write one of {', '.join(FAMILIES)}, or the path of a template")
    text = path.read_text(encoding="utf-8", errors="replace")
    bos = eos = ""
    if path.suffix == ".json":
        try:
            config = json.loads(text)
            text = config["chat_template"]
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"--template {path}: has no chat_template") from None
        if isinstance(text, list):
            text = next((one["template"] for one in text if one.get("name") == "default"), "")
        bos, eos = _token(config.get("bos_token")), _token(config.get("eos_token"))
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEMPLATE:
        raise ConfigError(f"--template {path}: is empty or longer than {MAX_TEMPLATE:,} characters")
    return text, bos, eos


def _token(value: Any) -> str:
    return str(value.get("content", "")) if isinstance(value, dict) else str(value or "")
