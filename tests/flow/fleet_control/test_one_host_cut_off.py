"""One host loses the server and the others do not: what it knew of stops stays in force there, and nothing else (X-12)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from bus.agents import claude
from bus.config.settings import Settings
from bus.shim.main import FLAG
from bus.system.directories import Directories, directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.flow.fleet_control.conftest import Command
from tests.flow.fleet_control.test_stop import call, decision
from tests.support import chosen_shim
from tests.support.beside import beside
from tests.support.fleet import NAMESPACE, Agent, Fleet, fleet
from tests.support.gateway import PLAIN, Gateway
from tests.support.gobby.daemon import Daemon, configure
from tests.support.held import HOOKS
from tests.support.proxy import Proxy
from tests.support.servers import free_port
from tests.support.waiting import wait_until
from workers.admin.agent_setup import SHIM_URL, answers_for, connect, installed, plan

pytestmark = [pytest.mark.flow, pytest.mark.req("X-12"), pytest.mark.usefixtures("each_shim"), pytest.mark.one_shim]

FAR = "far"
REASON = "the far disk is full"


class FarHost(NamedTuple):
    """A host with an agent, a host worker and a gateway. They reach the server through one proxy, which can be closed."""

    world: Fleet
    line: Proxy
    places: Directories
    agent: Agent
    daemon: Daemon

    def cut(self) -> None:
        self.line.loop.call_soon_threadsafe(self.line.away)

    def heal(self) -> None:
        self.line.loop.call_soon_threadsafe(self.line.back)

    @property
    def flag(self) -> Path:
        path = self.agent.places.answer_file("claude")
        return path.with_name(path.name + FLAG)

    def client(self) -> httpx.Client:
        """A client of this host's gateway."""
        transport = httpx.HTTPTransport(uds=str(self.places.gateway_socket), verify=PLAIN)
        return httpx.Client(base_url="http://fleethook", transport=transport, timeout=60)

    def said(self) -> dict[str, Any]:
        """What each way to the gateway says of a call: the decision, in its own words."""
        gobby = self.daemon.execute("claude", "pre-tool-use", call())
        with self.client() as client:
            http = json.loads(client.post("/v1/hooks/claude/PreToolUse", json=call()).text or "{}")
            event = {"type": "tool:pre_execute", "tool": "bash", "source": "claude", "session": "s1", "host": FAR}
            program = client.post("/v1/requests", json=event).json()
        own = http.get("hookSpecificOutput", {})
        return {
            "http": (own.get("permissionDecision", ""), REASON in own.get("permissionDecisionReason", "")),
            "program": (program["decision"], REASON in program.get("reason", "")),
            "gobby": (gobby["decision"], REASON in gobby.get("stopReason", "")),
        }


DENIED = {"http": ("deny", True), "program": ("deny", True), "gobby": ("block", True)}
PASSED = {"http": ("", False), "program": ("abstain", False), "gobby": ("approve", False)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("control"), "evaluator", "dispatcher", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def far(world: Fleet) -> Iterator[FarHost]:
    home = world.folder / "far"
    places = directories({"FLEETHOOK_HOME": str(home)})
    with beside(lambda: Proxy(world.url("admin"))) as line:

        def url(role: Any) -> str:
            """The server by the line."""
            return world.url(role).replace(str(world.server.socket), line.url.removeprefix("unix://").partition("?")[0])

        settings = Settings(namespace=NAMESPACE, host=FAR, budget=2.5)
        answers, _ = answers_for("claude", settings, places, closed=False, environ={SHIM_URL: url("shim")})
        events = [native for native in claude.CAPABILITIES if native not in claude.NEVER]
        change = plan(
            "claude", "user", places, closed=False, events=events, home=home, project=home, native=chosen_shim.native
        )
        connect(change, answers, places)
        (found,) = installed("claude", home=home, project=home)
        port = free_port()
        daemon = configure(world, Gateway(world, port))
        shutil.move(world.places.config / "fleethook.yaml", places.config / "fleethook.yaml")
        there = {"FLEETHOOK_HOME": str(home), "HOME": str(home), "FLEETHOOK_HOST": FAR}
        there |= {"FLEETHOOK_REDIS_URL": url("worker"), "FLEETHOOK_GATEWAY_PORT": str(port)}
        # A gateway tries a server that is away for a fifth of its budget.
        world.start("host", "gateway", FLEETHOOK_BUDGET="5s", **there)
        daemon.wait_open()
        yield FarHost(world, line, places, Agent(found.commands, places), daemon)


async def _kept_there(connections: Connections, keys: Keys) -> bytes | None:
    """The ids of the stops that the far agent's hook command is known to keep."""
    with connections.lease() as connection:
        (stops,) = await connection.exchange([("HGET", keys("reached"), f"{FAR}\nclaude")])
    found: bytes | None = stops
    return found


def test_a_stop_before_the_cut_stays_and_a_resume_reaches_the_host_when_the_line_is_back(
    far: FarHost, claude: Agent, command: Command
) -> None:
    wait_until(lambda: far.said() == PASSED, "calls pass")
    assert decision(far.agent.hook("PreToolUse", call())) == ""
    command("stop", "--reason", REASON)
    wait_until(far.flag.exists, "the worker of the host keeps the stop, without any call")
    wait_until(lambda: far.said() == DENIED, "its gateway knows the stop")
    wait_until(lambda: far.world.ask(partial(_kept_there, keys=far.world.keys)), "it is on record")
    assert f"claude on {FAR}" not in command("stop", "--list").err
    far.cut()
    assert far.said() == DENIED
    denied = far.agent.hook("PreToolUse", call())
    assert decision(denied) == "deny"
    assert REASON in json.loads(denied.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
    lifted = command("resume", "--json").json
    assert {"host": FAR, "source": "claude"} in lifted["kept"]
    assert decision(claude.hook("PreToolUse", call())) == "", "another host goes on"
    assert decision(far.agent.hook("PreToolUse", call())) == "deny", "it has not heard of the resume"
    assert far.said() == DENIED
    assert f"claude on {FAR}" in command("stop", "--list").err
    far.heal()
    wait_until(lambda: not far.flag.exists(), "its worker has heard of it")
    wait_until(lambda: far.said() == PASSED, "its gateway too")
    assert decision(far.agent.hook("PreToolUse", call())) == ""
    wait_until(lambda: f"claude on {FAR}" not in command("stop", "--list").err, "nobody keeps the stop")


def test_a_stop_after_the_cut_says_that_it_has_not_reached_the_host(
    far: FarHost, claude: Agent, command: Command
) -> None:
    far.agent.hook("PreToolUse", call())
    far.cut()
    command("stop", "--reason", REASON)
    wait_until(lambda: f"claude on {FAR} (last event" in command("stop", "--list").err, "it is not reached")
    assert decision(claude.hook("PreToolUse", call())) == "deny"
    assert decision(far.agent.hook("PreToolUse", call())) == "", "its failure policy lets it pass"
    far.heal()
    wait_until(far.flag.exists, "its worker has heard of the stop")
    assert decision(far.agent.hook("PreToolUse", call())) == "deny"
    wait_until(lambda: far.said() == DENIED, "its gateway denies")
    wait_until(lambda: f"claude on {FAR} (last event" not in command("stop", "--list").err, "it is reached")
