"""A run's platforms in the formats in which tools travel: OpenAPI 3.1, OpenAI tools lists, MCP tool listings.

Every file is read back by `ptool import-tools` to the same platform: names, descriptions and schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigError
from pipelines.jsonio import dumps, pretty, read_lines, write_text
from pipelines.records import API, Platform, Scenario
from pipelines.run import Run, maker

TOOL_FORMATS = ("openapi", "openai-tools", "mcp")


def export_tools(run: Run, form: str) -> list[Path]:
    """Write `exports/<format>/<scenario>/<platform>.json`, one file per platform; returns the files.

    Raises:
        ConfigError: when the run has no APIs yet.
    """
    if "02_apis" not in run.manifest["stages"]:
        raise ConfigError(f"{run.root}: has no APIs yet; finish it with `ptool run`")
    apis: dict[str, list[API]] = {}
    for api in read_lines(run.file("02_apis"), API):
        apis.setdefault(api.platform, []).append(api)
    made_by = maker(run.config.model)
    written = []
    for scenario in read_lines(run.file("01_scenarios"), Scenario):
        for platform in scenario.platforms:
            path = run.root / "exports" / form / f"{platform.id}.json"
            write_text(path, [_text(form, platform, apis.get(platform.id, []), made_by)])
            written.append(path)
    return written


def _text(form: str, platform: Platform, apis: Sequence[API], made_by: str) -> str:
    if form == "openapi":
        return pretty(openapi_document(platform, apis, made_by)) + "\n"
    if form == "mcp":
        return pretty(mcp_listing(platform, apis, made_by)) + "\n"
    return dumps([openai_tool(api) for api in apis]) + "\n"


def openapi_document(platform: Platform, apis: Sequence[API], made_by: str) -> dict[str, Any]:
    """One OpenAPI 3.1 document: an API is a POST operation whose JSON body is its arguments."""
    return {
        "openapi": "3.1.0",
        "info": {"title": platform.name, "version": "1.0.0", "description": platform.description, "x-made-by": made_by},
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": {
            f"/{api.name}": {
                "post": {
                    "operationId": api.name,
                    "description": api.description,
                    "tags": [api.group],
                    "x-capability": api.capability,
                    "requestBody": {"required": True, "content": {"application/json": {"schema": api.parameters}}},
                    "responses": {"200": {"description": api.returns}},
                }
            }
            for api in apis
        },
    }


def openai_tool(api: API) -> dict[str, Any]:
    """One entry of the `tools` of a chat-completions request."""
    return {"type": "function", "function": {"name": api.name, "description": api.description, "parameters": api.parameters}}


def mcp_listing(platform: Platform, apis: Sequence[API], made_by: str) -> dict[str, Any]:
    """The result of MCP's `tools/list`, with the server's name beside it."""
    return {
        "serverInfo": {"name": platform.name, "version": "1.0.0"},
        "instructions": platform.description,
        "tools": [{"name": api.name, "description": api.description, "inputSchema": api.parameters} for api in apis],
        "_meta": {"ptool/made-by": made_by},
    }
