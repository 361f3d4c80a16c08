"""What an idle worker looks at: commands whose replies show, if they are not as before, that there is something to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from bus.wire.connections import Command
from bus.wire.consumer import Consumer
from bus.wire.keys import IDLE_BEAT_MS, Keys
from bus.wire.streams import ScriptCall, flat


def work() -> object:
    """What a look has found that calls for work each time that it is found: it equals nothing that was found before.

    It is a new object each time. Lists take one object for equal to itself without asking it, whatever its `__eq__` says.
    """
    return object()


class Look(NamedTuple):
    """One command, and what of its reply counts. An error reply calls for work: the worker's own commands report it."""

    command: Command
    counts: Callable[[Any], Any] | None = None

    def found(self, reply: Any) -> Any:
        """What is compared with what was found before."""
        if isinstance(reply, Exception):
            return work()
        return reply if self.counts is None else self.counts(reply)


def work_if(found: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Count a reply as work to do each time that `found` is true for it."""
    return lambda reply: work() if found(reply) else None


class Members:
    """Looks at the members of a consumer's groups: whether there are others than before, whether all are alive, and whether
    the server has handed out entries to this one that never arrived."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._others: dict[str, frozenset[str]] = {}

    def looks(self) -> list[Look]:
        """One look for each stream, and one at the heartbeats of the members that were found before."""
        made = self._consumer
        looks = [
            Look(("XINFO", "CONSUMERS", stream, made.group), partial(self._note, stream)) for stream in made.streams
        ]
        beats = sorted({made.keys("beat", name) for names in self._others.values() for name in names})
        if beats:
            looks.append(Look(("EXISTS", *beats), work_if(lambda alive: alive != len(beats))))
        return looks

    def _note(self, stream: str, rows: Any) -> Any:
        pending = {(found := flat(row))[b"name"].decode(): int(found[b"pending"]) for row in rows}
        if pending.pop(
            self._consumer.name, 0
        ):  # who waits has nothing in work: a reply with entries was lost on its way
            self._consumer.must_recheck_pending = True
            return work()
        self._others[stream] = frozenset(pending)
        return self._others[stream]


def dispatcher_looks(keys: Keys, name: str, streams: Sequence[str]) -> list[Look]:
    """What the dispatcher `name` does beside events: its lease, the published set, deliveries, what is due, and jobs."""
    lease = ScriptCall("lease", (keys("alive", "dispatcher"),), (name, IDLE_BEAT_MS))
    return [
        Look(lease.command(), work_if(lambda held: held != 1)),
        Look(("GET", keys("hookset", "current"))),
        *(Look(("XLEN", stream), work_if(bool)) for stream in streams),
        Look(("ZRANGE", keys("due"), 0, 0, "WITHSCORES")),
        Look(("ZRANGE", keys("openings"), 0, 0, "WITHSCORES")),
        Look(("ZCARD", keys("jobs:open")), work_if(bool)),
    ]


def verdict_looks(keys: Keys) -> list[Look]:
    """What an evaluator's next verdict depends on: the published set, texts and messages for sessions, and held questions."""
    return [
        Look(("GET", keys("hookset", "current"))),
        Look(("ZRANGE", keys("later"), 0, -1)),
        Look(("ZRANGE", keys("mail"), 0, -1)),
        Look(("ZCARD", keys("questions"))),
        Look(("XLEN", keys("decided"))),
    ]
