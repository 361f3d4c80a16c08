"""A place in the feed: the last entry of the event stream and of the stream of outcomes that a client has."""

from __future__ import annotations

import re
from typing import NamedTuple

from workers.gateway.problems import Problem

Place = tuple[int, int]
"""The id of a stream's entry: milliseconds and number."""

START: Place = (0, 0)

_CURSOR = re.compile(r"(\d{1,20})-(\d{1,20})_(\d{1,20})-(\d{1,20})")
_MOST = 2**64 - 1


class Cursor(NamedTuple):
    """Everything up to these two entries was sent; it means the same to every gateway of the fleet."""

    events: Place = START
    outcomes: Place = START

    def __str__(self) -> str:
        return f"{entry_id(self.events)}_{entry_id(self.outcomes)}"

    def reaches(self, other: Cursor) -> bool:
        """Whether it is at or after another cursor in both streams."""
        return self.events >= other.events and self.outcomes >= other.outcomes

    def joined(self, other: Cursor) -> Cursor:
        """The later place of each stream."""
        return Cursor(max(self.events, other.events), max(self.outcomes, other.outcomes))


def parse_cursor(text: str) -> Cursor:
    """The cursor that a client sends; raises Problem."""
    match = _CURSOR.fullmatch(text)
    numbers = [int(digits) for digits in match.groups()] if match is not None else []
    if not numbers or max(numbers) > _MOST:
        raise Problem(400, "cursor-invalid", f"{text[:80]!r} is no cursor; send one as the feed gave it, or none")
    return Cursor((numbers[0], numbers[1]), (numbers[2], numbers[3]))


def place(name: bytes | str) -> Place:
    """The place of an entry from its id."""
    ms, _, number = (name.decode() if isinstance(name, bytes) else name).partition("-")
    return int(ms), int(number)


def entry_id(at: Place) -> str:
    """The id of the entry at a place."""
    return f"{at[0]}-{at[1]}"
