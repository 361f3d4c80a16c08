"""The health of endpoints: active, paused, disabled, breaker open, or only failing.

`deliveries.endpoint_target` returns an endpoint's `target`. Times are in milliseconds since 1970 by the server's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from bus.secrets.redaction import redact_text
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat

Standing = Literal["active", "open", "paused", "disabled"]
"""`open`: its breaker is open, so only probes are sent."""

Circuit = Literal["closed", "open", "half-open"]
"""`half-open`: a probe is under way."""

HEALTH_KEYS: Final = ("breaker", "halted", "failing")
"""An endpoint has one of these keys only if it is not healthy, or not enabled."""

_GLOB: Final = "".join(f"[{''.join(sorted(set(letters)))}]" for letters in zip(*HEALTH_KEYS, strict=False)) + "*"
"""One scan finds the three kinds of keys; other keys that match this pattern are skipped."""

_SCAN_ROUNDS: Final = 400
_SCAN_COUNT: Final = 5_000
"""Two million keys are scanned. On a server with more, the list holds only the endpoints in force here."""

_PAGE: Final = 500


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """An open breaker."""

    target: str
    since: int
    interval: int
    """Milliseconds between probes at present."""
    next: int
    """When the next probe is due."""
    probe: str = ""
    """The delivery whose attempt is the probe under way."""
    reason: str = ""
    """Why the last attempt failed."""
    parked: int = 0
    """Deliveries that wait."""


class Failing(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of an endpoint since its last success."""

    since: int
    last: int
    count: int
    reason: str = ""
    percent: int = 0
    """The last warning: 50, 70, 90 or 100 % of the time after which it is disabled; 0 before the first warning."""


class EndpointHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one endpoint."""

    target: str
    standing: Standing = "active"
    reason: str = ""
    """Why it is paused, disabled or open."""
    by: str = ""
    """Who paused or disabled it: a person's name, `receiver` (410) or `failing`."""
    at: int = 0
    """Since when it is paused, disabled or open; 0 for an active one."""
    missed: int = 0
    """How many events made no delivery to it while it was disabled."""
    parked: int = 0
    """Deliveries that wait: it is paused, over its cap or rate, or its breaker is open."""
    breaker: Breaker | None = None
    failing: Failing | None = None

    @property
    def endpoint(self) -> str:
        """Its id, followed by `@` and a host if it is in a file of that host."""
        return self.target.removeprefix("endpoint:")

    @property
    def circuit(self) -> Circuit:
        """The state of its breaker."""
        if self.breaker is None:
            return "closed"
        return "half-open" if self.breaker.probe else "open"

    @property
    def next_probe(self) -> int:
        """When the next probe is due; 0 if none is needed or one is under way."""
        return self.breaker.next if self.breaker is not None and not self.breaker.probe else 0

    @property
    def explanation(self) -> str:
        """Why it is not healthy; empty if it is."""
        return self.reason or (self.failing.reason if self.failing is not None else "")

    @property
    def healthy(self) -> bool:
        """Whether it is active and its last attempt succeeded; deliveries over its cap or rate may wait."""
        return self.standing == "active" and self.circuit == "closed" and not (self.failing and self.failing.count)


def health_record(health: EndpointHealth) -> dict[str, Any]:
    """The health of an endpoint for `status --json`; a field that does not apply is 0 or empty."""
    failing = health.failing or Failing(since=0, last=0, count=0)
    return {
        "endpoint": health.endpoint,
        "target": health.target,
        "standing": health.standing,
        "breaker": health.circuit,
        "since": health.at,
        "next_probe": health.next_probe,
        "reason": health.explanation,
        "by": health.by,
        "parked": health.parked,
        "missed": health.missed,
        "failures": failing.count,
        "failing_since": failing.since,
        "percent": failing.percent,
    }


async def list_health(connections: Connections, keys: Keys, known: Iterable[str]) -> list[EndpointHealth]:
    """The health of the targets in `known`, and of all other hosts' endpoints that are not healthy, by target.

    `known` holds every endpoint of the fleet's hook set; other endpoints of the fleet have been removed and are left out.
    """
    others = {target for target in await _scan_targets(connections, keys) if "@" in target}
    targets = sorted({*known, *others})
    found: dict[str, EndpointHealth] = {}
    for start in range(0, len(targets), _PAGE):
        found |= await read_health(connections, keys, targets[start : start + _PAGE])
    return list(found.values())


async def read_health(connections: Connections, keys: Keys, targets: Sequence[str]) -> dict[str, EndpointHealth]:
    """The health of each of these targets."""
    if not targets:
        return {}
    commands: list[tuple[str, str]] = []
    for target in targets:
        commands += [("HGETALL", keys(name, target)) for name in HEALTH_KEYS] + [("LLEN", keys("parked", target))]
    with connections.lease() as connection:
        replies = [checked(reply, "reading an endpoint's health") for reply in await connection.exchange(commands)]
    size = len(HEALTH_KEYS) + 1
    return {target: _health(target, *replies[n * size : (n + 1) * size]) for n, target in enumerate(targets)}


def _health(
    target: str, breaker_reply: object, halted_reply: object, failing_reply: object, parked: Any
) -> EndpointHealth:
    breaker = _breaker(target, _texts(breaker_reply), int(parked))
    halted = _texts(halted_reply)
    standing: Standing = "active"
    reason, at = "", 0
    if halted.get("state") == "paused":
        standing = "paused"
    elif halted.get("state") == "disabled":
        standing = "disabled"
    elif breaker is not None:
        standing, reason, at = "open", breaker.reason, breaker.since
    return EndpointHealth(
        target=target,
        standing=standing,
        reason=redact_text(halted.get("reason", reason)),
        by=halted.get("by", ""),
        at=int(halted.get("at", at)),
        missed=int(halted.get("missed", 0)),
        parked=int(parked),
        breaker=breaker,
        failing=_failing(_texts(failing_reply)),
    )


def _breaker(target: str, fields: dict[str, str], parked: int) -> Breaker | None:
    if "next" not in fields:
        return None
    return Breaker(
        target=target,
        since=int(fields.get("since", 0)),
        interval=int(fields.get("interval", 0)),
        next=int(fields["next"]),
        probe=fields.get("probe", ""),
        reason=redact_text(fields.get("reason", "")),
        parked=parked,
    )


def _failing(fields: dict[str, str]) -> Failing | None:
    if "since" not in fields:
        return None
    return Failing(
        since=int(fields["since"]),
        last=int(fields.get("last", 0)),
        count=int(fields.get("count", 0)),
        reason=redact_text(fields.get("reason", "")),
        percent=int(fields.get("said", 0)),
    )


def _texts(reply: Any) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in flat(reply).items()}


async def _scan_targets(connections: Connections, keys: Keys) -> set[str]:
    """The targets that have one of `HEALTH_KEYS`, as many as the bounded scan finds."""
    cursor, targets = b"0", set[str]()
    with connections.lease() as connection:
        for _ in range(_SCAN_ROUNDS):
            (reply,) = await connection.exchange([("SCAN", cursor, "MATCH", keys(_GLOB), "COUNT", _SCAN_COUNT)])
            cursor, page = checked(reply, "looking for endpoints that fail")
            for key in page:
                name, _, target = key.decode("utf-8", "replace").removeprefix(keys.prefix).partition(":")
                if name in HEALTH_KEYS and target:
                    targets.add(target)
            if cursor == b"0":
                break
    return targets
