"""The run folder: the only module that writes a run.

What defines the data is in `config.json`, what was made and lost in `manifest.json`; both hold no times
and no limits, so that a resumed run ends with the same bytes as one that was never stopped. A stage
is made again only when its key changes: its prompts, its code version or the files it read.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from pipelines import __version__
from pipelines.config import PRESETS, ROOT, Limits, RunConfig, identifier
from pipelines.errors import ChecksFailed, ConfigError, Unavailable
from pipelines.jsonio import canonical, digest, file_digest, pretty, read_lines, write_lines, write_text
from pipelines.llm import prompts
from pipelines.llm.client import LLM
from pipelines.llm.ledger import Ledger
from pipelines.records import (
    API,
    FeatureNode,
    History,
    Profile,
    Query,
    Record,
    Rejection,
    Sample,
    Scenario,
    Solution,
)
from pipelines.stage import Context, StageResult

Out = TypeVar("Out", bound=Record)

_LOG = logging.getLogger("ptool")
STAGES: dict[str, type[Record]] = {
    "01_scenarios": Scenario,
    "02_apis": API,
    "03_features": FeatureNode,
    "04_profiles": Profile,
    "05_histories": History,
    "06_queries": Query,
    "07_solutions": Solution,
    "08_samples": Sample,
}
PROMPTS_OF: dict[str, tuple[str, ...]] = {
    "01_scenarios": ("tools.expand_scenario", "tools.judge_traits"),
    "02_apis": ("tools.expand_platform", "tools.expand_apis", "tools.match_parameters"),
    "03_features": ("features.name_cluster", "features.group"),
    "04_profiles": ("profiles.branch", "profiles.prefer"),
    "05_histories": ("histories.simulate", "histories.judge"),
    "08_samples": ("queries.write", "solutions.solve", "verify.judge"),
}
LOOP = ("06_queries", "07_solutions", "08_samples")


def default_folder(config: RunConfig) -> Path:
    """`outputs/<preset>-seed<seed>` in the checkout, with scenarios and model where they are not the usual ones.

    So the same command finds its run again.
    PTOOL_OUTPUTS names another folder for all runs; an installed package without it writes below the home folder.
    """
    base = os.environ.get("PTOOL_OUTPUTS")
    if not base:
        base = str(ROOT / "outputs") if (ROOT / "pyproject.toml").exists() else str(Path.home() / "ptool-outputs")
    named: list[str] = [config.preset]
    scenarios = [scenario.id for scenario in config.scenarios]
    if scenarios != PRESETS[config.preset]["scenarios"]:
        named.append("+".join(scenarios)[:80])
    if config.model != "offline":
        named.append(identifier(config.model))
    return Path(base) / "-".join([*named, f"seed{config.seed}"])


def address_of(config: RunConfig) -> str:
    """Where a deployment run goes that names no folder: one address per data config, so that two never meet."""
    base = os.environ.get("PTOOL_OUTPUTS") or str(default_folder(config).parent)
    return f"{base.rstrip('/')}/{config.preset}-seed{config.seed}-{digest(canonical(config.data()))[:8]}"


class Run:
    """One run folder, locked for this process while open."""

    def __init__(self, root: Path, config: RunConfig, origin: dict[str, str]) -> None:
        self.root = root
        self.address = str(root)
        """Where people find it: the folder, or the URL that it is mirrored to."""
        self.config = config
        self.origin = origin
        self.manifest: dict[str, Any] = {"stages": {}}
        self.reused: set[str] = set()
        self._lock: int | None = None
        self._ledger: Ledger | None = None
        self._llm: LLM | None = None
        self._judges: tuple[LLM, ...] = ()

    @classmethod
    def check(cls, root: Path, config: RunConfig) -> None:
        """Look before anything is written: the folder, its config and its finished stages.

        Raises:
            ConfigError: when the folder belongs to another run, or a stage file is corrupt.
            Unavailable: when the folder cannot be written.
        """
        _check_path(root)
        if not root.exists():
            return
        if not root.is_dir():
            raise ConfigError(f"{root}: is a file; choose a folder with --out")
        if not os.access(root, os.W_OK | os.X_OK):
            raise Unavailable(f"{root}: is read-only; choose another folder with --out")
        run = cls(root, config, {})
        if not (root / "config.json").exists():
            if any(root.iterdir()):
                raise ConfigError(f"{root}: holds files but no run; choose an empty or new folder with --out")
            return
        run._compare_config()
        run._read_manifest()
        for name in STAGES:
            if name in run.manifest["stages"]:
                run._sound(name)

    @classmethod
    def open(cls, root: Path, config: RunConfig, origin: dict[str, str] | None = None, llm: Callable[[Ledger], LLM] | None = None) -> Run:
        """Create or resume a run folder and lock it.

        Args:
            llm: Only for tests: makes the model from the ledger.
        """
        cls.create(root, config, origin or {})
        run = cls(root, config, origin or {})
        try:
            run._lock = os.open(root / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
            fcntl.flock(run._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(run._lock or -1)
            raise ConfigError(f"{root}: another process is working on this run; wait for it, or choose another --out") from None
        except OSError as error:
            raise Unavailable(f"{root}: cannot write: {error.strerror}; choose another folder with --out") from None
        run._read_manifest()
        run._ledger = ledger_of(root, config)
        if run._ledger.address is not None:
            write_text(root / "ledger.url", [f"{run._ledger.address}\n"])
        run._ledger.begin_session()
        run._llm = llm(run._ledger) if llm is not None else LLM(config.model, config.seed, run._ledger, config.limits, models=config.models)
        run._judges = tuple(LLM(model, config.seed, run._ledger, config.limits) for model in config.judge_models)
        return run

    @classmethod
    def join(cls, root: Path, limits: dict[str, Any]) -> Run:
        """Work on a part of a run that another process has opened: the same ledger, no lock, its own limits."""
        found = load_run(root)
        run = cls(root, found.config.model_copy(update={"limits": Limits.model_validate(limits)}), found.origin)
        run._read_manifest()
        run._ledger = ledger_of(root, run.config)
        run._llm = LLM(run.config.model, run.config.seed, run._ledger, run.config.limits, models=run.config.models)
        return run

    def write_review(self, review: dict[str, Any]) -> None:
        """Keep what a person said of the samples before the splits were made."""
        write_text(self.root / "review.json", [pretty(review) + "\n"])

    def read_review(self) -> dict[str, Any]:
        """What a person said of the samples; empty when nobody did."""
        path = self.root / "review.json"
        return _json(path) if path.exists() else {}

    @classmethod
    def create(cls, root: Path, config: RunConfig, origin: dict[str, str]) -> None:
        """Make the folder and its `config.json`, unless they are there."""
        cls.check(root, config)
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"{root}: cannot make the folder: {error.strerror}; choose another with --out") from None
        if not (root / "config.json").exists():
            where = {key: value for key, value in origin.items() if key != "limits"}
            write_text(root / "config.json", [pretty({"ptool": __version__, "data": config.data(), "origin": where}) + "\n"])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The ledger open for reading, for reports."""
        self._ledger = ledger_of(self.root, self.config)
        try:
            yield
        finally:
            self._ledger.close()

    @property
    def generations(self) -> list[dict[str, Any]]:
        """Scenarios and samples of each generation, the first first; empty unless `add-scenario` extended the run."""
        path = self.root / "config.json"
        return list(_json(path).get("generations", [])) if path.exists() else []

    @property
    def llm(self) -> LLM:
        """The model of this run."""
        assert self._llm is not None, "the run is not open"
        return self._llm

    @property
    def ledger(self) -> Ledger:
        """The ledger of this run."""
        assert self._ledger is not None, "the run is not open"
        return self._ledger

    @property
    def context(self) -> Context:
        """What stages get."""
        return Context(self.config, self.llm, self._judges)

    async def close(self) -> None:
        """Close connections and the ledger, release the lock."""
        for llm in (self._llm, *self._judges):
            if llm is not None:
                await llm.close()
        if self._ledger is not None:
            self._ledger.close()
        if self._lock is not None:
            os.close(self._lock)

    def file(self, name: str) -> Path:
        """A stage file."""
        return self.root / f"{name}.jsonl"

    def read(self, name: str) -> Iterator[Record]:
        """The records of a finished stage, one by one."""
        return read_lines(self.file(name), STAGES[name])

    # Stages

    def key(self, name: str, inputs: Sequence[str]) -> str:
        """What a stage depends on: config, code version, its prompts, the bytes of the files it reads."""
        refs = [prompts.load(prompt, language=self.config.language).ref for prompt in PROMPTS_OF.get(name, ())]
        read = [self.manifest["stages"][one]["sha256"] for one in inputs]
        return digest(canonical([name, __version__, self.config.data(), refs, read]))

    def finished(self, name: str, key: str) -> bool:
        """Is the stage there, made from the same things?"""
        return bool(self.manifest["stages"].get(name, {}).get("key") == key)

    async def stage(self, name: str, model: type[Out], inputs: Sequence[str], work: Callable[[], Awaitable[StageResult[Out]]]) -> list[Out]:
        """Do a stage, or read it when nothing it depends on has changed."""
        key = self.key(name, inputs)
        if self.finished(name, key):
            self.reused.add(name)
            _LOG.info("%-14s as before", name)
            return list(read_lines(self.file(name), model))
        try:
            result = await work()
        except ChecksFailed as error:
            if error.rejected:  # why it stopped can be read
                write_lines(self.root / "rejected" / f"{name}.jsonl", error.rejected)
            raise
        self.keep(name, key, result.kept, result.rejected, result.notes)
        return result.kept

    def keep(self, name: str, key: str, kept: Iterable[Record], rejected: Iterable[Rejection], notes: dict[str, Any]) -> None:
        """Write a stage's files, then its entry in the manifest."""
        counts: Counter[str] = Counter()

        def counted() -> Iterator[Rejection]:
            for rejection in rejected:
                counts[rejection.reason] += 1
                yield rejection

        total = 0

        def numbered() -> Iterator[Record]:
            nonlocal total
            for record in kept:
                total += 1
                yield record

        write_lines(self.file(name), numbered())
        write_lines(self.root / "rejected" / f"{name}.jsonl", counted())
        self.manifest["stages"][name] = {
            "key": key,
            "sha256": file_digest(self.file(name)),
            "kept": total,
            "rejected": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
            "prompts": [prompts.load(prompt, language=self.config.language).ref for prompt in PROMPTS_OF.get(name, ())],
            "notes": notes,
        }
        self.write_manifest()
        _LOG.info("%-14s %6d kept, %5d rejected", name, total, counts.total())

    def write_manifest(self) -> None:
        """Versions, digests, model, prompt references and counts; no times."""
        ordered: dict[str, Any] = {
            "ptool": __version__,
            "model": self.config.model,
            "made_by": maker(self.config.model),
            "seed": self.config.seed,
            "config": digest(canonical(self.config.data())),
            "stages": dict(sorted(self.manifest["stages"].items())),
            **{key: self.manifest[key] for key in ("splits", "complete") if key in self.manifest},
        }
        write_text(self.root / "manifest.json", [pretty(ordered) + "\n"])

    def part(self, shard: int) -> Path:
        """Where one shard of the sample stages keeps its share until all are merged."""
        return self.root / "parts" / f"shard_{shard:04d}"

    def drop_parts(self) -> None:
        """Remove the shards' files once they are merged."""
        shutil.rmtree(self.root / "parts", ignore_errors=True)

    # Reading what is there

    def _read_manifest(self) -> None:
        path = self.root / "manifest.json"
        if path.exists():
            self.manifest = _json(path)
            if not isinstance(self.manifest.get("stages"), dict):
                raise ConfigError(f"{path}: holds no stages; restore the file, or choose another folder with --out")
            stages = self.manifest["stages"]
            self.manifest["stages"] = {name: entry for name, entry in stages.items() if self.file(name).exists()}

    def _compare_config(self) -> None:
        path = self.root / "config.json"
        old, new = _json(path).get("data"), self.config.data()
        if not isinstance(old, dict):
            raise ConfigError(f"{path}: holds no data config; restore the file, or choose another folder with --out")
        fields = [f"{k} ({_short(old.get(k))} there, {_short(new.get(k))} here)" for k in new if old.get(k) != new[k]]
        if fields:
            raise ConfigError(
                f"{self.root}: holds a run with another data config: {'; '.join(fields)}; "
                "give the same config to resume it, or choose another folder with --out"
            )

    def _sound(self, name: str) -> None:
        entry = self.manifest["stages"][name]
        path = self.file(name)
        if file_digest(path) == entry["sha256"]:
            return
        for _ in read_lines(path, STAGES[name]):
            pass
        raise ConfigError(
            f"{path}: was changed after the run wrote it; restore it, or delete it to have its stage made again from the ledger"
        )


def ledger_of(root: Path, config: RunConfig) -> Ledger:
    """The ledger of a run: a file in its folder, or a database that runs share; PTOOL_LEDGER names one too."""
    noted = root / "ledger.url"
    place = config.limits.ledger or os.environ.get("PTOOL_LEDGER")
    if not place and noted.is_file():
        place = noted.read_text(encoding="utf-8").strip()
    return Ledger(place, run=digest(canonical(config.data()))) if place else Ledger(root / "ledger.sqlite")


def maker(model: str) -> str:
    """What to say of the data's origin, wherever it appears."""
    if model.endswith("offline"):
        return "ptool offline model: no language model, hand-written knowledge files and planted mistakes"
    return f"model {model}"


def load_run(root: Path) -> Run:
    """An existing run, for reading only.

    Raises:
        ConfigError: when the folder holds no run.
    """
    path = root / "config.json"
    if not path.is_file():
        raise ConfigError(f"{root}: holds no run (no config.json); write the folder that `ptool run` printed")
    data = _json(path)
    run = Run(root, RunConfig.model_validate(data["data"]), data.get("origin", {}))
    run._read_manifest()
    return run


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; restore the file, or choose another folder with --out") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: is no object; restore the file, or choose another folder with --out")
    return value


def _check_path(root: Path) -> None:
    name = root.name
    if not name.strip() or ".." in root.parts or len(name) > 200 or "\0" in str(root) or any(ord(c) < 32 for c in str(root)):
        raise ConfigError(f"--out {str(root)[:80]!r}: not a folder name; write up to 200 plain characters, without `..`")


def _short(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [item.get("name", "?") for item in value]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def model_of(record: BaseModel) -> dict[str, Any]:
    """A record as JSON values."""
    return record.model_dump(mode="json")
