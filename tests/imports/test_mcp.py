import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import ConfigError
from pipelines.imports import import_tools

SERVER = Path(__file__).parents[1] / "data" / "mcp_server.py"


def ask(how: str, *, allow=(sys.executable,), timeout: float = 20.0, **options):
    return import_tools(f"{sys.executable} {SERVER} {how}", form="mcp", allow=allow, timeout=timeout, **options)


def test_the_tools_of_a_server_are_listed_with_their_schemas_written_out():
    result = ask("well")

    assert [(api.name, api.verb) for api in result.apis] == [("tool_0", "read"), ("tool_1", "write")]
    assert result.apis[0].parameters == {"type": "object", "properties": {"bread": {"type": "string"}}}
    assert result.scenario.platform.name == "pond"


def test_no_tool_is_ever_called(tmp_path):
    ask(f"well {tmp_path / 'mark'}")

    assert not (tmp_path / "mark").exists()


def test_nothing_is_started_that_was_not_allowed_by_name(tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(ConfigError, match="nothing is started that is not allowed; add --allow touch"):
        import_tools(f"touch {mark}", form="mcp", allow=["node"])

    assert not mark.exists()


def test_no_host_is_called_that_was_not_allowed():
    with pytest.raises(ConfigError, match=r"nothing is contacted that is not allowed; add --allow 127\.0\.0\.1"):
        import_tools("http://127.0.0.1:9/mcp", form="mcp")


@pytest.mark.parametrize(
    ("how", "timeout", "said"),
    [
        ("hang", 1.5, r"did not answer within 1\.5 s"),
        ("flood", 20, "wrote more than 8,000,000 bytes"),
        ("mutter", 2, r"did not answer within 2 s"),
        ("die", 20, "out of ducks"),
        ("endless", 20, "lists more than"),
        ("bad", 20, "the server failed"),
    ],
)
def test_a_server_that_misbehaves_is_one_clear_line(how, timeout, said):
    with pytest.raises(ConfigError, match=said) as caught:
        ask(how, timeout=timeout)

    assert "\n" not in str(caught.value)


def test_what_a_server_listed_before_it_died_is_kept_only_when_it_is_asked_for():
    with pytest.raises(ConfigError, match="out of ducks"):
        ask("die_later")

    kept = ask("die_later", partial=True)
    assert [api.name for api in kept.apis] == ["tool_0", "tool_1"]
    assert "out of ducks" in kept.findings[0]


def test_a_command_that_is_not_there_is_one_clear_line():
    with pytest.raises(ConfigError, match="cannot start no-such-program"):
        import_tools("no-such-program --x", form="mcp", allow=["no-such-program"])


def test_a_client_configuration_names_its_servers(tmp_path):
    path = tmp_path / "clients.json"
    servers = {name: {"command": sys.executable, "args": [str(SERVER), "well"]} for name in ("pond", "lake")}
    path.write_text(json.dumps({"mcpServers": servers}))

    with pytest.raises(ConfigError, match="holds 2 servers; choose with --server one of pond, lake"):
        import_tools(path, form="mcp", allow=[sys.executable])
    assert len(import_tools(path, form="mcp", allow=[sys.executable], server="lake").apis) == 2


def test_a_saved_listing_is_read_without_starting_anything(tmp_path):
    path = tmp_path / "listing.json"
    path.write_text(
        json.dumps({"result": {"tools": [{"name": "a", "description": "Do a.", "inputSchema": {"type": "object", "properties": {}}}]}})
    )

    assert [api.name for api in import_tools(path, form="mcp").apis] == ["a"]


def test_a_server_of_the_sdk_answers_over_http(tmp_path):
    code = tmp_path / "served.py"
    code.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('Mill')\n"
        "@server.tool()\n"
        "def grind(grain: str, fine: bool = False) -> str:\n"
        "    '''Grind grain.'''\n"
        "    return grain\n"
        "import socket, uvicorn\n"
        "listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen()\n"
        "print(listener.getsockname()[1], flush=True)\n"
        "uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level='error')).run(sockets=[listener])\n"
    )
    process = subprocess.Popen([sys.executable, str(code)], stdout=subprocess.PIPE, text=True)
    try:
        port = process.stdout.readline().strip()
        result = import_tools(f"http://127.0.0.1:{port}/mcp", form="mcp", allow=["127.0.0.1"])
    finally:
        process.kill()
        process.wait()

    assert [api.name for api in result.apis] == ["grind"]
    assert result.apis[0].parameters["required"] == ["grain"]


def test_a_real_server_from_the_npm_registry_lists_its_tools(tmp_path):
    """Needs npm and either its cache or its registry; installs the protocol's own reference server into the test's folder."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    command = ["npm", "install", "--prefix", str(tmp_path), "--prefer-offline", "--no-audit", "--no-fund", "--silent"]
    package = "@modelcontextprotocol/server-everything"
    try:
        done = subprocess.run([*command, f"{package}@2026.8.31"], capture_output=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if done.returncode:
        pytest.skip("the npm registry is out of reach")

    result = import_tools(f"node {tmp_path}/node_modules/{package}/dist/index.js", form="mcp", allow=["node"])

    assert {"echo", "get-sum"} <= {api.name for api in result.apis}
    assert result.counts["quarantined"] == 0
