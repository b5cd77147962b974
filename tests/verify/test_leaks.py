"""Texts that tell what is hidden, and texts that only seem to."""

from __future__ import annotations

from making import Made

from pipelines.verify import leaks


def test_a_brand_inside_another_word_is_not_named(varied: Made):
    platform = varied.people.world.scenarios[0].platforms[0]

    assert leaks.platform_not_named(f"buy a {platform.name.lower()}ish lamp", [platform]) is None
    assert leaks.platform_not_named(f"buy it on {platform.name.upper()}!", [platform]) is not None


def test_a_profile_value_in_another_case_or_width_is_told(varied: Made):
    profile = next(iter(varied.people.profiles.values()))
    address = str(profile.basic["home_address"])
    wide = address.translate({ord(c): ord(c) + 0xFEE0 for c in "0123456789"})

    assert leaks.profile_not_told(f"send it to {address.upper()}", profile, ["home_address"]) is not None
    assert leaks.profile_not_told(f"send it to {wide}", profile, ["home_address"]) is not None
    assert leaks.profile_not_told("send it to my place", profile, ["home_address"]) is None


def test_the_situation_in_a_preference_may_be_told(varied: Made):
    scenario = varied.people.world.scenarios[0]
    profile = next(iter(varied.people.profiles.values()))
    for context in scenario.contexts:
        assert leaks.preference_not_stated(f"It is about {context.description}.", profile, scenario) is None


def test_a_hidden_label_is_a_leak(varied: Made):
    scenario = varied.people.world.scenarios[0]
    profile = next(iter(varied.people.profiles.values()))
    label = next(c.name for c in scenario.contexts if "_" in c.name)

    assert leaks.preference_not_stated(f"context {label}", profile, scenario) is not None


def test_a_near_duplicate_is_found_whatever_its_order_and_punctuation():
    earlier = [leaks.word_set("Could you find me a blue lamp for the desk, please?")]

    assert leaks.not_a_duplicate("Find a blue lamp, please, for me: could you? The desk.", earlier) is not None
    assert leaks.not_a_duplicate("Could you find me a red chair for the hall, please?", earlier) is None


def test_another_script_is_another_language():
    assert leaks.language_is("请帮我买一双跑鞋", "en") is not None
    assert leaks.language_is("Buy me running shoes", "en") is None
    assert leaks.language_is("12345 !!", "en") is not None
