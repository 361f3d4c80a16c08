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


def test_operating_needs_its_scope_and_a_body_that_can_be_read(gateway: Gateway, operator: httpx.Client) -> None:
    with gateway.tcp(gateway.token("agent", "publish", "observe")) as agent, gateway.unix() as local:
        for path in ("/v1/deliveries/retry", "/v1/dead/redrive", "/v1/endpoints/log/pause", "/v1/endpoints/log/resume"):
            assert agent.post(path, json={"ids": ["x"]}).json()["code"] == "scope-missing"
            assert local.post(path, json={"ids": ["x"]}).json()["code"] == "token-missing"
    for body in (b"{", b"[]", b'{"ids": []}', b'{"ids": [1]}', b'{"ids": ["x"], "all": true}', b"\xff"):
        refused = operator.post("/v1/deliveries/retry", content=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "body-invalid"), body
