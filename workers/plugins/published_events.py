"""Events that were only announced, from the dispatcher to the workers whose plugins observe them: each goes to one worker.

They have no verdict, so no evaluator reads them otherwise, and a plugin's handlers have to run in the process that has its
state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from bus.errors import DecodeError, FleethookError, Unreachable
from bus.events import Event
from bus.hooksets.in_force import HookSet
from bus.requests import read_event, read_request
from bus.wire.connections import Command, Connections
from bus.wire.keys import OBSERVED_MS, Keys
from bus.wire.streams import StreamEntry, checked, flat, is_error
from workers.delivery.deliveries import pack_fields, unpack_fields

log = logging.getLogger("fleethook.plugins")

_GROUP: Final = "observers"
_MOST: Final = 1_000
"""How many events wait for a worker with plugins; then the oldest are dropped."""
_MOST_BYTES: Final = 256 * 1024
_READ: Final = 16
_BLOCK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.5


class PublishedRelay:
    """The dispatcher's side: `add` each announced event, then `send`."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._waiting: list[Command] = []

    def add(self, entry: StreamEntry, event: Event, hook_set: HookSet, *, for_host: bool) -> None:
        """Note an event if plugins observe it; `for_host`: its own machine's worker shows it to that machine's plugins."""
        if not hook_set.has_plugins:
            return
        if not any(not (hook.on_host and for_host) for hook in hook_set.observers(event, None)):
            return
        data = pack_fields(entry)
        if len(data) > _MOST_BYTES:
            log.warning("event %s is too large to be shown to plugins: %d bytes", event.id, len(data))
            return
        key, host = self._keys("observed"), "1" if for_host else "0"
        self._waiting.append(("XADD", key, "MAXLEN", _MOST, "*", "data", data, "host", host))

    async def send(self) -> None:
        """Send what was noted; raises Unreachable."""
        if not self._waiting:
            return
        commands, self._waiting = self._waiting, []
        with self._connections.lease() as connection:
            replies = await connection.exchange([*commands, ("PEXPIRE", self._keys("observed"), OBSERVED_MS)])
        for reply in replies:
            if isinstance(reply, Exception):  # the ACL may be older than the key, or the server is full
                log.error("announced events cannot be shown to plugins: %s", reply)
                return


class PublishedReader:
    """The side of a worker with plugins: `show` gets each event, and whether its own machine's worker has it too."""

    def __init__(self, connections: Connections, keys: Keys, worker: str, show: Callable[[Event, bool], None]) -> None:
        self._connections, self._keys, self._worker, self._show = connections, keys, worker, show

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                rows = await self._read()
            except (Unreachable, FleethookError) as error:
                log.debug("reading announced events: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            for _, fields in rows:
                try:
                    self._take(flat(fields))
                except DecodeError as error:
                    log.warning("an announced event cannot be shown to plugins: %s", error)
                except Exception:  # one event must not stop the others
                    log.exception("an announced event cannot be shown to plugins")
                await asyncio.sleep(0)  # requests go first

    async def leave(self) -> None:
        """Leave the group. Errors are ignored, because the stream expires by itself."""
        with contextlib.suppress(FleethookError), self._connections.lease() as connection:
            await connection.exchange([("XGROUP", "DELCONSUMER", self._keys("observed"), _GROUP, self._worker)])

    def _take(self, fields: dict[bytes, bytes]) -> None:
        kept = unpack_fields(fields[b"data"])
        original = StreamEntry(self._keys("events"), kept[b"entry"].decode(), kept)
        self._show(read_event(read_request(original, self._keys)), fields[b"host"] == b"1")

    async def _read(self) -> list[tuple[bytes, list[bytes]]]:
        stream = self._keys("observed")
        waits = int(_BLOCK_SECONDS * 1000)
        group = ("XREADGROUP", "GROUP", _GROUP, self._worker, "COUNT", _READ, "BLOCK", waits, "NOACK")
        with self._connections.lease() as connection:
            (reply,) = await connection.exchange([(*group, "STREAMS", stream, ">")], seconds=_BLOCK_SECONDS + 5)
            if is_error(reply, "UNBLOCKED"):
                return []
            if is_error(reply, "NOGROUP"):  # nothing was announced yet, or not for a long time
                made = ("XGROUP", "CREATE", stream, _GROUP, "0", "MKSTREAM")
                await connection.exchange([made, ("PEXPIRE", stream, OBSERVED_MS)])
                return []
        found = checked(reply, "reading announced events")
        return [row for _, rows in found for row in rows] if found else []
