"""Claude Code: its hook payloads into events, and verdicts into the JSON that it reads (checked with 2.1.330)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from bus.answers import Answer
from bus.codec import read_json, write_json
from bus.dialects import Capability
from bus.errors import DecodeError
from bus.events import GATES, Event, EventType, native_type
from bus.tools import canonical_input, canonical_tool, lost_fields, native_input
from bus.verdicts import Decision, Part, Policy, Verdict, failed

NAME: Final = "claude"

TEXT_LIMIT: Final = 9_999
"""UTF-16 units of one string in an answer: Claude Code cuts above 10,000 characters, as JavaScript counts them."""

TIMEOUT: Final = 30
"""Seconds that the installed hooks are given: three times what the shim takes at most, far below the default of 600."""


def _can(type_: str, *answers: str, timeout: float = 600.0, closed: bool = False) -> Capability:
    """Claude Code waits for every hook; the bus is asked only where some answer would change something."""
    return Capability(
        type=str(type_),
        waits=bool(answers),
        block="block" in answers,
        ask="ask" in answers,
        rewrite="rewrite" in answers,
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
    "UserPromptSubmit": _can(EventType.USER_PROMPT_SUBMIT, "block", "context", timeout=30.0),
    "UserPromptExpansion": _can(EventType.USER_PROMPT_EXPAND, "block", "context"),
    "PreToolUse": _can(EventType.TOOL_PRE_EXECUTE, "block", "ask", "rewrite", "context"),
    "PermissionRequest": _can(EventType.PERMISSION_REQUEST, "block", "ask", "rewrite"),
    "PermissionDenied": _can(EventType.PERMISSION_DENIED),
    "PostToolUse": _can(EventType.TOOL_POST_EXECUTE, "block", "context"),
    "PostToolUseFailure": _can(EventType.TOOL_ERROR, "block", "context"),
    "PostToolBatch": _can(EventType.TOOL_BATCH, "block"),
    "Notification": _can(EventType.NOTIFICATION),
    "MessageDisplay": _can(EventType.LLM_POST_RESPONSE, timeout=10.0),
    "SubagentStart": _can(EventType.SUBAGENT_START, "context"),
    "SubagentStop": _can(EventType.SUBAGENT_STOP, "block", "context"),
    "TaskCreated": _can(EventType.TASK_CREATED, "block"),
    "TaskCompleted": _can(EventType.TASK_COMPLETED, "block"),
    # Context makes a stopping agent go on, as a block does: that is what a hook that gives some there means.
    "Stop": _can(EventType.AGENT_STOP, "block", "context"),
    "StopFailure": _can(EventType.AGENT_ERROR),
    "TeammateIdle": _can(_own("TeammateIdle"), "block"),
    "ConfigChange": _can(EventType.CONFIG_CHANGE, "block"),
    "CwdChanged": _can(_own("CwdChanged")),
    "DirectoryAdded": _can(_own("DirectoryAdded")),
    "FileChanged": _can(EventType.FILE_CHANGE),
    "WorktreeCreate": _can(_own("WorktreeCreate"), closed=True),
    "WorktreeRemove": _can(_own("WorktreeRemove")),
    "PreCompact": _can(EventType.CONTEXT_PRE_COMPACT, "block"),
    "PostCompact": _can(EventType.CONTEXT_POST_COMPACT),
    "PreModelSwitch": _can(EventType.MODEL_PRE_SWITCH, "block", "ask", timeout=30.0, closed=True),
    "PostModelSwitch": _can(EventType.MODEL_POST_SWITCH, "context", timeout=30.0),
    "Elicitation": _can(_own("Elicitation"), "block", "ask"),
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
_ASKS_ANYWAY: Final = frozenset({"PermissionRequest", "Elicitation"})  # where no answer means that the person is asked
_BEFORE: Final = frozenset({"UserPromptSubmit", "UserPromptExpansion", "PreCompact", "ConfigChange", "TaskCreated"})
_BY_EXIT_CODE: Final = frozenset({"TaskCompleted", "TeammateIdle"})  # their JSON can stop the agent, not the event
_BY_ACTION: Final = frozenset({"Elicitation", "ElicitationResult"})  # their answer has no place for a reason

_ENVELOPE: Final = frozenset({"session_id", "cwd", "hook_event_name"})
_UNPRINTABLE: Final = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)])


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
        case = _settle(native, can, verdict, event)
        if native in _BY_EXIT_CODE and case.decision == "deny":
            return Answer(2, b"", case.reason.encode("utf-8", "backslashreplace") + b"\n")
        said = _decision(native, case)
        specific = said.pop("hookSpecificOutput", {})
        if case.context:
            specific["additionalContext"] = case.context
        if specific:
            said["hookSpecificOutput"] = {"hookEventName": native, **specific}
        if case.notes:
            said["systemMessage"] = _fit("fleethook: " + "; ".join(case.notes), _trace(verdict, event, " ({})"))[0]
        return Answer(0, write_json(said)) if said else Answer()


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


class _Case(NamedTuple):
    """A verdict cut to what the event can carry."""

    decision: Decision
    reason: str
    """For the model, never empty and within the limit."""
    rewrite: dict[str, Any] | None
    """The whole changed input, in Claude Code's fields."""
    context: str
    notes: list[str]
    """For the person at the terminal."""


def _settle(native: str, can: Capability, verdict: Verdict, event: Event | None) -> _Case:
    decision, notes, extra = verdict.decision, [], ""
    if verdict.fallback and can.type not in GATES:
        decision = "abstain"  # a failure never blocks a stop, nor anything that is not a gate
    rewrite: dict[str, Any] | None = None
    if verdict.updated_input and decision != "deny":
        original = _original(event)
        rewrite = _rewritten(verdict.updated_input, event, original)
        if not can.rewrite:
            rewrite = None
            notes.append(f"a changed input was dropped: {native} carries none")
        elif rewrite is not None and rewrite == original:
            rewrite = None
        elif rewrite is None or (native == "PermissionRequest" and decision != "allow"):
            # No form for "ask, with this input": the model is told what to call instead.
            decision, extra = "deny", f"A hook changed the input: call the tool with {_shown(verdict.updated_input)}"
            rewrite = None
        elif decision == "abstain":
            decision, extra = "ask", "A hook changed the input of this call"
    if decision == "ask" and native in _ASKS_ANYWAY:
        decision = "abstain"
    elif decision == "ask" and not can.ask:
        if native in _BEFORE:
            decision, extra = "deny", f"A person has to approve it, and Claude Code cannot ask for that at {native}"
        else:
            decision = "abstain"
            notes.append(f"a hook wanted a person's approval, which {native} cannot ask for{_why(verdict)}")
    elif decision == "deny" and not can.block:
        decision = "abstain"
        notes.append(f"a hook wanted to block, which {native} cannot{_why(verdict)}")
    elif decision == "deny" and native in _BY_ACTION and verdict.reason:
        notes.append(verdict.reason)
    context = ""
    if can.context:
        context, cut = _fit("\n\n".join(text for text in verdict.contexts if text))
        if cut:
            notes.append(f"{cut} characters of context were cut")
    elif any(verdict.contexts):
        notes.append(f"context was dropped: {native} takes none")
    reason = _reason(verdict, event, extra) if decision != "abstain" else ""
    notes = [*_told(decision, verdict, rewritten=rewrite is not None), *notes]
    return _Case(decision, reason, rewrite, context, [_clean(note) for note in notes])


def _decision(native: str, case: _Case) -> dict[str, Any]:
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


def _rewritten(
    changed: Mapping[str, Any], event: Event | None, original: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The whole input after a rewrite, since Claude Code replaces the input; None where it cannot be made."""
    if event is None or original is None or lost_fields(NAME, event.native_tool, changed, original):
        return None
    return native_input(NAME, event.native_tool, changed, original)


def _reason(verdict: Verdict, event: Event | None, extra: str) -> str:
    """What the model is told: why, what to do instead, who said so, and where a person can look."""
    mine = _deciders(verdict)
    why = verdict.reason or next((part.reason for part in mine if part.reason), "")
    if not why and not extra:
        why = "Fleethook gave no reason" if not mine else f"The hook {mine[0].hook} gave no reason"
    instead = f"Instead: {verdict.instead}" if verdict.instead else ""
    text = " ".join(_sentence(part) for part in (why, instead, extra) if part.strip())
    who = ", ".join(dict.fromkeys(part.hook for part in mine))[:500]
    trace = _trace(verdict, event, "{}")
    tail = f" [{'; '.join(part for part in ('fleethook: ' + who if who else '', trace) if part) or 'fleethook'}]"
    return _fit(_clean(text), _clean(tail))[0]


def _told(decision: Decision, verdict: Verdict, *, rewritten: bool) -> list[str]:
    """What the person is told beside the model: who decided and where that stands, and everything that went wrong."""
    told = []
    if verdict.fallback:
        outcome = {"deny": "denied by failure policy", "ask": "asking by failure policy"}.get(
            decision, "nothing blocked"
        )
        told.append(f"no hook answered ({verdict.fallback}): {outcome}")
    elif decision in ("deny", "ask"):
        mine = [f"{part.hook} ({part.origin})" if part.origin else part.hook for part in _deciders(verdict)]
        because = f"by {', '.join(dict.fromkeys(mine))}" if mine else "by a hook"
        if verdict.updated_input and not mine:
            because = "since a hook changed the input"
        told.append(f"{'blocked' if decision == 'deny' else 'asked for'} {because}")
    if rewritten and verdict.decision != "abstain":
        told.append("the tool's input was changed")
    if verdict.repeated:
        told.append("hooks may have run twice")
    return [*told, *verdict.notes]


def _why(verdict: Verdict) -> str:
    return f": {verdict.reason}" if verdict.reason else ""


def _deciders(verdict: Verdict) -> list[Part]:
    """The hooks whose decision became the verdict's; nobody where all abstained."""
    return [part for part in verdict.parts if part.decision == verdict.decision != "abstain"]


def _trace(verdict: Verdict, event: Event | None, form: str) -> str:
    found = verdict.event or (event.id if event is not None else "")
    return form.format(f"fleethook trace {found}") if found else ""


def _fit(text: str, tail: str = "") -> tuple[str, int]:
    """Text and tail within the limit, the text's end cut and that said; and how many characters were cut."""
    if len(text) + len(tail) <= TEXT_LIMIT // 2:  # at most two units a character
        return text + tail, 0
    room = TEXT_LIMIT - _units(tail)
    if _units(text) <= room:
        return text + tail, 0
    raw = text.encode("utf-16-le", "surrogatepass")
    head = raw[: 2 * max(0, room - 50)]
    if head and 0xD8 <= head[-1] <= 0xDB:  # never half a pair
        head = head[:-2]
    cut = (len(raw) - len(head)) // 2
    return f"{head.decode('utf-16-le', 'surrogatepass')} [fleethook cut {cut} characters]{tail}", cut


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _clean(text: str) -> str:
    """Without the control characters that could redraw a terminal."""
    return text.translate(_UNPRINTABLE)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text[-1:] in ".!?" else f"{text}."


def _shown(changed: Mapping[str, Any]) -> str:
    return write_json(dict(changed)).decode("ascii")


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
