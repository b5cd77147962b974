"""The offline model's second looks at a market: phrases read as levels, parameters that mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.llm.offline import generic, knowledge
from pipelines.llm.offline.knowledge import Knowledge

if TYPE_CHECKING:
    from pipelines.llm.offline.model import Call

GOOD = {"very", "best", "always", "never", "top", "cheap", "fast", "instant", "great", "excellent", "practically", "almost", "next", "day"}
BAD = {"rarely", "weak", "slow", "poor", "dear", "dearest", "limited", "little", "only", "few", "worst", "out", "drops"}


def judge_traits(call: Call) -> dict[str, Any]:
    """Answer to `tools.judge_traits`: known phrases by what they were written for, others by their words."""
    phrases = _phrases(call.language)
    lex = generic.lexicon(call.language)
    bands = []
    for item in call.blocks["phrases"]:
        level = phrases.get((item["trait"], item["phrase"]))
        steps = lex.levels.get(item["trait"], knowledge.phrases(call.language)["levels"])
        if level is not None:
            band = "low" if level < 0.4 else "middle" if level < 0.65 else "high"
        elif item["phrase"] in steps:
            band = ("low", "middle", "high")[steps.index(item["phrase"])]
        else:
            words = set(str(item["phrase"]).lower().split())
            score = len(words & GOOD) - len(words & BAD)
            band = "high" if score > 0 else "low" if score < 0 else "middle"
        bands.append({"id": item["id"], "band": band})
    return {"bands": bands}


def _phrases(language: str) -> dict[tuple[str, str], float]:
    return {
        (trait, phrase): level
        for known in knowledge.all_known(language)
        for platform in known.platforms
        for trait, (level, phrase) in platform.traits.items()
    }


def match_parameters(call: Call) -> dict[str, Any]:
    """Answer to `tools.match_parameters`: known APIs by their concepts, others by what is said of them."""
    answers = []
    for row in call.blocks["capabilities"]:
        meanings: dict[str, list[dict[str, str]]] = {}
        personal: set[str] = set()
        spoken: dict[str, str] = {}
        for api in row["apis"]:
            concepts = _concepts(call.language, row["capability"], api)
            used: set[str] = set()
            for parameter in api["parameters"]:
                path = parameter["path"]
                key = concepts.get(path) or _spoken(parameter)
                meaning = concepts.get(path) or spoken.setdefault(key, _word(path))
                while meaning in used:
                    meaning = f"{meaning}_other"[:64]
                used.add(meaning)
                if _of_a_person(call.language, row["capability"], concepts.get(path), parameter):
                    personal.add(meaning)
                meanings.setdefault(meaning, []).append({"platform": api["platform"], "path": path})
        matches = [
            {"meaning": meaning, "about": "person" if meaning in personal else "request", "parameters": found}
            for meaning, found in meanings.items()
        ]
        answers.append({"capability": row["capability"], "matches": matches})
    return {"capabilities": answers}


def _concepts(language: str, capability: str, api: dict[str, Any]) -> dict[str, str]:
    """Path -> concept of an API from a knowledge file."""
    for known in knowledge.all_known(language):
        text = next((c for c in known.capabilities if c.name == capability), None)
        if text is not None and api["platform"] in text.apis and text.apis[api["platform"]].name == api["name"]:
            return _uses(known, capability, api["platform"])
    return {}


def _uses(known: Knowledge, capability: str, platform: str) -> dict[str, str]:
    text = next(c for c in known.capabilities if c.name == capability)
    return {use.path: use.concept for use in text.apis[platform].uses}


def _of_a_person(language: str, capability: str, concept: str | None, parameter: dict[str, Any]) -> bool:
    """Is it a lasting fact about a person, such as an address?"""
    for known in knowledge.all_known(language):
        if concept is not None and any(c.name == capability for c in known.capabilities) and concept in known.concepts:
            return known.concepts[concept].feature is not None
    schema = {"type": parameter["type"]}
    return generic.guess(parameter["path"], str(parameter["description"]), schema, language).feature is not None


def _spoken(parameter: dict[str, Any]) -> str:
    """Siblings of unknown tools say the same of the same parameter."""
    return f"{str(parameter['description']).casefold().strip(' .')} {parameter['type']}"


def _word(path: str) -> str:
    words = "_".join(generic.words_of(path.replace(".", "_")))
    return words[:60] if words[:1].isalpha() else f"p_{words}"[:60]
