"""The targets whose deliveries wait at one dispatcher, and their release where nothing of a target is in flight any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import ScriptCall, call_all, checked
from workers.waiting.looks import Look, work_if

_SCAN: Final = 1_000
_MOST_TARGETS: Final = 10_000
_MOST_LOOKED_AT: Final = 200


class ParkedTargets:
    """The targets that one dispatcher knows of. Usually the end of an attempt releases the next delivery."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._targets: set[str] = set()
        self._cursor: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self._targets)

    @property
    def are_found(self) -> bool:
        """Whether the scan has ended."""
        return self._cursor is None

    def add(self, targets: Iterable[str]) -> None:
        """Note targets of new deliveries."""
        if len(self._targets) < _MOST_TARGETS:
            self._targets.update(targets)

    def begin(self) -> None:
        """Begin to look for the targets whose deliveries were parked before this dispatcher was active."""
        self._cursor = b"0"

    async def find(self) -> None:
        """Go on with the scan for them, one page a turn; raises Unreachable."""
        if self._cursor is None:
            return
        prefix = self._keys("parked", "")
        with self._connections.lease() as connection:
            (reply,) = await connection.exchange([("SCAN", self._cursor, "MATCH", f"{prefix}*", "COUNT", _SCAN)])
        following, names = checked(reply, "looking for parked deliveries")
        self._targets.update(name.decode().removeprefix(prefix) for name in names)
        self._cursor = None if following == b"0" else following

    async def release(self) -> None:
        """Release the deliveries of targets with nothing in flight; raises Unreachable."""
        keys, targets = self._keys, sorted(self._targets)
        with self._connections.lease() as connection:
            parked = await connection.exchange([("EXISTS", keys("parked", target)) for target in targets])
        calls = [
            ScriptCall("unpark", (keys("flight", target),), (keys.prefix, target))
            for target, exists in zip(targets, parked, strict=True)
            if exists == 1
        ]
        for reply in await call_all(self._connections, calls) if calls else ():
            checked(reply, "unparking")
        if len(targets) >= _MOST_TARGETS:
            self._targets = {target for target, exists in zip(targets, parked, strict=True) if exists}

    def look(self) -> Look:
        """What an idle dispatcher looks at: whether any target may have to be released."""
        if len(self._targets) > _MOST_LOOKED_AT:
            return Look(("PING",), work_if(lambda _: True))
        names = [self._keys("parked", target) for target in self._targets] or [self._keys("parked", "")]
        return Look(("EXISTS", *names), work_if(bool))
