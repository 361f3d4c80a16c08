"""The server's clock in a worker: deadlines count by it, and asking at every request would cost a round trip."""

from __future__ import annotations

import time
from typing import Final

from bus.wire.connections import Connections
from bus.wire.streams import server_now

_READ_SECONDS: Final = 30.0


class ServerClock:
    """Our clock, moved to the server's; read anew every half minute."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._ahead = 0
        self._read = float("-inf")

    async def keep(self) -> None:
        """Read the server's clock where that is due; raises Unreachable."""
        if time.monotonic() - self._read > _READ_SECONDS:
            asked = time.time()
            there = await server_now(self._connections)
            self._ahead = there - int((asked + time.time()) * 500)  # it answered about half-way
            self._read = time.monotonic()

    def now(self) -> int:
        """Milliseconds since 1970 by the server's clock."""
        return int(time.time() * 1000) + self._ahead
