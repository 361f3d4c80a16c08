"""What each tool does, as plain functions over the bus; nothing here knows MCP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bus.config.settings import Settings
from bus.errors import DecodeError
from bus.events import Event, source_name
from bus.hooksets.hook_tests import agent_with_event, event_of_type
from bus.hooksets.in_force import HookSet, Watcher
from bus.ids import event_id
from bus.lazy.conversions import converted
from bus.matching.patterns import Index
from bus.system.directories import Directories
from bus.tools import canonical_input
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.dry_run import hooks_of, payload_source, read_event
from workers.admin.plugins import plugins
from workers.delivery.dead_letters import redrive
from workers.gateway.gobby.loaded_plugins import in_gobbys_form
from workers.gateway.hooksets.hookset_paths import read_sent_file
from workers.gateway.mcp import gobby_forms
from workers.gateway.mcp import tool_types as types
from workers.gateway.mcp.explanation import explanation
from workers.plugins.records import list_plugins, reload_plugin
from workers.records.events import record
from workers.records.hook_list import hook_record, listed_hooks
from workers.records.id_prefixes import whole_event_id
from workers.records.pages import event_page, letter_page
from workers.records.status import status
from workers.records.stored_events import stored_event
from workers.records.trace import trace
from workers.records.waterfall import timed_trace_record
from workers.simulation.present import simulate_now
from workers.simulation.simulate import simulation_record

_LONGEST: Final = 10.0
_RELOAD_SECONDS: Final = 30.0
_NO_PROJECT: Final = Path("/")
_AT_ONCE: Final = 2
"""How many events are judged at a time; a heavy rule takes a process of its own."""


class Tool(NamedTuple):
    """One tool: its types, its rights, and its function."""

    name: str
    title: str
    description: str
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    call: Callable[[Any], Awaitable[dict[str, Any]]]
    changes: bool = False
    """Whether it changes anything; then its caller needs the scope `operate`."""


class Tools:
    """The tools over one bus; `rq` goes to RQ's server."""

    def __init__(
        self,
        connections: Connections,
        rq: Connections,
        keys: Keys,
        settings: Settings,
        places: Directories,
        watcher: Watcher,
    ) -> None:
        self._connections, self._rq, self._keys = connections, rq, keys
        self._settings, self._places, self._watcher = settings, places, watcher
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def all(self) -> tuple[Tool, ...]:
        """Every tool."""
        return (
            Tool(
                "list_hook_handlers",
                "List hooks",
                "List the hooks in force in the order in which they run: rules, commands and HTTP hooks, with their layer, "
                "events and place in their file. Disabled hooks are listed too.",
                types.ListHandlers,
                types.Handlers,
                self._handlers,
            ),
            Tool(
                "test_hook_event",
                "Test an event",
                "Make up an event and say what the hooks in force would decide, with every hook's part. Nothing is "
                "recorded or started: commands and requests are named, not run.",
                types.TestEvent,
                types.Simulated,
                self._test,
            ),
            Tool(
                "simulate_event",
                "Simulate an event",
                "Say what the hooks in force, or those of a fleethook.yaml, would decide on a whole event, on an agent's "
                "payload, or on a recorded event. Limits, facts and workflows of its session are as they are now; "
                "nothing is recorded, counted or started.",
                types.SimulateEvent,
                types.Simulated,
                self._simulate,
            ),
            Tool(
                "recent_events",
                "List events",
                "List recorded events, newest first, with their verdicts; secrets are redacted.",
                types.RecentEvents,
                types.Events,
                self._events,
            ),
            Tool(
                "explain_event",
                "Explain an event",
                "Explain one recorded event: which hook decided what and why, its deliveries and their failures, and the "
                "events that it caused.",
                types.EventId,
                types.Explained,
                self._explain,
            ),
            Tool(
                "list_plugins",
                "List plugins",
                "List the plugins that the hook files in force import, and the Python plugins that workers run, with their "
                "state, handlers, calls and failures.",
                types.ListPlugins,
                types.Plugins,
                self._plugins,
            ),
            Tool(
                "reload_plugin",
                "Reload a plugin",
                "Load a Python plugin anew in every worker, from its file as it is now, and say where that failed. The old one "
                "serves until the new one is ready.",
                types.ReloadPlugin,
                types.ReloadedPlugin,
                self._reload,
                changes=True,
            ),
            Tool(
                "list_dead_letters",
                "List dead letters",
                "List deliveries and entries that were given up, newest first, each with its reason.",
                types.ListLetters,
                types.Letters,
                self._letters,
            ),
            Tool(
                "retry_dead_letter",
                "Retry dead letters",
                "Send dead deliveries again, by their whole ids. Receivers get them once more.",
                types.LetterIds,
                types.Retried,
                self._retry,
                changes=True,
            ),
            Tool(
                "fleet_status",
                "Status of the fleet",
                "Which processes are alive, what waits, what is dead, and what is wrong.",
                types.NoArguments,
                types.FleetStatus,
                self._status,
            ),
        )

    async def _handlers(self, asked: types.ListHandlers) -> dict[str, Any]:
        here = await self._in_force(asked.cwd)
        found = listed_hooks(here)
        wanted = asked.event or (asked.event_type and gobby_forms.event_type(asked.event_type).value)
        if wanted:
            event = _made_event(wanted, "", "", {}, {})
            found = list(Index([(hook, hook.on) for hook in found]).find(event))
        hooks = [{"origin": hook.origin, **hook_record(hook)} for hook in found]
        return {"version": here.version, "hooks": hooks, **gobby_forms.handlers(found)}

    async def _test(self, asked: types.TestEvent) -> dict[str, Any]:
        if bool(asked.event) == bool(asked.event_type):
            raise DecodeError("give either `event` or `event_type`")
        data = gobby_forms.data_of(asked.data)
        if asked.event:
            event = _made_event(asked.event, asked.source, asked.tool, asked.input, data)
            event = msgspec.structs.replace(event, cwd=asked.cwd, host=self._watcher.host)
        else:
            event = gobby_forms.made_event(asked.event_type, asked.source, data, self._watcher.host)
            event = msgspec.structs.replace(event, cwd=asked.cwd or event.cwd)
        judged = await self._judged(event, await self._in_force(event.cwd))
        verdict = converted(judged["verdict"], Verdict)
        return {**judged, **gobby_forms.tested(asked.event_type or event.type, verdict)}

    async def _simulate(self, asked: types.SimulateEvent) -> dict[str, Any]:
        if (asked.event is None) == (not asked.id):
            raise DecodeError("give either `event` or `id`")
        recorded: dict[str, Any] = {}
        if asked.event is None:
            event, seen = await stored_event(self._connections, self._keys, asked.id)
            recorded = {"recorded": None if seen.verdict is None else msgspec.to_builtins(seen.verdict)}
        else:
            raw = msgspec.json.encode(asked.event)
            source = asked.source or payload_source(raw)
            event = read_event(raw, source=source, kind=asked.native, cwd=_NO_PROJECT, host=self._watcher.host)
        if asked.session:
            event = msgspec.structs.replace(event, session=asked.session)
        if asked.hooks:
            hooks = hooks_of(await asyncio.to_thread(read_sent_file, asked.hooks.encode()))
        else:
            await self._watcher.refresh()
            hooks = self._watcher.for_event(event)
        return {**await self._judged(event, hooks), **recorded}

    async def _judged(self, event: Event, hooks: HookSet) -> dict[str, Any]:
        async with self._turn:
            await asyncio.to_thread(hooks.prepare)
            seconds = min(_LONGEST, self._settings.budget)
            how: dict[str, Any] = {"run": False, "seconds": seconds, "policy": self._settings.on_failure}
            found = await simulate_now(self._connections, self._keys, event, hooks, user=str(os.getuid()), **how)
        return simulation_record(found)

    async def _events(self, asked: types.RecentEvents) -> dict[str, Any]:
        page = await event_page(self._connections, self._keys, asked.filter(), asked.limit)
        return {"events": [record(seen) for seen in page.items]}

    async def _explain(self, asked: types.EventId) -> dict[str, Any]:
        name = await whole_event_id(self._connections, self._keys, asked.id)
        found = await trace(self._connections, self._keys, name)
        return {"explanation": explanation(found), "trace": timed_trace_record(found)}

    async def _plugins(self, asked: types.ListPlugins) -> dict[str, Any]:
        imported = msgspec.to_builtins(plugins((await self._in_force("")).files))
        running = await list_plugins(self._connections, self._keys)
        listed = gobby_forms.listed(imported, in_gobbys_form(running), enabled_only=asked.enabled_only)
        return {"running": msgspec.to_builtins(running), **listed}

    async def _reload(self, asked: types.ReloadPlugin) -> dict[str, Any]:
        done = await reload_plugin(self._connections, self._keys, asked.name, _RELOAD_SECONDS)
        carried_out = {"done": msgspec.to_builtins(done.done), "waiting": list(done.waiting)}
        return {"name": done.name, **carried_out, **gobby_forms.reloaded(done)}

    async def _letters(self, asked: types.ListLetters) -> dict[str, Any]:
        page = await letter_page(self._connections, self._keys, asked.filter(), asked.limit)
        return {"letters": [msgspec.to_builtins(letter) for letter in page.items]}

    async def _retry(self, asked: types.LetterIds) -> dict[str, Any]:
        return {"matching": len(asked.ids), "done": await redrive(self._connections, self._keys, asked.ids)}

    async def _status(self, asked: types.NoArguments) -> dict[str, Any]:
        del asked
        found = await status(self._connections, self._rq, self._keys, self._settings, self._places)
        plain: dict[str, Any] = msgspec.to_builtins(found)
        return plain

    async def _in_force(self, cwd: str) -> HookSet:
        await self._watcher.refresh()
        return self._watcher.for_event(Event(type="", host=self._watcher.host, cwd=cwd))


def _made_event(kind: str, source: str, tool: str, tool_input: dict[str, Any], data: dict[str, Any]) -> Event:
    """An event of a type or of an agent's event name; raises PatternError and DecodeError."""
    agent = source_name(source) if source else agent_with_event(kind) or "generic"
    event = event_of_type(kind, source=agent, tool=tool)
    if event.native_tool:
        tool_input = canonical_input(event.source, event.native_tool, tool_input)
    return msgspec.structs.replace(event, id=event_id(), input=tool_input, data=data)


def arguments_of(tool: Tool, given: dict[str, Any] | None) -> Any:
    """The checked arguments of a call; raises DecodeError."""
    try:
        return converted(given or {}, tool.arguments)
    except msgspec.ValidationError as error:
        raise DecodeError(f"the arguments of {tool.name} cannot be read: {error}") from error
