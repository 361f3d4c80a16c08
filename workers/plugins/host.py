"""The plugins of one worker: one process for each group of plugins that belong together, as the hook files in force say."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from bus.events import Event
from bus.hooks import Hook, Plugin
from bus.hooksets.in_force import HookSet
from bus.outcomes import Outcome
from bus.plugins.conversion import seen_verdict
from bus.plugins.loader import in_order
from bus.plugins.messages import VerdictSummary
from bus.verdicts import Verdict
from workers.plugins.figures import PluginState
from workers.plugins.group import MOST_OBSERVED, PluginGroup

log = logging.getLogger("fleethook.plugins")

_IDLE_SECONDS: Final = 900.0
"""How long a project's plugins run after the last event of the project."""
MOST_GROUPS: Final = 64
CLOSE_SECONDS: Final = 8.0
OBSERVERS_SECONDS: Final = 3.0
"""How long the observers of an event may go on when the worker ends."""
ORDER_SECONDS: Final = 1.0
"""How long an observer waits for one before it in another process, which may hang."""


class _Key(NamedTuple):
    """Which group: its layer, the hook file, and the names of its plugins."""

    layer: str
    file: str
    names: tuple[str, ...]


class _Known(NamedTuple):
    """What is worked out once for a hook set."""

    groups: dict[tuple[str, str], _Key]
    """By layer and plugin."""
    methods: dict[tuple[str, str], tuple[str, ...]]
    """By layer and plugin: the methods that have hooks of their own."""


class PluginHost:
    """Starts, calls and ends the processes of a worker's plugins; `for_event` finds the hooks in force for an event."""

    def __init__(self, for_event: Callable[[Event], HookSet], host: str, state_folder: str = "") -> None:
        self._for_event, self._host, self._state_folder = for_event, host, state_folder
        self._groups: dict[_Key, PluginGroup] = {}
        self._folders: dict[_Key, str] = {}
        """The folder of the event that started a project's group."""
        self._known: WeakKeyDictionary[HookSet, _Known] = WeakKeyDictionary()
        self._ending: set[asyncio.Task[None]] = set()
        self._observing: set[asyncio.Task[None]] = set()
        """One task for each event that several handlers observe."""

    async def run(self, hook: Hook, event: Event, seconds: float) -> Outcome:
        """The outcome of one handler."""
        group, known = self._group(hook, event)
        if group is None:
            return Outcome(failure=f"plugin {hook.plugin!r} is not in force any more")
        return await group.run(hook, event, seconds, () if _method(hook) else known)

    def observe(self, hooks: Sequence[Hook], event: Event, verdict: Verdict | None) -> None:
        """Show an event with its verdict to handlers in their order, in the background."""
        seen = seen_verdict(verdict) if verdict is not None else None
        if len(hooks) > 1 and len(self._observing) < MOST_OBSERVED:
            task = asyncio.create_task(self._observe_in_order(hooks, event, seen))
            self._observing.add(task)
            task.add_done_callback(self._observing.discard)
            return
        for hook in hooks:
            self._observe(hook, event, seen)

    def _observe(
        self, hook: Hook, event: Event, seen: VerdictSummary | None
    ) -> tuple[PluginGroup | None, asyncio.Task[Any] | None]:
        group, known = self._group(hook, event)
        if group is None:
            return None, None
        return group, group.observe(hook, event, seen, () if _method(hook) else known)

    async def _observe_in_order(self, hooks: Sequence[Hook], event: Event, seen: VerdictSummary | None) -> None:
        """Begin each handler when the one before it has ended; one in another process is waited for a moment only."""
        before: tuple[PluginGroup | None, asyncio.Task[Any] | None] = (None, None)
        for hook in hooks:
            group, _ = self._group(hook, event)
            if before[1] is not None:
                await asyncio.wait([before[1]], timeout=None if group is before[0] else ORDER_SECONDS)
            before = self._observe(hook, event, seen)

    def adopt(self, hook_set: HookSet, folder: str = "") -> None:
        """Start the groups of a hook set that do not run, and replace those whose settings changed."""
        known = self._known_of(hook_set)
        for layered in hook_set.files:
            for key, plugins in _groups(layered.layer, layered.file.plugins).items():
                assert key in known.groups.values()  # noqa: S101 - both are made of the same plugins
                group = self._groups.get(key)
                if group is None:
                    self._start(key, plugins, folder)
                elif [_bare(plugin) for plugin in group.wanted] != [_bare(plugin) for plugin in plugins]:
                    group.want(plugins)

    def keep(self) -> None:
        """Adopt what is in force now, and end the groups that are not, or whose project is idle."""
        here = Event(type="fleethook:plugins", host=self._host)
        places = {"", *self._folders.values()}
        in_force = {folder: self._for_event(_at(here, folder)) for folder in places}
        wanted: set[_Key] = set()
        for folder, hook_set in in_force.items():
            self.adopt(hook_set, folder)
            wanted.update(self._known_of(hook_set).groups.values())
        now = time.monotonic()
        for key, group in list(self._groups.items()):
            idle = key.layer == "project" and now - group.used_at > _IDLE_SECONDS
            if key not in wanted or idle:
                self._end(key)

    async def settle(self, seconds: float) -> None:
        """Wait until each group is ready or has failed, for at most `seconds`."""
        waits = [asyncio.ensure_future(group.settled()) for group in self._groups.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=seconds)
            for wait in late:
                wait.cancel()

    async def reload(self, name: str, order: int) -> None:
        """Load a plugin anew with those of its group, or all plugins where `name` is `*`."""
        groups = [group for key, group in self._groups.items() if name == "*" or name in key.names]
        await asyncio.gather(*(group.replace(group.wanted, order) for group in groups))

    def states(self) -> list[PluginState]:
        """Every plugin of this worker."""
        return [state for group in self._groups.values() for state in group.states()]

    def find(self, plugin: str) -> PluginGroup | None:
        """The group that has a plugin; that of the highest layer where several have it."""
        found = [(key, group) for key, group in self._groups.items() if plugin in key.names]
        order = {"fleet": 0, "user": 1, "project": 2}
        return min(found, key=lambda item: order.get(item[0].layer, 3))[1] if found else None

    async def close(self) -> None:
        """Unload every plugin and end the processes."""
        if self._observing:
            await asyncio.wait(self._observing, timeout=OBSERVERS_SECONDS)
        for task in list(self._observing):
            task.cancel()
        for key in list(self._groups):
            self._end(key)
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_SECONDS)
        for task in self._ending:
            task.cancel()

    def _group(self, hook: Hook, event: Event) -> tuple[PluginGroup | None, tuple[str, ...]]:
        hook_set = self._for_event(event)
        name = (hook.layer, hook.plugin)
        known = self._known_of(hook_set)
        key = known.groups.get(name)
        if key is None:
            return None, ()
        if key not in self._groups:
            self.adopt(hook_set, event.cwd)
        return self._groups.get(key), known.methods.get(name, ())

    def _known_of(self, hook_set: HookSet) -> _Known:
        known = self._known.get(hook_set)
        if known is None:
            groups, methods = dict[tuple[str, str], _Key](), dict[tuple[str, str], tuple[str, ...]]()
            for layered in hook_set.files:
                for key in _groups(layered.layer, layered.file.plugins):
                    groups |= {(layered.layer, name): key for name in key.names}
            for hook in hook_set.hooks.values():
                if hook.handler is not None:
                    name = (hook.layer, hook.plugin)
                    methods[name] = (*methods.get(name, ()), *filter(None, [hook.handler.method]))
            known = self._known[hook_set] = _Known(groups, methods)
        return known

    def _start(self, key: _Key, plugins: tuple[Plugin, ...], folder: str) -> None:
        if len(self._groups) >= MOST_GROUPS:
            idle = min(
                (k for k in self._groups if k.layer == "project"), key=lambda k: self._groups[k].used_at, default=None
            )
            if idle is not None:
                self._end(idle)
        names = ", ".join(key.names)
        log.warning("plugin %s runs with the rights of this worker's user (%s)", names, key.file or "published")
        directory = os.path.dirname(key.file) if key.layer == "project" else os.path.expanduser("~")
        self._groups[key] = PluginGroup(plugins, key.layer, directory, self._state_folder)
        if key.layer == "project":
            self._folders[key] = folder

    def _end(self, key: _Key) -> None:
        group = self._groups.pop(key)
        self._folders.pop(key, None)
        task = asyncio.create_task(_close(group))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _close(group: PluginGroup) -> None:
    try:
        await group.close()
    except asyncio.CancelledError:
        group.kill()
        raise


def _groups(layer: str, plugins: Iterable[Plugin]) -> Mapping[_Key, tuple[Plugin, ...]]:
    """The plugins of one layer, those together that require each other or have state in common, in the order of loading."""
    ordered = in_order(plugins)
    members: list[set[str]] = []
    by_file: dict[str, set[str]] = {}
    for plugin in ordered:
        sharing = [by_file.setdefault(file, set()) for file in plugin.state_files]
        for names in sharing:
            names.add(plugin.name)
        joined = {plugin.name, *plugin.requires}.union(*sharing)
        apart = [names for names in members if not names & joined]
        members = [*apart, joined.union(*(names for names in members if names & joined))]
    found = {}
    for names in members:
        group = tuple(plugin for plugin in ordered if plugin.name in names)
        if group:
            file = min(plugin.origin.rpartition(":")[0] for plugin in group) if layer != "fleet" else ""
            found[_Key(layer, file, tuple(sorted(plugin.name for plugin in group)))] = group
    return found


def _method(hook: Hook) -> str:
    return hook.handler.method if hook.handler is not None else ""


def _bare(plugin: Plugin) -> tuple[object, ...]:
    """What of a plugin's settings makes a new process necessary."""
    return (plugin.name, plugin.path, plugin.module, plugin.config, plugin.env_pass, plugin.memory, plugin.sha256)


def _at(event: Event, folder: str) -> Event:
    return Event(type=event.type, host=event.host, cwd=folder)
