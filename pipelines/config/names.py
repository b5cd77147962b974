"""Names that are safe in paths, ids, APIs and logs."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

MAX_NAME = 80


def clean_name(value: str) -> str:
    """A name that is safe in paths, ids and logs.

    Raises:
        ValueError: with slashes, `..`, control characters, or more than 80 characters.
    """
    value = value.strip()
    if not value:
        raise ValueError("is empty; write a name of 1 to 80 characters")
    if len(value) > MAX_NAME:
        raise ValueError(f"has {len(value)} characters; write at most {MAX_NAME}")
    if "/" in value or "\\" in value or ".." in value:
        raise ValueError(f"{value!r} contains a path; write a plain name such as smart_home")
    if any(unicodedata.category(char).startswith("C") for char in value):
        raise ValueError(f"{value!r} contains a control character; write a plain name such as smart_home")
    return value


def clean_identifier(value: str) -> str:
    """A name that becomes part of APIs and labels: ASCII letters, digits and underscores.

    Raises:
        ValueError: when no such identifier can be made of it.
    """
    value = clean_name(value)
    if not re.match(r"[a-z][a-z0-9_]*$", identifier(value)):
        raise ValueError(f"{value!r} is no identifier; write ASCII letters such as turn_on_lights, and the words in `description`")
    return value


def identifier(name: str) -> str:
    """The id form of a name: lower case, words joined by `_`; a digest when nothing readable is left."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", name).casefold())
    joined = "_".join(words)[:60]
    return joined or "x" + hashlib.sha256(name.encode()).hexdigest()[:8]


def no_twins(what: str, names: Iterable[str]) -> None:
    """No name occurs twice.

    Raises:
        ValueError: naming the first that does.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} names {name!r} twice; keep one")
        seen.add(name)
