"""The server's clock, estimated without a round trip for each request; deadlines are times of this clock."""

from __future__ import annotations

import time
from typing import Final

from bus.wire.connections import Connections
from bus.wire.streams import server_now

_READ_SECONDS: Final = 30.0


class ServerClock:
    """Our clock plus its offset to the server's, which is measured every half minute."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._offset = 0
        self._read = float("-inf")

    async def measure(self) -> None:
        """Measure the offset if that is due; raises Unreachable."""
        if time.monotonic() - self._read > _READ_SECONDS:
            asked = time.time()
            server_ms = await server_now(self._connections)
            self._offset = server_ms - int((asked + time.time()) * 500)  # the server answered about half-way
            self._read = time.monotonic()

    def now(self) -> int:
        """Milliseconds since 1970 by the server's clock."""
        return int(time.time() * 1000) + self._offset
