"""Which deliveries and dead letters are meant: filters as people give them, and everything that passes, oldest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from bus.events import Event
from bus.hooks import Hook
from bus.matching.patterns import Index
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat
from workers.delivery.dead_letters import DeadLetter, read_letter
from workers.delivery.deliveries import Delivery, read_delivery

_PAGE: Final = 200

Place = tuple[float, str]
"""Where a walk is in a sorted set: the last member that was looked at, after its score."""

START: Final[Place] = (0.0, "")


class Wanted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which ones are wanted; what is empty lets everything through. Times are milliseconds since 1970."""

    ids: tuple[str, ...] = ()
    endpoint: str = ""
    """The id of the endpoint or hook."""
    target: str = ""
    """What the target contains."""
    event: str = ""
    """The event's id, or how it begins."""
    types: tuple[str, ...] = ()
    """Patterns of event types, as a hook's `on` has them."""
    session: str = ""
    """The session's id, or how it begins."""
    states: tuple[str, ...] = ()
    status: str = ""
    """Of the last attempt: `503`, or `5xx`."""
    reason: str = ""
    """What the reason contains, whatever the case."""
    since: int = 0
    """Made (a delivery) or died (a dead letter) at this time or later."""
    until: int = 0

    def empty(self) -> bool:
        """Whether everything is wanted."""
        return self == Wanted()


def fits(wanted: Wanted) -> Callable[[Delivery], bool]:
    """A test for deliveries; the times are the walk's."""
    ids, states, reason = frozenset(wanted.ids), frozenset(wanted.states), wanted.reason.lower()
    about = _about(wanted)

    def test(one: Delivery) -> bool:
        return (
            (not ids or one.id in ids)
            and wanted.endpoint in {"", one.hook}
            and wanted.target in one.target
            and one.event.startswith(wanted.event)
            and about(one)
            and (not states or one.state in states)
            and (not reason or reason in one.reason.lower())
            and (not wanted.status or _has_status(one, wanted.status.lower()))
        )

    return test


def letter_fits(wanted: Wanted) -> Callable[[DeadLetter], bool]:
    """A test for dead letters; the times are the walk's."""
    ids, reason = frozenset(wanted.ids), wanted.reason.lower()
    about = _about(wanted)

    def test(one: DeadLetter) -> bool:
        return (
            (not ids or one.id in ids)
            and wanted.endpoint in {"", one.hook}
            and wanted.target in one.target
            and one.event.startswith(wanted.event)
            and about(one)
            and (not reason or reason in one.reason.lower())
        )

    return test


def _about(wanted: Wanted) -> Callable[[Delivery | DeadLetter], bool]:
    """A test of the event's type and session; raises PatternError."""
    index = Index([(Hook(id="filter", on=wanted.types), wanted.types)]) if wanted.types else None

    def test(one: Delivery | DeadLetter) -> bool:
        return one.session.startswith(wanted.session) and (
            index is None or bool(one.type and index.find(Event(type=one.type, tool=one.tool)))
        )

    return test


def _has_status(one: Delivery, status: str) -> bool:
    last = str(one.log[-1].status) if one.log and one.log[-1].status else ""
    return last == status or (status.endswith("xx") and len(last) == 3 and last[0] == status[0])


async def walk(
    connections: Connections, keys: Keys, name: str, wanted: Wanted, after: Place = START
) -> AsyncIterator[tuple[Place, list[str]]]:
    """The ids in `recent` or `dead` within the times of `wanted`, a page at a time, and where the walk is after it.

    Members that leave the set meanwhile disturb nothing, so a page may be removed before the next is asked for.
    """
    score, last = after
    while True:
        offset = 0
        fresh: list[Place] = []
        low = max(score, float(wanted.since)) or "-inf"
        while not fresh:
            asked = ("ZRANGEBYSCORE", keys(name), low, wanted.until or "+inf", "WITHSCORES", "LIMIT", offset, _PAGE)
            with connections.lease() as connection:
                (reply,) = await connection.exchange([asked])
            flat_rows = checked(reply, f"looking through {name}")
            rows = [(float(at), member.decode()) for member, at in zip(flat_rows[::2], flat_rows[1::2], strict=True)]
            if not rows:
                return
            fresh = [row for row in rows if row > (score, last)]
            offset += len(rows)
        score, last = fresh[-1]
        yield (score, last), [member for _, member in fresh]


async def read_deliveries(connections: Connections, keys: Keys, ids: Sequence[str]) -> list[Delivery]:
    """Those of these deliveries that are kept."""
    with connections.lease() as connection:
        replies = await connection.exchange([("HGETALL", keys("delivery", name)) for name in ids]) if ids else []
    found = [(name, flat(checked(reply, "reading a delivery"))) for name, reply in zip(ids, replies, strict=True)]
    return [read_delivery(name, fields) for name, fields in found if fields]


async def read_letters(connections: Connections, keys: Keys, ids: Sequence[str]) -> list[DeadLetter]:
    """Those of these dead letters that still are."""
    asked: list[tuple[str, ...]] = []
    for name in ids:
        asked += [("ZSCORE", keys("dead"), name), ("HGETALL", keys("delivery" if "." in name else "deadletter", name))]
    with connections.lease() as connection:
        replies = await connection.exchange(asked) if asked else []
    found = []
    for name, score, fields in zip(ids, replies[::2], replies[1::2], strict=True):
        if checked(score, "looking for a dead letter") is not None:
            letter = read_letter(name, int(float(score)), flat(checked(fields, "reading a dead letter")))
            found += [letter] if letter is not None else []
    return found


async def chosen_deliveries(connections: Connections, keys: Keys, wanted: Wanted) -> AsyncIterator[Delivery]:
    """Every delivery that is wanted, oldest first."""
    test = fits(wanted)
    if wanted.ids:
        for one in await read_deliveries(connections, keys, wanted.ids):
            if test(one):
                yield one
        return
    async for _, ids in walk(connections, keys, "recent", wanted):
        for one in await read_deliveries(connections, keys, ids):
            if test(one):
                yield one


async def chosen_letters(connections: Connections, keys: Keys, wanted: Wanted) -> AsyncIterator[DeadLetter]:
    """Every dead letter that is wanted, oldest first."""
    test = letter_fits(wanted)
    if wanted.ids:
        for one in await read_letters(connections, keys, wanted.ids):
            if test(one):
                yield one
        return
    async for _, ids in walk(connections, keys, "dead", wanted):
        for one in await read_letters(connections, keys, ids):
            if test(one):
                yield one
