"""A worker keeps the stops in force beside the answer files of its machine's agents (X-12)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bus.errors import Unreachable
from bus.shim.answer_file import AnswerFile, server_from_url, write_answer_file
from bus.shim.main import FLAG
from bus.system.directories import Directories, directories
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import flat
from tests.support.running import do
from tests.support.servers import Server
from tests.support.waiting import CONNECT
from workers.fleet_control.enforcement import Enforcement
from workers.fleet_control.flags import keep_flags
from workers.fleet_control.reach import AgentOnHost, Reach, read_reached
from workers.fleet_control.stops import lift_stops, place_stop

pytestmark = [pytest.mark.live, pytest.mark.req("X-12")]


def install(places: Directories, server: Server, prefix: str, agent: str) -> Path:
    """The answer file of an agent; returns where its flag would be."""
    path = places.answer_file(agent)
    spool = str(places.spool(agent))
    answers = AnswerFile(agent=agent, server=server_from_url(server.url), prefix=prefix, host="h1", spool=spool)
    write_answer_file(path, answers)
    return path.with_name(path.name + FLAG)


async def test_it_writes_what_concerns_each_agent_and_removes_it_again(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    places = directories({"FLEETHOOK_HOME": str(tmp_path)})
    claude, codex = (install(places, server, keys.prefix, agent) for agent in ("claude", "codex"))
    other = install(places, server, Keys("another").prefix, "gemini")
    stops, reach = Enforcement(connections, keys), Reach(connections, keys)

    async def look() -> list[bool]:
        await keep_flags(places, server.url, keys, stops, reach)
        return [path.exists() for path in (claude, codex, other)]

    assert await look() == [False, False, False]
    await place_stop(connections, keys, by="ana", where='event.source == "claude"', reason="enough")
    assert await look() == [True, False, False]
    assert "UserPromptSubmit" in claude.read_text()
    assert (await read_reached(connections, keys)).kept == ()
    await place_stop(connections, keys, by="ana")
    assert await look() == [True, True, False], "an agent of another fleet is left alone"
    await lift_stops(connections, keys, by="ana")
    kept = (await read_reached(connections, keys)).kept
    assert kept == (AgentOnHost(host="h1", source="claude"), AgentOnHost(host="h1", source="codex"))
    for path in (claude, codex):  # written long ago, so no newer word can be meant
        os.utime(path, (0, 0))
    assert await look() == [False, False, False]
    assert (await read_reached(connections, keys)).kept == ()


async def test_what_a_call_said_before_a_stop_does_not_hide_that_the_stop_has_reached_its_host(
    keys: Keys, connections: Connections
) -> None:
    evaluator, host = Reach(connections, keys), Reach(connections, keys)
    place = AgentOnHost(host="h1", source="claude")
    evaluator.note(place.host, place.source, (), said="none")
    stop = await place_stop(connections, keys, by="ana")
    host.note(place.host, place.source, (stop.id,))
    await host.send()
    await evaluator.send()
    await lift_stops(connections, keys, by="ana")
    assert (await read_reached(connections, keys)).kept == (place,), "its host worker recorded it after the call"
    evaluator.note(place.host, place.source, (), said="kept")
    await evaluator.send()
    assert (await read_reached(connections, keys)).kept == (), "its hook command has got the answer that ends it"


async def test_what_is_noted_while_earlier_words_are_recorded_is_recorded_next(
    keys: Keys, connections: Connections
) -> None:
    reach = Reach(connections, keys)
    stop = await place_stop(connections, keys, by="ana")
    await lift_stops(connections, keys, by="ana")
    reach.note("h1", "claude", (), said="none")
    sending = asyncio.create_task(reach.send())
    await asyncio.sleep(0)  # it has begun, and waits for the server
    reach.note("h2", "codex", (), said="none")
    reach.note("h3", "gemini", (stop.id,))
    await sending
    await reach.send()
    assert (await read_reached(connections, keys)).kept == (AgentOnHost(host="h3", source="gemini"),)


async def test_what_could_not_be_recorded_is_kept_and_newer_words_count(keys: Keys) -> None:
    server = Server()
    server.start()
    connections = Connections(server.url, connect=CONNECT)
    try:
        reach = Reach(connections, keys)
        reach.note("h1", "claude", ("old",))
        reach.note("h2", "codex", ("old",))
        server.kill()
        sending = asyncio.create_task(reach.send())
        await asyncio.sleep(0)
        reach.note("h2", "codex", ("new",))
        with pytest.raises(Unreachable):
            await sending
        server.start()
        await reach.send()
        kept = await do(connections, "HGETALL", keys("reached"))
        assert flat(kept) == {b"h1\nclaude": b"old", b"h2\ncodex": b"new"}
    finally:
        await connections.close()
        server.stop()
