"""The hook command asks a gateway as it asks Redis (issue 12, item 2): same answers, retries, spool and failure policy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.agents import find
from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.events import SOURCES
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import write_answer_file
from bus.shim.spool import drain, spool_status
from bus.system.directories import directories
from tests.shim_kit import Proxy
from tests.support import chosen_shim
from tests.support.examples import sample
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.gateway import Gateway, payloads, without_ids
from tests.support.gateway_agent import GatewayAgent
from tests.support.waiting import PATIENCE, wait_until
from workers.admin.agent_setup import GATEWAY_TOKEN, agent_only_gateway, agent_only_url, answers_for
from workers.admin.doctor.gateway import gateway_checks
from workers.admin.doctor.rights import rights_checks

pytestmark = [pytest.mark.flow, pytest.mark.req("B-02", "B-08"), pytest.mark.usefixtures("each_shim")]

HOOKS = """
version: 1
guards: {destructive-commands: true}
hooks:
  - {id: deny, on: tool:pre_execute, when: event.session == "deny", rule: {decision: deny, reason: Not on Fridays}}
  - {id: ask, on: '*', when: event.session == "ask", rule: {decision: ask, reason: It is shared}}
  - id: review
    on: task:completed
    command: echo "not yet reviewed" >&2; exit 2
  - id: slow
    on: tool:pre_execute
    when: event.session == "slow"
    timeout: 20
    command: |
      echo started >> STARTED; sleep 2.5; echo '{"decision": "deny", "reason": "took its time"}'
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    """A fleet for each hook command, since tests find their events by their sessions."""
    with fleet(tmp_path_factory.mktemp("gateway"), "evaluator") as one:
        yield one


@pytest.fixture(scope="module", autouse=True)
def hooks(world: Fleet, gateway: Gateway) -> None:
    assert gateway.port
    world.publish_hooks(HOOKS.replace("STARTED", str(world.folder / "started")))


@pytest.fixture
def claude(world: Fleet, gateway: Gateway, tmp_path: Path) -> GatewayAgent:
    return GatewayAgent(world, "claude", tmp_path, f"unix://{gateway.socket}")


@contextmanager
def stopped(world: Fleet, kind: str) -> Iterator[None]:
    """The processes of one kind do nothing meanwhile."""
    pids = [worker.process.pid for worker in world.workers if worker.kind == kind and worker.runs()]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_every_agent_hears_the_same_bytes_by_redis_and_by_gateway(
    world: Fleet, gateway: Gateway, tmp_path: Path, each_shim: str
) -> None:
    """For every agent and event that it waits for, over the unix socket; every eleventh over TCP with a token too.

    Of the events that are only announced, whose answer is always empty, there is one of each agent. One hook command has
    all of these; the other one, whose bytes tests/golden/test_conformance.py compares, a sample of them.
    """
    token = gateway.token("hook-commands")
    cases = [(agent, *case) for agent in SOURCES for case in dict(payloads(agent)).items()]
    waits = [case for case in cases if find(case[0]).capabilities[case[1]].waits]
    announced = {case[0]: case for case in cases if not find(case[0]).capabilities[case[1]].waits}
    assert len(waits) > 150
    assert len(announced) > 8
    cases = [*waits, *announced.values()]
    if each_shim != chosen_shim.USUAL:
        cases = [*sample(cases)]
    doors = {
        name: {agent: GatewayAgent(world, agent, tmp_path / agent, url, token) for agent in SOURCES}
        for name, url in (("redis", ""), ("unix", f"unix://{gateway.socket}"), ("tcp", gateway.url))
    }

    def answers(number: int) -> list[HookAnswer]:
        agent, native, payload = cases[number]
        names = list(doors) if number % 11 == 0 else ["redis", "unix"]
        return [answer(doors[name][agent], native, payload) for name in names]

    def answer(agent: GatewayAgent, native: str, payload: bytes) -> HookAnswer:
        for _ in range(3):  # where this machine is so busy that the policy answered, it is asked again
            found = without_ids(agent.hook(native, payload))
            if b"no hook answered" not in found.stdout + found.stderr:
                break
        return found

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(answers, range(len(cases))))
    differ = {case[:2]: row for case, row in zip(cases, found, strict=True) if any(one != row[0] for one in row)}
    assert differ == {}
    assert any(row[0].exit_code == 2 for row in found), "a block by exit code is among them"
    spools = [one.spool for agents in doors.values() for one in agents.values()]
    wait_until(lambda: not any(spool_status(spool).records for spool in spools), "nothing waits on the disk")


@pytest.mark.parametrize("session", ["deny", "ask"])
def test_what_a_rule_decides_arrives(claude: GatewayAgent, session: str) -> None:
    assert json.loads(claude.call(session).stdout)["hookSpecificOutput"]["permissionDecision"] == session


def test_an_announced_event_is_on_record_with_its_folder_and_parent(claude: GatewayAgent, world: Fleet) -> None:
    payload = json.dumps({"session_id": "announced", "message": "größer"}).encode()
    assert claude.hook("Notification", payload) == HookAnswer()
    wait_until(lambda: world.events(session="announced"), "the event is on record")
    (seen,) = world.events(session="announced")
    assert (seen.event.type, seen.event.source, seen.event.host) == ("notification", "claude", HOST)


def test_a_hook_that_declares_more_time_than_the_budget_gets_it(world: Fleet, gateway: Gateway, tmp_path: Path) -> None:
    agent = GatewayAgent(world, "claude", tmp_path, f"unix://{gateway.socket}", budget=1.0)
    began = time.monotonic()
    answer = agent.call("slow")
    assert b"took its time" in answer.stdout, answer
    assert time.monotonic() - began > 2.5


def test_without_a_gateway_the_call_falls_back_at_once_and_its_event_waits_on_the_disk(
    world: Fleet, gateway: Gateway, tmp_path: Path
) -> None:
    agent = GatewayAgent(world, "claude", tmp_path, f"unix://{tmp_path}/gateway.sock")
    assert b"nothing blocked" in agent.call("away").stdout
    assert agent.hook("Notification", b'{"session_id": "away", "message": "hi"}') == HookAnswer()
    assert spool_status(agent.spool).records == 2
    (tmp_path / "gateway.sock").symlink_to(gateway.socket)
    assert drain(str(agent.file)) == (2, 0)
    wait_until(lambda: len(world.events(session="away")) == 2, "both have arrived")
    asked = [seen for seen in world.events(session="away") if seen.event.type == "tool:pre_execute"]
    assert asked[0].fallback.startswith("gateway away: ")


def test_the_next_call_after_an_outage_sends_what_waited(world: Fleet, gateway: Gateway, tmp_path: Path) -> None:
    agent = GatewayAgent(world, "claude", tmp_path, f"unix://{tmp_path}/gateway.sock")
    agent.hook("Notification", b'{"session_id": "later", "message": "hi"}')
    (tmp_path / "gateway.sock").symlink_to(gateway.socket)
    assert json.loads(agent.call("deny").stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    wait_until(lambda: world.events(session="later"), "the drainer has sent the event")
    wait_until(lambda: not spool_status(agent.spool).records, "the spool is empty")


def test_a_gateway_that_hangs_costs_seconds_once_and_a_moment_from_then_on(claude: GatewayAgent, world: Fleet) -> None:
    with stopped(world, "gateway"):
        began = time.monotonic()
        assert b"nothing blocked" in claude.call("hangs").stdout
        first = time.monotonic() - began
        began = time.monotonic()
        assert b"nothing blocked" in claude.call("hangs").stdout
        second = time.monotonic() - began
    assert second < first < 6, (first, second)
    assert second < 1.5
    assert json.loads(claude.call("deny").stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.one_shim
def test_without_an_evaluator_the_failure_policy_answers_and_is_on_record(claude: GatewayAgent, world: Fleet) -> None:
    (evaluator,) = [one for one in world.workers if one.kind == "evaluator" and one.runs()]
    evaluator.process.terminate()
    evaluator.process.wait(PATIENCE)
    try:
        wait_until(lambda: b"nothing blocked" in claude.call("nobody").stdout, "the evaluator's heartbeat ends")
        reports = [seen for seen in world.events() if seen.of and seen.fallback == "no evaluator"]
        assert reports
        assert spool_status(claude.spool).records == 0
    finally:
        world.start("evaluator")


def test_calls_whose_connection_breaks_while_they_wait_ask_again_and_no_hook_runs_twice(
    world: Fleet, gateway: Gateway, tmp_path: Path
) -> None:
    """A gateway that dies breaks its connections; the calls go to the next one, with the same event."""
    started = world.folder / "started"
    started.write_text("")
    with Proxy(gateway.socket) as proxy, ThreadPoolExecutor(3) as pool:
        agent = GatewayAgent(world, "claude", tmp_path, f"http://127.0.0.1:{proxy.port}", gateway.token("broken"))
        calls = [pool.submit(agent.call, "slow") for _ in range(3)]
        wait_until(lambda: len(started.read_text().split()) == 3, "the hooks run")
        proxy.cut()
        answers = [call.result() for call in calls]
        assert proxy.connections >= 6
    assert all(b"took its time" in answer.stdout for answer in answers), answers
    assert len(started.read_text().split()) == 3, "each hook ran once"


def test_a_refused_token_is_a_loud_fallback(world: Fleet, gateway: Gateway, tmp_path: Path) -> None:
    agent = GatewayAgent(world, "claude", tmp_path, gateway.url, "fht_wrong")
    assert b"nothing blocked" in agent.call("refused").stdout
    assert spool_status(agent.spool).records == 1
    assert b"gateway refused: token-invalid" in agent.spool.read_bytes()


def test_an_address_needs_a_token_and_no_redis_credentials_are_in_the_file(
    world: Fleet, gateway: Gateway, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        GatewayAgent(world, "claude", tmp_path, gateway.url)
    agent = GatewayAgent(world, "claude", tmp_path, f"unix://{gateway.socket}")
    assert b"auth\t\t\n" in agent.file.read_bytes()
    assert str(world.server.socket).encode() not in agent.file.read_bytes()


@pytest.mark.one_shim
def test_doctor_tells_whether_the_gateway_answers(world: Fleet, gateway: Gateway, tmp_path: Path) -> None:
    """On a machine that has agents and neither a bus nor Redis credentials."""
    places = directories({"FLEETHOOK_HOME": str(tmp_path)})
    for url, token, status, text in (
        (gateway.url, gateway.token("doctor"), "ok", "may publish at the gateway"),
        (gateway.url, "fht_wrong", "fail", "token-invalid"),
        (f"unix://{tmp_path}/nothing.sock", "", "fail", "cannot be reached: No such file"),
    ):
        settings = Settings(url=url)
        environ = {GATEWAY_TOKEN: token}
        assert agent_only_url(settings, places, environ) == url
        answers, warnings = answers_for("claude", settings, places, closed=False, environ=environ)
        assert warnings == ()
        write_answer_file(places.answer_file("claude"), answers)
        (rights,) = asyncio.run(rights_checks("claude", places))
        assert (rights.status, text in rights.what) == (status, True), rights
        server = agent_only_gateway(settings, places, environ)
        assert server is not None
        (found,) = gateway_checks(server, ("claude",), places)
        assert (found.id, found.status) == ("server", status)
    wanted = agent_only_url(Settings(url=f"unix://{places.gateway_socket}"), places, {})
    assert wanted == "", "a gateway of this machine's own is no reason to call it a machine without a bus"


@pytest.mark.one_shim
@pytest.mark.parametrize(
    "body",
    [
        b"nothing of this form",
        b"*3\r\n$6\r\nevents\r\n$2\r\nid\r\n$2\r\ne1\r\n*1\r\n$3\r\nfoo\r\n",
        b"*5\r\n$6\r\nevents\r\n$2\r\nid\r\n$2\r\ne1\r\n$5\r\nreply\r\n$4\r\nfh:x\r\n",
        b"*5\r\n$6\r\nevents\r\n$2\r\nid\r\n$2\r\ne1\r\n$6\r\nsource\r\n$3\r\na\nb\r\n",
    ],
)
def test_entries_of_another_form_are_refused(gateway: Gateway, body: bytes) -> None:
    with gateway.unix() as client:
        response = client.post("/v1/entries", content=body)
    assert (response.status_code, response.json()["code"]) == (400, "entry-invalid")


@pytest.mark.one_shim
def test_a_caller_that_hangs_up_ends_its_wait(world: Fleet, gateway: Gateway) -> None:
    """The gateway then gives its connection to Redis back at once, and the record says why nobody got the answer."""
    body = json.dumps({"session_id": "slow", "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/"}).encode()
    head = (
        f"POST /v1/hooks/claude/PreToolUse HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    started = world.folder / "started"
    started.write_text("")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(gateway.socket))
        sock.sendall(head + body)
        wait_until(started.read_text, "the hook runs")
    wait_until(lambda: any("hung up" in seen.fallback for seen in world.events()), "the wait has ended")
