"""The whole id of an event, a delivery, a dead letter or a job, from any beginning of it that only one has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bus.errors import AmbiguousId
from bus.requests import MOST_BUDGET_MS
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.records.events import CLOCK_MS, Say, events_pages, pages

_WHOLE: Final = re.compile(r"e[0-9a-f]{32}")
_TIMED: Final = re.compile(r"e([0-9a-f]{5,12})[0-9a-f]*")
"""From five digits on, the time in an id narrows the search to twelve days or less."""

_MOST_SHOWN: Final = 5
_ENOUGH: Final = 20
"""A search ends here: it is ambiguous."""


async def whole_event_id(connections: Connections, keys: Keys, beginning: str, *, say: Say | None = None) -> str:
    """The id of the one event that begins so; the text itself where none does. Raises AmbiguousId."""
    if not beginning or _WHOLE.fullmatch(beginning):
        return beginning
    found: set[str] = set()
    timed = _TIMED.fullmatch(beginning)
    if timed is not None:
        early, late = int(timed[1].ljust(12, "0"), 16), int(timed[1].ljust(12, "f"), 16)
        around = (str(max(0, early - CLOCK_MS)), str(late + MOST_BUDGET_MS))
        await _in_events(connections, keys, beginning, found, *around)
    for stream in (keys("requests"), keys("waiting")):
        async for entries in pages(connections, stream):
            found.update(
                _matching(beginning, (entry.fields.get(b"id", b"").decode("utf-8", "replace") for entry in entries))
            )
    for ids in (keys("recent"), keys("dead")):
        members = await _members(connections, ids, beginning)
        found.update(name.partition(".")[0] for name in members if "." in name)
    if not found:
        await _in_events(connections, keys, beginning, found, "-", "+", say)
    return _only(beginning, found, "events")


async def whole_delivery_id(connections: Connections, keys: Keys, beginning: str) -> str:
    """The id of the one delivery that begins so; the text itself where none does. Raises AmbiguousId.

    `e019a2.audit` is the beginning of an event's id, a dot, and the beginning of a hook's or endpoint's id.
    """
    return _only(beginning, await _members(connections, keys("recent"), beginning), "deliveries")


async def whole_dead_ids(connections: Connections, keys: Keys, beginnings: Sequence[str]) -> tuple[str, ...]:
    """The ids of the dead letters that begin so, as `whole_delivery_id` gives one."""
    return tuple([_only(one, await _members(connections, keys("dead"), one), "dead letters") for one in beginnings])


async def whole_delivery_ids(connections: Connections, keys: Keys, beginnings: Sequence[str]) -> tuple[str, ...]:
    """The ids of the deliveries that begin so, as `whole_delivery_id` gives one."""
    return tuple([await whole_delivery_id(connections, keys, one) for one in beginnings])


def whole_id(beginning: str, ids: Iterable[str], what: str) -> str:
    """The one of these ids that begins so; the text itself where none does. Raises AmbiguousId with `what` they are."""
    return _only(beginning, set(_matching(beginning, ids)), what)


async def _in_events(
    connections: Connections, keys: Keys, beginning: str, found: set[str], start: str, end: str, say: Say | None = None
) -> None:
    looked = 0
    async for entries in events_pages(connections, keys, start=start, end=end, newest_first=True):
        names = (entry.fields.get(b"id", b"").decode("utf-8", "replace") for entry in entries)
        found.update(_matching(beginning, names))
        looked += len(entries)
        if len(found) >= _ENOUGH or beginning in found:
            return
        if say is not None:
            say(looked)


async def _members(connections: Connections, key: str, beginning: str) -> set[str]:
    """The members of a sorted set of delivery ids that begin so."""
    event, dot, hook = beginning.partition(".")
    pattern = "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in beginning)
    if dot:
        pattern = pattern.replace(".", "*.", 1)
    fits: Callable[[str], bool] = (
        (lambda name: name.startswith(event) and name.partition(".")[2].startswith(hook))
        if dot
        else (lambda name: name.startswith(beginning))
    )
    found, cursor = set[str](), b"0"
    with connections.lease() as connection:
        (score,) = await connection.exchange([("ZSCORE", key, beginning)])
        if checked(score, "looking for an id") is not None:
            return {beginning}
        while True:
            (reply,) = await connection.exchange([("ZSCAN", key, cursor, "MATCH", f"{pattern}*", "COUNT", 1000)])
            cursor, rows = checked(reply, "looking for ids")
            found.update(name for row in rows[::2] if fits(name := row.decode("utf-8", "replace")))
            if cursor == b"0":
                break
    exact = {name for name in found if dot and name.partition(".")[2] == hook}
    return exact or found  # `e019.log` means the hook `log`, also where there is a hook `log-errors`


def _matching(beginning: str, names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if name.startswith(beginning))


def _only(beginning: str, found: set[str], what: str) -> str:
    if beginning in found or not found:
        return beginning
    if len(found) == 1:
        return found.pop()
    shown = ", ".join(sorted(found)[:_MOST_SHOWN])
    more = ", …" if len(found) > _MOST_SHOWN else ""
    raise AmbiguousId(f"more than one of the {what} begins with {beginning!r}: {shown}{more}; write more of its id")
