"""An MCP server that can misbehave: `mcp_server.py HOW`, spoken by hand so that it can break the protocol."""

import json
import sys
import time
from pathlib import Path

HOW = sys.argv[1]
TOOLS = [
    {
        "name": f"tool_{i}",
        "description": "Feed the ducks.",
        "inputSchema": {"type": "object", "properties": {"bread": {"$ref": "#/$defs/Bread"}}, "$defs": {"Bread": {"type": "string"}}},
        "annotations": {"readOnlyHint": i == 0},
    }
    for i in range(2)
]


def answer(request: dict, result: dict) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if "id" not in request:
            continue
        if method == "initialize":
            info = {"name": "pond", "version": "1"}
            answer(request, {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            if HOW == "die" or (HOW == "die_later" and request.get("params", {}).get("cursor")):
                print("out of ducks", file=sys.stderr, flush=True)
                raise SystemExit(1)
            more = {"nextCursor": "next"} if HOW in ("endless", "die_later") else {}
            answer(request, {"tools": TOOLS if HOW != "bad" else [{"nonsense": 1}], **more})
        elif method == "tools/call":
            Path(sys.argv[2]).write_text("called")
        else:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)


if HOW == "hang":
    time.sleep(60)
elif HOW == "flood":
    while True:
        sys.stdout.write("x" * 1_000_000)
elif HOW == "mutter":
    while True:
        sys.stdout.write("no protocol here\n")
else:
    serve()
