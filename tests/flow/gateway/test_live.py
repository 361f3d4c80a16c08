"""The live feed: every event with its verdict and every delivery's outcome, without a gap or a double (issue 12, item 3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from bus.events import Event
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.live import live, sse
from tests.support.metrics import Scrape
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-05")]

ALL = 600
CLOSE = "Connection: close\r\n"
HOOKS = """
version: 1
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, instead: ls, commands: [{program: [rm]}]}}
  - {id: note, on: 'session:end', command: 'echo noted', blocking: false}
"""


def call(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool:pre_execute", "tool": "bash", "session": "feed", "input": {"command": command}, **more}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("live"), "evaluator", "dispatcher", "carrier", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def token(gateway: Gateway) -> str:
    return gateway.token("watcher", "observe")


def test_an_event_comes_with_its_verdict_and_then_the_outcome_of_its_delivery(
    world: Fleet, gateway: Gateway, token: str
) -> None:
    with live(gateway, token) as client, gateway.unix() as http:
        assert client.next()["kind"] == "position"
        asked = http.post("/v1/requests", json=call("rm x")).json()
        (event,) = client.events(1)
        assert (event["id"], event["decision"], event["input"]) == (asked["event"], "deny", {"command": "rm x"})
        assert event["verdict"]["reason"].startswith("no rm")
        ended = http.post("/v1/events", json={"type": "session:end", "session": "feed"}).json()
        assert client.events(1)[0]["id"] == ended["id"]
        outcome = client.until("delivery")["delivery"]
    (delivery,) = world.delivered(ended["id"])
    assert (outcome["id"], outcome["event"], outcome["hook"]) == (delivery.id, ended["id"], "note")
    assert (outcome["outcome"], outcome["attempt"], outcome["type"]) == ("delivered", 1, "session:end")
    assert (outcome["session"], outcome["status"]) == ("feed", 0)


def test_a_client_gets_what_it_subscribed_to(gateway: Gateway, token: str) -> None:
    with live(gateway, token, "?events=session:*") as client, gateway.unix() as http:
        client.next()
        http.post("/v1/events", json=[call("ls"), {"type": "session:start", "session": "s1"}])
        assert client.events(1)[0]["session"] == "s1"
        client.say("subscribe", events=["tool:*"], where='event.input.command == "b"')
        assert client.until("subscriptions")["subscriptions"] == [
            {"events": "session:*", "where": ""},
            {"events": "tool:*", "where": 'event.input.command == "b"'},
        ]
        http.post("/v1/events", json=[call("a"), call("b"), {"type": "tool:error", "tool": "bash"}])
        assert client.events(1)[0]["input"] == {"command": "b"}
        client.say("unsubscribe", events=["session:*"])
        client.until("subscriptions")
        http.post("/v1/events", json=[{"type": "session:start"}, call("b", session="last")])
        assert client.events(1)[0]["session"] == "last"
        client.say("unsubscribe")
        assert client.until("subscriptions")["subscriptions"] == []
        http.post("/v1/events", json=call("b"))
        client.say("ping")
        assert client.next()["kind"] == "pong"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{", "JSON"),
        ("[]", "a JSON object"),
        ('{"type": "x"}', "`subscribe`, `unsubscribe` or `ping`"),
        ('{"type": "subscribe", "events": "tool:*"}', "list of event patterns"),
        ('{"type": "subscribe", "events": ["tool:pre_exekute"]}', "did you mean 'tool:pre_execute'"),
        ('{"type": "subscribe", "where": "event."}', "it ends too early"),
        (json.dumps({"type": "subscribe", "events": [f"acme:e{n}" for n in range(101)]}), "100 subscriptions"),
    ],
)
def test_a_message_that_cannot_be_carried_out_is_an_error_and_the_connection_stays(
    gateway: Gateway, token: str, message: str, words: str
) -> None:
    with live(gateway, token) as client:
        client.connection.send(message)
        assert words in client.until("error")["detail"]
        client.say("ping")
        client.until("pong")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?cursor=x", "cursor-invalid"),
        ("?events=nope:", "subscription-invalid"),
        ("?where=1%2B", "subscription-invalid"),
        ("?where=1%2B1", "subscription-invalid"),
        ("?where=event.hots%20==%20%22a%22", "subscription-invalid"),
        ("?event=tool:*", "query-invalid"),
    ],
)
def test_an_address_with_a_mistake_is_refused(gateway: Gateway, token: str, query: str, code: str) -> None:
    with pytest.raises(InvalidStatus) as refused, live(gateway, token, query):
        pass
    assert refused.value.response.status_code == 400
    assert json.loads(refused.value.response.body or b"")["code"] == code


@pytest.mark.req("G-02")
def test_the_feed_needs_the_scope_observe_by_header_or_subprotocol(gateway: Gateway, token: str) -> None:
    """The WebSocket of a browser sends no header of its own, so the token may be a subprotocol (issue 12, item 9)."""
    for given, code in (("", 401), ("fht_wrong", 401), (gateway.token("only-publish"), 403)):
        with pytest.raises(InvalidStatus) as refused, live(gateway, given):
            pass
        assert refused.value.response.status_code == code
        assert refused.value.response.headers["content-type"] == "application/problem+json"
    with live(gateway, "", subprotocols=["fleethook.v1", f"fleethook.bearer.{token}"]) as client:
        assert client.connection.subprotocol == "fleethook.v1"
        assert client.next()["kind"] == "position"
    with pytest.raises(InvalidStatus) as refused, live(gateway, token, origin=Origin("https://evil.example")):
        pass
    assert refused.value.response.status_code == 403


def test_a_client_that_connects_again_gets_what_it_missed_and_is_told_where_it_is(gateway: Gateway, token: str) -> None:
    with gateway.unix() as http:
        with live(gateway, token) as client:
            client.next()
            http.post("/v1/events", json=call("first"))
            client.events(1)
        cursor = client.cursor
        many = [call(str(number)) for number in range(250)]
        http.post("/v1/events", json=many)
        with live(gateway, token, f"?cursor={cursor}") as client:
            position = client.next()
            assert (position["kind"], position["cursor"], position["complete"]) == ("position", cursor, True)
            http.post("/v1/events", json=call("live"))
            got = [event["input"]["command"] for event in client.events(251)]
    assert got == [*map(str, range(250)), "live"]


def test_a_cursor_that_is_covered_no_longer_is_called_incomplete(gateway: Gateway, token: str) -> None:
    with live(gateway, token, "?cursor=1-0_1-0") as client:
        assert client.next()["complete"] is False


def test_server_sent_events_have_the_same_cursor(gateway: Gateway, token: str) -> None:
    """A browser that connects again sends the last id by itself, as `Last-Event-ID`."""
    with gateway.unix() as http:
        stream = sse(gateway, token, "?events=tool:*")
        kind, name, position = next(stream)
        assert (kind, position) == ("position", {"cursor": name, "complete": True})
        http.post("/v1/events", json=[call("one"), {"type": "session:start"}, call("two")])
        assert [next(stream)[2]["input"]["command"] for _ in range(2)] == ["one", "two"]
        http.post("/v1/events", json=call("three"))
        kind, last, _ = next(stream)
        stream.close()
        http.post("/v1/events", json=[call("four"), call("five")])
        with live(gateway, token, f"?cursor={last}") as client:
            assert [event["input"]["command"] for event in client.events(2)] == ["four", "five"]
        again = sse(gateway, token, "?events=tool:*", **{"Last-Event-ID": last})
        assert [next(again)[0] for _ in range(1)] == ["position"]
        assert [next(again)[2]["input"]["command"] for _ in range(2)] == ["four", "five"]
        again.close()
        with gateway.tcp(token) as client_:
            assert client_.get("/v1/live/sse?cursor=1").json()["code"] == "cursor-invalid"


@pytest.mark.parametrize("way", ["websocket", "sse"])
def test_a_slow_client_is_dropped_and_nobody_waits_for_it(gateway: Gateway, token: str, way: str) -> None:
    """It reads nothing while 40 MB come; another client gets all, and the slow one goes on with its cursor."""
    text = "x" * 60_000  # redaction shows 64 KiB of a text at most
    many = [call(str(number), data={f"d{part}": text for part in range(3)}) for number in range(200)]
    with socket.socket() as small, gateway.unix() as http, live(gateway, token) as fast:
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", gateway.port))
        path = "/v1/live" if way == "websocket" else "/v1/live/sse"
        upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        upgrade += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        small.sendall(f"{head}{upgrade if way == 'websocket' else CLOSE}\r\n".encode())
        assert b"position" in small.recv(2000) + small.recv(2000)
        first = fast.next()["cursor"]
        for start in range(0, len(many), 20):
            http.post("/v1/events", json=many[start : start + 20]).raise_for_status()
            assert [e["input"]["command"] for e in fast.events(20)] == [str(start + n) for n in range(20)]
        small.settimeout(PATIENCE)
        got = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while b"connect with your cursor" not in got[-200:] and (part := small.recv(1 << 20)):
                got += part
        assert len(got) < 20_000_000, "it was dropped before it got all"
        with gateway.tcp(token) as client_:
            wait_until(lambda: Scrape(client_).sum("fleethook_live_dropped_total", transport=way) == 1, "it is counted")
            assert Scrape(client_).sum("fleethook_live_clients", transport="websocket") == 1
        with live(gateway, token, f"?cursor={first}") as client:
            assert [e["input"]["command"] for e in client.events(200)] == [str(n) for n in range(200)]


def test_secrets_are_redacted_and_the_settings_say_what_is_sent(
    world: Fleet, gateway: Gateway, token: str, tmp_path: Path
) -> None:
    """G-05: broadcast events, include payload, sanitising. A canary is in every field that a caller can fill."""
    canary = "ghp_" + "Ab3dEf6h" * 4 + "1234"
    named = {"session": canary, "cwd": f"/home/{canary}", "native": canary, "call": canary, "host": canary}
    event = {**call(f"curl -H 'Authorization: Bearer {canary}'"), **named, "data": {"x": canary, canary: 1}}
    started = {"type": "session:start", "data": {"prompt": "hello"}}
    with live(gateway, token) as client, gateway.unix() as http:
        client.next()
        http.post("/v1/events", json=[event, started]).raise_for_status()
        assert canary not in json.dumps(client.events(1))
        assert client.events(1)[0]["data"]["prompt"] == "hello"
    with fleet(tmp_path) as other:
        limited = start_gateway(other, FLEETHOOK_FEED_EVENTS="session:*, tool:error", FLEETHOOK_FEED_PAYLOAD="0")
        with live(limited, limited.token("watcher", "observe")) as client, limited.unix() as http:
            client.next()
            http.post("/v1/events", json=[event, started]).raise_for_status()
            (seen,) = client.events(1)
    assert seen["type"] == "session:start"
    assert "data" not in seen


def has_more_than(some: list[str], count: int) -> bool:
    return len(some) > count


def test_a_killed_gateway_leaves_no_gap_and_no_double(world: Fleet, gateway: Gateway, token: str) -> None:
    """A gateway is killed (-9) again and again while events are sent; its client goes on with its cursor."""
    may_send = threading.Semaphore(0)
    sent: list[str] = []

    async def send() -> None:
        async with world.bus() as bus:
            while len(sent) < ALL:
                may_send.acquire()
                await bus.publish(Event(type="session:start", session=f"k{len(sent)}"))
                sent.append(f"k{len(sent)}")

    got: list[str] = []
    cursor = ""
    with ThreadPoolExecutor(1) as pool:
        sender = pool.submit(asyncio.run, send())
        for _ in range(3):
            with live(gateway, token, f"?events=session:start&cursor={cursor}".removesuffix("&cursor=")) as client:
                assert client.next().get("complete") is True
                may_send.release(100)
                got += [event["session"] for event in client.events(40)]
                world.workers[-1].process.kill()
                world.workers[-1].process.wait()
                got += [event["session"] for event in client.rest()]
                cursor = client.cursor
            seen = len(sent)
            may_send.release(100)
            wait_until(partial(has_more_than, sent, seen + 20), "events are sent while no gateway runs")
            world.start("gateway", FLEETHOOK_GATEWAY_PORT=str(gateway.port))
        sender.result()
    with live(gateway, token, f"?events=session:start&cursor={cursor}") as client:
        while not got or got[-1] != f"k{len(sent) - 1}":
            got += [event["session"] for event in client.events(1)]
    assert got == [f"k{number}" for number in range(ALL)]
