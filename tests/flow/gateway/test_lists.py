"""What a gateway tells: the values of the commands' `--json`, with filters, cursors and NDJSON (issue 12, item 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cli_kit import fleethook_in
from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.plugins import DENIES, plugin
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.waiting import same_twice, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-19", "X-05")]

HOOKS = """
version: 1
plugins: {{tested: {{path: "{plugin}"}}}}
guards: {{destructive-commands: true}}
network: {{allow: ["127.0.0.1:{port}"]}}
endpoints:
  - {{id: log, url: "http://127.0.0.1:{port}/log", events: "turn:end"}}
  - {{id: gone, url: "http://127.0.0.1:{port}/gone?token=sk-ant-api03-{secret}", events: "turn:end", retry: []}}
hooks:
  - id: no-rm-all
    on: 'tool:pre_execute:bash'
    rule: {{reason: no rm of all, commands: [{{program: [rm], touches: [whole_project]}}]}}
  - {{id: no-rm, on: 'tool:pre_execute:bash', rule: {{reason: no rm, commands: [{{program: [rm]}}]}}}}
  - {{id: tell, on: 'turn:end', command: 'true', blocking: false}}
  - {{id: never, on: 'model:pre_switch', command: 'true'}}
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
    folder = tmp_path_factory.mktemp("reading")
    (folder / "tested.py").write_text(plugin(DENIES), encoding="utf-8")
    hooks = HOOKS.format(port=receiver.port, secret=SECRET, plugin=folder / "tested.py")
    with fleet(folder / "fleet", hooks=hooks) as one:
        found_by_name = one.places.config / "plugins"  # a published set names plugins, and has no paths
        found_by_name.mkdir(parents=True)
        (found_by_name / "tested.py").write_text(plugin(DENIES), encoding="utf-8")
        one.start("evaluator", "dispatcher", "carrier")
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
        lambda: sum(one.state == "delivered" for one in world.deliveries()) == 2 * COUNT,
        "the other endpoint and the background hook have their own",
    )
    return [*denied, *ended]


@pytest.fixture(scope="module")
def reader(gateway: Gateway, ids: list[str]) -> Iterator[httpx.Client]:
    with gateway.tcp(gateway.token("reader", "observe")) as client:
        yield client


def fleethook(world: Fleet, *words: str) -> list[Any]:
    """What a command prints with `--json`: its lines, or the items of its one list."""
    env = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}
    done = fleethook_in(env, world.folder, *words, "--json")
    assert done.code == 0, done.err
    found = done.lines if done.out.startswith("{") else None
    items: list[Any] = done.json if found is None else found
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
        ("/v1/dead/reasons", ("dead", "list", "--group"), {}),
        ("/v1/hosts", ("hosts", "list"), {}),
        ("/v1/plugins", ("plugins", "list"), {}),
        ("/v1/endpoints", ("webhooks", "list"), {}),
    ],
)
def test_a_list_has_the_values_of_its_command(
    world: Fleet, reader: httpx.Client, path: str, words: tuple[str, ...], filters: dict[str, str]
) -> None:
    """By pages of three, and as NDJSON; every list of events has only what there is at its time."""
    paged = path in {"/v1/events", "/v1/deliveries", "/v1/dead"}

    def by_http() -> tuple[Any, httpx.Response, list[Any]]:
        lines = reader.get(path, params=filters, headers={"Accept": "application/x-ndjson"})
        pages = walked(reader, path, 3, **filters) if paged else []
        return reader.get(path, params=filters).json()["items"], lines, pages

    expected, (items, lines, pages) = same_twice(lambda: fleethook(world, *words), by_http)
    assert items == expected
    assert expected or path == "/v1/hosts"
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == expected
    assert pages == (expected if paged else [])
    assert SECRET not in lines.text


@pytest.mark.req("G-17")
def test_plugins_come_with_their_handlers_and_calls(reader: httpx.Client) -> None:
    """In the list, and in the state of the fleet."""

    def found(path: str, key: str) -> dict[str, Any]:
        (one,) = (item for item in reader.get(path).json()[key] if item["name"] == "tested")
        return dict(one)

    wait_until(lambda: found("/v1/plugins", "items")["calls"] == COUNT, "the worker has reported its calls")
    for path, key in (("/v1/plugins", "items"), ("/admin/status", "plugins")):
        one = found(path, key)
        assert not one["problem"]
        assert (one["dialect"], one["state"], one["hooks"], one["failures"]) == ("python", "running", 1, 0)
        assert one["handlers"] == [["check", "before_tool", 10]]
        assert [worker["calls"] for worker in one["workers"]] == [COUNT]


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


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/v1/hooks", 4),
        ("/v1/plugins", 0),
        ("/v1/endpoints", 2),
        ("/v1/sessions", COUNT),
        ("/v1/hosts", 0),
        ("/v1/workers", 3),
        ("/v1/messages", 0),
        ("/v1/jobs", 0),
        ("/v1/inbox", 0),
        ("/v1/hookset/history", 0),
        ("/v1/dead/reasons", 1),
    ],
)
def test_a_list_that_comes_whole_also_comes_in_pages(reader: httpx.Client, path: str, least: int) -> None:
    def texts(items: list[Any]) -> list[str]:
        """What names the items: counts and times change."""
        return sorted(str([one.get(name) for name in ("id", "source", "host", "role", "reason")]) for one in items)

    whole, pages = same_twice(lambda: texts(reader.get(path).json()["items"]), lambda: texts(walked(reader, path, 2)))
    assert pages == whole
    assert len(whole) >= least
    lines = reader.get(path, params={"limit": "1"}, headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert texts([json.loads(line) for line in lines]) == whole


def test_an_event_comes_with_its_whole_trace(world: Fleet, reader: httpx.Client, ids: list[str]) -> None:
    (expected,), found = same_twice(
        lambda: fleethook(world, "trace", ids[-1]), lambda: reader.get(f"/v1/events/{ids[-1]}").json()
    )
    assert found == expected
    assert {one["hook"]: one["state"] for one in expected["deliveries"]} == {
        "log": "delivered",
        "gone": "dead",
        "tell": "delivered",
    }
    assert reader.get(f"/v1/events/{ids[-1][:-4]}").json() == expected
    denied = reader.get(f"/v1/events/{ids[0]}").json()
    assert (denied["event"]["decision"], denied["complete"]) == ("deny", True)
    missing = reader.get("/v1/events/e" + "0" * 32)
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    ambiguous = reader.get(f"/v1/events/{ids[0][:3]}")
    assert (ambiguous.status_code, ambiguous.json()["code"]) == (400, "id-ambiguous")


def test_hooks_come_with_their_last_run_as_the_command_has_them(world: Fleet, reader: httpx.Client) -> None:
    (expected,), hooks = same_twice(
        lambda: fleethook(world, "hooks", "list"), lambda: reader.get("/v1/hooks").json()["items"]
    )
    assert hooks == [{name: hook[name] for name in hook if name != "timeouts"} for hook in expected["hooks"]]
    by_id = {hook["id"]: hook for hook in hooks}
    assert by_id["no-rm"]["last_run"]["what"] == "deny"
    assert by_id["tell"]["last_run"]["what"] == "delivered"


def test_hooks_say_how_often_they_ran_how_that_ended_and_how_long_it_took(reader: httpx.Client) -> None:
    """A rule that denied, one that was checked and did not fit, and a background hook (G-22)."""

    def figures() -> dict[str, Any]:
        return {hook["id"]: hook["figures"] for hook in reader.get("/v1/hooks").json()["items"]}

    wait_until(lambda: figures()["no-rm"]["runs"] == COUNT, "the evaluator has sent its counts")
    wait_until(lambda: figures()["no-rm-all"]["runs"] == COUNT, "and of the rule that did not fit")
    wait_until(lambda: figures()["tell"]["runs"] == COUNT, "the carrier has sent its counts")
    found = figures()
    assert (found["no-rm"]["failed"], found["no-rm"]["outcomes"]) == (0, {"deny": COUNT})
    assert (found["tell"]["failed"], found["tell"]["outcomes"]) == (0, {"delivered": COUNT})
    assert 0 < found["tell"]["mean_ms"] <= 30_000
    assert 0 < found["tell"]["p50_ms"] <= found["tell"]["p99_ms"]
    assert found["no-rm-all"]["outcomes"] == {"silent": COUNT}
    never = {"runs": 0, "failed": 0, "outcomes": {}, "mean_ms": 0.0, "p50_ms": None, "p99_ms": None}
    assert found["never"] == never


def test_endpoints_have_their_health_their_figures_and_their_last_failure(reader: httpx.Client) -> None:
    def endpoints() -> dict[str, Any]:
        return {one["id"]: one for one in reader.get("/v1/endpoints").json()["items"]}

    for name in ("log", "gone"):
        wait_until(lambda name=name: endpoints()[name]["figures"]["runs"] == COUNT, "the carrier has sent its counts")  # type: ignore[misc]  # a default
    log, gone = endpoints()["log"], endpoints()["gone"]
    assert (log["figures"]["failed"], log["figures"]["outcomes"]) == (0, {"2xx": COUNT})
    assert (gone["figures"]["failed"], gone["figures"]["outcomes"]) == (COUNT, {"4xx": COUNT})
    assert log["last_failure"] is None
    newest = reader.get("/v1/dead", params={"limit": "1"}).json()["items"][0]
    last = gone["last_failure"]
    assert (last["delivery"].partition(".")[2], last["status"]) == ("gone", 400)
    assert last["reason"]
    assert newest["hook"] == "gone"
    assert (log["health"]["breaker"], log["health"]["standing"], log["health"]["failures"]) == ("closed", "active", 0)


def test_one_delivery_and_one_dead_letter_come_with_event_and_request(
    world: Fleet, reader: httpx.Client, ids: list[str]
) -> None:
    name = f"{ids[-1]}.gone"
    (expected,) = fleethook(world, "dead", "show", name)
    assert reader.get(f"/v1/dead/{name}").json() == expected
    assert reader.get(f"/v1/deliveries/{name}").json() == expected
    assert reader.get(f"/v1/dead/{ids[-1][:-4]}.gone").json() == expected
    assert (expected["state"], expected["log"][0]["status"], expected["payload"]["id"]) == ("dead", 400, ids[-1])
    assert (expected["request"]["headers"]["webhook-id"], expected["waits"]) == (f"{ids[-1]}_gone", "")
    assert SECRET not in str(expected)
    (sent,) = fleethook(world, "deliveries", "show", f"{ids[-1]}.log")
    assert reader.get(f"/v1/deliveries/{ids[-1]}.log").json() == sent
    for path in (f"/v1/dead/{ids[-1]}.log", "/v1/deliveries/e0.nothing", "/v1/dead/requests-1-0"):
        missing = reader.get(path)
        assert (missing.status_code, missing.json()["code"]) == (404, "not-found"), path


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
    def roles() -> list[tuple[str, str, int]]:
        items = reader.get("/v1/workers").json()["items"]
        return [
            (one["role"], one["health"], one["alive"])
            for one in items
            if one["role"] in {"evaluator", "gateway", "host"}
        ]

    # A busy machine may miss a heartbeat.
    expected = [("evaluator", "ok", 1), ("gateway", "ok", 1), ("host", "off", 0)]
    wait_until(lambda: sorted(roles()) == expected, "they are listed as they are")


@pytest.mark.parametrize(
    ("path", "params", "code", "words"),
    [
        ("/v1/events", {"limit": "0"}, "query-invalid", ">= 1"),
        ("/v1/events", {"limit": "x"}, "query-invalid", "limit"),
        ("/v1/events", {"sesion": "x"}, "query-invalid", "sesion"),
        ("/v1/events", {"decision": "maybe"}, "query-invalid", "maybe"),
        ("/v1/events", {"where": "event.tool =="}, "query-invalid", ""),
        ("/v1/events", {"since": "soon"}, "query-invalid", "'soon' is no time"),
        ("/v1/events", {"cursor": "abc"}, "cursor-invalid", "no cursor of this list"),
        ("/v1/dead", {"cursor": "MTctMQ"}, "cursor-invalid", "no cursor of this list"),
        ("/v1/deliveries", {"state": "lost"}, "query-invalid", "lost"),
        ("/v1/deliveries", [("session", "a"), ("session", "b")], "query-invalid", "came twice"),
        ("/v1/hosts", {"limit": "1001"}, "query-invalid", "<= 1000"),
        ("/v1/hooks", {"cursor": "abc"}, "cursor-invalid", "no cursor of this list"),
        ("/v1/sessions", {"limits": "1"}, "query-invalid", "limits"),
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
