"""Carriers against a real server and a real receiver: each outcome once, nothing stranded, nothing left over."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from bus.http.signing import generate_secret
from bus.ids import host_name
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, call_all
from tests.support.delivering import carrying, dispatch_event, left, settled, turn_end, watcher_of
from tests.support.proxy import Proxy
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.running import HOST, do, publish_hooks
from tests.support.servers import Server
from tests.support.waiting import until
from workers.carrier import Carrier
from workers.delivery.breakers import BreakerLimits
from workers.delivery.dead_letters import dead_letters, drop, redrive
from workers.delivery.filters import Filter
from workers.delivery.missing_keys import missing_keys

SECRET = generate_secret()


def endpoints(receiver: Receiver, *lines: str, hooks: str = "") -> str:
    """A hook file with endpoints at the receiver."""
    listed = "\n".join(f"  - {{{line}}}" for line in lines).replace("URL", receiver.url())
    return f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\nendpoints:\n{listed}\n{hooks}'


@pytest.mark.req("B-03", "B-06", "G-10")
async def test_a_webhook_arrives_signed_and_leaves_nothing_but_its_record(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.usual = Answer(202, b"thanks, token=abcdef1234567890abcdef")
        await publish_hooks(connections, keys, endpoints(receiver, f'id: log, url: "URL", secret: {SECRET}'))
        name = await dispatch_event(connections, keys, turn_end())
        (one,) = await settled(connections, keys, name, "delivered")
        got = receiver.got[0]
        Webhook(SECRET).verify(got.body, got.headers)
        assert got.id == f"{name}_log"
        (attempt,) = one.log
        assert (attempt.status, attempt.outcome, attempt.error) == (202, "delivered", "")
        assert attempt.output.startswith("thanks")
        assert "abcdef123" not in attempt.output
        assert await left(connections, keys) == {}


@pytest.mark.req("X-10")
async def test_a_key_that_opened_its_secret_no_longer_counts_as_missing(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """At once for this endpoint on this host; another host may still lack the key."""
    here, now = host_name(), time.time_ns() // 10**6
    for host, endpoint in ((here, "log"), (here, "chat"), ("elsewhere", "log")):
        await do(connections, "ZADD", keys("sealed"), now + 3_600_000, f"k1\n{host}\n{endpoint}")
    async with receiving() as receiver, carrying(server.url, keys):
        await publish_hooks(connections, keys, endpoints(receiver, f'id: log, url: "URL", secret: {SECRET}'))
        await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "delivered")

        async def still_missing() -> bool:
            found = {(use.host, use.endpoint) for use in await missing_keys(connections, keys)}
            return found == {(here, "chat"), ("elsewhere", "log")}

        await until(still_missing, "only the opened one is forgotten")


@pytest.mark.req("B-03", "G-09", "G-10", "X-05")
async def test_a_failure_is_logged_with_status_and_answer_and_tried_again(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.fail(1, 503, ["Retry-After: 100"])
        await publish_hooks(connections, keys, endpoints(receiver, 'id: log, url: "URL", retry: [5, 5]'))
        name = await dispatch_event(connections, keys, turn_end())
        (one,) = await settled(connections, keys, name, "due")
        (attempt,) = one.log
        assert (attempt.status, attempt.outcome, attempt.output) == (503, "retry", "busy")
        assert "503" in attempt.error
        assert 99_000 < one.due - attempt.ms <= 101_000, "the receiver's wish is not undercut"
        assert await left(connections, keys) == {"due": 1, "body": 1}


@pytest.mark.req("B-03", "P-11", "X-05")
async def test_a_background_command_logs_exit_code_and_output(
    server: Server, keys: Keys, connections: Connections
) -> None:
    await publish_hooks(
        connections,
        keys,
        """
hooks:
  - {id: fine, on: "turn:end", blocking: false, command: "cat >/dev/null; echo out; echo $FLEETHOOK_EVENT_ID"}
  - {id: ill, on: "turn:end", blocking: false, command: "echo why >&2; exit 3", retry: [60]}
  - {id: late, on: "turn:end", blocking: false, command: "kill -9 $$"}
""",
    )
    async with carrying(server.url, keys):
        name = await dispatch_event(connections, keys, turn_end())
        fine, ill, late = await settled(connections, keys, name, "delivered", "due", "dead")
    assert fine.log[0].output == f"out\n{name}"
    assert (ill.log[0].status, ill.log[0].output, "exit 3" in ill.log[0].error) == (3, "why", True)
    assert (late.log[0].status, "SIGKILL" in late.reason) == (-9, True)
    assert await left(connections, keys) == {"due": 1, "dead": 1, "body": 1}


@pytest.mark.req("B-03")
async def test_the_body_lives_until_the_last_delivery_is_done_or_dropped(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.by_path = {"/gone": Answer(403), "/off": Answer(404)}
        await publish_hooks(
            connections,
            keys,
            endpoints(receiver, 'id: a, url: "URL"', 'id: gone, url: "URLgone"', 'id: off, url: "URLoff"'),
        )
        name = await dispatch_event(connections, keys, turn_end())
        _, gone, off = await settled(connections, keys, name, "delivered", "dead", "dead")
        assert "403" in gone.reason
        assert await left(connections, keys) == {"dead": 2, "body": 1}
        receiver.by_path.clear()
        assert await redrive(connections, keys, [gone.id]) == 1
        await settled(connections, keys, name, "delivered", "delivered", "dead")
        assert receiver.ids[f"{name}_gone"] == 2, "the same id again"
        assert await left(connections, keys) == {"dead": 1, "body": 1}
        assert await drop(connections, keys, [off.id]) == 1
        assert await left(connections, keys) == {}
        assert await redrive(connections, keys, [gone.id, off.id, "nobody"]) == 0


@pytest.mark.req("B-06")
async def test_a_slow_target_has_its_cap_over_all_carriers_and_holds_up_nobody(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys), carrying(server.url, keys, in_flight=7):
        receiver.hold()
        await publish_hooks(
            connections,
            keys,
            endpoints(
                receiver, 'id: slow, url: "URLslow", max_in_flight: 3', 'id: wide, url: "URLwide", max_in_flight: 50'
            ),
        )
        names = [await dispatch_event(connections, keys, turn_end()) for _ in range(12)]

        async def all_wide() -> bool:
            return receiver.in_flight["/wide"] + receiver.in_flight["/slow"] == 15

        await until(all_wide, "twelve to the one, three to the other")
        assert len(await do(connections, "LRANGE", keys("parked", "endpoint:slow"), 0, -1)) == 9
        receiver.release()
        for name in names:
            await settled(connections, keys, name, "delivered", "delivered")
        assert receiver.most_in_flight["/slow"] == 3
        assert set(receiver.ids.values()) == {1}
        assert await left(connections, keys) == {}


@pytest.mark.req("B-05")
async def test_a_dead_carriers_deliveries_and_places_are_carried_on(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        receiver.hold()
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL", max_in_flight: 2'))
        names = [await dispatch_event(connections, keys, turn_end()) for _ in range(5)]
        dying = Carrier(server.url, keys, connections, watcher_of(connections, keys))
        running = asyncio.create_task(dying.run(asyncio.Event(), idle=60))
        await until(_held(receiver, 2), "two under way")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await do(connections, "ZCARD", keys("flight", "endpoint:one"))) == 2
        receiver.release()
        async with carrying(server.url, keys):
            for name in names:
                await settled(connections, keys, name, "delivered")
        assert receiver.most_in_flight["/"] <= 4
        assert sorted(receiver.ids.values()) == [1, 1, 1, 2, 2], "only what was under way goes out again, with its id"
        assert await left(connections, keys) == {}


def _held(receiver: Receiver, count: int) -> Any:
    async def held() -> bool:
        return sum(receiver.in_flight.values()) >= count

    return held


@pytest.mark.req("B-05")
@pytest.mark.parametrize("script", ["take", "settle", "xreadgroup"])
async def test_a_reply_lost_on_the_wire_loses_and_repeats_nothing(
    server: Server, keys: Keys, connections: Connections, script: str
) -> None:
    async with Proxy(server.url) as proxy, receiving() as receiver, carrying(proxy.url, keys, in_flight=4):
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        first = await dispatch_event(connections, keys, turn_end())
        await settled(connections, keys, first, "delivered")
        proxy.swallow_reply(of=script)
        names = [await dispatch_event(connections, keys, turn_end()) for _ in range(5)]
        for name in names:
            await settled(connections, keys, name, "delivered")
        assert proxy.swallowed == [script.upper()]
        assert set(receiver.ids.values()) == {1}
        assert await left(connections, keys) == {}


@pytest.mark.req("B-05")
@pytest.mark.parametrize("beats_first", [False, True])
async def test_a_carrier_that_was_stopped_sends_nothing_that_another_has_taken_over(
    server: Server, keys: Keys, connections: Connections, *, beats_first: bool
) -> None:
    """SIGSTOP between reading and sending: whoever wakes up asks first whose it is, alive again or not."""
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        stopped = Carrier(server.url, keys, connections, watcher_of(connections, keys))
        await stopped._consumer.create()
        name = await dispatch_event(connections, keys, turn_end())
        missed = stopped._consumer.missed_heartbeats
        with stopped._reading.lease() as connection:
            rows = await stopped._take(await stopped._consumer.read(connection, 1, 0.1))
        (taken,) = stopped._read_claims(rows, {})
        await do(connections, "DEL", keys("beat", stopped.name))
        async with carrying(server.url, keys):
            await settled(connections, keys, name, "delivered")
        stopped._consumer._beat_at -= 10
        if beats_first:
            await do(connections, *stopped._consumer.beat_commands()[0])
        from bus.http.client_pool import ClientPool

        async with ClientPool() as clients:
            await stopped._attempt(taken, clients, missed)
        assert receiver.ids == {f"{name}_one": 1}
        assert not stopped._settlements
        await stopped._reading.close()


@pytest.mark.req("B-05")
async def test_a_carrier_that_was_stopped_goes_on_with_what_nobody_took(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """It asks for all of them together: a connection for each of a thousand would be too many files for a process."""
    async with receiving() as receiver, carrying(server.url, keys) as carrier:
        lines = [f'id: e{number}, url: "URL"' for number in range(50)]
        await publish_hooks(connections, keys, endpoints(receiver, *lines))
        beat = carrier._consumer.beat_commands

        def as_if_long_ago(*_ms: int) -> Any:
            commands = beat()
            carrier._consumer._beat_at -= 10
            return commands

        carrier._consumer.beat_commands = as_if_long_ago  # type: ignore[assignment,method-assign]  # a clock that SIGSTOP moved
        name = await dispatch_event(connections, keys, turn_end())
        await settled(connections, keys, name, *["delivered"] * 50)
        assert receiver.ids == {f"{name}_e{number}": 1 for number in range(50)}
        assert len(carrier._connections._all) < 10


@pytest.mark.req("B-05")
async def test_a_late_failure_does_not_undo_anothers_attempt(
    server: Server, keys: Keys, connections: Connections
) -> None:
    """What was stopped in the middle of an attempt comes back with a timeout while another is succeeding."""
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL", retry: [60]'))
        name = await dispatch_event(connections, keys, turn_end())
        await do(connections, "XGROUP", "CREATE", keys("deliveries"), "carriers", "0")
        reply = await do(
            connections, "XREADGROUP", "GROUP", "carriers", "a", "COUNT", 1, "STREAMS", keys("deliveries"), ">"
        )
        entry = reply[0][1][0][0].decode()
        await do(connections, "XCLAIM", keys("deliveries"), "carriers", "b", 0, entry)

        async def settle(consumer: str, outcome: str) -> Any:
            row = (keys("deliveries"), entry, f"{name}.one", outcome, 1000, "", b"\x80", "ok", "", "")
            args = ("carriers", consumer, 60_000, keys.prefix, 50, *BreakerLimits().args, *row)
            (answer,) = await call_all(connections, [ScriptCall("settle", (keys("deliveries"),), args)])
            return answer

        assert await settle("a", "retry") == [0]
        assert await settle("b", "delivered") == [1]
        assert await settle("a", "delivered") == [0]
        assert await left(connections, keys) == {}


@pytest.mark.req("B-03")
async def test_deleted_and_disabled_meanwhile_is_a_dead_letter_with_that_reason(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        both = endpoints(
            receiver,
            'id: one, url: "URL"',
            hooks="""
hooks:
  - {id: two, on: "turn:end", blocking: false, command: "true"}
""",
        )
        await publish_hooks(connections, keys, both)
        name = await dispatch_event(connections, keys, turn_end())
        await publish_hooks(
            connections, keys, both.replace("id: one", "enabled: false, id: one").replace("id: two", "id: other")
        )
        async with carrying(server.url, keys):
            one, two = await settled(connections, keys, name, "dead", "dead")
        assert "endpoint 'one' was deleted or disabled after fleet@1" in one.reason
        assert "hook 'two' was deleted or disabled after fleet@1" in two.reason
        assert [letter.id for letter in await dead_letters(connections, keys, Filter(reason="deleted"))]
        assert receiver.got == []


@pytest.mark.req("B-03", "B-04")
async def test_an_endpoint_newer_than_the_carriers_own_set_is_not_taken_for_deleted(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys) as carrier:
        await until(lambda: do(connections, "EXISTS", keys("beat", carrier.name)), "it carries")
        carrier._watcher._looked += 3600  # it would not look by itself
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "delivered")


async def test_a_hook_of_the_users_own_file_is_carried_on_its_host(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    file = tmp_path / "fleethook.yaml"
    file.write_text('hooks:\n  - {id: mine, on: "turn:end", blocking: false, command: "echo mine"}\n')
    name = await dispatch_event(connections, keys, turn_end(), file)
    assert await do(connections, "XLEN", keys("deliveries", HOST)) == 1
    assert await do(connections, "EXISTS", keys("deliveries")) == 0
    async with carrying(server.url, keys, user_file=file):
        (one,) = await settled(connections, keys, name, "delivered")
    assert one.layer == "user"


async def test_an_http_hook_nobody_waits_for_is_one_attempt_unless_it_says_more(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.usual = Answer(500)
        await publish_hooks(
            connections,
            keys,
            f"""
network: {{allow: ["127.0.0.1:{receiver.port}"]}}
hooks:
  - {{id: a, on: "turn:end", blocking: false, http: "{receiver.url()}"}}
  - {{id: b, on: "turn:end", blocking: false, http: "{receiver.url()}", retry: [60]}}
""",
        )
        await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "dead", "due")


async def test_what_breaks_an_attempt_is_said_and_strands_nothing(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bytes:
        raise RuntimeError("not today")

    monkeypatch.setattr("workers.delivery.event_cache.render_body", broken)
    async with receiving() as receiver, carrying(server.url, keys):
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        (one,) = await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "dead")
        assert "RuntimeError: not today" in one.reason


@pytest.mark.req("B-05")
async def test_told_to_stop_it_lets_attempts_end_and_takes_no_more(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        receiver.hold()
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL", max_in_flight: 1'))
        names = [await dispatch_event(connections, keys, turn_end()) for _ in range(2)]
        stop = asyncio.Event()
        carrier = Carrier(server.url, keys, connections, watcher_of(connections, keys))
        running = asyncio.create_task(carrier.run(stop))
        await until(_held(receiver, 1), "one under way")
        stop.set()
        await until(_beats(connections, keys, carrier, 3), "it goes on beating while it drains")
        receiver.release()
        assert await running == 1
        await settled(connections, keys, names[0], "delivered")
        assert await do(connections, "EXISTS", keys("beat", carrier.name)) == 0
        assert await do(connections, "XINFO", "CONSUMERS", keys("deliveries"), "carriers") == []
        async with carrying(server.url, keys):
            await settled(connections, keys, names[1], "delivered")
        assert set(receiver.ids.values()) == {1}


def _beats(connections: Connections, keys: Keys, carrier: Carrier, times: int) -> Any:
    seen: list[int] = []

    async def beaten() -> bool:
        ttl = int(await do(connections, "PTTL", keys("beat", carrier.name)))
        if seen and ttl > seen[-1] + 100:
            seen.append(ttl)
        elif not seen or ttl < seen[-1]:
            seen[-1:] = [ttl]
        return len(seen) > times

    return beaten


async def test_what_does_not_end_in_time_is_broken_off_and_carried_on(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        receiver.hold()
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        name = await dispatch_event(connections, keys, turn_end())
        stop = asyncio.Event()
        carrier = Carrier(server.url, keys, connections, watcher_of(connections, keys), drain=0.1)
        running = asyncio.create_task(carrier.run(stop))
        await until(_held(receiver, 1), "one under way")
        stop.set()
        await running
        receiver.release()
        async with carrying(server.url, keys):
            await settled(connections, keys, name, "delivered")
        assert await left(connections, keys) == {}


async def test_a_surplus_carrier_sees_that_there_is_no_work(
    server: Server, keys: Keys, connections: Connections
) -> None:
    carrier = Carrier(server.url, keys, connections, watcher_of(connections, keys))
    assert await carrier.count_work() == 0
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        await dispatch_event(connections, keys, turn_end())
    assert await carrier.count_work() == 1


async def test_the_server_away_while_attempts_end_loses_no_outcome(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with Proxy(server.url) as proxy, receiving() as receiver, carrying(proxy.url, keys):
        receiver.hold()
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        name = await dispatch_event(connections, keys, turn_end())
        await until(_held(receiver, 1), "one under way")
        proxy.away()
        receiver.release()
        await until(lambda: _no_one(receiver), "it has been answered")
        proxy.back()
        await settled(connections, keys, name, "delivered")
        assert receiver.ids == {f"{name}_one": 1}


async def _no_one(receiver: Receiver) -> bool:
    return not sum(receiver.in_flight.values())


async def test_an_outcome_that_the_server_refuses_holds_up_no_other_and_is_not_sent_again_at_once(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async with receiving() as receiver:
        receiver.hold()
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        ill, *well = [await dispatch_event(connections, keys, turn_end()) for _ in range(4)]
        async with carrying(server.url, keys):
            await until(_held(receiver, 4), "all under way")
            await do(connections, "HSET", keys("delivery", f"{ill}.one"), "attempts", "no number")
            receiver.release()
            for name in well:
                await settled(connections, keys, name, "delivered")
            later = await dispatch_event(connections, keys, turn_end())
            await settled(connections, keys, later, "delivered")
        assert set(receiver.ids.values()) == {1}


async def test_large_bodies_come_a_few_at_a_time(
    server: Server, keys: Keys, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.carrier.MOST_TAKEN", 1)
    monkeypatch.setattr("bus.wire.consumer.CLAIM_SECONDS", 0.05)
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, 'id: one, url: "URL"'))
        names = [await dispatch_event(connections, keys, turn_end()) for _ in range(4)]
        async with carrying(server.url, keys):
            for name in names:
                await settled(connections, keys, name, "delivered")
        assert set(receiver.ids.values()) == {1}
        assert await left(connections, keys) == {}


async def test_counters_say_what_became_of_deliveries(server: Server, keys: Keys, connections: Connections) -> None:
    async with receiving() as receiver, carrying(server.url, keys):
        receiver.by_path = {"/gone": Answer(410)}
        await publish_hooks(connections, keys, endpoints(receiver, 'id: a, url: "URL"', 'id: b, url: "URLgone"'))
        await settled(connections, keys, await dispatch_event(connections, keys, turn_end()), "delivered", "dead")
    counted = await do(connections, "HGETALL", keys("stats"))
    stats = dict(zip(counted[::2], map(int, counted[1::2]), strict=True))
    assert stats == {b"events": 1, b"deliveries:owed": 2, b"deliveries:delivered": 1, b"deliveries:dead": 1}


@pytest.mark.req("B-03", "G-10")
@pytest.mark.parametrize("state", ["dead", "delivered"])
async def test_what_is_over_is_not_taken_again(
    server: Server, keys: Keys, connections: Connections, state: str
) -> None:
    """An entry of it may still be on the stream: its carrier died between the outcome and the acknowledgement."""
    async with receiving() as receiver:
        await publish_hooks(connections, keys, endpoints(receiver, 'id: log, url: "URL"'))
        first = await dispatch_event(connections, keys, turn_end())
        await do(connections, "HSET", keys("delivery", f"{first}.log"), "state", state)
        second = await dispatch_event(connections, keys, turn_end())
        async with carrying(server.url, keys):
            await settled(connections, keys, second, "delivered")
        assert [got.id for got in receiver.got] == [f"{second}_log"]
        assert await do(connections, "XLEN", keys("deliveries")) == 0
