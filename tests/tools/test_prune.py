import random

import pytest

from pipelines.tools import prune
from pipelines.tools.prune import ApiText, near_duplicates, text_of

WORDS = [
    f"{a}{b}" for a in ("bar", "cor", "del", "fan", "gol", "hem", "jur", "kip") for b in ("a", "et", "im", "on", "ush", "ax", "ilo", "und")
]


def texts(count: int, seed: int = 1) -> list[ApiText]:
    rng = random.Random(seed)
    return [ApiText(f"api_{i}", " ".join(rng.choices(WORDS, k=40))) for i in range(count)]


def test_the_same_name_the_same_text_and_nearly_the_same_words_are_dropped_each_with_its_reason():
    base = texts(3)
    changed = ApiText("other", base[2].text.rpartition(" ")[0] + " brandnew")
    apis = [*base, ApiText("API_0", "something else"), ApiText("twin", base[1].text.upper()), changed]

    assert [(d.index, d.of, d.why) for d in near_duplicates(apis)] == [(3, 0, "same_name"), (4, 1, "same_text"), (5, 2, "near_duplicate")]


def test_what_differs_in_what_it_does_is_kept():
    kept = [
        text_of("bookHotel", "Book a room in a hotel.", {"type": "object", "properties": {"nights": {"type": "integer"}}}),
        text_of("cancelHotel", "Cancel a room that was booked.", {"type": "object", "properties": {"booking": {"type": "string"}}}),
    ]

    assert near_duplicates(kept) == []


def test_a_chain_of_repetitions_keeps_its_first_only():
    [first] = texts(1)
    apis = [first, *(ApiText(f"copy_{i}", first.text + f" extra{i}") for i in range(5))]

    assert {d.index for d in near_duplicates(apis)} == {1, 2, 3, 4, 5}
    assert {d.of for d in near_duplicates(apis)} == {0}


def test_names_in_any_case_style_are_read_as_words():
    assert prune.spaced("getCityWeather") == prune.spaced("get_city_weather") == "get city weather"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hashing_finds_what_comparing_all_pairs_finds(monkeypatch, seed):
    apis = texts(400, seed)
    rng = random.Random(seed)
    for i in range(60):
        words = rng.choice(apis[:400]).text.split()
        words[rng.randrange(40)] = "changed"
        apis.append(ApiText(f"near_{i}", " ".join(words)))
    exact = {d.index for d in near_duplicates(apis)}

    monkeypatch.setattr(prune, "ALL_PAIRS", 0)
    hashed = {d.index for d in near_duplicates(apis)}

    assert hashed <= exact
    assert len(hashed) >= 0.95 * len(exact) >= 50


def test_texts_without_words_are_no_duplicates_of_each_other():
    assert near_duplicates([ApiText("a", "!"), ApiText("b", "?"), ApiText("c", "")]) == []
