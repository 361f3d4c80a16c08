"""Dead letters as self-contained records: the reason, every attempt, and the event, all redacted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bus.errors import NotFound
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.delivery.deliveries import delivery
from workers.delivery.filters import Filter
from workers.records.events import kept_event, read_recorded_event, record
from workers.records.selection import filtered_letters


async def export_letters(connections: Connections, keys: Keys, wanted: Filter) -> AsyncIterator[dict[str, Any]]:
    """A record with `letter` for each dead letter that passes the filter, oldest first; deliveries add `log` and `event`."""
    async for letter in filtered_letters(connections, keys, wanted):
        letter_record: dict[str, Any] = {"letter": msgspec.to_builtins(letter)}
        if letter.kind == "delivery":
            try:
                letter_record["log"] = msgspec.to_builtins((await delivery(connections, keys, letter.id)).log)
            except NotFound:
                continue  # dropped since it was listed
            kept = await kept_event(connections, keys, letter.event)
            letter_record["event"] = record(read_recorded_event(kept, keys), raw=True) if kept is not None else None
        yield letter_record
