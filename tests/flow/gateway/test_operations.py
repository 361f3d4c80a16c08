"""What operators do over HTTP: retry, redrive, pause and resume, by the scope `operate` (issue 12, item 4)."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import wait_until
from workers.delivery.endpoint_controls import disable

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19")]

HOOKS = """
version: 1
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints: [{{id: log, url: "http://127.0.0.1:{port}/log", events: "turn:end", retry: []}}]
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    hooks = HOOKS.format(port=receiver.port)
    with fleet(tmp_path_factory.mktemp("doing"), "evaluator", "dispatcher", "carrier", hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def operator(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("ops", "publish", "observe", "operate")) as client:
        yield client


def ended(client: httpx.Client) -> str:
    name: str = client.post("/v1/events", json={"type": "turn:end", "session": "s"}).json()["id"]
    return name


@pytest.mark.parametrize("path", ["/v1/dead/redrive", "/v1/deliveries/retry"])
def test_a_dead_letter_is_tried_again(world: Fleet, receiver: Receiver, operator: httpx.Client, path: str) -> None:
    receiver.by_path["/log"] = Answer(400)
    name = f"{ended(operator)}.log"
    world.dead_letter(name)
    receiver.by_path.clear()
    again = operator.post(path, json={"ids": [name, "e0.nothing"]})
    assert (again.status_code, again.json()) == (200, {"matching": 2, "done": 1})
    wait_until(lambda: name not in {letter.id for letter in world.dead()}, "it is no dead letter any more")
    world.delivered(name.partition(".")[0])


def test_a_paused_endpoint_gets_its_deliveries_when_it_is_resumed(world: Fleet, operator: httpx.Client) -> None:
    paused = operator.post("/v1/endpoints/log/pause", json={"reason": "upgrade"})
    assert paused.json() == {"id": "log", "standing": "paused", "changed": True}
    assert operator.post("/v1/endpoints/log/pause").json()["changed"] is False
    assert operator.get("/v1/endpoints").json()["items"][0]["standing"] == "paused"
    name = ended(operator)
    wait_until(lambda: [one.state for one in world.deliveries(name)] == ["parked"], "the delivery waits")
    assert operator.post("/v1/endpoints/log/resume").json()["standing"] == "active"
    world.delivered(name)
    again = operator.post("/v1/endpoints/log/resume")
    assert (again.status_code, again.json()["code"]) == (409, "not-paused")
    missing = operator.post("/v1/endpoints/nothing/pause", json={})
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")


def test_a_dead_letter_is_dropped_for_good(world: Fleet, receiver: Receiver, operator: httpx.Client) -> None:
    receiver.by_path["/log"] = Answer(400)
    name = f"{ended(operator)}.log"
    world.dead_letter(name)
    receiver.by_path.clear()
    dropped = operator.post("/v1/dead/drop", json={"ids": [name, "e0.nothing"]})
    assert (dropped.status_code, dropped.json()) == (200, {"matching": 2, "done": 1})
    assert operator.get(f"/v1/dead/{name}").status_code == 404
    assert operator.post("/v1/dead/redrive", json={"ids": [name]}).json()["done"] == 0


def test_a_disabled_endpoint_is_enabled_and_its_dead_letters_are_tried_again(
    world: Fleet, receiver: Receiver, operator: httpx.Client
) -> None:
    assert operator.post("/v1/endpoints/log/pause").json()["standing"] == "paused"
    name = ended(operator)
    wait_until(lambda: [one.state for one in world.deliveries(name)] == ["parked"], "the delivery waits")
    waits = operator.get(f"/v1/deliveries/{name}.log").json()["waits"]
    assert waits.startswith("its endpoint is paused")
    world.ask(lambda connections: disable(connections, world.keys, "endpoint:log", reason="moved", by="ana"))
    world.dead_letter(f"{name}.log")
    health = operator.get("/v1/endpoints").json()["items"][0]["health"]
    assert (health["standing"], health["by"], health["reason"]) == ("disabled", "ana", "disabled: moved")
    enabled = operator.post("/v1/endpoints/log/enable", json={"recover": True})
    assert {**enabled.json(), "since": 0} == {"id": "log", "since": 0, "missed": 0, "dead": 1, "recovered": 1}
    world.delivered(name)
    again = operator.post("/v1/endpoints/log/enable")
    assert (again.status_code, again.json()["code"]) == (409, "not-disabled")


def test_an_operation_is_no_id_of_a_dead_letter(operator: httpx.Client) -> None:
    for path in ("/v1/dead/redrive", "/v1/dead/drop", "/v1/deliveries/retry"):
        refused = operator.get(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_operating_needs_its_scope_and_a_body_that_can_be_read(gateway: Gateway, operator: httpx.Client) -> None:
    with gateway.tcp(gateway.token("agent", "publish", "observe")) as agent, gateway.unix() as local:
        for path in (
            "/v1/deliveries/retry",
            "/v1/dead/redrive",
            "/v1/dead/drop",
            "/v1/endpoints/log/pause",
            "/v1/endpoints/log/resume",
            "/v1/endpoints/log/enable",
        ):
            assert agent.post(path, json={"ids": ["x"]}).json()["code"] == "scope-missing"
            assert local.post(path, json={"ids": ["x"]}).json()["code"] == "token-missing"
    for body in (b"{", b"[]", b'{"ids": []}', b'{"ids": [1]}', b'{"ids": ["x"], "all": true}', b"\xff"):
        refused = operator.post("/v1/deliveries/retry", content=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "body-invalid"), body
