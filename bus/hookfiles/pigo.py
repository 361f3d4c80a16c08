"""pigo's plugin hooks: the `plugins` of its config.json, run as pigo runs them (P-01 to P-12).

A command gets environment variables and an empty stdin. Before a tool, any result but exit 0 cancels the call; at other
events it is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from bus.agents import find
from bus.agents.event_facts import (
    as_json,
    assistant_message,
    model,
    output_text,
    tool_call,
    tool_failed,
    turn_number,
    user_message,
)
from bus.agents.payloads import mapping, unpacked
from bus.config.documents import Document, PathParts, Plain, load
from bus.config.field_types import DAY, EnvName
from bus.config.hook_file_value import HookFile
from bus.config.validation import suggestion
from bus.events import Event, EventType
from bus.hookfiles import common
from bus.hookfiles.command_results import failure, output, plain
from bus.hooks import DEFAULT_TIMEOUT, Hook, Layer
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Policy

NAME: Final = "pigo"

BACKGROUND: Final = 3600.0
"""The most seconds of a background hook; pigo itself has no limit (P-02)."""

OUTPUT: Final = 10_000
"""The most characters of a tool's output that a hook gets (P-07)."""

REASON: Final = 8_000
"""The most bytes of a hook's output in a reason: agents cut from about 10,000 on, and the exit status is at the end (P-10)."""

MOMENTS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "agent_start": ((EventType.AGENT_START.value,), (EventType.USER_PROMPT_SUBMIT.value,)),
    "turn_start": ((EventType.TURN_START.value,), (EventType.USER_PROMPT_SUBMIT.value,)),
    "tool_start": ((EventType.TOOL_PRE_EXECUTE.value,), ()),
    "tool_end": ((EventType.TOOL_POST_EXECUTE.value, EventType.TOOL_ERROR.value), ()),
    "turn_end": ((EventType.TURN_END.value,), (EventType.AGENT_STOP.value,)),
    "agent_end": ((EventType.AGENT_END.value,), (EventType.AGENT_STOP.value,)),
}
"""By pigo's event: the event types with the same meaning, and the nearest types for agents that have none of these (P-04)."""

_TOOL_MOMENTS: Final = frozenset({"tool_start", "tool_end"})
_TURN_MOMENTS: Final = frozenset({"turn_start", "turn_end"})
_LONG: Final = 1000  # seconds: a larger number is probably meant as milliseconds

_PluginName = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class _Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `plugins`. Its hooks stay raw, so that a bad one does not make the others invalid."""

    name: _PluginName
    hooks: dict[str, Any]
    enabled: bool | None = None


class _Match(msgspec.Struct, frozen=True, kw_only=True):
    """A hook's `match`: the tools that it is for."""

    tool: str | None = None


class _PigoHook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of a plugin."""

    command: Annotated[str, Meta(max_length=100_000)]
    match: _Match | None = None
    blocking: bool | None = None
    timeout: int | None = None
    type: str | None = None
    """`context` in newer versions of pigo: the model gets the output, and the hook blocks nothing."""
    env_pass: list[EnvName] = []
    """A field of Fleethook, which pigo ignores: environment variables that the command gets (P-05)."""


class PigoPlugin(NamedTuple):
    """A plugin as `plugins list` shows it (P-14)."""

    name: str
    enabled: bool
    hooks: int
    """How many hooks are in force."""
    origin: str


class _Pigo:
    """pigo's hook dialect; it has no state."""

    name = NAME
    policy: Policy | None = "deny"
    one_stream = True

    def read(self, path: Path, layer: Layer) -> HookFile:
        """The hooks of all enabled plugins, in the order of the file (P-09); raises ConfigError if it cannot be read."""
        return _read(load(path), layer).done()

    def applies(self, hook: Hook, event: Event) -> bool:
        """Whether the event is the hook's event; the nearest type counts only for agents that have no equal event."""
        same, nearest = MOMENTS.get(str(hook.own.get("event")), ((), ()))
        if event.type not in nearest or event.type in same:
            return True
        return not any(can.type in same for can in find(event.source).capabilities.values())

    def variables(self, hook: Hook, event: Event) -> Mapping[str, str]:
        """The `PIGO_*` variables (P-05 to P-08); a value that the agent does not send is empty."""
        moment = _moment(hook, event)
        found = {
            "PIGO_EVENT": moment,
            "PIGO_WORK_DIR": event.cwd,
            "PIGO_MODEL": model(event),
            "PIGO_USER_MESSAGE": user_message(event),
            "PIGO_ASSISTANT_MESSAGE": assistant_message(event),
        }
        if moment in _TURN_MOMENTS:
            found["PIGO_TURN_NUMBER"] = turn_number(event)
        if moment in _TOOL_MOMENTS and event.tool:
            tool, tool_input = tool_call(NAME, event)
            found |= {"PIGO_TOOL_NAME": tool, "PIGO_TOOL_ARGS": _arguments(event) or as_json(tool_input)}
            command = tool_input.get("command")
            if moment == "tool_start" and event.tool == "bash" and isinstance(command, str):
                found["PIGO_TOOL_INPUT"] = command
        if moment == "tool_end":
            found["PIGO_TOOL_OUTPUT"] = output_text(event)[:OUTPUT]
            found["PIGO_TOOL_ERROR"] = "true" if tool_failed(event) else "false"
        return found

    def stdin(self, hook: Hook, event: Event) -> bytes:  # noqa: ARG002 - the protocol's arguments
        """Nothing: pigo's hooks read the environment."""
        return b""

    def outcome(self, hook: Hook, event: Event, done: Finished, seconds: float) -> Outcome:
        """Before a tool, any exit but 0 cancels the call, and a timeout counts as exit 1 (P-10, P-12).

        A command that a signal ended or that could not be started has failed; before a tool, pigo's failure policy denies
        then. A timeout is such a failure too if the hook has another policy. At other events `on_failure` is allow: a
        failure is only a warning.
        """
        wrong, shown = failure(hook, done, seconds), output(done)
        code = 1 if done.timed_out else done.exit_code
        context = common.own_flag(hook.own, "context") is True
        if not wrong:
            text = plain(done.stdout).strip() if context else ""
            return Outcome(contexts=(text,) if text else (), exit_code=code, output=shown)
        policy = hook.on_failure or self.policy
        blocks = not done.timed_out if done.exit_code is not None else False
        blocks = blocks or (done.timed_out and policy == "deny")
        if not blocks or context or _moment(hook, event) != "tool_start":
            return Outcome(failure=wrong, exit_code=code, output=shown)
        text = ": ".join(filter(None, (_printed(done), f"exit status {code}")))
        reason = f"blocked by hook: hook [{hook.plugin}] blocked tool: {text}"
        note = f"{wrong}; pigo counts that as exit 1" if done.timed_out else ""
        return Outcome(decision="deny", reason=reason, note=note, exit_code=code, output=shown)


HOOKS: Final = {NAME: _Pigo()}


def plugins(path: Path) -> tuple[PigoPlugin, ...]:
    """The plugins of a config in its order, disabled ones too (P-14); raises ConfigError if nothing of it can be read."""
    document = load(path)
    hooks = _read(document, "user").hooks
    found = {}
    for number, raw in enumerate(_entries(document)):
        name = raw.get("name") if isinstance(raw, dict) else None
        if isinstance(name, str) and name not in found:  # a second plugin of the same name is left out
            count = sum(hook.plugin == name for hook in hooks)
            origin = f"{document.file}:{document.place(('plugins', number))[0]}"
            found[name] = PigoPlugin(name, raw.get("enabled") is not False, count, origin)
    return tuple(found.values())


def _entries(document: Document) -> list[Plain]:
    value = document.value
    found = value.get("plugins") if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _read(document: Document, layer: Layer) -> common.Reading:
    value = document.value
    if value is not None and not isinstance(value, dict):
        raise document.error((), "pigo's config is a mapping with `plugins`", hint='begin with {"plugins": [ … ]}')
    file = common.Reading(document, layer)
    listed = (value or {}).get("plugins")
    if listed is not None and not isinstance(listed, list):
        file.report(("plugins",), "plugins has to be a list", hint="put it in brackets: [ … ]")
    taken: dict[str, int] = {}
    unseen: dict[str, None] = {}
    for number, raw in enumerate(_entries(document)):
        path: PathParts = ("plugins", number)
        entry = file.entry(path, raw, _Plugin)
        name = raw.get("name") if isinstance(raw, dict) else None
        if isinstance(name, str) and name in taken:
            message = f'the name of the plugin "{name[:64]}" is taken (line {taken[name]})'
            file.report((*path, "name"), message, hint="names of plugins are unique")
            continue
        if isinstance(name, str):
            taken[name] = document.place((*path, "name"))[0]
        if entry is None or entry.enabled is False:
            continue
        for event, hooks in entry.hooks.items():
            unseen |= dict.fromkeys(_hooks(file, (*path, "hooks", event), entry.name, event, hooks))
    if file.hooks:
        _warn_of_environment(file, tuple(unseen))
    return file


def _warn_of_environment(file: common.Reading, names: tuple[str, ...]) -> None:
    """Warn that hooks do not get the whole environment, as in pigo: Fleethook's workers may have secrets in it (P-05)."""
    empty = f"; {', '.join(f'${name}' for name in names)} in a command would be empty" if names else ""
    file.warn(
        ("plugins",),
        f"pigo gives its hooks its whole environment; here they see PATH, HOME and the like, and PIGO_*{empty}",
        hint='name what a hook needs beside its command: "env_pass": ["NAME"]',
        key=True,
    )


def _hooks(file: common.Reading, path: PathParts, plugin: str, event: str, raw: Plain) -> list[str]:
    """Read the hooks of one event of one plugin; returns the variables that the hooks read and do not get."""
    if event not in MOMENTS:
        hint = suggestion(event, MOMENTS) or "pigo's events: " + ", ".join(MOMENTS)
        file.report(path, f'no event of pigo is called "{event[:64]}"', hint=hint, key=True)
        return []
    if not isinstance(raw, list):
        file.report(path, f"the hooks of {event} have to be a list", hint="put them in brackets: [ … ]")
        return []
    missed: list[str] = []
    for number, value in enumerate(raw):
        here = (*path, number)
        before = len(file.problems)
        entry = file.entry(here, value, _PigoHook)
        if entry is None:
            continue
        file.text((*here, "command"), entry.command, what="command")
        tool = _tool(file, here, event, entry.match.tool or "" if entry.match else "")
        if len(file.problems) > before:
            continue
        hook = _hook(file, here, plugin, event, entry, number)
        file.hooks.append(msgspec.structs.replace(hook, tool=tool))
        file.script((*here, "command"), entry.command)
        missed += (name for name in common.foreign_variables(entry.command, "PIGO_") if name not in entry.env_pass)
    return missed


def _hook(file: common.Reading, path: PathParts, plugin: str, event: str, entry: _PigoHook, number: int) -> Hook:
    context = entry.type == "context"
    if entry.type not in (None, "", "command", "context"):
        file.warn((*path, "type"), f'the type "{entry.type[:40]}" is not known; the hook runs as one without a type')
    blocking = entry.blocking is not False or context
    kept: dict[str, Any] = {"event": event} | ({"context": True} if context else {})
    same, nearest = MOMENTS[event]
    return Hook(
        id=file.id(NAME, plugin, event, str(number + 1)),
        on=(*same, *nearest),
        command=entry.command,
        dialect=NAME,
        plugin=plugin,
        own=kept,
        blocking=blocking,
        timeout=_timeout(file, path, entry) if blocking else BACKGROUND,
        # A pigo hook can block only before a tool, so no other failure policy applies at other events.
        on_failure=None if event == "tool_start" and not context else "allow",
        env_pass=tuple(entry.env_pass),
        layer=file.layer,
        position=len(file.hooks),
        origin=file.origin(path),
    )


def _timeout(file: common.Reading, path: PathParts, entry: _PigoHook) -> float:
    timeout = entry.timeout or 0
    if timeout >= _LONG:
        hint = f"write {timeout // 1000} if these are milliseconds" if timeout % 1000 == 0 else ""
        file.warn(
            (*path, "timeout"), f"a timeout of pigo is in seconds: {timeout} are {timeout / 60:.0f} minutes", hint=hint
        )
    return min(float(timeout), float(DAY)) if timeout > 0 else DEFAULT_TIMEOUT


def _tool(file: common.Reading, path: PathParts, event: str, text: str) -> str:
    """pigo's matcher as a tool pattern: its exact names, and the canonical name of each tool too (P-03)."""
    if not text:
        return ""
    place = (*path, "match", "tool")
    names = [name.strip() for name in text.split("|") if name.strip()]
    odd = next((name for name in names if not name.replace("_", "").replace("-", "").isalnum()), "")
    if not names:
        file.report(place, f"match.tool {text[:64]!r} names no tool", hint="leave match out for every tool")
    elif odd:
        # pigo compares texts, so this hook never runs in pigo; as a pattern it might match everything.
        hint = "leave match out for every tool" if odd == "*" else "write the names of tools with | between them"
        file.report(place, f"match.tool has no patterns, and no tool is called {odd[:64]!r}", hint=hint)
    elif event not in _TOOL_MOMENTS:
        file.warn(place, f"{event} is about no tool, so this hook never runs", hint="leave match out")
    found = "|".join(dict.fromkeys(known for name in names for known in (name, canonical_tool(NAME, name))))
    return found if file.matches(place, (), found) else ""


def _printed(done: Finished) -> str:
    """What a hook printed, as far as every agent takes it with the exit status behind it."""
    text = plain(done.stdout).strip()
    raw = text.encode()
    if len(raw) <= REASON:
        return text
    kept = raw[:REASON].decode("utf-8", "ignore")
    return f"{kept} [fleethook cut {len(text) - len(kept) + done.stdout_cut} characters]"


def _arguments(event: Event) -> str:
    """The arguments as pigo wrote them (P-06), unless a hook has changed the input; empty for other agents."""
    if event.source != NAME or event.raw is None:
        return ""
    sent = {name.lower().removeprefix("pigo_"): value for name, value in event.raw.items()}
    text = sent.get("tool_args")
    if not isinstance(text, str) or canonical_input(NAME, event.native_tool, mapping(unpacked(text))) != event.input:
        return ""
    return text


def _moment(hook: Hook, event: Event) -> str:
    """pigo's name of the event: the hook's own event, else the name for the event's type."""
    name = hook.own.get("event")
    if isinstance(name, str) and name in MOMENTS:
        return name
    return next((name for name, (same, nearest) in MOMENTS.items() if event.type in (*same, *nearest)), "")
