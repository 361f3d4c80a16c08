"""Agents' texts for messages to people: made harmless, escaped, and cut to a service's limits.

Lengths are UTF-16 code units, the largest count that a service may mean by "characters" (an emoji is two).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from bus.matching.regexes import whole_characters

CUT: Final = "…"
"""The end of a text that was cut."""

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and line feed
    "\u202a-\u202e\u2066-\u2069"  # change the direction of the text after them, so that people read another text
    "\ud800-\udfff\ufdd0-\ufdef"  # surrogates and noncharacters; below, the last two code points of every plane
    + "".join(chr((plane << 16) + last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_BREAKS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MOST_JOINED: Final = 16
"""A cut keeps up to this many combined characters together; a longer sequence is an attack, and is cut anywhere."""

_JOINER: Final = "\u200d"


def safe(text: str) -> str:
    """The text with control and invalid characters replaced; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("\ufffd", _BREAKS.sub("\n", whole_characters(text)))


def line(text: str) -> str:
    """The result of `safe`, on one line."""
    return " ".join(safe(text).split())


def units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, most: int, escapes: Mapping[int, str] | None = None) -> str:
    """The text in at most `most` units after `escapes` (for `str.translate`); ends with … if it was cut.

    A cut never splits an escape, or a character with its accents, the parts of an emoji, or the letters of a flag.
    """
    table = escapes or {}
    if len(text) <= most:
        escaped = text.translate(table)
        if units(escaped) <= most:
            return escaped
    return text[: _cut_index(text, _count_fitting(text[:most], most - len(CUT), table))].translate(table).rstrip() + CUT


def _count_fitting(text: str, most: int, table: Mapping[int, str]) -> int:
    """How many of the first characters fit after they are escaped."""
    if units(text.translate(table)) == len(text):
        return min(most, len(text))
    size = 0
    for index, char in enumerate(text):
        size += units(table.get(ord(char), char))
        if size > most:
            return index
    return len(text)


def _cut_index(text: str, end: int) -> int:
    """The last index up to `end` at which the text can be cut without splitting a combined character."""
    index = end
    for _ in range(_MOST_JOINED):
        if index <= 0 or index >= len(text) or not _is_inside_character(text, index):
            return index
        index -= 1
    return end


def _is_inside_character(text: str, index: int) -> bool:
    """Whether a reader sees the characters before and after this index as one."""
    after, before = text[index], text[index - 1]
    if _JOINER in (before, after):
        return True
    if _is_flag_half(after) and _is_flag_half(before):
        run = 0
        while run < index and run < 2 * _MOST_JOINED and _is_flag_half(text[index - 1 - run]):
            run += 1
        return run % 2 == 1
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # the letters of a region's flag
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
