"""What the offline model makes of scenarios and tools that it has never seen.

Everything here is guessed from names, descriptions and JSON types, as any reader would: a parameter
called `startDate` is a first day, a description that begins with a verb is something one can ask for.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from pipelines.jsonio import canonical
from pipelines.llm.offline import chinese
from pipelines.llm.offline.knowledge import HERE, Concept, Situation, Trait, read_bank


@dataclass(frozen=True)
class Lexicon:
    """`_generic.yaml`, parsed."""

    kinds: dict[str, dict[str, Any]]
    fallback: dict[str, dict[str, Any]]
    noun_clauses: list[str]
    flag_clauses: list[str]
    asks: list[str]
    dones: list[str]
    traits: list[Trait]
    levels: dict[str, list[str]]
    situations: list[Situation]
    platform_names: list[str]
    platform_texts: list[str]
    api_verbs: dict[str, list[str]]
    extra_capabilities: list[str]
    extra_grid: dict[str, list[str]] = field(default_factory=dict)

    def further_capabilities(self) -> list[tuple[str, str]]:
        """(name, description) of what any service might also do; a hundred or so."""
        listed = [item.partition(": ") for item in self.extra_capabilities]
        found = [(name, text) for name, _, text in listed]
        for thing in self.extra_grid.get("things", ()):
            noun, _, what = thing.partition(": ")
            for item in self.extra_grid.get("verbs", ()):
                verb, _, says = item.partition(": ")
                found.append((f"{verb}_{noun}", f"{says} {what}."))
        return found


@cache
def lexicon(language: str) -> Lexicon:
    """The generic lexicon of a language."""
    data = read_bank(HERE / language / "_generic.yaml")
    if language != "en":
        data = _worded(lexicon("en"), data, language)
    data["traits"] = [Trait.model_validate(item) for item in data["traits"]]
    data["situations"] = [Situation.model_validate(item) for item in data["situations"]]
    return Lexicon(**data)


def _worded(base: Lexicon, own: dict[str, Any], language: str) -> dict[str, Any]:
    """Another language's words for the kinds that the English lexicon tells apart by parameter name."""
    kinds = {
        name: {**entry, "concept": {**entry["concept"], **own["kinds"][name], "language": language}} for name, entry in base.kinds.items()
    }
    fallback = {name: {**entry, **own["fallback"][name], "language": language} for name, entry in base.fallback.items()}
    return {**vars(base), "traits": [], "situations": [], **own, "kinds": kinds, "fallback": fallback}


def words_of(name: str) -> list[str]:
    """The words of an identifier in any case style."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3 \2\4", name.rpartition(".")[2])
    return [word.lower() for word in re.findall(r"[A-Za-z]+|\d+", spaced)]


def guess(path: str, description: str, schema: dict[str, Any], language: str) -> Concept:
    """What an unknown parameter takes, guessed from its name, description and JSON Schema."""
    return _guess(path, description, canonical(schema), language)


@lru_cache(maxsize=20_000)
def _guess(path: str, description: str, schema_text: str, language: str) -> Concept:
    return _guessed(path, description, json.loads(schema_text), language).model_copy(update={"language": language})


def _guessed(path: str, description: str, schema: dict[str, Any], language: str) -> Concept:
    lex = lexicon(language)
    words = words_of(path)
    noun = " ".join(words) or path
    if language == "zh":
        noun = chinese.noun(description) or noun
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "string")
    if isinstance(schema.get("enum"), list):
        values = [value for value in schema["enum"] if isinstance(value, str) and value.strip()]
        if values:
            name, exact = _kind_of(words, description, "string", lex)
            say = lex.kinds[name]["concept"]["say"] if name and exact else _clauses(lex, noun)
            return Concept(type="enum", what=[noun, noun], say=say, bank=values)
    if kind == "boolean":
        return Concept(type="boolean", what=[noun, noun], say=[c.replace("NOUN", noun) for c in lex.flag_clauses])
    if kind == "array":
        items = schema.get("items") if isinstance(schema.get("items"), dict) else {}
        inner = _guess(path.removesuffix("s"), description, canonical(items or {"type": "string"}), language)
        bank = inner.values(None) if inner.type in ("string", "enum") else lex.fallback["string"]["bank"]
        return Concept(type="array", what=[noun, noun], say=_clauses(lex, noun), bank=bank, count=(1, 2))
    named = _examples_in(description) if kind in (None, "string") else []
    if named:
        return Concept(type="string", what=[noun, noun], say=_clauses(lex, noun), bank=named)
    name, exact = _kind_of(words, description, kind, lex)
    data = dict(lex.kinds[name]["concept"]) if name else dict(lex.fallback[kind if kind in lex.fallback else "string"])
    if not exact:
        data["say"] = _clauses(lex, noun)
        if name in ("city", "email", "phone", "address", "person"):
            data.pop("feature", None)
    if schema.get("format") == "date" and data["type"] != "date":
        data = {**lex.kinds["date"]["concept"], "say": _clauses(lex, noun)}
    if kind in ("integer", "number"):
        data = _within(data, schema, kind)
    return Concept.model_validate(data)


def _examples_in(description: str) -> list[str]:
    """Values that a description quotes: `the format, 'XML' or 'CSV'`."""
    quoted = re.findall(r"['\"“]([A-Za-z][\w +./-]{1,24})['\"”]", description)
    found = [text for text in dict.fromkeys(quoted) if "YY" not in text and "HH" not in text]
    return found if len(found) >= 2 else []


NEUTRAL = {"at", "on", "the", "contact", "location", "street", "my", "user", "customer", "delivery", "home", "service", "full"}
"""Words of a parameter name that leave its kind as it is."""
_TYPES = {"integer": ("integer",), "number": ("number", "money", "integer"), "string": ("string", "date", "time", "code", "enum")}


def _kind_of(words: list[str], description: str, kind: str | None, lex: Lexicon) -> tuple[str | None, bool]:
    """The lexicon's name for a parameter, and whether the name means just that."""
    allowed = _TYPES.get(kind or "string", _TYPES["string"])
    joined = " ".join(words)
    stripped = " ".join(word for word in words if word not in NEUTRAL)
    fitting = {name: entry for name, entry in lex.kinds.items() if entry["concept"]["type"] in allowed}
    for text in (joined, stripped):
        for name, entry in fitting.items():
            if text in entry["core"]:
                return name, True
    low = description.lower()
    for name, entry in fitting.items():
        last = words[-1:] and words[-1] in [core.split()[-1] for core in entry["core"] if " " not in core]
        if last:
            return name, False
    if "yyyy-mm-dd" in low and "date" in fitting:
        return "date", False
    for name, entry in fitting.items():
        if any(hint in words for hint in entry.get("hint", [])):
            return name, False
    return None, False


def _clauses(lex: Lexicon, noun: str) -> list[str]:
    return [clause.replace("NOUN", noun) for clause in lex.noun_clauses]


def _within(data: dict[str, Any], schema: dict[str, Any], kind: str) -> dict[str, Any]:
    low, high = data.get("range") or (2, 12)
    low, high = max(low, schema.get("minimum", low)), min(high, schema.get("maximum", high))
    if low > high:
        low = high = schema.get("minimum", schema.get("maximum", 1))
    data = {**data, "range": (low, high)}
    if kind == "integer" and data["type"] != "integer":
        data["type"] = "integer"
    return data


_LEADING = re.compile(
    r"^(?:this|the) (?:api|tool|function|endpoint|method|service)(?: is used)? "
    r"(?:allows you to|lets you|can be used to|can|to|is used to|will)? ?"
    r"|^(?:used to|allows you to|allow you to|use this to|a tool to|api to) ",
    re.IGNORECASE,
)
_TRAILING = re.compile(
    r",? (?:of|for|in|by|from|on|at|to|based on|according to|using|with|within|between|given) "
    r"(?:a |an |the |any |one or more )?"
    r"(?:specified|specific|given|certain|particular|provided|selected|their|its|user's|name|id|ID)\b.*$"
)


def phrase(description: str) -> str:
    """What a tool does, as something one can ask for: "get the weather", from its description."""
    if chinese.is_chinese(description):
        return chinese.phrase(description)
    first = re.split(r"(?<=[.!?])\s|\n|[;(]", description.strip() or "do it")[0].strip(" .!?")
    first = _LEADING.sub("", first)
    first = _TRAILING.sub("", first).strip(" ,.")
    head, _, rest = first.partition(" ")
    head = head.lower()
    if head.endswith("ies"):
        head = head[:-3] + "y"
    elif re.fullmatch(r"\w+(?:sses|shes|ches|xes)", head):
        head = head[:-2]
    elif head.endswith("s") and not head.endswith("ss"):
        head = head[:-1]
    if len(rest) > 110:
        rest = rest[:110].rpartition(" ")[0]
    rest = re.sub(r"[{}?\"]", "", rest)
    return f"{head} {rest}".strip()


def rename(rng: random.Random, name: str, style: str, lex: Lexicon) -> str:
    """Another platform's name for the same API."""
    words = words_of(name) or ["run"]
    verb, *rest = words
    options = lex.api_verbs.get(verb, [])
    new = rng.choice(options).split("_") if options else [verb]
    if not options or rng.random() < 0.3:
        rest = [*rest, rng.choice(["info", "details", "service", "now", "request"])]
    return _styled([*new, *rest], style)


SYNONYMS = {
    "city": ["town", "location", "place"], "date": ["day", "on_date", "when"], "name": ["label", "full_name", "title"],
    "id": ["identifier", "ref", "code"], "query": ["search", "text", "keywords"], "keyword": ["query", "term", "search"],
    "limit": ["max_results", "top_n", "count"], "page": ["page_number", "offset_page"], "format": ["output_format", "response_format"],
    "start": ["from", "begin"], "end": ["to", "until"], "language": ["lang", "locale"], "type": ["kind", "category"],
    "address": ["street_address", "location_address"], "phone": ["contact_number", "mobile"], "email": ["mail", "contact_email"],
    "time": ["hour", "at_time"], "quantity": ["count", "units"], "notes": ["remarks", "comment"], "price": ["cost", "amount"],
}  # fmt: skip


def rename_parameter(rng: random.Random, name: str, style: str) -> str:
    """Another platform's name for the same parameter, close enough to mean the same."""
    words = words_of(name)
    changed = [rng.choice(SYNONYMS[word]) if word in SYNONYMS and rng.random() < 0.6 else word for word in words]
    return _styled("_".join(changed).split("_"), style) if words else name


def _styled(words: list[str], style: str) -> str:
    if style == "camel":
        return words[0] + "".join(word.title() for word in words[1:])
    return "_".join(words)
