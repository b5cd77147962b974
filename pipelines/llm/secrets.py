"""Keys come from the environment and stay there: whatever is told, kept or raised is cleaned of them first."""

from __future__ import annotations

import os
import re

from pipelines.errors import ConfigError

_NAMES = re.compile(r"(API_?KEY|_TOKEN|_SECRET|PASSWORD)$")
_WATCHED: set[str] = set()
_SHAPES = re.compile(r"\b(sk-[A-Za-z0-9_-]{8,}|Bearer\s+\S{8,})")
SHORTEST = 8
"""Shorter values are words, not keys."""


def key_values() -> list[str]:
    """Every value in the environment that may be a key, longest first."""
    found = set(_WATCHED)
    found |= {value for name, value in os.environ.items() if len(value) >= SHORTEST and _NAMES.search(name.upper())}
    return sorted(found, key=len, reverse=True)


def redact(text: str) -> str:
    """The text without keys: those of the environment, and whatever else has the shape of one."""
    for value in key_values():
        if value in text:
            text = text.replace(value, "***")
    return _SHAPES.sub("***", text)


def key_of(variable: str) -> str:
    """The key from the environment.

    Raises:
        ConfigError: when the variable is not set, or holds what cannot go into a header.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"{variable} is not set; export it, or use --model offline")
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{variable} holds characters that no key has; export it again")
    if len(key) >= SHORTEST:
        _WATCHED.add(key)
    return key
