"""MCP servers: their tools are listed, never called. Nothing is started or contacted that was not allowed by name."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

from pipelines.errors import ConfigError
from pipelines.imports.documents import Refused, read_document
from pipelines.imports.inline import within
from pipelines.imports.records import RawTool

if TYPE_CHECKING:
    import mcp

RELAY = Path(__file__).with_name("relay.py")
MAX_BYTES = 32_000_000
MAX_LINE = 8_000_000
MAX_PAGES = 100
MAX_LISTED = 5_000
_WRITE = 'write {"mcpServers": {"name": {"command": ..., "args": [...]}}}'


@dataclass
class _Listing:
    """What a server has said so far."""

    name: str = ""
    text: str = ""
    tools: list[Any] = field(default_factory=list)


def read_mcp(
    source: str, allow: Sequence[str], server: str | None, timeout: float, partial: bool
) -> tuple[str, str, list[RawTool], list[str]]:
    """Title, description, raw tools, and what went wrong although the good part was kept.

    Args:
        source: A command line, an http(s) URL, a JSON file with `mcpServers` as MCP clients have it, or a saved
            answer to `tools/list`, for which nothing is started.
        allow: Commands that may be started and hosts that may be called, by name.
        server: Which server of a file with several.
        timeout: Seconds for starting, greeting and listing together.
        partial: Keep the pages that came before a server died.

    Raises:
        ConfigError: when the source is unclear or not allowed, or the server hangs, floods or dies.
    """
    saved = _saved(Path(source))
    if saved is not None:
        return saved
    target, environment, label = _target(source, server)
    _allowed(target, allow)
    listing = _Listing()
    findings: list[str] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            asyncio.run(_list(target, environment, listing, errors, timeout))
        except TimeoutError:
            findings.append(f"did not answer within {timeout:g} s; is it an MCP server? Raise --timeout, or start it by hand to see")
        except Exception as error:  # the SDK, the transport and the server's answers fail in many types
            findings.append(_told(error, errors))
    if findings and not (partial and listing.tools):
        raise ConfigError(f"{source[:120]}: {findings[0]}")
    if not listing.tools:
        raise ConfigError(f"{source[:120]}: offers no tools; choose another server")
    tools = [_raw(index, tool) for index, tool in enumerate(listing.tools)]
    return listing.name or label, listing.text, tools, [f"{label}: {finding}" for finding in findings]


def _target(source: str, server: str | None) -> tuple[str | list[str], dict[str, str], str]:
    """(URL or command, environment, label)."""
    if source.startswith(("http://", "https://")):
        return source, {}, source[:200]
    path = Path(source)
    if source.endswith(".json") or path.is_file():
        return _from_file(path, server)
    try:
        words = shlex.split(source)
    except ValueError as error:
        raise ConfigError(f"{source[:100]!r}: not a command line: {error}; write e.g. 'npx -y some-server'") from None
    if not words:
        raise ConfigError("the source is empty; write a command line, a URL, or the path of a JSON file with mcpServers")
    return words, {}, words[-1].rpartition("/")[2][:60]


def _from_file(path: Path, server: str | None) -> tuple[str | list[str], dict[str, str], str]:
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.read(1_000_000))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {error.strerror}; write the path of a JSON file with mcpServers") from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f'{path}: not JSON of at most 1 MB; write {{"mcpServers": {{"name": {{"command": ..., "args": [...]}}}}}}'
        ) from None
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise ConfigError(f"{path}: has no mcpServers; {_WRITE}")
    if server is None and len(servers) > 1:
        raise ConfigError(f"{path}: holds {len(servers)} servers; choose with --server one of {', '.join(servers)[:300]}")
    name = server if server is not None else next(iter(servers))
    entry = servers.get(name)
    if not isinstance(entry, dict):
        raise ConfigError(f"{path}: has no server {name[:60]!r}; write one of {', '.join(servers)[:300]}")
    if isinstance(entry.get("url"), str):
        return entry["url"], {}, name[:60]
    arguments, environment = entry.get("args", []), entry.get("env", {})
    texts = isinstance(arguments, list) and all(isinstance(a, str) for a in arguments)
    if not isinstance(entry.get("command"), str) or not texts or not isinstance(environment, dict):
        raise ConfigError(f"{path}: server {name[:60]!r} has no url and no command with args; write one of them")
    return [entry["command"], *arguments], {str(k): str(v) for k, v in environment.items()}, name[:60]


def _allowed(target: str | list[str], allow: Sequence[str]) -> None:
    """Starting a program and calling a host are decided by the user, by name."""
    if isinstance(target, str):
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{target[:100]!r}: no http or https URL; write one such as http://127.0.0.1:8000/mcp")
        if parts.hostname not in allow:
            raise ConfigError(f"{target[:200]}: nothing is contacted that is not allowed; add --allow {parts.hostname}")
    elif target[0] not in allow:
        raise ConfigError(f"{target[0][:100]}: nothing is started that is not allowed; add --allow {shlex.quote(target[0])[:100]}")


def _saved(path: Path) -> tuple[str, str, list[RawTool], list[str]] | None:
    """The tools of a file that holds an answer to `tools/list`; None when it is no such file."""
    if path.suffix != ".json" or not path.is_file():
        return None
    data = read_document(path)
    data = data.get("result", data) if isinstance(data, dict) else data
    listed = data.get("tools") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        return None
    info = data.get("serverInfo")
    name = str(info.get("title") or info.get("name") or "") if isinstance(info, dict) else ""
    tools = []
    for index, tool in enumerate(listed[:MAX_LISTED]):
        known = {key: tool.get(key) for key in ("name", "description", "title")} if isinstance(tool, dict) else {}
        hints = tool.get("annotations") if isinstance(tool, dict) else None
        hint = hints.get("readOnlyHint") if isinstance(hints, dict) else None
        schema = tool.get("inputSchema") if isinstance(tool, dict) else None
        tools.append(_written_out(index, known, schema, hint if isinstance(hint, bool) else None))
    return name or path.stem, str(data.get("instructions") or ""), tools, []


async def _list(target: str | list[str], environment: dict[str, str], listing: _Listing, errors: TextIO, seconds: float) -> None:
    """Greet the server and ask for its tools, page by page."""
    import mcp

    async with asyncio.timeout(seconds):
        async with mcp.Client(_transport(target, environment, errors), read_timeout_seconds=seconds) as client:
            info = client.server_info
            if info is not None:
                listing.name, listing.text = str(info.title or info.name), str(getattr(info, "description", None) or "")
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                listing.tools += page.tools
                cursor = page.next_cursor
                if len(listing.tools) > MAX_LISTED:
                    raise Refused("too_large", f"lists more than {MAX_LISTED:,} tools")
                if cursor is None:
                    return
            raise Refused("too_large", f"lists more than {MAX_PAGES} pages of tools")


def _transport(target: str | list[str], environment: dict[str, str], errors: TextIO) -> Any:
    if isinstance(target, str):
        return _http(target)
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = [str(RELAY), str(MAX_BYTES), str(MAX_LINE), *target]
    return stdio_client(StdioServerParameters(command=sys.executable, args=words, env=environment or None), errlog=errors)


def _http(url: str) -> Any:
    """Streamable HTTP without redirects, its answers bounded."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for piece in self.inner:
                total += len(piece)
                if total > MAX_BYTES:
                    raise httpx2.ReadError(f"answered with more than {MAX_BYTES:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Transport(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            response.stream = Bounded(response.stream)
            return response

    return streamable_http_client(url, http_client=httpx2.AsyncClient(transport=Transport(), timeout=30, follow_redirects=False))


def _told(error: BaseException, errors: TextIO) -> str:
    """The first cause in words, and the server's own last line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    errors.seek(0)
    said = [line.strip() for line in errors.read(20_000).splitlines() if line.strip()]
    last = f"; it said: {said[-1][:200]}" if said else ""
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return f"the server failed: {words}{last}; start it by hand to see why"


def _raw(index: int, tool: mcp.Tool) -> RawTool:
    """One listed tool."""
    hint = tool.annotations.read_only_hint if tool.annotations is not None else None
    return _written_out(index, {"name": tool.name, "description": tool.description, "title": tool.title}, tool.input_schema, hint)


def _written_out(index: int, known: Mapping[str, Any], schema: Any, read_only: bool | None) -> RawTool:
    """A raw tool whose schema has no references left."""
    given = RawTool(f"/tools/{index}", {"name": known.get("name"), "description": known.get("description") or known.get("title") or ""})
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    given.raw["parameters"] = schema = schema if isinstance(schema, dict) and schema else empty
    inliner = within(schema)
    try:
        given.raw["parameters"] = inliner.inline(schema)
    except Refused as error:
        given.faults.append((error.reason, f"{given.at}/inputSchema", error.detail, None))
        given.raw["parameters"] = empty
    given.notes += inliner.notes
    if read_only is not None:
        given.extra["verb"] = "read" if read_only else "write"
    return given
