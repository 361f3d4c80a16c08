"""What limits, facts and workflows know of a session now, for an event that is only tried out."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bus.events import Event
from bus.hooksets.in_force import HookSet
from bus.memory.replayed import remembers
from bus.verdicts import Policy
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from workers.admin.workflows.dry import DryWorkflows
from workers.delivery.deliveries import now_ms
from workers.memory.looked_up import LookedUpMemory
from workers.simulation.simulate import Simulation, simulate


class Present(NamedTuple):
    """An event as one of now, and what is known of its session."""

    event: Event
    workflows: DryWorkflows
    known: LookedUpMemory | None
    """None where no hook asks for limits or facts."""


async def present(connections: Connections, keys: Keys, event: Event, hooks: HookSet, *, user: str) -> Present:
    """What is known of the event's session; `user` is the account that its agent would run as. Raises Unreachable."""
    from workers.workflows.store import FlowStore

    flows = DryWorkflows()
    store = FlowStore(connections, keys, "fleethook")
    for hook in hooks.hooks.values():
        if hook.workflow is not None and event.session:
            found = await store.read(hook, event, again=True)
            flows.know(hook.id, event, found.state, found.shared)
    if not any(map(remembers, hooks.hooks.values())):
        return Present(event, flows, None)
    return Present(msgspec.structs.replace(event, time=now_ms()), flows, LookedUpMemory(connections, keys, user))


async def simulate_now(
    connections: Connections,
    keys: Keys,
    event: Event,
    hooks: HookSet,
    *,
    user: str,
    run: bool,
    seconds: float,
    policy: Policy,
) -> Simulation:
    """The simulation with the limits, facts and workflows of the event's session as they are now; raises Unreachable."""
    now = await present(connections, keys, event, hooks, user=user)
    return await simulate(
        now.event, hooks, run=run, seconds=seconds, policy=policy, workflows=now.workflows, known=now.known
    )
