"""Finds all deliveries and dead letters that pass a filter, oldest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, flat
from workers.delivery.dead_letters import DeadLetter, read_letter
from workers.delivery.deliveries import Delivery, read_delivery
from workers.delivery.filters import Filter, delivery_test, letter_test

T = TypeVar("T")

_PAGE: Final = 200

Position = tuple[float, str]
"""The position of a walk through a sorted set: the score and the name of the last member that it returned."""

START: Final[Position] = (0.0, "")


async def walk(
    connections: Connections, keys: Keys, name: str, wanted: Filter, after: Position = START
) -> AsyncIterator[tuple[Position, list[str]]]:
    """The ids in `recent` or `dead` within the times of the filter, a page at a time, each with the position after it.

    A page may be removed from the set before the next one is read.
    """
    score, last = after
    while True:
        offset = 0
        fresh: list[Position] = []
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
    """The deliveries with these ids, without those that are no longer kept."""
    with connections.lease() as connection:
        replies = await connection.exchange([("HGETALL", keys("delivery", name)) for name in ids]) if ids else []
    found = [(name, flat(checked(reply, "reading a delivery"))) for name, reply in zip(ids, replies, strict=True)]
    return [read_delivery(name, fields) for name, fields in found if fields]


async def read_letters(connections: Connections, keys: Keys, ids: Sequence[str]) -> list[DeadLetter]:
    """The dead letters with these ids, without those that are dead letters no more."""
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


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one reason."""

    reason: str
    count: int
    oldest: int
    """When the first of them was given up, in milliseconds since 1970."""
    newest: int
    targets: tuple[str, ...]


def letters_by_reason(letters: Iterable[DeadLetter]) -> list[LetterGroup]:
    """The dead letters by their reasons, the most frequent first."""
    by_reason: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        by_reason.setdefault(letter.reason, []).append(letter)
    return [
        LetterGroup(
            reason=reason,
            count=len(found),
            oldest=min(letter.ms for letter in found),
            newest=max(letter.ms for letter in found),
            targets=tuple(sorted({letter.target for letter in found if letter.target})),
        )
        for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]


def filtered_deliveries(connections: Connections, keys: Keys, wanted: Filter) -> AsyncIterator[Delivery]:
    """Every delivery that passes the filter, oldest first."""
    return _filtered(connections, keys, wanted, "recent", read_deliveries, delivery_test(wanted))


def filtered_letters(connections: Connections, keys: Keys, wanted: Filter) -> AsyncIterator[DeadLetter]:
    """Every dead letter that passes the filter, oldest first."""
    return _filtered(connections, keys, wanted, "dead", read_letters, letter_test(wanted))


async def _filtered(
    connections: Connections,
    keys: Keys,
    wanted: Filter,
    index: str,
    read: Callable[[Connections, Keys, Sequence[str]], Awaitable[list[T]]],
    test: Callable[[T], bool],
) -> AsyncIterator[T]:
    """The items that pass the test: of the filter's ids if it has any, else of the whole index."""
    if wanted.ids:
        for item in filter(test, await read(connections, keys, wanted.ids)):
            yield item
        return
    async for _, ids in walk(connections, keys, index, wanted):
        for item in filter(test, await read(connections, keys, ids)):
            yield item
