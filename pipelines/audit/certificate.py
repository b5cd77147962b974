"""Check `splits/certificate.json` from the split files alone.

`python -m pipelines.audit.certificate RUN` or `python certificate.py RUN`: only the standard library, nothing else of ours, so that it
can be read in five minutes and run anywhere. Exit code 0: all holds; 1: a claim of the certificate is false; 2: files are missing.
"""

import hashlib
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

HOLD_OUTS = {"test_new_platforms": "platforms", "test_new_apis": "apis", "test_new_scenarios": "scenarios"}
NEAR_BOUND = 0.01


def words_of(text: str) -> frozenset[str]:
    """The set of folded words of a text."""
    text = unicodedata.normalize("NFKC", text).casefold()
    for old, new in (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", "-")):
        text = text.replace(old, new)
    return frozenset(re.findall(r"[^\W_]+", text))


def check(folder: str) -> tuple[dict[str, int], list[str]]:
    """(what was compared, what is wrong), from the files in `<folder>/splits`."""
    splits = Path(folder) / "splits"
    stated = json.loads((splits / "certificate.json").read_text(encoding="utf-8"))
    wrong: list[str] = []
    sizes: Counter[str] = Counter()
    owner: dict[str, str] = {}
    users: dict[str, set[str]] = defaultdict(set)
    inputs: dict[str, set[Any]] = defaultdict(set)
    words: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    golds: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    files = sorted(splits.glob("*.jsonl"))
    for path in files:
        name, raw = path.stem, path.read_bytes()
        if hashlib.sha256(raw).hexdigest() != stated["sha256"].get(name):
            wrong.append(f"{path.name}: its SHA-256 is not the one in the certificate")
        for number, line in enumerate(raw.decode("utf-8").splitlines(), start=1):
            sample = json.loads(line)
            sizes[name] += 1
            if sample["split"] != name:
                wrong.append(f"{path.name}, line {number}: says split {sample['split']!r}")
            if sample["id"] in owner:
                wrong.append(f"{path.name}, line {number}: {sample['id']} is also in {owner[sample['id']]}")
            owner[sample["id"]] = name
            if (sample.get("canary") == stated["canary"]) != (name != "train"):
                wrong.append(f"{path.name}, line {number}: the canary must be in test samples and only there")
            users[name].add(sample["user"])
            bag = words_of(sample["query"])
            inputs[name].add((sample["user"], bag))
            words[name].append((sample["user"], bag))
            golds[name]["scenarios"].add(sample["scenario"])
            if sample["platform"]:
                golds[name]["platforms"].add(sample["platform"])
            golds[name]["apis"].update(f"{sample['platform']}/{call['api']}" for call in sample["calls"])
    if set(stated["sha256"]) != {path.stem for path in files}:
        wrong.append(f"the certificate names {sorted(stated['sha256'])}, there are {sorted(path.stem for path in files)}")
    if dict(sizes) != {name: size for name, size in stated["sizes"].items() if size}:
        wrong.append(f"sizes are {dict(sizes)}, stated are {stated['sizes']}")
    for name, mine in users.items():
        if sorted(mine) != stated["users"][name]:
            wrong.append(f"users of {name} are not the stated ones")
    strangers = users["train"] & users["test_untrained_users"]
    if strangers or users["train"] & set(stated["untrained_users"]):
        wrong.append(f"untrained users have training samples: {sorted(strangers)[:5]}")
    for name, what in HOLD_OUTS.items():
        if name not in sizes:
            continue
        for other in sizes:
            both = golds[name][what] & golds[other][what] & set(stated["held_out"][what])
            if other != name and both:
                wrong.append(f"{name}: {sorted(both)[:5]} are gold in {other} too")
    train: dict[str, list[frozenset[str]]] = defaultdict(list)
    for user, bag in words["train"]:
        train[user].append(bag)
    for name in sizes:
        if name == "train":
            continue
        if inputs[name] & inputs["train"]:
            wrong.append(f"{name}: {len(inputs[name] & inputs['train'])} inputs are in training")
        near = sum(any(len(bag & old) >= 0.9 * len(bag | old) for old in train[user]) for user, bag in words[name])
        if near != stated["near_duplicates_of_own_train"][name]:
            wrong.append(f"{name}: {near} near-duplicates of training, stated are {stated['near_duplicates_of_own_train'][name]}")
        if near > NEAR_BOUND * sizes[name]:
            wrong.append(f"{name}: {near} of {sizes[name]} nearly repeat a training query of the same user")
    return dict(sizes), wrong


def main(arguments: list[str]) -> int:
    """Print what was checked and what is wrong."""
    if len(arguments) != 1:
        print("usage: certificate.py RUN", file=sys.stderr)
        return 2
    try:
        sizes, wrong = check(arguments[0])
    except (OSError, KeyError, ValueError) as error:
        print(f"certificate: {arguments[0]}: cannot be checked: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for problem in wrong[:50]:
        print(f"certificate: {problem}", file=sys.stderr)
    print(f"{sum(sizes.values())} samples in {len(sizes)} splits: {'all claims hold' if not wrong else f'{len(wrong)} claims are false'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
