"""What a tool call came to: its exit code, and its outcome as one text that is the same for the same outcome."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from bus.agents.event_facts import error_text, output_text, tool_failed
from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.exact_calls import input_text
from bus.memory.exits import UNKNOWN
from bus.tools import canonical_tool

_CODES: Final = ("exit_code", "exitCode", "exit", "exit_status", "exitStatus", "returncode", "return_code", "code")
_HOLDERS: Final = ("metadata", "structured_content", "structuredContent", "result")
_SAID: Final = lazy_regex(
    r"(?im)(?:^|\b(?:process|command) )(?:exited with |exit(?:ed)? )(?:code|status)?:? ?(-?\d{1,3})\b"
)
_SILENT: Final = frozenset({"codex", "windsurf"})
"""Agents whose event after a call has no exit code, and comes after a failure too."""
_BACKGROUND: Final = ("run_in_background", "is_background", "background", "block_until_ms")
_MOST_SEARCHED: Final = 4_000
_MOST_CLEANED: Final = 4_000
_TIMES: Final = lazy_regex(
    r"(?i)\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?)\b|\b0x[0-9a-f]{4,}\b"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\bpid:? \d+\b|\bPGID: \d+\b"
)
"""What differs between two runs that came to the same: durations, times, addresses, ids of processes."""


_LAST: Final[list[tuple[Event, str]]] = []
"""The event whose output was read last, with it: it is needed several times for one event."""


def text_of(event: Event) -> str:
    """What a tool printed or returned, as text."""
    if _LAST and _LAST[0][0] is event:
        return _LAST[0][1]
    _LAST[:] = [(event, text := output_text(event))]
    return text


def exit_of(event: Event) -> int:
    """The exit code of a command that has run; UNKNOWN where its agent does not say it, or it still runs."""
    if any(event.input.get(name) is True for name in _BACKGROUND[:3]):
        return UNKNOWN
    output = event.output
    if isinstance(output, Mapping):
        if output.get("interrupted") is True:
            return 130
        for holder in (output, *(output.get(name) for name in _HOLDERS)):
            if isinstance(holder, Mapping) and (code := _number(holder)) is not None:
                return code
        if isinstance(output.get("backgroundTaskId"), str) and output["backgroundTaskId"]:
            return UNKNOWN
        if output.get("returnCodeInterpretation"):
            return 1
    text = text_of(event)
    said = _said(text[:_MOST_SEARCHED]) or _said(text[-_MOST_SEARCHED:]) if len(text) > _MOST_SEARCHED else _said(text)
    failed = tool_failed(event) or event.data.get("success") is False
    if failed:
        found = _said(error_text(event)) or said
        return int(found[1]) or 1 if found is not None else 1
    if said is not None and (event.source != "claude"):
        return int(said[1])
    return UNKNOWN if event.source in _SILENT else 0


def _said(text: str) -> re.Match[str] | None:
    """Where a text says an exit code."""
    return _SAID.search(text) if "xit" in text else None


def _number(holder: Mapping[str, Any]) -> int | None:
    for name in _CODES:
        value = holder.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def call_digest(event: Event) -> str:
    """The hash of a canonical call: its tool, input and folder."""
    text = json.dumps((event.tool or canonical_tool(event.source, event.native_tool), event.cwd))
    return _digest(text + input_text(event.tool, event.input))


def outcome_digest(event: Event) -> str:
    """The hash of what a call came to, without what differs between two runs that came to the same."""
    text = text_of(event)
    if len(text) > 2 * _MOST_CLEANED:  # of a long output only the ends, where such times are, are cleaned
        ends = (_TIMES.sub("#", text[:_MOST_CLEANED]), _TIMES.sub("#", text[-_MOST_CLEANED:]))
        text = "\n".join((ends[0], _digest(text[_MOST_CLEANED:-_MOST_CLEANED]), ends[1]))
    else:
        text = _TIMES.sub("#", text)
    code = exit_of(event) if event.tool == "bash" else 0
    return _digest(f"{code}\n{tool_failed(event)}\n{text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
