"""What a read brings of the sessions that were asked about a moment ago is what a look-up of its own says (X-13)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from bus.events import Event
from bus.matching.conditions import compile_condition
from bus.memory.charges import session_key
from bus.memory.deeds import Deed
from bus.memory.facts import MOST_KEPT, Memory
from bus.memory.outcomes import call_digest
from bus.memory.replayed import PAUSE_MS
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import ScriptCall, call_all, checked, server_now
from tests.support.running import do
from workers.memory.recall import Recall
from workers.memory.recent import KEPT_BY, RecentSessions

pytestmark = pytest.mark.req("X-13")

FACTS = [compile_condition('session.repeats > 1 || session.ran("make").exit != 0')]
SESSIONS = ("a", "b", "sub")


def call(session: str, command: str) -> Event:
    """A call before it runs."""
    return Event(
        type="tool:pre_execute", source="claude", session=session, tool="bash", input={"command": command}, cwd="/w"
    )


class Reading:
    """An evaluator's reads, and a dispatcher that has noted everything."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._consumer = Consumer(
            connections,
            keys,
            group="evaluators",
            name="evaluator",
            streams=(keys("requests"), keys("decided"), keys("waiting")),
            role="evaluator",
        )
        self._recorder = Consumer(
            connections, keys, group=KEPT_BY, name="dispatcher", streams=(keys("events"),), role="dispatcher"
        )
        self._recall = Recall(connections, keys, self._consumer)

    @property
    def recent(self) -> RecentSessions:
        """What its reads bring."""
        assert self._recall._recent is not None
        return self._recall._recent

    async def begin(self) -> None:
        """Make the groups."""
        await self._consumer.create()
        await self._recorder.create()

    async def handed(self, event: Event) -> tuple[Event, Recall]:
        """The event of a request as a read hands it out, and who is asked about its session; it is answered at once."""
        await do(self._connections, "XADD", self._keys("requests"), "*", "id", event.id)
        with self._connections.lease() as connection:
            (entry,) = await self._consumer.read(connection, 10, 0.1)
        self._recall.note([entry])
        await do(self._connections, "XACK", self._keys("requests"), "evaluators", entry.id)
        await do(self._connections, "XDEL", self._keys("requests"), entry.id)
        return msgspec.structs.replace(event, time=entry.ms), self._recall


async def note(
    connections: Connections, keys: Keys, session: str, parent: str, deeds: Sequence[object], calls: Sequence[object]
) -> None:
    """Note what a session did, as a dispatcher does."""
    name, above = session_key("claude", session), session_key("claude", parent) if parent else ""
    args = (keys.prefix, DONE_MS, MOST_KEPT, PAUSE_MS, name, above, len(deeds), *deeds, 0, len(calls), *calls)
    (reply,) = await call_all(connections, [ScriptCall("facts", (keys("facts", name),), args)])  # type: ignore[arg-type]
    checked(reply, "noting")


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_read_brings_what_a_look_up_says(connections: Connections, keys: Keys, seed: int) -> None:
    """Whatever was noted since: in no order, for a parent that gets known later, more than is told singly, after a purge."""
    chance, reading = random.Random(seed), Reading(connections, keys)
    await reading.begin()
    plain = Recall(connections, keys)
    start, brought = await server_now(connections) - 30_000, 0
    for turn in range(60):
        session = chance.choice(SESSIONS)
        for _ in range(chance.choice((0, 1, 1, 3, 20))):
            ms = start + chance.randint(0, 20_000)
            command = f"make {chance.randint(0, 30)}"
            kinds = [
                ("done", call_digest(call("", command)), chance.choice("xy")),
                ("pre", call_digest(call("", command)), "-"),
            ]
            kind = (
                chance.choice([*kinds, kinds[0], ("prompt", "-", "-")])
                if chance.random() < 0.9
                else ("waited", "-", "-")
            )
            deeds = [ms, Deed("ran", command, chance.randint(0, 1)).member]
            parent = "a" if session == "sub" and turn > 30 else ""
            await note(connections, keys, session, parent, deeds, [*kind, ms, f"{ms}-{chance.randint(0, 9)}"])
        if chance.random() < 0.05:
            root = session_key("claude", session)
            await do(connections, "DEL", keys("facts", root), keys("repeats", root))
        asked = msgspec.structs.replace(call(chance.choice(SESSIONS), f"make {chance.randint(0, 30)}"), id=f"e{turn}")
        event, recall = await reading.handed(asked)
        brought += reading.recent.find(session_key("claude", event.session), event, deeds=True) is not None
        found = await recall.read(event, FACTS, 0.0)
        assert found == await plain.read(event, FACTS, 0.0), turn
    assert brought > 30, "most facts came with the read"


async def test_what_is_under_way_is_looked_up(connections: Connections, keys: Keys) -> None:
    """A read says nothing of a session while requests of others are at work, or events wait for the dispatcher."""
    reading = Reading(connections, keys)
    await reading.begin()
    asked = msgspec.structs.replace(call("s", "make"), id="e1")
    event, recall = await reading.handed(asked)
    assert await recall.read(event, FACTS, 0.0) == Memory()
    name = session_key("claude", "s")
    event, _ = await reading.handed(asked)
    assert reading.recent.find(name, event, deeds=True) is not None
    assert reading.recent.find(name, msgspec.structs.replace(event, id="e2"), deeds=True) is None, "another read's"
    await do(connections, "XADD", keys("requests"), "*", "id", "other")
    await do(connections, "XREADGROUP", "GROUP", "evaluators", "another", "STREAMS", keys("requests"), ">")
    event, _ = await reading.handed(asked)
    assert reading.recent.find(name, event, deeds=True) is None, "another evaluator has a request"


async def test_a_session_that_no_request_reads_is_asked_about_no_more(connections: Connections, keys: Keys) -> None:
    reading = Reading(connections, keys)
    await reading.begin()
    event, recall = await reading.handed(msgspec.structs.replace(call("s", "make"), id="e1"))
    await recall.read(event, FACTS, 0.0)
    asked = 0
    for _ in range(10):
        await reading.handed(msgspec.structs.replace(call("other", "ls"), id="e2"))
        asked += bool(reading.recent.commands())
    assert asked == 3, "no read after the fourth unused one brings it"
