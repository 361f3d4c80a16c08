"""Gobby's arguments and results of the tools that have its names, beside Fleethook's own (G-18): calls that were written for
Gobby's server run as they are, and find in the answers the keys that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bus.errors import DecodeError
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.plugins.sources import plugin_folders
from bus.plugins.events import HookEventType
from bus.plugins.plugin import OBSERVES
from bus.verdicts import Verdict
from bus.wire.codec import read_json, write_json
from workers.gateway.gobby.events import BadCall, read_call, read_event
from workers.gateway.gobby.names import SOURCES
from workers.plugins.records import Reloaded

_SESSION: Final = "test-mcp-event"
_LONGEST: Final = 80


def data_of(given: dict[str, Any] | str) -> dict[str, Any]:
    """The data of a made-up event, which may be JSON text; raises DecodeError."""
    if isinstance(given, str):
        given = read_json(given.encode()) if given.strip() else {}
    if not isinstance(given, dict):
        raise DecodeError("`data` is not a JSON object")
    return given


def event_type(name: str) -> HookEventType:
    """Gobby's event type by its name in any spelling; raises DecodeError with all of them."""
    try:
        return HookEventType(name)
    except ValueError:
        valid = ", ".join(member.value for member in HookEventType)
        raise DecodeError(f"unknown event type {name[:_LONGEST]!r}; there are: {valid}") from None


def made_event(name: str, source: str, data: Mapping[str, Any], host: str) -> Event:
    """The event of Gobby's `test_hook_event`: an agent's payload under Gobby's name of the event.

    An unknown source is `claude`, as in Gobby.
    """
    fields = {"session_id": _SESSION, **data}
    body = {
        "hook_type": event_type(name).value,
        "source": source if source in SOURCES else "claude",
        "input_data": fields,
    }
    try:
        return read_event(read_call(write_json(body)), host)
    except BadCall as error:
        raise DecodeError(f"`data` does not fit {name[:_LONGEST]!r}: {error}") from error


def tested(kind: str, verdict: Verdict) -> dict[str, Any]:
    """What Gobby's `test_hook_event` answers."""
    context = "\n\n".join(verdict.contexts) or None
    return {
        "success": True,
        "event_type": kind,
        "decision": "allow" if verdict.decision == "abstain" else verdict.decision,
        "continue": verdict.decision != "deny",
        "reason": verdict.reason or None,
        "context": context,
        "inject_context": context,
    }


def handlers(hooks: Iterable[Hook]) -> dict[str, Any]:
    """What Gobby's `list_hook_handlers` answers: the handlers of Python plugins by event."""
    found: dict[str, list[dict[str, Any]]] = {}
    for hook in hooks:
        if hook.handler is not None and hook.handler.method:
            found.setdefault(_gobby_name(hook.handler.event), []).append(
                {
                    "plugin": hook.plugin,
                    "method": hook.handler.method,
                    "priority": hook.priority,
                    "is_pre_handler": hook.priority < OBSERVES,
                }
            )
    return {"success": True, "handlers": found, "total_handlers": sum(map(len, found.values()))}


def listed(
    imported: Sequence[dict[str, Any]], running: Iterable[dict[str, Any]], *, enabled_only: bool
) -> dict[str, Any]:
    """What Gobby's `list_plugins` answers, its entries of Python plugins after those of imported plugins."""
    python = [{**plugin, "dialect": "python", "enabled": True} for plugin in running]
    plugins = [plugin for plugin in (*imported, *python) if plugin["enabled"] or not enabled_only]
    folders = list(plugin_folders("user", ""))
    return {"success": True, "enabled": bool(python), "plugins": plugins, "plugin_dirs": folders}


def reloaded(done: Reloaded) -> dict[str, Any]:
    """What Gobby's `reload_plugin` answers."""
    state = done.done[0] if done.done else None
    late = f"{len(done.waiting)} workers have not reloaded it in time" if done.waiting else ""
    error = "; ".join(filter(None, (*done.problems, late)))
    return {
        "success": not error,
        "version": state.version if state is not None else "",
        "description": state.description if state is not None else "",
        "error": error or None,
    }


def _gobby_name(event: str) -> str:
    try:
        return HookEventType(event).value
    except ValueError:  # a pattern of Fleethook's types
        return event
