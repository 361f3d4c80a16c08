"""Deliveries by real processes, with the rights of their ACL roles: tried again, killed, drained, tidied."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from bus.client import SyncBus
from bus.config.settings import Settings
from bus.events import Event
from bus.http.signing import generate_secret
from bus.ids import event_id
from bus.wire.connections import Connections, sync_client
from tests.support.beside import beside
from tests.support.delivering import left
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.receivers import Receiver, receiving
from tests.support.running import do
from tests.support.waiting import CONNECT, PATIENCE, at_most, wait_until
from workers.jobs import CHORES, enqueue, queue

SECRET = generate_secret()
HOOKS = """
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: log, url: "http://127.0.0.1:{port}/log", events: "turn:end", secret: {secret}, retry: [0.1, 0.1]}}
hooks:
  - {{id: note, on: "turn:end", blocking: false, command: "cat > {folder}/$FLEETHOOK_EVENT_ID"}}
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """The endpoint of all tests here."""
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    """A fleet that delivers to it; the tests go through it in turn."""
    folder = tmp_path_factory.mktemp("deliver")
    hooks = HOOKS.format(port=receiver.port, secret=SECRET, folder=folder)
    with fleet(folder, "dispatcher", "carrier", "carrier", "chores", hooks=hooks) as one:
        yield one
        killed = [worker for worker in one.workers if not worker.runs()]
        one.workers[:] = [worker for worker in one.workers if worker not in killed]


@pytest.fixture
def bus(made: Fleet) -> Iterator[SyncBus]:
    """A program of an agent's rights."""
    with made.bus(connect=CONNECT).sync() as face:
        yield face


def turn_end() -> Event:
    """An event that nobody waits for."""
    return Event(type="turn:end", source="codex", session="s1", host=HOST, id=event_id(), input={"said": "done"})


@pytest.mark.req("B-03", "B-06", "P-11", "G-09", "G-10", "X-05")
def test_a_webhook_arrives_though_its_receiver_failed_twice_and_the_hook_has_run(
    made: Fleet, receiver: Receiver, bus: SyncBus
) -> None:
    receiver.fail(2)
    name = bus.publish(turn_end())
    hook, endpoint = sorted(made.delivered(name, 2), key=lambda one: one.kind)
    assert [attempt.status for attempt in endpoint.log] == [503, 503, 200]
    assert [attempt.outcome for attempt in endpoint.log] == ["retry", "retry", "delivered"]
    calls = [got for got in receiver.got if got.id == f"{name}_log"]
    assert len(calls) == 3
    for call in calls:
        Webhook(SECRET).verify(call.body, call.headers)
    assert calls[0].json["data"]["input"] == {"said": "done"}
    assert (hook.hook, hook.log[0].status) == ("note", 0)
    assert json.loads((made.folder / name).read_text())["id"] == name
    assert [one.state for one in made.trace(name).deliveries] == ["delivered", "delivered"]


@pytest.mark.req("B-05")
def test_what_a_killed_carrier_had_under_way_is_carried_on_by_another(
    made: Fleet, receiver: Receiver, bus: SyncBus
) -> None:
    receiver.hold()
    name = bus.publish(turn_end())
    wait_until(lambda: receiver.ids[f"{name}_log"] == 1, "it is under way")
    (carrier,) = [one for one in made.workers if one.kind == "carrier" and busy(made, one.process.pid)]
    carrier.process.kill()
    start = time.monotonic()
    wait_until(lambda: receiver.ids[f"{name}_log"] == 2, "another carries it on")
    took = time.monotonic() - start
    receiver.release()
    made.delivered(name, 2)
    assert took < at_most(5)
    assert receiver.ids[f"{name}_log"] == 2
    assert made.dead() == []


def busy(made: Fleet, pid: int) -> bool:
    """Whether the process with this pid is a carrier with something under way."""

    async def ask(connections: Connections) -> bool:
        rows = await do(connections, "XPENDING", made.keys("deliveries"), "carriers", "-", "+", 10)
        return any(f"-{pid}-".encode() in row[1] for row in rows)

    return made.ask(ask)


@pytest.mark.req("B-05")
def test_sigterm_drains_what_is_under_way(made: Fleet, receiver: Receiver, bus: SyncBus) -> None:
    receiver.hold()
    name = bus.publish(turn_end())
    wait_until(lambda: receiver.ids[f"{name}_log"] == 1, "it is under way")
    (carrier,) = [one for one in made.workers if one.kind == "carrier" and busy(made, one.process.pid)]
    carrier.process.send_signal(signal.SIGTERM)
    later = bus.publish(turn_end())
    made.start("carrier")
    receiver.release()
    assert carrier.process.wait(PATIENCE) == 0
    for each in (name, later):
        made.delivered(each, 2)
        assert receiver.ids[f"{each}_log"] == 1
    assert "Traceback" not in carrier.log.read_text()


def test_chores_are_done_by_their_own_worker(made: Fleet, bus: SyncBus) -> None:
    """An RQ worker of its own, with the rights of a worker."""
    chores = next(one for one in made.workers if one.kind == "chores")
    with sync_client(made.url("admin")) as client:
        client.zadd(made.keys("sent"), {"old": 1})
        on = queue(Settings(namespace="fleet"), made.url("worker"), CHORES)
        assert enqueue(on, "tidy") == 1
        wait_until(lambda: not client.exists(made.keys("sent")), "it has tidied up")
        on.connection.close()
    wait_until(lambda: chores.said("1 sent ids"), "and said so")


@pytest.mark.req("B-05")
def test_nothing_is_left_over(made: Fleet) -> None:
    """No body, place, parked delivery, pending entry or failed job, after all of the above."""
    from bus.wire.connections import sync_client

    assert made.ask(lambda connections: left(connections, made.keys)) == {}
    with sync_client(made.url("admin")) as client:
        assert list(client.scan_iter("rq:failed:*")) == []
        assert list(client.scan_iter("rq:finished:*")) == []
