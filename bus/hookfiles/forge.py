"""Forge's hooks: a hooks.json, run as Forge runs them (F-03, F-07 to F-11).

A command gets environment variables, and the event as JSON on stdin. Before a tool, a non-zero exit blocks, and JSON on
stdout is the changed input. Event data is never put into the text of a command.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from bus.agents import event_facts
from bus.config.documents import Document, PathParts, Plain, load
from bus.config.field_types import EnvName, Seconds
from bus.config.hook_file_value import HookFile
from bus.errors import DecodeError
from bus.events import GATES, Event, EventType
from bus.hookfiles import common
from bus.hookfiles.command_results import failure, hook_name, output, plain
from bus.hookfiles.locations import forge_project_root
from bus.hooks import DEFAULT_TIMEOUT, Hook, Layer
from bus.matching.patterns import parse_pattern
from bus.outcomes import Outcome
from bus.shell.quoting import literal_variables
from bus.system.processes import Finished
from bus.tools import CANONICAL
from bus.verdicts import Policy
from bus.wire.codec import read_json, write_json

NAME: Final = "forge"

PRE_EVENTS: Final = GATES | {
    EventType.PERMISSION_PROMPT.value,
    EventType.LLM_PRE_REQUEST.value,
    EventType.CONTEXT_PRE_COMPACT.value,
    EventType.MODEL_PRE_SWITCH.value,
    EventType.TOOL_SELECT.value,
    EventType.TASK_CREATED.value,
    EventType.CONFIG_CHANGE.value,
}
"""The events at which a hook can block: before a tool by default, at the others with `can_block: true` (F-10)."""

CHANGES: Final = ("tool_args", "updated_input", "modified_args", "tool_input", "arguments", "args", "input")
"""The keys of a JSON answer that may have the changed input; without any of them, the answer's own keys are input fields."""

_NOT_FOUND: Final = frozenset({126, 127})
_SHORT: Final = frozenset({"EVENT_TYPE", "TOOL_NAME", "TOOL_ARGS"})
_ENDS_LLM: Final = frozenset({EventType.LLM_POST_RESPONSE.value, EventType.LLM_STREAM_END.value})
_LEVELS: Final[Mapping[str, str]] = {
    EventType.PERMISSION_REQUEST.value: "ask",
    EventType.PERMISSION_PROMPT.value: "ask",
    EventType.PERMISSION_GRANTED.value: "allow",
    EventType.PERMISSION_DENIED.value: "deny",
}
"""The permission that the event type implies, if the agent gives none."""

_TOP: Final = frozenset({"hooks", "version", "description"})


class _ForgeHook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook (F-03), with the two choices of F-10 and F-11."""

    event: Annotated[str, Meta(max_length=10_000)]
    command: Annotated[str, Meta(max_length=100_000)]
    timeout: Seconds | None = None
    working_dir: Annotated[str, Meta(max_length=4096)] | None = None
    env: dict[str, str] | None = None
    enabled: bool | None = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    can_block: bool | None = None
    stop_on_failure: bool | None = None
    env_pass: list[EnvName] = []
    """A field of Fleethook: environment variables that the command gets."""


class _Forge:
    """Forge's hook dialect; it has no state."""

    name = NAME
    policy: Policy | None = "allow"
    one_stream = False

    def read(self, path: Path, layer: Layer) -> HookFile:
        """The hooks of a hooks.json, `{"hooks": [ … ]}` or the list alone; raises ConfigError if it cannot be read."""
        return _read(load(path), path, layer)

    def applies(self, hook: Hook, event: Event) -> bool:  # noqa: ARG002 - the protocol's arguments
        """Always true: the pattern of a Forge hook has all its conditions."""
        return True

    def directory(self, hook: Hook, event: Event) -> str:
        """The hook's `working_dir` (relative to the project), else the event's project root (F-09)."""
        declared = os.path.expanduser(hook.working_dir)
        if os.path.isabs(declared):
            return declared
        # If the event's folder is gone, the hook runs in another directory, so that a guard still guards.
        known = os.path.isabs(event.cwd) and os.path.isdir(event.cwd)
        return os.path.join(forge_project_root(event.cwd), declared).rstrip("/") if known else ""

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """`FORGE_*` by the event's kind, and the short names (F-07, F-08)."""
        found = {
            "FORGE_EVENT": event.type,
            "EVENT_TYPE": event.type,
            "FORGE_SESSION_ID": event.session,
            "FORGE_TIMESTAMP": str(_timestamp(event)),
            "FORGE_WORKING_DIR": self.directory(hook, event) or event.cwd,
        }
        if event.tool:
            tool, tool_input = event_facts.tool_call(NAME, event)
            args = event_facts.as_json(tool_input, compact=False)
            found |= {"FORGE_TOOL_NAME": tool, "TOOL_NAME": tool, "FORGE_TOOL_ARGS": args, "TOOL_ARGS": args}
        if event.type == EventType.TOOL_POST_EXECUTE:
            found["FORGE_TOOL_RESULT"] = _result(event)
        family = event.type.partition(":")[0]
        if family == "llm":
            found["FORGE_LLM_MODEL"] = event_facts.model(event)
        if event.type in _ENDS_LLM:
            found["FORGE_LLM_TOKENS"] = event_facts.tokens(event)
        if family == "permission":
            found |= {"FORGE_PERM_LEVEL": _permission(event, "level"), "FORGE_PERM_RULE": _permission(event, "rule")}
        return found

    def stdin(self, hook: Hook, event: Event) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """The event as one line of JSON: type, timestamp (seconds), data, tool_name, session_id (F-02, F-07)."""
        return write_json(event_fields(event)) + b"\n"

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """A block, a changed input, or a failure; "not found" (126, 127), a timeout and a signal are failures (F-11)."""
        shown, code = output(done), done.exit_code
        ended = code is not None and not done.timed_out
        if ended and code not in (0, *_NOT_FOUND) and _may_block(hook, event):
            return Outcome(decision="deny", reason=_reason(hook, done), exit_code=code, output=shown)
        wrong = failure(hook, done, seconds)
        if wrong:
            return Outcome(failure=wrong, exit_code=code, output=shown)
        if event.type != EventType.TOOL_PRE_EXECUTE:
            return Outcome(exit_code=code, output=shown)
        if done.stdout_cut and done.stdout.lstrip().startswith(b"{"):
            size = len(done.stdout) + done.stdout_cut
            wrong = f"{hook_name(hook)} printed a changed input of {size} bytes; {len(done.stdout)} are read"
            return Outcome(failure=wrong, exit_code=code, output=shown)
        changed, note = _changed_input(hook, event, done.stdout)
        return Outcome(updated_input=changed, note=note, exit_code=code, output=shown)


HOOKS: Final = {NAME: _Forge()}


def event_fields(event: Event) -> dict[str, Any]:
    """The event as Forge writes it (F-02); native names and the agent's own payload are in `data.fleethook`."""
    # A program for Forge gets the data that it sent, without what the bus adds to it.
    own = event.raw.get("data") if event.source == NAME and event.raw is not None else None
    data: dict[str, Any] = dict(own if isinstance(own, dict) else event.data)
    kind, tool = event.type, None
    if event.tool:
        tool, data["tool_args"] = event_facts.tool_call(NAME, event)
    if kind == EventType.TOOL_POST_EXECUTE:
        data["tool_result"] = event.output
    elif kind == EventType.TOOL_ERROR:
        data["error"] = event_facts.error_text(event) or event_facts.output_text(event)
    elif kind == EventType.USER_PROMPT_SUBMIT:
        data["user_input"] = event_facts.user_message(event)
    elif kind.startswith("llm:"):
        data["llm_model"] = event_facts.model(event)
        spent = event_facts.tokens(event) if kind in _ENDS_LLM else ""
        data |= {"llm_tokens": int(spent)} if spent else {}
    elif kind.startswith("permission:"):
        data |= {"perm_level": _permission(event, "level"), "perm_rule": _permission(event, "rule")}
    if event.source != NAME:
        data["fleethook"] = {
            "source": event.source,
            "event": event.native,
            "tool": event.native_tool,
            "raw": event.raw,
        }
    return {
        "type": kind,
        "timestamp": _timestamp(event),
        "data": data,
        "tool_name": tool,
        "session_id": event.session or None,
    }


def _timestamp(event: Event) -> float:
    """The event's time in seconds: Forge's timestamp (F-02), else the time when the bus got the event."""
    timestamp = event.data.get("timestamp") if event.source == NAME else None
    if isinstance(timestamp, int | float) and not isinstance(timestamp, bool):
        return float(timestamp)
    return event.time / 1000 if event.time else time.time()


def _result(event: Event) -> str:
    """A tool's result: JSON if it is an object or a list, else its text."""
    structured = isinstance(event.output, (dict, list))
    return event_facts.as_json(event.output, compact=False) if structured else event_facts.output_text(event)


def _permission(event: Event, what: str) -> str:
    for name in (f"perm_{what}", f"permission_{what}", what):
        value = event.data.get(name)
        if isinstance(value, str) and value:
            return value
    return _LEVELS.get(event.type, "") if what == "level" else ""


def _may_block(hook: Hook, event: Event) -> bool:
    asked = common.own_flag(hook.own, "can_block")
    if event.type == EventType.TOOL_PRE_EXECUTE:
        return asked is not False
    return asked is True and event.type in PRE_EVENTS


def _reason(hook: Hook, done: Finished) -> str:
    """The reason of a block: stderr, else stdout if that is not JSON, else the reason in the JSON (F-10)."""
    stderr, printed = plain(done.stderr).strip(), plain(done.stdout).strip()
    value = _json(done.stdout)
    if value is not None:
        named = (value.get(name) for name in ("reason", "message", "error")) if isinstance(value, dict) else ()
        printed = next((text.strip() for text in named if isinstance(text, str) and text.strip()), "")
    return stderr or printed or f"hook {hook.id!r} blocks it (exit {done.exit_code}) and gives no reason"


def _json(stdout: bytes) -> dict[str, Any] | list[Any] | None:
    """The object or list in stdout; None if it is anything else."""
    if not stdout.lstrip().startswith((b"{", b"[")):
        return None
    try:
        value = read_json(stdout)
    except DecodeError:
        return None
    return value if isinstance(value, (dict, list)) else None


def _changed_input(hook: Hook, event: Event, stdout: bytes) -> tuple[dict[str, Any] | None, str]:
    """The input fields that a JSON answer changes, and warnings about its other fields.

    If the answer has a key of CHANGES, every field in it counts. Otherwise only fields of the tool count: other JSON that
    a hook prints (`{"status": "ok"}`) must not become part of the call.
    """
    value = _json(stdout)
    if not isinstance(value, dict):
        return None, ""
    inner = next(
        (value[name] for name in CHANGES if isinstance(value.get(name), dict) and name not in event.input), None
    )
    fields = inner if inner is not None else value
    known = {*event.input, *CANONICAL.get(event.tool, ()), *event_facts.tool_call(NAME, event)[1]}
    taken = {name: new for name, new in fields.items() if inner is not None or name in known}
    left = [name for name in fields if name not in taken]
    note = f"{hook_name(hook)} names no fields of the tool: {', '.join(left)[:200]}" if taken and left else ""
    changed = {name: new for name, new in taken.items() if name not in event.input or event.input[name] != new}
    return changed or None, note


def read_entries(path: Path, layer: Layer) -> tuple[HookFile, list[tuple[Plain, Hook | None]]]:
    """The file as `read` returns it, and each entry as it is written with its hook, or None if the entry has an error."""
    entries: list[tuple[Plain, Hook | None]] = []
    return _read(load(path), path, layer, entries), entries


def _read(
    document: Document, path: Path, layer: Layer, pairs: list[tuple[Plain, Hook | None]] | None = None
) -> HookFile:
    value = document.value
    file = common.Reading(document, layer)
    entries: list[Plain] = []
    base: PathParts = ()
    if isinstance(value, list):
        entries = value
    elif isinstance(value, dict):
        base = ("hooks",)
        found = value.get("hooks")
        if found is not None and not isinstance(found, list):
            file.report(base, "hooks has to be a list", hint='write {"hooks": [ {"event": …, "command": …} ]}')
        entries = found if isinstance(found, list) else []
        file.unknown((), value, _TOP)
    elif value is not None:
        raise document.error((), "a hooks.json of Forge is a mapping with `hooks`", hint='begin with {"hooks": [ … ]}')
    root = str(forge_project_root(path.parent)) if layer == "project" else ""
    for number, raw in enumerate(entries):
        hook = _hook(file, (*base, number), raw, root)
        if hook is not None:
            file.hooks.append(hook)
        if pairs is not None:
            pairs.append((raw, hook))
    return file.done()


def _hook(file: common.Reading, path: PathParts, raw: Plain, root: str) -> Hook | None:
    before = len(file.problems)
    entry = file.entry(path, raw, _ForgeHook)
    if entry is None:
        return None
    on = tuple(part.strip() for part in entry.event.split(","))
    if file.matches((*path, "event"), on):
        _warn_of_can_block(file, path, on, entry)
    file.text((*path, "command"), entry.command, what="command")
    directory = entry.working_dir or ""
    if "\x00" in directory:
        file.report((*path, "working_dir"), "working_dir holds a NUL")
    file.environment((*path, "env"), entry.env or {})
    if len(file.problems) > before:
        return None
    for name in literal_variables(entry.command, lambda name: name in _SHORT or name.startswith("FORGE_")):
        hint = f'put it in double quotes: \\"${name}\\" in JSON'
        file.warn((*path, "command"), f"${name} is in single quotes, so the shell does not fill it in", hint=hint)
    below = os.path.expanduser(directory)
    full = os.path.join(root, below) if below else root
    file.script((*path, "command"), entry.command, full if os.path.isabs(full) else "")
    return Hook(
        id=file.id(NAME, _stem(entry.description) or "-".join(re.findall(r"[a-z_]+", on[0])), ""),
        on=on,
        command=entry.command,
        dialect=NAME,
        timeout=entry.timeout or DEFAULT_TIMEOUT,
        env=dict(entry.env or {}),
        env_pass=tuple(entry.env_pass),
        enabled=entry.enabled is not False,
        description=entry.description or "",
        # A project's own file determines its root; for other files, the root depends on the event.
        working_dir=full if root else directory,
        stop_on_failure=entry.stop_on_failure is True,
        own={} if entry.can_block is None else {"can_block": entry.can_block},
        layer=file.layer,
        position=len(file.hooks),
        origin=file.origin(path),
    )


def _stem(description: str | None) -> str:
    return re.sub(r"[^a-z0-9]+", "-", (description or "").lower()).strip("-")[:40].strip("-")


def _warn_of_can_block(file: common.Reading, path: PathParts, on: tuple[str, ...], entry: _ForgeHook) -> None:
    """Warn about `can_block` at events at which a hook cannot block."""
    exact = [pattern for text in on for pattern in parse_pattern(text) if pattern.exact]
    if entry.can_block and len(exact) == len(on) and not any(pattern.type in PRE_EVENTS for pattern in exact):
        message = f"can_block changes nothing at {', '.join(on)[:80]}: such an event has already happened"
        file.warn((*path, "can_block"), message, hint="leave it out, or use an earlier event")
