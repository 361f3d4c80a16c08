"""OpenCode's plugin asks the server by a connection that stays open, or else the gateway, or starts the hook command (X-14)."""

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
from bus.events import Event
from bus.shim.answer_file import write_answer_file
from bus.system.directories import directories
from bus.wire.acl import user_name
from tests.support.fleet import HOST, NAMESPACE, Fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.waiting import BUDGET, PATIENCE, wait_until
from workers.admin.agent_setup import SHIM_URL, answers_for

RUNTIME = shutil.which("node") or shutil.which("bun")
HOOKS = "version: 1\nguards: {destructive-commands: true}\n"
DRIVER = Path(__file__).parents[2] / "support" / "opencode_driver.mjs"

pytestmark = [
    pytest.mark.req("B-02", "X-14"),
    pytest.mark.skipif(RUNTIME is None, reason="needs node or bun on PATH: OpenCode's plugins are JavaScript"),
]


class OpenCode:
    """OpenCode with the plugin that `install` writes; each run of its hook command is a line in `runs`.

    With `direct=False`, the server's socket is there for the hook command only.
    """

    def __init__(
        self,
        world: Fleet,
        gateway: Gateway | None,
        folder: Path,
        namespace: str = NAMESPACE,
        *,
        direct: bool = True,
        later: Sequence[str] = (),
    ) -> None:
        places = directories({"FLEETHOOK_HOME": str(folder / "home")})
        settings = Settings(namespace=namespace, host=HOST, budget=BUDGET)
        socket = folder / "redis.sock"
        url = world.url("shim").replace(str(world.server.socket), str(socket))
        answers, _ = answers_for("opencode", settings, places, closed=False, environ={SHIM_URL: url})
        write_answer_file(places.answer_file("opencode"), answers)
        if gateway is not None:
            (folder / "gateway.sock").symlink_to(gateway.socket)  # beside the server's, as in a runtime folder
        link = f"ln -s {world.server.socket} {socket}"
        if direct:
            socket.symlink_to(world.server.socket)
        self.runs = folder / "runs"
        self.runs.touch()
        python = folder / "python"
        run = f'{sys.executable} "$@"'
        run = f"exec {run}" if direct else f"{link}\n{run}\ncode=$?\nrm {socket}\nexit $code"
        python.write_text(f'#!/bin/sh\necho "$5" >> {self.runs}\n{run}\n')
        python.chmod(0o755)
        self.plugin = folder / "fleethook.js"
        events = [native for native in opencode.CAPABILITIES if native not in opencode.QUIET]
        self.plugin.write_text(opencode.plugin_text(str(python), places.answer_file("opencode"), events, later=later))

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


def assert_recorded(world: Fleet, calls: str, count: int) -> None:
    """As many events are recorded of the calls whose ids start so."""

    def found() -> list[Event]:
        rows = [row.event for row in world.events() if row.event.source == "opencode"]
        return [event for event in rows if (event.call or "").startswith(calls)]

    wait_until(lambda: len(found()) == count, "all are recorded")
    assert {event.host for event in found()} == {HOST}
    assert {event.session for event in found()} == {"ses_1"}


def send(number: signal.Signals, pid: int) -> Mapping[str, Any]:
    return {"hook": "signal", "input": [pid, number.name]}


@pytest.fixture(scope="module", autouse=True)
def hooks(world: Fleet) -> None:
    world.publish_hooks(HOOKS)


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


def test_no_process_is_started_while_the_server_answers(world: Fleet, tmp_path: Path) -> None:
    agent = OpenCode(world, None, tmp_path)
    calls = [step for number in range(5) for step in (before("ls", f"s{number}"), after(f"s{number}"))]
    denied = agent.play(*calls, before("rm -rf /", "s9"))[-1]
    assert "rm -rf" in denied["threw"]
    assert agent.commands() == []
    assert_recorded(world, "s", 11)


def test_a_slow_hook_runs_once_and_its_answer_counts(world: Fleet, tmp_path: Path) -> None:
    runs = tmp_path / "hook-runs"
    slow = f'command: "cat > /dev/null; echo run >> {runs}; sleep 2.5; echo too late for this >&2; exit 2"'
    world.publish_hooks(f"version: 1\nhooks:\n  - {{id: slow, on: 'tool:pre_execute', timeout: 30, {slow}}}\n")
    try:
        results = OpenCode(world, None, tmp_path).play(before("make", "w1"))
    finally:
        world.publish_hooks(HOOKS)
    assert "too late for this" in results[0]["threw"]
    assert runs.read_text().split() == ["run"]


def test_the_plugin_goes_on_where_no_hook_answers_until_one_does(world: Fleet, tmp_path: Path) -> None:
    """It reads its own file again: `worker host` changes it when a hook that answers comes into force."""
    hook = "on: 'tool:post_execute', rule: {command: [ls], decision: deny, reason: not so}"
    world.publish_hooks(f"version: 1\nhooks:\n  - {{id: judge, {hook}}}\n")
    agent = OpenCode(world, None, tmp_path, later=["tool.execute.after"])
    code = (
        "import sys, pathlib; from bus.installs.opencode import PluginFile; path = pathlib.Path(sys.argv[1]);"
        "path.write_bytes(PluginFile().waiting(path, path.read_bytes(), ['tool.execute.after']))"
    )
    waits = {"hook": "run", "input": [sys.executable, "-c", code, str(agent.plugin)]}
    try:
        told, _, judged = [result["output"] for result in agent.play(after("l1"), waits, after("l2"))]
    finally:
        world.publish_hooks(HOOKS)
    assert told["output"] == "a b\n"
    assert "not so" in judged["output"]
    assert agent.commands() == []
    assert_recorded(world, "l", 2)


def test_a_connection_that_is_cut_is_made_again(world: Fleet, tmp_path: Path) -> None:
    agent = OpenCode(world, None, tmp_path)
    code = "import redis, sys; print(redis.Redis.from_url(sys.argv[1]).execute_command('CLIENT', 'KILL', 'USER', sys.argv[2]))"
    cut = {"hook": "run", "input": [sys.executable, "-c", code, world.url("admin"), user_name("shim")]}
    results = agent.play(before("ls", "x1"), cut, before("rm -rf /", "x2"))
    assert results[1]["output"] == "1"
    assert [bool(result["threw"]) for result in results] == [False, False, True]
    assert agent.commands() == []


def test_the_gateway_is_asked_where_the_server_cannot_be(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path, direct=False)
    calls = [step for number in range(5) for step in (before("ls", f"c{number}"), after(f"c{number}"))]
    denied = agent.play(*calls, before("rm -rf /", "c9"))[-1]
    assert "rm -rf" in denied["threw"]
    assert agent.commands() == []
    assert_recorded(world, "c", 11)


def test_the_hook_command_asks_where_the_gateway_has_gone(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path, direct=False)
    killed = send(signal.SIGKILL, pid_of(world)), {"hook": "refused", "input": str(own_gateway.socket)}
    results = agent.play(before("ls", "k1"), *killed, before("rm -rf /", "k2"), before("ls", "k3"))
    assert [bool(result["threw"]) for result in results] == [False, False, False, True, False]
    assert agent.commands() == ["tool.execute.before", "tool.execute.before"]


def test_a_gateway_that_hangs_is_noticed_before_it_gets_an_event(
    world: Fleet, own_gateway: Gateway, tmp_path: Path
) -> None:
    agent = OpenCode(world, own_gateway, tmp_path, direct=False)
    pid = pid_of(world)
    try:
        results = agent.play(send(signal.SIGSTOP, pid), before("rm -rf /", "h1"))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert results[-1]["threw"]
    assert agent.commands() == ["tool.execute.before"]


def test_a_gateway_of_another_fleet_is_not_asked(world: Fleet, own_gateway: Gateway, tmp_path: Path) -> None:
    agent = OpenCode(world, own_gateway, tmp_path, namespace="another", direct=False)
    agent.play(before("ls", "n1"))
    assert agent.commands() == ["tool.execute.before"]
