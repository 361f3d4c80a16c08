"""A server at its memory limit: what it has taken is answered, what it refuses falls back, and the workers make room."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bus.client import Bus
from bus.config.settings import Settings
from bus.shim.answer_file import AnswerFile, EventLine, RedisServer, write_answer_file
from bus.system.directories import directories
from bus.wire.acl import roles
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections, sync_client
from tests.live.workers.records.test_bounds import MIB, records
from tests.live.workers.test_host import LAPTOP, hooks, hosting, rule
from tests.shim_kit import FALLBACK, World
from tests.support.delivering import dispatching
from tests.support.running import bash, do, evaluating, publish_hooks, put, stream, until_true
from tests.support.servers import Server
from tests.support.waiting import BUDGET, BUDGET_MS, CONNECT, PATIENCE, at_most, until
from workers.admin.doctor.server import server_checks
from workers.records.bounds import memory_in_use
from workers.records.status import status

pytestmark = [pytest.mark.live, pytest.mark.req("B-05", "X-06", "X-09")]

GUARD = hooks(rule("no-rm", "rm"))
RM = {
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf /"},
    "cwd": "/",
}


@pytest.fixture
async def small(tmp_path: Path, each_shim: str) -> AsyncIterator[tuple[Server, Connections, World]]:
    """A server with little memory, which refuses what does not fit, and an agent."""
    one = Server(maxmemory=12 * MIB)
    one.start()
    connections = Connections(one.url, connect=CONNECT)
    with sync_client(one.url) as client:
        world = World(tmp_path, one.socket, client)
        world.install()
        yield one, connections, world
    await connections.close()
    one.stop()


async def fill(connections: Connections) -> None:
    """Let the server be at its limit."""
    used, _ = await memory_in_use(connections)
    await do(connections, "CONFIG", "SET", "maxmemory", used // 2)
    assert "maxmemory" in str(await do(connections, "SET", "more", "x"))


async def waits(connections: Connections) -> None:
    """Return when a client waits on a blocking read of an answer."""

    async def blocked() -> bool:
        said: bytes = await do(connections, "CLIENT", "LIST")
        return b"cmd=blmove" in said or b"cmd=blpop" in said

    await until(blocked, "the agent waits")


async def test_a_call_that_waits_when_the_server_becomes_full_gets_its_answer(
    small: tuple[Server, Connections, World],
) -> None:
    """Also where the evaluator starts only then: its group and its heartbeat are written there all the same."""
    one, connections, world = small
    await publish_hooks(connections, world.keys, GUARD)
    world.alive()
    call = asyncio.create_task(asyncio.to_thread(world.hook, json.dumps(RM).encode()))
    await waits(connections)
    await fill(connections)
    await do(connections, "DEL", world.keys("alive", "evaluator"))
    async with evaluating(one.url, world.keys):
        said = await call
        assert b'"deny"' in said.stdout
        await do(connections, "DEL", world.keys("alive", "evaluator"))
        await until(lambda: do(connections, "EXISTS", world.keys("alive", "evaluator")), "it beats on a full server")
    assert not world.spool.exists()


@pytest.mark.parametrize("selectors", [True, False])
async def test_whoever_may_send_may_read_the_answer_of_a_full_server(
    small: tuple[Server, Connections, World], selectors: bool
) -> None:
    """Hook command and program, each with the rights of its role; one whose rights are older falls back as before."""
    one, connections, world = small
    if selectors and not await _knows_selectors(connections):
        pytest.skip("this server has no selectors")
    await publish_hooks(connections, world.keys, GUARD)
    for role in ("shim", "agent"):
        rights = roles("*", selectors=selectors)[role]
        assert await do(connections, "ACL", "SETUSER", role, "reset", "on", ">p", *rights) == b"OK"
    await do(connections, "ACL", "SETUSER", "older", "reset", "on", ">p", "~*", "+auth", "+exists", "+xadd", "+blmove")
    bus = Bus(one.url.replace("unix://", "unix://agent:p@"), namespace=world.keys.prefix.split(":")[1], connect=CONNECT)
    # A server without selectors (Redis 6.2) does not refuse a blocking read that it has accepted before.
    older = FALLBACK.stdout if await _knows_selectors(connections) else b'"deny"'
    for user, decides in (("shim", b'"deny"'), ("older", older)):
        await do(connections, "CONFIG", "SET", "maxmemory", 12 * MIB)
        world.alive()
        world.use(RedisServer(kind="unix", address=str(one.socket), user=user, password="p"))
        call = asyncio.create_task(asyncio.to_thread(world.hook, json.dumps(RM).encode()))
        await waits(connections)
        asked = asyncio.create_task(bus.request(bash("rm x"), budget=BUDGET))
        await until(lambda: _number_waits(connections, 2), "both wait")
        await fill(connections)
        async with evaluating(one.url, world.keys):
            assert decides in (await call).stdout
            assert ((await asked).decision, (await asked).fallback) == ("deny", "")
    await bus.close()


async def _knows_selectors(connections: Connections) -> bool:
    return not isinstance(await do(connections, "ACL", "SETUSER", "probe", "(+get ~x)"), Exception)


async def _number_waits(connections: Connections, count: int) -> bool:
    said: bytes = await do(connections, "INFO", "clients")
    return bool(b"blocked_clients:%d" % count in said)


async def test_every_call_that_the_server_took_is_denied_while_it_fills_and_room_is_made_again(
    small: tuple[Server, Connections, World],
) -> None:
    """Finished deliveries and events fill it, call by call: no call that it took in passes, and no wait is long."""
    one, connections, world = small
    await publish_hooks(connections, world.keys, GUARD)
    done = await records(connections, world.keys, "delivered", 3_000)
    body = json.dumps({**RM, "tool_input": {"command": "rm -rf /", "description": "x" * 250_000}}).encode()
    denied = 0
    async with evaluating(one.url, world.keys):
        while True:
            began = time.monotonic()
            said = await asyncio.to_thread(world.hook, body)
            if b'"deny"' not in said.stdout:
                break
            denied += 1
        assert (said, time.monotonic() - began < at_most(4)) == (FALLBACK, True), (
            "it falls back by its policy, and soon"
        )
        assert b"redis refused: OOM" in world.spool.read_bytes(), "and says why"
        assert denied > 2
        assert len(await stream(connections, world.keys)) == denied, (
            "what fell back was never in the stream of requests"
        )
        assert await do(connections, "XLEN", world.keys("requests")) == 0
        async with dispatching(one.url, world.keys):

            async def answers() -> bool:
                return b'"deny"' in (await asyncio.to_thread(world.hook, json.dumps(RM).encode())).stdout

            await until(answers, "there is room, and calls are answered again")
    assert await do(connections, "ZCARD", world.keys("recent")) < len(done), "finished deliveries went first"
    assert await do(connections, "XLEN", world.keys("events")) > 0


async def test_where_nothing_can_be_freed_calls_fall_back_and_it_is_said_why(
    small: tuple[Server, Connections, World], caplog: pytest.LogCaptureFixture
) -> None:
    one, connections, world = small
    await publish_hooks(connections, world.keys, GUARD)
    for number in range(100):
        await do(connections, "SET", f"ballast:{number}", "x" * 80_000)
    async with evaluating(one.url, world.keys), dispatching(one.url, world.keys):
        await fill(connections)
        began = time.monotonic()
        said = await asyncio.to_thread(world.hook, json.dumps(RM).encode())
        assert (said, time.monotonic() - began < at_most(4)) == (FALLBACK, True)
        assert b"redis refused: OOM" in world.spool.read_bytes()
        await until_true(lambda: "no finished work is left to delete: raise maxmemory" in caplog.text, "it is logged")
        found = await server_checks(connections, connections, world.keys, Settings())
        (memory,) = [check for check in found if check.id == "memory"]
        assert memory.status == "fail"
        assert "raise maxmemory" in memory.fix
        (carrier,) = [check for check in found if check.id == "carrier"]
        assert (carrier.status, carrier.cause) == ("unknown", "memory"), "it may run, and cannot write that it does"
        state = await status(connections, connections, world.keys, Settings(), directories())
        assert "it refuses requests and records, and hook calls fall back" in state.problems[0]
        await do(connections, "CONFIG", "SET", "maxmemory", 12 * MIB)

        async def answers() -> bool:
            return b'"deny"' in (await asyncio.to_thread(world.hook, json.dumps(RM).encode())).stdout

        await until(answers, "calls are answered again")
    assert await do(connections, "EXISTS", "ballast:0", "ballast:99") == 2


async def test_a_slow_hook_that_runs_when_the_server_becomes_full_is_waited_for(
    small: tuple[Server, Connections, World], tmp_path: Path
) -> None:
    one, connections, world = small
    began, go = tmp_path / "began", tmp_path / "go"
    slow = f"touch {began}; while [ ! -e {go} ]; do sleep 0.05; done; exit 2"
    await publish_hooks(connections, world.keys, hooks({"id": "slow", "command": slow, "timeout": BUDGET}))
    line = EventLine(name="PreToolUse", deadline_ms=4_000, patience_ms=BUDGET_MS, fallback=FALLBACK)
    write_answer_file(
        world.file,
        AnswerFile(
            agent="claude",
            server=RedisServer(kind="unix", address=str(one.socket)),
            prefix=world.keys.prefix,
            host="",
            spool=str(world.spool),
            events=(line,),
        ),
    )
    async with evaluating(one.url, world.keys):
        call = asyncio.create_task(asyncio.to_thread(world.hook, json.dumps(RM).encode()))
        await until_true(began.exists, "the hook runs")
        await fill(connections)
        started = time.monotonic()
        await until_true(lambda: call.done() or time.monotonic() - started > 4.5, "its deadline is over")
        assert not call.done(), "the agent waits on"
        go.touch()
        assert b'"deny"' in (await call).stdout


@pytest.mark.req("X-02")
async def test_a_host_answers_its_part_on_a_full_server(
    small: tuple[Server, Connections, World], tmp_path: Path
) -> None:
    one, connections, world = small
    user = tmp_path / "fleethook.yaml"
    user.write_text(hooks(rule("mine", "make")))
    await publish_hooks(connections, world.keys, GUARD)
    _, reply = await put(connections, world.keys, bash("make"), host=LAPTOP)
    await fill(connections)
    async with hosting(one.url, world.keys, user), evaluating(one.url, world.keys):
        row = await do(connections, "BLPOP", reply, PATIENCE)
    said = decode_verdict(row[1])
    assert (said.decision, [part.hook for part in said.parts]) == ("deny", ["mine"])
