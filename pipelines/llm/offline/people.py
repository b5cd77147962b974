"""The people of the offline model: coherent, invented, and a pure function of the random generator.

All words are in `<language>/_people.yaml`. A person first gets a core, and every other feature follows from it.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable
from functools import cache
from math import lcm
from random import Random
from typing import Any

from pipelines.llm.offline.knowledge import HERE, read_bank

Facts = dict[str, Any]
CORE = ("life_stage", "region", "home_city", "occupation", "household_size", "age", "gender", "name", "language")
UNIQUE = ("name", "home_address", "phone", "email", "work_email", "loyalty_number")
TRIES = 60
SCATTER = 7919  # a prime that divides no number range: lines dealt out side by side do not look it


@cache
def _bank(language: str) -> Facts:
    bank: Facts = read_bank(HERE / language / "_people.yaml")
    bank["places"] = [{**bank["countries"][c["country"]], **c, "city": name} for name, c in bank["cities"].items()]
    bank["jobs"] = [{"title": title, "from": 0, "trade": bank["own_trade"], **o} for title, o in bank["jobs"].items()]
    bank["family"] = {surname: name for name, h in bank["heritages"].items() for surname in h["surnames"]}
    return bank


def described(feature: str, language: str) -> str:
    """What a feature is, in a language."""
    return str(_bank(language)["features"][feature]["description"])


FEATURES: dict[str, Facts] = _bank("en")["features"]
LIFE_STAGES: list[str] = list(_bank("en")["life_stages"])


def life_stages(rng: Random, count: int, language: str) -> list[Facts]:
    """Distinct coarse starting points; life stages and regions repeat as late as possible."""
    bank = _bank(language)
    stages = sorted(bank["life_stages"], key=lambda _: rng.random())
    regions = sorted({place["region"]: 0 for place in bank["places"]}, key=lambda _: rng.random())
    s, r = len(stages), len(regions)
    return _distinct(count, lambda n: {"life_stage": stages[n % s], "region": regions[(n + n // lcm(s, r)) % r]}, [])


def situations(rng: Random, parent: Facts, count: int, language: str) -> list[Facts]:
    """Distinct refinements of a parent; each holds the parent's features too."""
    base = _Draft(rng, language, parent).fill("life_stage")
    cities = sorted((place["city"] for place in base.places()), key=lambda _: rng.random())
    jobs = sorted((job["title"] for job in base.jobs()), key=lambda _: rng.random())

    def make(n: int) -> Facts:
        deal = {"home_city": cities[n % len(cities)], "occupation": jobs[n % len(jobs)]}
        draft = _Draft(rng, language, base.facts | deal | base.facts)
        draft.facts.setdefault("language", draft.pick(draft.place("languages")))
        return draft.fill("region", "household_size", "time_zone", "currency").facts

    return _distinct(count, make, [])


def persons(rng: Random, parent: Facts, features: list[str], count: int, language: str) -> list[Facts]:
    """Distinct people: the parent's features, name, age, gender and every requested feature."""
    wanted = dict.fromkeys([*(f for f in parent if f in FEATURES), "name", "age", "gender", *features])

    def make(_: int) -> Facts:
        draft = _Draft(rng, language, parent, count).fill(*CORE, *(f for f in FEATURES if f in wanted), *wanted)
        return {feature: draft.facts[feature] for feature in wanted}

    return _distinct(count, make, [feature for feature in UNIQUE if feature in wanted and feature not in parent])


def _distinct(count: int, make: Callable[[int], Facts], keys: list[str]) -> list[Facts]:
    """That differ in every key (at last only in the first, as cities run out of phone lines), or in anything."""
    found: list[Facts] = []
    seen: set[Any] = set()
    for n in range(count * TRIES):
        if len(found) < count:
            draft = make(n)
            marks: set[Any] = {(key, draft[key]) for key in keys[: None if n < 5 * count else 1]} or {repr(draft)}
            if not marks & seen:
                seen |= marks
                found.append(draft)
    if len(found) < count:
        raise ValueError(f"only {len(found)} differ; {count} were asked for")
    return found


def feature_value(rng: Random, feature: str, person: Facts, language: str) -> Any:
    """A value of one feature that fits everything else known of the person."""
    return _Draft(rng, language, {f: v for f, v in person.items() if f != feature}).fill(*CORE, feature).facts[feature]


def _name_parts(name: str) -> list[str]:
    """Given names first, the surname last; a Chinese name begins with its surname, of one character."""
    if len(name) > 1 and "\u3400" <= name[0] <= "\u9fff":
        return [name[1:], name[0]]
    return name.split(" ")


class _Draft:
    """A person in the making: the facts so far, and what follows. A method named like a feature makes its value."""

    def __init__(self, rng: Random, language: str, known: Facts, siblings: int = 1) -> None:
        self.rng, self.bank, self.siblings = rng, _bank(language), siblings
        ok = {"life_stage": self.bank["life_stages"], "gender": self.bank["genders"]}
        self.facts: Facts = {f: v for f, v in known.items() if f in FEATURES and v is not None and v in ok.get(f, [v])}

    def fill(self, *features: str) -> _Draft:
        for feature in features:
            if feature not in FEATURES:
                raise ValueError(f"unknown feature {feature!r}; known: {', '.join(FEATURES)}")
            if feature not in self.facts:
                rule, plain = _RULES.get(feature) or getattr(_Draft, feature, None), self.bank["plain"].get(feature)
                self.facts[feature] = rule(self) if rule else self.pick(plain or [self.place(feature)])
        return self

    def pick(self, options: Any, *taken: Any) -> Any:
        """One of the options, by weight if they have weights; one of those taken only for want of others."""
        weights = options if isinstance(options, dict) else dict.fromkeys(options, 1)
        free = {option: weight for option, weight in weights.items() if option not in taken} or weights
        return self.rng.choices(list(free), list(free.values()))[0]

    def either(self, chance: str, usual: Any, other: Any) -> Any:
        return usual if self.rng.random() < self.bank[chance] or other is None else other

    def places(self) -> list[Facts]:
        """The cities that agree with what is known; a fact that no city agrees with is passed over."""
        found: list[Facts] = self.bank["places"]
        for feature, key in self.bank["tells_city"].items():
            if feature in self.facts:
                own = [(c, c[key] if isinstance(c[key], list) else [c[key]]) for c in found]
                found = [c for c, marks in own if any(m.split("#")[0] in self.facts[feature] for m in marks)] or found
        return found

    def place(self, key: str) -> Any:
        value = self.rng.choice(self.places())[self.bank["tells_city"].get(key, key)]
        return self.rng.choice(value) if isinstance(value, list) else value

    def life_stage(self) -> str:
        stages, age = self.bank["life_stages"], self.facts.get("age")
        at = [s for job in self.bank["jobs"] if job["title"] == self.facts.get("occupation") for s in job["at"]]
        fits = [s for s in at or stages if age and stages[s]["ages"][0] <= age <= stages[s]["ages"][1]]
        return str(self.pick(fits or at or list(stages)))

    def stage(self, key: str) -> Any:
        return self.bank["life_stages"][self.facts["life_stage"]][key]

    def jobs(self) -> list[Facts]:
        stage, age, jobs = self.facts.get("life_stage"), self.facts.get("age", 99), self.bank["jobs"]
        own = [job for job in jobs if job["title"] == self.facts.get("occupation")]
        return own or [job for job in jobs if stage in job["at"] and job["from"] <= age] or list(jobs)

    def field(self, key: str) -> str:
        job = self.rng.choice(self.jobs())
        return str(self.pick(self.bank["fields"][job["field"]][key]).format(surname=self.surname(), trade=job["trade"]))

    def age(self) -> int:
        if "birthday" in self.facts:
            born, today = dt.date.fromisoformat(self.facts["birthday"]), self.bank["today"]
            return int(today.year - born.year - ((today.month, today.day) < (born.month, born.day)))
        low, high = self.stage("ages")
        return self.rng.randint(min(max(low, self.jobs()[0]["from"] if "occupation" in self.facts else 0), high), high)

    def birthday(self) -> str:
        latest = self.bank["today"].replace(year=self.bank["today"].year - self.facts["age"])
        return str(latest - dt.timedelta(days=self.rng.randrange(365)))

    def gender(self) -> str:
        """By weight, among those whose names include the given name, if that is known."""
        weights, given = self.bank["gender_weights"], _name_parts(self.facts.get("name", ""))[0]
        banks = [self.bank["shared"], *self.bank["heritages"].values()]
        fits = {g: w for g, w in weights.items() if any(given in b.get(g, ()) for b in banks)}
        return str(self.pick(fits or weights))

    def full_name(self, gender: str, form: str, surname: str = "", speaks: str = "") -> str:
        bank, place, shared = self.bank, self.rng.choice(self.places()), self.bank["shared"][gender]
        weights = {name: len(h["surnames"]) * place["lean"].get(name, 1) for name, h in bank["heritages"].items()}
        speakers = [name for name, h in bank["heritages"].items() if h.get("language") == speaks != place["language"]]
        heritage = bank["heritages"][bank["family"].get(surname) or self.pick(speakers or weights)]
        surname, names = surname or self.pick(heritage["surnames"]), heritage.get(gender) or shared
        given = self.pick(self.either("shared_given", shared, names), surname)
        middle, initial = self.pick(names, given, surname), self.pick(bank["initials"])
        other = self.pick([name for name in bank["family"] if len(name) <= bank["short"]], surname)
        return form.format(given=given, surname=surname, middle=middle, initial=initial, other=other)

    def acquaintance(self, kin: str) -> str:
        name = own = self.facts["name"]
        while _name_parts(own)[0] == _name_parts(name)[0]:
            name = self.full_name(self.pick(self.bank["gender_weights"]), self.bank["plain_name"], kin)
        return str(name)

    def surname(self) -> str:
        return _name_parts(self.facts["name"])[-1].split("-")[0]

    def heritage(self) -> Facts:
        return dict(self.bank["heritages"].get(self.bank["family"].get(self.surname()), {}))

    def filled(self, template: str) -> str:
        marks = {"#": "0123456789", "@": self.bank["letters"]}
        return "".join(self.rng.choice(marks.get(letter, letter)) for letter in template)

    def address(self, work: bool) -> str:
        place, rng, roll = self.rng.choice(self.places()), self.rng, self.rng.randint
        site = rng.choice(place["work"]) if work else f"{rng.choice(place['streets'])}, , {rng.choice(place['posts'])}"
        street, district, post = site.split(", ")
        form = place["work_form" if work else "flat" if rng.random() < self.stage("flat") else "house"]
        house = place | {"number": roll(*place["numbers"]), "unit": roll(1, 39), "floor": roll(2, 18)}
        return str(form.format(**house, street=street, district=district, post=self.filled(post)))

    def phone(self) -> str:
        """Every occupation of a life stage has its own stretch of a city's lines, so cousins do not share one."""
        phones, job, few = self.rng.choice(self.places())["phones"], self.facts["occupation"], self.siblings
        jobs = [j["title"] for j in self.bank["jobs"] if self.facts["life_stage"] in j["at"]]
        size = 10 ** phones[0].count("#")
        stretch = len(phones) * size // len(jobs)
        start = stretch * (jobs.index(job) if job in jobs else self.rng.randrange(len(jobs)))
        line = (start + self.rng.randrange(stretch if few <= stretch else 2 * few)) * SCATTER % (len(phones) * size)
        figures = iter(str(size + line % size)[1:])
        return "".join(next(figures) if letter == "#" else letter for letter in phones[line // size])

    def spelled(self, part: str) -> str:
        """A part of a name in Latin letters: Chinese characters by their sound."""
        return "".join(self.bank.get("sounds", {}).get(char, char) for char in part)

    def mail(self, work: bool) -> str:
        spelled = [self.spelled(part) for part in _name_parts(self.facts["name"])]
        words = [unicodedata.normalize("NFKD", word).casefold() for word in spelled]
        *given, last = ["".join(c for c in word if "a" <= c <= "z") for word in words]
        initials = "".join(part[:1] for part in given)
        parts = [initials, last] if work else [*given[:1], *initials[1:], last]
        local = self.pick(self.bank["work_mail_joints" if work else "mail_joints"]).join(parts)
        year = "" if work else self.either("mail_plain", "", str(self.facts.get("birthday") or self.birthday())[2:4])
        return f"{local}{year}@{self.pick(self.bank['mail_hosts'])}"


_RULES: dict[str, Callable[[_Draft], Any]] = {
    "occupation": lambda d: d.rng.choice(d.jobs())["title"],
    "household_size": lambda d: d.pick(d.stage("household")),
    "name": lambda d: d.full_name(d.facts["gender"], d.pick(d.bank["name_forms"]), speaks=d.facts.get("language", "")),
    "language": lambda d: d.either("native", d.place("language"), d.heritage().get("language")),
    "employer": lambda d: d.field("employers"),
    "home_address": lambda d: d.address(work=False),
    "work_address": lambda d: d.address(work=True),
    "email": lambda d: d.mail(work=False),
    "work_email": lambda d: d.mail(work=True),
    "diet": lambda d: d.pick({**d.bank["diets"], **d.heritage().get("diets", {})}),
    "allergy": lambda d: d.pick(d.bank["allergies"], *d.bank["diet_covers"].get(d.facts.get("diet"), ())),
    "shoe_size": lambda d: d.pick(d.place("shoes")[d.facts["gender"]]),
    "clothing_size": lambda d: d.pick(d.bank["genders"][d.facts["gender"]]["clothing_size"]),
    "payment_method": lambda d: d.pick(d.stage("payment_method")),
    "passport_country": lambda d: d.either("home", d.place("country"), d.pick(d.heritage().get("passports", [None]))),
    "loyalty_number": lambda d: d.filled(d.bank["loyalty"]),
    "team_name": lambda d: d.field("teams"),
    "manager_name": lambda d: d.acquaintance(""),
    "working_hours_start": lambda d: d.field("starts"),
    "subtitle_language": lambda d: d.either("subtitles_own", d.facts["language"], d.pick(d.bank["subtitles"])),
    "car_model": lambda d: d.pick(d.bank["cars"][d.stage("cars")]),
    "emergency_contact": lambda d: d.acquaintance(d.either("kin", d.surname(), "")),
}
