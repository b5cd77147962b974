"""Reading config and scenario files: UTF-8, bounded, no aliases, no tags, no keys; every mistake is one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from pipelines.config.form import Strict
from pipelines.config.scenario import ScenarioSpec
from pipelines.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent.parent
SCENARIOS = ROOT / "scenarios"
MAX_FILE_BYTES = 4_000_000

_KEY_NAME = re.compile(r"(^|[._-])(api_?key|secret|password|access_?token|authorization)$", re.IGNORECASE)
_KEY_VALUE = re.compile(r"\b(sk-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|AIza[A-Za-z0-9_-]{30,}|Bearer\s+\S{12,})")
_URL_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]+@")


def refuse_keys(value: Any, where: str, path: str = "") -> None:
    """Credentials belong in the environment: a config that holds one is refused, without repeating it.

    Raises:
        ConfigError: naming file and field of what looks like a key.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else str(name)
            if isinstance(inner, str) and inner and _KEY_NAME.search(str(name)):
                raise ConfigError(f"{where}: {here}: keys are not read from a config; export it, and name the variable in key_variable")
            refuse_keys(inner, where, here)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            refuse_keys(inner, where, f"{path}.{number}")
    elif isinstance(value, str) and (_KEY_VALUE.search(value) or _URL_PASSWORD.search(value)):
        raise ConfigError(f"{where}: {path}: holds a key or password; take it out (and revoke it), and put it into the environment")


def read_scenario(item: str, language: str = "en") -> ScenarioSpec:
    """A scenario by name (a file in `scenarios/`, or in `scenarios/<language>/`) or by path.

    Raises:
        ConfigError: when there is no such file, or it is not a scenario.
    """
    path = Path(item)
    if not item.endswith((".yaml", ".yml")):
        name = item.strip()
        known = sorted(file.stem for file in SCENARIOS.glob("*.yaml"))
        if name not in known:
            raise ConfigError(f"scenarios: no scenario {name[:100]!r}; write one of {', '.join(known)}, or the path of a .yaml file")
        path = SCENARIOS / f"{name}.yaml"
        own = SCENARIOS / language / f"{name}.yaml"
        path = own if language != "en" and own.is_file() else path
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds a {type(data).__name__}; write a mapping with name and description")
    refuse_keys(data, str(path))
    return validated(ScenarioSpec, data, str(path), {})


def read_yaml(path: Path) -> Any:
    """One YAML document: UTF-8, bounded, no aliases, no tags.

    Raises:
        ConfigError: naming the file and, where known, the line.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes; write a smaller file")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{str(path)[:200]!r}: cannot read: {reason}; write the path of a YAML file") from None
    if not text.strip():
        raise ConfigError(f"{path}: is empty; write a mapping such as `name: smart_home`")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise ConfigError(f"{path}, line {line}: YAML aliases (*{event.anchor}) are not read; write the value out")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}{where}: not YAML: {problem}; correct that line") from None
    except ValueError as error:
        raise ConfigError(f"{path}: holds a value that is none: {error}; quote it") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; flatten it") from None


_Model = TypeVar("_Model", bound=Strict)


def validated(model: type[_Model], data: dict[str, Any], where: str, origin: Mapping[str, str]) -> _Model:
    """Data as a model, or one line that names place, field, what was found and what to write.

    Raises:
        ConfigError: when the data does not fit.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in first["loc"])
        top = str(first["loc"][0]) if first["loc"] else ""
        place = origin.get(top, where)
        if first["type"] == "extra_forbidden":
            known = _fields_at(model, first["loc"])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"
            raise ConfigError(f"{place}: {location}: unknown key; {hint}") from None
        found = repr(first.get("input"))
        found = found if len(found) <= 80 else found[:77] + "..."
        message = first["msg"].removeprefix("Value error, ")
        what = f"{location}: " if location else ""
        shown = f" (found {found})" if first["type"] not in ("value_error", "missing") else ""
        raise ConfigError(f"{place}: {what}{message}{shown}") from None


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    fields = model.model_fields
    for part in location[:-1]:
        if isinstance(part, str) and part in fields:
            inner = _models_in(fields[part].annotation)
            fields = inner[0].model_fields if inner else fields
    return list(fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
