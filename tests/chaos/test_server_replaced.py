"""A server without persistence that is killed and replaced by an empty one, with real evaluators: each guarded call is denied.

The moments: before a call, while a request waits, while a slow hook runs, and before the workers are back.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from bus.events import Event
from bus.wire.connections import sync_client
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.gateway_agent import GatewayAgent
from tests.support.waiting import BUDGET, PATIENCE, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.req("X-06", "X-10"), pytest.mark.usefixtures("each_shim")]

HOOKS = """
hooks:
  - id: no-rm
    on: tool:pre_execute
    rule: {decision: deny, reason: No rm here, commands: [{program: [rm]}]}
  - id: slow
    on: tool:pre_execute
    when: event.session == "slow"
    timeout: 100
    command: "echo x >> RAN; while [ ! -e GO ]; do sleep 0.05; done; echo 'Not yet' >&2; exit 2"
"""


class House:
    """A fleet with its callers: what each was told of `rm -rf /`."""

    def __init__(self, world: Fleet, gateway: Gateway) -> None:
        self.world, self.gateway = world, gateway
        self.agent, self.quick = world.agent(), world.agent("quick", budget=2.0)
        # By its socket: tokens are data of the server, so an empty one has none.
        self.remote = GatewayAgent(world, "claude", world.folder / "remote", f"unix://{gateway.socket}")

    def call(self, by: str, session: str = "s", command: str = "rm -rf /") -> str:
        """The answer to one call; `by` names the way that it takes."""
        data = {"session_id": session, "cwd": "/", "tool_name": "Bash", "tool_input": {"command": command}}
        payload = {"hook_event_name": "PreToolUse", **data}
        if by == "hook command":
            return self.agent.hook("PreToolUse", payload).stdout.decode()
        if by == "quick hook command":
            return self.quick.hook("PreToolUse", payload).stdout.decode()
        if by == "hook command by gateway":
            return self.remote.call(session, command).stdout.decode()
        if by == "gateway":
            with self.gateway.unix() as client:
                return client.post("/v1/hooks/claude/PreToolUse", json=payload).text
        with self.world.bus().sync() as bus:
            event = Event(type="tool:pre_execute", tool="bash", session=session, input={"command": command}, cwd="/")
            verdict = bus.request(event, budget=BUDGET)
            return f"{verdict.decision} {verdict.reason} {verdict.fallback}"

    def admin(self, work: Callable[[Any], Any]) -> Any:
        with sync_client(self.world.url("admin")) as client:
            return work(client)

    def waits(self) -> bool:
        """Whether a request waits for an evaluator."""
        return bool(self.admin(lambda client: client.xlen(self.world.keys("requests"))))

    def was_asked(self) -> bool:
        """Whether this server was sent a request."""
        return "cmdstat_xadd" in self.admin(lambda client: client.info("commandstats"))

    def notes(self) -> list[bytes]:
        """The notes that slow hooks run."""
        return list(self.admin(lambda client: client.scan_iter(match=f"{self.world.keys('reply')}:*:wait", count=1000)))

    def replace(self) -> None:
        self.world.server.kill()
        self.world.server.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The evaluators stand still meanwhile."""
        evaluators = [one.process for one in self.world.workers if one.kind == "evaluator"]
        for process in evaluators:
            os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in evaluators:
                os.kill(process.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("replaced")
    hooks = HOOKS.replace("RAN", str(folder / "ran")).replace("GO", str(folder / "go"))
    with fleet(folder, "evaluator", "evaluator", hooks=hooks) as world:
        yield House(world, start_gateway(world))


WAYS = ("hook command", "hook command by gateway", "gateway", "program")


@pytest.mark.slow  # how soon the evaluators are back is a promise in seconds
@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("moment", ["before the call", "while it waits", "before the workers are back"])
def test_a_call_is_denied(house: House, by: str, moment: str) -> None:
    house.world.wait_alive("evaluator")
    assert "No rm here" in house.call(by)
    with ThreadPoolExecutor(1) as pool:
        if moment == "before the call":
            house.replace()
            asked: Future[str] = pool.submit(house.call, by)
        else:
            with house.stopped():
                if moment == "while it waits":
                    asked = pool.submit(house.call, by)
                    wait_until(house.waits, "it is asked")
                    house.replace()
                else:
                    house.replace()
                    asked = pool.submit(house.call, by)
                    wait_until(house.was_asked, "the empty server is asked")
        assert "No rm here" in asked.result(PATIENCE * 2)


@pytest.mark.slow  # how soon the evaluators are back is a promise in seconds
def test_a_slow_hook_denies_though_the_server_was_replaced_while_it_ran(house: House) -> None:
    house.world.wait_alive("evaluator")
    ran, go = house.world.folder / "ran", house.world.folder / "go"
    go.unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(house.call, "quick hook command", "slow", "ls")
        try:
            wait_until(ran.exists, "the hook runs")
            # Its budget is over: the note keeps it waiting.
            wait_until(house.notes, "the call waits for the hook")
            house.replace()
            wait_until(house.notes, "an evaluator says again that the hook runs")
        finally:
            go.touch()
        assert "Not yet" in asked.result(PATIENCE * 2)
