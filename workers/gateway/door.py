"""The gateway's sockets before its first caller: they listen, and the gateway itself is imported when somebody connects.

An idle machine then needs none of the gateway's libraries (5 of 100 MB of an idle `fleethook up`, measured).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from bus.config.settings import Settings
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.in_force import Watcher
from bus.ids import consumer_name
from bus.system.directories import Directories
from bus.system.locks import Held, own, write_private
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.gateway import registration
from workers.gateway.gobby.config import may_replace
from workers.gateway.sockets import BACKLOG, is_loopback, socket_address, tcp_socket, tcp_url, unix_socket
from workers.runtime.consumer_loop import cancel_tasks
from workers.waiting.pulses import next_pulse

log = logging.getLogger("fleethook.gateway")


class Door(NamedTuple):
    """What a gateway takes over from the time before its first caller."""

    name: str
    lock: Held
    unix: socket.socket
    tcp: socket.socket | None
    """None where there is no TCP port."""

    def close(self) -> None:
        """Close the sockets and give the lock back."""
        self.unix.close()
        if self.tcp is not None:
            self.tcp.close()
        self.lock.release()


def may_wait(settings: Settings) -> bool:
    """Whether a gateway with these settings does nothing before its first caller: only programs of this machine can call."""
    return is_loopback(settings.gateway_host) and settings.gobby != "on"


class DoorKeeper:
    """Listens on the sockets of a gateway until somebody connects, or a hook file in force wants Gobby's ports."""

    def __init__(
        self, connections: Connections, keys: Keys, watcher: Watcher, settings: Settings, places: Directories
    ) -> None:
        self._connections, self._keys, self._watcher = connections, keys, watcher
        self._settings, self._places = settings, places
        self._door: Door | None = None
        self._addresses = ""

    async def prepare(self) -> None:
        """Take this machine's lock, open the sockets, and enter the gateway in the fleet's list.

        Raises ServerError if another gateway of this user runs here, Unreachable, and OSError if the TCP port is not free.
        """
        if self._door is None:
            lock = own(self._places.gateway_lock, "this user's gateway")
            try:
                self._door = self._open(lock)
            except OSError:
                lock.release()
                raise
        await registration.beat_once(self._connections, self._keys, self._door.name, self._addresses)

    def _open(self, lock: Held) -> Door:
        host, port = self._settings.gateway_host, self._settings.gateway_port
        addresses = [socket_address(self._places.gateway_socket), *([tcp_url(host, port)] if port else [])]
        tcp = tcp_socket(host, port) if port else None
        unix = unix_socket(self._places.gateway_socket)
        for one in (unix, tcp):
            if one is not None:
                one.listen(BACKLOG)
        self._addresses = " ".join(addresses)
        write_private(self._places.gateway_file, "".join(f"{line}\n" for line in addresses))
        return Door(consumer_name("gateway"), lock, unix, tcp)

    async def run(self, stop: asyncio.Event, on_listening: Callable[[], None]) -> Door | None:
        """Wait until the gateway is needed, and return the open door; None after `stop`. Call `prepare` first."""
        door = self._door
        if door is None:
            raise RuntimeError("prepare comes first")
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one.wait()) for one in (called, stop)]
        beating = asyncio.create_task(
            registration.beat(self._connections, self._keys, door.name, lambda: self._addresses)
        )
        sockets = [one for one in (door.unix, door.tcp) if one is not None]
        for one in sockets:
            loop.add_reader(one, called.set)
        on_listening()
        is_needed = False
        try:
            while not (stop.is_set() or is_needed):
                waits: list[asyncio.Future[Any]] = [*tasks, next_pulse()]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                is_needed = called.is_set() or await self._is_gobby_wanted()
        finally:
            for one in sockets:
                loop.remove_reader(one)
            await cancel_tasks([*tasks, beating])
            if not is_needed:
                await self._leave(door)
        self._door = None
        return door if is_needed else None

    async def _is_gobby_wanted(self) -> bool:
        try:
            await self._watcher.refresh()
        except FleethookError as error:
            log.debug("the hook files stay as they were read: %s", error)
        return may_replace(self._settings, self._watcher.for_event(Event(type="", host=self._watcher.host)).files)

    async def _leave(self, door: Door) -> None:
        door.close()
        for path in (self._places.gateway_socket, self._places.gateway_file):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        await registration.leave(self._connections, self._keys, door.name)
