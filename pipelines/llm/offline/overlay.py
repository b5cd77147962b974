"""Knowledge files of other languages hold words only; shape, names and numbers are those of the English file.

So a parameter cannot mean one thing in one language and another in the next: `zh/shopping.yaml` says how
people ask for things, `en/shopping.yaml` says which APIs there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Data = dict[str, Any]


def translated(base: Mapping[str, Any], own: Mapping[str, Any], language: str, stages: Mapping[str, str]) -> Data:
    """An English knowledge file with the words of another language.

    Args:
        base: The English file. Its traits, situations, platforms and capabilities are lists with names.
        own: The other file. The same things are mappings by name, with words only; `apis` and the traits of
            a platform are in the order of the English file. A concept may also change `range`, `step`, `type`, `pattern` or `feature`.
        stages: English life stage -> the one of the people of this language.

    Raises:
        ValueError: naming what the file lacks, or has and should not.
    """
    data = dict(base) | {key: own[key] for key in ("aliases", "text") if key in own}
    for part in ("traits", "situations", "capabilities"):
        words = _all_of(part, [item["name"] for item in base[part]], own)
        data[part] = [item | words[item["name"]] for item in base[part]]
    data["situations"] = [item | {"language": language} for item in data["situations"]]
    for trait in data["traits"]:
        trait["appeals"] = [stages.get(stage, stage) for stage in trait.get("appeals", ())]
    platforms = _all_of("platforms", [item["name"] for item in base["platforms"]], own)
    data["platforms"] = [_platform(item, platforms[item["name"]]) for item in base["platforms"]]
    data["groups"] = _all_of("groups", base["groups"], own)
    concepts = _all_of("concepts", base["concepts"], own)
    data["concepts"] = {name: concept | concepts[name] | {"language": language} for name, concept in base["concepts"].items()}
    for old, capability in zip(base["capabilities"], data["capabilities"], strict=True):
        texts = list(capability["apis"])
        if len(texts) != len(old["apis"]):
            raise ValueError(f"{old['name']}: apis holds {len(texts)} texts; write {len(old['apis'])}")
        capability["apis"] = {
            platform: api | {"text": text, "params": _defaults(api.get("params", ""), base["concepts"], data["concepts"])}
            for text, (platform, api) in zip(texts, old["apis"].items(), strict=True)
        }
    return data


def _all_of(part: str, names: Iterable[str], own: Mapping[str, Any]) -> Data:
    wanted, found = list(names), dict(own.get(part) or {})
    lacking = [name for name in wanted if name not in found]
    unknown = [name for name in found if name not in wanted]
    if lacking or unknown:
        raise ValueError(f"{part}: lacks {', '.join(lacking) or 'nothing'}; has {', '.join(unknown) or 'nothing'} that English has not")
    return found


def _platform(base: Data, own: Data) -> Data:
    phrases = own["traits"]
    return base | {
        "text": own["text"],
        "traits": {trait: [level[0], phrase] for (trait, level), phrase in zip(base["traits"].items(), phrases, strict=True)},
    }


def _defaults(params: str, base: Data, own: Data) -> str:
    """The same parameters; the default of an enum is the value at the same place of the other bank."""
    items = []
    for item in params.split():
        head, sign, default = item.partition("=")
        concept = head.partition(":")[2].rstrip("!")
        if sign and base[concept]["type"] == "enum":
            default = own[concept]["bank"][base[concept]["bank"].index(default.replace("_", " "))].replace(" ", "_")
        items.append(f"{head}{sign}{default}")
    return " ".join(items)
