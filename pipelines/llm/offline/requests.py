"""The offline model as the user, the assistant and the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from pipelines import normal
from pipelines.llm.offline import generic, knowledge
from pipelines.llm.offline.concepts import Reading
from pipelines.llm.offline.wording import (
    Ability,
    Fact,
    Market,
    Wish,
    deed,
    how_well,
    read_again,
    read_capability,
    read_facts,
    read_situation,
    requests_in_one,
    split_requests,
    values_for,
)
from pipelines.normal import chinese
from pipelines.world import Leaf, flatten, leaves, statable, unflatten, weights_of

if TYPE_CHECKING:
    from pipelines.llm.offline.model import Call

TODAY = date(2026, 3, 2)


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
    rng, fixed = call.rng, knowledge.phrases(call.language)
    told = []
    used: set[str] = set()
    for event in call.blocks["events"]:
        api = tools[event["platform"], event["api"]]
        capability = _capability_of(market, event["platform"], api)
        text = next((str(c["description"]) for c in market.scenario["capabilities"] if c["name"] == capability), "")
        chosen = [leaf for leaf in leaves(api["parameters"]) if leaf.required or rng.random() < 0.3]
        facts = _facts(market, capability, chosen)
        day = datetime.fromisoformat(event["time"]).date()
        situation = market.situation_of(event["context"], basic)
        for _ in range(4):  # a person does not write the same line twice
            values = values_for(rng, facts, situation.name, day, fixed=basic)
            summary = deed(rng, market.ability(capability, text), values, situation)
            if event.get("for_somebody_else"):
                summary += rng.choice(fixed["for_others"])
            if event.get("undone"):
                summary += rng.choice(fixed["undone"])
            if summary not in used:
                break
        used.add(summary)
        flat = {fact.path: _shaped(values[fact.slot].argument, leaf) for fact, leaf in zip(facts, chosen, strict=True)}
        if call.slips("broken_event"):
            call.made("broken_event", str(event["number"]))
            flat = {**flat, "comment_for_support": "none"}
        told.append({"number": event["number"], "api": event["api"], "arguments": unflatten(flat), "summary": summary})
    return {"events": told}


def judge_history(call: Call) -> dict[str, Any]:
    """Answer to `histories.judge`: lines in which a phrase of preference stands."""
    telling, fixed = [], knowledge.phrases(call.language)
    for line in call.blocks["lines"]:
        told = next((phrase for phrase in fixed["telling"] if phrase in line["line"].lower()), None)
        if told is not None:
            telling.append({"number": line["number"], "reason": fixed["says"].format(told=repr(told))})
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
    rng, fixed = call.rng, knowledge.phrases(call.language)
    answers = []
    for slot in call.blocks["requests"]:
        parts = [slot, *slot.get("then", [])]
        if call.slips("off_plan"):
            call.made("off_plan", slot["slot"])
            parts = [{**rng.choice(market.scenario["capabilities"]), "state": [], "off": True}]
        today = datetime.fromisoformat(slot["asked_at"]).date()
        wishes = [_wish(market, part) for part in parts]
        text = requests_in_one(
            rng, wishes, market.situation_of(slot["context"], basic), today, call.language, slot.get("tone"), slot.get("length", "medium")
        )
        if slot.get("name_platform"):
            text += fixed["marks"]["gap"] + rng.choice(fixed["namings"]).format(slot["name_platform"])
        if call.slips("platform_named"):
            call.made("platform_named", slot["slot"])
            others = [p["name"] for p in call.blocks["platforms"] if p["name"] != slot.get("name_platform")]
            text += fixed["named"].format(platform=rng.choice(others))
        elif slot["leave_out"] and call.slips("leaked_value"):
            told = [str(v) for k, v in basic.items() if k in ("home_address", "phone", "email", "home_city") and v]
            if told:
                call.made("leaked_value", slot["slot"])
                text += fixed["told"].format(values=fixed["marks"]["comma"].join(told))
        elif call.slips("stated_preference"):
            words = next((p["words"] for p in call.blocks["person"]["preferences"] if p["context"] == slot["context"]), "")
            if words:
                call.made("stated_preference", slot["slot"])
                text += fixed["marks"]["gap"] + words
        answers.append({"slot": slot["slot"], "text": text})
    return {"queries": answers}


def _wish(market: Market, part: Mapping[str, Any]) -> Wish:
    name = str(part["name"] if part.get("off") else part["capability"])
    facts = [market.fact(name, f["name"], f["description"], f["schema"]) for f in part["state"]]
    return Wish(market.ability(name, str(part.get("wants") or part.get("description") or name)), facts, part.get("as_last_time", ()))


CLOSE_CALL = 0.05
"""Two platforms whose worth differs by less are about equally good, as the assistant understands its prompt."""


def solve(call: Call) -> dict[str, Any]:
    """Answer to `solutions.solve`: the assistant agent."""
    market = Market(call.blocks["scenario"], call.language)
    text, platforms = call.blocks["query"], call.blocks["tools"]
    today = datetime.fromisoformat(call.blocks["asked_at"]).date()
    pieces, fixed = split_requests(text, call.language), knowledge.phrases(call.language)
    if not any(how_well(piece, ability) for piece in pieces for ability, _ in market.capabilities):
        return {"act": "none", "platform": "", "calls": []}
    named = [p for p in platforms if normal.contains(normal.fold(text), normal.fold(str(p["name"])))]
    platform, ahead = (named[0], 1.0) if len(named) == 1 else _preferred(call, market, text, platforms)
    slips = [name for name in ("wrong_platform", "wrong_act") if call.slips(name)]
    answers, missing = _answers(call, market, platform, pieces, today)
    if missing:
        what = _asked_for(platform, missing, call.language)
        return {"act": "ask", "missing": missing[:8], "question": fixed["ask_more"].format(what=what)}
    if ahead < CLOSE_CALL:
        return {"act": "ask", "missing": ["platform"], "question": fixed["ask_platform"]}
    if "wrong_platform" in slips:
        call.made("wrong_platform")
        platform = call.rng.choice([p for p in platforms if p is not platform])
        answers, _ = _answers(call, market, platform, pieces, today)
    elif "wrong_act" in slips:
        call.made("wrong_act")
        return {"act": "ask", "missing": ["platform"], "question": fixed["ask_rashly"]}
    flat, sources, found = answers[0][1:]
    _slip(call, flat, sources, found)
    made = [
        {"api": api["name"], "arguments": unflatten(flat), "sources": [{"path": p, **s} for p, s in sources.items()]}
        for api, flat, sources, _ in answers
    ]
    return {"act": "call", "platform": platform["name"], "calls": made}


def _asked_for(platform: Mapping[str, Any], missing: Sequence[str], language: str) -> str:
    """What an assistant names when it asks: parameters by their names in English, else by their descriptions."""
    if language == "en":
        return ", ".join(entry.rpartition("#")[2].replace("_", " ") for entry in missing)
    told = {
        f"{platform['name']}#{api['name']}#{leaf.path}": leaf.description for api in platform["apis"] for leaf in leaves(api["parameters"])
    }
    return "、".join(told[entry].strip().rstrip(".。") for entry in missing)


Drafted = tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, str]], Sequence[Leaf]]


def _answers(call: Call, market: Market, platform: dict[str, Any], pieces: Sequence[str], today: date) -> tuple[list[Drafted], list[str]]:
    """Per request its API, arguments, sources and parameters on this platform; and what nothing gives."""
    answers: list[Drafted] = []
    missing: list[str] = []
    for piece in pieces:
        capability = read_capability(piece, market) or ""
        api = _api_for(market, platform, capability, piece)
        found = leaves(api["parameters"])
        facts = _facts(market, capability, found)
        read = read_facts(piece, _ability(market, capability), facts, today)
        flat, sources, untold = _arguments(call, market, capability, piece, found, facts, read)
        missing += [f"{platform['name']}#{api['name']}#{path}" for path in untold]
        answers.append((api, flat, sources, found))
    return answers, missing


def _ability(market: Market, capability: str) -> Ability:
    description = next((str(c["description"]) for c in market.scenario["capabilities"] if c["name"] == capability), "")
    return market.ability(capability, description)


def _preferred(call: Call, market: Market, text: str, platforms: list[dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """The platform that the person's words for this situation point to, and how far it is ahead of the next one."""
    preferences = call.blocks["person"]["preferences"]
    if not preferences:
        return call.rng.choice(platforms), 1.0
    situation = read_situation(text, market)
    wish = next((p for p in preferences if p["context"] == situation), None) or call.rng.choice(preferences)
    weights = weights_of(wish["priorities"], wish["priorities"])

    def worth(platform: dict[str, Any]) -> float:
        levels = platform["traits"]
        return sum(weight * float(levels[trait]["level"]) for trait, weight in weights.items() if trait in levels)

    ranked = sorted(platforms, key=worth, reverse=True)
    return ranked[0], round(worth(ranked[0]) - worth(ranked[1]), 6) if len(ranked) > 1 else 1.0


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
    call: Call, market: Market, capability: str, text: str, found: Sequence[Leaf], facts: Sequence[Fact], read: Mapping[str, Reading]
) -> tuple[dict[str, Any], dict[str, dict[str, str]], list[str]]:
    """What the request states; for required arguments what the past or the person's facts give; and what nothing gives."""
    basic = call.blocks["person"]["basic_features"]
    again = read_again(text, call.language)
    flat: dict[str, Any] = {}
    sources: dict[str, dict[str, str]] = {}
    missing: list[str] = []
    for leaf, fact in zip(found, facts, strict=True):
        reading = read.get(leaf.path)
        if again and reading is None and leaf.required and fact.concept.feature is None:
            event = _last_time(call, market, capability, fact)
            if event is not None:
                flat[leaf.path] = event[1]
                sources[leaf.path] = {"kind": "history", "at": event[0]}
                continue
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
            else:
                missing.append(leaf.path)
    return flat, sources, missing


def _last_time(call: Call, market: Market, capability: str, fact: Fact) -> tuple[str, Any] | None:
    """Id and value of the same thing in the most recent event that did the same."""
    tools = {(p["name"], a["name"]): a for p in call.blocks["tools"] for a in p["apis"]}
    for event in reversed(call.blocks["history"]):
        api = tools.get((event["platform"], event["api"]))
        if api is None or _capability_of(market, event["platform"], api) != capability:
            continue
        values = flatten(event["arguments"], api["parameters"])
        theirs = leaves(api["parameters"])
        for leaf, other in zip(theirs, _facts(market, capability, theirs), strict=True):
            if other.slot == fact.slot and leaf.path in values:
                return str(event["id"]), values[leaf.path]
        return None
    return None


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
            wrong = (
                str(knowledge.phrases(call.language)["other_value"]).format(value=value)
                if "format" not in schema and "pattern" not in schema
                else None
            )
        if wrong is not None:
            call.made("wrong_value")
            flat[path] = wrong
    elif flat and call.slips("wrong_source"):
        call.made("wrong_source")
        path = rng.choice(list(flat))
        sources[path] = {"kind": "history", "at": "e01"}


def judge(call: Call) -> dict[str, Any]:
    """Answer to `verify.judge`."""
    solution, fixed = call.blocks["solution"], knowledge.phrases(call.language)
    reason, verdict = {"ask": _judge_question, "none": _judge_none}.get(solution["act"], _judge_calls)(call)
    if verdict == "pass" and call.slips("judge_too_strict"):
        call.made("judge_too_strict")
        return {"reason": fixed["too_strict"], "verdict": "fail"}
    return {"reason": reason, "verdict": verdict}


def _judge_calls(call: Call) -> tuple[str, str]:
    text, basic, fixed = call.blocks["query"], call.blocks["facts"], knowledge.phrases(call.language)
    asked = datetime.fromisoformat(call.blocks["asked_at"]).date()
    known = {tool["name"]: tool for tool in call.blocks["tools"]}
    past = [value for event in call.blocks["events"] for value in _values(event["arguments"])]
    solution = call.blocks["solution"]
    for made in solution["calls"]:
        tool = known.get(made["api"])
        if tool is None:
            return fixed["no_tool"].format(api=made["api"]), "fail"
        open_ones = tool["parameters"].get("required") or []
        absent = [name for name in open_ones if name not in made["arguments"]]
        if absent:
            return fixed["lacks"].format(api=made["api"], what=absent[0]), "fail"
        for name in made["arguments"]:
            if name not in (tool["parameters"].get("properties") or {}):
                return fixed["takes_no"].format(api=made["api"], what=name), "fail"
        for value in _values(made["arguments"]):
            if value not in past and not _supported(value, text, basic, asked):
                return fixed["unsupported"].format(value=repr(value)), "fail"
    wanted = len(split_requests(text, call.language))
    if len(solution["calls"]) != wanted:
        return fixed["wrong_number"].format(wanted=wanted, done=len(solution["calls"])), "fail"
    count = sum(len(_values(made["arguments"])) for made in solution["calls"])
    return fixed["all_fine"].format(count=count), "pass"


def _judge_question(call: Call) -> tuple[str, str]:
    missing, fixed = call.blocks["solution"]["missing"], knowledge.phrases(call.language)
    if missing == ["platform"]:
        return fixed["open_platform"], "pass"
    known = {(tool["name"], leaf.path) for tool in call.blocks["tools"] for leaf in leaves(tool["parameters"]) if leaf.required}
    for entry in missing:
        api, _, path = entry.rpartition("/")[2].partition("#")
        if (api, path) not in known:
            return fixed["no_need"].format(what=entry), "fail"
    return fixed["left_open"].format(what=", ".join(missing)), "pass"


def _judge_none(call: Call) -> tuple[str, str]:
    mine, fixed = _stems(call.blocks["query"]), knowledge.phrases(call.language)
    for tool in call.blocks["tools"]:
        words = _stems(tool["description"]) - _SMALL - chinese.COMMON_PAIRS
        if len(words) > 2 and len(mine & words) >= 0.8 * len(words):
            return fixed["does_it"].format(api=tool["name"], what=tool["description"]), "fail"
    return fixed["none_does"], "pass"


_SMALL = {normal.stem(word) for word in ("a", "an", "the", "of", "to", "for", "in", "on", "with", "and", "or", "by", "from", "that", "is")}


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
