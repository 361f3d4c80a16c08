"""What plugins' MCP servers say, bounded and cleaned: their tools, and the results of calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.errors import FleethookError

PROTOCOL: Final = "2025-06-18"
"""The newest version of MCP that is spoken here; a server may answer with an older one."""

MOST_LINE: Final = 4 * 1024 * 1024
"""The most bytes of one message of a server."""
MOST_RESULT: Final = 1024 * 1024
"""The most bytes of a call's result, as JSON."""
MOST_TOOLS: Final = 200
MOST_PAGES: Final = 20
_MOST_NAME: Final = 128
_MOST_DESCRIPTION: Final = 4000
_MOST_SCHEMA: Final = 64 * 1024
_MOST_DEPTH: Final = 40
_KINDS: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that terminals obey, and those that change the direction of text."""

Answer = dict[str, Any]


class ServerDown(FleethookError):
    """A plugin's MCP server cannot be used now; the text says why, and is safe to show."""


class ServerRefuses(FleethookError):
    """A plugin's MCP server answered with an error, or with what is no answer."""


class ServerTool(NamedTuple):
    """One tool of a server: its own name, cleaned texts, and the JSON Schema of its arguments."""

    name: str
    title: str
    description: str
    schema: dict[str, Any]


def clean(text: str, most: int = _MOST_DESCRIPTION) -> str:
    """A text without control characters, cut to `most` characters."""
    whole = _CONTROL.sub("", text[: most + 1])
    return whole if len(text) <= most else f"{whole[:most]} …"


def tool_of(raw: object) -> ServerTool | None:
    """A tool as its server describes it; None if it has no usable name or schema."""
    if not isinstance(raw, dict) or not isinstance(name := raw.get("name"), str) or not 0 < len(name) <= _MOST_NAME:
        return None
    schema = raw.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object" or _depth(schema) > _MOST_DEPTH:
        return None
    if len(msgspec.json.encode(schema)) > _MOST_SCHEMA:
        return None
    texts = (raw.get(key) if isinstance(raw.get(key), str) else "" for key in ("title", "description"))
    title, description = (clean(text or "") for text in texts)
    return ServerTool(name, title[:200], description, schema)


def result_of(raw: Mapping[str, Any]) -> Answer:
    """The result of a call, with its texts cleaned; raises ServerRefuses for one that is too long or has another form."""
    content, structured = raw.get("content", []), raw.get("structuredContent")
    if not isinstance(content, list) or not all(
        isinstance(item, dict) and item.get("type") in _KINDS for item in content
    ):
        raise ServerRefuses("its answer is no result of a tool")
    if structured is not None and not isinstance(structured, dict):
        raise ServerRefuses("its answer is no result of a tool: structuredContent is no object")
    size = len(msgspec.json.encode((content, structured)))
    if size > MOST_RESULT:
        raise ServerRefuses(f"its answer is too long: {size} bytes, and {MOST_RESULT} at most")
    cleaned = [
        {**item, "text": _CONTROL.sub("", item["text"])} if isinstance(item.get("text"), str) else item
        for item in content
    ]
    found: Answer = {"content": cleaned, "isError": raw.get("isError") is True}
    return {**found, "structuredContent": structured} if structured is not None else found


def decoded(line: bytes) -> Answer | None:
    """A message of JSON-RPC; None if it is none."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.get("jsonrpc") == "2.0" else None


def outcome_of(message: Answer) -> Answer:
    """The result in an answer; raises ServerRefuses for an error."""
    error, result = message.get("error"), message.get("result")
    if error is not None:
        text = error.get("message") if isinstance(error, dict) else None
        raise ServerRefuses(f"it refuses: {clean(text, 500) if isinstance(text, str) else 'without a reason'}")
    if not isinstance(result, dict):
        raise ServerRefuses("its answer has no result")
    return result


def _depth(value: object, level: int = 0) -> int:
    if level > _MOST_DEPTH:
        return level
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max((_depth(item, level + 1) for item in below), default=level)
