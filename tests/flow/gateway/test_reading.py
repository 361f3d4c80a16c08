"""What a gateway tells: the values of the commands' `--json`, with filters, cursors and NDJSON (issue 12, item 4)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19", "X-05")]

HOOKS = """
version: 1
guards: {{destructive-commands: true}}
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: log, url: "http://127.0.0.1:{port}/log", events: "turn:end"}}
  - {{id: gone, url: "http://127.0.0.1:{port}/gone?token=sk-ant-api03-{secret}", events: "turn:end", retry: []}}
hooks:
  - {{id: no-rm, on: 'tool:pre_execute:bash', rule: {{reason: no rm, commands: [{{program: [rm]}}]}}}}
"""
SECRET = "Zq81" * 24
COUNT = 4
"""Fewer than the failures that open the breaker of an endpoint."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as one:
        one.by_path[f"/gone?token=sk-ant-api03-{SECRET}"] = Answer(400)
        yield one


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    hooks = HOOKS.format(port=receiver.port, secret=SECRET)
    with fleet(tmp_path_factory.mktemp("reading"), "evaluator", "dispatcher", "carrier", hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def ids(world: Fleet, gateway: Gateway) -> list[str]:
    """Some denied calls, and ends of turns whose webhooks arrive at one endpoint and not at the other."""
    call = {"type": "tool:pre_execute", "tool": "bash", "session": "s-deny", "input": {"command": "rm x"}}
    with gateway.unix() as client:
        denied = [client.post("/v1/requests", json=call).json()["event"] for _ in range(COUNT)]
        ends = [{"type": "turn:end", "source": "codex", "session": f"s-{n}"} for n in range(COUNT)]
        ended: list[str] = client.post("/v1/events", json=ends).json()["ids"]
    wait_until(lambda: len(world.dead()) == COUNT, "the dead letters are there")
    wait_until(
        lambda: sum(one.state == "delivered" for one in world.deliveries()) == COUNT, "the other endpoint has its own"
    )
    return [*denied, *ended]


@pytest.fixture(scope="module")
def reader(gateway: Gateway, ids: list[str]) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("reader", "observe")) as client:
        yield client


def fleethook(world: Fleet, *words: str) -> list[Any]:
    """What a command prints with `--json`: its lines, or the items of its one list."""
    env = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}
    command = [sys.executable, "-P", "-m", "workers.cli", *words, "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30, cwd=world.folder)
    found = [json.loads(line) for line in done.stdout.splitlines()] if done.stdout.startswith("{") else None
    items: list[Any] = json.loads(done.stdout) if found is None else found
    return items


def walked(client: httpx.Client, path: str, limit: int, **filters: str) -> list[Any]:
    """Every item of a list, by its pages."""
    items: list[Any] = []
    params: dict[str, str] = {**filters, "limit": str(limit)}
    while True:
        page = client.get(path, params=params)
        assert page.status_code == 200, page.text
        assert len(page.json()["items"]) <= limit
        items += page.json()["items"]
        if page.json()["next"] is None:
            return items
        params["cursor"] = page.json()["next"]


@pytest.mark.parametrize(
    ("path", "words", "filters"),
    [
        ("/v1/events", ("events", "list"), {}),
        ("/v1/events", ("events", "list", "--decision", "deny"), {"decision": "deny"}),
        ("/v1/events", ("events", "list", "--session", "s-3"), {"session": "s-3"}),
        ("/v1/events", ("events", "list", "--where", "event.tool == 'bash'"), {"where": "event.tool == 'bash'"}),
        ("/v1/events", ("events", "list", "--type", "turn:*", "--since", "1h"), {"type": "turn:*", "since": "1h"}),
        ("/v1/deliveries", ("deliveries", "list"), {}),
        ("/v1/deliveries", ("deliveries", "list", "--state", "dead"), {"state": "dead"}),
        ("/v1/deliveries", ("deliveries", "list", "--status", "4xx"), {"status": "4xx"}),
        ("/v1/dead", ("dead", "list"), {}),
        ("/v1/dead", ("dead", "list", "--session", "s-1"), {"session": "s-1"}),
        ("/v1/hosts", ("hosts", "list"), {}),
        ("/v1/plugins", ("plugins", "list"), {}),
        ("/v1/endpoints", ("webhooks", "list"), {}),
    ],
)
def test_a_list_has_the_values_of_its_command(
    world: Fleet, reader: httpx.Client, path: str, words: tuple[str, ...], filters: dict[str, str]
) -> None:
    """By pages of three, and as NDJSON; every list of events has only what there is at its time."""
    expected = fleethook(world, *words)
    assert expected or path in {"/v1/hosts", "/v1/plugins"}
    assert reader.get(path, params=filters).json()["items"] == expected
    lines = reader.get(path, params=filters, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == expected
    if path in {"/v1/events", "/v1/deliveries", "/v1/dead"}:
        assert walked(reader, path, 3, **filters) == expected
    assert SECRET not in lines.text


def test_a_cursor_goes_on_where_its_page_ended_though_events_came_in_between(
    gateway: Gateway, reader: httpx.Client
) -> None:
    first = reader.get("/v1/events", params={"limit": "4"}).json()
    rest = walked(reader, "/v1/events", 5)[4:]
    with gateway.unix() as client:
        new = client.post("/v1/events", json={"type": "x:later", "session": "later"}).json()["id"]
    wait_until(lambda: reader.get("/v1/events").json()["items"][0]["id"] == new, "the new event is listed")
    second = reader.get("/v1/events", params={"limit": "1000", "cursor": first["next"]}).json()
    assert [one["id"] for one in second["items"]] == [one["id"] for one in rest]
    assert second["next"] is None


def test_an_event_comes_with_its_whole_trace(world: Fleet, reader: httpx.Client, ids: list[str]) -> None:
    (expected,) = fleethook(world, "trace", ids[-1])
    assert reader.get(f"/v1/events/{ids[-1]}").json() == expected
    assert {one["hook"]: one["state"] for one in expected["deliveries"]} == {"log": "delivered", "gone": "dead"}
    assert reader.get(f"/v1/events/{ids[-1][:-4]}").json() == expected
    denied = reader.get(f"/v1/events/{ids[0]}").json()
    assert (denied["event"]["decision"], denied["complete"]) == ("deny", True)
    missing = reader.get("/v1/events/e" + "0" * 32)
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    ambiguous = reader.get(f"/v1/events/{ids[0][:3]}")
    assert (ambiguous.status_code, ambiguous.json()["code"]) == (400, "id-ambiguous")


def test_hooks_come_with_their_last_run_as_the_command_has_them(world: Fleet, reader: httpx.Client) -> None:
    (expected,) = fleethook(world, "hooks", "list")
    hooks = reader.get("/v1/hooks").json()["items"]
    assert hooks == [{name: hook[name] for name in hook if name != "timeouts"} for hook in expected["hooks"]]
    assert next(hook for hook in hooks if hook["id"] == "no-rm")["last_run"]["what"] == "deny"


def test_a_session_has_what_its_events_say(gateway: Gateway, reader: httpx.Client) -> None:
    def session(name: str, **params: str) -> Any:
        return next(
            (one for one in reader.get("/v1/sessions", params=params).json()["items"] if one["id"] == name), None
        )

    denied = session("s-deny", source="generic", ended="false")
    assert (denied["events"], denied["denied"], denied["ended"]) == (COUNT, COUNT, False)
    assert denied["first"] <= denied["last"]
    with gateway.unix() as client:
        client.post("/v1/events", json={"type": "session:end", "source": "codex", "session": "s-2", "cwd": "/work/two"})
    wait_until(lambda: session("s-2", ended="true"), "the session has ended")
    ended = session("s-2", source="codex")
    assert (ended["events"], ended["cwd"], ended["last_type"]) == (2, "/work/two", "session:end")
    assert session("s-2", source="claude") is None


def test_workers_are_those_that_are_alive(reader: httpx.Client) -> None:
    roles = {one["role"]: one for one in reader.get("/v1/workers").json()["items"]}
    assert (roles["evaluator"]["health"], roles["evaluator"]["alive"]) == ("ok", 1)
    assert (roles["gateway"]["alive"], roles["host"]["health"]) == (1, "off")


@pytest.mark.parametrize(
    ("path", "params", "code", "words"),
    [
        ("/v1/events", {"limit": "0"}, "query-invalid", ">= 1"),
        ("/v1/events", {"limit": "x"}, "query-invalid", "limit"),
        ("/v1/events", {"sesion": "x"}, "query-invalid", "sesion"),
        ("/v1/events", {"decision": "maybe"}, "query-invalid", "maybe"),
        ("/v1/events", {"where": "event.tool =="}, "query-invalid", ""),
        ("/v1/events", {"since": "soon"}, "query-invalid", "'soon' is no time"),
        ("/v1/events", {"cursor": "abc"}, "cursor-invalid", "not of this list"),
        ("/v1/dead", {"cursor": "MTctMQ"}, "cursor-invalid", "not of this list"),
        ("/v1/deliveries", {"state": "lost"}, "query-invalid", "lost"),
        ("/v1/deliveries", [("session", "a"), ("session", "b")], "query-invalid", "came twice"),
        ("/v1/hosts", {"limit": "1"}, "query-invalid", "limit"),
    ],
)
def test_a_wrong_parameter_is_named(reader: httpx.Client, path: str, params: Any, code: str, words: str) -> None:
    response = reader.get(path, params=params)
    assert (response.status_code, response.json()["code"]) == (400, code), response.text
    assert words in response.json()["detail"]


def test_reading_needs_a_token_that_may_observe_on_the_socket_too(gateway: Gateway) -> None:
    with gateway.unix() as local, gateway.tcp(gateway.token("writer", "publish", "operate")) as client:
        for path in ("/v1/events", "/v1/dead", "/v1/workers"):
            assert local.get(path).json()["code"] == "token-missing"
            assert client.get(path).json()["code"] == "scope-missing"
        assert client.delete("/v1/events").headers["allow"] == "GET, HEAD, POST"
