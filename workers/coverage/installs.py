"""The hooks of agents that are installed on this machine, for the other machines of the fleet.

A worker of each host writes them twice a minute, because only it can read the agents' settings there; more often if the time
that a pre-hook event may be late is shorter.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bus.errors import ConfigError, FleethookError
from bus.ids import host_name
from bus.installs.base import NAMES, InstallProblem, InstallScope, Scope
from bus.installs.manifest import records
from bus.installs.plan import installed, troubles
from bus.lazy.conversions import from_json
from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import INSTALLS_MS, Keys
from bus.wire.streams import checked, server_now

log = logging.getLogger("fleethook.coverage")

_LOOK_SECONDS: Final = 30.0
_SHORTEST_LOOK: Final = 1.0


class InstallFault(msgspec.Struct, frozen=True):
    """What keeps hooks from running, and what a person can do."""

    what: str
    fix: str


class InstalledHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Fleethook's hooks in one settings file of an agent."""

    agent: str
    path: str
    events: tuple[str, ...]
    """The agent's own names of the events that have a hook of ours."""
    removed: tuple[str, ...] = ()
    """Those that the last install wrote and that are gone."""
    disabled: tuple[InstallFault, ...] = ()
    untrusted: tuple[InstallFault, ...] = ()


class HostInstalls(msgspec.Struct, frozen=True):
    """The hooks of all agents on one host, at one time."""

    time: int
    """The server's time just before the files were read."""
    files: tuple[InstalledHooks, ...]

    def will_be_read_after(self, ms: int, now: int) -> bool:
        """Whether they are older than `ms`, and a worker of the host is soon to read them again."""
        return self.time <= ms and now < self.time + 2 * _LOOK_SECONDS * 1000


def installed_here(state: Path, where: InstallScope) -> list[InstalledHooks]:
    """The hooks in the user's settings and in every file that an install has written; unreadable files have none."""
    try:
        known = records(state)
    except ConfigError as error:
        log.debug("the list of installs cannot be read: %s", error)
        known = {}
    found: dict[Path, InstalledHooks] = {}
    for agent in NAMES:
        scopes: list[tuple[InstallScope, Scope | None]] = [(where, "user")]
        paths = [path for path, record in known.items() if record.agent == agent]
        scopes += [(InstallScope(where.home, path.parent.parent, where.environ, where.root), None) for path in paths]
        for place, only in scopes:
            for scope, path, calls in installed(agent, place):
                if path not in found and only in {None, scope}:
                    events = tuple(dict.fromkeys(call.event for call in calls))
                    found[path] = _file(agent, scope, place, path, events, known[path].events if path in known else ())
        for path in paths:
            if path not in found:  # all of ours was removed, or the file cannot be read
                removed = tuple(known[path].events)
                found[path] = InstalledHooks(agent=agent, path=str(path), events=(), removed=removed)
    return list(found.values())


def _file(
    agent: str, scope: Scope, where: InstallScope, path: Path, events: tuple[str, ...], written: Sequence[str]
) -> InstalledHooks:
    disabled, untrusted = troubles(agent, scope, where, path)
    return InstalledHooks(
        agent=agent,
        path=str(path),
        events=events,
        removed=tuple(event for event in written if event not in events),
        disabled=_problems(disabled),
        untrusted=_problems(untrusted),
    )


def _problems(found: Sequence[InstallProblem]) -> tuple[InstallFault, ...]:
    return tuple(InstallFault(redact_text(one.what), redact_text(one.fix)) for one in found if one.sure)


async def keep_installs(connections: Connections, keys: Keys, state: Path, grace: float) -> None:
    """Write the installed hooks of this host, for good; ends only when it is cancelled.

    `grace` is how late a pre-hook event may be: the settings are read again before a gap is explained.
    """
    while True:
        try:
            await write_installs(connections, keys, state)
        except (FleethookError, OSError) as error:
            log.debug("the installed hooks are not written: %s", error)
        await asyncio.sleep(min(_LOOK_SECONDS, max(_SHORTEST_LOOK, grace)))


async def write_installs(connections: Connections, keys: Keys, state: Path) -> None:
    """Write the installed hooks of this host once; raises Unreachable."""
    where = InstallScope(Path.home(), Path.home(), dict(os.environ))
    now = await server_now(connections)
    found = await asyncio.to_thread(installed_here, state, where)
    raw = msgspec.json.encode(HostInstalls(now, tuple(found)))
    with connections.lease() as connection:
        (reply,) = await connection.exchange([("SET", keys("installs", host_name()), raw, "PX", INSTALLS_MS)])
    checked(reply, "writing the installed hooks")


async def read_installs(connections: Connections, keys: Keys, host: str) -> HostInstalls | None:
    """The installed hooks of a host; None if none of its workers has written them lately."""
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("GET", keys("installs", host))])
    if not isinstance(raw, bytes):
        return None
    try:
        return from_json(raw, HostInstalls)
    except (msgspec.DecodeError, msgspec.ValidationError):  # another version's
        return None
