"""A fleet of real worker processes that are killed, stopped and resumed on purpose; nothing of it outlives the test."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from bus.wire.keys import Keys
from tests.chaos.counting import tell
from tests.support.forked import PROGRAM, Fleethook
from tests.support.waiting import PATIENCE, wait_until
from workers.runtime.lifeline import VARIABLE

START_SECONDS = 40.0
"""A worker's start is a second of Python's imports; on a machine that does something else as well it takes longer."""


@dataclass
class Worker:
    """One process of the fleet, with what it wrote."""

    kind: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def ready(self) -> bool:
        """Whether it said so."""
        return f"fleethook {self.kind} ready" in self.said

    @property
    def said(self) -> str:
        """Its stderr."""
        return self.log.read_text("utf-8", "replace")

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.popen.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; a process that has ended takes none."""
        with suppress(ProcessLookupError):
            self.popen.send_signal(number)

    def freeze(self) -> None:
        """SIGSTOP, and return when it stands."""
        self.signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(self.popen.pid, os.WUNTRACED)[1])

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)


class Fleet:
    """Worker processes of one namespace on one server; a context manager.

    `seed` decides who is killed; a lifeline pipe ends all of them should the test itself be killed.
    """

    def __init__(
        self, url: str, keys: Keys, home: Path, *, seed: int = 0, env: Mapping[str, str] | None = None
    ) -> None:
        self.keys, self.home = keys, home
        self.chance = random.Random(seed)
        self._url, self._more = url, dict(env or {})
        self._workers: list[Worker] = []
        self._lifeline, self._held = os.pipe()
        self.killed = 0
        home.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, kind: str, count: int = 1, **env: str) -> list[Worker]:
        """Start `count` processes of a kind, with more environment; they are ready later."""
        return [self._start(kind, env) for _ in range(count)]

    def start_whole(self, kind: str) -> Worker:
        """Start a process of a kind as its users do, so that it has only its own imports in memory."""
        return self._start(kind, {}, forked=False)

    def ready(self) -> None:
        """Wait until everything that lives is ready."""
        wait_until(
            lambda: all(worker.ready for worker in self._workers if worker.lives), "the fleet is ready", START_SECONDS
        )
        ended = [
            f"{worker.kind}: {worker.said[-2000:]}" for worker in self._workers if worker.lives and not worker.ready
        ]
        assert not ended

    def of(self, kind: str) -> list[Worker]:
        """The living processes of a kind, the oldest first."""
        return [worker for worker in self._workers if worker.kind == kind and worker.lives]

    def kill(self, kind: str, *, again: bool = True) -> Worker:
        """kill -9 one process of a kind, chosen by the seed, and start another in its place as a supervisor does."""
        ready = [worker for worker in self.of(kind) if worker.ready]
        victim = self.chance.choice(ready or self.of(kind))
        victim.signal(signal.SIGKILL)
        victim.popen.wait()
        self.killed += 1
        if again:
            self.start(kind)
        return victim

    def said(self, kind: str = "") -> str:
        """What all of a kind wrote, the dead included."""
        return "\n".join(worker.said for worker in self._workers if kind in {"", worker.kind})

    def close(self) -> None:
        """End everything: asked first, so that drains are seen too, by force after ten seconds."""
        for worker in self._workers:
            if worker.lives:
                worker.signal(signal.SIGTERM)
                worker.signal(signal.SIGCONT)
        for worker in self._workers:
            try:
                worker.popen.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                worker.signal(signal.SIGKILL)
                worker.popen.wait()
        for fd in (self._held, self._lifeline):
            os.close(fd)
        for worker in self._workers:  # shown only where the test fails
            tell(f"--- {worker.kind} {worker.popen.pid} ({worker.popen.returncode})\n{worker.said[-3000:]}")

    def _start(self, kind: str, env: Mapping[str, str], *, forked: bool = True) -> Worker:
        log = self.home / f"{kind}-{len(self._workers)}.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        own = {
            "FLEETHOOK_HOME": str(self.home),
            "FLEETHOOK_HOST": "test-host",
            "FLEETHOOK_REDIS_URL": self._url,
            "FLEETHOOK_NAMESPACE": self.keys.prefix.split(":")[1],
            VARIABLE: str(self._lifeline),
            "FLEETHOOK_BREAKER_FIRST": "0.2",
            "FLEETHOOK_BREAKER_MOST": "1",  # a receiver that fails at random opens it
        }
        with log.open("wb") as output:
            words = ["worker", kind]
            start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
            start = partial(Fleethook, words) if forked else partial(start, [*PROGRAM, *words])
            popen = start(
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.home,
                env={**kept, **own, **self._more, **env},
                pass_fds=(self._lifeline,),
                start_new_session=True,
            )
        worker = Worker(kind, popen, log)
        self._workers.append(worker)
        return worker
