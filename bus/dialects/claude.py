"""Claude Code: its hook payloads into events, and verdicts into the JSON that it reads (checked with 2.1.330)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bus.answers import Answer
from bus.codec import read_json, write_json
from bus.dialects import Capability
from bus.dialects.settling import Agent, Case, clean, settle, stderr, told
from bus.errors import DecodeError
from bus.events import GATES, Event, EventType, native_type
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Policy, Verdict, failed

NAME: Final = "claude"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of one string in an answer: Claude Code cuts above 10,000 characters, as JavaScript counts them."""

_AGENT: Final = Agent(NAME, "Claude Code", TEXT_LIMIT)

TIMEOUT: Final = 30
"""Seconds that the installed hooks are given: three times what the shim takes at most, far below the default of 600."""


def _can(type_: str, *answers: str, timeout: float = 600.0, closed: bool = False) -> Capability:
    """Claude Code waits for every hook; the bus is asked only where some answer would change something.

    An ask that cannot be asked denies what has not happened yet (`before`), and is dropped elsewhere; `asks` marks where
    no answer means that the person is asked.
    """
    return Capability(
        type=str(type_),
        waits=bool(answers),
        block="block" in answers,
        ask="ask" in answers,
        ask_else="deny" if "before" in answers else "abstain",
        asks_anyway="asks" in answers,
        rewrite="rewrite" in answers,
        rewrite_as="deny" if "asks" in answers else "ask",
        context="context" in answers,
        timeout=timeout,
        failure="closed" if closed else "open",
    )


def _own(name: str) -> str:
    return native_type(NAME, name)


CAPABILITIES: Final[dict[str, Capability]] = {
    "SessionStart": _can(EventType.SESSION_START, "context"),
    "Setup": _can(_own("Setup"), "context"),
    "InstructionsLoaded": _can(_own("InstructionsLoaded")),
    "UserPromptSubmit": _can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context", timeout=30.0),
    "UserPromptExpansion": _can(EventType.USER_PROMPT_EXPAND, "block", "before", "context"),
    "PreToolUse": _can(EventType.TOOL_PRE_EXECUTE, "block", "ask", "rewrite", "context"),
    "PermissionRequest": _can(EventType.PERMISSION_REQUEST, "block", "asks", "rewrite"),
    "PermissionDenied": _can(EventType.PERMISSION_DENIED),
    "PostToolUse": _can(EventType.TOOL_POST_EXECUTE, "block", "context"),
    "PostToolUseFailure": _can(EventType.TOOL_ERROR, "block", "context"),
    "PostToolBatch": _can(EventType.TOOL_BATCH, "block"),
    "Notification": _can(EventType.NOTIFICATION),
    "MessageDisplay": _can(EventType.LLM_POST_RESPONSE, timeout=10.0),
    "SubagentStart": _can(EventType.SUBAGENT_START, "context"),
    "SubagentStop": _can(EventType.SUBAGENT_STOP, "block", "context"),
    "TaskCreated": _can(EventType.TASK_CREATED, "block", "before"),
    "TaskCompleted": _can(EventType.TASK_COMPLETED, "block"),
    # Context makes a stopping agent go on, as a block does: that is what a hook that gives some there means.
    "Stop": _can(EventType.AGENT_STOP, "block", "context"),
    "StopFailure": _can(EventType.AGENT_ERROR),
    "TeammateIdle": _can(_own("TeammateIdle"), "block"),
    "ConfigChange": _can(EventType.CONFIG_CHANGE, "block", "before"),
    "CwdChanged": _can(_own("CwdChanged")),
    "DirectoryAdded": _can(_own("DirectoryAdded")),
    "FileChanged": _can(EventType.FILE_CHANGE),
    "WorktreeCreate": _can(_own("WorktreeCreate"), closed=True),
    "WorktreeRemove": _can(_own("WorktreeRemove")),
    "PreCompact": _can(EventType.CONTEXT_PRE_COMPACT, "block", "before"),
    "PostCompact": _can(EventType.CONTEXT_POST_COMPACT),
    "PreModelSwitch": _can(EventType.MODEL_PRE_SWITCH, "block", "ask", timeout=30.0, closed=True),
    "PostModelSwitch": _can(EventType.MODEL_POST_SWITCH, "context", timeout=30.0),
    "Elicitation": _can(_own("Elicitation"), "block", "asks"),
    "ElicitationResult": _can(_own("ElicitationResult"), "block"),
    "SessionEnd": _can(EventType.SESSION_END, timeout=1.5),
}
"""Every event of Claude Code, November 2026; what each honours is its hooks reference and our observation."""

NEVER: Final = frozenset({"WorktreeCreate"})
"""Never subscribed: whoever subscribes has to make the worktree, and a hook that does not makes creating one fail."""

QUIET: Final = NEVER | {"MessageDisplay", "FileChanged"}
"""Off by default too: one call for each chunk of text, and one that only watches files named in its matcher."""

_WITH_TOOL: Final = frozenset(
    {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"}
)
_BY_EXIT_CODE: Final = frozenset({"TaskCompleted", "TeammateIdle"})  # their JSON can stop the agent, not the event
_BY_ACTION: Final = frozenset({"Elicitation", "ElicitationResult"})  # their answer has no place for a reason

_ENVELOPE: Final = frozenset({"session_id", "cwd", "hook_event_name"})


class _Dialect:
    """Claude Code's hook protocol; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event in a payload; what has no field of its own stands in `data`, and all of it in `raw`."""
        given = read_json(payload)
        if not isinstance(given, dict):
            raise DecodeError(f"payload of Claude Code is not a JSON object but a {type(given).__name__}")
        native = native or _text(given, "hook_event_name")
        if not native:
            raise DecodeError("payload of Claude Code names no event (hook_event_name)")
        known = CAPABILITIES.get(native)
        tool, asked = _text(given, "tool_name"), given.get("tool_input")
        taken = set(_ENVELOPE)
        taken |= {"tool_name"} if tool else set()
        taken |= {"tool_input"} if isinstance(asked, dict) else set()
        taken |= {"tool_use_id", "tool_response"} if tool else set()
        return Event(
            type=known.type if known else _own(native),
            source=NAME,
            native=native,
            session=_text(given, "session_id"),
            host=host,
            cwd=_text(given, "cwd"),
            tool=canonical_tool(NAME, tool) if tool else "",
            native_tool=tool,
            call=_text(given, "tool_use_id") if tool else "",
            input=canonical_input(NAME, tool, asked) if isinstance(asked, dict) else {},
            output=given.get("tool_response") if tool else None,
            data={name: value for name, value in given.items() if name not in taken},
            raw=given,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> Answer:
        """The answer in Claude Code's own JSON, one line of ASCII; empty where nothing is to be said."""
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return Answer()
        case = settle(_AGENT, native, can, verdict, event, _original(event))
        if native in _BY_EXIT_CODE and case.decision == "deny":
            return Answer(2, b"", stderr(case.reason), case.lost)
        said = _decision(native, case)
        specific = said.pop("hookSpecificOutput", {})
        if case.context:
            specific["additionalContext"] = case.context
        if specific:
            said["hookSpecificOutput"] = {"hookEventName": native, **specific}
        if native in _BY_ACTION and case.decision == "deny" and verdict.reason:
            case.notes.append(clean(verdict.reason))  # their answer has no place for a reason
        if case.notes:
            said["systemMessage"] = told(_AGENT, case, verdict, event)
        return Answer(0, write_json(said) if said else b"", b"", case.lost)


DIALECT: Final = _Dialect()


def fallback(native: str, policy: Policy, why: str) -> Answer:
    """What the hook command prints when no hook answered; `deny` and `ask` hold on gates only, never on stops."""
    return DIALECT.render(native, failed(policy, why))


def settings(
    command_for: Callable[[str], str], events: Iterable[str], *, fail_closed: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """The `hooks` section of settings.json for these events, each with the one command that `command_for` gives.

    `fail_closed` adds `onFailure: block` on gates, which closes what a command cannot: its own timeout (2.1.295 and
    newer; older ones ignore the key).
    """
    section: dict[str, list[dict[str, Any]]] = {}
    for native in events:
        if native in NEVER:
            continue
        can = CAPABILITIES[native]
        handler: dict[str, Any] = {
            "type": "command",
            "command": command_for(native),
            "timeout": max(1, math.ceil(min(can.timeout, TIMEOUT))),
        }
        if fail_closed and can.type in GATES:
            handler["onFailure"] = "block"
        section[native] = [{"matcher": "*", "hooks": [handler]} if native in _WITH_TOOL else {"hooks": [handler]}]
    return section


def _decision(native: str, case: Case) -> dict[str, Any]:
    """The part of the answer that carries the decision, in the form of the event's family."""
    decision, reason = case.decision, case.reason
    if native == "PreToolUse" and decision != "abstain":
        specific: dict[str, Any] = {"permissionDecision": decision, "permissionDecisionReason": reason}
        if case.rewrite is not None:
            specific["updatedInput"] = case.rewrite
        return {"hookSpecificOutput": specific}
    if native == "PermissionRequest" and decision == "allow":
        changed = {} if case.rewrite is None else {"updatedInput": case.rewrite}
        return {"hookSpecificOutput": {"decision": {"behavior": "allow", **changed}}}
    if native == "PermissionRequest" and decision == "deny":
        return {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": reason}}}
    if native == "PreModelSwitch" and decision in ("allow", "ask"):
        return {"hookSpecificOutput": {"permissionDecision": decision, "permissionDecisionReason": reason}}
    if native in _BY_ACTION and decision == "deny":
        return {"hookSpecificOutput": {"action": "decline"}}
    return {"decision": "block", "reason": reason} if decision == "deny" else {}


def _original(event: Event | None) -> dict[str, Any] | None:
    """The input as Claude Code sent it."""
    given = event.raw.get("tool_input") if event is not None and event.raw is not None else None
    return given if isinstance(given, dict) else None


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
