"""The effective config: a preset, a file and `--set k=v`, in that order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.config.files import MAX_FILE_BYTES, read_yaml, refuse_keys, validated
from pipelines.config.run import Preset, RunConfig
from pipelines.errors import ConfigError
from pipelines.jsonio import unflatten

PRESETS: dict[Preset, dict[str, Any]] = {
    "tiny": {
        "scenarios": ["shopping"],
        "platforms_per_scenario": 2,
        "apis_per_platform": 6,
        "users": 3,
        "untrained_users": 1,
        "samples": {"train": 14, "test_trained_users": 4, "test_untrained_users": 6},
    },
    "quick": {"scenarios": ["shopping", "takeout"]},
    "paper": {
        "scenarios": ["shopping", "takeout", "entertainment", "work", "travel"],
        "apis_per_platform": 24,
        "users": 80,
        "untrained_users": 6,
        "layers": [4, 4, 5],
        "samples": {"train": 7096, "test_trained_users": 474, "test_untrained_users": 609},
    },
}


def load(
    preset: Preset | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[RunConfig, dict[str, str]]:
    """The effective config and where each of its fields came from.

    Args:
        preset: Starts from it; a file may name one with `preset:`; else `quick`.
        file: A YAML mapping of fields.
        overrides: `--set` values by dotted key, already parsed.

    Raises:
        ConfigError: naming the file or option, the field, what was found and what to write.
    """
    given = read_yaml(file) if file is not None else {}
    refuse_keys(given, str(file))
    refuse_keys(dict(overrides or {}), "--set")
    if not isinstance(given, dict):
        raise ConfigError(f"{file}: holds a {type(given).__name__}; write a mapping such as `users: 8`")
    chosen = preset or given.get("preset") or "quick"
    if chosen not in PRESETS:
        raise ConfigError(f"{file}: preset is {chosen!r}; write one of {', '.join(PRESETS)}")
    merged: dict[str, Any] = {"preset": chosen}
    origin: dict[str, str] = {}
    layers: list[tuple[str, Mapping[str, Any]]] = [(f"preset {chosen}", PRESETS[chosen])]
    if file is not None and isinstance(given.get("scenarios"), list):
        given["scenarios"] = [_beside(file, item) for item in given["scenarios"]]
    layers.append((str(file), {key: value for key, value in given.items() if key != "preset"}))
    layers.append(("--set", unflatten(overrides or {})))
    for name, layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            origin[key] = name
    where = str(file) if file is not None else "config"
    config = validated(RunConfig, merged, where, origin)
    for field in RunConfig.model_fields:
        origin.setdefault(field, "default")
    return config, origin


def _beside(file: Path, item: Any) -> Any:
    """A scenario path in a config file counts from that file."""
    if isinstance(item, str) and item.endswith((".yaml", ".yml")) and not Path(item).is_absolute():
        return str(file.parent / item)
    return item


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """`k=v` words to values; v is read as YAML, so `3`, `true` and `[a, b]` have types.

    Raises:
        ConfigError: without `=`, or when the value is not YAML.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {pair!r}: no `=`; write key=value, e.g. --set users=12")
        try:
            found[key.strip()] = yaml.safe_load(text) if len(text) < MAX_FILE_BYTES else text
        except (yaml.YAMLError, ValueError, RecursionError):
            found[key.strip()] = text
    return found
