"""Text of agents in other people's messages: made harmless, escaped, and cut where a service's limit is.

Lengths are UTF-16 code units, the largest count that a service may mean by "characters" (an emoji is two).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

CUT: Final = "…"
"""What stands where something is missing."""

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed
    "\u202a-\u202e\u2066-\u2069"  # turn what follows around: a reader would see another text than is there
    "\ud800-\udfff\ufdd0-\ufdef"  # no characters, as the last two of every plane
    + "".join(chr((plane << 16) + last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_BREAKS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MOST_JOINED: Final = 16
"""Characters that may belong together at a cut; a longer pile is made to break limits, and is cut anywhere."""

_JOINER: Final = "\u200d"


def safe(text: str) -> str:
    """The text without what steers, hides or is no character; lines stay lines."""
    if text.isascii() and text.isprintable():
        return text
    # Two halves of a character that came apart are one again; a half alone is none.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSAFE.sub("\ufffd", _BREAKS.sub("\n", whole))


def line(text: str) -> str:
    """The same on one line."""
    return " ".join(safe(text).split())


def units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, most: int, escapes: Mapping[int, str] | None = None) -> str:
    """The text with `escapes` (of `str.translate`) in at most `most` units; ends with … where it was longer.

    An escape, a character and what belongs to it (accents, an emoji's parts, a flag's two halves) are kept whole.
    """
    table = escapes or {}
    if len(text) <= most:
        escaped = text.translate(table)
        if units(escaped) <= most:
            return escaped
    return text[: _whole(text, _fitting(text[:most], most - len(CUT), table))].translate(table).rstrip() + CUT


def _fitting(text: str, most: int, table: Mapping[int, str]) -> int:
    """How many of the first characters fit when they are escaped."""
    if units(text.translate(table)) == len(text):
        return min(most, len(text))
    size = 0
    for place, char in enumerate(text):
        size += units(table.get(ord(char), char))
        if size > most:
            return place
    return len(text)


def _whole(text: str, end: int) -> int:
    """The last place up to `end` where no character is torn from what belongs to it."""
    place = end
    for _ in range(_MOST_JOINED):
        if place <= 0 or place >= len(text) or not _joined(text, place):
            return place
        place -= 1
    return end


def _joined(text: str, place: int) -> bool:
    """Whether the characters on both sides of a place are one to the reader."""
    after, before = text[place], text[place - 1]
    if _JOINER in (before, after):
        return True
    if _is_flag_half(after) and _is_flag_half(before):
        run = 0
        while run < place and run < 2 * _MOST_JOINED and _is_flag_half(text[place - 1 - run]):
            run += 1
        return run % 2 == 1
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # the letters of a region's flag
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
