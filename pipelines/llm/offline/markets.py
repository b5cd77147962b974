"""The offline model's answers about markets: scenarios, platforms, APIs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pipelines.llm.offline import generic, knowledge
from pipelines.llm.offline.knowledge import ApiText, CapabilityText, Concept, Knowledge, ParameterUse

if TYPE_CHECKING:
    from pipelines.llm.offline.model import Call


def expand_scenario(call: Call) -> dict[str, Any]:
    """Answer to `tools.expand_scenario`."""
    given, wanted = call.blocks["scenario"], call.blocks["wanted"]
    existing = given.get("existing_platform")
    known = None if existing else knowledge.load(given["name"], call.language)
    lex = generic.lexicon(call.language)
    traits = known.traits if known else lex.traits
    situations = [*(known.situations if known else ()), *lex.situations]
    contexts = given.get("contexts") or [
        {"name": s.name, "description": s.phrase, "hours": list(s.hours), "workdays": s.workdays} for s in situations[: wanted["contexts"]]
    ]
    capabilities = [dict(item) for item in given.get("capabilities") or ()]
    names = {item["name"] for item in capabilities}
    offered = [{"name": c.name, "description": c.text, "open": c.open} for c in known.capabilities] if known else []
    if not known or len(offered) < wanted["capabilities"]:
        offered += [{"name": name, "description": text, "open": True} for name, text in lex.further_capabilities()]
    base = [*capabilities, *offered]
    fixed = knowledge.phrases(call.language)
    for prefix, text in fixed["derived"].items():
        about = [(item["name"], str(item["description"]).rstrip(".。")) for item in base]
        offered += [{"name": f"{prefix}_{name}"[:64], "description": text.format(what=what), "open": False} for name, what in about]
    for item in offered:
        if len(capabilities) < wanted["capabilities"] and item["name"] not in names:
            capabilities.append(item)
            names.add(item["name"])
    platforms: list[dict[str, Any]] = []
    if known:
        platforms = [
            {"name": p.name, "description": p.text, "traits": [{"trait": t, "level": v[0], "phrase": v[1]} for t, v in p.traits.items()]}
            for p in known.platforms[: wanted["platforms"]]
        ]
    if len(platforms) < wanted["platforms"]:
        platforms = _invented(call, platforms, wanted["platforms"], existing, given, [t.name for t in traits])
    return {
        "traits": [{"name": t.name, "description": f"{t.what[0].upper()}{t.what[1:]}{fixed['marks']['stop']}"} for t in traits],
        "contexts": [{"hours": [7, 21], **c} for c in contexts],
        "capabilities": capabilities,
        "platforms": platforms,
    }


def _invented(
    call: Call, known: list[dict[str, Any]], count: int, existing: dict[str, Any] | None, given: dict[str, Any], traits: list[str]
) -> list[dict[str, Any]]:
    """Invented platforms: each leads somewhere, none dominates."""
    lex, rng, fixed = generic.lexicon(call.language), call.rng, knowledge.phrases(call.language)
    niche = " ".join(generic.words_of(given["name"].replace("-", "_"))) or given["name"]
    names = rng.sample(lex.platform_names, len(lex.platform_names))
    texts = rng.sample(lex.platform_texts, len(lex.platform_texts))
    levels = [[t["level"] for t in p["traits"]] for p in known]
    made = list(known)
    if existing:
        made.append({"name": existing["name"], "description": existing["description"] or fixed["given"].format(niche=niche)})
        levels.append(_levels(rng, levels, len(traits)))
    while len(made) < count:
        i = len(made)
        text = texts[i % len(texts)].replace("NICHE", niche)
        made.append({"name": names[i % len(names)], "description": text.replace("A established", "An established")})
        levels.append(_levels(rng, levels, len(traits)))
    for platform, row in zip(made, levels, strict=True):
        platform.setdefault(
            "traits",
            [
                {
                    "trait": t,
                    "level": level,
                    "phrase": lex.levels.get(t, fixed["levels"])[0 if level < 0.4 else 1 if level < 0.7 else 2],
                }
                for t, level in zip(traits, row, strict=True)
            ],
        )
    return made


def _levels(rng: random.Random, others: list[list[float]], size: int) -> list[float]:
    """Levels with one trait clearly ahead of all others so far, and no domination either way."""
    taken = {max(range(size), key=lambda j: row[j]) for row in others}
    free = [j for j in range(size) if j not in taken] or list(range(size))
    for _ in range(400):
        lead = rng.choice(free)
        row = [round(rng.uniform(0.15, 0.7), 2) for _ in range(size)]
        row[lead] = round(rng.uniform(0.85, 0.95), 2)
        if all(
            any(a > b + 0.1 for a, b in zip(row, o, strict=True)) and any(b > a + 0.1 for a, b in zip(row, o, strict=True)) for o in others
        ):
            return row
    return row


def expand_platform(call: Call) -> dict[str, Any]:
    """Answer to `tools.expand_platform`."""
    known = knowledge.load(call.blocks["scenario"]["name"], call.language)
    groups_of = {c.name: c.group for c in known.capabilities} if known else {}
    groups: dict[str, list[str]] = {}
    within = call.blocks.get("path")
    for capability in call.blocks["capabilities"]:
        group = groups_of.get(capability["name"]) or _verb_group(capability["name"])
        if within:
            group = (generic.words_of(capability["name"]) or ["other"])[0] if group in within else group
        groups.setdefault(group, []).append(capability["name"])
    texts = known.groups if known else {}
    fixed = knowledge.phrases(call.language)
    return {
        "groups": [
            {
                "name": name,
                "description": texts.get(name, fixed["group"].format(name=fixed["groups"].get(name, name.replace("_", " ")))),
                "capabilities": names,
            }
            for name, names in groups.items()
        ]
    }


_LOOKING = {"get", "find", "search", "list", "check", "view", "show", "compare", "track", "browse", "read", "query", "fetch", "calculate"}
_ARRANGING = {"book", "schedule", "reserve", "plan", "arrange", "order", "buy", "request", "create", "register", "add"}


def _verb_group(name: str) -> str:
    verb = (generic.words_of(name) or ["do"])[0]
    return "look_up" if verb in _LOOKING else "arrange" if verb in _ARRANGING else "control"


def expand_apis(call: Call) -> dict[str, Any]:
    """Answer to `tools.expand_apis`."""
    known = knowledge.load(call.blocks["scenario"]["name"], call.language)
    platform = call.blocks["platform"]["name"]
    texts = {c.name: c for c in known.capabilities} if known else {}
    siblings: dict[str, dict[str, Any]] = {}
    for sibling in call.blocks["siblings"]:
        siblings.setdefault(sibling["capability"], sibling)
    apis = []
    for capability in call.blocks["capabilities"]:
        text = texts.get(capability["name"])
        if known is not None and text is not None and platform in text.apis:
            apis.append(_known_api(known, text, platform, call.language))
        else:
            apis.append(_invented_api(call, platform, capability, siblings.get(capability["name"])))
    return {"apis": apis}


def _known_api(known: Knowledge, capability: CapabilityText, platform: str, language: str) -> dict[str, Any]:
    api: ApiText = capability.apis[platform]
    fixed = knowledge.phrases(language)
    turn = [p.name for p in known.platforms].index(platform)
    parameters: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    for use in api.uses:
        _put(parameters, use, parameter_schema(known.concepts[use.concept], turn, use.default), fixed)
    return {
        "name": api.name,
        "capability": capability.name,
        "description": api.text,
        "parameters": _tidy(parameters),
        "returns": fixed["entries" if _verb_group(capability.name) == "look_up" else "confirmation"],
    }


def _put(parameters: dict[str, Any], use: ParameterUse, schema: dict[str, Any], fixed: dict[str, Any]) -> None:
    *parents, last = use.path.split(".")
    place = parameters
    for parent in parents:
        if use.required and parent not in place["required"]:
            place["required"].append(parent)
        what = fixed["object"].format(name=fixed["objects"].get(parent, parent.replace("_", " ")))
        place = place["properties"].setdefault(parent, {"type": "object", "description": what, "properties": {}, "required": []})
    place["properties"][last] = schema
    if use.required:
        place["required"].append(last)


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    for inner in schema["properties"].values():
        if inner.get("type") == "object" and "properties" in inner:
            _tidy(inner)
    if not schema["required"]:
        del schema["required"]
    schema["additionalProperties"] = False
    return schema


def parameter_schema(concept: Concept, turn: int, default: str | None = None) -> dict[str, Any]:
    """JSON Schema of a parameter that takes a concept."""
    schema: dict[str, Any] = {
        "description": concept.what[turn % len(concept.what)].rstrip(".。") + ("。" if concept.language == "zh" else ".")
    }
    kind = concept.type
    if kind in ("integer", "number"):
        schema["type"] = kind
        if concept.range and concept.range[0] >= 0:
            schema["minimum"] = 0
    elif kind == "money":
        schema |= {"type": "number", "minimum": 0}
    elif kind == "boolean":
        schema["type"] = "boolean"
    elif kind == "array":
        schema |= {"type": "array", "items": {"type": "string"}, "minItems": 1}
    elif kind == "date":
        schema |= {"type": "string", "format": "date"}
    elif kind == "time":
        schema |= {"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d$"}
    elif kind == "enum":
        schema |= {"type": "string", "enum": list(dict.fromkeys(concept.values(None)))}
    else:
        schema["type"] = "string"
    if default is not None:
        schema["default"] = _typed(default, schema["type"])
    return schema


def _typed(text: str, kind: str) -> Any:
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    if kind == "boolean":
        return text.casefold() == "true"
    return text.replace("_", " ")


_RECIPES: list[tuple[tuple[str, ...], list[str]]] = [
    (("thermostat", "heating", "temperature", "cooling"), ["temperature!", "room", "time", "email!", "repeat"]),
    (("door", "doors", "lock", "locks", "gate"), ["door!", "time", "email!", "repeat"]),
    (("light", "lights", "lamp", "blinds", "speaker"), ["room!", "time", "level", "email!", "repeat"]),
    (("camera", "vacuum", "cleaning", "robot"), ["room!", "date", "time", "phone!", "repeat"]),
    (("search", "find", "list", "browse", "discover", "look"), ["keyword!", "max_price", "city!", "sort", "limit"]),
    (("compare", "quote", "plans", "advice"), ["keyword!", "max_price", "email!", "limit"]),
    (("book", "schedule", "reserve", "arrange", "visit", "plan"), ["date!", "time", "address!", "phone!", "notes"]),
    (("order", "buy", "request", "supplies"), ["keyword!", "quantity!", "address!", "phone", "notes"]),
    (("check", "status", "view", "track", "get", "report"), ["date!", "email!", "format"]),
    (("send", "share", "invite", "feedback", "message"), ["notes!", "email!", "priority"]),
    (("remind", "reminder", "create", "register", "add", "set"), ["date!", "time", "phone!", "notes", "repeat"]),
]


_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "boolean": ("send_updates", {"type": "boolean", "description": "Whether to send updates."}),
    "array": ("labels", {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Labels to file it under."}),
    "default": ("results_limit", {"type": "integer", "minimum": 1, "default": 10, "description": "How many results at most."}),
    "nested": (
        "contact",
        {
            "type": "object",
            "description": "Whom to ask.",
            "properties": {
                "full_name": {"type": "string", "description": "Full name."},
                "mobile": {"type": "string", "description": "Phone number."},
            },
            "additionalProperties": False,
        },
    ),
}
"""Optional parameters that show a form when the shape asks for it."""


def _in_words(name: str, schema: dict[str, Any], words: dict[str, str]) -> dict[str, Any]:
    """A form with its descriptions in the language of the run."""
    inner = {part: _in_words(part, form, words) for part, form in (schema.get("properties") or {}).items()}
    return {**schema, "description": words[name], **({"properties": inner} if inner else {})}


_FILLERS = ("priority", "language", "repeat", "currency", "notes", "sort", "days")


def _fitted(recipe: list[str], shape: dict[str, Any]) -> list[str]:
    """A recipe cut or filled to the wanted number of parameters; what is required stays, unless none is wanted at all."""
    wanted = int(shape["parameters"])
    if wanted == 0:
        return []
    needed = [item for item in recipe if item.endswith("!")]
    shown = [form for form in shape["show"] if form in _FORMS] + (["date"] if "date" in shape["show"] else [])
    shown += ["priority"] if "enum" in shape["show"] else []
    kinds = {item.rstrip("!") for item in recipe}
    optional = [form for form in shown if form not in kinds] + [item for item in recipe if not item.endswith("!")]
    optional += [kind for kind in _FILLERS if kind not in kinds and kind not in optional]
    return needed + optional[: max(0, wanted - len(needed))]


def _invented_api(call: Call, platform: str, capability: dict[str, Any], sibling: dict[str, Any] | None) -> dict[str, Any]:
    """An API for a capability that no knowledge file describes; beside a sibling, the same job in other words."""
    rng = random.Random(f"{platform} {capability['name']} {call.blocks['attempt']}")
    style = "camel" if sum(map(ord, platform)) % 2 else "snake"
    lex = generic.lexicon(call.language)
    name = generic.rename(rng, capability["name"], style, lex)
    stop, description = knowledge.phrases(call.language)["marks"]["stop"], str(capability["description"]).strip().rstrip(".。")
    if sibling is not None:
        while name == sibling["name"]:
            name = generic.rename(rng, f"{capability['name']}_{rng.choice(['now', 'here', 'request', 'service'])}", style, lex)
        parameters = _renamed(rng, sibling["parameters"], style)
    else:
        words = set(generic.words_of(capability["name"]))
        recipe = next((r for names, r in _RECIPES if words & set(names)), ["keyword!", "date", "address!", "phone", "notes"])
        shape = next((s for s in call.blocks.get("shapes", ()) if s["capability"] == capability["name"]), None)
        recipe = _fitted(recipe, shape) if shape else recipe
        parameters = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        for item in recipe:
            kind = item.rstrip("!")
            if kind in _FORMS:
                name_of, schema = _FORMS[kind]
                schema = _in_words(name_of, schema, knowledge.phrases(call.language)["forms"])
                parameters["properties"][name_of if style == "snake" else generic._styled(name_of.split("_"), "camel")] = schema
                continue
            concept = Concept.model_validate(lex.kinds[kind]["concept"])
            schema = parameter_schema(concept, rng.randrange(2))
            if concept.type == "string" and kind == "format":
                schema["enum"] = concept.values(None)
            parameters["properties"][kind if style == "snake" else generic._styled(kind.split("_"), "camel")] = schema
            if item.endswith("!"):
                parameters["required"].append(kind if style == "snake" else generic._styled(kind.split("_"), "camel"))
    return {
        "name": name,
        "capability": capability["name"],
        "description": (description if sibling is None else _again(description)) + stop,
        "parameters": parameters,
        "returns": knowledge.phrases(call.language)["result"],
    }


def _again(description: str) -> str:
    """The same effect in slightly other words."""
    head, _, rest = description.partition(" ")
    other = {
        "get": "Fetch",
        "retrieve": "Load",
        "search": "Look",
        "find": "Look up",
        "query": "Look up",
        "create": "Set up",
        "provide": "Give",
    }
    return f"{other.get(head.lower(), head)} {rest}".strip()


def _renamed(rng: random.Random, schema: dict[str, Any], style: str) -> dict[str, Any]:
    """The sibling's parameters under other names, shapes unchanged."""
    properties: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, inner in (schema.get("properties") or {}).items():
        new = generic.rename_parameter(rng, name, style)
        if new in properties:
            new = name
        names[name] = new
        nested = isinstance(inner, dict) and inner.get("type") == "object" and inner.get("properties")
        properties[new] = _renamed(rng, inner, style) if nested else inner
    renamed = {**schema, "properties": properties}
    if "required" in schema:
        renamed["required"] = [names[name] for name in schema["required"]]
    return renamed
