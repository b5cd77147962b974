"""The offline model: answers every prompt of the pipeline from the words of the prompt alone.

It is no language model. It is a pure function of (its seed, the request): it reads the JSON between the
tags of a prompt as any model would, knows some scenarios from hand-written files, guesses at the rest,
and makes known mistakes at set rates. Each planted mistake is named in the response's `offline` field,
outside the reply itself, so that the gates of the pipeline can be measured against the truth.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pipelines.llm.offline import market_checks, markets, people_answers, requests, solving

RATES: dict[str, float] = {
    "bad_json": 0.004,
    "wrong_platform": 0.012,
    "invented_parameter": 0.008,
    "missing_argument": 0.008,
    "wrong_value": 0.008,
    "wrong_source": 0.004,
    "platform_named": 0.006,
    "leaked_value": 0.008,
    "stated_preference": 0.004,
    "off_plan": 0.004,
    "wrong_act": 0.004,
    "broken_event": 0.006,
    "judge_too_strict": 0.006,
}
"""How often each mistake is made: per reply, per query worded, or per event told."""

_TAGGED = re.compile(r"<(?P<tag>[a-z_]+)>\n(?P<json>.*?)\n</(?P=tag)>", re.DOTALL)
_SCHEMA = re.compile(r"(?:fits the schema|(?P<zh>须符合模式)) `(?P<name>[a-z_.]+)`")
"""The closing sentences of `prompts.SCHEMA_NAMED`: which question this is, and in which language."""


class Unanswerable(Exception):
    """The request is none of the pipeline's prompts."""


@dataclass
class Call:
    """One request as the handlers see it."""

    blocks: Mapping[str, Any]
    rng: random.Random
    language: str
    rates: Mapping[str, float]
    mistakes: list[str] = field(default_factory=list)

    def slips(self, mistake: str) -> bool:
        """Does the model make this mistake now?"""
        return self.rng.random() < self.rates.get(mistake, 0)

    def made(self, mistake: str, where: str = "") -> None:
        """Note a planted mistake."""
        self.mistakes.append(f"{where}:{mistake}" if where else mistake)


Handler = Callable[[Call], dict[str, Any]]
HANDLERS: dict[str, Handler] = {
    "tools.expand_scenario": markets.expand_scenario,
    "tools.expand_platform": markets.expand_platform,
    "tools.expand_apis": markets.expand_apis,
    "tools.judge_traits": market_checks.judge_traits,
    "tools.match_parameters": market_checks.match_parameters,
    "features.name_cluster": people_answers.name_cluster,
    "features.group": people_answers.group_features,
    "profiles.branch": people_answers.branch,
    "profiles.prefer": people_answers.prefer,
    "histories.simulate": requests.simulate,
    "histories.judge": requests.judge_history,
    "queries.write": requests.write,
    "solutions.solve": requests.solve,
    "verify.judge": requests.judge,
}


def answer(body: Mapping[str, Any], seed: int, rates: Mapping[str, float] = RATES) -> tuple[str, str]:
    """The reply text and the mistakes planted in it, joined by `;`.

    Raises:
        Unanswerable: when no schema of the pipeline is named in the messages.
    """
    messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
    texts = [str(message.get("content") or "") for message in messages]
    if solving.asked(texts):
        found = {m["tag"]: _parsed(m["json"]) for text in texts for m in _TAGGED.finditer(text) if m["tag"] != "example"}
        return solving.answer(body, texts, found, random.Random(_entropy(seed, body.get("seed"), texts))), ""
    named = _SCHEMA.search(texts[0]) if texts else None
    if named is None or named["name"] not in HANDLERS:
        raise Unanswerable("the offline model answers only the prompts of this pipeline")
    rng = random.Random(_entropy(seed, body.get("seed"), texts))
    blocks: dict[str, Any] = {}
    for text in texts[:2]:
        for match in _TAGGED.finditer(text):
            blocks[match["tag"]] = _parsed(match["json"])
    call = Call(blocks, rng, "zh" if named["zh"] else "en", rates)
    reply = json.dumps(HANDLERS[named["name"]](call), ensure_ascii=False)
    if len(texts) <= 2 and call.slips("bad_json"):
        call.mistakes = [*call.mistakes, "bad_json"]
        reply = reply[: rng.randrange(len(reply) // 2, len(reply))]
    return reply, ";".join(call.mistakes)


def _entropy(seed: int, request_seed: Any, texts: list[str]) -> int:
    state = hashlib.sha256(f"{seed} {request_seed}".encode())
    for text in texts:
        state.update(text.encode())
    return int.from_bytes(state.digest()[:8], "big")


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    """Parsed once per text: tools and people come again and again. Handlers do not change what they get."""
    return json.loads(text)
