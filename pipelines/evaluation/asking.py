"""One request to the model under test: its messages or raw prompt, and what its reply becomes."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from pipelines.errors import ConfigError
from pipelines.evaluation.seen import Seen, Setting
from pipelines.evaluation.templates import Template
from pipelines.jsonio import dumps
from pipelines.llm import prompts
from pipelines.llm.completions import Completion, Completions, Endpoint

MODES = ("text", "tools", "json")


@dataclass(frozen=True)
class Solver:
    """Everything that decides what a solver is asked and how it may answer; recorded in `solver.json`."""

    model: str
    """A built-in solver, `offline` (skill by `offline:0.5`), or `openai:<model>`."""
    mode: str = "text"
    endpoint: str = "chat"
    template: str = ""
    """Of raw prompts: a family or a file."""
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int = 0
    repeats: int = 1
    setting: Setting = field(default_factory=Setting)

    @property
    def name(self) -> str:
        """What tables call it: the model, and whatever is not as usual."""
        usual = Setting()
        parts = [self.model] + ([self.mode] if self.mode != "text" else []) + ([self.template] if self.template else [])
        parts += [f"{k}={v}" for k, v in asdict(self.setting).items() if v != getattr(usual, k)]
        return " ".join(parts)

    def check(self) -> None:
        """Find what cannot work before anything is asked.

        Raises:
            ConfigError: naming the option.
        """
        if self.endpoint == "completions" and (not self.template or self.mode == "tools"):
            raise ConfigError("--endpoint completions: needs --template, and --mode text or json")
        if not 0 <= self.temperature <= 2 or not 1 <= self.max_tokens <= 100_000 or not 1 <= self.repeats <= 100:
            raise ConfigError("write --temperature from 0 to 2, --max-tokens from 1 to 100000, --repeats from 1 to 100")
        if min(self.setting.shots, self.setting.retrieve, self.setting.distractors) < 0 or self.setting.shots > 50:
            raise ConfigError("write --shots from 0 to 50, and --retrieve and --distractors from 0")


def prompt_of(solver: Solver) -> prompts.Prompt:
    """The prompt of a mode: `prompts/evaluation/<mode>.md`."""
    return prompts.load(solver.mode, prompts.PROMPTS / "evaluation")


class Request:
    """One request of one solver."""

    def __init__(self, solver: Solver, prompt: prompts.Prompt, template: Template | None, seen: Seen, repeat: int) -> None:
        self._solver = solver
        self._prompt = prompt
        self._template = template
        self._seen = seen
        self._repeat = repeat
        self._tools = _native(seen.tools) if solver.mode == "tools" else {}

    async def answer(self, completions: Completions) -> dict[str, Any]:
        """The fields of a prediction: `predict`, `finish`."""
        completion = await self._complete(completions, self.body())
        if completion.finish == "rejected" and self._solver.mode == "json" and self._solver.endpoint == "chat":
            completion = await self._complete(completions, {k: v for k, v in self.body().items() if k != "response_format"})
        return {"predict": self._text(completion), "finish": completion.finish}

    async def _complete(self, completions: Completions, body: dict[str, Any]) -> Completion:
        kind: Endpoint = "completions" if self._solver.endpoint == "completions" else "chat"
        return await completions.complete(
            kind,
            body,
            subject=self._seen.id,
            prompt=self._prompt.ref,
            repeat=self._repeat,
        )

    def body(self) -> dict[str, Any]:
        """The request without the model."""
        solver, seen = self._solver, self._seen
        tools = seen.tools
        if solver.mode == "tools" and isinstance(tools, list):
            tools = [{k: v for k, v in platform.items() if k != "apis"} for platform in tools]
        messages = self._prompt.render(
            tools=tools, person=seen.person, history=seen.history, examples=seen.examples, asked_at=seen.asked_at, query=seen.query
        )
        body: dict[str, Any] = {
            "temperature": solver.temperature,
            "max_tokens": solver.max_tokens,
            "seed": (solver.seed + 7919 * self._repeat) % 2**31,
        }
        if self._template is not None:
            return {"prompt": self._template.render(messages), "stop": list(self._template.stop)[:4], **body}
        body["messages"] = messages
        if solver.mode == "json":
            body["response_format"] = {"type": "json_object"}
        if solver.mode == "tools":
            body["tools"] = [
                {"type": "function", "function": {"name": n, "description": a.get("description") or "", "parameters": _parameters(a)}}
                for n, (_, a) in self._tools.items()
            ]
        return body

    def _text(self, completion: Completion) -> str:
        """The prediction as text; native calls become a JSON list whose names say the platform."""
        if not completion.calls:
            return completion.text
        calls = []
        for call in completion.calls:
            platform, api = self._tools.get(call["name"], ("", {"name": call["name"]}))
            name = f"{platform}__{api['name']}" if platform else call["name"]
            calls.append({"name": name, "arguments": _arguments(call["arguments"])})
        return dumps(calls)


def _arguments(text: str) -> Any:
    """Arguments as an object, or the text that is none."""
    try:
        value = json.loads(text) if text.strip() else {}
        dumps(value)
    except (ValueError, RecursionError):
        return text
    return value


def _parameters(api: dict[str, Any]) -> dict[str, Any]:
    found = api.get("parameters")
    return dict(found) if isinstance(found, dict) and found else {"type": "object", "properties": {}}


def _native(tools: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Function name -> platform and API. Names are `<platform>__<api>`, in the characters and length that endpoints take.

    Raises:
        ConfigError: for tools in a shape that has no functions.
    """
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    if isinstance(tools, list):
        for platform in tools:
            for api in (platform.get("apis") or []) if isinstance(platform, dict) else []:
                name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{platform['name']}__{api['name']}")[:64]
                while name in found:
                    name = f"{name[:60]}_{len(found)}"
                found[name] = platform["name"], api
    if not found:
        raise ConfigError("--mode tools: the data's tools are no list of functions with names; use --mode text")
    return found
