"""Reads Claude Code's handlers of the types `prompt` and `agent`: the question that a model is asked (I-12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bus.config.documents import PathParts
from bus.hookfiles.claude.format import Handler
from bus.hookfiles.common import Reading
from bus.hooks import ModelPrompt

EVENTS: Final = frozenset(
    {
        *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest", "PermissionDenied"),
        *("UserPromptSubmit", "UserPromptExpansion", "Stop", "SubagentStop"),
        *("TaskCreated", "TaskCompleted", "TeammateIdle"),
    }
)
"""The events at which Claude Code has handlers of these types."""

MODEL_TIMEOUTS: Final[Mapping[str, float]] = {"prompt": 30.0, "agent": 60.0}
"""Claude Code's default timeouts in seconds for handlers of these types."""

_MOST: Final = 20_000
_OWN_MODEL: Final = frozenset({"", "inherit"})


def model_question(reading: Reading, name: str, handler: Handler, at: PathParts) -> ModelPrompt | None:
    """The question of a handler at the event `name`. Returns None, and reports why, if it cannot be asked."""
    text = handler.prompt
    if text is None:
        reading.report(at, '"prompt" is missing', hint=f'write {{"type": "{handler.type}", "prompt": "…"}}')
        return None
    if not reading.text((*at, "prompt"), text, what="prompt"):
        return None
    if len(text) > _MOST:
        reading.report((*at, "prompt"), f"prompt has {len(text)} characters; {_MOST} is the most")
        return None
    if name not in EVENTS:
        kinds = "command, http and mcp_tool"
        message = f"Claude Code has no {handler.type} hooks at {name}: this handler does nothing"
        reading.warn((*at, "type"), message, hint=f"at {name} there are {kinds}")
        return None
    if handler.async_ or handler.wakes:
        reading.warn(at, f"a {handler.type} decides, so it does not run in the background (async)")
    model = (handler.model or "").strip()
    return ModelPrompt(text=text, model="" if model in _OWN_MODEL else model)
