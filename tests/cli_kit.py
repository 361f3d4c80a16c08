"""The command line and the workers in the test's own process: what the CLI tests share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from click.testing import CliRunner

from bus.hooksets.in_force import Watcher
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.waiting import CONNECT, PATIENCE
from workers.carrier import Carrier
from workers.cli import root
from workers.cli.common import run_command
from workers.dispatcher import Dispatcher
from workers.evaluator import Evaluator

T = TypeVar("T")


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def fleethook(*args: str, stdin: str = "") -> Result:
    """Run one command line as the program does, errors in words and exit code included."""
    with CliRunner().isolation(input=stdin) as (out, err, _):
        code = run_command(root, args)
        return Result(code, out.getvalue().decode(), err.getvalue().decode())


def fleethook_in(environment: Mapping[str, str], folder: Path, *args: str, stdin: str = "") -> Result:
    """As `fleethook`, with exactly this environment and in this folder: as a process of its own, without its start."""
    with mock.patch.dict(os.environ, environment, clear=True), contextlib.chdir(folder):
        return apart(lambda: fleethook(*args, stdin=stdin))


def namespace(keys: Keys) -> str:
    """The namespace of these keys."""
    return keys.prefix.split(":")[1]


def run(url: str, work: Callable[[Connections], Awaitable[T]]) -> T:
    """The result of `work` with connections of its own."""

    async def whole() -> T:
        connections = Connections(url, connect=CONNECT)
        try:
            return await work(connections)
        finally:
            await connections.close()

    return apart(lambda: asyncio.run(whole()))


def apart(work: Callable[[], T]) -> T:
    """The result of `work`, in a thread of its own where this one has a running event loop, as in tests with Playwright."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@contextmanager
def workers(url: str, keys: Keys, home: Path, *kinds: str) -> Iterator[None]:
    """An evaluator, a dispatcher and a carrier (or those of `kinds`), on an event loop in a thread of their own."""
    ready, stop = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    async def whole() -> None:
        connections, told = Connections(url, connect=CONNECT), asyncio.Event()
        watcher = Watcher(
            connections,
            keys,
            host="test-host",
            user_file=home / "config" / "fleethook.yaml",
            trust_file=home / "state" / "trust.json",
            last_good=home / "data" / "last-good",
        )
        running: list[Coroutine[Any, Any, Any]] = []
        if not kinds or "evaluator" in kinds:
            evaluator = Evaluator(url, keys, watcher, connections)
            await evaluator.prepare()
            running.append(evaluator.run(told))
        if not kinds or "dispatcher" in kinds:
            dispatcher = Dispatcher(url, keys, watcher, connections, _one_carrier)
            await dispatcher.prepare()
            running.append(dispatcher.run(told))
        if not kinds or "carrier" in kinds:
            running.append(Carrier(url, keys, connections, watcher).run(told, idle=PATIENCE))
        ready.set()
        done = asyncio.gather(*running)
        while not stop.is_set() and not done.done():
            await asyncio.wait([done], timeout=0.02)
        told.set()
        await done
        await connections.close()

    def thread() -> None:
        try:
            asyncio.run(whole())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)
            ready.set()

    worker = threading.Thread(target=thread)
    worker.start()
    try:
        assert ready.wait(PATIENCE), "the workers start"
        yield
    finally:
        stop.set()
        worker.join(PATIENCE)
    if failures:
        raise failures[0]


async def _one_carrier(_: str) -> int:
    return 1
