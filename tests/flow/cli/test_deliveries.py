"""Deliveries, dead letters and endpoints on the command line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, call_all
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, wait_until
from workers.delivery.dead_letters import poison_call

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAA"

HOOKS = """
endpoints:
  - {{id: log, url: "http://127.0.0.1:{port}/x?token=abcdef123456", secret: "env:LOG_SECRET", retry: [0]}}
  - {{id: gone, url: "http://127.0.0.1:{port}/gone", events: "session:end"}}
  - {{id: unset, url: "http://127.0.0.1:{port}/x", events: "turn:end", secret: "env:NEVER_SET"}}
network: {{allow: ["127.0.0.1:{port}"]}}
"""


class Receiver(ThreadingHTTPServer):
    """A receiver that answers with `status`, and keeps what it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.got: list[tuple[dict[str, str], bytes]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((dict(self.headers), body))
        self.send_response(410 if self.path == "/gone" else self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on loopback."""
    with Receiver() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture
def home(server: Server, keys: Keys, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A fleet with two endpoints at the receiver; the command line is set to it. Returns FLEETHOOK_HOME."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("LOG_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    text = HOOKS.format(port=receiver.server_port)
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
    return tmp_path / "home"


def state_of(name: str) -> str:
    """A delivery's state, as the command line says it."""
    shown = fleethook("deliveries", "show", name, "--json")
    return str(shown.json["state"]) if shown.code == 0 else ""


def publish(kind: str = "session:start") -> str:
    """The id of a new event."""
    return fleethook("publish", stdin=json.dumps({"type": kind})).out.strip()


def test_lists_as_a_person_reads_them(server: Server, keys: Keys, home: Path, receiver: Receiver) -> None:
    assert fleethook("deliveries", "list").err.strip() == "no deliveries"
    assert fleethook("dead", "list", "--group").err.strip() == "no dead letters"
    with workers(server.url, keys, home, "dispatcher", "carrier"):
        name = f"{publish('session:end')}.gone"  # its receiver answers 410
        wait_until(lambda: state_of(name) == "dead", "it is given up")
    head, row = fleethook("deliveries", "list", "--state", "dead").out.splitlines()
    assert head.split() == ["TIME", "STATE", "TARGET", "TRIES", "TYPE", "NOTE", "ID"]
    assert row.split()[2:6] == ["✗", "dead", "endpoint:gone", "1"]
    assert row.endswith(f"  {name}")
    head, row = fleethook("dead", "list").out.splitlines()
    assert head.split() == ["TIME", "TARGET", "TRIES", "TYPE", "REASON", "ID"]
    assert row.split()[2:4] == ["endpoint:gone", "1"]
    assert fleethook("deliveries", "show", f"{name[:12]}.gone", "--json").json["id"] == name
    assert fleethook("dead", "show", name[:12], "--json").json["id"] == name
    request = fleethook("deliveries", "show", name).out
    assert f"  request  POST http://127.0.0.1:{receiver.server_port}" in request
    assert '    >   "type": "session.end",' in request
    command = fleethook("deliveries", "show", name, "--curl").out
    assert shlex.split(command)[:4] == ["curl", "-X", "POST", request.split("POST ")[1].split()[0]]
    assert json.loads(shlex.split(command)[-1])["type"] == "session.end"
    head, row = fleethook("dead", "list", "--group").out.splitlines()
    assert head.split() == ["COUNT", "OLDEST", "NEWEST", "TARGETS", "REASON"]
    assert (row.split()[0], "410" in row) == ("1", True)
    table = {line.split()[0]: line for line in fleethook("webhooks", "list").out.splitlines()}
    assert ("unsigned" in table["gone"], "abcdef123456" in table["log"]) == (True, False)


@pytest.mark.req("G-10")
def test_deliveries_know_type_session_and_payload_of_their_event(
    server: Server, keys: Keys, home: Path, receiver: Receiver
) -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    call = {"type": "tool:post_execute", "tool": "bash", "session": "s-22", "input": {"command": f"push {token}"}}
    with workers(server.url, keys, home, "dispatcher", "carrier"):
        told = f"{fleethook('publish', stdin=json.dumps(call)).out.strip()}.log"
        ended = {"type": "session:end", "session": "s-1", "data": {"why": "the end"}}
        gone = f"{fleethook('publish', stdin=json.dumps(ended)).out.strip()}.gone"
        wait_until(lambda: (state_of(told), state_of(gone)) == ("delivered", "dead"), "both are done")

    def listed(*words: str) -> set[str]:
        return {one["id"] for one in fleethook(*words, "--json").lines} & {told, gone}

    for words, found in (
        (("--type", "tool:*"), {told}),
        (("--type", "tool:post_execute:bash"), {told}),
        (("--type", "tool:*:write"), set()),
        (("--type", "session:end", "--type", "tool:post_execute"), {told, gone}),
        (("--session", "s-"), {told, gone}),
        (("--session", "s-2"), {told}),
        (("--session", "s-1", "--type", "tool:*"), set()),
    ):
        assert listed("deliveries", "list", *words) == found, words
        assert listed("dead", "list", *words) == found & {gone}, words
    assert fleethook("deliveries", "list", "--type", "tool:[").code != 0
    one = fleethook("deliveries", "show", told, "--json").json
    assert (one["type"], one["tool"], one["session"]) == ("tool:post_execute", "bash", "s-22")
    assert one["payload"]["input"]["command"].startswith("push ")
    letter = fleethook("dead", "show", gone, "--json").json
    assert (letter["session"], letter["payload"]["data"]) == ("s-1", {"why": "the end"})
    shown = fleethook("deliveries", "show", told).out + json.dumps(one)
    assert ("session s-22" in shown, "request  POST" in shown, token in shown) == (True, True, False)
    assert "the end" in fleethook("dead", "show", gone).out


def test_a_dead_letter_is_listed_grouped_and_delivered_when_tried_again(
    server: Server, keys: Keys, home: Path, receiver: Receiver
) -> None:
    receiver.status = 503
    with workers(server.url, keys, home, "dispatcher", "carrier"):
        event = publish()
        name = f"{event}.log"
        wait_until(lambda: state_of(name) == "dead", "it is given up")
        shown = fleethook("deliveries", "show", name)
        assert "attempt 2" in shown.out
        assert "answered 503" in shown.out
        (letter,) = fleethook("dead", "list", "--json").lines
        assert (letter["id"], letter["target"]) == (name, "endpoint:log")
        assert fleethook("dead", "list", "--target", "elsewhere", "--json").lines == []
        (group,) = fleethook("dead", "list", "--group", "--json").json
        assert (group["count"], group["targets"]) == (1, ["endpoint:log"])
        assert "given up" in fleethook("dead", "show", name).out
        assert fleethook("dead", "retry", "--all", "--dry-run", "--json").json["matching"] == 1
        assert fleethook("dead", "retry", "--all").code == 2, "nobody can be asked here"

        receiver.status = 200
        again = fleethook("dead", "retry", "--reason", "503", "--yes", "--json")
        assert (again.code, again.json) == (0, {"matching": 1, "done": 1})
        wait_until(lambda: state_of(name) == "delivered", "it is delivered")
        tried = fleethook("deliveries", "show", name, "--json").json
        assert (tried["attempts"], tried["redrives"]) == (3, 1)
        ids = {headers["webhook-id"] for headers, _ in receiver.got}
        assert ids == {name.replace(".", "_")}, "every attempt has the delivery's own id"
        assert fleethook("dead", "list", "--json").lines == []

        ended = f"{publish('session:end')}.gone"
        wait_until(lambda: state_of(ended) == "dead", "410 is final")
    listed = fleethook("deliveries", "list", "--json").lines
    assert {one["id"] for one in listed} >= {name, ended}
    assert [one["id"] for one in fleethook("deliveries", "list", "--state", "dead", "--json").lines] == [ended]
    assert [one["id"] for one in fleethook("deliveries", "list", "--event", event, "--json").lines] == [name]
    assert "endpoint:gone" in fleethook("deliveries", "list", "--target", "gone").out
    endpoints = {one["id"]: one for one in fleethook("webhooks", "list", "--json").lines}
    # `log` takes every event: also the one that says that `gone` was disabled.
    assert (endpoints["log"]["delivered"], endpoints["gone"]["dead"]) == (3, 1)
    partly = fleethook("dead", "drop", ended, "no.such", "--yes")
    assert (partly.code, "1 of 2" in partly.err) == (5, True)
    assert fleethook("dead", "drop", ended, "--yes").code == 1
    assert fleethook("deliveries", "show", ended).code == 1


def test_an_unreadable_entry_is_shown_and_dropped_but_not_retried(server: Server, keys: Keys, home: Path) -> None:
    entry = StreamEntry(keys("events"), "1-1", {b"id": b"e1", b"body": b"\xc1 password=hunter2hunter2"})

    async def bury(connections: Connections) -> None:
        await call_all(connections, [poison_call(keys, entry, "undecodable event: no msgpack", acknowledge="")])

    run(server.url, bury)
    shown = fleethook("dead", "show", "events-1-1")
    assert "undecodable event" in shown.out
    assert "hunter2" not in shown.out
    assert fleethook("dead", "show", "events-1-1", "--json").json["event"] == "e1"
    refused = fleethook("dead", "retry", "events-1-1")
    assert (refused.code, "cannot be tried again" in refused.err) == (1, True)
    assert fleethook("dead", "retry", "--all", "--yes").out == "nothing can be tried again\n"
    assert fleethook("dead", "retry").code == 2
    assert fleethook("dead", "retry", "x.y", "--all").code == 2
    assert fleethook("dead", "drop", "--all", "--yes").out == "1 dropped\n"
    assert "no dead letter is called" in fleethook("dead", "show", "events-1-1").err


def test_an_endpoint_gets_one_signed_test(home: Path, receiver: Receiver) -> None:
    sent = fleethook("webhooks", "test", "log", "--json")
    assert (sent.code, sent.json["ok"], sent.json["status"]) == (0, True, 200)
    ((headers, body),) = receiver.got
    Webhook(SECRET).verify(body, {name.lower(): value for name, value in headers.items()})
    receiver.status = 500
    failed = fleethook("webhooks", "test", "log")
    assert failed.code == 1
    assert "answered 500" in failed.out
    assert len(receiver.got) == 2, "one attempt each"
    unset = fleethook("webhooks", "test", "unset")
    assert (unset.code, "NEVER_SET is not set" in unset.out) == (1, True)
    meant = fleethook("webhooks", "test", "lg")
    assert (meant.code, 'did you mean "log"' in meant.err) == (1, True)
    listed = fleethook("webhooks", "list")
    for shown in (sent, failed, unset, listed, fleethook("webhooks", "list", "--json")):
        assert "hunter2" not in shown.out + shown.err
        assert "abcdef123456" not in shown.out + shown.err


def test_the_address_policy_holds_for_tests_too(server: Server, keys: Keys, home: Path, receiver: Receiver) -> None:
    text = f'endpoints: [{{id: inside, url: "http://127.0.0.1:{receiver.server_port}/x"}}]'
    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(text, "fleet")))
    refused = fleethook("webhooks", "test", "inside", "--json")
    assert (refused.code, refused.json["status"]) == (1, 0)
    assert "address policy" in refused.json["error"]
    assert receiver.got == []


def test_many_dead_letters_go_to_the_chores_worker(server: Server, keys: Keys, home: Path) -> None:
    many = 600
    stream, names = keys("deliveries"), [f"e{number}.log" for number in range(600)]

    async def bury(connections: Connections) -> None:
        with connections.lease() as connection:
            for name in names:
                fields = (
                    "state",
                    "dead",
                    "stream",
                    stream,
                    "target",
                    "endpoint:log",
                    "reason",
                    "for a test",
                    "kind",
                    "webhook",
                )
                await connection.exchange([("HSET", keys("delivery", name), *fields), ("ZADD", keys("dead"), 1, name)])

    async def redriven(connections: Connections) -> int:
        with connections.lease() as connection:
            (length,) = await connection.exchange([("XLEN", stream)])
        return int(length)

    run(server.url, bury)
    root = Path(__file__).parents[3]
    chores = subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "worker", "chores"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
    )
    assert chores.stderr is not None
    try:
        line = b" "
        while line and b"chores ready" not in line:
            line = chores.stderr.readline()

        def queued() -> bool:
            asked = fleethook("dead", "retry", "--reason", "for a test", "--yes", "--json").json
            return bool(asked.get("queued"))

        wait_until(queued, "the chores worker has registered")
        wait_until(lambda: run(server.url, redriven) == many, "all are tried again")
    finally:
        chores.terminate()
        chores.communicate(timeout=PATIENCE)
