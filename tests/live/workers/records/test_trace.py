"""One trace shows everything that one event caused (X-05)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from bus.client import Bus
from bus.errors import NotFound
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.wire.codec import encode_payload
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from tests.cli_kit import namespace, workers
from tests.support.http_servers import answer, receiver
from tests.support.servers import Server
from tests.support.waiting import CONNECT, until
from workers.records.trace import Trace, trace, trace_record

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz012345"

HOOKS = """
hooks:
  - id: check
    on: tool:pre_execute:bash
    command: echo "looking, token={secret}" >&2; exit 3
  - id: never
    on: tool:pre_execute:bash
    rule: {{decision: ask, reason: look at it}}
  - id: log
    on: tool:pre_execute:bash
    blocking: false
    command: echo logged
endpoints:
  - {{id: well, url: "http://127.0.0.1:{port}/x"}}
  - {{id: ill, url: "http://127.0.0.1:{other}/x", retry: [60]}}
network: {{allow: ["127.0.0.1:{port}", "127.0.0.1:{other}"]}}
"""


@pytest.fixture
async def bus(server: Server, keys: Keys) -> AsyncIterator[Bus]:
    """A program on the bus."""
    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as made:
        yield made


def call(command: str = "ls") -> Event:
    """A tool call."""
    return Event(
        type="tool:pre_execute",
        tool="bash",
        native_tool="bash",
        session="s1",
        id=event_id(),
        host="test-host",
        input={"command": command},
    )


@pytest.mark.req("X-05", "F-15")
async def test_a_trace_shows_verdict_parts_attempts_and_when_the_next_is_due(
    server: Server, keys: Keys, connections: Connections, bus: Bus, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(receiver(answer()))
        other = await stack.enter_async_context(
            receiver(answer("503 Service Unavailable", b"not now, password=hunter2hunter2"))
        )
        text = HOOKS.format(port=port, other=other, secret=SECRET)
        await apply(connections, keys, parse_hook_file(text, "fleet"))
        stack.enter_context(workers(server.url, keys, tmp_path / "home"))
        event = call(f"echo {SECRET}")
        verdict = await bus.request(event)
        found = await settled(
            connections,
            keys,
            event.id,
            lambda one: [d.state for d in one.deliveries] == ["due", "delivered", "delivered"],
        )

    assert verdict.decision == "ask"
    assert found.event.verdict is not None
    check, never = found.event.verdict.parts
    assert (check.hook, check.exit_code, check.decision) == ("check", 3, "abstain")
    assert "exit 3" in check.fallback
    assert check.output.startswith("looking")
    assert check.origin == "fleethook.yaml:3"
    assert (never.hook, never.decision, never.version) == ("never", "ask", "1")
    states = {one.hook: one for one in found.deliveries}
    (failed,) = states["ill"].log
    assert (failed.status, failed.outcome) == (503, "retry")
    assert failed.output.startswith("not now")
    assert states["ill"].due > failed.ms + 59_000
    assert states["well"].log[0].status == 200
    assert "logged" in states["log"].log[0].output
    whole = msgspec.json.encode(trace_record(found)).decode()
    assert SECRET not in whole
    assert "hunter2" not in whole


@pytest.mark.req("X-05")
async def test_relatives_stand_in_their_order(connections: Connections, keys: Keys, bus: Bus) -> None:
    top, middle, other = call(), call(), call()
    middle = msgspec.structs.replace(middle, parent=top.id)
    below = [msgspec.structs.replace(call(), parent=middle.id) for _ in range(2)]
    deepest = msgspec.structs.replace(call(), parent=below[0].id)
    # A child of a blocking hook comes into the stream before its parent, which is recorded when it is answered.
    await bus.publish_many([below[0], top, middle, other, deepest, below[1]])
    found = await trace(connections, keys, middle.id)
    assert [one.id for one in found.parents] == [top.id]
    assert [(one.id, one.depth) for one in found.children] == [(below[0].id, 1), (deepest.id, 2), (below[1].id, 1)]
    orphan = msgspec.structs.replace(call(), parent="gone")
    await bus.publish(orphan)
    assert [(one.id, one.known) for one in (await trace(connections, keys, orphan.id)).parents] == [("gone", False)]


async def test_the_agents_own_fallback_stands_beside_what_was_recorded(
    server: Server, keys: Keys, connections: Connections, bus: Bus, tmp_path: Path
) -> None:
    event, report = call(), event_id()
    fields = (
        "id",
        report,
        "of",
        event.id,
        "fallback",
        "no verdict in time",
        "source",
        "claude",
        "event",
        "PreToolUse",
        "host",
        "test-host",
    )
    with connections.lease() as connection:
        checked((await connection.exchange([("XADD", keys("events"), "*", *fields)]))[0], "reporting")
    only = await trace(connections, keys, event.id)
    assert (only.event.of, only.event.event.type) == (event.id, "tool:pre_execute"), "the request itself never came"
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        assert (await bus.request(event)).fallback == ""
    for name in (event.id, report):
        found = await trace(connections, keys, name)
        assert (found.event.id, found.event.decision) == (event.id, "abstain")
        assert [(one.id, one.why) for one in found.reports] == [(report, "no verdict in time")]


async def test_a_request_that_waits_and_one_that_cannot_be_read(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    name = event_id()
    fields = (
        "id",
        name,
        "reply",
        keys("reply", "0" * 32),
        "budget",
        60_000,
        "source",
        "claude",
        "event",
        "PreToolUse",
        "host",
        "test-host",
        "body",
        encode_payload(b'{"truncated'),
    )
    with connections.lease() as connection:
        checked((await connection.exchange([("XADD", keys("requests"), "*", *fields)]))[0], "adding")
    waiting = await trace(connections, keys, name)
    assert waiting.event.pending
    assert waiting.event.event.type == "tool:pre_execute"
    with workers(server.url, keys, tmp_path / "home", "evaluator"):
        found = await settled(connections, keys, name, lambda one: bool(one.dead))
    assert "not JSON" in found.event.problem
    assert [one.kind for one in found.dead] == ["entry"]
    assert "not JSON" in found.dead[0].reason
    with pytest.raises(NotFound, match="no event is called"):
        await trace(connections, keys, "nothing")


async def test_what_retention_took_is_shown_from_what_its_deliveries_keep(
    server: Server, keys: Keys, connections: Connections, bus: Bus, tmp_path: Path
) -> None:
    async with receiver(answer("500 Oh")) as port:
        target = f"127.0.0.1:{port}"
        text = f'endpoints: [{{id: ill, url: "http://{target}/x", retry: [60]}}]\nnetwork: {{allow: ["{target}"]}}'
        await apply(connections, keys, parse_hook_file(text, "fleet"))
        with workers(server.url, keys, tmp_path / "home", "dispatcher", "carrier"):
            name = await bus.publish(call("make"))
            await settled(connections, keys, name, lambda one: _states(one) == ["due"])
    with connections.lease() as connection:
        await connection.exchange([("XTRIM", keys("events"), "MAXLEN", 0)])
    found = await trace(connections, keys, name)
    assert found.event.event.input == {"command": "make"}
    assert [one.hook for one in found.deliveries] == ["ill"]


async def settled(connections: Connections, keys: Keys, name: str, holds: Callable[[Trace], bool]) -> Trace:
    """The trace, as soon as it looks as it should."""
    last: list[Trace] = []

    async def look() -> bool:
        try:
            last[:] = [await trace(connections, keys, name)]
        except NotFound:
            return False
        return holds(last[0])

    await until(look, f"the trace of {name} settles")
    return last[0]


def _states(found: Trace) -> list[str]:
    return sorted(one.state for one in found.deliveries)
