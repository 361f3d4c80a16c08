"""Sessions are known until they end, however many events come after their last one."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.wire.connections import Connections
from bus.wire.keys import DAY, Keys
from bus.wire.streams import StreamEntry
from tests.support.running import do
from workers.coverage.open_sessions import OpenSessions, open_sessions

pytestmark = [pytest.mark.live, pytest.mark.req("X-12")]
SECRET = "ghp_" + "a1B2" * 9


def note(known: OpenSessions, at: int, kind: str, session: str, cwd: str = "") -> None:
    """One event, as a dispatcher reads it."""
    event = Event(type=kind, source="claude", host="h", session=session, cwd=cwd)
    known.add(StreamEntry("events", f"{at}-0", {}), event)


async def test_sessions_are_kept_until_they_end(keys: Keys, connections: Connections) -> None:
    known = OpenSessions(connections, keys)
    note(known, 1, "session:start", "one", "/a")
    note(known, 2, "tool:pre_execute", "two")
    note(known, 3, "tool:pre_execute", f"three-{SECRET}")
    note(known, 4, "approval:requested", "ours")
    await known.send(now=True)
    one, two, three = sorted(await open_sessions(connections, keys), key=lambda found: found.id != "one")
    assert (one.id, one.source, one.host, one.cwd) == ("one", "claude", "h", "/a")
    assert SECRET not in two.id + three.id
    note(known, 5, "tool:pre_execute", "one", "/b")
    note(known, 6, "session:end", "two")
    await known.send(now=True)
    newest, _ = await open_sessions(connections, keys)
    assert (newest.id, newest.cwd) == ("one", "/b")
    note(known, 7, "user:prompt_submit", "two")
    await known.send(now=True)
    assert [found.id for found in await open_sessions(connections, keys)][:2] == ["two", "one"], "it was resumed"


async def test_a_busy_session_is_written_once_a_minute(keys: Keys, connections: Connections) -> None:
    known = OpenSessions(connections, keys)
    for at in (1, 2, 59_000, 61_002, 61_003):
        note(known, at, "tool:pre_execute", "busy")
        await known.send(now=True)
        assert await do(connections, "ZRANGE", keys("sessions"), 0, -1, "WITHSCORES") is not None
    _, score = await do(connections, "ZRANGE", keys("sessions"), 0, -1, "WITHSCORES")
    assert int(float(score)) == 61_002
    note(known, 61_003 + DAY, "tool:pre_execute", "later")
    await known.send(now=True)
    assert [found.id for found in await open_sessions(connections, keys)] == ["later"], "a day without an event"
