"""Writes what a hook's process or receiver gets, without holding up the event loop over a large event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.events import Event
from bus.wire.long_json import has_long_text


async def written(event: Event, write: Callable[[], bytes]) -> bytes:
    """The result of `write`, called in a thread if the event holds a long text; raises what `write` raises."""
    if has_long_text((event.input, event.output, event.data, event.raw)):
        return await asyncio.to_thread(write)
    return write()
