"""Gobby's names: the programs that send to it, what each calls its events, and Gobby's two spellings of an event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bus.agents import find
from bus.agents.gobby import ALIASES, EVENTS
from bus.events import EventType

SOURCES: Final[Mapping[str, str]] = {
    "claude": "claude",
    "gemini": "gemini",
    "codex": "codex",
    "claude_sdk": "claude",
    "claude_sdk_web_chat": "claude",
    "antigravity": "claude",
    "cursor": "cursor",
    "windsurf": "windsurf",
    "copilot": "copilot",
}
"""Gobby's sources, each with the agent whose payloads and answers it has. Antigravity also sends Gemini's event names."""

UNKNOWN: Final = "notification"
"""Gobby's name for every event with an unknown name, which is never an error."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NATIVE: Final[Mapping[str, Mapping[str, str]]] = {
    "claude": {
        "before_agent": "UserPromptSubmit",
        "before_tool": "PreToolUse",
        "after_tool": "PostToolUse",
        "after_agent": "Stop",
        "user_prompt_expand": "UserPromptExpansion",
    },
    "gemini": {"pre_compact": "PreCompress", "stop": "AfterAgent"},
    "windsurf": {"pre_cascade_request": "pre_user_prompt", "before_agent": "pre_user_prompt"},
    "copilot": {"stop": "agentStop", "before_agent": "userPromptSubmitted"},
    "codex": {
        "thread/started": "SessionStart",
        "thread/archive": "SessionEnd",
        "turn/started": "UserPromptSubmit",
        "turn/completed": "Stop",
        "item/command_execution/request_approval": "PreToolUse",
        "item/file_change/request_approval": "PreToolUse",
        "item/completed": "PostToolUse",
        "agent_turn_complete": "Stop",
        "before_agent": "UserPromptSubmit",
        "after_agent": "Stop",
        "before_tool": "PreToolUse",
        "after_tool": "PostToolUse",
    },
}
"""The agents' own names of events that have other names in Gobby, or in an agent's connection to Gobby."""

_KEBAB: Final[Mapping[str, str]] = {
    "before_agent": "user-prompt-submit",
    "before_tool": "pre-tool-use",
    "after_tool": "post-tool-use",
    "after_agent": "stop",
}
"""Gobby's wire names (those of Claude Code) that are not just the unified name with hyphens."""

_WORDS: Final[Mapping[str, str]] = {
    **ALIASES,
    "prompt_submit": "before_agent",
    "tool_call": "before_tool",
    "tool_result": "after_tool",
}

_UNIFIED: Final[Mapping[str, str]] = {
    **{str(type_): name for name, types in reversed(list(EVENTS.items())) for type_ in types},
    EventType.AGENT_STOP.value: "stop",
}


class Name(NamedTuple):
    """One event's name."""

    native: str
    """The agent's own name, or Gobby's if the agent has none."""
    known: bool
    """Whether the agent has this event, so that its dialect reads the payload."""


def plain(name: str) -> str:
    """A name in snake case: `PreToolUse` and `pre-tool-use` are `pre_tool_use`."""
    return _HUMP.sub("_", name.strip()).replace("-", "_").lower()


def unified(name: str) -> str:
    """Gobby's unified name for an event in any spelling; unchanged if it has none."""
    word = plain(name)
    return _WORDS.get(word, word)


def agent_of(source: str, hook_type: str) -> str:
    """The agent whose payloads a source sends; empty if Gobby does not know the source."""
    agent = SOURCES.get(source, "")
    if source == "antigravity" and hook_type in find("gemini").capabilities:
        return "gemini"
    return agent


def native_name(agent: str, hook_type: str) -> Name:
    """The agent's own name for a `hook_type` in any spelling."""
    known, own = find(agent).capabilities, _NATIVE.get(agent, {})
    if hook_type in known:
        return Name(hook_type, True)
    word = plain(hook_type)
    spelled = {plain(native): native for native in known}
    for name in (own.get(word, ""), spelled.get(word, ""), own.get(unified(word), ""), spelled.get(unified(word), "")):
        if name in known:
            return Name(name, True)
    return Name(hook_type, False)


def unified_of(kind: str) -> str:
    """Gobby's unified name of a canonical event type; for any other type, its part after the colon in snake case."""
    return _UNIFIED.get(kind) or plain(kind.rpartition(":")[2])


def kebab(name: str) -> str:
    """The name that Gobby's code broadcasts for a unified name: `before_tool` is `pre-tool-use`."""
    return _KEBAB.get(name, name.replace("_", "-"))
