"""Completes the ids of events, deliveries, dead letters and jobs from any unambiguous prefix.

Lists show event ids without their first six characters (`bus.ids.short_form`), so a prefix of that form works, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bus.errors import AmbiguousId, NotFound
from bus.ids import SLOW_CHARACTERS, begins, short_form
from bus.requests import MOST_BUDGET_MS
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked, server_now
from workers.records.events import CLOCK_MS, OnProgress, events_pages, pages

_WHOLE: Final = re.compile(r"e[0-9a-f]{32}")
_TIMED: Final = re.compile(r"e([0-9a-f]{5,12})[0-9a-f]*")
"""An event id; five digits of its time or more narrow the search to twelve days or less."""

_SHORT: Final = re.compile(r"[0-9a-f]{3,}")
"""A short form; three digits or more narrow the search to at most a minute in every three days."""

_SHORT_DIGITS: Final = 13 - SLOW_CHARACTERS
"""A short form begins with this many digits of the time."""

_ROUND_MS: Final = 16**_SHORT_DIGITS
"""The digits of a short form repeat after this time (milliseconds)."""

_SINGULAR: Final = {"events": "event", "deliveries": "delivery", "dead letters": "dead letter", "jobs": "job"}
_MOST_SHOWN: Final = 5
_ENOUGH: Final = 20
"""A search ends after this many matches: the prefix is ambiguous."""


_NEAR: Final = 0.88
"""How similar an id must be to be suggested: one wrong or exchanged character in ten."""

_MOST_COMPARED: Final = 2_000
"""How many of the newest ids are compared with an id that does not exist; that takes 50 ms."""


async def whole_event_id(
    connections: Connections, keys: Keys, beginning: str, *, on_progress: OnProgress | None = None
) -> str:
    """The id of the only event with this prefix; the prefix itself if no event has it.

    Raises AmbiguousId if several events have it, and NotFound if none has it but one id is similar.
    """
    if not beginning or _WHOLE.fullmatch(beginning):
        return beginning
    found: set[str] = set()
    for early, late in await _spans(connections, keys, beginning):
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
        compared: list[str] = []
        await _in_events(connections, keys, beginning, found, "-", "+", on_progress, compared)
        if not found:
            _raise_if_similar(beginning, compared, "events")
    return _check_unique(beginning, found, "events")


async def whole_delivery_id(connections: Connections, keys: Keys, beginning: str) -> str:
    """The id of the only delivery with this prefix; the prefix itself if none has it. Raises as `whole_event_id`.

    In `e019a2.audit` each side of the dot is a prefix: of an event's id, and of a hook's or endpoint's id.
    """
    return await _only_member(connections, keys("recent"), beginning, "deliveries")


async def whole_dead_ids(connections: Connections, keys: Keys, beginnings: Sequence[str]) -> tuple[str, ...]:
    """The whole ids of several dead letters, each as `whole_delivery_id`."""
    return tuple([await _only_member(connections, keys("dead"), beginning, "dead letters") for beginning in beginnings])


async def whole_delivery_ids(connections: Connections, keys: Keys, beginnings: Sequence[str]) -> tuple[str, ...]:
    """The whole ids of several deliveries, each as `whole_delivery_id`."""
    return tuple([await whole_delivery_id(connections, keys, beginning) for beginning in beginnings])


async def require_one(connections: Connections, key: str, names: Sequence[str], what: str) -> None:
    """Raise NotFound if none of these ids is in a sorted set of delivery ids; `what` names them in the message."""
    with connections.lease() as connection:
        scores = await connection.exchange([("ZSCORE", key, name) for name in names])
    if all(checked(score, "looking for an id") is None for score in scores):
        command = {"deliveries": "deliveries", "dead letters": "dead"}[what]
        raise NotFound(f"no {_SINGULAR[what]} is called {names[0]!r}; see `fleethook {command} list`")


def whole_id(beginning: str, ids: Iterable[str], what: str) -> str:
    """The only id with this prefix; the prefix itself if none has it. Raises as `whole_event_id`; `what` names the ids."""
    known = list(ids)
    found = set(_matching(beginning, known))
    if not found:
        _raise_if_similar(beginning, known, what)
    return _check_unique(beginning, found, what)


async def _spans(connections: Connections, keys: Keys, beginning: str) -> list[tuple[int, int]]:
    """The time spans (ms) in which event ids can have this prefix; empty if it is too short to narrow the search."""
    timed = _TIMED.fullmatch(beginning)
    spans = [(int(timed[1].ljust(12, "0"), 16), int(timed[1].ljust(12, "f"), 16))] if timed is not None else []
    if _SHORT.fullmatch(beginning):
        spans += await _short_spans(connections, keys, beginning[:_SHORT_DIGITS])
    return spans


async def _short_spans(connections: Connections, keys: Keys, digits: str) -> list[tuple[int, int]]:
    """The time spans of a short form: one for each repetition of its digits since the oldest event, newest first."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("XRANGE", keys("events"), "-", "+", "COUNT", 1)])
    oldest = [int(name.partition(b"-")[0]) for name, _ in checked(rows, "looking for the oldest event")]
    if not oldest:
        return []
    early, late = int(digits.ljust(_SHORT_DIGITS, "0"), 16), int(digits.ljust(_SHORT_DIGITS, "f"), 16)
    first, last = ((oldest[0] - MOST_BUDGET_MS) // _ROUND_MS, (await server_now(connections) + CLOCK_MS) // _ROUND_MS)
    return [(number * _ROUND_MS + early, number * _ROUND_MS + late) for number in range(last, first - 1, -1)]


async def _in_events(
    connections: Connections,
    keys: Keys,
    beginning: str,
    found: set[str],
    start: str,
    end: str,
    on_progress: OnProgress | None = None,
    compared: list[str] | None = None,
) -> None:
    """Add the ids with this prefix to `found`, and the newest ids that were read to `compared`."""
    looked = 0
    async for entries in events_pages(connections, keys, start=start, end=end, newest_first=True):
        names = [entry.fields.get(b"id", b"").decode("utf-8", "replace") for entry in entries]
        found.update(_matching(beginning, names))
        if compared is not None and len(compared) < _MOST_COMPARED:
            compared += names
        looked += len(entries)
        if len(found) >= _ENOUGH or beginning in found:
            return
        if on_progress is not None:
            on_progress(looked)


async def _members(connections: Connections, key: str, beginning: str) -> set[str]:
    """The members of a sorted set of delivery ids that have this prefix."""
    event, dot, hook = beginning.partition(".")
    pattern = "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in beginning)
    if dot:
        pattern = pattern.replace(".", "*.", 1)
    fits: Callable[[str], bool] = (
        (lambda name: begins(name, event) and name.partition(".")[2].startswith(hook))
        if dot
        else (lambda name: begins(name, beginning))
    )
    found, cursor = set[str](), b"0"
    with connections.lease() as connection:
        (score,) = await connection.exchange([("ZSCORE", key, beginning)])
        if checked(score, "looking for an id") is not None:
            return {beginning}
        while True:
            (reply,) = await connection.exchange([("ZSCAN", key, cursor, "MATCH", f"*{pattern}*", "COUNT", 1000)])
            cursor, rows = checked(reply, "looking for ids")
            found.update(name for row in rows[::2] if fits(name := row.decode("utf-8", "replace")))
            if cursor == b"0":
                break
    exact = {name for name in found if dot and name.partition(".")[2] == hook}
    return exact or found  # `e019.log` means the hook `log`, even if there is a hook `log-errors`


async def _only_member(connections: Connections, key: str, beginning: str, what: str) -> str:
    """The only member of a sorted set of delivery ids with this prefix, as `whole_id`."""
    found = await _members(connections, key, beginning)
    if not found:
        with connections.lease() as connection:
            (newest,) = await connection.exchange([("ZREVRANGE", key, 0, _MOST_COMPARED - 1)])
        _raise_if_similar(
            beginning, [name.decode("utf-8", "replace") for name in checked(newest, "looking for ids")], what
        )
    return _check_unique(beginning, found, what)


def _raise_if_similar(wrong: str, names: Iterable[str], what: str) -> None:
    """Raise NotFound with the id that was probably meant; do nothing if none is similar."""
    event, dot, _ = wrong.partition(".")
    meant: dict[str, str] = {}
    for name in names:
        for form in (name, short_form(name)):
            of, _, hook = form.partition(".")
            meant[f"{of[: len(event)]}.{hook}" if dot else of[: len(event)]] = name
    near = difflib.get_close_matches(wrong, meant, 1, _NEAR)
    if near:
        raise NotFound(f"no {_SINGULAR[what]} is called {wrong!r}; did you mean {near[0]}?")


def _matching(beginning: str, names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if begins(name, beginning))


def _check_unique(beginning: str, found: set[str], what: str) -> str:
    if beginning in found or not found:
        return beginning
    found = {name for name in found if name.startswith(beginning.partition(".")[0])} or found
    if len(found) == 1:
        return found.pop()
    shown = ", ".join(sorted(found)[:_MOST_SHOWN])
    more = ", …" if len(found) > _MOST_SHOWN else ""
    raise AmbiguousId(f"more than one of the {what} begins with {beginning!r}: {shown}{more}; write more of its id")
