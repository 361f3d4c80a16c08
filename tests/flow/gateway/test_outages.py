"""Gateways and Redis die under load: nothing is lost, nothing is answered twice (issue 12, "What it must show")."""

from __future__ import annotations

import itertools
import json
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.ids import event_id
from bus.shim import MAX_STDIN
from bus.shim.spool import spool_status
from tests.shim_kit import Proxy
from tests.support.balancer import Balancer
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import PLAIN, Gateway
from tests.support.gateway_agent import GatewayAgent
from tests.support.live import LiveClient, live
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until
from workers.admin.doctor.gateway import gateway_rights_check

pytestmark = [pytest.mark.flow, pytest.mark.req("B-02", "G-02", "G-05"), pytest.mark.usefixtures("each_shim")]

CALLS = 200
SHIM_CALLS = 30
KILLS = 3
HOOKS = """
version: 1
hooks:
  - {id: deny, on: tool:pre_execute, when: event.session == "deny", rule: {decision: deny, reason: Not on Fridays}}
  - id: once
    on: tool:pre_execute
    when: event.session == "load"
    command: |
      cat > /dev/null; echo "$FLEETHOOK_PARENT" >> RAN; echo '{"decision": "deny", "reason": "it ran"}'
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("outages")
    hooks = HOOKS.replace("RAN", str(folder / "ran"))
    with fleet(folder, "evaluator", "evaluator", hooks=hooks, persistent=True) as one:
        yield one


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of `localhost` that signs itself, with its key."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert")]
    subprocess.run(words, check=True, capture_output=True)
    return tmp_path / "cert"


def test_the_hook_command_reaches_a_gateway_by_https_with_a_private_authority(
    world: Fleet, gateway: Gateway, certificate: Path, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    token = gateway.token("by-tls")
    with Proxy(gateway.socket, tls=context) as proxy:
        base = f"https://localhost:{proxy.port}"
        right = GatewayAgent(world, "claude", tmp_path / "right", f"{base}?ssl_ca_certs={certificate}", token)
        assert b"Not on Fridays" in right.call("deny").stdout
        assert not spool_status(right.spool).records
        assert gateway_rights_check("claude", right.file).status == "ok"
        for name, url, bearer in (
            ("unknown authority", base, token),
            ("another name", f"https://127.0.0.1:{proxy.port}?ssl_ca_certs={certificate}", token),
            ("another token", f"{base}?ssl_ca_certs={certificate}", "fht_wrong"),
        ):
            wrong = GatewayAgent(world, "claude", tmp_path / name, url, bearer)
            assert b"nothing blocked" in wrong.call("deny").stdout, name
            assert spool_status(wrong.spool).records == 1, "the event waits"
            assert gateway_rights_check("claude", wrong.file).status == "fail"


def test_a_payload_of_16_mib_is_judged_whole_by_the_hook_command(
    world: Fleet, gateway: Gateway, tmp_path: Path
) -> None:
    agent = GatewayAgent(world, "claude", tmp_path, f"unix://{gateway.socket}")
    call: dict[str, Any] = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/", "session_id": "deny"}
    text = json.dumps({**call, "tool_input": {"command": "echo ", "pad": ""}})
    large = text.replace('"pad": ""', f'"pad": "{"x" * (MAX_STDIN - len(text))}"').encode()
    assert len(large) == MAX_STDIN
    answer = agent.hook("PreToolUse", large).stdout
    assert b"Not on Fridays" in answer, answer


class Gateways:
    """Two gateways of one fleet, as on two machines. They are killed (-9) and started again in turn.

    After a kill all callers are at the other gateway, so the next kill cuts their calls.
    """

    def __init__(self, world: Fleet) -> None:
        self.world, self._turns = world, itertools.cycle(range(2))
        self.ports = [free_port(), free_port()]
        self._workers = [self._start(number) for number in range(2)]

    def _start(self, number: int) -> Any:
        home = self.world.folder / f"machine-{number}"
        home.mkdir(exist_ok=True)
        more = {"FLEETHOOK_HOME": str(home), "FLEETHOOK_GATEWAY_PORT": str(self.ports[number])}
        return self.world.start("gateway", **more)[0]

    def kill_one(self) -> None:
        number = next(self._turns)
        self._workers[number].process.kill()
        self._workers[number].process.wait()
        self._workers[number] = self._start(number)

    def end(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
            worker.process.wait(PATIENCE)


def http_call(client: httpx.Client, base: str, number: int) -> tuple[str, str, int]:
    """One call until it is answered: its id, the answer, and how often it was sent."""
    name = event_id()
    call = {"session_id": "load", "tool_name": "Bash", "cwd": "/", "tool_input": {"command": f"echo {number}"}}
    for attempt in range(1, 200):
        try:
            response = client.post(f"{base}/v1/hooks/claude/PreToolUse", json=call, headers={"Idempotency-Key": name})
        except httpx.TransportError:
            continue
        if response.status_code == 200 and "fleethook-fallback" not in response.headers:
            return name, response.json()["hookSpecificOutput"]["permissionDecisionReason"], attempt
    raise AssertionError(f"{name} was never answered")


@pytest.mark.one_shim  # that it asks again is shown for both in test_hook_command.py
def test_killed_gateways_behind_a_balancer_lose_nothing_and_answer_nothing_twice(world: Fleet, tmp_path: Path) -> None:
    ran = world.folder / "ran"
    ran.write_text("")
    gateways = Gateways(world)
    token = Gateway(world, gateways.ports[0]).token("load")
    answers: list[tuple[str, str, int]] = []
    printed: list[bytes] = []
    with Balancer(gateways.ports) as balancer, ThreadPoolExecutor(8) as pool:
        base = f"http://127.0.0.1:{balancer.port}"

        def by_http(numbers: range) -> None:
            with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE, verify=PLAIN) as client:
                answers.extend(http_call(client, base, number) for number in numbers)

        def by_shim(part: int) -> None:
            agent = GatewayAgent(world, "claude", tmp_path / str(part), base, token)
            printed.extend(agent.call("load").stdout for _ in range(SHIM_CALLS // 2))
            assert not spool_status(agent.spool).records

        running = [pool.submit(by_http, range(part, CALLS, 4)) for part in range(4)]
        running += [pool.submit(by_shim, part) for part in range(2)]
        for kill in range(1, KILLS + 1):
            goal = kill * CALLS // (KILLS + 2)
            wait_until(lambda goal=goal: len(answers) >= goal or running[0].done(), "calls are answered")  # type: ignore[misc]  # a default
            gateways.kill_one()
        for one in running:
            one.result()
        assert set(balancer.carried) == set(gateways.ports), "both gateways had calls"
    gateways.end()
    assert len(answers) == CALLS
    assert all("it ran" in text for _, text, _ in answers)
    assert len(printed) == SHIM_CALLS
    assert all(b"it ran" in text for text in printed)
    assert any(sent > 1 for _, _, sent in answers), "some calls were cut and sent again"
    runs = Counter(ran.read_text().split())
    assert set(runs.values()) == {1}, "each call's hook ran once"
    assert len(runs) == CALLS + SHIM_CALLS
    assert {name for name, _, _ in answers} <= set(runs)
    seen = Counter(row.event.id for row in world.events(session="load"))
    assert seen == runs, "each call is on record once"


@pytest.mark.parametrize("each_shim", ["python"], indirect=True)  # no hook command takes part
def test_the_feed_goes_on_without_a_gap_after_redis_was_killed(world: Fleet, gateway: Gateway) -> None:
    """The client stays connected; what is announced meanwhile waits on the gateway's disk and comes then."""
    token = gateway.token("watcher", "observe", "publish")
    sent: list[str] = []
    may_send, stop = threading.Semaphore(0), threading.Event()

    def send() -> None:
        with gateway.tcp(token) as client:
            while not stop.is_set():
                if not may_send.acquire(timeout=0.1):
                    continue
                name = event_id()
                body = {"id": name, "type": "session:start", "session": "redis"}
                while client.post("/v1/events", json=body).status_code != 202:
                    pass
                sent.append(name)

    got: list[str] = []

    def take(client: LiveClient) -> None:
        """The next message; an event's id is kept."""
        message = client.next(60)  # a heartbeat comes after 15 s at the latest
        if message["kind"] == "event":
            got.append(message["event"]["id"])

    with (
        ThreadPoolExecutor(1) as pool,
        ExitStack() as last,
        live(gateway, token, "?events=session:start") as client,
    ):
        last.callback(stop.set)
        assert client.next()["kind"] == "position"
        sending = pool.submit(send)
        for _ in range(2):
            may_send.release(50)
            goal = len(got) + 25
            while len(got) < goal:
                take(client)
            world.server.kill()
            before = len(sent)
            may_send.release(10)
            wait_until(lambda before=before: len(sent) > before + 2, "events are taken while Redis is away")  # type: ignore[misc]  # a default
            world.server.start()
            goal = len(sent)
            while len(got) < goal:
                take(client)
        wait_until(lambda: sending.done() or len(sent) >= 120, "all are sent")
        stop.set()
        sending.result()
        while len(got) < len(sent):
            take(client)
    assert Counter(got) == Counter(sent), "each event came once"
    stored = [row.event.id for row in world.events(session="redis")]
    assert got == stored[::-1], "in the order of the record"
