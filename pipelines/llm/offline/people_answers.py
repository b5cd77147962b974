"""The offline model's answers about people: features, profiles, preferences."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.llm.offline import generic, knowledge, people
from pipelines.llm.offline.concepts import draw
from pipelines.llm.offline.knowledge import HERE, Concept, Trait
from pipelines.llm.offline.wording import Market
from pipelines.llm.schemas import first_error

if TYPE_CHECKING:
    from pipelines.llm.offline.model import Call

_DETAILS: dict[str, str] = {
    "date": "timing",
    "time": "timing",
    "integer": "amounts",
    "number": "amounts",
    "money": "budget",
    "boolean": "extras",
    "enum": "options",
    "code": "references",
    "array": "lists",
    "string": "subject",
}
_AREAS: dict[str, tuple[str, ...]] = {
    "identity": ("name", "birthday", "language", "passport_country", "emergency_contact", "loyalty_number", "gender"),
    "contact": ("phone", "email", "work_email"),
    "places": ("home_city", "home_address", "work_address", "home_airport", "nearest_station", "time_zone"),
    "body_and_food": ("diet", "allergy", "spice_level", "shoe_size", "clothing_size", "seat_preference"),
    "working_life": ("employer", "occupation", "team_name", "manager_name", "working_hours_start"),
    "household": ("household_size", "pet", "car_model", "device", "tv_model", "subtitle_language", "payment_method", "currency"),
}


@cache
def _known_parameters(language: str) -> dict[tuple[str, str], Concept]:
    """(parameter path, description) -> concept, over all knowledge files."""
    found: dict[tuple[str, str], Concept] = {}
    for path in sorted((HERE / language).glob("[!_]*.yaml")):
        known = knowledge._read(path)
        for capability in known.capabilities:
            for api in capability.apis.values():
                for use in api.uses:
                    concept = known.concepts[use.concept]
                    for text in concept.what:
                        found.setdefault((use.path, text.rstrip(".。") + ("。" if concept.language == "zh" else ".")), concept)
    return found


def name_cluster(call: Call) -> dict[str, Any]:
    """Answer to `features.name_cluster`."""
    found: dict[str, dict[str, Any]] = {}
    fixed = knowledge.phrases(call.language)
    for leaf in call.blocks["leaves"]:
        if leaf["origin"] == "trait":
            name, kind, text = f"wish_for_{leaf['name']}", "preference", fixed["wish_for"].format(what=leaf["description"])
        else:
            concept = _known_parameters(call.language).get((leaf["name"], leaf["description"]))
            concept = concept or generic.guess(leaf["name"], leaf["description"], {"type": "string"}, call.language)
            if concept.feature in people.FEATURES:
                name, kind, text = concept.feature, "basic", people.described(concept.feature, call.language)
            else:
                name, kind = _DETAILS[concept.type], "request"
                text = str(fixed["details"][name])
        entry = found.setdefault(name, {"name": name, "description": text, "kind": kind, "leaves": []})
        entry["leaves"].append(leaf["id"])
    return {"features": list(found.values())}


def group_features(call: Call) -> dict[str, Any]:
    """Answer to `features.group`."""
    groups: dict[str, dict[str, Any]] = {}
    fixed = knowledge.phrases(call.language)
    for feature in call.blocks["features"]:
        if feature["kind"] == "basic":
            area = next((area for area, names in _AREAS.items() if feature["id"] in names), "circumstances")
        else:
            area = "wishes_of_a_customer" if feature["kind"] == "preference" else "details_of_a_request"
        text = fixed["area"].format(name=fixed["areas"].get(area, area.replace("_", " ")))
        entry = groups.setdefault(area, {"name": area, "description": text, "kind": feature["kind"], "members": []})
        entry["members"].append(feature["id"])
    return {"groups": list(groups.values())}


def branch(call: Call) -> dict[str, Any]:
    """Answer to `profiles.branch`."""
    known, features, count = call.blocks["known"], call.blocks["features"], call.blocks["wanted"]["count"]
    ids = [feature["id"] for feature in features]
    rng, language = call.rng, call.language
    starts: list[dict[str, Any]] = [dict(known) for _ in range(count)]
    if "life_stage" in ids:
        coarse = [start if "region" in ids else {"life_stage": start["life_stage"]} for start in people.life_stages(rng, count, language)]
        starts = [{**known, **start} for start in coarse]
    if "home_city" in ids:
        alike = all(start == starts[0] for start in starts)
        refined = (
            people.situations(rng, starts[0], count, language) if alike else [people.situations(rng, s, 1, language)[0] for s in starts]
        )
        starts = [{**start, **more} for start, more in zip(starts, refined, strict=True)]
    if "name" in ids or not {"life_stage", "home_city"} & set(ids):
        wanted = [i for i in ids if i in people.FEATURES]
        alike = all(start == starts[0] for start in starts)
        full = (
            people.persons(rng, starts[0], wanted, count, language)
            if alike
            else [people.persons(rng, s, wanted, 1, language)[0] for s in starts]
        )
        starts = [{**start, **more} for start, more in zip(starts, full, strict=True)]
    return {"people": [{f["id"]: _value(call, f, person) for f in features} for person in starts]}


def _value(call: Call, feature: dict[str, Any], person: dict[str, Any]) -> Any:
    """The person's value, or one that fits the schema when this is no known feature."""
    name, schema = feature["id"], feature["schema"]
    value = person.get(name)
    if value is None and name in people.FEATURES:
        value = people.feature_value(call.rng, name, person, call.language)
    if value is not None and first_error(schema, value) is None:
        return value
    if schema.get("enum"):
        return call.rng.choice(schema["enum"])
    from datetime import date

    concept = generic.guess(name, feature["description"], schema, call.language)
    return draw(call.rng, name, concept, None, date(2026, 3, 2), {}).argument


def prefer(call: Call) -> dict[str, Any]:
    """Answer to `profiles.prefer`."""
    scenario, rng = call.blocks["scenario"], call.rng
    market = Market(scenario, call.language)
    lex = generic.lexicon(call.language)
    texts = {t.name: t for t in [*lex.traits, *(market.known.traits if market.known else ())]}
    names = [t["name"] for t in scenario["traits"]]
    answers = []
    for person in call.blocks["people"]:
        basic = person["basic_features"]
        lean = call.blocks.get("lean") or ()
        leaning = {
            t: rng.uniform(0, 0.35) + 0.15 * (t in texts and basic.get("life_stage") in texts[t].appeals) + 0.4 * (t in lean) for t in names
        }
        wishes = []
        for context in scenario["contexts"]:
            pulls = market.situation(context["name"]).pulls or {t: rng.random() for t in names}
            scores = {t: pulls.get(t, 0.1) * rng.uniform(0.3, 1.7) + leaning[t] for t in names}
            ranked = sorted(names, key=lambda t: -scores[t])
            priorities = ranked[: rng.choice([2, 3, 3, 3])]
            wishes.append(
                {"context": context["name"], "priorities": priorities, "words": _wish(call, basic, context, priorities, ranked[-1], texts)}
            )
        answers.append({"user": person["user"], "contexts": wishes})
    return {"people": answers}


def _wish(call: Call, basic: dict[str, Any], context: dict[str, Any], priorities: list[str], last: str, texts: dict[str, Trait]) -> str:
    rng, fixed = call.rng, knowledge.phrases(call.language)
    first = str(basic.get("name") or fixed["somebody"]).split()[0]

    def says(trait: str) -> str:
        return rng.choice(texts[trait].wants) if trait in texts else str(fixed["values"]).format(trait=trait.replace("_", " "))

    wants = [says(trait) for trait in priorities]
    skip = rng.choice(texts[last].skips) if last in texts else fixed["ignores"].format(trait=last.replace("_", " "))
    subject = str(context["description"]).rstrip(".。")
    text = str(rng.choice(fixed["wishes"])).format(subject=subject, first=first, one=wants[0], two=wants[1], skip=skip)
    return text[:-1] + str(fixed["third_wish"]).format(three=wants[2]) if len(wants) > 2 else text
