"""Listeners on loopback that an ordinary server would not have: one that holds little, one whose backlog is full."""

from __future__ import annotations

import socket


def listening() -> socket.socket:
    """A listener whose connections hold little, so that what was poured is about what was taken."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    sock.bind(("127.0.0.1", 0))
    return sock


class Full:
    """A listener whose backlog is full: a connection to it is neither made nor refused."""

    def __enter__(self) -> int:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        port = int(self._listener.getsockname()[1])
        self._waiting = [socket.socket() for _ in range(4)]
        for one in self._waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        return port

    def __exit__(self, *_: object) -> None:
        for one in [*self._waiting, self._listener]:
            one.close()
