"""A run folder behind a URL: `s3://bucket/run`, `file:///srv/run` or anything fsspec reads.

A run always works in a local folder; a URL is its mirror. What is there is fetched before the run starts, what
changed is sent after every stage and shard, data first and the manifest last; so another machine finds a run
that it can resume at any time. Nothing is deleted there but the shards' parts once they are merged.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from pipelines.errors import ConfigError, Unavailable

LEDGER = "ledger.sqlite"
_SKIPPED = (".lock", "ledger.sqlite-wal", "ledger.sqlite-shm")
TRIES_S = 20.0
"""Patience for the first answer of a store, in seconds."""


def is_url(address: str) -> bool:
    """Is it behind a store rather than in a local folder? `file://` is local; one letter before the colon is a drive."""
    scheme, sign, _ = address.partition("://")
    return bool(sign) and len(scheme) > 1 and scheme not in ("file", "local")


def local_path(address: str) -> Path:
    """The folder of a path or `file://` address."""
    scheme, sign, rest = address.partition("://")
    return Path(unquote(rest)) if sign and scheme in ("file", "local") else Path(address)


def without_secrets(url: str) -> str:
    """The URL as it may be shown: user names and passwords removed."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def work_folder(url: str) -> Path:
    """The local folder in which the run behind a URL works; the same URL finds it again on this machine."""
    base = os.environ.get("PTOOL_CACHE") or str(Path(tempfile.gettempdir()) / f"ptool-{os.getuid()}")
    name = PurePosixPath(urlsplit(url).path).name or "run"
    return Path(base) / f"{name[:60]}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


class Mirror:
    """The copy of one run folder behind a URL.

    Raises:
        ConfigError: for a scheme that fsspec does not know or has no driver for.
        Unavailable: when the store does not answer, is missing, read-only or refuses the credentials.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = without_secrets(url).rstrip("/")
        self.folder = folder
        self._sent: dict[str, tuple[int, int]] = {}
        try:
            import fsspec

            self._store, self._root = fsspec.core.url_to_fs(url.rstrip("/"), skip_instance_cache=True, **_options(url))
        except (ValueError, ImportError) as error:
            scheme = url.partition("://")[0]
            raise ConfigError(
                f"--out {self.url}: no storage for {scheme}:// ({error}); write a folder, file:// or s3:// (pip install 'ptool[s3]')"
            ) from None

    async def fetch(self, but_parts: bool = False) -> None:
        """Bring what the store has of the run; files that are here and newer in the ledger's sense stay."""
        await asyncio.to_thread(self._fetch, but_parts)

    async def send(self, below: str = "") -> None:
        """Put what changed since the last time, the manifest last.

        Args:
            below: Only this folder of the run, e.g. one shard's part.
        """
        await asyncio.to_thread(self._send, below)

    async def check(self) -> None:
        """Write and remove a small object before anything is paid for."""
        await asyncio.to_thread(self._check)

    def _check(self) -> None:
        probe = f"{self._root}/.ptool-probe-{os.getpid()}"
        with _told(self.url):
            self._make_parent(probe)
            self._store.pipe_file(probe, b"ptool")
            self._store.rm_file(probe)

    def _fetch(self, but_parts: bool) -> None:
        with _told(self.url):
            self._store.invalidate_cache()
            found = self._store.find(self._root, detail=True) if self._store.exists(self._root) else {}
            for path, info in sorted(found.items()):
                name = path[len(self._root) :].lstrip("/")
                target = self.folder / name
                if name.startswith(".ptool-probe") or ".." in Path(name).parts or (but_parts and name.startswith("parts/")):
                    continue
                if name == LEDGER and target.exists():
                    continue  # this machine's ledger holds at least what it sent
                if target.exists() and target.stat().st_size == info.get("size") and self._same(path, target):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                part = target.with_name(f".{target.name}.{os.getpid()}.tmp")
                self._store.get_file(path, str(part))
                os.replace(part, target)
                self._sent[name] = _stamp(target)

    def _same(self, path: str, target: Path) -> bool:
        return bool(self._store.cat_file(path) == target.read_bytes())

    def _send(self, below: str) -> None:
        top = self.folder / below
        paths = sorted((p for p in top.rglob("*") if p.is_file()), key=lambda p: (p.name in ("manifest.json", "done"), p.as_posix()))
        with _told(self.url):
            for path in paths:
                name = path.relative_to(self.folder).as_posix()
                if path.name in _SKIPPED or path.name.endswith(".tmp"):
                    continue
                stamp = _stamp(path)
                if self._sent.get(name) == stamp:
                    continue
                remote = f"{self._root}/{name}"
                self._make_parent(remote)
                if path.name == LEDGER:
                    self._store.pipe_file(remote, _snapshot(path))
                else:
                    self._store.put_file(str(path), remote)
                self._sent[name] = stamp
            if not below and not (self.folder / "parts").exists() and self._store.exists(f"{self._root}/parts"):
                self._store.rm(f"{self._root}/parts", recursive=True)

    def _make_parent(self, path: str) -> None:
        if not self._root.partition("/")[0] or "file" in self._protocols():
            self._store.makedirs(path.rpartition("/")[0], exist_ok=True)

    def _protocols(self) -> tuple[str, ...]:
        known = self._store.protocol
        return (known,) if isinstance(known, str) else tuple(known)


def _options(url: str) -> dict[str, Any]:
    """Bounded patience; an S3 endpoint of one's own comes from AWS_ENDPOINT_URL, credentials from the usual places."""
    if url.startswith(("s3://", "s3a://")):
        return {
            "config_kwargs": {"connect_timeout": TRIES_S / 2, "read_timeout": 60, "retries": {"max_attempts": 2}},
            "use_listings_cache": False,
        }
    return {}


class _told:
    """Every fault of a store as one line that says what to check."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, (ConfigError, Unavailable)):
            return
        words = " ".join(str(error).split())[:200]
        name = type(error).__name__
        if name == "NoCredentialsError" or "credential" in words.lower():
            hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the credentials file of the store"
        elif isinstance(error, PermissionError) or "denied" in words.lower() or "read-only" in words.lower():
            hint = "the store refuses to write; check the credentials and the bucket's policy"
        elif isinstance(error, FileNotFoundError) or "bucket" in words.lower():
            hint = "no such bucket or folder; create it, or write another --out"
        else:
            hint = "check the URL, AWS_ENDPOINT_URL and the network"
        raise Unavailable(f"--out {self.url}: {hint} ({name}: {words}); finished stages are kept in the work folder") from None


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _snapshot(path: Path) -> bytes:
    """The ledger as one whole file, while others write to it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LEDGER
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy.read_bytes()
