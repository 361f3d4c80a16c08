"""The process of a worker's plugins: it reads calls on stdin, runs the handlers, and writes their answers on stdout.

Sync handlers run one at a time on the main thread, async ones beside each other, and sync observers one at a time on a thread
of their own, so that a slow observer does not delay a verdict. Nothing that a plugin does (an endless loop, a crash, a leak, a
flood of prints) reaches the worker: it sees a late answer or the end of the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.errors import FleethookError
from bus.events import Event
from bus.plugins.conversion import answer, arguments, joined
from bus.plugins.events import HookEventType
from bus.plugins.gobby_actions import ActionContext, WorkflowState
from bus.plugins.loader import load_all, problem_text, unload
from bus.plugins.loops import loops_inside
from bus.plugins.messages import (
    EVENTS,
    MOST_BYTES,
    TO_PROCESS,
    Answer,
    Call,
    Cancel,
    Finish,
    Frames,
    Invoke,
    Load,
    Loaded,
    framed,
)
from bus.plugins.registry import PluginRegistry, RegisteredHandler, str_of
from bus.system.priority import lower
from bus.system.python_program import program

log = logging.getLogger("gobby.plugins")

OUT_OF_MEMORY: Final = 77
"""The exit code after a handler needed more memory than the process may have."""

_NICE: Final = 5
"""Lower priority than the processes that agents wait for, so that a plugin that spins takes only what they leave."""
_CHUNK: Final = 256 * 1024
_SPARE: Final = 64 * 1024**2
"""Bytes for the interpreter itself, in addition to what the plugins may use."""

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_PROGRAM: Final = program("sys.path.append(sys.argv[1]); from bus.plugins.process import main")


def command(lifeline: int, memory: int) -> tuple[str, ...]:
    """The command that starts the process; `lifeline` is a pipe whose other end the worker holds, `memory` in MiB."""
    return (sys.executable, "-P", "-c", _PROGRAM, _ROOT, str(lifeline), str(memory))


def main() -> None:
    """Serve until Finish or the end of the input."""
    lifeline, memory = int(sys.argv[2]), int(sys.argv[3])
    source, target = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what a plugin prints goes to the worker's log
    lower(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    threading.Thread(target=_end_with_worker, args=(lifeline,), name="lifeline", daemon=True).start()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if sys.platform == "linux":  # elsewhere the limit counts what a library reserves and never uses
        limit = memory * 1024**2 + _SPARE
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    with loops_inside():
        asyncio.run(_Server(source, target).serve())
    sys.stdout.flush()
    os._exit(0)  # threads that a plugin left behind do not hold the process


def _end_with_worker(lifeline: int) -> None:
    """End the whole group as soon as the worker is gone; a handler may be in an endless loop then."""
    while os.read(lifeline, 1):
        pass
    os.killpg(0, signal.SIGKILL)


class _Server:
    """Reads messages, runs calls, writes answers."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target, self._pid = source, target, os.getpid()
        self._registry = PluginRegistry()
        self._handlers: dict[tuple[str, str, str], RegisteredHandler] = {}
        """By plugin, method and event."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._observers = ThreadPoolExecutor(1, thread_name_prefix="observers")
        self._writing = threading.Lock()
        self._stopping = asyncio.Event()

    async def serve(self) -> None:
        frames, load = Frames(), None
        rest: list[bytes] = []
        while load is None:
            data = os.read(self._source, _CHUNK)
            if not data:
                return
            for raw in frames.feed(data):
                if load is None:
                    load = TO_PROCESS.decode(raw)
                else:
                    rest.append(raw)
        assert isinstance(load, Load)  # noqa: S101 - the worker sends it first
        await self._load(load)
        for raw in rest:
            self._handle(raw)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._source, self._read, frames)
        await self._stopping.wait()
        loop.remove_reader(self._source)
        await self._finish()

    async def _load(self, load: Load) -> None:
        try:
            loaded = await load_all(load.plugins, self._registry, load.folder)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        for plugin in loaded:
            for handler in self._registry.handlers_of(plugin.name):
                self._handlers[plugin.name, handler.method.__name__, str_of(handler.event_type)] = handler
                self._handlers.setdefault((plugin.name, handler.method.__name__, ""), handler)
        self._write(Loaded(loaded))

    def _read(self, frames: Frames) -> None:
        self._end_copy()
        data = os.read(self._source, _CHUNK)
        if not data:
            self._stopping.set()
            return
        for raw in frames.feed(data):
            self._handle(raw)

    def _handle(self, raw: bytes) -> None:
        message = TO_PROCESS.decode(raw)
        if isinstance(message, Call):
            self._call(message)
        elif isinstance(message, Invoke):
            self._start(message.id, self._invoke(message))
        elif isinstance(message, Cancel):
            task = self._tasks.get(message.id)
            if task is not None:
                task.cancel()
            self._write(Answer(message.id, failure="cancelled"))
        elif isinstance(message, Finish):
            self._stopping.set()

    def _call(self, call: Call) -> None:
        """Run one call: at once where its handler is a plain function, else as a task or on the observers' thread."""
        event = EVENTS.decode(call.event)
        if not call.method:
            self._start(call.id, self._call_others(call, event))
            return
        found = self._handler(call)
        if found is None:  # the file changed after it was loaded: a reload brings the handler
            self._write(Answer(call.id))
            return
        if call.observes and not inspect.iscoroutinefunction(found.method):
            self._observers.submit(self._observe, call, found, event)
            return
        returned = self._run(call, found, event)
        if inspect.isawaitable(returned):
            self._start(call.id, self._answer_later(call.id, returned))
        elif not isinstance(returned, Answer):
            self._write(answer(call.id, returned))
        else:
            self._write(returned)

    def _handler(self, call: Call) -> RegisteredHandler | None:
        """The handler of a call; its event may be spelled in another way than the plugin's."""
        named = self._handlers.get((call.plugin, call.method, call.event_name))
        if named is not None:
            return named
        with contextlib.suppress(ValueError, KeyError):
            return self._handlers[call.plugin, call.method, HookEventType(call.event_name).value]
        return self._handlers.get((call.plugin, call.method, ""))

    def _run(self, call: Call, handler: RegisteredHandler, event: Event) -> Any:
        """What a handler returns, or a failed Answer where it raises, or where nothing can be made for it of the event."""
        try:
            return handler.method(*arguments(handler, event, call.seen))
        except BaseException as error:  # noqa: BLE001 - SystemExit too: a plugin may raise anything
            return self._failed(call.id, error, handler.method)

    def _failed(self, call: int, error: BaseException, method: Callable[..., Any]) -> Answer:
        text = problem_text(error, inspect.getsourcefile(inspect.unwrap(method)) or "")
        if isinstance(error, MemoryError):
            self._write(Answer(call, failure="needed more memory than its process may have"))
            os._exit(OUT_OF_MEMORY)
        log.error("%s: %s", getattr(method, "__qualname__", method), text)
        return Answer(call, failure=f"raised {text}")

    def _observe(self, call: Call, handler: RegisteredHandler, event: Event) -> None:
        returned = self._run(call, handler, event)
        self._write(returned if isinstance(returned, Answer) else Answer(call.id))

    async def _answer_later(self, call: int, returned: Any) -> None:
        try:
            found = answer(call, await returned)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `_run`
            if isinstance(error, MemoryError):
                os._exit(OUT_OF_MEMORY)
            found = Answer(call, failure=f"raised {problem_text(error, '')}")
        self._write(found)

    async def _call_others(self, call: Call, event: Event) -> None:
        """Call the handlers of a plugin that its source did not show, in order; a deny ends the chain."""
        answers: list[Answer] = []
        done = set(call.known)
        for handler in self._registry.find(event.type, event.tool):
            method = handler.method.__name__
            wanted = handler.plugin.name == call.plugin and handler.observes == call.observes
            if not wanted or method in done:
                continue
            done.add(method)
            returned = self._run(call, handler, event)
            if inspect.isawaitable(returned):
                try:
                    returned = await returned
                except asyncio.CancelledError:
                    raise
                except BaseException as error:  # noqa: BLE001 - as in `_run`
                    returned = self._failed(call.id, error, handler.method)
            answers.append(returned if isinstance(returned, Answer) else answer(call.id, returned))
            if answers[-1].decision == "deny" and not call.observes:
                break
        self._write(joined(call.id, answers))

    async def _invoke(self, invoke: Invoke) -> None:
        """Call an action or a condition; its result is the answer's value."""
        try:
            value, variables = await self._invoked(invoke)
            self._write(Answer(invoke.id, value=value, variables=variables))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `_run`
            if isinstance(error, MemoryError):
                os._exit(OUT_OF_MEMORY)
            self._write(Answer(invoke.id, failure=problem_text(error, "")))

    async def _invoked(self, invoke: Invoke) -> tuple[Any, dict[str, Any] | None]:
        """The result, and the workflow's variables if an action changed them."""
        plugin = self._registry.get_plugin(invoke.plugin)
        if plugin is None:
            raise FleethookError(f"the plugin {invoke.plugin!r} is not loaded")
        if invoke.kind == "condition":
            condition = plugin._conditions.get(invoke.name)  # noqa: SLF001 - Gobby's name
            if condition is None:
                raise FleethookError(f"the plugin {invoke.plugin!r} has no condition {invoke.name!r}")
            held = condition(*invoke.args, **invoke.kwargs)
            return bool(await held if inspect.isawaitable(held) else held), None
        action = plugin.get_action(invoke.name)
        if action is None:
            raise FleethookError(f"the plugin {invoke.plugin!r} has no action {invoke.name!r}")
        fits, why = action.validate_input(invoke.kwargs)
        if not fits:
            return {"error": f"Schema validation failed: {why}"}, None
        known = {
            key: value for key, value in (invoke.context or {}).items() if key in ActionContext.__dataclass_fields__
        }
        state = known.get("state")
        if isinstance(state, dict):
            known["state"] = WorkflowState(state)
        before = copy.deepcopy(state.get("variables")) if isinstance(state, dict) else None
        returned = action.handler(ActionContext(**known), **invoke.kwargs)
        returned = await returned if inspect.isawaitable(returned) else returned
        after = getattr(known.get("state"), "variables", None)
        return returned, after if isinstance(after, dict) and after != before else None

    def _start(self, call: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[call] = task
        task.add_done_callback(functools.partial(self._ended, call))

    def _ended(self, call: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(call, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._write(Answer(call, failure=f"raised {problem_text(error, '')}"))

    def _end_copy(self) -> None:
        """End the copy of this process that a handler's `os.fork` made, before it takes calls or answers them twice."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _write(self, message: Loaded | Answer) -> None:
        self._end_copy()
        try:
            data = framed(message)
        except (TypeError, UnicodeEncodeError, OverflowError, msgspec.ValidationError, RecursionError) as error:
            number = message.id if isinstance(message, Answer) else 0
            data = framed(Answer(number, failure=f"returned what cannot be written: {error}"))
        if len(data) > MOST_BYTES and isinstance(message, Answer):
            data = framed(Answer(message.id, failure=f"returned {len(data)} bytes; at most {MOST_BYTES} are taken"))
        with self._writing:
            left = memoryview(data)
            while left:
                left = left[os.write(self._target, left) :]

    async def _finish(self) -> None:
        """Let the calls end, then unload the plugins, those that require others first. The worker bounds the time."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        await asyncio.to_thread(self._observers.shutdown)
        for plugin in reversed(list(self._registry._plugins.values())):  # noqa: SLF001 - Gobby's name
            try:
                await unload(plugin)
            except BaseException as error:  # noqa: BLE001 - the others are unloaded too
                log.error("on_unload of %s raised %s", plugin.name, problem_text(error, ""))
        with contextlib.suppress(OSError):
            os.close(self._target)
