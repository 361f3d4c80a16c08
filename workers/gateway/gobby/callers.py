"""The process at the other end of a connection on loopback: Gobby's clients have no token, but the system knows their user.

Linux lists each connection with its user and inode (proc_pid_net(5), `/proc/net/tcp`), and each process with its sockets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from bus.system.calling_agent import calling_agent

_TABLES: Final = (("/proc/net/tcp", ""), ("/proc/net/tcp6", "0000000000000000FFFF0000"))
"""Each table, and what it has before an IPv4 address."""
_LOOPBACK: Final = "0100007F"
_MOST_ENVIRONMENT: Final = 4 * 1024 * 1024


class Connected(NamedTuple):
    """One end of a connection."""

    user: int
    inode: int


def why_no_person(client: tuple[str, int] | None, port: int) -> str:
    """Why the caller of our port does not count as a person of this user; empty if it does.

    It is the check of the commands that weaken guards (`workers/admin/person.py`), made for another process.
    """
    found = connected(client[1], port) if client is not None and client[0] == "127.0.0.1" else None
    if found is None:
        return "the process that calls cannot be seen"
    if found.user != os.getuid():
        return "another user of this machine calls"
    seen = [(pid, environ) for pid in _holders(found.inode) if (environ := _environment(pid)) is not None]
    if not seen:
        return "the process that calls cannot be seen"
    for pid, environ in seen:  # a socket can be shared
        if (agent := calling_agent(environ, pid)) is not None:
            return f"an agent calls ({agent.agent}: {agent.evidence})"
    return ""


def connected(port: int, other: int) -> Connected | None:
    """The end of a connection on 127.0.0.1 that has `port`, where the far end has `other`; None if it is not listed."""
    for path, before in _TABLES:
        ends = [f"{before}{_LOOPBACK}:{port:04X}", f"{before}{_LOOPBACK}:{other:04X}"]
        with suppress(OSError), open(path, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1:3] == ends:
                    return Connected(int(fields[7]), int(fields[9]))
    return None


def _holders(inode: int) -> list[int]:
    """The processes that have a socket, as far as this user may see."""
    wanted = f"socket:[{inode}]"
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and wanted in _open_files(name)]


def _open_files(process: str) -> Iterator[str]:
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):  # it is closed by now
                yield os.readlink(f"/proc/{process}/fd/{number}")


def _environment(pid: int) -> dict[str, str] | None:
    """The variables with which a process was started; None if they cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = file.read(_MOST_ENVIRONMENT).split(b"\0")
    except OSError:
        return None
    pairs = (word.decode("utf-8", "replace").partition("=") for word in words if word)
    return {name: value for name, _, value in pairs}
