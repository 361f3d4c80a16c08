"""A balancer of TCP connections, in turn over the servers that take one."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from tests.support.waiting import PATIENCE


class Balancer:
    """Listens on `port` of loopback, and carries each connection to one of the `targets`, which are ports of loopback."""

    def __init__(self, targets: Sequence[int]) -> None:
        self._turns = itertools.cycle(targets)
        self._count = len(targets)
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.carried: list[int] = []
        """The target of each connection that was carried."""

    def __enter__(self) -> Self:
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self._door, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in list(self._threads):
            thread.join()
        for sock in self._open:
            sock.close()

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]  # methods of this class
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                self._carry(client)

    def _carry(self, client: socket.socket) -> None:
        for _ in range(self._count):
            target = next(self._turns)
            try:
                server = socket.create_connection(("127.0.0.1", target), timeout=PATIENCE)
            except OSError:
                continue
            server.settimeout(None)
            self.carried.append(target)
            self._open += [client, server]
            self._start(_pump, client, server)
            self._start(_pump, server, client)
            return
        client.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry one direction until it ends, then end both."""
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
    for sock in (source, sink):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
