"""Rules on texts that a solver sees: nothing hidden may be read in them.

Each rule is a pure function: nothing when fine, else what is wrong. Its name is the reason counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pipelines import normal
from pipelines.normal import chinese as han
from pipelines.records import Platform, Profile, Scenario

HAN_RUN = 7
"""So many pairs in a row, which are eight Chinese characters, state it too."""
RUN = 5
"""So many words in a row of a hidden preference, two of them longer than four letters, state it when said again."""

_FIRST_PERSON = (
    "i prefer",
    "i care about",
    "matters most to me",
    "is most important to me",
    "i always choose",
    "my favourite platform",
    "my favorite platform",
    *(
        " ".join(normal.words(phrase))
        for phrase in (
            "我偏好",
            "我更看重",
            "我最看重",
            "我最在意",
            "我更在意",
            "我更喜欢用",
            "对我来说最重要",
            "我一向只选",
            "我最常用的平台",
        )
    ),
)


def platform_not_named(text: str, platforms: Iterable[Platform]) -> str | None:
    """A query leaves the choice of platform to the solver."""
    low = f" {' '.join(normal.words(text))} "
    named = [p.name for p in platforms if f" {' '.join(normal.words(p.name))} " in low]
    return f"names {', '.join(named)}: {text!r}" if named else None


def platform_named_as_planned(text: str, platforms: Iterable[Platform], planned: str | None) -> str | None:
    """A query names no platform; or, where that is the plan, just the planned one."""
    platforms = list(platforms)
    if planned is None:
        return platform_not_named(text, platforms)
    wanted = [p for p in platforms if p.id == planned]
    if platform_not_named(text, wanted) is None:
        return f"does not name {', '.join(p.name for p in wanted)}: {text!r}"
    return platform_not_named(text, [p for p in platforms if p.id != planned])


def profile_not_told(text: str, profile: Profile, features: Iterable[str]) -> str | None:
    """A query tells no value that the profile is to fill, and no address, number or e-mail of the user at all.

    Other facts, such as the name of a city, may occur in a query by chance.
    """
    low = normal.fold(text)
    planned = set(features)
    for feature, value in profile.basic.items():
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            continue
        told = normal.fold(str(value))
        secret = (feature in planned and len(told) >= 2) or _is_distinctive(told)
        if secret and normal.contains(low, told):
            return f"tells {feature} {value!r}: {text!r}"
    return None


def _is_distinctive(told: str) -> bool:
    """No other person has it, and no query says it by chance."""
    return len(told) >= 7 and ("@" in told or any(char.isdigit() for char in told))


def preference_not_stated(text: str, profile: Profile, scenario: Scenario) -> str | None:
    """No hidden preference, in its own words or by the name of a trait or context."""
    low = " ".join(normal.words(text))
    for phrase in _FIRST_PERSON:
        if phrase in low:
            return f"states a preference ({phrase!r}): {text!r}"
    for name in _hidden_names(scenario):
        if name in low:
            return f"uses the trait's name {name!r}: {text!r}"
    for context in scenario.contexts:
        if "_" in context.name and context.name in text:
            return f"uses the context's label {context.name!r}: {text!r}"
    contexts = [" ".join(normal.words(context.description)) for context in scenario.contexts]  # a situation may be told
    for preference in profile.preferences:
        if preference.scenario != scenario.id:
            continue
        for run in _runs(preference.words):
            if run in low and not any(run in shown for shown in contexts):
                return f"repeats the preference {run!r}: {text!r}"
    return None


def language_is(text: str, language: str) -> str | None:
    """Most words belong to the run's language. A Chinese character counts as a word; addresses, codes and names of parameters as none."""
    words = _WORDS.findall(_NO_WORDS.sub(" ", text))
    if not words:
        return f"holds no words: {text!r}"
    chinese = sum(unicodedata.name(word[0], "").startswith("CJK") for word in words) / len(words)
    latin = sum(unicodedata.name(word[0], "").startswith("LATIN") for word in words) / len(words)
    share = chinese if language == "zh" else latin
    return f"only {share:.0%} of the words are {language}: {text!r}" if share < 0.6 else None


def description_is(text: str, language: str) -> str | None:
    """A description of an API, a platform or a trait is in the run's language, without a phrase in the other one.

    A Chinese one may hold names (`IANA`, `JSON`) but not three English words in a row; an English one may quote a word of three characters.
    """
    problem = language_is(text, language) if any(char.isalpha() for char in text) else None
    foreign = (_ENGLISH_PHRASE if language == "zh" else _CHINESE_PHRASE).search(text)
    if problem is None and foreign is not None:
        problem = f"{foreign.group()!r} is not {language}: {text!r}"
    return problem


_WORDS = re.compile(rf"[{han.HAN}]|[^\W\d_{han.HAN}]+(?:['’-][^\W\d_{han.HAN}]+)*")
_NO_WORDS = re.compile(r"[\w.+-]+@[\w.-]+|https?://\S+|[A-Za-z]+/[A-Za-z_/]+|[A-Za-z]*[_\d][A-Za-z\d_-]*", re.ASCII)
_ENGLISH_PHRASE = re.compile(r"[A-Za-z]*[a-z]{2,}(?: [A-Za-z]*[a-z]{2,}){2,}")
_CHINESE_PHRASE = re.compile(rf"[{han.HAN}]{{4,}}")


def not_a_duplicate(text: str, earlier: Sequence[frozenset[str]]) -> str | None:
    """No earlier query of the same user and scenario shares nine tenths of its words (Jaccard)."""
    mine = word_set(text)
    for other in earlier:
        both = len(mine & other)
        if both and both / len(mine | other) >= 0.9:
            return f"repeats an earlier query: {text!r}"
    return None


def word_set(text: str) -> frozenset[str]:
    """The words of a text, for near-duplicates."""
    return frozenset(normal.words(text))


def _hidden_names(scenario: Scenario) -> list[str]:
    """Multi-word trait names; a single common word would accuse the innocent."""
    return [t.name.replace("_", " ") for t in scenario.traits if "_" in t.name]


@lru_cache(maxsize=5_000)
def _runs(words: str) -> tuple[str, ...]:
    told = normal.words(words)
    runs = [told[i : i + RUN] for i in range(len(told) - RUN + 1)]
    pairs = [told[i : i + HAN_RUN] for i in range(len(told) - HAN_RUN + 1)]
    found = [run for run in runs if sum(len(word) > 4 for word in run) >= 2]
    return tuple(" ".join(run) for run in (*found, *(run for run in pairs if not any(word.isascii() for word in run))))
