"""A plugin that counts, in a real `fleethook up` under load: one instance, a verdict for each call, and a count that holds."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from bus.client import Bus
from bus.config.settings import Settings
from bus.system.directories import directories
from bus.verdicts import Verdict
from bus.wire.connections import Connections
from bus.wire.embedded_server import bus_url
from bus.wire.keys import Keys
from tests.support.plugins import plugin, tool_call
from tests.support.running import until_true
from tests.support.up import ROOT, up
from tests.support.waiting import until, wait_until
from workers.plugins.records import list_plugins, reload_plugin

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.timeout(300)]

AGENTS, CALLS, HOST = 8, 50, socket.gethostname()

COUNTS = """
def on_load(self, config):
    self.calls = 0
    self.note("load")

def note(self, text):
    with open(LOG, "a") as log:
        log.write(f"{os.getpid()} {text}\\n")

@hook_handler(HookEventType.BEFORE_TOOL, priority=10)
def check(self, event):
    self.calls += 1
    command = event.data["tool_input"]["command"]
    self.note(f"call {self.calls} {self.shared.add('calls')} {command}")
    if command.endswith("slow"):
        time.sleep(0.05)
    return HookResponse(decision="deny", reason=command)
"""


class World:
    """A home with the plugin, and the server of the `up` that runs in it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.log, self.folder = folder / "home", folder / "calls.log", folder
        plugins = self.home / "config/plugins"
        plugins.mkdir(parents=True)
        head = f"import os, time\nLOG = {str(self.log)!r}"
        (plugins / "counter.py").write_text(plugin(COUNTS, "counter", head))
        (plugins.parent / "fleethook.yaml").write_text("plugins: {counter: {on_failure: ask}}\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        self.environment = {
            **kept,
            "HOME": str(self.home),
            "FLEETHOOK_HOME": str(self.home),
            "FLEETHOOK_GATEWAY_PORT": "0",
            "PYTHONPATH": str(ROOT),
        }
        self.counted = 0
        """The shared count before the calls that are made now."""

    def url(self, role: str) -> str:
        """The server of the running `up`, for somebody of this role."""
        with mock.patch.dict(os.environ, {"FLEETHOOK_HOME": str(self.home)}):
            return bus_url(Settings(), role, directories(create=False))  # type: ignore[arg-type]

    def lines(self, kind: str) -> list[list[str]]:
        """What the plugin noted: for a call its process, its own count, the shared count, and the command."""
        rows = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [row for row in rows if row[1] == kind]

    async def load(self, name: str, *, between: str = "", instances: int = 1) -> list[Verdict]:
        """The verdicts of all agents' calls, each agent's one after the other; in the middle `between` happens."""
        bus, keys = Bus(self.url("agent")), Keys(Settings().namespace)
        connections = Connections(self.url("admin"))
        before = len(self.lines("call"))

        async def run() -> bool:
            states = await list_plugins(connections, keys)
            return [state.state for state in states] == ["running"] * instances

        async def agent(number: int) -> list[Verdict]:
            commands = [f"{name}-{number}-{call}{'-slow' if call % 10 == 7 else ''}" for call in range(CALLS)]
            return [
                await bus.request(tool_call(one, id="", host=HOST, session=f"s{number}", call=one)) for one in commands
            ]

        await until(run, f"{instances} instances run")
        agents = [asyncio.create_task(agent(number)) for number in range(AGENTS)]
        await until_true(lambda: len(self.lines("call")) - before >= AGENTS * CALLS // 2, "half of the calls are made")
        if between == "reload":
            done = await reload_plugin(connections, keys, "counter", seconds=60)
            assert (len(done.done), done.waiting, done.problems) == (instances, (), ())
        elif between == "kill":
            (state,) = await list_plugins(connections, keys)
            os.kill(int(state.worker.split("-")[-2]), signal.SIGKILL)
        verdicts = [verdict for answers in await asyncio.gather(*agents) for verdict in answers]
        await bus.close()
        await connections.close()
        return verdicts

    def check(self, name: str, verdicts: Sequence[Verdict], *, most_again: int = 0) -> set[str]:
        """Each call was refused by the plugin, and both counts are those of the handler's runs; returns its processes."""
        assert [one for one in verdicts if one.decision != "deny" or one.parts[0].fallback] == []
        assert len({one.reason for one in verdicts}) == AGENTS * CALLS, "each call got its own answer"
        calls = [row for row in self.lines("call") if row[4].startswith(f"{name}-")]
        assert len({row[4] for row in calls}) == AGENTS * CALLS
        assert AGENTS * CALLS <= len(calls) <= AGENTS * CALLS + most_again
        shared = sorted(int(row[3]) for row in calls)
        assert shared == list(range(self.counted + 1, self.counted + len(calls) + 1))
        self.counted = shared[-1]
        return {row[0] for row in calls}

    def own_counts_hold(self) -> bool:
        """Whether each process counted its own calls one by one."""
        counts = Counter(row[0] for row in self.lines("call"))
        return all(
            [int(row[2]) for row in self.lines("call") if row[0] == process] == list(range(1, count + 1))
            for process, count in counts.items()
        )

    @contextmanager
    def another_evaluator(self) -> Iterator[None]:
        """`fleethook worker evaluator` beside the one of `up`."""
        command = [sys.executable, "-P", "-m", "workers", "worker", "evaluator"]
        with (self.folder / "worker.log").open("wb") as output:
            worker = subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=output, stderr=output)
            try:
                yield
            finally:
                worker.terminate()
                worker.wait()


@pytest.mark.req("G-11", "G-15", "G-14")
def test_a_count_holds_under_load_over_a_reload_a_killed_evaluator_and_a_second_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    with up(world.environment, tmp_path, tmp_path / "up.log"):
        wait_until(lambda: bool(world.lines("load")), "the plugin is loaded")
        used = world.check("reloaded", asyncio.run(world.load("reloaded", between="reload")))
        assert (len(used), len(world.lines("load"))) == (2, 2), "there is one instance, before and after the reload"
        verdicts = asyncio.run(world.load("killed", between="kill"))
        # A call that was under way when its evaluator was killed is made again, and each agent has one call at a time.
        used = world.check("killed", verdicts, most_again=AGENTS)
        assert (len(used), len(world.lines("load"))) == (2, 3)
        with world.another_evaluator():
            used = world.check("two", asyncio.run(world.load("two", instances=2)))
            assert len(used) == 2, "both evaluators took part, each with an instance of its own"
        assert world.own_counts_hold()
