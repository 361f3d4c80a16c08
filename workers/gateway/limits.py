"""What one caller may take of a gateway: connections, size and number of headers, and time."""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from typing import Final, NamedTuple

from workers.gateway.problems import Problem

log = logging.getLogger("fleethook.gateway")

_LOG_SECONDS: Final = 10.0
_RESERVED_FILES: Final = 256
"""Open files for everything but callers' connections."""

LOCAL_PEER: Final = "unix socket"

LATE: Final = "fleethook.late"
"""The entry of an ASGI scope with the problem of a connection that is one too many."""


class SocketLimits(NamedTuple):
    """The limits of one listening socket."""

    connections: int = 4096
    per_peer: int = 2048
    """Connections of one address, so that one machine cannot take all of them."""
    head_bytes: int = 32 * 1024
    """Bytes of request line and headers."""
    headers: int = 100
    head_seconds: float = 10.0
    """How long request line and headers may take."""
    body_seconds: float = 10.0
    """How long the rest of a body may take after the answer to its request."""
    idle_seconds: float = 75.0
    """How long a connection may wait for its next request."""
    write_seconds: float = 30.0
    """How long a caller may take nothing of a response."""
    late: int = 64
    """Connections beyond the others for one request each, which is refused: an agent's hook by its failure policy."""
    late_seconds: float = 1.0
    """How long such a request may take."""


def limits_for(connections: int, *, shared: bool) -> SocketLimits:
    """The limits for so many connections; `shared`: callers of several machines, each of which gets half at most."""
    return SocketLimits(connections=connections, per_peer=max(1, connections // 2) if shared else connections)


class Admission:
    """Counts the connections of one listening socket, and says which are too many."""

    def __init__(self, limits: SocketLimits) -> None:
        self.limits = limits
        self._peers: Counter[str] = Counter()
        self._count = self._late = 0
        self._refused = 0
        self._logged = 0.0

    @property
    def count(self) -> int:
        """The connections that were admitted and have not ended."""
        return self._count

    def enter(self, peer: str) -> Problem | None:
        """Admit a connection, which `leave` ends; else the problem that its caller gets."""
        if self._count >= self.limits.connections:
            return self._refuse(peer, f"this gateway has {self._count} connections and takes no more")
        if self._peers[peer] >= self.limits.per_peer:
            return self._refuse(peer, f"{peer} has {self._peers[peer]} connections to this gateway and gets no more")
        self._count += 1
        self._peers[peer] += 1
        return None

    def leave(self, peer: str) -> None:
        """End a connection that was admitted."""
        self._count -= 1
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def enter_late(self) -> bool:
        """Admit a connection that is one too many for its request alone; `leave_late` ends it."""
        if self._late >= self.limits.late:
            return False
        self._late += 1
        return True

    def leave_late(self) -> None:
        """End a connection that was admitted for one request."""
        self._late -= 1

    def _refuse(self, peer: str, detail: str) -> Problem:
        self._refused += 1
        if time.monotonic() - self._logged > _LOG_SECONDS:
            log.warning("%s connections refused, the last one of %s: %s", self._refused, peer, detail)
            self._logged, self._refused = time.monotonic(), 0
        if not self._peers[peer]:
            del self._peers[peer]
        return Problem(
            503,
            "connections",
            f"{detail}; try again, and keep connections open for several calls",
            {"Retry-After": "1"},
        )


def allow_open_files(connections: int) -> int:
    """Raise this process's limit of open files for so many connections; returns how many it can have.

    A call that waits for its verdict has a connection to Redis too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):  # macOS has a lower limit of the kernel
            limit = soft
        soft = limit
    possible = connections if soft == resource.RLIM_INFINITY else max(1, (soft - _RESERVED_FILES) // 2)
    if possible < connections:
        log.warning(
            "this system allows %s open files, so the gateway takes %s connections and not %s",
            soft,
            possible,
            connections,
        )
    return min(connections, possible)
