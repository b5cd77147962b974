"""Rules on the values of one person: each nothing when fine, else what contradicts what.

They know no model and no bank of names: a fact is compared with the other facts, and contact data must be from
ranges that are reserved for fiction, so that nobody real is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import JsonValue

from pipelines import normal

Facts = Mapping[str, JsonValue]
Rule = Callable[[Facts, date], str | None]

EMAIL = re.compile(r"[^\s@]+@(?P<host>[^\s@]+)")
SAFE_HOST = re.compile(r"(.+\.)?example(\.(com|org|net))?|(.+\.)?(test|invalid|localhost)", re.IGNORECASE)
PHONE = re.compile(r"\+?\(?\d[\d\s().-]{6,}\d")
FICTION = re.compile(
    r"""(
      (\+?1[\s.-]*)?\(?\d{3}\)?[\s.-]*555[\s.-]*01\d\d                  # North America
    | (\+44\s?|\(?0)(20\)?\s?7946\s?0|1\d\d\)?\s?49[68]\s?0|1632\s?960|7700\s?900)\d{3}  # United Kingdom, Ofcom
    | (\+353\s?|\(?0)20\)?\s?91\d\s?\d{4}                               # Ireland
    | (\+61\s?|\(?0)[2378]\)?\s?(5550|7010)\s?\d{4}                     # Australia, ACMA
    | (\+64\s?|\(?0)[34679]\)?\s?055\s?\d{4}                            # New Zealand: no subscriber number starts with 0
    | (\+65\s?)?5550\s?\d{4}                                            # Singapore: no subscriber number starts with 5
    | (\+86[\s-]?)?128[\s-]?\d{4}[\s-]?\d{4}                            # China: mobile numbers start with 13 to 19
    )""",
    re.VERBOSE,
)
"""Numbers that regulators keep for fiction, or that no subscriber can have."""
ZONE_OF_CODE = {
    "+44": ("Europe/",),
    "+353": ("Europe/",),
    "+61": ("Australia/",),
    "+64": ("Pacific/",),
    "+65": ("Asia/",),
    "+86": ("Asia/",),
    "+1": ("America/", "Pacific/"),
}

_RETIRED = ("retired", "retiree", "pensioner", "退休")
_LONG_TRAINING = ("surgeon", "physician", "doctor", "professor", "judge", "lawyer", "pilot", "dentist", "veterinarian", "psychiatrist")
_SHARED_HOMES = ("parent", "family")


def contact_is_fictional(facts: Facts, _today: date) -> str | None:
    """E-mail hosts and phone numbers reach nobody."""
    for feature, value in facts.items():
        if not isinstance(value, str):
            continue
        found = EMAIL.fullmatch(value.strip())
        if found and not SAFE_HOST.fullmatch(found["host"]):
            return f"{feature} {value!r} is at a real domain; only example.com, example.org, example.net and .test are used"
        if ("phone" in feature or "mobile" in feature) and PHONE.fullmatch(value.strip()) and not FICTION.fullmatch(value.strip()):
            return f"{feature} {value!r} is not from a range reserved for fiction"
    return None


def age_fits_birthday(facts: Facts, today: date) -> str | None:
    """A known birthday gives the age."""
    age, born = facts.get("age"), facts.get("birthday")
    if not isinstance(age, int) or not isinstance(born, str):
        return None
    try:
        day = date.fromisoformat(born)
    except ValueError:
        return f"birthday {born!r} is no date"
    years = today.year - day.year - ((today.month, today.day) < (day.month, day.day))
    return None if abs(years - age) <= 1 else f"age {age}, but born on {born}"


def age_fits_work(facts: Facts, _today: date) -> str | None:
    """Nobody is retired in their thirties or a surgeon at nineteen."""
    age = facts.get("age")
    if not isinstance(age, int):
        return None
    words = set(normal.words(f"{facts.get('occupation', '')} {facts.get('life_stage', '')}".replace("_", " ")))
    if words & set(_RETIRED) and age < 45:
        return f"age {age}, but {facts.get('occupation') or facts.get('life_stage')}"
    if words & set(_LONG_TRAINING) and not words & {"student", "assistant", "junior", "trainee"} and age < 23:
        return f"age {age}, but works as {facts.get('occupation')}"
    return None


def home_fits_stage(facts: Facts, _today: date) -> str | None:
    """A household of one is no family."""
    stage = set(normal.words(str(facts.get("life_stage", "")).replace("_", " ")))
    size = facts.get("household_size")
    return f"lives alone, but {facts['life_stage']}" if size == 1 and stage & set(_SHARED_HOMES) else None


def addresses_lie_in_city(facts: Facts, _today: date) -> str | None:
    """Home and work are in the city the person lives in."""
    city = facts.get("home_city")
    if not isinstance(city, str) or not city.strip():
        return None
    for feature, value in facts.items():
        postal = feature.endswith("address") and "mail" not in feature and isinstance(value, str)
        if postal and not normal.contains(normal.fold(str(value)), normal.fold(city.partition(",")[0])):
            return f"{feature} {value!r} is not in {city}"
    return None


def zone_is_known(facts: Facts, _today: date) -> str | None:
    """Times need a zone that exists, on the continent the phone number belongs to."""
    zone = facts.get("time_zone")
    if not isinstance(zone, str):
        return None
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"time_zone {zone!r} is no IANA zone"
    phone = str(facts.get("phone", ""))
    for code, starts in ZONE_OF_CODE.items():
        if phone.startswith(code) and zone != "UTC" and not zone.startswith(starts):
            return f"phone {phone!r}, but time_zone {zone}"
    return None


RULES: tuple[Rule, ...] = (
    contact_is_fictional,
    age_fits_birthday,
    age_fits_work,
    home_fits_stage,
    addresses_lie_in_city,
    zone_is_known,
)


def first_contradiction(facts: Facts, today: date) -> tuple[str, str] | None:
    """The first rule a person breaks, as (name, detail), or None."""
    for rule in RULES:
        problem = rule(facts, today)
        if problem is not None:
            return rule.__name__, problem
    return None
