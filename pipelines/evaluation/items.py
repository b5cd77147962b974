"""What a scorer knows of one sample, whichever file it came from: our split file or the seven-key record.

Records are read as plain JSON, so that a field that a later version adds does no harm. `check` refuses what cannot be
scored fairly, in one line; the official scorer takes the raw answer as it is and fails in its own ways.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.errors import ConfigError
from pipelines.evaluation.catalogue import Catalogue
from pipelines.jsonio import canonical, digest

SEVEN_KEYS = ("user_profile", "platforms", "tools", "query", "answer", "query_params", "profile_params")
ACTS = {"ask": "ask", "no_tool": "no_tool", "none": "no_tool"}


@dataclass
class Expected:
    """One gold call."""

    api: str
    accepted: dict[str, list[Any]]
    """Path of an argument -> accepted values, the gold value first."""
    sources: dict[str, tuple[str, ...]]
    """Path -> where the value comes from; a seven-key name in both lists has two."""
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Path -> JSON Schema, for all arguments that the API takes; empty when no API description was found."""
    required: frozenset[str] = frozenset()


@dataclass
class Item:
    """One sample as scorers see it."""

    id: str
    user: str
    scenario: str
    split: str
    query: str
    kinds: tuple[str, ...]
    act: str
    """`call`, `ask` or `no_tool`: what the right answer does."""
    platform: str
    """Gold platform, the name that solvers read."""
    calls: list[Expected]
    ordered: bool
    utilities: dict[str, float]
    """Platform name -> utility to this user here; empty when the file does not have it."""
    must_not: tuple[str, ...]
    """Texts that no argument may hold: profile values that must not be used here."""
    answer: Any
    query_params: Any
    profile_params: Any
    raw: Mapping[str, Any]


def item_of(record: Any, where: str, split: str, catalogue: Catalogue, place: int) -> Item:
    """One record of either layout.

    Raises:
        ConfigError: when it is neither, naming `where`.
    """
    if isinstance(record, dict) and "calls" in record and "query" in record and "id" in record:
        try:
            return _own(record, split, catalogue)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"{where}: not a sample: {type(error).__name__} {error}; export the split again") from None
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: is no object; write records with the keys {', '.join(SEVEN_KEYS)}")
    missing = [key for key in SEVEN_KEYS if key not in record]
    if missing:
        raise ConfigError(f"{where}: lacks {', '.join(missing)}; a record has the keys {', '.join(SEVEN_KEYS)}")
    return _seven(record, split, place)


_OWN_ACTS = {"call": "call", "ask": "ask", "none": "no_tool"}


def _own(record: Mapping[str, Any], split: str, catalogue: Catalogue) -> Item:
    """A line of a split file. Field names of later versions are read where present: `expect`, `ordered`, `must_not_use`."""
    calls: list[Expected] = []
    answer_calls: list[Any] = []
    query_params: list[str] = []
    profile_params: list[str] = []
    for call, accepted in zip(record["calls"], record["accepted"], strict=True):
        paths = {path: list(values) for path, values in accepted.items()}
        sources: dict[str, tuple[str, ...]] = {path: (source["kind"],) for path, source in call["sources"].items()}
        schemas, required = catalogue.arguments(record["platform"], call["api"])
        calls.append(Expected(call["api"], paths, sources, schemas, required))
        whole = {n: [v] if isinstance(v, dict) and n not in paths else paths[n] for n, v in call["arguments"].items()}
        answer_calls.append({call["api"]: whole})
        for path, kinds in sources.items():
            names = query_params if "query" in kinds else profile_params if "profile" in kinds else None
            name = path.partition(".")[0]
            if names is not None and name not in names:
                names.append(name)
    control = record.get("control")
    kinds = (*(record.get("kinds") or ()), *([control] if control else []))
    act = (
        record.get("expect")
        or _OWN_ACTS.get(str(record.get("act")))
        or next((kind for kind in kinds if kind in ACTS), None)
        or ("call" if calls else "no_tool")
    )
    platform = catalogue.platform_name(str(record["platform"]))
    utilities = {catalogue.platform_name(u["platform"]): float(u["utility"]) for u in record["evidence"]["utilities"]}
    return Item(
        id=str(record["id"]),
        user=str(record["user"]),
        scenario=str(record["scenario"]),
        split=str(record.get("split") or split),
        query=str(record["query"]),
        kinds=kinds,
        act=ACTS.get(act, "call"),
        platform=platform,
        calls=calls,
        ordered=bool(record.get("ordered")),
        utilities=utilities,
        must_not=tuple(str(value) for value in record.get("must_not_use") or ()),
        answer=[platform, answer_calls],
        query_params=query_params,
        profile_params=[name for name in profile_params if name not in query_params],
        raw=record,
    )


def _seven(record: Mapping[str, Any], split: str, place: int) -> Item:
    """A record of the published layout; our own exports may add `id`, `user_id` and `scenario`."""
    query_params, profile_params = record["query_params"], record["profile_params"]
    answer = record["answer"]
    platform, calls = "", []
    if isinstance(answer, (list, tuple)) and len(answer) == 2 and isinstance(answer[1], list):
        platform = answer[0] if isinstance(answer[0], str) else ""
        for entry in answer[1]:
            if isinstance(entry, dict) and len(entry) == 1:
                api, arguments = next(iter(entry.items()))
                if isinstance(arguments, dict):
                    calls.append(_seven_call(record["tools"], platform, api, arguments, query_params, profile_params))
    user = record.get("user_id")
    return Item(
        id=str(record.get("id") or f"{split}.{place:06d}"),
        user=str(user) if user else digest(_profile_key(record["user_profile"])),
        scenario=str(record.get("scenario") or ""),
        split=split,
        query=str(record["query"]),
        kinds=tuple(record.get("task_tags") or ()),
        act="call",
        platform=platform,
        calls=calls,
        ordered=False,
        utilities={},
        must_not=(),
        answer=answer,
        query_params=query_params,
        profile_params=profile_params,
        raw=record,
    )


def _profile_key(profile: Any) -> str:
    """Records of one user share their basic features; that is all the published layout tells of who asks."""
    basic = profile.get("basic_features", profile) if isinstance(profile, dict) else profile
    return canonical(basic)


def _seven_call(tools: Any, platform: str, api: str, arguments: Mapping[str, Any], query: Any, profile: Any) -> Expected:
    sources = {}
    for name in arguments:
        kinds = (("query",) if _within(name, query) else ()) + (("profile",) if _within(name, profile) else ())
        sources[name] = kinds or ("unknown",)
    schema = _described(tools, platform, api)
    inside = schema.get("properties")
    schemas = {n: s for n, s in inside.items() if isinstance(s, dict)} if isinstance(inside, dict) else {}
    needed = schema.get("required")
    required = frozenset(n for n in needed if isinstance(n, str)) if isinstance(needed, list) else frozenset()
    return Expected(api, {n: v if isinstance(v, list) else [v] for n, v in arguments.items()}, sources, schemas, required)


def _within(name: str, names: Any) -> bool:
    return isinstance(names, (list, dict)) and name in names


def _described(tools: Any, platform: str, api: str) -> Mapping[str, Any]:
    """The parameters of an API in the `tools` of a record, when they are in a shape we know."""
    listed = tools.get(platform) if isinstance(tools, dict) else tools
    for tool in listed if isinstance(listed, list) else ():
        tool = tool.get("function", tool) if isinstance(tool, dict) else {}
        if tool.get("name") == api and isinstance(tool.get("parameters"), dict):
            return dict(tool["parameters"])
    return {}


def problem(item: Item) -> str | None:
    """What makes a sample impossible to score fairly, or None; the strict loader refuses it."""
    if "accepted" in item.raw:
        return _empty(item)
    answer = item.answer
    if not isinstance(answer, (list, tuple)) or len(answer) != 2 or not isinstance(answer[1], list):
        return "answer is not [platform, [calls]]"
    if not isinstance(answer[0], str) or not answer[0]:
        return f"answer.0 is {json.dumps(answer[0])[:40]}: write the platform's name"
    if not answer[1]:
        return "answer.1 has no calls"
    for place, entry in enumerate(answer[1]):
        if not isinstance(entry, dict) or len(entry) != 1:
            size = len(entry) if isinstance(entry, dict) else "no"
            return f"answer.1.{place} has {size} keys: write one call per object"
        api, arguments = next(iter(entry.items()))
        if not isinstance(arguments, dict):
            return f"answer.1.{place}.{api} is no object of parameters"
        for name, values in arguments.items():
            if not isinstance(values, list):
                return f"answer.1.{place}.{api}.{name} is {json.dumps(values)[:40]}: write a list of accepted values"
    return _empty(item)


def _empty(item: Item) -> str | None:
    for call in item.calls:
        for path, values in call.accepted.items():
            if not values:
                return f"{call.api}.{path} has no accepted value: write at least one"
    return None
