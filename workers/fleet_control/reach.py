"""Which hosts a stop has reached, so that it outlives an outage there, and which it has not."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from bus.requests import Flag, Request
from bus.wire.connections import Command, Connections
from bus.wire.keys import DONE_MS, Keys
from bus.wire.streams import checked, flat
from workers.coverage.reports import read_reports
from workers.fleet_control.enforcement import Enforcement
from workers.fleet_control.stops import ActiveStop, shown_stop

_MOST_KNOWN: Final = 10_000


class AgentOnHost(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """An agent on a host."""

    host: str
    source: str


class Reach:
    """Records for one process which agents' hosts keep which stops; sends what is new with `send`."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._known: dict[AgentOnHost, tuple[str, ...]] = {}
        self._new: dict[AgentOnHost, tuple[str, ...]] = {}
        self._had_none: set[AgentOnHost] = set()
        """Those in `_new` whose hook command kept no stop at its call. Their host may have got one since."""

    def note(self, host: str, source: str, stops: tuple[str, ...], *, said: Flag = "") -> None:
        """Note that an agent's hook commands on a host keep these stops from now on; none: they keep none any more.

        `said`: what the hook command said that it keeps. If that is something else, another process may have recorded it.
        """
        place = AgentOnHost(host=host, source=source)
        if self._known.get(place) == stops and said in ("", "kept" if stops else "none"):
            return
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[place] = self._new[place] = stops
        (self._had_none.add if said == "none" and not stops else self._had_none.discard)(place)

    async def send(self) -> None:
        """Record what is new; raises Unreachable, and keeps it for the next time."""
        if not self._new:
            return
        new, had_none = self._new, self._had_none
        self._new, self._had_none = {}, set()  # requests are answered meanwhile: what they note goes with the next time
        try:
            await self._record(new, had_none)
        except BaseException:
            self._had_none |= had_none.difference(self._new)
            self._new = new | self._new
            raise

    async def _record(self, new: Mapping[AgentOnHost, tuple[str, ...]], had_none: AbstractSet[AgentOnHost]) -> None:
        key, commands, asked = self._keys("reached"), list[Command](), list(had_none)
        with self._connections.lease() as connection:
            looks = [("HGET", key, _name(place)) for place in asked]
            in_force, *kept = await connection.exchange([("HKEYS", self._keys("stops")), *looks])
            names = set(checked(in_force, "reading the stops"))
            newer = {
                place
                for place, stops in zip(asked, kept, strict=True)
                if not names.isdisjoint((checked(stops, "reading what a host keeps") or b"").split())
            }
            for place, stops in new.items():
                if place not in newer:
                    name = _name(place)
                    commands.append(("HSET", key, name, " ".join(stops)) if stops else ("HDEL", key, name))
            for reply in await connection.exchange([*commands, ("PEXPIRE", key, DONE_MS)]):
                checked(reply, "recording which hosts a stop has reached")


def _name(place: AgentOnHost) -> str:
    return f"{place.host}\n{place.source}"


def note_flag(stops: Enforcement, reach: Reach, request: Request) -> bytes:
    """What the hook command keeps of the stops in force, for an outage; empty without one, or for another caller."""
    if not request.flag:
        return b""
    flag = stops.flag(request.host, request.source)
    reach.note(request.host, request.source, stops.names if flag else (), said=request.flag)
    return flag


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """An agent on a host that a stop has not reached yet."""

    host: str
    source: str
    last: int
    """When its last event was added (ms since 1970)."""


class ReachedAgents(msgspec.Struct, frozen=True, kw_only=True):
    """The stops in force, and which agents they have and have not reached."""

    stops: tuple[ActiveStop, ...]
    """Oldest first."""
    not_reached: tuple[Missing, ...]
    """The agents that have reported and have not got every stop yet, the one with the newest event first. Their next call is
    denied if it reaches the fleet; while it cannot, their failure policy decides."""
    kept: tuple[AgentOnHost, ...]
    """Agents that still keep a stop that was lifted, for an outage. Their next call that reaches the fleet lifts it there."""
    evaluator: bool
    """Whether an evaluator is alive. Without one only gateways and the hosts that keep a stop deny by it."""


async def read_reached(connections: Connections, keys: Keys) -> ReachedAgents:
    """The stops in force with the agents that they have not reached, and those that still keep a lifted one.

    Raises Unreachable.
    """
    in_force = Enforcement(connections, keys)
    await in_force.refresh()
    with connections.lease() as connection:
        rows, alive = await connection.exchange([("HGETALL", keys("reached")), ("EXISTS", keys("alive", "evaluator"))])
    kept = {
        _place(name): set(stops.decode("ascii", "replace").split())
        for name, stops in flat(checked(rows, "reading which hosts a stop has reached")).items()
    }
    last: dict[AgentOnHost, int] = {}
    for report in await read_reports(connections, keys) if in_force.stops else ():
        place = AgentOnHost(host=report.host, source=report.agent)
        last[place] = max(report.last, last.get(place, 0))
    names = set(in_force.names)
    missing = [
        Missing(host=place.host, source=place.source, last=at)
        for place, at in last.items()
        if not names <= kept.get(place, set()) and in_force.flag(place.host, place.source)
    ]
    return ReachedAgents(
        stops=tuple(shown_stop(stop) for stop, _ in in_force.stops),
        not_reached=tuple(sorted(missing, key=lambda one: (-one.last, one.host, one.source))),
        kept=tuple(sorted(place for place, stops in kept.items() if not stops <= names)),
        evaluator=bool(checked(alive, "looking for an evaluator")),
    )


def _place(name: bytes) -> AgentOnHost:
    host, _, source = name.decode("utf-8", "replace").partition("\n")
    return AgentOnHost(host=host, source=source)
