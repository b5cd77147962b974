"""The invented people of the offline model are distinct, coherent, and reach nobody."""

from __future__ import annotations

import datetime as dt
import re
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import jsonschema
import pytest

from pipelines.llm.offline import people

TODAY = dt.date(2026, 3, 1)
BANK = people._bank("en")
CITIES = {place["city"]: place for place in BANK["places"]}
ALL = list(people.FEATURES)
RESERVED = re.compile(
    r"\(\d{3}\) 555-01\d\d"  # United States, Canada
    r"|020 7946 0\d{3}|0[1-9]\d1 496 0\d{3}"  # United Kingdom
    r"|\(020\) 91\d \d{4}"  # Ireland
    r"|\(0[23]\) (5550|7010) \d{4}"  # Australia
    r"|\(0[49]\) 055 \d{4}"  # New Zealand: no subscriber number starts with 0
    r"|\+65 5550 \d{4}"  # Singapore: no subscriber number starts with 5
)

Person = dict[str, Any]


def tree(seed: int, stages: int = 4, situations: int = 4, count: int = 5) -> list[Person]:
    rng = Random(seed)
    return [
        person
        for stage in people.life_stages(rng, stages, "en")
        for situation in people.situations(rng, stage, situations, "en")
        for person in people.persons(rng, situation, ALL, count, "en")
    ]


CROWD = [person for seed in range(12) for person in tree(seed, stages=8, situations=3, count=4)]


def test_every_value_fits_the_schema_of_its_feature() -> None:
    for person in CROWD:
        for feature, value in person.items():
            jsonschema.validate(value, people.FEATURES[feature]["schema"])


@pytest.mark.parametrize("seed", range(25))
def test_eighty_people_of_a_tree_share_no_name_address_phone_or_email(seed: int) -> None:
    crowd = tree(seed)
    assert len(crowd) == 80
    for feature in ("name", "home_address", "phone", "email"):
        assert len({person[feature] for person in crowd}) == 80, feature


def test_fewer_than_two_percent_of_ten_thousand_people_share_a_name() -> None:
    rng = Random(5)
    names = [person["name"] for _ in range(2000) for person in people.persons(rng, {}, [], 5, "en")]
    assert len(names) - len(set(names)) < 200


def test_the_same_generator_gives_the_same_people() -> None:
    assert tree(3) == tree(3)
    assert tree(3) != tree(4)


def test_the_order_of_the_requested_features_changes_nobody() -> None:
    ahead = people.persons(Random(1), {}, ["phone", "email", "diet"], 5, "en")
    back = people.persons(Random(1), {}, ["diet", "email", "phone"], 5, "en")
    assert ahead == back


def test_a_person_has_name_age_gender_the_parents_features_and_the_requested_ones() -> None:
    [person] = people.persons(Random(1), {"home_city": "Cork"}, ["pet"], 1, "en")
    assert set(person) == {"home_city", "name", "age", "gender", "pet"}
    assert person["home_city"] == "Cork"


def test_people_keep_the_facts_of_their_parent() -> None:
    rng = Random(8)
    for stage in people.life_stages(rng, 8, "en"):
        for situation in people.situations(rng, stage, 4, "en"):
            assert situation.items() >= stage.items()
            for person in people.persons(rng, situation, ALL, 3, "en"):
                assert person.items() >= situation.items()


@pytest.mark.parametrize("count", [1, 4, 8, 9, 40, 120])
def test_starting_points_differ_and_repeat_a_life_stage_only_when_all_are_used(count: int) -> None:
    points = people.life_stages(Random(count), count, "en")
    assert len({(p["life_stage"], p["region"]) for p in points}) == count
    assert len({p["life_stage"] for p in points}) == min(count, len(people.LIFE_STAGES))


def test_more_starting_points_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"120"):
        people.life_stages(Random(1), 121, "en")


def test_situations_of_a_parent_differ_and_lie_in_its_region() -> None:
    rng = Random(2)
    for stage in people.life_stages(rng, 60, "en"):
        found = people.situations(rng, stage, 12, "en")
        assert len({repr(situation) for situation in found}) == 12
        assert {CITIES[situation["home_city"]]["region"] for situation in found} == {stage["region"]}


def test_none_asked_for_gives_none() -> None:
    assert people.life_stages(Random(1), 0, "en") == []
    assert people.situations(Random(1), {}, 0, "en") == []
    assert people.persons(Random(1), {}, [], 0, "en") == []


def test_more_people_than_a_city_has_phone_lines_still_have_different_names() -> None:
    crowd = people.persons(Random(1), {"home_city": "Seattle"}, ["phone"], 300, "en")
    assert len({person["name"] for person in crowd}) == 300


def test_home_and_work_addresses_lie_in_the_home_city() -> None:
    for person in CROWD:
        place = CITIES[person["home_city"]]
        ends = {post.split(" ")[0].split("#")[0] for post in place["posts"]}
        assert f", {person['home_city']}" in person["home_address"]
        assert f", {person['home_city']}" in person["work_address"]
        assert any(f" {end}" in person["home_address"] for end in ends), person["home_address"]
        assert any(street in person["home_address"] for street in place["streets"])


def test_addresses_have_no_unfilled_slot() -> None:
    for person in CROWD:
        for feature in ("home_address", "work_address", "phone", "employer", "loyalty_number"):
            assert not set("{}#@") & set(person[feature]), person[feature]
            assert ", ," not in person[feature]
            assert "  " not in person[feature]


def test_phones_are_reserved_for_fiction_and_of_the_home_city() -> None:
    for person in CROWD:
        assert RESERVED.fullmatch(person["phone"]), person["phone"]
        prefixes = [phone.split("#")[0] for phone in CITIES[person["home_city"]]["phones"]]
        assert any(person["phone"].startswith(prefix) for prefix in prefixes)


def test_emails_are_at_example_domains_and_made_of_the_name() -> None:
    for person in CROWD:
        surname = re.sub("[^a-z]", "", person["name"].split(" ")[-1].lower())
        for feature in ("email", "work_email"):
            assert re.fullmatch(r"[a-z0-9._-]+@example\.(com|net|org)", person[feature])
            assert surname in person[feature]
        assert person["email"] != person["work_email"]


def test_time_zone_airport_currency_region_and_station_are_those_of_the_home_city() -> None:
    for person in CROWD:
        place = CITIES[person["home_city"]]
        assert person["time_zone"] == place["time_zone"]
        assert person["home_airport"] in place["airports"]
        assert person["currency"] == place["currency"]
        assert person["region"] == place["region"]
        assert person["nearest_station"] in place["stations"]


def test_birthday_agrees_with_age() -> None:
    for person in CROWD:
        born = dt.date.fromisoformat(person["birthday"])
        had_birthday = (TODAY.month, TODAY.day) >= (born.month, born.day)
        assert person["age"] == TODAY.year - born.year - (not had_birthday)


def test_an_age_made_for_a_known_birthday_agrees_with_it() -> None:
    assert people.feature_value(Random(1), "age", {"birthday": "1990-03-01"}, "en") == 36
    assert people.feature_value(Random(1), "age", {"birthday": "1990-03-02"}, "en") == 35


def test_age_and_occupation_fit_the_life_stage() -> None:
    jobs = {job["title"]: job for job in BANK["jobs"]}
    for person in CROWD:
        low, high = BANK["life_stages"][person["life_stage"]]["ages"]
        job = jobs[person["occupation"]]
        assert low <= person["age"] <= high
        assert person["life_stage"] in job["at"]
        assert person["age"] >= job["from"]
        assert person["household_size"] in BANK["life_stages"][person["life_stage"]]["household"]


def test_employer_and_team_fit_the_occupation() -> None:
    jobs = {job["title"]: job for job in BANK["jobs"]}
    for person in CROWD:
        job = jobs[person["occupation"]]
        field = BANK["fields"][job["field"]]
        surname = person["name"].split(" ")[-1].split("-")[0]
        assert person["team_name"] in field["teams"]
        assert person["employer"] in [e.format(surname=surname, trade=job["trade"]) for e in field["employers"]]


def test_the_given_name_fits_the_gender() -> None:
    banks = [BANK["shared"], *BANK["heritages"].values()]
    for person in CROWD:
        given = person["name"].split(" ")[0]
        assert any(given in bank.get(person["gender"], ()) for bank in banks), person["name"]
        remade = people.feature_value(Random(1), "gender", {"name": person["name"]}, "en")
        assert any(given in bank.get(remade, ()) for bank in banks)


def test_managers_and_emergency_contacts_are_other_people() -> None:
    for person in CROWD:
        given = person["name"].split(" ")[0]
        assert person["manager_name"].split(" ")[0] != given
        assert person["emergency_contact"].split(" ")[0] != given
    kin = [p for p in CROWD if p["emergency_contact"].split(" ")[-1] == p["name"].split(" ")[-1]]
    assert len(CROWD) / 2 < len(kin) < len(CROWD)


def test_nobody_is_allergic_to_what_the_diet_leaves_out() -> None:
    for person in CROWD:
        assert person["allergy"] not in BANK["diet_covers"].get(person["diet"], [])


def test_people_who_prefer_a_family_language_have_a_name_of_that_family() -> None:
    spanish = people.persons(Random(1), {"home_city": "Austin", "language": "Spanish"}, [], 40, "en")
    surnames = {person["name"].split(" ")[-1].split("-")[0] for person in spanish}
    assert surnames <= set(BANK["heritages"]["hispanic"]["surnames"])


def test_one_feature_at_a_time_fits_what_is_known_of_the_person() -> None:
    for seed, person in enumerate(CROWD[:100]):
        for feature in ALL:
            others = {name: value for name, value in person.items() if name != feature}
            value = people.feature_value(Random(seed), feature, others, "en")
            jsonschema.validate(value, people.FEATURES[feature]["schema"])
            if feature in ("home_city", "region", "time_zone", "currency", "age"):
                assert value == person[feature], feature
        alone = {"home_address": person["home_address"]}
        assert people.feature_value(Random(seed), "home_city", alone, "en") == person["home_city"]


def test_a_person_the_bank_has_never_heard_of_still_gets_every_feature() -> None:
    stranger = {"name": "Zed Zed", "home_city": "Atlantis", "occupation": "lamplighter", "life_stage": "?", "pet": None}
    for feature in ALL:
        value = people.feature_value(Random(1), feature, stranger, "en")
        jsonschema.validate(value, people.FEATURES[feature]["schema"])


def test_an_unknown_feature_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'hat_size'.*shoe_size"):
        people.feature_value(Random(1), "hat_size", {}, "en")
    with pytest.raises(ValueError, match=r"'hat_size'.*shoe_size"):
        people.persons(Random(1), {}, ["hat_size"], 1, "en")


def test_the_banks_are_rich() -> None:
    assert len(CITIES) >= 24
    assert sum(place["country"] == "United States" for place in CITIES.values()) >= 12
    assert all(len(set(place["streets"])) >= 14 for place in CITIES.values())
    assert all(len(place["stations"]) >= 5 and len(place["work"]) >= 4 for place in CITIES.values())
    for gender in ("female", "male"):
        given = [name for bank in (BANK["shared"], *BANK["heritages"].values()) for name in bank[gender]]
        assert len(set(given)) >= 90
    assert len(BANK["family"]) >= 160
    assert len(BANK["jobs"]) >= 70
    assert len({e for field in BANK["fields"].values() for e in field["employers"]}) >= 70


def test_the_banks_point_to_nothing_missing() -> None:
    assert list(people.FEATURES["life_stage"]["schema"]["enum"]) == people.LIFE_STAGES
    for job in BANK["jobs"]:
        assert job["field"] in BANK["fields"]
        assert set(job["at"]) <= set(people.LIFE_STAGES)
    for stage in BANK["life_stages"].values():
        assert stage["cars"] in BANK["cars"]
    spoken = {heritage.get("language") for heritage in BANK["heritages"].values()} | {"English"}
    for place in CITIES.values():
        ZoneInfo(place["time_zone"])
        assert set(place["languages"]) <= spoken
        assert set(place["lean"]) <= set(BANK["heritages"])
        assert set(place["shoes"]) == set(BANK["genders"])
        assert all(len(site.split(", ")) == 3 for site in place["work"])
        assert len({phone.count("#") for phone in place["phones"]}) == 1


def test_no_region_or_city_is_part_of_the_name_of_another() -> None:
    for names in ({place["region"] for place in CITIES.values()}, set(CITIES)):
        assert not [(a, b) for a in names for b in names if a != b and a in b]
