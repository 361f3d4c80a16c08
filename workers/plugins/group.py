"""Plugins that share a process because they require each other: kept running, restarted with back-off, reloaded in place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook, Plugin
from bus.matching.checker_messages import encodable_event
from bus.outcomes import NOTHING, Outcome
from bus.plugins.conversion import outcome
from bus.plugins.loader import on_this_machine
from bus.plugins.messages import Call, Invoke, LoadedPlugin, VerdictSummary
from bus.secrets.redaction import redact_text
from workers.plugins.figures import Breaker, PluginFigures, PluginState, State
from workers.plugins.process import PluginDown, PluginProcess

log = logging.getLogger("fleethook.plugins")

FIRST_PAUSE: Final = 0.1
MOST_PAUSE: Final = 30.0
STEADY: Final = 30.0
"""After a process ran for this long (seconds) its next restart waits for the first pause again."""

OBSERVE_SECONDS: Final = 60.0
"""How long an observer may take; nobody waits for it."""
MOST_OBSERVED: Final = 1000
"""How many observations may wait in one process; further ones are dropped and counted as failures."""
_SILENT: Final = 1.0
_MOST_SILENT: Final = 2
"""Of a process that has been silent for so long (seconds), only so many calls may wait; further ones fail at once."""


class PluginGroup:
    """One process of plugins after the other; `folder` is the directory in which it runs.

    `state_folder` has what the processes of a plugin on this machine share; if it is empty, each keeps that in memory.
    """

    def __init__(self, plugins: Sequence[Plugin], layer: str, folder: str, state_folder: str = "") -> None:
        self.plugins, self.layer, self._folder, self._state_folder = tuple(plugins), layer, folder, state_folder
        self._wanted = self.plugins
        self.figures = {plugin.name: PluginFigures() for plugin in plugins}
        self.used_at = time.monotonic()
        self.reloaded, self.restarts = 0, -1
        self._current: PluginProcess | None = None
        self._state: State = "starting"
        self._problems: dict[str, str] = {}
        self._deaths = 0
        """How often the process ended in a row, without a call that was answered in between."""
        self._ready, self._wake, self._closed = asyncio.Event(), asyncio.Event(), False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retiring: set[asyncio.Task[Any]] = set()
        self._processes: set[PluginProcess] = set()
        """Every process that was started and is not reaped yet."""
        self._packed: tuple[Event | None, msgspec.Raw] = (None, msgspec.Raw())
        self._observing = 0
        self._replacing = asyncio.Lock()
        self._keeper = self._spawn(self._keep())

    @property
    def name(self) -> str:
        """The names of its plugins."""
        return ", ".join(plugin.name for plugin in self.plugins)

    async def run(self, hook: Hook, event: Event, seconds: float, known: tuple[str, ...] = ()) -> Outcome:
        """The outcome of one handler. A plugin that is not running is a failure, except that its first start is waited for."""
        if hook.handler is None:
            return Outcome(failure=f"hook {hook.id!r} has no handler")
        began = time.monotonic()
        self.used_at = began
        figures = self.figures.get(hook.plugin) or PluginFigures()
        process = self._current
        if process is None and not self._deaths and not self._problems:
            try:
                await asyncio.wait_for(self._ready.wait(), seconds)
            except TimeoutError:
                figures.note((time.monotonic() - began) * 1000, failed=True)
                return self._failure(hook, f"is still being loaded after {time.monotonic() - began:.3g} s")
            process = self._current
            seconds -= time.monotonic() - began
        why = self._refusal(hook, process)
        if process is None or why:
            figures.note(0.0, failed=True)
            return self._failure(hook, why or "is not running")
        if not self._has_handler(process, hook):
            return NOTHING
        call = self._call(hook, event, observes=False, seen=None, known=known)
        try:
            answer = await process.call(
                call, max(0.0, seconds), f"its handler {hook.handler.method or 'of this event'}"
            )
        except PluginDown as error:
            figures.note((time.monotonic() - began) * 1000, failed=True)
            return self._failure(hook, f"{error}")
        figures.note((time.monotonic() - began) * 1000, failed=bool(answer.failure))
        if answer.failure:
            return self._failure(hook, answer.failure)
        self._deaths = 0
        return outcome(hook, answer)

    def observe(
        self, hook: Hook, event: Event, seen: VerdictSummary | None, known: tuple[str, ...] = ()
    ) -> asyncio.Task[Any] | None:
        """Show an event with its verdict to a handler, in the background; returns the task that does it, if one does."""
        self.used_at = time.monotonic()
        if self._closed or (self._current is None and self._deaths):
            return None
        if self._observing >= MOST_OBSERVED:
            self.figures[hook.plugin].note(0.0, failed=True)
            return None
        self._observing += 1
        task = self._spawn(self._observe(hook, event, seen, known))
        task.add_done_callback(self._observed)
        return task

    def _observed(self, _task: asyncio.Task[Any]) -> None:
        self._observing -= 1

    async def _observe(self, hook: Hook, event: Event, seen: VerdictSummary | None, known: tuple[str, ...]) -> None:
        await self._ready.wait()
        process = self._current
        if process is None or hook.handler is None or not self._has_handler(process, hook):
            return
        began = time.monotonic()
        call = self._call(hook, event, observes=not hook.blocking, seen=seen, known=known)
        try:
            answer = await process.call(call, OBSERVE_SECONDS, f"its handler {hook.handler.method}")
            failure = answer.failure
            self._deaths = self._deaths if failure else 0
        except PluginDown as error:
            failure = str(error)
        self.figures[hook.plugin].note((time.monotonic() - began) * 1000, failed=bool(failure))
        if failure:
            log.warning("plugin %s: %s %s", hook.plugin, hook.handler.method, redact_text(failure))

    @property
    def wanted(self) -> tuple[Plugin, ...]:
        """The plugins with the settings that were asked for last, which a process may still be loading."""
        return self._wanted

    def want(self, plugins: Sequence[Plugin]) -> None:
        """Replace the plugins by these in the background: their settings changed."""
        self._wanted = tuple(plugins)
        self._spawn(self.replace(plugins))

    async def settled(self) -> None:
        """Return once the process is ready, or has failed to start."""
        await self._ready.wait()

    async def invoke(
        self, plugin: str, kind: str, name: str, kwargs: Mapping[str, Any], seconds: float, *args: Any, **more: Any
    ) -> Any:
        """The result of an action or condition of a plugin; raises FleethookError where it fails."""
        process = self._current
        if process is None:
            raise PluginDown(self._why_down(plugin))

        def make(number: int) -> Invoke:
            return Invoke(number, plugin, kind, name, args, dict(kwargs), more.get("context"))  # type: ignore[arg-type]

        answer = await process.call(make, seconds, f"its {kind} {name}")
        if answer.failure:
            raise FleethookError(f"plugin {plugin!r}: {kind} {name!r} {answer.failure}")
        return answer.value

    async def invoke_action(
        self, plugin: str, name: str, kwargs: Mapping[str, Any], seconds: float, context: dict[str, Any]
    ) -> tuple[Any, dict[str, Any] | None]:
        """The result of an action for a workflow, and the workflow's variables if the action changed them.

        Raises FleethookError where it fails.
        """
        process = self._current
        if process is None:
            raise PluginDown(self._why_down(plugin))
        answer = await process.call(
            lambda number: Invoke(number, plugin, "action", name, (), dict(kwargs), context),
            seconds,
            f"its action {name}",
        )
        if answer.failure:
            raise FleethookError(f"plugin {plugin!r}: action {name!r} {answer.failure}")
        return answer.value, answer.variables

    async def replace(self, plugins: Sequence[Plugin], order: int = 0) -> dict[str, str]:
        """Load the plugins in a new process, which takes over once it is ready; the old one finishes its calls.

        Returns what is wrong by plugin; where anything is, the old process goes on.
        """
        async with self._replacing:
            if self._current is None and not self._deaths:
                await self._ready.wait()  # its first start is under way
            old = self._current
            if old is None:  # nothing serves: it is started again now, with these plugins
                self.plugins = tuple(plugins)
                self._note_plugins()
                self._ready.clear()
                self._wake.set()
                await self._ready.wait()
                self.reloaded = order or self.reloaded
                return dict(self._problems)
            new = self._new(plugins)
            self._state = "reloading"
            try:
                await new.start()
                wrong = {name: loaded.problem for name, loaded in new.loaded.items() if loaded.problem}
            except PluginDown as error:
                wrong = {plugin.name: str(error) for plugin in plugins}
            self._state = "running" if self._current is not None else self._state
            self.reloaded = order or self.reloaded
            if wrong or self._closed:
                new.kill("not put in force")
                self._problems = {name: f"not reloaded: {text}" for name, text in wrong.items()}
                return wrong
            self.plugins, self._current, self._problems, self._deaths = tuple(plugins), new, {}, 0
            self._note_plugins()
            self._retiring.add(task := self._spawn(old.retire()))
            task.add_done_callback(self._retiring.discard)
            log.info("plugin %s was reloaded", self.name)
            return {}

    async def close(self) -> None:
        """Let its calls end, unload its plugins, and end its process, and those that a reload has replaced."""
        self._closed = True
        self._keeper.cancel()
        self._ready.set()
        if self._current is not None:
            await self._current.retire()
        if self._retiring:
            await asyncio.wait(list(self._retiring))
        self._state = "stopped"
        if self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.wait(list(self._tasks))
        for process in list(self._processes):
            process.kill("its plugins are not in force any more")
            await process.gone()

    def kill(self) -> None:
        """End its process at once."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        for process in list(self._processes):
            process.kill("its worker ended")

    def states(self) -> list[PluginState]:
        """Each plugin as it is now."""
        process = self._current
        return [self._plugin_state(plugin, process) for plugin in self.plugins]

    def _plugin_state(self, plugin: Plugin, process: PluginProcess | None) -> PluginState:
        loaded = (process.loaded if process is not None else {}).get(plugin.name) or LoadedPlugin(name=plugin.name)
        figures, state = self.figures[plugin.name], self._state
        if loaded.problem:
            state = "failed"
        breaker: Breaker = "closed" if not self._deaths else "open" if process is None else "half-open"
        return PluginState(
            name=plugin.name,
            state=state,
            layer=self.layer,
            version=loaded.version,
            description=loaded.description,
            path=plugin.path or plugin.module,
            pid=process.pid if process is not None else 0,
            handlers=loaded.handlers,
            actions=loaded.actions,
            schemas=loaded.schemas,
            conditions=loaded.conditions,
            requires=plugin.requires,
            calls=figures.calls,
            failures=figures.failures,
            restarts=max(0, self.restarts),
            p50_ms=figures.percentile(0.5),
            p99_ms=figures.percentile(0.99),
            breaker=breaker,
            problem=loaded.problem or self._problems.get(plugin.name, ""),
            reloaded=self.reloaded,
        )

    async def _keep(self) -> None:
        """Start the process, and start another after it ended; the pauses between double."""
        pause = 0.0
        while True:
            process = self._new(self.plugins)
            self._state, self.restarts = "starting", self.restarts + 1
            began = time.monotonic()
            try:
                await process.start()
                wrong = {name: loaded.problem for name, loaded in process.loaded.items() if loaded.problem}
                if len(wrong) == len(self.plugins):
                    process.kill("it has no plugin that is loaded")
                    raise PluginDown(next(iter(wrong.values())))
            except PluginDown as error:
                self._down(process, str(error), loading=True)
            else:
                self._current, self._problems, self._state = process, wrong, "running"
                self._ready.set()
                for name, text in wrong.items():
                    log.error("plugin %s is not loaded: %s", name, text)
                await self._until_ended(process)
            pause = min(MOST_PAUSE, pause * 2) if pause and time.monotonic() - began < STEADY else FIRST_PAUSE
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
                pause = 0.0
            except TimeoutError:
                pass

    async def _until_ended(self, process: PluginProcess) -> None:
        while True:
            await process.ended.wait()
            if self._current is process or self._current is None:
                break
            process = self._current  # a reload has put another one in its place
        self._down(process, process.ending, loading=False)

    def _down(self, process: PluginProcess, why: str, *, loading: bool) -> None:
        self._current, self._deaths = None, self._deaths + 1
        self._state = "failed" if loading else "waiting"
        problems = {name: loaded.problem for name, loaded in process.loaded.items() if loaded.problem}
        self._problems = {plugin.name: problems.get(plugin.name, why) for plugin in self.plugins}
        self._ready.set()  # nobody waits for a process that failed
        log.error("plugin %s %s", self.name, redact_text(why))

    def _refusal(self, hook: Hook, process: PluginProcess | None) -> str:
        """Why a call is not made; empty where it is."""
        if process is None:
            return self._why_down(hook.plugin)
        loaded = process.loaded.get(hook.plugin)
        if loaded is not None and loaded.problem:
            return f"is not loaded: {loaded.problem}"
        if self._deaths and process.waiting:
            return f"ended {self._deaths} times in a row; one call at a time is tried"
        if process.silent_for > _SILENT and len(process.waiting) >= _MOST_SILENT:
            return f"has not answered for {process.silent_for:.1f} s, and {len(process.waiting)} calls wait for it"
        return ""

    def _why_down(self, plugin: str) -> str:
        return f"is not running: {self._problems.get(plugin, 'it has not been started yet')}"

    def _failure(self, hook: Hook, why: str) -> Outcome:
        method = f" ({hook.handler.method})" if hook.handler is not None and hook.handler.method else ""
        return Outcome(failure=redact_text(f"plugin {hook.plugin!r}{method} {why}"))

    def _has_handler(self, process: PluginProcess, hook: Hook) -> bool:
        """Whether the loaded plugin has the handler. Its file may have got it after it was loaded."""
        loaded = process.loaded.get(hook.plugin)
        if loaded is None or hook.handler is None:
            return False
        method = hook.handler.method
        return any(not method or name == method for name, _, _ in loaded.handlers)

    def _call(
        self, hook: Hook, event: Event, *, observes: bool, seen: VerdictSummary | None, known: tuple[str, ...]
    ) -> Callable[[int], Call]:
        if self._packed[0] is not event:  # several handlers get the same event
            self._packed = (event, msgspec.Raw(_pack(event)))
        handler, packed = hook.handler, self._packed[1]
        method, event_name = (handler.method, handler.event) if handler is not None else ("", "")
        return lambda number: Call(number, hook.plugin, method, event_name, packed, observes, seen, known)

    def _new(self, plugins: Sequence[Plugin]) -> PluginProcess:
        names = ", ".join(plugin.name for plugin in plugins)
        found = [on_this_machine(plugin) for plugin in plugins]
        process = PluginProcess(
            found, self._folder, lambda line: log.info("plugin %s: %s", names, line), self._state_folder
        )
        self._processes = {known for known in self._processes if not known.is_gone}
        self._processes.add(process)
        return process

    def _note_plugins(self) -> None:
        self.figures = {plugin.name: self.figures.get(plugin.name) or PluginFigures() for plugin in self.plugins}

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _pack(event: Event) -> bytes:
    try:
        return msgspec.msgpack.encode(event)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.msgpack.encode(encodable_event(event))
