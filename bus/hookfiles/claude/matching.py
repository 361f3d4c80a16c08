"""Decides which hooks of Claude Code's format run: maps agents' events and tools to its names, and checks its matchers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from bus.agents.claude import CAPABILITIES
from bus.agents.claude import NAME as CLAUDE
from bus.errors import PatternError
from bus.events import Event
from bus.lazy.regex import lazy_regex
from bus.matching.regexes import compile_regex
from bus.tools import TABLE, canonical_tool, tool_for, tool_names

TOOL_EVENTS: Final = frozenset(
    {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"}
)
"""The events whose matcher is about the tool's name. Only for these does `if` have a meaning."""

SUBJECTS: Final[Mapping[str, str]] = {
    "SessionStart": "source",
    "Setup": "trigger",
    "SessionEnd": "reason",
    "Notification": "notification_type",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "ConfigChange": "source",
    "StopFailure": "error",
    "InstructionsLoaded": "load_reason",
    "UserPromptExpansion": "command_name",
    "Elicitation": "mcp_server_name",
    "ElicitationResult": "mcp_server_name",
    "PreModelSwitch": "to_model",
    "PostModelSwitch": "to_model",
    "FileChanged": "file_path",
}
"""The field that a matcher of an event without a tool is about; events that are not listed have no matcher."""

EXACT_ONLY: Final = frozenset({"FileChanged", "StopFailure"})
"""The events whose matcher is a list of names and never a regular expression."""

_FAMILY: Final = ("claude", "codex", "qwen", "copilot", "ion")
"""Agents that use Claude Code's own event names."""

_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": ("user_prompt", "userPrompt", "initialPrompt", "text", "message"),
    "message": ("text",),
    "notification_type": ("notificationType", "type"),
    "agent_id": ("subagent_id", "agentId"),
    "agent_type": ("subagent_type", "agentType", "agent_name", "agentName"),
    "last_assistant_message": ("prompt_response", "response", "text"),
    "transcript_path": ("transcriptPath",),
    "permission_mode": ("permissionMode", "approval_mode"),
    "error": ("error_message", "errorMessage"),
    "duration_ms": ("durationMs", "duration"),
    "to_model": ("model",),
    "file_path": ("path", "file"),
}
"""Other agents' names for the fields of Claude Code's payloads."""

_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "notification_type": {"ToolPermission": "permission_prompt", "tool_permission": "permission_prompt"},
    "permission_mode": {"auto_edit": "acceptEdits", "autoEdit": "acceptEdits", "yolo": "bypassPermissions"},
}

_NEUTRAL: Final[Mapping[str, object]] = {
    "source": "startup",
    "trigger": "auto",
    "reason": "other",
    "permission_mode": "default",
    "prompt": "",
    "message": "",
    "notification_type": "",
    "stop_hook_active": False,
    "custom_instructions": None,
    "error": "unknown",
    "is_interrupt": False,
}
"""The value of a field if the agent does not give one."""

_NAMES: Final = lazy_regex(r"[A-Za-z0-9_ ,|-]*")
_NAMED_GROUP: Final = lazy_regex(r"\(\?<(?=[A-Za-z_])")
_CAP: Final = 256
"""The most characters of a name that are matched: some patterns run with `re`, whose time is not bounded."""

_EVERY: Final = frozenset({"", "*"})
_ALSO_CALLED: Final = {"Agent": ("Task",), "Task": ("Agent",)}  # renamed in 2026; old matchers still work

Matcher = Callable[[Iterable[str]], bool]


def patterns(name: str) -> tuple[str, ...]:
    """The event patterns of a Claude Code event: its canonical type, or the agents that have the same native name."""
    can = CAPABILITIES.get(name)
    if can is not None and not can.type.startswith(f"{CLAUDE}:"):
        return (can.type,)
    return tuple(f"{agent}:{name}" for agent in _FAMILY)


def moment(event: Event) -> str:
    """Claude Code's name of the event; the agent's own name if Claude Code has no such event."""
    if event.native in CAPABILITIES:
        return event.native
    return next((name for name, can in CAPABILITIES.items() if can.type == event.type), event.native or event.type)


def field(event: Event, name: str) -> Any:
    """A field of Claude Code's payloads, from the agent's field with the same meaning; None if there is none."""
    for spelling in (name, *_ALIASES.get(name, ())):
        value = event.data.get(spelling)
        if value is not None:
            return _VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
    return _NEUTRAL.get(name)


def names(event: Event) -> tuple[str, ...]:
    """Every name that a Claude Code matcher may use for the event's tool, the best first; empty without a tool."""
    patch = event.input.get("patch")
    creates = isinstance(patch, str) and "*** Update File: " not in patch and "*** Add File: " in patch
    found = _tool_names(event.source, event.tool, event.native_tool or event.tool, creates)
    if event.tool == "bash" and isinstance(patch, str):  # a shell command that the agent runs as an edit
        edits = (name for name in _tool_names("codex", "edit", "apply_patch", creates) if name not in found)
        return (*found, *edits)
    return found


@lru_cache(4096)
def _tool_names(source: str, tool: str, native: str, creates: bool) -> tuple[str, ...]:
    if source == CLAUDE or native in TABLE[CLAUDE]:
        return (native, *_ALSO_CALLED.get(native, ())) if native else ()
    found: list[str] = []
    for name in tool_names(tool, native):
        if name != native or name == tool:  # `name == tool`: OpenCode and Python programs use the name `bash`
            claude_name = tool_for(CLAUDE, name)
            found += [claude_name, *_ALSO_CALLED.get(claude_name, ())]
    if creates:
        found.sort(key=lambda name: name != "Write")
    return tuple(dict.fromkeys([*found, native]))


@lru_cache(4096)
def compile_matcher(text: str, *, exact: bool = False) -> Matcher:
    """A matcher, compiled as Claude Code does; raises PatternError for a regular expression that cannot be compiled.

    A matcher of letters, digits, `_`, blank, comma, `|` and `-` (or with `exact` any) is a list of names separated by `|`
    or commas, and case counts. An empty matcher or `*` matches everything. Any other is an unanchored regular expression.
    """
    if text in _EVERY:
        return lambda _names: True
    if exact or _NAMES.fullmatch(text):
        wanted = frozenset(listed(text))
        return lambda subjects: not wanted.isdisjoint(subjects)
    regex = compile_regex(_NAMED_GROUP.sub("(?P<", text), allow_backtracking=True)
    return lambda subjects: any(regex.search(name[:_CAP]) is not None for name in subjects)


def listed(text: str) -> list[str]:
    """The names in a list of names."""
    return [name.strip() for name in re.split(r"[|,]", text) if name.strip()]


def index_tool(matchers: Iterable[str]) -> str:
    """The tool matcher for the hook index, over canonical and native names; empty if any tool may fit.

    It may match too many tools, because `matches` checks them again, but never too few.
    """
    found: dict[str, None] = {}
    patterns: list[str] = []
    for text in matchers:
        if text in _EVERY:
            return ""
        if _NAMES.fullmatch(text):
            known = listed(text)
        else:
            fits = compile_matcher(text)
            known = [name for name in TABLE[CLAUDE] if fits((name,))]
            patterns.append(f"(?:{_NAMED_GROUP.sub('(?P<', text)})")
        for name in known:
            found.update(dict.fromkeys((canonical_tool(CLAUDE, name), name)))
    if not patterns:
        return "|".join(found)
    whole = "|".join([*(f"^{re.escape(name)}$" for name in found), *patterns])
    try:
        compile_regex(whole, allow_backtracking=True)
    except PatternError:  # too long together, or groups of the same name
        return ""
    return whole


def matches(name: str, matchers: Collection[str], event: Event) -> bool:
    """Whether any matcher of a hook on the Claude Code event `name` fits; a hook without matchers fits everything."""
    if not matchers:
        return True
    if name in TOOL_EVENTS:
        subjects = names(event)
    else:
        subject = field(event, SUBJECTS[name]) if name in SUBJECTS else None
        if not isinstance(subject, str) or not subject:
            return True  # if there is no value to match, Claude Code runs the hook
        subjects = (subject.rpartition("/")[2], subject) if name == "FileChanged" else (subject,)
    return any(compile_matcher(text, exact=name in EXACT_ONLY)(subjects) for text in matchers)


def tool_name_for_hook(event: Event, matchers: Collection[str]) -> str:
    """The name of the tool that a hook gets: the first name that its matchers ask for."""
    known = names(event)
    fitting = (name for name in known if not matchers or any(compile_matcher(text)((name,)) for text in matchers))
    return next(fitting, known[0] if known else "")
