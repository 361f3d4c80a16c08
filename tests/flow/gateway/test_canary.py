"""A secret that is sent in every field of every call is in nothing that a gateway or its fleet shows (issue 12, item 9)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from bus.wire.connections import sync_client
from tests.support.fleet import Fleet, fleet
from tests.support.forked import run_fleethook
from tests.support.gateway import Gateway, start_gateway
from tests.support.live import live, sse
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-02", "F-15")]

HOOKS = """
version: 1
hooks:
  - {id: deny, on: 'tool:pre_execute:bash', when: event.session.endsWith("-deny"), rule: {reason: no}}
  - {id: note, on: '*', command: 'cat > /dev/null', blocking: false}
"""
SHAPED = "ghp_" + secrets.token_hex(18)
"""A secret that is known by its shape, wherever it is."""
OPAQUE = secrets.token_hex(20)
"""A secret without a shape: it is sent as a token, and under names of secrets."""

RAW_KEYS = (":requests", ":events", ":verdict:", ":body:", ":reply:", ":delivery:")
"""What holds raw events or names of them, for its retention; whatever shows it redacts."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("canary"), "evaluator", "dispatcher", "carrier", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world)


def calls(client: httpx.Client) -> Iterator[httpx.Response]:
    """The secret in every place of every call."""
    payload = {
        "session_id": f"{SHAPED}-deny",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": SHAPED,
        "cwd": f"/home/{SHAPED}",
        "tool_input": {"command": f"curl -H 'Authorization: Bearer {OPAQUE}' https://u:{OPAQUE}@x.example/{SHAPED}"},
        "api_key": OPAQUE,
        SHAPED: "as a name",
    }
    hook, event = (
        "/v1/hooks/claude/PreToolUse",
        {"type": "notification", "session": SHAPED, "data": {"password": OPAQUE}},
    )
    yield client.post(hook, json=payload)
    for native, tool in (("PreToolUse", SHAPED), ("PostToolUse", SHAPED), ("PostToolUse", "Bash")):
        after = {**payload, "session_id": SHAPED, "hook_event_name": native, "tool_name": tool}
        yield client.post(f"/v1/hooks/claude/{native}", json=after)
    yield client.post(hook, json=payload, headers={"Accept": "application/vnd.fleethook.answer+json"})
    for name in (
        "Idempotency-Key",
        "Fleethook-Host",
        "Fleethook-Parent",
        "Accept",
        "Host",
        "Origin",
        "X-Other",
        "Cookie",
    ):
        yield client.post(hook, json=payload, headers={name: SHAPED})
    for name in ("on_failure", "wait", "other", SHAPED):
        yield client.post(hook, json=payload, params={name: SHAPED})
    for agent, native in (
        (SHAPED, "PreToolUse"),
        ("claude", SHAPED),
        (SHAPED[:32], "tool:pre_execute"),
        ("my-bot", f"x:{SHAPED}"),
    ):
        yield client.post(f"/v1/hooks/{agent}/{native}", json=payload)
    yield client.post(hook, content=f"not JSON {SHAPED}".encode())
    yield client.post(hook, content=f"{SHAPED} {SHAPED}".encode(), headers={"Content-Type": SHAPED})
    for kind in ("/v1/events", "/v1/requests"):
        yield client.post(kind, json=event)
        yield client.post(kind, json={**event, "id": SHAPED})
        yield client.post(kind, json={**event, "type": SHAPED})
        yield client.post(kind, json={**event, "type": f"x:{SHAPED}", "tool": SHAPED, "source": SHAPED, "host": SHAPED})
        yield client.post(kind, json={**event, "input": SHAPED})
        yield client.post(kind, content=f"[{SHAPED}".encode())
        yield client.post(kind, content=b"{}", headers={"Content-Type": f"text/{SHAPED}"})
        cloud = {
            "specversion": "1.0",
            "id": SHAPED,
            "source": SHAPED,
            "type": "notification",
            "data": event,
            "x": SHAPED,
        }
        yield client.post(kind, json=cloud, headers={"Content-Type": "application/cloudevents+json"})
        yield client.post(kind, json=[cloud], headers={"Content-Type": "application/cloudevents-batch+json"})
        yield client.post(
            kind, json={**cloud, "specversion": SHAPED}, headers={"Content-Type": "application/cloudevents+json"}
        )
        binary = {
            "ce-specversion": "1.0",
            "ce-id": SHAPED,
            "ce-source": SHAPED,
            "ce-type": "notification",
            "ce-x": SHAPED,
        }
        yield client.post(kind, json=event, headers=binary)
    yield client.post("/v1/entries", content=SHAPED.encode())
    words = [b"events", b"id", b"e" + b"0" * 31 + b"1", SHAPED.encode(), b"x"]
    yield client.post(
        "/v1/entries", content=b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
    )
    for path in (f"/{SHAPED}", f"/v1/events/{SHAPED}", f"/v1/hooks?cursor={SHAPED}", f"/v1/live?cursor={SHAPED}"):
        yield client.get(path)
        yield client.delete(path)
    for name in ("type", "session", "where", "since", "cursor", "limit", "decision", SHAPED):
        for path in ("/v1/events", "/v1/deliveries", "/v1/dead", "/v1/sessions", "/v1/live/sse"):
            if path != "/v1/live/sse" or name in {"where", "cursor"}:
                yield client.get(path, params={name: SHAPED})
    for action in (
        "/v1/deliveries/retry",
        "/v1/dead/redrive",
        f"/v1/endpoints/{SHAPED}/pause",
        f"/v1/endpoints/{SHAPED}/resume",
    ):
        yield client.post(action, json={"ids": [SHAPED], "reason": SHAPED})


def shown(world: Fleet, gateway: Gateway, reader: str) -> Iterator[tuple[str, str]]:
    """Everything that the fleet shows of what has happened, by a name for each."""
    with gateway.tcp(reader) as client:
        for path in ("events", "deliveries", "dead", "hooks", "plugins", "endpoints", "sessions", "hosts", "workers"):
            yield (
                path,
                client.get(f"/v1/{path}", params={"limit": 1000} if path in {"events", "deliveries"} else {}).text,
            )
        for row in client.get("/v1/events", params={"limit": 1000}).json()["items"]:
            yield f"trace {row['id']}", client.get(f"/v1/events/{row['id']}").text
        for path in ("/metrics", "/admin/metrics", "/readyz?verbose", "/openapi.json"):
            yield path, client.get(path).text
    env = {**world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}
    for words in (
        ["events", "list", "--json"],
        ["events", "list"],
        ["status", "--json"],
        ["deliveries", "list", "--json"],
    ):
        yield " ".join(words), run_fleethook(words, env=env).stdout
    for worker in world.workers:
        yield f"log of the {worker.kind}", worker.log.read_text("utf-8")
    for name, text in stored(world):
        if not any(part in name for part in RAW_KEYS):
            yield name, text


def stored(world: Fleet) -> list[tuple[str, str]]:
    """Every key of the server with its value, as text."""
    read: dict[bytes, Callable[[bytes], tuple[Any, ...]]] = {
        b"string": lambda key: ("GET", key),
        b"hash": lambda key: ("HGETALL", key),
        b"list": lambda key: ("LRANGE", key, 0, -1),
        b"set": lambda key: ("SMEMBERS", key),
        b"zset": lambda key: ("ZRANGE", key, 0, -1),
        b"stream": lambda key: ("XRANGE", key, "-", "+"),
    }
    with sync_client(world.url("admin")) as client:
        keys = [(key, kind) for key in client.scan_iter("*") if (kind := read.get(client.type(key)))]
        found = [(key.decode(), f"{key!r} {client.execute_command(*kind(key))!r}") for key, kind in keys]
    assert len(found) > 5
    return found


def leaks(text: str) -> list[str]:
    return [name for name, secret in (("shaped", SHAPED), ("opaque", OPAQUE)) if secret in text]


def test_a_secret_in_every_field_is_in_nothing_that_is_shown(world: Fleet, gateway: Gateway) -> None:
    operator = gateway.token("operator", "publish", "observe", "operate")
    leaking: dict[str, list[str]] = {}

    def check(name: str, text: str) -> None:
        if found := leaks(text):
            leaking.setdefault(name, [*found, text[max(0, text.find(SHAPED) - 120) :][:150]])

    responses = 0
    events = sse(gateway, operator)
    next(events)
    with live(gateway, operator) as feed, gateway.tcp(operator) as client, gateway.tcp(OPAQUE) as stranger:
        feed.next()
        for caller in (client, stranger):
            for response in calls(caller):
                responses += 1
                request = response.request
                name = f"{request.method} {request.url.path} {response.status_code}".replace(SHAPED, "SECRET")
                check(name, response.text + str(response.headers))
        feed.say("subscribe", events=[SHAPED], where=SHAPED)
        check("an answer of the feed", json.dumps(feed.until("error")))
        end = client.post("/v1/events", json={"type": "session:end", "session": "the-end"}).json()["id"]
        while (frame := feed.next()).get("event", {}).get("id") != end:
            check("the feed", json.dumps(frame))
        for kind, _, data in events:
            check("the server-sent events", json.dumps(data))
            if kind == "event" and data["id"] == end:
                break
    events.close()
    wait_until(lambda: world.deliveries(end) and world.deliveries(end)[0].state == "delivered", "all is delivered")
    for name, text in shown(world, gateway, operator):
        check(name, text)
    assert responses > 150
    assert leaking == {}, "\n".join(f"{name}: {found}" for name, found in leaking.items())
