"""Messages to chats and on-call services from carriers to a real receiver: signed, judged by their service's words."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from bus.hooks import Format
from bus.http.signing import generate_secret
from bus.verdicts import Part, Verdict
from bus.wire.codec import encode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.delivering import carrying, dispatching, publish, settled, turn_end
from tests.support.receivers import Answer, receiving
from tests.support.running import publish_hooks
from tests.support.servers import Server

SECRET = generate_secret()
KEY = "R0UT1NGKEY0000000000000000000000"
DENIED = Verdict(decision="deny", reason="no <!channel>", parts=(Part(hook="guard", decision="deny"),))


@pytest.mark.req("G-22", "G-09", "B-03")
async def test_each_service_gets_its_own_message_signed_and_its_answer_is_understood(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PD_KEY", KEY)
    formats: dict[Format, Answer] = {
        "cloudevents": Answer(204),
        "discord": Answer(429, b'{"message": "You are being rate limited.", "retry_after": 64.57, "global": false}'),
        "pagerduty": Answer(202, b'{"status":"success"}'),
        "slack": Answer(404, b"channel_not_found"),
        "teams": Answer(
            200, b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429"
        ),
    }
    async with receiving() as receiver, AsyncExitStack() as running:
        receiver.by_path = {f"/{name}": answer for name, answer in formats.items()}
        lines = [
            f"  - {{id: {name}, format: {name}, url: '{receiver.url(f'/{name}')}', secret: {SECRET}, retry: [9]"
            f"{', routing_key: env:PD_KEY' if name == 'pagerduty' else ''}}}"
            for name in formats
        ]
        allowed = f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\n'
        await publish_hooks(connections, keys, allowed + "endpoints:\n" + "\n".join(lines))
        await running.enter_async_context(carrying(server.url, keys))
        await running.enter_async_context(dispatching(server.url, keys))
        event = turn_end(type="tool:pre_execute", tool="bash", input={"command": "echo <!channel> @everyone"})
        await publish(connections, keys, event, verdict=encode_verdict(DENIED))
        made = await settled(connections, keys, event.id, "delivered", "due", "delivered", "dead", "due")
        got = {one.path.strip("/"): one for one in receiver.got}
        assert set(got) == set(formats)
        for one in got.values():
            assert Webhook(SECRET).verify(one.body, one.headers) == one.json
    types = {name: one.headers["content-type"] for name, one in got.items()}
    assert types.pop("cloudevents") == "application/cloudevents+json"
    assert set(types.values()) == {"application/json"}
    assert got["cloudevents"].json["data"]["verdict"]["reason"] == "no <!channel>"
    assert (got["pagerduty"].json["routing_key"], got["pagerduty"].json["dedup_key"]) == (KEY, "fleethook/s1/guard")
    assert b"<!channel>" not in got["slack"].body
    assert got["discord"].json["allowed_mentions"] == {"parse": []}
    by_name = {one.hook: one for one in made}
    assert by_name["slack"].reason.startswith("receiver answered 404 (channel_not_found)")
    assert "HTTP error 429" in by_name["teams"].log[0].error
    assert 64_000 < by_name["discord"].due - by_name["discord"].log[0].ms <= 66_000, (
        "as long as its body asks, no header said it"
    )
    assert not any(KEY in json.dumps([one.reason, *(attempt.output for attempt in one.log)]) for one in made)


@pytest.mark.req("G-22")
async def test_a_key_that_is_missing_is_said_and_one_that_changes_is_used(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    file = tmp_path / "pd"
    async with receiving() as receiver, AsyncExitStack() as running:
        await publish_hooks(
            connections,
            keys,
            f"""
network: {{allow: ["127.0.0.1:{receiver.port}"]}}
endpoints:
  - {{id: pd, format: pagerduty, payload: thin, url: "{receiver.url()}", routing_key: "file:{file}"}}
""",
        )
        await running.enter_async_context(carrying(server.url, keys))
        await running.enter_async_context(dispatching(server.url, keys))
        first = turn_end(data={"message": "hidden"})
        await publish(connections, keys, first)
        (dead,) = await settled(connections, keys, first.id, "dead")
        assert f"file:{file} cannot be read" in dead.reason
        file.write_text(KEY + "\n")
        second = turn_end(data={"message": "hidden"})
        await publish(connections, keys, second)
        await settled(connections, keys, second.id, "delivered")
        (got,) = receiver.got
        assert got.json["routing_key"] == KEY
        assert b"hidden" not in got.body
        assert got.json["payload"]["custom_details"]["Event"] == f"fleethook events show {second.id}"
