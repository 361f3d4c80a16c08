"""`/asyncapi.json` and `/docs` say what a gateway does (issue 12, item 4).

`tests/support/asyncapi_schema.json` is the schema of AsyncAPI 3.1.0 from the npm package `@asyncapi/specs` 6.11.1
(Apache-2.0), without its descriptions and examples.
"""

from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from websockets.sync.client import connect

from bus.wire.codec import decode_body, decode_verdict
from bus.wire.connections import sync_client
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway
from tests.support.gobby.daemon import SocketClient
from tests.support.live import live

pytestmark = [pytest.mark.flow, pytest.mark.req("G-03", "G-19")]

SCHEMA = Path(__file__).parents[2] / "support/asyncapi_schema.json"
HOOKS = """
version: 1
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, commands: [{program: [rm]}]}}
  - {id: note, on: 'session:end', command: 'echo noted', blocking: false}
"""
RM = {"type": "tool:pre_execute", "tool": "bash", "session": "d", "cwd": "/tmp", "input": {"command": "rm x"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("described"), "evaluator", "dispatcher", "carrier", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def document(gateway: Gateway) -> Any:
    with gateway.tcp() as anybody:
        response = anybody.get("/asyncapi.json")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    return response.json()


def check(document: Any, name: str, message: object) -> None:
    """Compare a message with its description."""
    schema = {"components": document["components"], "$ref": f"#/components/messages/{name}/payload"}
    errors = [f"{error.instance_path}: {error.message}" for error in jsonschema_rs.iter_errors(schema, message)]
    assert not errors, (name, message, errors)


def test_it_is_a_description_by_the_schema_of_asyncapi(document: Any) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert not [
        f"{error.instance_path}: {error.message[:200]}" for error in jsonschema_rs.iter_errors(schema, document)
    ]
    wrong = {**document, "channels": {"live": {"address": 5}}}
    assert not jsonschema_rs.is_valid(schema, wrong), "the schema refuses what is wrong"
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)):
        place: Any = document
        for part in reference.split("/"):
            place = place["messages"][part] if part not in place and "messages" in place else place[part]
        assert place, reference


def test_every_message_of_a_real_feed_is_as_described(world: Fleet, gateway: Gateway, document: Any) -> None:
    token = gateway.token("described", "observe")
    seen: dict[str, Any] = {}
    with live(gateway, token) as client, gateway.unix() as http:
        for said in ({"type": "subscribe", "events": ["*"], "where": "true"}, {"type": "ping"}):
            check(document, {"subscribe": "liveSubscribe", "ping": "livePing"}[str(said["type"])], said)
            client.connection.send(json.dumps(said))
        client.connection.send("{")
        http.post("/v1/requests", json=RM)
        http.post("/v1/events", json={"type": "session:end", "session": "d"})
        while not {"position", "subscriptions", "pong", "error", "event", "delivery"} <= seen.keys():
            frame = client.next()
            seen[frame["kind"]] = frame
            name = "live" + frame["kind"].capitalize()
            check(document, name, frame)
            with pytest.raises(AssertionError):
                check(document, name, {**frame, "cursor": 5})
    assert seen["delivery"]["delivery"]["outcome"] == "delivered"


def test_every_message_for_gobbys_clients_is_as_described(gateway: Gateway, document: Any) -> None:
    headers = {"Authorization": f"Bearer {gateway.token('gobby-described', 'observe')}"}
    with connect(f"ws://127.0.0.1:{gateway.port}/ws", additional_headers=headers) as connection:
        client = SocketClient(connection)
        check(document, "gobbyEstablished", client.next())
        for said, name in (
            ({"type": "subscribe", "events": ["*"]}, "SubscribeSuccess"),
            ({"type": "unsubscribe", "events": ["stop"]}, "UnsubscribeSuccess"),
            ({"type": "ping"}, "Pong"),
        ):
            check(document, f"gobby{str(said['type']).capitalize()}", said)
            check(document, f"gobby{name}", client.ask(said))
        check(document, "gobbyError", client.ask({"type": "dance", "request_id": "r"}))
        with gateway.unix() as http:
            http.post("/v1/requests", json=RM)
        event = client.next()
        check(document, "gobbyHookEvent", event)
        with pytest.raises(AssertionError):
            check(document, "gobbyHookEvent", {**event, "timestamp": 5})


def test_entries_of_the_streams_are_as_described(world: Fleet, gateway: Gateway, document: Any) -> None:
    with gateway.unix() as http:
        asked = http.post("/v1/requests", json=RM).json()["event"]
    assert document["channels"]["events"]["address"] == world.keys("events")
    with sync_client(world.url("admin")) as client:
        entries = [fields for _, fields in client.xrange(world.keys("events")) if fields[b"id"].decode() == asked]
    (fields,) = entries
    plain = {
        name.decode(): msgspec.to_builtins(decode_body(value))
        if name == b"body"
        else msgspec.to_builtins(decode_verdict(value))
        if name == b"verdict"
        else value.decode()
        for name, value in fields.items()
    }
    check(document, "reply", plain.pop("verdict"))
    check(document, "streamEvent", plain)
    described = document["components"]["messages"]["streamEvent"]["payload"]["properties"]
    assert set(plain) <= set(described), "every field of a real entry is described"


class _Links(html.parser.HTMLParser):
    """What a page loads and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in {"src", "srcset", "style"} or name.startswith("on"):
                self.loaded.append(f"{name}={value}")
            elif name == "href":
                self.links.append(value or "")
            elif name == "id":
                self.ids.add(value or "")


def test_the_page_names_every_path_and_loads_nothing(gateway: Gateway, document: Any) -> None:
    with gateway.tcp() as anybody:
        response = anybody.get("/docs")
        paths = anybody.get("/openapi.json").json()["paths"]
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    found = _Links()
    found.feed(response.text)
    assert not found.loaded
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    for link in found.links:
        assert link.removeprefix("#") in found.ids or link in {"/openapi.json", "/asyncapi.json"}, link
    for path in [*paths, "/v1/live", "/ws"]:
        assert path in response.text
