"""How every endpoint stands: those in force here, and whichever else of the fleet is not plain healthy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.delivery.endpoint_state import Health, Standing, read_health

Circuit = Literal["closed", "open", "half-open"]
"""`half-open`: a probe is under way."""

MARKS: Final = ("breaker", "halted", "failing")
"""The keys that only an endpoint has with which something is wrong, or was meant to be."""

_GLOB: Final = "".join(f"[{''.join(sorted(set(letters)))}]" for letters in zip(*MARKS, strict=False)) + "*"
"""One walk through the keys finds all three; what else it lets through is put aside here."""

_ROUNDS: Final = 400
_COUNT: Final = 5_000
"""Two million keys are looked through; with more, only what is in force here is known."""

_PAGE: Final = 500


class EndpointState(msgspec.Struct, frozen=True, kw_only=True):
    """How one endpoint stands; times in milliseconds since 1970, 0 where there is none."""

    endpoint: str
    """Its id; behind an @ stands the host whose own file names it."""
    target: str
    standing: Standing
    breaker: Circuit
    since: int = 0
    """Since when it is paused, disabled, or its breaker open."""
    next_probe: int = 0
    reason: str = ""
    by: str = ""
    parked: int = 0
    missed: int = 0
    """Events that a disabled one was not owed."""
    failures: int = 0
    """How often it has failed since it answered last."""
    failing_since: int = 0
    percent: int = 0
    """Of the time after which an endpoint that does nothing but fail is disabled, as it was last said."""

    @property
    def healthy(self) -> bool:
        """Whether there is nothing to be said of it; work over its cap or rate may wait."""
        return self.standing == "active" and self.breaker == "closed" and not self.failures


async def endpoint_states(connections: Connections, keys: Keys, known: Iterable[str]) -> list[EndpointState]:
    """The state of these targets and of all others that something is wrong with, by target.

    `known` holds every endpoint of the fleet's set: what else there is of the fleet has been taken out of it.
    """
    here = set(known)
    targets = sorted(here | {one for one in await _marked(connections, keys) if "@" in one})
    found: dict[str, Health] = {}
    for start in range(0, len(targets), _PAGE):
        found |= await read_health(connections, keys, targets[start : start + _PAGE])
    return [state_of(one) for one in found.values()]


def state_of(one: Health) -> EndpointState:
    """What is said of an endpoint's health, in one record."""
    breaker, failing = one.breaker, one.failing
    circuit: Circuit = "closed" if breaker is None else "half-open" if breaker.probe else "open"
    return EndpointState(
        endpoint=one.target.removeprefix("endpoint:"),
        target=one.target,
        standing=one.standing,
        breaker=circuit,
        since=one.at,
        next_probe=0 if breaker is None or breaker.probe else breaker.next,
        by=one.by,
        reason=one.reason or (failing.reason if failing is not None else ""),
        parked=one.parked,
        missed=one.missed,
        failures=failing.count if failing is not None else 0,
        failing_since=failing.since if failing is not None else 0,
        percent=failing.percent if failing is not None else 0,
    )


async def _marked(connections: Connections, keys: Keys) -> set[str]:
    """The targets that have a key of `MARKS`, as many as the bounded walk finds."""
    cursor, names = b"0", set[str]()
    with connections.lease() as connection:
        for _ in range(_ROUNDS):
            (reply,) = await connection.exchange([("SCAN", cursor, "MATCH", keys(_GLOB), "COUNT", _COUNT)])
            cursor, page = checked(reply, "looking for endpoints that fail")
            for name in page:
                mark, _, target = name.decode("utf-8", "replace").removeprefix(keys.prefix).partition(":")
                if mark in MARKS and target:
                    names.add(target)
            if cursor == b"0":
                break
    return names
