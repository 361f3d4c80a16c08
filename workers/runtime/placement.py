"""Decides where the hooks of an event run: here, or on the event's machine for the hooks that only it has (X-02)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bus.chain import AskHost, Evaluation, evaluate
from bus.errors import FleethookError
from bus.event_folder import EventFolder
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.host_hooks import KnownRecords
from bus.host_requests import Hosts, HostState
from bus.ids import host_name
from bus.outcomes import Outcome
from bus.verdicts import Part, Policy, Verdict, bus_policy, failed, fallback_decision, strictest
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.runtime.clock import ServerClock

_LEAST_SECONDS: Final = 2.0
"""We wait for a host at least this long, even if slow hooks of the fleet have used up the budget."""


class Placement:
    """Asks the machine of an event for the verdict of the hooks that only it has."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._hosts, self._this_host = Hosts(connections, keys), host_name()
        self._recorded = KnownRecords()

    def is_remote(self, event: Event) -> bool:
        """Whether the event happened on another machine."""
        return event.host not in {"", self._this_host}

    async def needs_host(self, event: Event, hooks: Sequence[Hook], folder: EventFolder) -> bool:
        """Whether the event's machine has to be asked: its host worker is alive, or a hook has to run there."""
        if not self.is_remote(event):
            return False
        if any(hook.on_host for hook in hooks):
            return True
        state = await self._hosts.state(event.host)
        return state.alive or bool(self._recorded_hooks(state, event, folder))

    async def host_part(
        self,
        event: Event,
        hooks: Sequence[Hook],
        folder: EventFolder,
        policy: Policy,
        deadline: int,
        latest: int,
        clock: ServerClock,
    ) -> AskHost | None:
        """A function that asks the event's machine for its verdict; None if it need not be asked.

        It waits until `deadline`, or until `latest` while slow hooks run there (times by the server's clock).
        """
        if not await self.needs_host(event, hooks, folder):
            return None
        return partial(self._ask, [hook for hook in hooks if hook.on_host], folder, policy, deadline, latest, clock)

    async def host_rules(self, event: Event, policy: Policy) -> AskHost | None:
        """A function that asks the event's machine what its rules say, without its other hooks; None if no worker is there."""
        return partial(self._ask_rules, policy) if (await self._hosts.state(event.host)).alive else None

    async def _ask_rules(self, policy: Policy, event: Event, _seconds: float, changes: Mapping[str, Any]) -> Verdict:
        try:
            answer = await self._hosts.ask_rules(event, changes, policy, _LEAST_SECONDS)
        except FleethookError:
            answer = None
        why = f"host {event.host!r} did not answer in time"
        return answer or failed(bus_policy(policy, event.type), why, event=event.id)

    async def _ask(
        self,
        fleet_hooks: Sequence[Hook],
        folder: EventFolder,
        policy: Policy,
        deadline: int,
        latest: int,
        clock: ServerClock,
        event: Event,
        seconds: float,
        changes: Mapping[str, Any],
    ) -> Verdict:
        state: HostState | None = None
        try:
            state = await self._hosts.state(event.host)
            # `seconds` includes time for slow hooks; without slow hooks there, the budget is the limit.
            if latest > deadline:
                seconds = min(seconds, max(_LEAST_SECONDS, (deadline - clock.now()) / 1000))
            answer = await self._hosts.ask(event, changes, policy, deadline, latest, seconds) if state.alive else None
            state = await self._hosts.state(event.host) if answer is None else state  # its worker may have ended
        except FleethookError:
            answer = None
        if answer is not None:
            return answer
        host_hooks = [] if state is None else self._recorded_hooks(state, event, folder)
        unknown = state is None or (state.alive and not state.records)
        alive = state is None or state.alive
        return await _unanswered(event, fleet_hooks, host_hooks, policy, alive=alive, unknown=unknown)

    def _recorded_hooks(self, state: HostState, event: Event, folder: EventFolder) -> list[Hook]:
        """One hook for each group of hooks that only that machine has and that fit the event."""
        recorded = self._recorded.read(state.records)
        return [] if recorded is None else recorded.fitting(event, folder)


async def _unanswered(
    event: Event, fleet_hooks: Sequence[Hook], host_hooks: Sequence[Hook], policy: Policy, *, alive: bool, unknown: bool
) -> Verdict:
    """The verdict for a host that did not answer: the failure policy of each hook that should have run there.

    `fleet_hooks` are hooks of the fleet that run there, `host_hooks` those that only the host has. If these are `unknown`,
    the bus's policy answers for them. A host without a worker and without recorded hooks has none.
    """
    why = (
        f"host {event.host!r} did not answer in time" if alive else f"no `fleethook worker host` runs on {event.host!r}"
    )

    async def missing(hook: Hook, _event: Event, _seconds: float) -> Outcome:
        more = f" {hook.description}" if hook in host_hooks and hook.description else ""
        return Outcome(failure=f"hook {hook.id!r}{more} ({hook.origin}) has to run there, but {why}")

    verdict = await evaluate(
        Evaluation(event=event, hooks=[*fleet_hooks, *host_hooks], run=missing, seconds=1.0, policy=policy)
    )
    if not unknown:
        return verdict
    decision = fallback_decision(bus_policy(policy, event.type))
    reason = f"{why}, so its user's and projects' hooks were not asked; the failure policy is {policy}"
    part = Part(hook=f"host:{event.host}", decision=decision, layer="user", fallback=why, reason=reason)
    return msgspec.structs.replace(
        verdict,
        parts=(*verdict.parts, part),
        notes=(*verdict.notes, reason),
        decision=strictest(verdict.decision, decision),
        reason=verdict.reason or (reason if decision != "abstain" else ""),
    )
