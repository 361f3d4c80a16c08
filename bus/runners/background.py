"""Background hooks of Claude Code and ion: how long they may run, and the text that the model gets from them later."""

from __future__ import annotations

from typing import Final

from bus.errors import DecodeError
from bus.hookfiles.command_results import plain
from bus.hooks import Hook
from bus.system.processes import Finished
from bus.wire.codec import read_json

DETACHING: Final = frozenset({"claude", "ion"})
"""The dialects whose hooks may go to the background."""

_BLOCKS: Final = 2


def background_seconds(line: bytes, timeout: float) -> float | None:
    """How many seconds a hook may run whose first line is `{"async": true}`; None for any other line."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        value = read_json(line)
    except DecodeError:
        return None
    if not isinstance(value, dict) or value.get("async") is not True:
        return None
    limit = value.get("asyncTimeout")
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit <= 0:
        return timeout
    return min(timeout, limit / 1000)


def wakes(hook: Hook, done: Finished) -> bool:
    """Whether a hook with `asyncRewake` wakes its agent, which it does by exit code 2; that is not a failure then."""
    return hook.dialect in DETACHING and bool(hook.own.get("wakes")) and done.exit_code == _BLOCKS


def later_text(hook: Hook, done: Finished) -> str:
    """The text for the model from a background run: its output, or the message of a hook that wakes its agent."""
    if wakes(hook, done):
        return plain(done.stderr).strip() or plain(done.stdout).strip()
    if hook.dialect not in DETACHING or hook.blocking or done.exit_code != 0 or done.timed_out:
        return ""
    return printed_text(done.stdout)


def printed_text(stdout: bytes) -> str:
    """A hook's output as context for the model, without the line `{"async": true}`; for a JSON object its context fields."""
    first, _, rest = stdout.partition(b"\n")
    text = plain(stdout if background_seconds(first, 1.0) is None else rest).strip()
    if text.startswith("{"):
        try:
            value = read_json(text.encode())
        except DecodeError:
            return text
        if isinstance(value, dict):
            specific = value.get("hookSpecificOutput")
            inner = specific.get("additionalContext") if isinstance(specific, dict) else None
            found = (inner, value.get("systemMessage"))
            return "\n".join(part for part in found if isinstance(part, str) and part)
    return text
