"""A fleet for tests: a server under the ACL roles, the process types as real processes, and agents connected to it.

Nothing here has more rights than it has on somebody's machine: worker processes log in as `worker`, an agent's hook
commands as `shim`, programs as `agent`, and only what publishes hooks and looks at the outcome is `admin`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from redis.exceptions import RedisError

from bus.agents import claude
from bus.client import Bus
from bus.config.settings import Settings
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply, current_version
from bus.shim.answer import HookAnswer
from bus.system.directories import Directories, directories
from bus.wire.acl import EVERY_NAMESPACE, ROLES, Role, acl_file, user_name
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.cli_kit import run
from tests.support import chosen_shim
from tests.support.forked import Fleethook
from tests.support.servers import Server, has_selectors
from tests.support.waiting import BUDGET, CONNECT, PATIENCE, wait_until
from workers.admin.agent_setup import SHIM_URL, answers_for, connect, installed, plan
from workers.delivery.dead_letters import DeadLetter, dead_letters
from workers.delivery.deliveries import Delivery, deliveries
from workers.delivery.filters import Filter
from workers.records.events import RecordedEvent, find_event, recent
from workers.records.trace import Trace, trace

T = TypeVar("T")

NAMESPACE = "fleet"
HOST = "test-host"


@dataclass(frozen=True)
class Worker:
    """One worker process; what it says on stderr lies in `log`."""

    kind: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self, words: str) -> bool:
        """Whether its log has these words by now."""
        return words in self.log.read_text(encoding="utf-8")

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait_ready(self) -> None:
        """Return when it says that it is ready."""
        wait_until(lambda: self.said("ready") or not self.runs(), f"the {self.kind} is ready")
        assert self.runs(), f"the {self.kind} ended:\n{self.log.read_text(encoding='utf-8')}"


@dataclass(frozen=True)
class Agent:
    """An agent as `fleethook install` leaves it: for each event the command line out of its own settings file."""

    commands: Mapping[str, str]
    places: Directories

    def start(self, native: str, **more: Any) -> subprocess.Popen[bytes]:
        """The hook command of one event, begun as Claude Code begins it: by a shell, with three pipes."""
        env = {"PATH": os.defpath, "HOME": str(self.places.data.parent), **more.pop("env", {})}
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **more}
        return subprocess.Popen(["/bin/sh", "-c", self.commands[native]], env=env, **streams)

    def hook(self, native: str, payload: bytes | Mapping[str, Any], **more: Any) -> HookAnswer:
        """One hook call from its start to its end: what the agent gets back."""
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        with self.start(native, **more) as process:
            out, err = process.communicate(raw, timeout=2 * PATIENCE)
        return HookAnswer(process.returncode, out, err)


class Fleet:
    """One server with its workers; made by `fleet`."""

    def __init__(self, folder: Path, *, persistent: bool = False) -> None:
        self.folder = folder
        self.keys = Keys(NAMESPACE)
        self.workers: list[Worker] = []
        self._passwords: dict[Role, str] = {role: secrets.token_hex(8) for role in ROLES}
        # What a test counts after a kill has to be in the file. A server that syncs every second puts off a write while an
        # older sync still runs (seen in CI), and one that syncs always stands still while a busy disk is slow (seen in CI).
        # Without a sync it writes before each answer, and what is written outlives the process.
        self.server = Server(
            acl=acl_file(EVERY_NAMESPACE, self._passwords, selectors=has_selectors()), persistent=persistent, fsync="no"
        )
        self.server.login = f"{user_name('admin')}:{self._passwords['admin']}@"
        self.home = folder / "home"
        self._published = ("", 0)

    def url(self, role: Role) -> str:
        """The server, as somebody of this role reaches it."""
        return f"unix://{user_name(role)}:{self._passwords[role]}@{self.server.socket}?db=0"

    @property
    def environment(self) -> dict[str, str]:
        """What the workers get: nothing of the developer's own settings, and a home of their own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        return {
            **kept,
            "HOME": str(self.home),
            "FLEETHOOK_HOME": str(self.home),
            "FLEETHOOK_HOST": HOST,
            "FLEETHOOK_NAMESPACE": NAMESPACE,
            "FLEETHOOK_BUDGET": f"{BUDGET}s",
            "FLEETHOOK_REDIS_URL": self.url("worker"),
            "PYTHONFAULTHANDLER": "1",  # what a worker that aborts was doing stands in its log
        }

    @property
    def places(self) -> Directories:
        """The workers' own folders: their user's hook file, and the list of projects that the user trusts."""
        return directories({"FLEETHOOK_HOME": str(self.home)})

    def start(self, *kinds: str, **more: str) -> list[Worker]:
        """Start worker processes and return when each says that it is ready; `more` is set in their environment."""
        started = []
        for kind in kinds:
            log = self.folder / f"{kind}-{len(self.workers)}.log"
            with log.open("wb") as output:
                process = Fleethook(
                    ["worker", kind],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**self.environment, **more},
                )
            started.append(Worker(kind, process, log))
            self.workers.append(started[-1])
        for one in started:
            one.wait_ready()
        return started

    def publish_hooks(self, text: str) -> int:
        """Publish a hook file unless it is in force, and return its version when every worker that runs has it."""
        published, version = self._published
        if text == published and version == self.ask(lambda connections: current_version(connections, self.keys)):
            return version
        file = parse_hook_file(text, "fleet")
        assert not file.problems, file.problems
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FLEETHOOK_HOME", str(self.home))  # where the workers look for the key of its secrets
            version = self.ask(lambda connections: apply(connections, self.keys, file))
        self.in_force(version)
        self._published = (text, version)
        return version

    def in_force(self, version: int) -> None:
        """Return when every worker has this version of the hooks; they look for a new one every half second."""
        words = f"hook set {version} is in force"
        with sync_client(self.url("admin")) as client:

            def has_it(one: Worker) -> bool:
                if one.kind not in {"evaluator", "dispatcher", "carrier"} or not one.runs() or one.said(words):
                    return True
                # A carrier's job ends when there is nothing to do, and the next one begins by reading the hooks.
                return one.kind == "carrier" and not client.exists(self.keys("alive", "carrier"))

            wait_until(lambda: all(map(has_it, self.workers)), f"every worker has version {version}")

    def bus(self, **more: Any) -> Bus:
        """The bus as a program of an agent's rights uses it."""
        return Bus(self.url("agent"), namespace=NAMESPACE, **{"connect": CONNECT, **more})

    def agent(self, name: str = "claude", *, closed: bool = False, budget: float = BUDGET) -> Agent:
        """Claude Code with Fleethook installed, every event subscribed, in a home of its own below `name`."""
        places = self.places_of(name)
        home = places.data.parent
        settings = Settings(namespace=NAMESPACE, host=HOST, budget=budget)
        answers, _ = answers_for("claude", settings, places, closed=closed, environ={SHIM_URL: self.url("shim")})
        events = [native for native in claude.CAPABILITIES if native not in claude.NEVER]
        change = plan(
            "claude", "user", places, closed=closed, events=events, home=home, project=home, native=chosen_shim.native
        )
        connect(change, answers, places)
        (found,) = installed("claude", home=home, project=home)
        return Agent(found.commands, places)

    def places_of(self, agent: str) -> Directories:
        """The folders of the agent in the home of this name."""
        return directories({"FLEETHOOK_HOME": str(self.folder / "agents" / agent)})

    def wait_alive(self, role: str) -> None:
        """Return when a worker of this role is alive: an outage ends all heartbeats."""
        with sync_client(self.url("admin")) as client:

            def is_alive() -> bool:
                try:
                    return bool(client.exists(self.keys("alive", role)))
                except RedisError:  # a server that has just started may be loading its data
                    return False

            wait_until(is_alive, f"a worker is alive: {role}")

    def ask(self, work: Callable[[Connections], Awaitable[T]]) -> T:
        """The result of `work` with an administrator's connections."""
        return run(self.url("admin"), work)

    def events(self, **filters: Any) -> list[RecordedEvent]:
        """What stands in the record, newest first, as `fleethook events list` shows it."""
        return self.ask(lambda connections: recent(connections, self.keys, Filter(**filters), most=1000))

    def event(self, name: str) -> RecordedEvent:
        """One event of the record."""
        return self.ask(lambda connections: find_event(connections, self.keys, name))

    def trace(self, name: str) -> Trace:
        """What `fleethook trace` shows."""
        return self.ask(lambda connections: trace(connections, self.keys, name))

    def deliveries(self, event: str = "") -> list[Delivery]:
        """Deliveries, newest first."""
        return self.ask(lambda connections: deliveries(connections, self.keys, Filter(event=event)))

    def delivered(self, event: str, count: int = 1) -> list[Delivery]:
        """The deliveries of an event, when `count` of them have arrived."""
        wait_until(lambda: [one.state for one in self.deliveries(event)] == ["delivered"] * count, "it is delivered")
        return self.deliveries(event)

    def dead_letter(self, name: str) -> DeadLetter:
        """The dead letter of this id, when it is one."""
        wait_until(lambda: name in {letter.id for letter in self.dead()}, "it is a dead letter")
        return next(letter for letter in self.dead() if letter.id == name)

    def dead(self) -> list[DeadLetter]:
        """The dead letters, newest first."""
        return self.ask(lambda connections: dead_letters(connections, self.keys, most=1000))

    def end(self) -> None:
        """Tell every worker to end, and see that it does, by itself and without a traceback."""
        running = [one for one in self.workers if one.runs()]
        for one in running:
            one.process.terminate()
        for one in running:
            one.process.wait(PATIENCE)
        failed = [(one.kind, one.process.returncode, one.log.read_text(encoding="utf-8")[-20_000:]) for one in running]
        assert not any(code for _, code, _ in failed), "\n".join(
            f"{kind} ended with {code}: {text}" for kind, code, text in failed if code
        )
        told = [one.log.read_text(encoding="utf-8") for one in self.workers]
        assert not any("Traceback" in text for text in told), "\n".join(told)

    def kill(self) -> None:
        """Leave nothing behind, whatever happened."""
        for one in self.workers:
            one.process.kill()
            one.process.wait()
        self.server.stop()


@contextmanager
def fleet(folder: Path, *kinds: str, hooks: str = "", persistent: bool = False) -> Iterator[Fleet]:
    """A fleet with workers of these kinds, its hooks published before they start; all of it is gone afterwards."""
    made = Fleet(folder, persistent=persistent)
    made.home.mkdir(parents=True)
    made.server.start()
    try:
        if hooks:
            made.publish_hooks(hooks)
        made.start(*kinds)
        yield made
        made.end()
    finally:
        made.kill()
