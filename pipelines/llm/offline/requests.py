"""The offline model as the user, the assistant and the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from pipelines import normal
from pipelines.llm.offline import generic
from pipelines.llm.offline.concepts import Reading
from pipelines.llm.offline.wording import (
    Ability,
    Fact,
    Market,
    deed,
    read_capability,
    read_facts,
    read_situation,
    request,
    values_for,
)
from pipelines.world import Leaf, leaves, statable, unflatten

if TYPE_CHECKING:
    from pipelines.llm.offline.model import Call

TODAY = date(2026, 3, 2)
FOR_OTHERS = (
    ", on behalf of a neighbour",
    ", as a one-time favour for a colleague",
    ", for a cousin who had asked for it",
    ", for someone from the club, just this once",
    ", because an aunt could not do it herself",
)
UNDONE = (
    "; took it back a few days later",
    "; undid it the next day",
    "; called it off afterwards",
    "; had it reversed in the end",
)


def _facts(market: Market, capability: str, found: Sequence[Leaf]) -> list[Fact]:
    return [market.fact(capability, leaf.path, leaf.description, leaf.schema) for leaf in found]


def _capability_of(market: Market, platform: str, api: Mapping[str, Any]) -> str:
    """Which capability an API serves, from its name where it is known, else from its words."""
    for _, text in market.capabilities:
        if text is not None and platform in text.apis and text.apis[platform].name == api["name"]:
            return text.name
    mine = _stems(f"{' '.join(generic.words_of(api['name']))} {api['description']}")
    scored = [(_overlap(mine, _stems(f"{c['name']} {c['description']}")), str(c["name"])) for c in market.scenario["capabilities"]]
    return max(scored)[1]


def _stems(text: str) -> set[str]:
    return {normal.stem(word) for word in normal.words(text)}


def _overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


def simulate(call: Call) -> dict[str, Any]:
    """Answer to `histories.simulate`."""
    market = Market(call.blocks["scenario"], call.language)
    tools = {(p["name"], a["name"]): a for p in call.blocks["tools"] for a in p["apis"]}
    basic = call.blocks["person"]["basic_features"]
    rng = call.rng
    told = []
    used: set[str] = set()
    for event in call.blocks["events"]:
        api = tools[event["platform"], event["api"]]
        capability = _capability_of(market, event["platform"], api)
        text = next((str(c["description"]) for c in market.scenario["capabilities"] if c["name"] == capability), "")
        chosen = [leaf for leaf in leaves(api["parameters"]) if leaf.required or rng.random() < 0.3]
        facts = _facts(market, capability, chosen)
        day = datetime.fromisoformat(event["time"]).date()
        situation = market.situation(event["context"])
        for _ in range(4):  # a person does not write the same line twice
            values = values_for(rng, facts, situation.name, day, fixed=basic)
            summary = deed(rng, market.ability(capability, text), values, situation)
            if event.get("for_somebody_else"):
                summary += rng.choice(FOR_OTHERS)
            if event.get("undone"):
                summary += rng.choice(UNDONE)
            if summary not in used:
                break
        used.add(summary)
        flat = {fact.path: _shaped(values[fact.slot].argument, leaf) for fact, leaf in zip(facts, chosen, strict=True)}
        if call.slips("broken_event"):
            call.made("broken_event", str(event["number"]))
            flat = {**flat, "comment_for_support": "none"}
        told.append({"number": event["number"], "api": event["api"], "arguments": unflatten(flat), "summary": summary})
    return {"events": told}


TELLING = (
    "prefer",
    "favourite shop",
    "favourite app",
    "what matters",
    "cares about",
    "since they are",
    "because it is",
    "because they are",
)
"""How a line gives a preference away, as far as the offline judge can tell."""


def judge_history(call: Call) -> dict[str, Any]:
    """Answer to `histories.judge`: lines in which a phrase of preference stands."""
    telling = []
    for line in call.blocks["lines"]:
        told = next((phrase for phrase in TELLING if phrase in line["line"].lower()), None)
        if told is not None:
            telling.append({"number": line["number"], "reason": f"says {told.strip()!r}"})
    return {"telling": telling}


def _shaped(value: Any, leaf: Leaf) -> Any:
    """A value in the JSON type that the schema wants."""
    kind = leaf.schema.get("type")
    if not statable(leaf.schema):
        return _example(value, leaf.schema)
    if kind == "string" and not isinstance(value, str):
        return str(value)
    if kind == "array" and not isinstance(value, list):
        return [value]
    if kind == "integer" and isinstance(value, float):
        return int(value)
    return value


def _example(value: Any, schema: Mapping[str, Any]) -> Any:
    """A small value of a schema that no sentence could state: an object, or a list of objects."""
    if schema.get("type") == "array":
        items = schema.get("items")
        return [_example(value, items if isinstance(items, dict) else {})]
    if schema.get("type") == "object" or "properties" in schema:
        inner = schema.get("properties") or {}
        return {name: _example(value, part) for name, part in inner.items() if isinstance(part, dict)} or {"label": str(value)}
    if schema.get("enum"):
        return schema["enum"][0]
    number = schema.get("minimum", 1)
    plain = {"integer": int(number), "number": number, "boolean": True}
    return plain.get(str(schema.get("type")), str(value))


def write(call: Call) -> dict[str, Any]:
    """Answer to `queries.write`: the user agent."""
    market = Market(call.blocks["scenario"], call.language)
    basic = call.blocks["person"]["basic_features"]
    rng = call.rng
    answers = []
    for slot in call.blocks["requests"]:
        ability = market.ability(slot["capability"], slot["wants"])
        facts = [market.fact(slot["capability"], f["name"], f["description"], f["schema"]) for f in slot["state"]]
        today = datetime.fromisoformat(slot["asked_at"]).date()
        text = request(rng, ability, facts, market.situation(slot["context"]), today, call.language)
        if call.slips("platform_named"):
            call.made("platform_named", slot["slot"])
            text = f"{text} Please do it on {rng.choice(call.blocks['platforms'])['name']}."
        elif slot["leave_out"] and call.slips("leaked_value"):
            told = [str(v) for k, v in basic.items() if k in ("home_address", "phone", "email", "home_city") and v]
            if told:
                call.made("leaked_value", slot["slot"])
                text = f"{text} You know me: {', '.join(told)}."
        elif call.slips("stated_preference"):
            words = next((p["words"] for p in call.blocks["person"]["preferences"] if p["context"] == slot["context"]), "")
            if words:
                call.made("stated_preference", slot["slot"])
                text = f"{text} {words}"
        answers.append({"slot": slot["slot"], "text": text})
    return {"queries": answers}


def solve(call: Call) -> dict[str, Any]:
    """Answer to `solutions.solve`: the assistant agent."""
    market = Market(call.blocks["scenario"], call.language)
    text, platforms = call.blocks["query"], call.blocks["tools"]
    today = datetime.fromisoformat(call.blocks["asked_at"]).date()
    platform = _preferred(call, market, text, platforms)
    if call.slips("wrong_platform"):
        call.made("wrong_platform")
        platform = call.rng.choice([p for p in platforms if p is not platform])
    capability = read_capability(text, market) or ""
    api = _api_for(market, platform, capability, text)
    ability = _ability(market, capability)
    found = leaves(api["parameters"])
    facts = _facts(market, capability, found)
    read = read_facts(text, ability, facts, today)
    flat, sources = _arguments(call, text, found, facts, read)
    _slip(call, flat, sources, found)
    answer = {"api": api["name"], "arguments": unflatten(flat), "sources": [{"path": p, **s} for p, s in sources.items()]}
    return {"platform": platform["name"], "calls": [answer]}


def _ability(market: Market, capability: str) -> Ability:
    description = next((str(c["description"]) for c in market.scenario["capabilities"] if c["name"] == capability), "")
    return market.ability(capability, description)


def _preferred(call: Call, market: Market, text: str, platforms: list[dict[str, Any]]) -> dict[str, Any]:
    """The platform that the person's words for this situation point to."""
    preferences = call.blocks["person"]["preferences"]
    situation = read_situation(text, market)
    wish = next((p for p in preferences if p["context"] == situation), None) or call.rng.choice(preferences)
    worth = (0.6, 0.28, 0.12, 0.05)
    return max(
        platforms,
        key=lambda p: sum(w * p["traits"][t]["level"] for w, t in zip(worth, wish["priorities"], strict=False) if t in p["traits"]),
    )


def _api_for(market: Market, platform: dict[str, Any], capability: str, text: str) -> dict[str, Any]:
    for _, known in market.capabilities:
        if known is not None and known.name == capability and platform["name"] in known.apis:
            wanted = known.apis[platform["name"]].name
            for api in platform["apis"]:
                if api["name"] == wanted:
                    return dict(api)
    description = next((str(c["description"]) for c in market.scenario["capabilities"] if c["name"] == capability), text)
    mine = _stems(f"{capability} {description}")

    def fits(api: dict[str, Any]) -> float:
        return _overlap(mine, _stems(f"{' '.join(generic.words_of(api['name']))} {api['description']}"))

    return max(platform["apis"], key=fits)


def _arguments(
    call: Call, text: str, found: Sequence[Leaf], facts: Sequence[Fact], read: Mapping[str, Reading]
) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """What the request states, and for required arguments what the person's facts give."""
    basic = call.blocks["person"]["basic_features"]
    flat: dict[str, Any] = {}
    sources: dict[str, dict[str, str]] = {}
    for leaf, fact in zip(found, facts, strict=True):
        reading = read.get(leaf.path)
        if reading is not None:
            flat[leaf.path] = _shaped(reading.argument, leaf)
            sources[leaf.path] = {"kind": "query", "at": text[reading.start : reading.end]}
        elif leaf.required:
            feature = fact.concept.feature or next((k for k in basic if k == leaf.path.lower()), None)
            if feature is not None and feature in basic:
                flat[leaf.path] = basic[feature]
                sources[leaf.path] = {"kind": "profile", "at": feature}
            elif "default" in leaf.schema:
                flat[leaf.path] = leaf.schema["default"]
                sources[leaf.path] = {"kind": "default", "at": ""}
    return flat, sources


def _slip(call: Call, flat: dict[str, Any], sources: dict[str, dict[str, str]], found: Sequence[Leaf]) -> None:
    """The assistant's planted mistakes, at most one per answer."""
    rng = call.rng
    if call.slips("invented_parameter"):
        call.made("invented_parameter")
        flat["express_lane"] = True
        sources["express_lane"] = {"kind": "default", "at": ""}
    elif flat and call.slips("missing_argument"):
        call.made("missing_argument")
        path = rng.choice(list(flat))
        del flat[path], sources[path]
    elif flat and call.slips("wrong_value"):
        path = rng.choice(list(flat))
        schema = next(leaf.schema for leaf in found if leaf.path == path)
        value = flat[path]
        wrong: Any = None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            wrong = value + rng.choice([1, 10, -1])
        elif isinstance(value, str) and "enum" not in schema:
            wrong = f"{value} deluxe" if "format" not in schema and "pattern" not in schema else None
        if wrong is not None:
            call.made("wrong_value")
            flat[path] = wrong
    elif flat and call.slips("wrong_source"):
        call.made("wrong_source")
        path = rng.choice(list(flat))
        sources[path] = {"kind": "history", "at": "e01"}


def judge(call: Call) -> dict[str, Any]:
    """Answer to `verify.judge`."""
    text, basic = call.blocks["query"], call.blocks["facts"]
    asked = datetime.fromisoformat(call.blocks["asked_at"]).date()
    known = {tool["name"]: tool for tool in call.blocks["tools"]}
    for made in call.blocks["solution"]["calls"]:
        tool = known.get(made["api"])
        if tool is None:
            return {"reason": f"There is no tool {made['api']}.", "verdict": "fail"}
        for value in _values(made["arguments"]):
            if not _supported(value, text, basic, asked):
                return {"reason": f"Neither the request nor the facts support {value!r}.", "verdict": "fail"}
    if call.slips("judge_too_strict"):
        call.made("judge_too_strict")
        return {"reason": "The answer could have asked for more detail.", "verdict": "fail"}
    count = sum(len(list(_values(made["arguments"]))) for made in call.blocks["solution"]["calls"])
    return {
        "reason": f"All {count} values are stated in the request or known of the person, and the call does what is asked.",
        "verdict": "pass",
    }


def _values(arguments: Any) -> list[Any]:
    if isinstance(arguments, dict):
        return [inner for value in arguments.values() for inner in _values(value)]
    if isinstance(arguments, list):
        return [inner for value in arguments for inner in _values(value)]
    return [arguments]


def _supported(value: Any, text: str, basic: Mapping[str, Any], asked: date) -> bool:
    if isinstance(value, bool) or any(value == fact for fact in basic.values()):
        return True
    if isinstance(value, (int, float)):
        return any(abs(float(str(f.value)) - value) < 1e-9 for f in normal.find_numbers(text))
    low = normal.fold(text)
    if normal.fold(str(value)) in low:
        return True
    if any(f.value == value for f in normal.find_times(text)):
        return True
    return any(isinstance(f.value, date) and f.value.isoformat() == value for f in normal.find_dates(text, asked))
