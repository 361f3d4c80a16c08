"""Events that are kept for a host without a running `worker host`: how many wait, and which become dead letters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bus.errors import DecodeError
from bus.host_requests import GROUP, role
from bus.requests import read_event, read_request
from bus.wire.connections import Connections
from bus.wire.keys import DAY, DONE_MS, Keys
from bus.wire.streams import ScriptCall, StreamEntry, call_all, checked, flat
from workers.delivery.dead_letters import overdue_call
from workers.delivery.deliveries import unpack_fields
from workers.runtime.wording import counted

log = logging.getLogger("fleethook.kept")

_PAGE: Final = 200


class KeptEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events that are kept for one host."""

    host: str
    events: int
    ms: int
    """When the oldest of them was kept, in milliseconds since 1970."""

    @property
    def text(self) -> str:
        """The message for a person."""
        events = counted(self.events, "event waits", "events wait")
        return (
            f"{events} for `fleethook worker host` on {self.host!r}, which runs the background hooks of its own files; "
            "if this host is gone for good: `fleethook hosts forget`"
        )


async def kept_events(connections: Connections, keys: Keys) -> list[KeptEvents]:
    """The events kept for each host whose worker is away, by host."""
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ZRANGE", keys("kept"), 0, -1)])
        hosts = sorted(name.decode("utf-8", "replace") for name in checked(names, "listing hosts"))
        found = []
        for host in hosts:
            alive, length, first = await connection.exchange(
                [
                    ("EXISTS", keys("alive", role(host))),
                    ("XLEN", keys("events", host)),
                    ("XRANGE", keys("events", host), "-", "+", "COUNT", 1),
                ]
            )
            rows = checked(first, f"reading the events kept for {host}")
            if rows and checked(alive, f"looking for host {host}") == 0:
                ms = int(rows[0][0].partition(b"-")[0])
                found.append(KeptEvents(host=host, events=int(checked(length, "counting events")), ms=ms))
    return found


async def give_up_overdue(connections: Connections, keys: Keys, now: int, keep_ms: int) -> int:
    """Make dead letters of events older than `keep_ms`, `now` by the server's clock; returns how many."""
    keep = min(keep_ms, DONE_MS)
    days = f"{keep / DAY:g} days"
    given_up = 0
    for waiting in await kept_events(connections, keys):
        if waiting.ms <= now - keep:
            why = f"no `fleethook worker host` ran on {waiting.host!r} for {days}: its background hooks were not run"
            given_up += await give_up(connections, keys, waiting.host, why, until=now - keep)
    with connections.lease() as connection:
        (names,) = await connection.exchange([("ZRANGE", keys("kept"), 0, -1)])
    hosts = [name.decode("utf-8", "replace") for name in checked(names, "listing hosts")]
    calls = [ScriptCall("unkeep", (keys("kept"), keys("events", host)), (host,)) for host in hosts]
    for reply in await call_all(connections, calls) if calls else ():
        checked(reply, "tidying hosts")
    return given_up


async def give_up(connections: Connections, keys: Keys, host: str, reason: str, *, until: int = 0) -> int:
    """Make dead letters of the events kept for a host up to `until` (milliseconds; 0 for all); returns how many."""
    stream, given_up = keys("events", host), 0
    while True:
        with connections.lease() as connection:
            (reply,) = await connection.exchange([("XRANGE", stream, "-", until or "+", "COUNT", _PAGE)])
        rows = checked(reply, f"reading the events kept for {host}")
        if not rows:
            break
        replies = await call_all(connections, [_give_up(keys, stream, row, reason) for row in rows])
        given_up += sum(int(checked(reply, f"giving up the events kept for {host}")) for reply in replies)
    if given_up:
        log.warning("gave up %d of the events that waited: %s", given_up, reason)
    return given_up


def _give_up(keys: Keys, stream: str, row: Sequence[Any], reason: str) -> ScriptCall:
    entry = StreamEntry(stream, row[0].decode(), flat(row[1]))
    event, event_fields = entry, {}
    try:
        fields = unpack_fields(entry.fields[b"data"])
        event = StreamEntry(keys("events"), fields[b"entry"].decode(), fields)
        kept = read_event(read_request(event, keys))
        event_fields = {"type": kept.type, "tool": kept.tool, "session": kept.session}
    except (DecodeError, KeyError, ValueError) as error:
        log.warning("%s of %s cannot be read: %s", entry.id, stream, error)
    return overdue_call(keys, entry, event, event_fields, reason, GROUP)
