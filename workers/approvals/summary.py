"""A call in one text, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from bus.events import Event
from bus.secrets.redaction import redact, redact_text, redact_whole

MOST_TEXT: Final = 4_000
MOST_INPUT: Final = 256 * 1024
"""The longest input that a question keeps, in characters of JSON: a question is one of thousands in the server's memory."""

_DESCRIPTIVE: Final = ("command", "path", "url", "query", "pattern", "prompt")


def readable(text: str) -> str:
    """The text without halves of surrogate pairs, which a payload may have and Redis cannot keep."""
    return text.encode("utf-8", "replace").decode()


def shortened(text: str, most: int = MOST_TEXT) -> str:
    """The beginning of a text; it says how much is missing, so that nobody approves a call for its harmless beginning."""
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters, not shown]"


def summary(event: Event) -> str:
    """What a call does, in one text without secrets."""
    for fields in (event.input, event.data):
        for name in _DESCRIPTIVE:
            value = fields.get(name)
            if isinstance(value, str) and value.strip():
                return shortened(redact_text(value))
    return shortened(json.dumps(redact(event.input or event.data), ensure_ascii=False, default=str))


def whole_input(event: Event) -> str:
    """Everything that a call runs with, as JSON without secrets; empty if that is longer than MOST_INPUT."""
    content = event.input or event.data
    if len(json.dumps(content, default=str)) > MOST_INPUT:
        return ""
    return json.dumps(redact_whole(content), default=str)


def input_fields(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each field of an input with its value as a text, which can have lines: texts as they are, other values as JSON."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))
        for name, value in content.items()
    ]
