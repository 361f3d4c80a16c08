"""Breaks a long line of a screen between words, and keeps its colours."""

from __future__ import annotations

import re
from typing import Final

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def wrap(text: str, width: int) -> str:
    """A line as lines of at most `width` cells: the further ones are indented like the first, and no word is broken."""
    from rich.cells import cell_len

    indent = len(text) - len(text.lstrip(" ")) + 2
    wrapped, used, open_colour = "", 0, ""
    for word in re.findall(" +|[^ ]+", text):
        size = cell_len(_COLOUR.sub("", word))
        if used + size > width and used > indent:
            end = "\x1b[0m" if open_colour else ""
            wrapped, used = wrapped.rstrip(" ") + end + "\n" + " " * indent + open_colour, indent
            if word.isspace():
                continue
        for colour in _COLOUR.findall(word):
            open_colour = "" if colour == "\x1b[0m" else colour
        wrapped += word
        used += size
    return wrapped
