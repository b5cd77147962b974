"""Files and references of an imported specification, read within bounds.

Nothing outside the folder of the source is read and nothing is fetched, unless `--allow-remote` says so.
References are followed by `referencing`; this module only says which documents there are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from referencing import Registry, Resource, Specification

from pipelines.errors import ConfigError
from pipelines.imports.files import MAX_BYTES, bounded, decoded, read_bytes

MAX_DEPTH = 400
"""Levels of a document; far below what Python's own recursion allows."""
MAX_FILES = 500
REMOTE_BYTES = 16_000_000
REMOTE_SECONDS = 20.0
_ALIAS = re.compile(r"(?m)(?:^|[\s\[,{:])\*[^\s\[\],{}]+")


class Refused(Exception):
    """A reference that is not followed: outside the folder, remote, or unreadable."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C loader where libyaml is there
    """Safe YAML in which a date stays the text that it is in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_document(path: Path) -> Any:
    """One JSON or YAML document, as JSON values.

    Raises:
        ConfigError: naming file, line where known, what was found and what to write.
    """
    return parse_document(read_bytes(path, "an OpenAPI file (JSON or YAML)"), str(path))


def parse_document(content: bytes, where: str) -> Any:
    """Bytes to JSON values: bounded, UTF-8, no web page, no YAML alias or tag."""
    text = decoded(bounded(content, where), where)
    head = text.lstrip()[:200]
    if not head:
        raise ConfigError(f"{where}: is empty; write an OpenAPI document such as `openapi: 3.1.0`")
    if head.startswith("<"):
        shown = head[:30].split("\n")[0]
        raise ConfigError(f"{where}: starts with {shown!r}, a web page or XML; save the raw JSON or YAML file")
    try:
        value = json.loads(text) if head[0] in "{[" else _yaml(text, where)
    except json.JSONDecodeError as error:
        try:
            value = _yaml(text, where)  # YAML's flow style also starts with a bracket
        except ConfigError:
            cut = ", the text ends here: is it cut off?" if error.pos >= len(text.rstrip()) - 1 else ""
            raise ConfigError(f"{where}, line {error.lineno}: not JSON: {error.msg}{cut}; correct that line") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested deeper than {MAX_DEPTH} levels; flatten it") from None
    except ValueError:
        raise ConfigError(f"{where}: holds a number too large to be read; write a smaller one, or a string") from None
    return _json_values(value, where)


def _yaml(text: str, where: str) -> Any:
    try:
        if _ALIAS.search(text):
            for event in yaml.parse(text, Loader=_Loader):
                if isinstance(event, yaml.AliasEvent):
                    line = event.start_mark.line + 1 if event.start_mark is not None else 1
                    name = str(event.anchor)[:40]
                    raise ConfigError(f"{where}, line {line}: YAML aliases (*{name}) are not read; write the value out, or use $ref")
        return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader, see above
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}{place}: not YAML: {problem}; correct that line") from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{where}: not YAML: {str(error)[:80] or 'nested too deeply'}; correct it") from None


def _json_values(value: Any, where: str) -> Any:
    """The document with text keys, level by level, so that no depth can overflow the stack."""
    if _is_scalar(value):
        return value
    top = [value]
    level: list[tuple[Any, Any, Any]] = [(top, 0, value)]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ConfigError(f"{where}: nested deeper than {MAX_DEPTH} levels; flatten it")
        following: list[tuple[Any, Any, Any]] = []
        for holder, key, node in level:
            if isinstance(node, dict):
                plain = {k if isinstance(k, str) else _key(k): v for k, v in node.items()}
                holder[key] = plain
                following.extend((plain, k, v) for k, v in plain.items() if isinstance(v, dict | list) or not _is_scalar(v))
            elif isinstance(node, list):
                following.extend((node, i, v) for i, v in enumerate(node) if isinstance(v, dict | list) or not _is_scalar(v))
            elif isinstance(node, date):
                holder[key] = node.isoformat()
            else:
                raise ConfigError(f"{where}: holds a {type(node).__name__}, which is no JSON value; write text, numbers, lists or objects")
        level = following
    return top[0]


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) or key is None else str(key)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


class Documents:
    """The documents that references of one source may reach."""

    def __init__(self, source: Path, document: Any, allow_remote: bool) -> None:
        self.folder = source.resolve().parent
        self.base = source.resolve().as_uri()
        self.allow_remote = allow_remote
        self.held: dict[str, Resource[Any]] = {}
        first = Specification.OPAQUE.create_resource(document)
        registry: Registry[Any] = Registry(retrieve=self._retrieve)  # type: ignore[call-arg]  # attrs aliases that mypy does not see
        self.resolver = registry.with_resource(self.base, first).resolver(base_uri=self.base)

    def _retrieve(self, uri: str) -> Resource[Any]:
        """A further document, read once: the registry itself forgets it when a lookup starts from the first file."""
        if uri not in self.held:
            self.held[uri] = self._read(uri)
        return self.held[uri]

    def _read(self, uri: str) -> Resource[Any]:
        parts = urlsplit(uri)
        if len(self.held) >= MAX_FILES:
            raise Refused("reference_refused", f"refers to more than {MAX_FILES} files")
        if parts.scheme in ("http", "https"):
            if not self.allow_remote:
                raise Refused("reference_refused", f"refers to {uri[:200]}; nothing is fetched without --allow-remote")
            content = fetch(uri)
        elif parts.scheme == "file" and parts.netloc in ("", "localhost"):
            path = Path(unquote(parts.path)).resolve()
            if not path.is_relative_to(self.folder):
                raise Refused("reference_refused", f"refers to {uri[:200]}, which is outside the folder of the source; copy it there")
            if not path.is_file():
                raise Refused("reference_missing", f"refers to {uri[:200]}, which is not there")
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        else:
            raise Refused("reference_refused", f"refers to {uri[:200]}, neither a file in the folder of the source nor http")
        try:
            document = parse_document(content, uri.rpartition("/")[2][:100])
        except ConfigError as error:
            raise Refused("reference_unreadable", f"refers to a file that cannot be used: {error}") from None
        return Specification.OPAQUE.create_resource(document)


def fetch(uri: str) -> bytes:
    """A remote document within bounds of size and time; no redirect to another scheme.

    Raises:
        Refused: when it does not come, or is too large.
    """
    import httpx

    def pieces(response: httpx.Response) -> Iterator[bytes]:
        total = 0
        for piece in response.iter_bytes():
            total += len(piece)
            if total > REMOTE_BYTES:
                raise Refused("reference_refused", f"{uri[:200]} is larger than {REMOTE_BYTES:,} bytes")
            yield piece

    try:
        with httpx.stream("GET", uri, timeout=REMOTE_SECONDS, follow_redirects=True) as response:
            response.raise_for_status()
            return b"".join(pieces(response))
    except httpx.HTTPError as error:
        raise Refused("reference_missing", f"{uri[:200]} cannot be fetched: {str(error)[:200] or type(error).__name__}") from None
