"""Where the hooks of an event run: here, or (those that only its own machine has) on that machine (X-02)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from bus.chain import Elsewhere, evaluate
from bus.connections import Links
from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.hosts import Hosts
from bus.ids import host_name
from bus.keys import Keys
from bus.runners import Outcome
from bus.verdicts import Part, Policy, Verdict, bus_policy, fallback_decision, strictest
from workers.clock import ServerClock

_LEAST_SECONDS: Final = 2.0
"""A host is asked for at least so long where slow hooks of the fleet have used the budget up."""


class Placement:
    """Splits the hooks of an event of another machine, and asks that machine for its part."""

    def __init__(self, links: Links, keys: Keys) -> None:
        self._hosts, self._own = Hosts(links, keys), host_name()

    def is_remote(self, event: Event) -> bool:
        """Whether the event happened on another machine."""
        return event.host not in {"", self._own}

    async def needs_host(self, event: Event, hooks: Sequence[Hook]) -> bool:
        """Whether that machine has to be asked: it has a worker of its own, or a hook has to run there."""
        return self.is_remote(event) and (
            any(hook.on_host for hook in hooks) or await self._hosts.alive(event.host)
        )  # fmt: skip

    async def elsewhere(
        self, event: Event, hooks: Sequence[Hook], policy: Policy, deadline: int, latest: int, clock: ServerClock
    ) -> Elsewhere | None:  # fmt: skip
        """How the part of `hooks` that is not ours to run is answered; None where there is none.

        It is waited for until `deadline`, and until `latest` while slow hooks run there (by the server's clock).
        """
        if not await self.needs_host(event, hooks):
            return None
        return partial(self._ask, [hook for hook in hooks if hook.on_host], policy, deadline, latest, clock)

    async def _ask(
        self, there: Sequence[Hook], policy: Policy, deadline: int, latest: int, clock: ServerClock, event: Event,
        seconds: float, changes: Mapping[str, Any],
    ) -> Verdict:  # fmt: skip
        try:
            alive = await self._hosts.alive(event.host)
            if latest > deadline:  # `seconds` are all that may be had; without slow hooks there, the budget's
                seconds = min(seconds, max(_LEAST_SECONDS, (deadline - clock.now()) / 1000))
            said = await self._hosts.ask(event, changes, policy, deadline, latest, seconds) if alive else None
        except FleethookError:
            alive, said = True, None
        return said if said is not None else await _unanswered(event, there, policy, alive=alive)


async def _unanswered(event: Event, there: Sequence[Hook], policy: Policy, *, alive: bool) -> Verdict:
    """What is said for a host that did not answer: each hook's own failure policy, and the bus's for what it has of its own.

    A host without any worker may have no files of its own at all: then only the hooks that we know of have failed.
    """
    why = (
        f"host {event.host!r} did not answer in time" if alive else f"no `fleethook worker host` runs on {event.host!r}"
    )

    async def missing(hook: Hook, _event: Event, _seconds: float) -> Outcome:
        return Outcome(failure=f"hook {hook.id!r} ({hook.origin}) has to run there, but {why}")

    verdict = await evaluate(event, there, missing, seconds=1.0, policy=policy)
    if not alive:
        return verdict
    decision = fallback_decision(bus_policy(policy, event.type))
    reason = f"{why}, so its user's and projects' hooks were not asked; the failure policy is {policy}"
    part = Part(hook=f"host:{event.host}", decision=decision, layer="user", fallback=why, reason=reason)
    return msgspec.structs.replace(
        verdict, parts=(*verdict.parts, part), notes=(*verdict.notes, reason),
        decision=strictest(verdict.decision, decision), reason=verdict.reason or (reason if decision != "abstain" else ""),
    )  # fmt: skip
