"""Hooks of Claude Code and ion that nobody waits for: for how long they may go on, and what they say to the model later."""

from __future__ import annotations

from typing import Final

from bus.errors import DecodeError
from bus.hookfiles.command_results import plain
from bus.hooks import Hook
from bus.system.processes import Finished
from bus.wire.codec import read_json

DETACHING: Final = frozenset({"claude", "ion"})
"""Whose hooks may go to the background."""

_BLOCKS: Final = 2


def background_seconds(line: bytes, timeout: float) -> float | None:
    """For how long a hook may go on whose first line is `{"async": true}`; None for any other line."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        said = read_json(line)
    except DecodeError:
        return None
    if not isinstance(said, dict) or said.get("async") is not True:
        return None
    given = said.get("asyncTimeout")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
        return timeout
    return min(timeout, given / 1000)


def wakes(hook: Hook, done: Finished) -> bool:
    """Whether this is how a hook with `asyncRewake` calls its agent: exit 2, which is no failure of it."""
    return hook.dialect in DETACHING and bool(hook.own.get("wakes")) and done.exit_code == _BLOCKS


def later_text(hook: Hook, done: Finished) -> str:
    """What a background run has to say to the model: its output, or the message of a hook that wakes its agent."""
    if wakes(hook, done):
        return plain(done.stderr).strip() or plain(done.stdout).strip()
    if hook.dialect not in DETACHING or hook.blocking or done.exit_code != 0 or done.timed_out:
        return ""
    return printed_text(done.stdout)


def printed_text(stdout: bytes) -> str:
    """Output as context for the model, without the line `{"async": true}`: of an object its fields for that, else all."""
    first, _, rest = stdout.partition(b"\n")
    text = plain(stdout if background_seconds(first, 1.0) is None else rest).strip()
    if text.startswith("{"):
        try:
            said = read_json(text.encode())
        except DecodeError:
            return text
        if isinstance(said, dict):
            specific = said.get("hookSpecificOutput")
            inner = specific.get("additionalContext") if isinstance(specific, dict) else None
            found = (inner, said.get("systemMessage"))
            return "\n".join(part for part in found if isinstance(part, str) and part)
    return text
