"""The outcome of a Claude Code hook, from its exit code, JSON and plain text (checked with 2.1.330)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bus.agents.claude import CAPABILITIES
from bus.errors import DecodeError
from bus.events import STOPS, Event
from bus.hookfiles.claude.stdin import read_rewrite
from bus.hookfiles.command_results import failure, hook_name, output, plain
from bus.hooks import Hook
from bus.lazy.conversions import converted
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.verdicts import Decision
from bus.wire.codec import read_json, write_json

ION: Final = "ion"

_CONTEXT_EVENTS: Final = frozenset({"SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PostModelSwitch"})
"""The events at which plain text on stdout is context for the model."""

_NOT_PASSED_ON: Final[Mapping[str, str]] = {
    "initialUserMessage": "a first message",
    "sessionTitle": "a session title",
    "watchPaths": "paths to watch",
    "reloadSkills": "reloading skills",
    "suppressOriginalPrompt": "hiding the prompt",
    "classifierContext": "context for the classifier",
    "retry": "another try",
    "displayContent": "changed screen text",
    "worktreePath": "a worktree's path",
}
"""Fields of hookSpecificOutput that the bus does not pass on, and what messages call them."""


class _Answer(msgspec.Struct, frozen=True):
    """The fields that every event has; others are ignored, as Claude Code ignores them."""

    continue_: bool | None = msgspec.field(default=None, name="continue")
    stop_reason: str | None = msgspec.field(default=None, name="stopReason")
    system_message: str | None = msgspec.field(default=None, name="systemMessage")
    terminal: str | None = msgspec.field(default=None, name="terminalSequence")
    decision: str | None = None
    reason: str | None = None
    specific: dict[str, Any] | None = msgspec.field(default=None, name="hookSpecificOutput")
    in_background: bool | None = msgspec.field(default=None, name="async")


class _Permission(msgspec.Struct, frozen=True):
    """`decision` of a PermissionRequest."""

    behavior: str
    message: str | None = None
    updated: dict[str, Any] | None = msgspec.field(default=None, name="updatedInput")
    permissions: list[dict[str, Any]] | None = msgspec.field(default=None, name="updatedPermissions")
    interrupt: bool | None = None


class _Specific(msgspec.Struct, frozen=True):
    """`hookSpecificOutput`."""

    event: str | None = msgspec.field(default=None, name="hookEventName")
    permission: str | None = msgspec.field(default=None, name="permissionDecision")
    why: str | None = msgspec.field(default=None, name="permissionDecisionReason")
    updated: dict[str, Any] | None = msgspec.field(default=None, name="updatedInput")
    context: str | None = msgspec.field(default=None, name="additionalContext")
    decision: _Permission | None = None
    action: str | None = None
    output: Any = msgspec.field(default=None, name="updatedToolOutput")
    mcp_output: Any = msgspec.field(default=None, name="updatedMCPToolOutput")


class _AnswerValues:
    """The values of one answer while it is read."""

    def __init__(self) -> None:
        self.decision: Decision = "abstain"
        self.reason = ""
        self.context = ""
        self.updated: dict[str, Any] | None = None
        self.output: Any = None
        self.halt = ""
        self.permissions: tuple[dict[str, Any], ...] = ()
        self.interrupt = False
        self.notes: list[str] = []


def command_outcome(hook: Hook, name: str, event: Event, tool: str, done: Finished, seconds: float) -> Outcome:
    """The outcome of a command that got the event `name` and the tool name `tool`."""
    shown, code = output(done), done.exit_code
    stdout, stderr = plain(done.stdout).strip(), plain(done.stderr).strip()
    wrong = failure(hook, done, seconds)
    if wrong and (done.timed_out or code is None):
        return Outcome(failure=wrong, exit_code=code, output=shown)
    if not stdout.startswith("{"):
        if code == 2:
            return _blocked(hook, name, stderr, exit_code=code, output=shown)
        talks = name in _CONTEXT_EVENTS or hook.dialect == ION
        contexts = (stdout,) if stdout and talks and not wrong else ()
        return Outcome(contexts=contexts, failure=wrong, exit_code=code, output=shown)
    got = json_outcome(hook, name, event, tool, done.stdout, cut=done.stdout_cut)
    if code == 2:
        # Neither an allow nor unreadable JSON overrides exit code 2.
        reason = got.reason if got.decision == "deny" else stderr or got.reason
        return _blocked(hook, name, reason, exit_code=code, output=shown)
    if wrong and got.decision != "deny":
        # Claude Code still reads the answer; but with `onFailure` the exit code counts as a failure, and a program
        # that failed allows nothing.
        strict = hook.on_failure not in (None, "allow")
        if strict or got.failure or got.decision == "allow":
            return Outcome(failure=wrong, exit_code=code, output=shown)
        got = msgspec.structs.replace(
            got, note="; ".join(filter(None, (f"{wrong}; its answer still counts", got.note)))
        )
    return msgspec.structs.replace(got, exit_code=code, output=shown)


def json_outcome(hook: Hook, name: str, event: Event, tool: str, raw: bytes, *, cut: int = 0) -> Outcome:
    """The outcome of an answer in JSON; a value that does not fit Claude Code's schema is a failure with a message."""
    unusable = f"{hook_name(hook)} gave an answer that cannot be used:"
    if cut:
        return Outcome(failure=f"{unusable} it is {len(raw) + cut} bytes long; {len(raw)} are read")
    try:
        value = read_json(raw)
        if not isinstance(value, dict):
            raise DecodeError(f"it is a JSON {type(value).__name__}, not an object")
        return _read(hook, name, event, tool, value)
    except (DecodeError, msgspec.ValidationError) as error:
        return Outcome(failure=f"{unusable} {error}")


def _read(hook: Hook, name: str, event: Event, tool: str, value: dict[str, Any]) -> Outcome:
    answer = converted(value, _Answer)
    specific = converted(answer.specific or {}, _Specific)
    if answer.specific is not None and specific.event != name and not (hook.dialect == ION and specific.event is None):
        raise DecodeError(f"hookSpecificOutput.hookEventName has to be {name!r}, not {specific.event!r}")
    result = _AnswerValues()
    _decide(name, answer, specific, result)
    result.context = (specific.context or "").strip()
    for key, what in _NOT_PASSED_ON.items():
        if (answer.specific or {}).get(key) not in (None, False):
            result.notes.append(f"the bus does not pass on {what} ({key})")
    if answer.terminal:
        result.notes.append("the bus does not pass on terminalSequence")
    if answer.in_background:
        result.notes.append(
            "it went on in the background (async), and its output is not read here: use `async` in its entry"
        )
    if result.updated is not None and result.decision != "deny":
        return _rewriting(hook, event, tool, answer, result)
    return _outcome(hook, answer, result, None)


def _decide(name: str, answer: _Answer, specific: _Specific, result: _AnswerValues) -> None:
    """Set the decision. An answer can have it in several fields: the field that is read last here counts."""
    can = CAPABILITIES.get(name)
    blocks = can is None or can.block
    if answer.decision is not None:
        if answer.decision not in ("approve", "block"):
            raise DecodeError(f"decision has to be 'approve' or 'block', not {answer.decision[:40]!r}")
        if answer.decision == "block":
            result.decision, result.reason = "deny", answer.reason or ""
        elif name == "PreToolUse":
            result.decision, result.reason = "allow", answer.reason or ""
    if specific.permission is not None and name in ("PreToolUse", "PreModelSwitch"):
        if specific.permission not in ("allow", "deny", "ask", "defer"):
            raise DecodeError(
                f"permissionDecision has to be allow, deny, ask or defer, not {specific.permission[:40]!r}"
            )
        result.decision = _DECISIONS[specific.permission]
        result.reason = specific.why or answer.reason or ""
        if specific.permission == "defer":
            result.notes.append("defer became ask: only Claude Code itself can defer a call")
    if specific.decision is not None and name == "PermissionRequest":
        _permit(specific.decision, result)
    if specific.action is not None and name in ("Elicitation", "ElicitationResult"):
        if specific.action in ("decline", "cancel"):
            result.decision = "deny"
        else:
            result.notes.append("the bus does not pass on an answer to the server's question (action)")
    if name == "PostToolUse":
        result.output = specific.output if specific.output is not None else specific.mcp_output
    if specific.updated is not None and name == "PreToolUse":
        result.updated = specific.updated
    if answer.continue_ is False:
        _stop(can.type if can is not None else "", answer, result)
    if result.decision == "deny" and not blocks:
        result.notes.append(f"it wanted to block, but {name} cannot be blocked: {result.reason or 'no reason given'}")
        result.decision, result.reason = "abstain", ""


_DECISIONS: Final[Mapping[str, Decision]] = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "ask"}


def _permit(decision: _Permission, result: _AnswerValues) -> None:
    if decision.behavior not in ("allow", "deny"):
        raise DecodeError(f"decision.behavior has to be allow or deny, not {decision.behavior[:40]!r}")
    result.decision = _DECISIONS[decision.behavior]
    result.reason = decision.message or ""
    result.updated = decision.updated
    if result.decision == "allow":
        result.permissions = tuple(decision.permissions or ())
    else:
        result.interrupt = bool(decision.interrupt)


def _stop(kind: str, answer: _Answer, result: _AnswerValues) -> None:
    """`continue: false` ends the agent's work and overrides every decision; it also denies the present call."""
    result.halt = answer.stop_reason or "a hook stopped the agent"
    if kind in STOPS:  # there a deny would make the agent go on
        result.decision, result.reason = "abstain", ""
    else:
        result.decision, result.reason = "deny", result.halt


def _rewriting(hook: Hook, event: Event, tool: str, answer: _Answer, result: _AnswerValues) -> Outcome:
    rewrite = read_rewrite(event, tool, result.updated or {})
    if rewrite.unwritable:
        result.decision = "deny"
        result.reason = (
            f"a hook changed the input in a way that {event.native_tool or tool} has no fields for; "
            f"call it with {write_json(rewrite.unwritable).decode('ascii')} instead"
        )
        return _outcome(hook, answer, result, None)
    if rewrite.kept and rewrite.changed:
        result.notes.append(f"its updatedInput left out {', '.join(rewrite.kept)}, which the bus keeps")
    return _outcome(hook, answer, result, rewrite.changed or None)


def _outcome(hook: Hook, answer: _Answer, result: _AnswerValues, updated: dict[str, Any] | None) -> Outcome:
    reason = result.reason.strip()
    if not reason and result.decision in ("deny", "ask"):
        reason = f"hook {hook.id!r} says {result.decision} and gives no reason"
    message = (answer.system_message or "").strip()
    notes = [f"hook {hook.id!r}: {note}" for note in (*((message,) if message else ()), *result.notes)]
    contexts = (result.context,) if result.context else ()
    return Outcome(
        decision=result.decision,
        reason=reason,
        contexts=contexts,
        updated_input=updated,
        note="; ".join(notes),
        updated_output=result.output,
        halt=result.halt,
        permissions=result.permissions,
        interrupt=result.interrupt,
    )


def _blocked(hook: Hook, name: str, reason: str, *, exit_code: int, output: str) -> Outcome:
    """The outcome of exit 2: a block if the event can be blocked, else a message to the user."""
    can = CAPABILITIES.get(name)
    # Claude Code ignores exit 2 at PermissionRequest; ion blocks at every event (I-03).
    ignores_block = can is not None and (not can.block or (name == "PermissionRequest" and hook.dialect != ION))
    if ignores_block:
        note = f"hook {hook.id!r} exited 2, which blocks nothing at {name}: {reason or 'no reason given'}"
        return Outcome(note=note, exit_code=exit_code, output=output)
    reason = reason or f"hook {hook.id!r} blocks it (exit 2) and gives no reason"
    return Outcome(decision="deny", reason=reason, exit_code=exit_code, output=output)
