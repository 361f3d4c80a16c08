"""Dispatchers against a real server: events become deliveries exactly once, due ones come back in time."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bus.errors import Unreachable
from bus.events import Event
from bus.ids import event_id
from bus.transport import event_entry
from bus.verdicts import Verdict
from bus.wire.codec import encode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, call_all
from tests.support.delivering import (
    Asked,
    carrying,
    dispatch_event,
    dispatching,
    killed,
    left,
    publish,
    settled,
    turn_end,
    watcher_of,
)
from tests.support.proxy import Proxy
from tests.support.receivers import receiving
from tests.support.running import HOST, do, publish_hooks, stream
from tests.support.servers import Server
from tests.support.waiting import at_most, until
from workers.delivery.dead_letters import dead_letters
from workers.delivery.deliveries import deliveries, retry
from workers.delivery.endpoint_controls import disable, pause, resume
from workers.delivery.filters import Filter
from workers.dispatcher import GROUP, STANDBY_SECONDS, WAKE_SECONDS, Dispatcher
from workers.records.bulk_jobs import begin

HOOKS = """
endpoints:
  - {id: a, url: "https://a.example", events: "turn:*"}
  - {id: b, url: "https://b.example", events: "*"}
hooks:
  - {id: c, on: "turn:end", blocking: false, command: "true"}
  - {id: d, on: "tool:pre_execute", command: "true"}
"""


async def states(connections: Connections, keys: Keys, event: str) -> dict[str, str]:
    """The deliveries of an event by hook."""
    return {one.hook: one.state for one in await deliveries(connections, keys, Filter(event=event))}


async def until_owed(connections: Connections, keys: Keys, event: str, *hooks: str) -> None:
    """Return when an event has exactly these deliveries."""

    async def owed() -> bool:
        return set(await states(connections, keys, event)) == set(hooks)

    await until(owed, f"{event} is owed to {hooks}")


async def acknowledged(connections: Connections, keys: Keys) -> bool:
    """Whether every event has been read and acknowledged."""
    (group,) = await do(connections, "XINFO", "GROUPS", keys("events"))
    facts = dict(zip(group[::2], group[1::2], strict=True))
    last = (await stream(connections, keys))[-1].id
    return bool(facts[b"pending"] == 0) and facts[b"last-delivered-id"].decode() == last


@pytest.mark.req("B-06")
async def test_an_event_is_owed_to_every_endpoint_and_background_hook_that_fits(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    async with dispatching(server.url, keys):
        name = await publish(connections, keys, turn_end())
        await until_owed(connections, keys, name, "a", "b", "c")
        tool = Event(type="tool:pre_execute", tool="bash", id=event_id(), host=HOST)
        await publish(connections, keys, tool)
        await until_owed(connections, keys, tool.id, "b", "d")
        asked = await publish(
            connections,
            keys,
            Event(type="tool:pre_execute", tool="bash", id=event_id(), host=HOST),
            verdict=encode_verdict(Verdict(decision="deny", reason="no")),
        )
        await until_owed(connections, keys, asked, "b")
        assert await left(connections, keys) == {"deliveries": 6, "body": 3}


@pytest.mark.req("B-05")
async def test_a_repeated_event_and_two_dispatchers_owe_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """A spool that was drained twice, and two that both take themselves for active."""
    await publish_hooks(connections, keys, HOOKS)
    async with dispatching(server.url, keys) as one, dispatching(server.url, keys) as other:
        for each in (one, other):
            each._holds_lease = _always  # type: ignore[method-assign]  # a lease that neither lost
        event = turn_end()
        for _ in range(3):
            await publish(connections, keys, event)
        names = [await publish(connections, keys, turn_end()) for _ in range(40)]
        for name in (event.id, *names):
            await until_owed(connections, keys, name, "a", "b", "c")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    assert await left(connections, keys) == {"deliveries": 123, "body": 41}
    assert await do(connections, "HGET", keys("body", event.id), "refs") == b"3"


async def _always() -> bool:
    return True


async def test_reports_repeated_calls_and_undecodable_requests_owe_nothing(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    verdict = encode_verdict(Verdict(decision="allow"))
    async with dispatching(server.url, keys):
        await publish(connections, keys, turn_end(), same="1")
        add = ("XADD", keys("events"), "*", "id", event_id(), "source", "claude", "event", "Stop", "host", HOST)
        await do(connections, *add, "of", "e1", "fallback", "no evaluator")
        await do(connections, *add, "body", b"\xc1", "verdict", verdict)
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert await left(connections, keys) == {}


async def test_what_cannot_be_read_is_a_dead_letter_and_the_next_event_is_not_held_up(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    async with dispatching(server.url, keys):
        await do(
            connections, "XADD", keys("events"), "*", "id", "e1", "source", "generic", "event", "x", "body", b"\xc1"
        )
        name = await publish(connections, keys, turn_end())
        await until_owed(connections, keys, name, "a", "b", "c")
        (letter,) = await dead_letters(connections, keys)
        assert (letter.event, "undecodable" in letter.reason) == ("e1", True)

        def broken(*_: object) -> Any:
            raise RuntimeError("not today")

        with monkeypatch.context() as patch:
            patch.setattr("workers.dispatcher.plan_deliveries", broken)
            await publish(connections, keys, turn_end(id="e2"))
            await until(lambda: _count(connections, keys, 2), "it is a dead letter")
        assert "RuntimeError: not today" in (await dead_letters(connections, keys))[0].reason
        await until_owed(connections, keys, await publish(connections, keys, turn_end()), "a", "b", "c")


async def _count(connections: Connections, keys: Keys, count: int) -> bool:
    return len(await dead_letters(connections, keys)) == count


@pytest.mark.req("F-12")
async def test_a_hook_does_not_run_below_itself_however_long_after_its_event_it_runs(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    await publish_hooks(connections, keys, HOOKS.replace('command: "true"', f'command: "read line < {gate}"', 1))
    opened = os.open(gate, os.O_RDWR)  # kept open: each command gets its line, whenever it opens the gate
    async with dispatching(server.url, keys), carrying(server.url, keys, drain=0.1):
        first = await publish(connections, keys, turn_end())
        await until(lambda: _is(connections, keys, first, "c", "running"), "the command runs")
        below = await publish(connections, keys, turn_end(parent=first))
        await until_owed(connections, keys, below, "a", "b")
        stranger = await publish(connections, keys, turn_end(parent="e0"))
        await until_owed(connections, keys, stranger, "a", "b", "c")
        os.write(opened, b"go\n" * 3)  # for the first event, the stranger, and the one that comes later
        await until(lambda: _is(connections, keys, first, "c", "delivered"), "the command has run")
        later = await publish(connections, keys, turn_end(parent=first))
        await until_owed(connections, keys, later, "a", "b", "c")
    os.close(opened)


async def _is(connections: Connections, keys: Keys, event: str, hook: str, state: str) -> bool:
    return (await states(connections, keys, event)).get(hook) == state


@pytest.mark.req("B-05")
@pytest.mark.parametrize("script", ["dispatch", "xreadgroup", "wake", "lease"])
async def test_a_reply_lost_on_the_wire_loses_and_repeats_nothing(
    server: Server, keys: Keys, connections: Connections, script: str
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    async with Proxy(server.url) as proxy, dispatching(proxy.url, keys):
        await until_owed(connections, keys, await publish(connections, keys, turn_end()), "a", "b", "c")
        proxy.swallow_reply(of=script)
        names = [await publish(connections, keys, turn_end()) for _ in range(3)]

        async def lost() -> bool:
            return proxy.swallowed == [script.upper()]

        await until(lost, "the reply is lost; leases and what is due are looked at now and then")
        for name in names:
            await until_owed(connections, keys, name, "a", "b", "c")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
        assert await left(connections, keys) == {"deliveries": 12, "body": 4}


@pytest.mark.req("B-05")
async def test_events_of_which_nobody_is_told_pass_and_count_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, "endpoints: [{id: a, url: 'https://a.example', events: 'turn:*'}]")
    async with Proxy(server.url) as proxy, dispatching(proxy.url, keys):
        proxy.swallow_reply(of="pass")
        tool = [Event(type="tool:pre_execute", tool="bash", id=event_id(), host=HOST) for _ in range(3)]
        for event in tool:
            await publish(connections, keys, event)
        owed = await publish(connections, keys, turn_end())
        await until_owed(connections, keys, owed, "a")
        await until(lambda: acknowledged(connections, keys), "all is acknowledged")
    assert proxy.swallowed == ["PASS"]
    assert await do(connections, "HGET", keys("stats"), "events") == b"4"
    assert await left(connections, keys) == {"deliveries": 1, "body": 1}


@pytest.mark.req("B-05")
async def test_what_the_server_refuses_for_a_while_is_dispatched_afterwards(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or read-only server is as good as away; what waits meanwhile is no poison."""
    await publish_hooks(connections, keys, HOOKS)
    refused: list[int] = []

    async def refusing(to: Connections, calls: list[ScriptCall]) -> list[Any]:
        if any(call.name == "dispatch" for call in calls) and len(refused) < 5:
            refused.append(1)
            from redis.exceptions import OutOfMemoryError

            return [OutOfMemoryError("command not allowed when used memory > 'maxmemory'")] * len(calls)
        return await call_all(to, calls)

    monkeypatch.setattr("workers.dispatcher.call_all", refusing)
    async with dispatching(server.url, keys):
        await until_owed(connections, keys, await publish(connections, keys, turn_end()), "a", "b", "c")
    assert len(refused) == 5
    assert await dead_letters(connections, keys) == []


@pytest.mark.req("B-05")
async def test_a_standby_takes_over_from_a_dead_one_within_five_seconds(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    first = Dispatcher(server.url, keys, watcher_of(connections, keys), connections, Asked())
    await first.prepare()
    running = asyncio.create_task(first.run(asyncio.Event()))
    await until(lambda: do(connections, "EXISTS", keys("alive", "dispatcher")), "it is active")
    async with dispatching(server.url, keys) as standby:
        await publish(connections, keys, turn_end(id="e1"))
        await until_owed(connections, keys, "e1", "a", "b", "c")
        assert await do(connections, "GET", keys("alive", "dispatcher")) == first.name.encode()
        await killed(connections, keys, first.name, running)
        # What it had read and not dispatched is carried on too.
        event = turn_end()
        await publish(connections, keys, event)
        await do(connections, "XREADGROUP", "GROUP", GROUP, first.name, "COUNT", 1, "STREAMS", keys("events"), ">")
        start = time.monotonic()
        await until_owed(connections, keys, event.id, "a", "b", "c")
        assert time.monotonic() - start < at_most(2.0 + 2 * STANDBY_SECONDS + 1.0)
        assert await do(connections, "GET", keys("alive", "dispatcher")) == standby.name.encode()
    assert await do(connections, "EXISTS", keys("alive", "dispatcher")) == 0, "the lease is given back at once"
    await first._reading.close()


@pytest.mark.req("B-05")
async def test_a_standby_dispatches_what_it_was_handed_in_an_outage_in_which_it_lost_the_lease(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """It lives, so nobody else takes over its entries (seen in `make chaos`: 15 events that became no deliveries)."""
    await publish_hooks(connections, keys, HOOKS)
    async with dispatching(server.url, keys) as active:
        await publish(connections, keys, turn_end(id="e1"))
        await until_owed(connections, keys, "e1", "a", "b", "c")
        async with dispatching(server.url, keys) as standby:
            await until(lambda: do(connections, "EXISTS", keys("beat", standby.name)), "it stands by")
            added = ("XADD", keys("events"), "*", *event_entry(turn_end(id="e2")))
            read = ("XREADGROUP", "GROUP", GROUP, standby.name, "COUNT", 1, "STREAMS", keys("events"), ">")
            with connections.lease() as connection:  # in a transaction, or the active one would get it
                *_, (_, handed_out) = await connection.exchange([("MULTI",), added, read, ("EXEC",)])
            assert len(handed_out) == 1
            standby._consumer.note_failure()  # as after each turn of its loop that fails
            await until_owed(connections, keys, "e2", "a", "b", "c")
            await until(lambda: acknowledged(connections, keys), "all is acknowledged")
            assert await do(connections, "GET", keys("alive", "dispatcher")) == active.name.encode()


@pytest.mark.req("B-03", "G-09")
async def test_what_is_due_is_tried_again_in_time(server: Server, keys: Keys, connections: Connections) -> None:
    async with receiving() as receiver:
        receiver.fail(3)
        await publish_hooks(
            connections,
            keys,
            f"""
network: {{allow: ["127.0.0.1:{receiver.port}"]}}
endpoints:
  - {{id: a, url: "{receiver.url()}", retry: [0.05, 0.3, 0.1]}}
""",
        )
        async with dispatching(server.url, keys), carrying(server.url, keys):
            (one,) = await settled(connections, keys, await publish(connections, keys, turn_end()), "delivered")
        assert receiver.ids == {f"{one.event}_a": 4}
        starts = [attempt.ms - attempt.took for attempt in one.log]
        for wait, before, after in zip((0.05, 0.3, 0.1), one.log, starts[1:], strict=False):
            late = after - before.ms - wait * 1000
            assert -5 <= late < WAKE_SECONDS * 1000 + wait * 100 + 250, "not before its time, and soon after"
        assert await left(connections, keys) == {}


@pytest.mark.req("B-05")
async def test_parked_ones_that_were_left_behind_are_given_back(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """By a dispatcher that never heard of their target, and only as many as the target has places."""
    await publish_hooks(connections, keys, HOOKS)
    names = [await dispatch_event(connections, keys, turn_end()) for _ in range(15)]
    for name in names:
        await do(connections, "HSET", keys("delivery", f"{name}.a"), "state", "parked")
        await do(connections, "RPUSH", keys("parked", "endpoint:a"), f"{name}.a")
    await do(connections, "DEL", keys("deliveries"))
    async with dispatching(server.url, keys):
        await until(lambda: _length(connections, keys, 10), "as many as the endpoint's cap are ready")
    assert await do(connections, "LLEN", keys("parked", "endpoint:a")) == 5


async def _length(connections: Connections, keys: Keys, length: int) -> bool:
    return bool(await do(connections, "XLEN", keys("deliveries")) == length)


async def test_carriers_are_asked_for_where_work_is_and_none_is_alive(
    server: Server, keys: Keys, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    await publish_hooks(connections, keys, HOOKS.replace("https://b", "http://b"))
    asked = Asked(workers=0)
    async with dispatching(server.url, keys, asked=asked):
        await until(lambda: _has(asked, "tidy"), "chores are asked for")
        assert "carry" not in asked.jobs, "there is no work"
        await publish(connections, keys, turn_end())
        await until(lambda: _has(asked, "carry"), "a carrier is asked for")
        await until(lambda: _has(asked, "carry", 2), "and again while none comes")
        assert "fleethook worker carrier" in caplog.text
        async with carrying(server.url, keys) as carrier:
            await until(lambda: do(connections, "EXISTS", keys("beat", carrier.name)), "one lives")
            await do(connections, "DEL", keys("wanted"))
            before = len(asked.jobs)
            await publish(connections, keys, turn_end())
            await until(lambda: acknowledged(connections, keys), "it is dispatched")
            assert asked.jobs[before:].count("carry") <= 1


async def _has(asked: Asked, name: str, times: int = 1) -> bool:
    return asked.jobs.count(name) >= times


async def test_rqs_server_away_holds_up_no_event(
    server: Server, keys: Keys, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    await publish_hooks(connections, keys, HOOKS)
    asked = Asked()
    asked.error = Unreachable("RQ: redis cannot be reached")
    async with dispatching(server.url, keys, asked=asked):
        for _ in range(3):
            await until_owed(connections, keys, await publish(connections, keys, turn_end()), "a", "b", "c")
        await until(lambda: _has(asked, "carry"), "a carrier was asked for")
    assert "no job can be queued" in caplog.text


async def test_hooks_of_the_users_own_file_go_to_the_hosts_stream(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    file = tmp_path / "fleethook.yaml"
    file.write_text('hooks:\n  - {id: c, on: "turn:end", blocking: false, command: "echo mine"}\n')
    await publish_hooks(connections, keys, 'endpoints:\n  - {id: c, url: "https://a.example", events: "turn:end"}\n')
    async with dispatching(server.url, keys, user_file=file):
        mine = await publish(connections, keys, turn_end())
        await until(lambda: _names(connections, keys, mine, "c", "c-user"), "an endpoint and a hook of the same id")
        theirs = await publish(connections, keys, turn_end(host="elsewhere"))
        await until(lambda: _names(connections, keys, theirs, "c"), "a file holds on its own host only")
    assert await do(connections, "XLEN", keys("deliveries", HOST)) == 1
    assert await do(connections, "XLEN", keys("deliveries")) == 2


async def _names(connections: Connections, keys: Keys, event: str, *names: str) -> bool:
    found = await deliveries(connections, keys, Filter(event=event))
    return sorted(one.id.partition(".")[2] for one in found) == sorted(names)


async def test_a_dispatcher_that_sleeps_hears_at_once_that_a_retry_was_made_due(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `fleethook deliveries retry` and gateways do it. Its looks once a second never come here, and its reads do not end."""
    await publish_hooks(connections, keys, "endpoints: [{id: a, url: 'https://a.example', events: 'turn:*'}]")
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr("workers.dispatcher.READ_SECONDS", 10_000.0)
    monkeypatch.setattr("workers.waiting.words._SECONDS", 10_000.0, raising=False)
    async with dispatching(server.url, keys):
        event = await publish(connections, keys, turn_end())
        await until_owed(connections, keys, event, "a")
        (one,) = await deliveries(connections, keys, Filter(event=event))
        hour = int((await do(connections, "TIME"))[0]) * 1000 + 3_600_000
        await do(connections, "HSET", keys("delivery", one.id), "state", "due", "due", hour)
        await do(connections, "ZADD", keys("due"), hour, one.id)
        await do(connections, "DEL", keys("deliveries"))
        await do(connections, "XGROUP", "CREATE", keys("deliveries"), "carriers", "0", "MKSTREAM")
        monkeypatch.setattr("workers.waiting.long_read.next_pulse", lambda: never)
        await until(lambda: _sleeps(connections), "it sleeps")
        assert await retry(connections, keys, [one.id]) == 1
        await until(lambda: do(connections, "XLEN", keys("deliveries")), "it is given to the carriers")


async def _sleeps(connections: Connections) -> bool:
    """Whether a client waits for what an XREAD brings."""
    clients = (await do(connections, "CLIENT", "LIST")).decode().splitlines()
    return any(" cmd=xread " in client and " flags=b" in client for client in clients)


async def test_whoever_makes_something_due_or_adds_a_job_gives_a_word(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async def last() -> object:
        return await do(connections, "XREVRANGE", keys("words"), "+", "-", "COUNT", 1)

    await pause(connections, keys, "e:a")
    words = [await last()]
    await resume(connections, keys, "e:a")
    words.append(await last())
    await begin(connections, keys, "redrive", Filter())
    words.append(await last())
    await disable(connections, keys, "e:a")
    words.append(await last())
    assert words[0] == [], "what is paused only waits"
    assert all(words[n] != words[n + 1] for n in range(3)), words
