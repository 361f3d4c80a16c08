"""The stops in force for one process that answers agents: which of them fits an event, and the verdict that it gives."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.agents import find
from bus.errors import FleethookError, PatternError, Unreachable
from bus.events import GATES, Event
from bus.matching.scopes import CompiledScope, scope_of
from bus.shim.stop_flag import HEADER
from bus.verdicts import Part, Verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.fleet_control.stops import ActiveStop, read_stops
from workers.waiting.pulses import pulse

log = logging.getLogger("fleethook.stops")

HOOK: Final = "stop"
"""The name under which a stop takes part in a verdict."""

_MOST_FLAGS: Final = 1_000
_FRESH_SECONDS: Final = 0.1
_INSTEAD: Final = (
    "wait. Do not try this call again, nor the same in another way: end your turn and tell the user that the work is stopped. "
    "A person lets it go on"
)


class Enforcement:
    """The stops in force, as this process last read them."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._raw: tuple[bytes, ...] = ()
        self._at = float("-inf")
        self.stops: tuple[tuple[ActiveStop, CompiledScope], ...] = ()
        """Oldest first."""
        self._flags: dict[tuple[str, str], bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of the stops in force."""
        return tuple(stop.id for stop, _ in self.stops)

    def note(self, raw: tuple[bytes, ...]) -> None:
        """Put in force what was read: the ids and stored stops in turn."""
        self._at = time.monotonic()
        if raw != self._raw:
            self.stops = tuple((stop, _scope(stop)) for stop in read_stops(raw[1::2]))
            self._raw = raw
            self._flags.clear()

    async def refresh(self, seconds: float = _FRESH_SECONDS) -> None:
        """Read the stops, unless they were read within so many seconds; raises Unreachable."""
        if time.monotonic() - self._at < seconds:
            return
        with self._connections.lease() as connection:
            (raw,) = await connection.exchange([("HGETALL", self._keys("stops"))])
        self.note(tuple(checked(raw, "reading the stops")))

    async def follow(self) -> None:
        """Read the stops with what else this process asks at this moment; raises Unreachable."""
        (raw,) = await self._connections.together([("HGETALL", self._keys("stops"))])
        self.note(tuple(checked(raw, "reading the stops")))

    async def heard(self, verdict: Verdict) -> Verdict:
        """The verdict; a stop that it names, and that this process has not read yet, is read at once, if Redis is there."""
        if verdict.stop and verdict.stop not in self.names:
            with contextlib.suppress(FleethookError):
                await self.follow()
        return verdict

    async def keep_fresh(self) -> None:
        """Read the stops once a second until cancelled; while Redis is away, those that were read last stay in force."""
        while True:
            try:
                await self.follow()
            except FleethookError as error:
                log.debug("the stops stay as they were read: %s", error)
            await pulse()

    def stop_for(self, event: Event) -> ActiveStop | None:
        """The oldest stop in force for an event: of a prompt, a tool call or a permission question, and of nothing else."""
        if not self.stops or event.type not in GATES:
            return None
        return next((stop for stop, scope in self.stops if scope.fits(event)), None)

    def stop_for_unread(self, event: Event) -> ActiveStop | None:
        """The same for a call whose payload could not be read: only host, agent and type of its event are known."""
        if not self.stops or event.type not in GATES:
            return None
        known = {"host": event.host, "source": event.source, "type": event.type}
        return next((stop for stop, scope in self.stops if scope.of_known(known) is not False), None)

    def flag(self, host: str, source: str) -> bytes:
        """What the hook commands of an agent on a host keep for an outage; empty if no stop can concern them."""
        if not self.stops:
            return b""
        known = self._flags.get((host, source))
        if known is None:
            if len(self._flags) >= _MOST_FLAGS:
                self._flags.clear()
            known = self._flags[host, source] = make_flag(self.stops, host, source)
        return known

    async def over(self, event: Event, verdict: Verdict) -> Verdict | None:
        """The verdict of a stop that may have come while hooks ran; while Redis is away, of those that were read before."""
        if time.monotonic() - self._at >= _FRESH_SECONDS:
            with contextlib.suppress(Unreachable):  # the hooks have run, and their verdict must not be lost
                await self.refresh()
        return self.verdict(event, verdict)

    def verdict(self, event: Event, verdict: Verdict | None = None) -> Verdict | None:
        """The verdict of the stop in force for an event; None without one. `verdict` is what hooks said before it."""
        stop = self.stop_for(event)
        return None if stop is None else stopped(verdict or Verdict(event=event.id), stop)


def make_flag(stops: Sequence[tuple[ActiveStop, CompiledScope]], host: str, source: str) -> bytes:
    """The flag (`bus/shim/stop_flag.py`): for each event that a stop denies, the answer in the agent's own protocol.

    Conditions are resolved as far as host, agent and type of event decide them. What is left goes with the answer, and is
    read for each call by a process of the host.
    """
    dialect, rows = find(source), []
    for native, can in dialect.capabilities.items():
        if can.type not in GATES:
            continue
        known = {"host": host, "source": source, "type": can.type}
        said = [(stop, scope, scope.of_known(known)) for stop, scope in stops]
        sure = next((stop for stop, _, fits in said if fits), None)
        open_ = [(stop, scope) for stop, scope, fits in said if fits is None]
        if sure is None and not open_:
            continue
        answer = dialect.render(native, stopped(Verdict(), sure or open_[0][0]))
        condition = "" if sure else " || ".join(f"({scope.text})" for _, scope in open_)
        words = ["event", native, str(answer.exit_code), answer.stdout.hex(), answer.stderr.hex()]
        rows.append("\t".join([*words, condition.encode().hex()] if condition else words))
    return b"\n".join((HEADER, *(row.encode() for row in rows), b"")) if rows else b""


def stopped(verdict: Verdict, stop: ActiveStop) -> Verdict:
    """The verdict under a stop. It overrides what hooks said; their parts stay in the record."""
    reason = stop_reason(stop)
    part = Part(hook=HOOK, decision="deny", reason=reason, origin=stop.id)
    return msgspec.structs.replace(
        verdict,
        decision="deny",
        reason=reason,
        instead=_INSTEAD,
        updated_input=None,
        permissions=(),
        parts=(*verdict.parts, part),
        fallback="",
        stop=stop.id,
        contexts=() if verdict.messages else verdict.contexts,
        messages=(),  # they wait for an event that is not denied
    )


def stop_reason(stop: ActiveStop) -> str:
    """Why the agent is stopped, for the model and the user."""
    who = "these agents" if stop.where else "all agents"
    why = f": {stop.reason}" if stop.reason else ", and gave no reason"
    return f"{stop.by} has stopped the work of {who}{why}"


def _scope(stop: ActiveStop) -> CompiledScope:
    try:
        return scope_of(stop.where)
    except PatternError:  # written by another version: the stricter reading
        return CompiledScope(None)
