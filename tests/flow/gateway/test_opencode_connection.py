"""OpenCode's plugin asks the gateway of its machine by a connection that stays open, or else starts the hook command (X-14)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bus.agents import opencode
from bus.config.settings import Settings
from bus.shim.answer_file import write_answer_file
from bus.system.directories import directories
from tests.support.fleet import HOST, NAMESPACE, Fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.waiting import BUDGET, PATIENCE, wait_until
from workers.admin.agent_setup import SHIM_URL, answers_for

RUNTIME = shutil.which("node") or shutil.which("bun")
DRIVER = Path(__file__).parents[2] / "support" / "opencode_driver.mjs"

pytestmark = [
    pytest.mark.req("B-02", "X-14"),
    pytest.mark.skipif(RUNTIME is None, reason="needs node or bun on PATH: OpenCode's plugins are JavaScript"),
]


class OpenCode:
    """OpenCode with the plugin that `install` writes; each run of its hook command is a line in `runs`."""

    def __init__(self, world: Fleet, gateway: Gateway, folder: Path, namespace: str = NAMESPACE) -> None:
        places = directories({"FLEETHOOK_HOME": str(folder / "home")})
        settings = Settings(namespace=namespace, host=HOST, budget=BUDGET)
        answers, _ = answers_for("opencode", settings, places, closed=False, environ={SHIM_URL: world.url("shim")})
        write_answer_file(places.answer_file("opencode"), answers)
        beside = Path(world.server.socket).with_name("gateway.sock")  # as in a runtime folder
        beside.unlink(missing_ok=True)
        beside.symlink_to(gateway.socket)
        self.runs = folder / "runs"
        self.runs.touch()
        python = folder / "python"
        python.write_text(f'#!/bin/sh\necho "$5" >> {self.runs}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.plugin = folder / "fleethook.js"
        events = [native for native in opencode.CAPABILITIES if native not in opencode.QUIET]
        self.plugin.write_text(opencode.plugin_text(str(python), places.answer_file("opencode"), events))

    def play(self, *steps: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        script = json.dumps({"plugin": str(self.plugin), "directory": "/srv", "steps": steps})
        assert RUNTIME is not None
        environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
        done = subprocess.run(
            [RUNTIME, str(DRIVER)],
            input=script,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        results: Sequence[Mapping[str, Any]] = json.loads(done.stdout)["results"]
        return results

    def commands(self) -> list[str]:
        """The events for which the hook command ran."""
        return self.runs.read_text().split()


def before(command: str, call: str) -> Mapping[str, Any]:
    given = {"tool": "bash", "sessionID": "ses_1", "callID": call}
    return {"hook": "tool.execute.before", "input": given, "output": {"args": {"command": command}}}


def after(call: str) -> Mapping[str, Any]:
    given = {"tool": "bash", "sessionID": "ses_1", "callID": call, "args": {"command": "ls"}}
    return {"hook": "tool.execute.after", "input": given, "output": {"title": "ls", "output": "a b\n"}}


def send(number: signal.Signals, pid: int) -> Mapping[str, Any]:
    return {"hook": "signal", "input": [pid, number.name]}


@pytest.fixture(scope="module", autouse=True)
def hooks(world: Fleet) -> None:
    world.publish_hooks("version: 1\nguards: {destructive-commands: true}\n")


@pytest.fixture
def own_gateway(world: Fleet) -> Gateway:
    """A gateway that the test may kill."""
    for worker in world.workers:
        if worker.kind == "gateway" and worker.runs():
            worker.process.kill()
            worker.process.wait()
    return start_gateway(world)


def pid_of(world: Fleet) -> int:
    return next(worker.process.pid for worker in world.workers if worker.kind == "gateway" and worker.runs())


def test_no_process_is_started_while_the_gateway_answers(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path)
    calls = [step for number in range(5) for step in (before("ls", f"c{number}"), after(f"c{number}"))]
    denied = agent.play(*calls, before("rm -rf /", "c9"))[-1]
    assert "rm -rf" in denied["threw"]
    assert agent.commands() == []
    wait_until(lambda: len([row for row in world.events() if row.event.source == "opencode"]) == 11, "all are recorded")
    recorded = [row.event for row in world.events() if row.event.source == "opencode"]
    assert {event.host for event in recorded} == {HOST}
    assert {event.session for event in recorded} == {"ses_1"}


def test_the_hook_command_asks_where_the_gateway_has_gone(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path)
    killed = send(signal.SIGKILL, pid_of(world)), {"hook": "refused", "input": str(own_gateway.socket)}
    results = agent.play(before("ls", "k1"), *killed, before("rm -rf /", "k2"), before("ls", "k3"))
    assert [bool(result["threw"]) for result in results] == [False, False, False, True, False]
    assert agent.commands() == ["tool.execute.before", "tool.execute.before"]


def test_a_gateway_that_hangs_is_noticed_before_it_gets_an_event(
    world: Fleet, own_gateway: Gateway, tmp_path: Path
) -> None:
    agent = OpenCode(world, own_gateway, tmp_path)
    pid = pid_of(world)
    try:
        results = agent.play(send(signal.SIGSTOP, pid), before("rm -rf /", "h1"))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert results[-1]["threw"]
    assert agent.commands() == ["tool.execute.before"]


def test_a_gateway_of_another_fleet_is_not_asked(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path, namespace="another")
    agent.play(before("ls", "n1"))
    assert agent.commands() == ["tool.execute.before"]
