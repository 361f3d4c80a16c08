"""Cursors: a client's place in the feed, as its places in the event stream and in the stream of outcomes.

An entry of the stream of outcomes has several outcomes, so a place may be within an entry.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from workers.gateway.problems import Problem

_MOST: Final = 2**64 - 1
_WHOLE: Final = 2**16


class StreamPosition(NamedTuple):
    """A place in a stream: the id of an entry (milliseconds and number), and how many of its outcomes were sent."""

    ms: int
    number: int
    sent: int = _WHOLE

    @property
    def is_whole(self) -> bool:
        """Whether everything in the entry was sent."""
        return self.sent == _WHOLE

    @property
    def entry(self) -> tuple[int, int]:
        """The id of the entry."""
        return self.ms, self.number

    @property
    def entry_id(self) -> str:
        """The id of the entry as Redis writes it."""
        return f"{self.ms}-{self.number}"

    @property
    def read_after(self) -> str:
        """The id after which the next read begins: the entry's, or the one before if a part of the entry is left."""
        if self.is_whole:
            return self.entry_id
        return f"{self.ms}-{self.number - 1}" if self.number else f"{max(0, self.ms - 1)}-{_MOST if self.ms else 0}"

    def __str__(self) -> str:
        return self.entry_id if self.is_whole else f"{self.entry_id}.{self.sent}"


START: Final = StreamPosition(0, 0)

_CURSOR: Final = re.compile(r"(\d{1,20})-(\d{1,20})_(\d{1,20})-(\d{1,20})(?:\.(\d{1,4}))?")


class Cursor(NamedTuple):
    """Everything up to these two places was sent. A cursor is valid at every gateway of the fleet."""

    events: StreamPosition = START
    outcomes: StreamPosition = START

    def __str__(self) -> str:
        return f"{self.events}_{self.outcomes}"

    def reaches(self, other: Cursor) -> bool:
        """Whether it is at or after another cursor in both streams."""
        return self.events >= other.events and self.outcomes >= other.outcomes

    def furthest(self, other: Cursor) -> Cursor:
        """The later place of each stream."""
        return Cursor(max(self.events, other.events), max(self.outcomes, other.outcomes))


def parse_cursor(text: str) -> Cursor:
    """The cursor that a client sends; raises Problem."""
    match = _CURSOR.fullmatch(text)
    numbers = [int(digits) for digits in match.groups() if digits] if match is not None else []
    if not numbers or max(numbers) > _MOST:
        raise Problem(400, "cursor-invalid", f"{text[:80]!r} is no cursor; send one as the feed gave it, or none")
    return Cursor(StreamPosition(*numbers[:2]), StreamPosition(*numbers[2:]))


def position_after(name: bytes | str) -> StreamPosition:
    """The place at the end of an entry, from its id."""
    ms, _, number = (name.decode() if isinstance(name, bytes) else name).partition("-")
    return StreamPosition(int(ms), int(number))
