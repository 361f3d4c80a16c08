"""The tools `remember` and `recall` over MCP (stdio): one JSON-RPC message on each line, without any package."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from typing import Any

import store

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")

_PROJECT = {"type": "string", "description": "The project's folder. Without it: remember for all, recall from all."}
TOOLS = [
    {
        "name": "remember",
        "description": "Keep a note for later sessions.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": store.MOST_TEXT},
                "project": _PROJECT,
            },
            "required": ["text"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    {
        "name": "recall",
        "description": "Find notes of earlier sessions: those that share most words with the query first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "project": _PROJECT,
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
]


class WrongCall(Exception):
    """A message that cannot be answered, with its JSON-RPC code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def main() -> None:
    """Answer messages until the input ends."""
    for line in sys.stdin:
        if not line.strip():
            continue
        number = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise WrongCall(-32600, "a message is an object")
            number = message.get("id")
            if number is None:
                continue  # a notification
            answer: dict[str, Any] = {"result": handle(message.get("method"), message.get("params") or {})}
        except WrongCall as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        except ValueError as error:
            answer = {"error": {"code": -32700, "message": f"this is not JSON: {error}"}}
        print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)


def handle(method: object, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request; raises WrongCall."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        version = asked if asked in VERSIONS else VERSIONS[0]
        server = {"name": "memory", "version": "1.0.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params.get("name"), params.get("arguments") or {})
    raise WrongCall(-32601, f"there is no method {method!r}")


def call(name: object, given: dict[str, Any]) -> dict[str, Any]:
    """The result of a tool; a failure is part of it, so that the model reads it."""
    tools = {"remember": remember, "recall": recall}
    if name not in tools:
        raise WrongCall(-32602, f"there is no tool {name!r}; there are {', '.join(tools)}")
    try:
        text, failed = tools[str(name)](given), False
    except (ValueError, sqlite3.Error, OSError) as error:
        text, failed = f"{name}: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def remember(given: dict[str, Any]) -> str:
    """Keep a note."""
    text = given.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("`text` has to be a text that is not empty")
    if len(text) > store.MOST_TEXT:
        raise ValueError(f"`text` has {len(text)} characters; at most {store.MOST_TEXT} are kept")
    return "Noted." if store.add_note(folder(given) or "", text) else "This was noted before."


def recall(given: dict[str, Any]) -> str:
    """The notes that fit."""
    query, limit = given.get("query"), given.get("limit", 10)
    if not isinstance(query, str):
        raise ValueError("`query` has to be a text")  # noqa: TRY004 - a wrong argument, which the model reads
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100:
        raise ValueError("`limit` has to be a whole number from 1 to 100")
    notes = store.find_notes(query, folder(given), limit)
    return (
        "\n".join(f"- {text}" + (f" ({project})" if project else "") for project, text in notes) or "Nothing is known."
    )


def folder(given: dict[str, Any]) -> str | None:
    """The project's folder as the hooks name it; None without one."""
    project = given.get("project")
    if project is not None and not isinstance(project, str):
        raise ValueError("`project` has to be a text")
    return os.path.realpath(project) if project else None


if __name__ == "__main__":
    main()
