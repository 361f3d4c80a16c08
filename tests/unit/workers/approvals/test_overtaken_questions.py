"""Which events end the questions of a call (X-03)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bus.events import Event
from bus.transport import event_entry
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry
from workers.approvals.overtaken_questions import CallIdentity, Overtaking

pytestmark = pytest.mark.req("X-03")

KEYS = Keys("t")


@pytest.fixture
def overtaking() -> Overtaking:
    one = Overtaking(cast("Connections", None), KEYS, "me")
    one.calls = {
        "first": CallIdentity(b"claude", b"h", b"s", b"t1", 1),
        "second": CallIdentity(b"claude", b"h", b"s", b"t2", 1),
        "unnamed": CallIdentity(b"claude", b"h", b"s", b"", 1),
        "elsewhere": CallIdentity(b"claude", b"i", b"s", b"t1", 1),
    }
    return one


def ended(overtaking: Overtaking, kind: str, **more: Any) -> list[str]:
    """The questions that an event ends."""
    same = {"source": "claude", "host": "h", "session": "s", "id": "e" + "0" * 32}
    entry = event_entry(Event(**{**same, "type": kind, **more}))
    flat = [part if isinstance(part, bytes) else str(part).encode() for part in entry]
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return overtaking.ended_by(StreamEntry(KEYS("events"), "1-0", fields))


def test_a_session_that_ends_ends_all_its_questions(overtaking: Overtaking) -> None:
    assert ended(overtaking, "session:end") == ["first", "second", "unnamed"]
    assert ended(overtaking, "session:end", session="t") == []
    assert ended(overtaking, "session:end", source="codex") == []


def test_a_call_that_has_run_ends_its_own(overtaking: Overtaking) -> None:
    assert ended(overtaking, "tool:post_execute", tool="bash", call="t1") == ["first"]
    assert ended(overtaking, "tool:error", tool="bash", call="t2") == ["second"]
    assert ended(overtaking, "tool:post_execute", tool="bash") == [], "a call without a name ends none"


def test_other_events_end_none(overtaking: Overtaking) -> None:
    assert ended(overtaking, "tool:pre_execute", tool="bash", call="t1") == []
    assert ended(overtaking, "agent:stop") == []
