"""Reads a stored event as hooks got it: nothing in it is redacted."""

from __future__ import annotations

import msgspec

from bus.errors import NotFound
from bus.events import Event
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.records.events import RecordedEvent, find_entry_anywhere, read_recorded_event
from workers.records.id_prefixes import whole_event_id


async def stored_event(connections: Connections, keys: Keys, beginning: str) -> tuple[Event, RecordedEvent]:
    """The event with this id prefix, and its redacted record. Raises NotFound, AmbiguousId and DecodeError."""
    name = await whole_event_id(connections, keys, beginning)
    entry, pending = await find_entry_anywhere(connections, keys, name, None)
    seen = msgspec.structs.replace(read_recorded_event(entry, keys), pending=pending)
    if seen.of:
        raise NotFound(f"of the event {name!r} only its agent's report of a fallback is recorded, not its content")
    return read_event(read_request(entry, keys)), seen
