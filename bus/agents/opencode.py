"""OpenCode: what our plugin there sends into events, and verdicts into what it carries out (checked with 1.18.33).

OpenCode runs no commands for its events. `opencode_plugin.js` beside this file does it for us: it sends
`{hook, directory, worktree, input, output}`, as OpenCode's own hooks are called, to the bus (`opencode_link.js`), and reads
`{deny?, args?, output?, context?, allow?, note?}`: throw, change arguments or output in place, tell the model, permit, tell
the person.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from bus import __version__
from bus.agents.base import Capability
from bus.agents.degrade import Agent, degrade, person_message
from bus.agents.event_facts import output_text
from bus.agents.payloads import mapping, opened, text, without
from bus.errors import DecodeError
from bus.events import GATES, Event, EventType, native_type
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import hook_command
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Verdict
from bus.wire.codec import write_json

NAME: Final = "opencode"

TEXT_LIMIT: Final = 30_000
"""UTF-16 units of one text. OpenCode passes on 20,000 characters whole (observed) and documents no limit."""

TIMEOUT: Final = 600.0
"""Seconds that the plugin waits for an answer, for hooks with such a timeout. OpenCode itself would wait forever."""

PARTS: Final = [Path(__file__).with_name(name) for name in ("opencode_link.js", "opencode_plugin.js")]
"""The parts of the plugin's one file; `plugin_text` fills in the first."""

LATER: Final = "later"
"""In the plugin's setup: the event is sent, and the plugin goes on without the answer that a hook could give."""

_SETUP: Final = "const SETUP = {}\n"
_AGENT: Final = Agent(NAME, "OpenCode", TEXT_LIMIT)


def _can(type_: str, *answers: str) -> Capability:
    """An ask becomes a deny before an action (`before`). A changed input needs no allow: OpenCode's own rules still apply."""
    return Capability(
        type=str(type_),
        waits=bool(answers),
        block="block" in answers,
        allow="allow" in answers,
        ask_else="deny" if "before" in answers else "abstain",
        asks_anyway="asks" in answers,
        rewrite="rewrite" in answers,
        rewrite_as="alone",
        output="field" if "output" in answers else "",
        context="context" in answers,
        timeout=TIMEOUT,
        silence="exit 0 and an empty stdout, read by our plugin",
    )


def _own(name: str) -> str:
    return native_type(NAME, name)


REMARKS: Final = (
    "A deny of `session.idle` makes the interactive program go on; `opencode run` ends there anyway (seen with 1.18.33).",
)
"""For the page of agents."""

CAPABILITIES: Final[dict[str, Capability]] = {
    "session.created": _can(EventType.SESSION_START, "context"),
    "chat.message": _can(EventType.USER_PROMPT_SUBMIT, "block", "before", "context"),
    "command.execute.before": _can(EventType.USER_PROMPT_EXPAND, "block", "before", "context"),
    "command.executed": _can(_own("command.executed")),
    "chat.params": _can(EventType.LLM_PRE_REQUEST),
    "experimental.text.complete": _can(EventType.LLM_POST_RESPONSE),
    "tool.execute.before": _can(EventType.TOOL_PRE_EXECUTE, "block", "before", "rewrite", "context"),
    "tool.execute.after": _can(EventType.TOOL_POST_EXECUTE, "block", "context", "output"),
    "message.part.updated": _can(EventType.TOOL_ERROR),  # the plugin sends this event for failed calls of tools only
    "permission.asked": _can(EventType.PERMISSION_REQUEST, "block", "allow", "asks"),
    "permission.replied": _can(EventType.PERMISSION_GRANTED),
    "experimental.session.compacting": _can(EventType.CONTEXT_PRE_COMPACT, "context"),
    "session.compacted": _can(EventType.CONTEXT_POST_COMPACT),
    "session.idle": _can(EventType.AGENT_STOP, "block"),
    "session.error": _can(EventType.AGENT_ERROR),
    "session.deleted": _can(EventType.SESSION_END),
    "session.status": _can(_own("session.status")),
    "session.updated": _can(_own("session.updated")),
    "session.diff": _can(_own("session.diff")),
    "message.updated": _can(EventType.SESSION_MESSAGE),
    "file.edited": _can(EventType.FILE_CHANGE),
    "todo.updated": _can(_own("todo.updated")),
}
"""The events that our plugin can send. Any other event of OpenCode's bus may be named too."""

QUIET: Final = frozenset({"chat.params", "session.status", "session.updated", "session.diff", "message.updated"})
"""Off by default: they fire several times for each turn, and the other events have the same facts."""

_TOOL_HOOKS: Final = frozenset({"tool.execute.before", "tool.execute.after"})


class _Dialect:
    """The protocol of our plugin; it has no state."""

    name = NAME
    capabilities = CAPABILITIES

    def read(self, native: str, payload: bytes, *, host: str = "") -> Event:
        """The event that the plugin sent.

        Fields without a place in the event are in `data`, and the whole payload is in `raw`.
        """
        fields = opened("OpenCode's plugin", payload)
        asked, answered = mapping(fields.get("input")), mapping(fields.get("output"))
        if fields.get("hook") == "event":
            event = mapping(asked.get("event"))
            native, asked = native or text(event, "type"), mapping(event.get("properties"))
        else:
            native = native or text(fields, "hook")
        if not native:
            raise DecodeError("payload of OpenCode's plugin names no event (hook)")
        info, part = mapping(asked.get("info")), mapping(asked.get("part"))
        tool, arguments, output = _call(native, asked, answered, part)
        server = text(fields, "server")
        data = {
            **without(
                asked,
                (
                    "sessionID",
                    "tool",
                    "callID",
                    "args",
                ),
            ),
            **without(answered, ("args",)),
        }
        data |= {name: fields[name] for name in ("worktree", "parent", "goes") if name in fields}
        if native == "chat.message":
            data["prompt"] = "\n".join(_texts(answered.get("parts")))
        return Event(
            type=_type(native, fields, asked, info),
            source=NAME,
            native=native,
            session=text(asked, "sessionID") or text(part, "sessionID") or text(info, "sessionID", "id"),
            host=host,
            cwd=text(fields, "directory"),
            tool=canonical_tool(NAME, tool, server=server) if tool else "",
            native_tool=tool,
            call=text(asked, "callID") or text(part, "callID") or text(mapping(asked.get("tool")), "callID"),
            input=canonical_input(NAME, tool, arguments),
            output=output,
            data=data,
            raw=fields,
        )

    def render(self, native: str, verdict: Verdict, event: Event | None = None) -> HookAnswer:
        """The plugin's instructions as one line of ASCII JSON; empty if there are none."""
        can = CAPABILITIES.get(native)
        if can is None or not can.waits:
            return HookAnswer()
        case = degrade(_AGENT, native, can, verdict, event, _original(event))
        reply: dict[str, Any] = {}
        if case.decision == "deny":
            reply["deny"] = case.reason
        elif case.decision == "allow" and native == "permission.asked":
            reply["allow"] = True
        if case.rewrite is not None:
            reply["args"] = case.rewrite
        if case.output is not None and event is not None:
            reply["output"] = output_text(event, case.output)
        if case.context:
            reply["context"] = case.context
        if case.notes:
            reply["note"] = person_message(_AGENT, case, verdict, event)
        return HookAnswer(0, write_json(reply) if reply else b"", b"", case.lost)


DIALECT: Final = _Dialect()


def plugin_text(
    python: str,
    answer_file: str | os.PathLike[str],
    events: Iterable[str],
    *,
    fail_closed: bool = False,
    later: Collection[str] = (),
) -> str:
    """The text of the plugin file for these events and this answer file.

    With `fail_closed`, it denies if Fleethook cannot answer. It sends the events in `later` without waiting for an answer.
    """
    python, *words, _agent, _event, answers = hook_command(python, NAME, "", answer_file)
    setup = {
        "command": [python, *words],
        "answers": answers,
        "timeout": int(TIMEOUT * 1000),
        "version": __version__,
        "events": {native: LATER if native in later else _mode(native, fail_closed=fail_closed) for native in events},
    }
    source = "\n".join(part.read_text(encoding="utf-8") for part in PARTS)
    before, found, after = source.partition(_SETUP)
    if not found:
        raise DecodeError(f"{PARTS[0]} has no place for its setup; install Fleethook again")
    return f"{before}const SETUP = {json.dumps(setup, indent=2)}\n{after}"


def _mode(native: str, *, fail_closed: bool) -> str:
    can = CAPABILITIES.get(native)
    if can is None or not can.waits:
        return "send"
    return "closed" if fail_closed and can.type in GATES else "wait"


def _type(native: str, fields: Mapping[str, Any], asked: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """The canonical type. A session with a parent is a subagent, and a permission may have been refused."""
    if native == "session.created" and info.get("parentID"):
        return EventType.SUBAGENT_START.value
    if native == "session.idle" and fields.get("parent"):
        return EventType.SUBAGENT_STOP.value
    if native == "permission.replied" and "reject" in (asked.get("reply"), asked.get("response")):
        return EventType.PERMISSION_DENIED.value
    known = CAPABILITIES.get(native)
    return known.type if known is not None else _own(native)


def _call(
    native: str, asked: Mapping[str, Any], answered: Mapping[str, Any], part: Mapping[str, Any]
) -> tuple[str, dict[str, Any], Any]:
    """The tool, its arguments and its output, from the fields that this event has."""
    if native in _TOOL_HOOKS:
        before = native == "tool.execute.before"
        output = None if before else answered.get("output", answered.get("content"))
        return text(asked, "tool"), mapping((answered if before else asked).get("args")), output
    if native == "permission.asked":
        return text(asked, "permission"), mapping(asked.get("metadata")), None
    if part:
        state = mapping(part.get("state"))
        return text(part, "tool"), mapping(state.get("input")), state.get("error", state.get("output"))
    return "", {}, None


def _original(event: Event | None) -> dict[str, Any] | None:
    """The arguments in OpenCode's own fields."""
    if event is None or event.raw is None:
        return None
    fields = mapping(event.raw.get("output")).get("args")
    return fields if isinstance(fields, dict) else None


def _texts(parts: object) -> list[str]:
    return [text(part, "text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
