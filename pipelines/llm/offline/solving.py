"""The offline model as the model under test: it answers the benchmark's prompts with as much skill as its name says.

It sees what any solver sees. Its platform comes from what the person did in like situations, its arguments from the same
reading that its assistant uses. `offline` has skill 0.8; `offline:0.3` in the request's model name has 0.3: every decision is
taken well with that chance, else at random, drawn from the request alone.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from pipelines.config import ROOT
from pipelines.llm.offline import knowledge, requests
from pipelines.llm.offline.wording import Market, read_capability, read_facts, read_situation
from pipelines.world import leaves, unflatten

SKILL = 0.8
_MARK = "You call tools for one person."
_NAME = re.compile(r"offline(?::(\d+(?:\.\d+)?))?")


def asked(texts: Sequence[str]) -> bool:
    """Is this one of the benchmark's prompts?"""
    return bool(texts) and _MARK in texts[0]


def skill_of(model: object) -> float:
    """The skill in a model's name, from 0 to 1."""
    found = _NAME.fullmatch(str(model))
    return min(1.0, float(found[1])) if found and found[1] else SKILL


def answer(body: Mapping[str, Any], texts: Sequence[str], blocks: Mapping[str, Any], rng: random.Random) -> str:
    """The reply: text, JSON, or for native tools a JSON object that `message` turns into tool calls."""
    tools = blocks.get("tools") or blocks.get("platforms")
    person, history = blocks.get("person"), blocks.get("history")
    platforms = _platforms(tools, body.get("tools"))
    if not platforms:
        return "none: I see no tools."
    skill = skill_of(body.get("model"))
    platform, api, arguments = solve(rng, skill, str(blocks.get("query")), str(blocks.get("asked_at") or ""), platforms, person, history)
    if rng.random() > skill + 0.9 * (1 - skill):
        return f"I would use {platform} for this."
    if body.get("tools"):
        name = next((n for n in _tool_names(body["tools"]) if n.endswith(f"__{api}") and _same(n, platform)), f"{platform}__{api}")
        return json.dumps({"tool_calls": [{"name": name, "arguments": arguments}]}, ensure_ascii=False)
    if '{"platform"' in texts[0]:
        return json.dumps({"platform": platform, "calls": [{"api": api, "arguments": arguments}]}, ensure_ascii=False)
    name = platform if platform.isidentifier() else repr(platform)
    return f"{name}:[{api}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"


def message(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The assistant message of a reply, with native tool calls where the request offered tools."""
    if body.get("tools") and text.startswith('{"tool_calls"'):
        calls = json.loads(text)["tool_calls"]
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{i}",
                    "type": "function",
                    "function": {**call, "arguments": json.dumps(call["arguments"], ensure_ascii=False)},
                }
                for i, call in enumerate(calls)
            ],
        }
    return {"role": "assistant", "content": text}


def _same(tool: str, platform: str) -> bool:
    return re.sub(r"\W", "_", platform).lower() == tool.partition("__")[0].lower()


def _tool_names(tools: Any) -> list[str]:
    return [str(t["function"]["name"]) for t in tools if isinstance(t, dict) and isinstance(t.get("function"), dict)]


def _platforms(shown: Any, native: Any) -> list[dict[str, Any]]:
    """Platforms with APIs, from the prompt, or put together from native tools."""
    listed = [p for p in shown if isinstance(p, dict) and "name" in p] if isinstance(shown, list) else []
    if native:
        for platform in listed:
            functions = [t["function"] for t in native if isinstance(t, dict) and _same(str(t["function"]["name"]), platform["name"])]
            platform = platform.setdefault("apis", [])
            platform[:] = [{**f, "name": f["name"].partition("__")[2], "description": f.get("description", "")} for f in functions]
    return [p for p in listed if p.get("apis")]


def solve(
    rng: random.Random, skill: float, query: str, asked_at: str, platforms: Sequence[dict[str, Any]], person: Any, history: Any
) -> tuple[str, str, dict[str, Any]]:
    """Platform, API and arguments for one request."""
    market = market_of(platforms)
    basic = person if isinstance(person, dict) and person else _facts_of_log(history)
    chosen = like_before(market, query, history, platforms) if rng.random() < skill else None
    platform = chosen or rng.choice(list(platforms))
    api = pick_api(market, platform, query) if rng.random() < skill + 0.5 * (1 - skill) else rng.choice(platform["apis"])
    arguments = fill(market, api, query, today_of(asked_at), basic)
    flat = dict(arguments)
    for path in list(flat):
        if rng.random() > skill + 0.7 * (1 - skill):
            if rng.random() < 0.5:
                del flat[path]
            elif isinstance(flat[path], str):
                flat[path] = f"{flat[path]} please"
    return str(platform["name"]), str(api["name"]), unflatten(flat)


@lru_cache(maxsize=64)
def _known(names: frozenset[str]) -> str | None:
    """The scenario that the offline model knows these platforms from."""
    for path in sorted((ROOT / "pipelines" / "llm" / "offline" / "en").glob("[a-z]*.yaml")):
        found = knowledge.load(path.stem, "en")
        if found is not None and names & {platform.name for platform in found.platforms}:
            return path.stem
    return None


def market_of(platforms: Sequence[dict[str, Any]]) -> Market:
    """What the offline model makes of the platforms it is shown: a market it knows, or one guessed from API names."""
    name = _known(frozenset(str(p["name"]) for p in platforms[:6]))
    known = knowledge.load(name, "en") if name else None
    if known is not None:
        capabilities = [{"name": c.name, "description": c.name.replace("_", " ")} for c in known.capabilities]
        contexts = [{"name": s.name, "description": s.phrase} for s in known.situations]
        return Market({"name": name, "capabilities": capabilities, "contexts": contexts}, "en")
    capabilities = [{"name": a["name"], "description": a.get("description") or a["name"]} for a in platforms[0]["apis"]]
    return Market({"name": "unknown", "capabilities": capabilities, "contexts": []}, "en")


def pick_api(market: Market, platform: dict[str, Any], query: str) -> dict[str, Any]:
    """The API of a platform that serves the request."""
    return requests._api_for(market, platform, read_capability(query, market) or "", query)


def fill(market: Market, api: Mapping[str, Any], query: str, today: date, basic: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted path -> argument, from the request, then for required ones from the person's features."""
    capability = read_capability(query, market) or ""
    found = leaves(api.get("parameters") or {})
    facts = requests._facts(market, capability, found)
    read = read_facts(query, requests._ability(market, capability), facts, today)
    flat: dict[str, Any] = {}
    for leaf, fact in zip(found, facts, strict=True):
        if leaf.path in read:
            flat[leaf.path] = requests._shaped(read[leaf.path].argument, leaf)
        elif leaf.required:
            feature = fact.concept.feature or leaf.path.lower()
            if feature in basic:
                flat[leaf.path] = basic[feature]
            elif "default" in leaf.schema:
                flat[leaf.path] = leaf.schema["default"]
    return flat


def like_before(market: Market, query: str, history: Any, platforms: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The platform that the person used most in situations like this one; in any, when the situation cannot be read."""
    situation = read_situation(query, market)
    here: Counter[str] = Counter()
    ever: Counter[str] = Counter()
    for name, summary, rating in events(history, platforms):
        weight = 0.25 if rating is not None and rating <= 2 else 1
        ever[name] += weight  # type: ignore[assignment]
        if situation is not None and _shows(market, situation, summary):
            here[name] += weight  # type: ignore[assignment]
    counts = here or ever
    best = max(counts, key=lambda name: (counts[name], ever[name], name), default=None)
    return next((p for p in platforms if p["name"] == best), None)


def _shows(market: Market, situation: str, summary: str) -> bool:
    low = summary.lower()
    if any(trace.lower() in low for trace in market.situation(situation).trace):
        return True
    return read_situation(summary, market) == situation


def events(history: Any, platforms: Sequence[dict[str, Any]]) -> list[tuple[str, str, int | None]]:
    """Platform, words and rating of what the person did, from events, lines or a raw log."""
    names = [str(platform["name"]) for platform in platforms]
    listed = history if isinstance(history, list) else str(history or "").splitlines()
    found = []
    for event in listed:
        if isinstance(event, dict):
            rating = event.get("rating")
            found.append((str(event.get("platform")), str(event.get("summary")), rating if isinstance(rating, int) else None))
        else:
            name = next((n for n in names if f" {n}:" in str(event) or f" {n} " in str(event)), None)
            rating_found = re.search(r"\((\d) of 5 stars\)|rating=(\d)", str(event))
            stars = int(rating_found[1] or rating_found[2]) if rating_found else None
            if name is not None:
                found.append((name, str(event), stars))
    return [event for event in found if event[0] in names]


def _facts_of_log(history: Any) -> dict[str, Any]:
    lines = str(history or "").splitlines() if isinstance(history, str) else []
    return dict(line.removeprefix("profile.").split(" = ", 1) for line in lines if line.startswith("profile.") and " = " in line)


def today_of(asked_at: str) -> date:
    """The day of the request; a fixed one when the data does not tell."""
    try:
        return datetime.fromisoformat(asked_at).date()
    except ValueError:
        return requests.TODAY
