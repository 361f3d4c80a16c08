"""A gateway under callers that take too much: each is refused in words, and the others go on (issue 12, item 9)."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from bus.wire.connections import sync_client
from tests.support.fleet import Fleet
from tests.support.gateway import PLAIN, Gateway, start_gateway
from tests.support.live import live, sse
from tests.support.waiting import PATIENCE, wait_until
from workers.gateway.bodies import MOST_BYTES
from workers.gateway.tokens import revoke_token

pytestmark = [pytest.mark.flow, pytest.mark.req("G-02", "F-15")]

MOST = 40
PER_PEER = MOST // 2
HOOK = "/v1/hooks/claude/PreToolUse"
CALL = {"session_id": "s", "tool_name": "Bash", "cwd": "/", "tool_input": {"command": "ls"}}


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    """A gateway with few connections."""
    world.publish_hooks("version: 1\nguards: {destructive-commands: true}\n")
    return start_gateway(world, FLEETHOOK_GATEWAY_CONNECTIONS=str(MOST))


def connect(gateway: Gateway, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE, source_address=(source, 0))


def rest(sock: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            found += part
    return found


def code(raw: bytes) -> tuple[int, str]:
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["code"]


@contextlib.contextmanager
def others_get_answers(gateway: Gateway) -> Iterator[Callable[[], int]]:
    """Hook calls of another address and of the unix socket go on meanwhile; yields how many were answered."""
    token, stop, answered = gateway.token("other"), threading.Event(), list[int]()
    other = httpx.HTTPTransport(local_address="127.0.0.9", verify=PLAIN)

    def calling() -> None:
        bearer = {"Authorization": f"Bearer {token}"}
        with httpx.Client(transport=other, base_url=gateway.url, timeout=PATIENCE) as remote, gateway.unix() as local:
            while not stop.is_set():
                answered.append(remote.post(HOOK, json=CALL, headers=bearer).status_code)
                answered.append(local.post(HOOK, json=CALL).status_code)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(calling)
        try:
            yield lambda: len(answered)
        finally:
            before = len(answered)
            wait_until(lambda: len(answered) > before + 2 or running.done(), "others still get answers")
            stop.set()
            running.result()
            world = gateway.fleet
            world.ask(lambda connections: revoke_token(connections, world.keys, "other"))
    assert set(answered) == {200}


def test_connections_over_the_cap_are_refused_in_words(gateway: Gateway) -> None:
    with others_get_answers(gateway), contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(gateway)) for _ in range(PER_PEER)]
        with connect(gateway) as late:
            raw = rest(late)
        assert code(raw) == (503, "connections")
        assert b"retry-after: 1" in raw.lower()
        assert b"127.0.0.1 has 20 connections" in raw
        for sock in held:
            sock.close()

    def gets_in() -> bool:
        with gateway.tcp() as client:
            return client.get("/livez").status_code == 200

    wait_until(gets_in, "there is a place again")


def test_an_agents_hook_on_a_connection_too_many_gets_the_decision_of_its_failure_policy(gateway: Gateway) -> None:
    """A 503 means "go on" to the agent, so a caller that takes all places would switch the guards off."""
    with contextlib.ExitStack() as stack:
        for number in range(MOST):
            stack.enter_context(connect(gateway, f"127.0.3.{number % 4 + 1}"))
        found = {}
        for policy in ("deny", "allow"):
            with gateway.tcp() as client:
                found[policy] = client.post(HOOK, params={"on_failure": policy}, json=CALL)
    said = found["deny"].json()["hookSpecificOutput"]
    assert (found["deny"].status_code, said["permissionDecision"]) == (200, "deny")
    assert "takes no more" in said["permissionDecisionReason"]
    assert (found["allow"].status_code, found["allow"].json()["code"]) == (503, "connections")


def test_callers_of_many_addresses_cannot_take_more_than_the_whole_cap(gateway: Gateway) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(MOST):
            stack.enter_context(connect(gateway, f"127.0.1.{number % 4 + 1}"))
        with connect(gateway, "127.0.2.1") as late:
            assert code(rest(late)) == (503, "connections")
        with gateway.unix() as local:
            assert local.post(HOOK, json=CALL).status_code == 200, "this user's hook commands have places of their own"


def test_slow_headers_take_no_answers_from_others(gateway: Gateway) -> None:
    with others_get_answers(gateway) as answered, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(gateway)) for _ in range(PER_PEER)]
        ended = threading.Event()

        def dribble() -> None:
            while not ended.wait(0.5):
                for sock in slow:
                    with contextlib.suppress(OSError):
                        sock.sendall(b"y")

        for sock in slow:
            sock.sendall(f"POST {HOOK} HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".encode())
        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert {code(rest(sock)) for sock in slow} == {(408, "headers-slow")}
        finally:
            ended.set()
            thread.join()
        assert answered() > 20


def test_a_hundred_thousand_headers_are_refused(gateway: Gateway) -> None:
    with others_get_answers(gateway), connect(gateway) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n")
        assert code(rest(sock)) == (431, "headers-too-large")


def test_bodies_of_16_mib_are_taken_and_no_larger_ones(gateway: Gateway) -> None:
    padding = MOST_BYTES - len(json.dumps({**CALL, "pad": ""}))
    call = json.dumps({**CALL, "pad": "x" * padding}).encode()
    assert len(call) == MOST_BYTES
    bearer = {"Authorization": f"Bearer {gateway.token('large-bodies')}"}
    with others_get_answers(gateway), gateway.tcp() as client:
        assert client.post(HOOK, content=call, headers=bearer).status_code == 200
        larger = client.post(HOOK, content=call + b" ", headers=bearer)
        assert (larger.status_code, larger.json()["code"]) == (413, "body-too-large")
        refused = client.post(HOOK, content=call)
        assert (refused.status_code, refused.json()["code"]) == (401, "token-missing"), "the refusal is not lost"


def test_a_revoked_token_ends_its_open_feeds(world: Fleet, gateway: Gateway) -> None:
    token = gateway.token("leaver", "observe")
    kept = gateway.token("stayer", "observe")
    events = sse(gateway, token)
    with live(gateway, token) as client, live(gateway, kept) as other:
        assert client.next()["kind"] == "position"
        assert other.next()["kind"] == "position"
        assert next(events)[0] == "position"
        world.ask(lambda connections: revoke_token(connections, world.keys, "leaver"))
        last = client.next()
        assert (last["kind"], last["code"]) == ("error", "token-invalid")
        with pytest.raises(ConnectionClosed) as closed:
            client.next()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "token-invalid")
        kind, _, data = list(events)[-1]
        assert (kind, data["code"]) == ("error", "token-invalid")
        with gateway.unix() as http:
            sent = http.post("/v1/events", json={"type": "notification", "session": "still"}).json()["id"]
        while other.until("event")["event"]["id"] != sent:
            pass  # of the tests before


@pytest.mark.req("B-02")
def test_a_list_is_whole_although_its_connections_to_redis_are_cut(world: Fleet, gateway: Gateway) -> None:
    """Hooks try again for two seconds, and so do lists."""
    paths = ("/v1/events?limit=200", "/v1/sessions", "/v1/workers", "/v1/hooks", "/metrics", "/admin/status")
    with ExitStack() as stack:
        redis = stack.enter_context(sync_client(world.url("admin")))
        client = stack.enter_context(gateway.tcp(gateway.token("cut", "observe")))
        pool = stack.enter_context(ThreadPoolExecutor(6))
        for _ in range(5):
            calls = [pool.submit(client.get, path) for path in paths]
            for _ in range(2):
                redis.client_kill_filter(_type="normal", skipme=True)
                wait(calls, 0.01)
            assert [call.result().status_code for call in calls] == [200] * len(paths)
