"""Refuses hooks that trigger themselves, directly or through others; FLEETHOOK_PARENT shows the chain (F-12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bus.chain import Run
from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import call

MOST_STEPS: Final = 16
"""How many parents are followed."""

Chain = Sequence[tuple[str, frozenset[str]]]
"""The ancestors of an event, nearest first, each with the hooks that ran for it when the event was added."""


async def lineage(connections: Connections, keys: Keys, event: Event) -> Chain:
    """The ancestors of `event`; empty if it names no parent or an unknown one."""
    if not event.parent:
        return []
    args = (keys("lineage", ""), MOST_STEPS, event.time)
    return read_lineage(await call(connections, "lineage", (keys("lineage", event.parent),), args))


def read_lineage(chain: Sequence[Any]) -> Chain:
    """The chain from the script's flat list."""
    found, index = [], 0
    while index < len(chain):
        count = int(chain[index + 1])
        hooks = frozenset(name.decode() for name in chain[index + 2 : index + 2 + count])
        found.append((chain[index].decode(), hooks))
        index += 2 + count
    return found


def without_loops(run: Run, event: Event, chain: Chain) -> Run:
    """`run`, except that a hook which already runs for an ancestor is refused, with the chain in a note (F-12)."""
    if not chain:
        return run

    async def guarded(hook: Hook, seen: Event, seconds: float) -> Outcome:
        if hook.kind != "rule" and is_loop(hook.id, chain):
            return Outcome(note=loop_text(hook.id, event, chain))
        return await run(hook, seen, seconds)

    return guarded


def is_loop(hook: str, chain: Chain) -> bool:
    """Whether a hook already runs for an ancestor, or the chain is too long to know."""
    return len(chain) >= MOST_STEPS or any(hook in hooks for _, hooks in chain)


def loop_text(hook: str, event: Event, chain: Chain) -> str:
    """The message for a refused loop: the chain of events and hooks, oldest first."""
    steps = " -> ".join(f"{name} ({', '.join(sorted(hooks))})" for name, hooks in reversed(chain))
    return f"hook {hook!r} was not run: it triggered itself through {steps} -> {event.id}"
