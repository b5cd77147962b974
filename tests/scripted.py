"""A model that answers what a test tells it to, for stages that ask only through `ask`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from pipelines import config
from pipelines.config import RunConfig
from pipelines.errors import ReplyError
from pipelines.stage import Context


class Scripted:
    """Answers by prompt name: a reply as JSON values, made from the prompt's values."""

    def __init__(self, **answers: Callable[[dict[str, Any]], Any]) -> None:
        self.answers = {name.replace("__", "."): answer for name, answer in answers.items()}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, prompt: Any, values: Any, reply: Any, *, stage: str, subject: str, repeat: int = 0) -> tuple[Any, str]:
        self.asked.append((prompt.name, {**values, "repeat": repeat}))
        try:
            return reply.model_validate(self.answers[prompt.name]({**values, "repeat": repeat})), ""
        except ValidationError as error:
            raise ReplyError("invalid_reply", str(error)) from None


def settings(**overrides: object) -> RunConfig:
    """The tiny preset with changes."""
    return config.load("tiny", None, overrides)[0]


def context(llm: Scripted, **overrides: object) -> Context:
    """What a stage gets."""
    return Context(settings(**overrides), llm)  # type: ignore[arg-type]
