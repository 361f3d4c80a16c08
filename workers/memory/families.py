"""Which session a session counts for."""

from __future__ import annotations

from typing import Final

from bus.wire.connections import Connection
from bus.wire.keys import Keys
from bus.wire.streams import checked

_DEEPEST: Final = 16


async def root_session(connection: Connection, keys: Keys, session: str) -> str:
    """The topmost parent that is known of a session (by its key); as `shared/family.lua` finds it. Raises Unreachable."""
    for _ in range(_DEEPEST):
        (reply,) = await connection.exchange([("GET", keys("family", session))])
        above = checked(reply, "looking for a session's parent")
        if above is None or above.decode() == session:
            break
        session = above.decode()
    return session
