"""Runs `fleethook up` until it gets a stop signal: the embedded server, if no other is set, and the process types.

When it dies, all that it started ends too: a child ends when the pipe from its parent closes (`runtime/lifeline.py`), and
the kernel ends the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from bus.config.settings import Settings
from bus.errors import FleethookError, ServerError
from bus.lazy.conversions import from_json
from bus.secrets.sealing import make_key
from bus.system.directories import Directories
from bus.system.locks import own, owner, write_private
from bus.wire import embedded_server
from bus.wire.keys import Keys
from workers.runtime.child_processes import (
    DRAIN,
    OnLine,
    OnReady,
    Pauses,
    ProcessSpec,
    ProcessStatus,
    StartProcess,
    Supervisor,
    ended,
    ending_text,
    restart_text,
    start_program,
)
from workers.waiting import on_demand

# -P: a `workers` folder in the current directory must not be imported.
_WORKER: Final = (sys.executable, "-P", "-m", "workers.cli", "worker")
_AGAIN_SECONDS: Final = 0.2
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class State(msgspec.Struct, frozen=True):
    """A running `fleethook up`: `started` in seconds since 1970, `server` the pid of the embedded one or 0."""

    pid: int
    started: float
    server: int
    ready: bool
    children: tuple[ProcessStatus, ...]


async def up(
    settings: Settings,
    places: Directories,
    on_line: OnLine,
    on_ready: OnReady,
    stop: asyncio.Event,
    *,
    specs: Sequence[ProcessSpec] | None = None,
    drain: float = DRAIN,
    start: StartProcess = start_program,
) -> int:
    """Run everything of this machine until `stop` is set, and return the exit code 0; main thread only.

    Raises ServerError if another `fleethook up` runs here, or if no server can be started.
    """
    lock = own(_lock(places), "`fleethook up`")
    make_key()
    embedded: embedded_server.Running | None = None
    try:
        env = {"FLEETHOOK_NAMESPACE": settings.namespace, "FLEETHOOK_REDIS_URL": settings.redis_url}
        if settings.rq_url:
            env["FLEETHOOK_RQ_URL"] = settings.rq_url
        if not settings.redis_url:
            embedded = embedded_server.launch(places)
            await _wait_for_server(embedded, stop)
            env["FLEETHOOK_REDIS_URL"] = embedded_server.bus_url(settings, "worker", places)
        wanted = process_specs(settings) if specs is None else specs
        if specs is None and embedded is not None and not settings.rq_url and start is not start_program:
            # No dispatcher of another machine has work for them, and a fork is there within milliseconds.
            wanted = light(wanted, settings)
            env[on_demand.VARIABLE] = " ".join(spec.name for spec in wanted if spec.on_demand)
        began = time.time()
        # `up` is ready when a test request was answered. Without evaluators, and in tests with their own processes, none is.
        answered = specs is not None or not settings.evaluators
        test_request: asyncio.Task[None] | None = None

        def record() -> None:
            pid = embedded.process.pid if embedded is not None else 0
            ready = supervisor.waiting == 0 and answered
            state = State(os.getpid(), began, pid, ready, supervisor.children)
            write_private(places.pid_file, msgspec.json.encode(state).decode())

        async def send_test_request(name: str) -> None:
            nonlocal answered
            if start is start_program:
                from workers.runtime.readiness import until_answered

                await until_answered(
                    env["FLEETHOOK_REDIS_URL"],
                    Keys(settings.namespace),
                    lambda: [child.pid for child in supervisor.children],
                    lambda text: on_line(name, text),
                )
            else:  # a fork has the client imported, which would stay in this process for good
                while await supervisor.run_aside(ProcessSpec(name, (*_WORKER, "answered"))):  # noqa: ASYNC110 - it failed
                    await asyncio.sleep(_AGAIN_SECONDS)
            answered = True
            record()
            on_ready(name, supervisor.waiting)

        def on_child_ready(name: str, waiting: int) -> None:
            nonlocal test_request
            if waiting or answered:
                on_ready(name, waiting)
            elif test_request is None:
                test_request = asyncio.create_task(send_test_request(name))

        supervisor = Supervisor(
            wanted,
            on_line=on_line,
            on_ready=on_child_ready,
            on_change=record,
            env={**import_path(), **env},
            drain=drain,
            start=start,
        )
        record()
        if embedded is not None:
            on_ready("server", supervisor.waiting)
        keeper = asyncio.create_task(_keep_server(embedded, on_line, record)) if embedded is not None else None
        try:
            await supervisor.run(stop)
        finally:
            for task in filter(None, (keeper, test_request)):
                task.cancel()
                await asyncio.wait([task])
    finally:
        if embedded is not None:
            await asyncio.to_thread(embedded_server.stop, embedded)
        places.pid_file.unlink(missing_ok=True)
        lock.release()
    return 0


def process_specs(settings: Settings) -> tuple[ProcessSpec, ...]:
    """The processes that the settings ask for: the types of the Procfile, each with its count."""
    counts = {
        "evaluator": settings.evaluators,
        "dispatcher": 1,
        "host": 1,
        "carrier": settings.carriers,
        "chores": settings.chores,
        "gateway": settings.gateways,
    }
    return tuple(ProcessSpec(name, (*_WORKER, name), count) for name, count in counts.items() if count)


def light(specs: Sequence[ProcessSpec], settings: Settings) -> tuple[ProcessSpec, ...]:
    """The same work in fewer processes, while there is little of it.

    One evaluator runs all the time, the others, carriers and chores on demand. The host worker, which has nothing to do
    where all evaluators are on its own machine, is in the dispatcher's process, and so is a gateway for this machine alone.
    """
    also = ["host", *(["gateway"] if settings.gateways and settings.gateway_host in _LOOPBACK else [])]
    found = list[ProcessSpec]()
    for spec in specs:
        if spec.name in on_demand.KINDS:
            found.append(replace(spec, on_demand=True))
        elif spec.name == on_demand.EVALUATOR and spec.count > 1:
            found.append(replace(spec, count=1))
            argv = (*spec.argv, "--most-idle", f"{on_demand.EVALUATOR_IDLE_SECONDS:g}")
            found.append(replace(spec, argv=argv, count=spec.count - 1, first=2, on_demand=True))
        elif spec.name == "dispatcher":
            found.append(replace(spec, argv=(*spec.argv, *(word for kind in also for word in ("--also", kind)))))
        elif spec.name not in also:
            found.append(spec)
    return tuple(found)


def running(places: Directories) -> State | None:
    """The `fleethook up` that runs on this machine, or None."""
    pid = owner(_lock(places))
    if pid is None:
        return None
    with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):  # it has just started, or is about to end
        state = from_json(places.pid_file.read_bytes(), State)
        if state.pid == pid:  # one that was killed leaves its record
            return state
    return State(pid, 0.0, 0, ready=False, children=())


def down(places: Directories, timeout: float = DRAIN + 5.0) -> bool:
    """Stop the `fleethook up` of this machine; kill it after `timeout` seconds. Returns False if none runs."""
    state = running(places)
    if state is None:
        return False
    for number, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, 5.0)):
        pid = owner(_lock(places))
        if pid is None:
            return True
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        until = time.monotonic() + patience
        while owner(_lock(places)) is not None and time.monotonic() < until:
            time.sleep(0.02)
    if owner(_lock(places)) is not None:
        raise ServerError(f"process {state.pid} cannot be ended")
    return True


def detach(argv: Sequence[str], log: Path) -> int:
    """Start `argv` without a terminal, as no child of ours, with its output appended to `log` (0600); returns its pid.

    A small program forks it, because a fork of this process would copy the locks that its threads hold.
    """
    program = (
        "import os, sys\nos.setsid()\npid = os.fork()\n"
        "if pid: print(pid)\nelse:\n os.dup2(2, 1)\n os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        launched = subprocess.run(
            [sys.executable, "-I", "-S", "-c", program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=fd,
            check=True,
        )
    finally:
        os.close(fd)
    return int(launched.stdout)


class Log:
    """A log file of lines with time, name and text; over `limit` bytes it is renamed to `<name>.1`, replacing an older one."""

    def __init__(self, path: Path, limit: int = 10 * 1024 * 1024) -> None:
        self._path, self._limit = path, limit
        self._open()

    def __call__(self, name: str, text: str) -> None:
        """Add one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._file.write(f"{moment} {name} | {text}\n".encode("utf-8", "replace"))
        if self._file.tell() > self._limit:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "ab", buffering=0)


def _lock(places: Directories) -> Path:
    return places.pid_file.with_suffix(".lock")


def import_path() -> dict[str, str]:
    """The variable that lets another process import us when we run from a source tree that is not installed."""
    root = Path(__file__).resolve().parents[1]
    if root.name in {"site-packages", "dist-packages"}:
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH", ""))))}


async def _wait_for_server(running: embedded_server.Running, stop: asyncio.Event) -> None:
    while not (stop.is_set() or embedded_server.answers(running)):  # noqa: ASYNC110 - a server has to be asked
        await asyncio.sleep(embedded_server.POLL)


async def _keep_server(running: embedded_server.Running, on_line: OnLine, record: Callable[[], None]) -> None:
    """Restart the embedded server whenever it ends; its data is in the append-only file."""
    pauses, never = Pauses(), asyncio.Event()
    while True:
        began = time.monotonic()
        try:
            await _wait_for_server(running, never)
            record()
            end = ending_text(await ended(running.process))
        except (FleethookError, OSError) as error:
            end = str(error)
        pause = pauses.after(time.monotonic() - began)
        on_line("server", f"{end}; {restart_text(pause)}")
        await asyncio.sleep(pause)
        with contextlib.suppress(OSError):  # the next round logs it
            embedded_server.relaunch(running)
