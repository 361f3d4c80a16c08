"""Who runs a command of this group, for the record."""

from __future__ import annotations

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.cli.approvals.texts import person_here
from workers.fleet_control.stops import Via


async def who_runs_this(connections: Connections, keys: Keys) -> tuple[str, Via]:
    """The token's name, or user and host, and which of them it is."""
    person = await person_here(connections, keys)
    return person.name, "token" if person.via == "token" else "user"
