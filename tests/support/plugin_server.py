"""A plugin with an MCP server of a few lines, which behaves well or badly as a test tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bus.hooksets.plugins.folder_digest import folder_digest

SERVER = r"""
import json, os, sys, time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
TOOLS = ["say", "env", "die", "hang", "long", "odd", "refuse", "stuck", "pid"]
open(os.environ["STARTS"], "a").write(f"{os.getpid()}\n") if "STARTS" in os.environ else None


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def tools():
    if HOW == "names":
        names = ["a b", "a-b", "x\x1b[31mred", "y" * 100, "y" * 99 + "z", "", "n" * 200, 5, "q", "q"]
        odd = [{"name": "no-schema"}, {"name": "text-schema", "inputSchema": {"type": "string"}}, "no tool",
               {"name": "deep", "inputSchema": nested(60)},
               {"name": "big", "inputSchema": {"type": "object", "x": "x" * 70000}}]
        return [tool(name) for name in names] + odd
    return [tool(name) for name in TOOLS]


def nested(levels):
    return {"type": "object", "properties": {"x": nested(levels - 1)}} if levels else {"type": "object"}


def tool(name):
    return {"name": name, "description": f"does \x1b[2J{name!r}", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True, "destructiveHint": False}}


def call(number, name, given):
    if name == "say":
        return text(given.get("text", "") + "\x1b]0;title\x07")
    if name == "env":
        return text(json.dumps({**os.environ, "cwd": os.getcwd()}))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "die":
        os._exit(3)
    if name == "hang":
        return None
    if name == "stuck":
        time.sleep(3600)
    if name == "long":
        return text("x" * given["size"])
    if name == "odd":
        return given["result"]
    raise ValueError("refused \x1b[31m")


if HOW == "fails":
    sys.exit("no such luck")
if HOW == "garbage":
    while True:
        sys.stdout.write("Welcome to my server!\n")
if HOW == "line":
    sys.stdout.write("x" * (5 << 20))
    sys.stdout.flush()
    time.sleep(3600)
if HOW == "silent":
    time.sleep(3600)
print("a log line with a token of https://user:hunter2hunter2@x.example", file=sys.stderr)
if HOW == "chatty":
    print("this is no JSON")
    send({"method": "notifications/message", "params": {}})
    send({"id": "s1", "method": "ping"})
    send({"id": "s2", "method": "sampling/createMessage", "params": {}})
for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if number is None or method is None:
        continue
    if method == "initialize":
        send({"id": number, "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                       "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "ping":
        send({"id": number, "result": {}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": tools()}})
    elif method == "tools/call":
        try:
            result = call(number, message["params"]["name"], message["params"]["arguments"])
        except ValueError as error:
            send({"id": number, "error": {"code": -1, "message": str(error)}})
        else:
            if result is not None:
                send({"id": number, "result": result})
    else:
        send({"id": number, "error": {"code": -32601, "message": "unknown"}})
"""


def server_plugin(root: Path, servers: dict[str, dict[str, Any]], name: str = "kit") -> Path:
    """A plugin with these servers; `how` of one is what its process does."""
    (root / ".claude-plugin").mkdir(parents=True, exist_ok=True)
    (root / "server.py").write_text(SERVER)
    written = {
        key: {**{field: value for field, value in entry.items() if field != "how"}}
        if "command" in entry or "url" in entry
        else {"command": "python3", "args": ["-S", "${CLAUDE_PLUGIN_ROOT}/server.py", entry.get("how", "")]}
        | {field: value for field, value in entry.items() if field != "how"}
        for key, entry in servers.items()
    }
    (root / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": name, "mcpServers": written}))
    return root


def accepted(root: Path, **more: object) -> str:
    """A hook file of the user that imports a plugin, with its servers accepted as they are now."""
    entry = {"path": str(root), "dialect": "claude", "servers": folder_digest(root), **more}
    return json.dumps({"version": 1, "import": [entry]})
