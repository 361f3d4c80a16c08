"""Answers of an OpenAI-compatible chat endpoint, for a receiver that plays one."""

from __future__ import annotations

import json
from typing import Any

from tests.support.receivers import Answer, Got


def completion(
    content: str | None, *, calls: tuple[tuple[str, Any], ...] = (), tokens: tuple[int, int] = (100, 20), why: str = ""
) -> Answer:
    """A chat completion: a text, or calls of tools by name and arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for number, (name, given) in enumerate(calls)
        ]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": why or ("tool_calls" if calls else "stop")}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
    }
    return Answer(200, json.dumps(body).encode(), ["Content-Type: application/json"])


def judged(ok: bool, reason: str = "") -> Answer:
    """A completion with a judgement."""
    return completion(json.dumps({"ok": ok, "reason": reason}))


def messages(got: Got) -> list[dict[str, Any]]:
    """The messages of a request."""
    found: list[dict[str, Any]] = got.json["messages"]
    return found


def event_of(got: Got) -> dict[str, Any]:
    """The event that a request has between its two lines with the marker."""
    lines = messages(got)[2]["content"].splitlines()
    found: dict[str, Any] = json.loads(lines[2])
    return found
