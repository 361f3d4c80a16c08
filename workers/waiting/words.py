"""What a sleeping dispatcher hears at once: a delivery was added, or something became due earlier than it knows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from bus.errors import FleethookError
from bus.wire.connections import MARGIN_SECONDS, Command, Connections
from bus.wire.keys import Keys
from bus.wire.streams import is_error

_SECONDS: Final = 30.0
"""How long one read waits."""


class Words:
    """Waits for words on a connection of its own, while its dispatcher reads events on another."""

    def __init__(self, url: str, keys: Keys, streams: tuple[str, ...]) -> None:
        self._connections = Connections(url, connect=1.0)
        self._places = dict.fromkeys(streams, "$")
        self._stream = keys("words")
        self._places[self._stream] = (
            "0-0"  # what is there already counts: it may have come since the last look at what is due
        )
        self._reading: asyncio.Task[None] | None = None

    def heard(self) -> asyncio.Task[None]:
        """Ends when somebody has given a word, or after a while; the same one until it has ended."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._wait())
        return self._reading

    async def close(self) -> None:
        """Wait no longer."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self._connections.close()

    async def _wait(self) -> None:
        with suppress(FleethookError), self._connections.lease() as connection:
            places = self._places
            read: Command = ("XREAD", "BLOCK", int(_SECONDS * 1000), "STREAMS", *places, *places.values())
            (rows,) = await connection.exchange([read], seconds=_SECONDS + MARGIN_SECONDS)
            if is_error(rows, "NOPERM"):  # rights that are older than this stream
                del self._places[self._stream]
                return
            for name, entries in rows or () if not isinstance(rows, Exception) else ():
                if name.decode() == self._stream:
                    self._places[self._stream] = entries[-1][0].decode()
