"""What `$'…'` and `printf` make of escapes: `\\x72` is an r."""

from __future__ import annotations

import re
from typing import Final

RESERVED: Final = re.compile("[\x00-\x05]")
"""Control characters that mark things here; a shell's words hardly ever hold them."""
_ANSI: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_NAMES: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def ansi_c(text: str) -> str:
    r"""What `$'…'` holds: `\x72` and its like decoded."""

    def decoded(match: re.Match[str]) -> str:
        x, u, big, octal, control, other = match.groups()
        if x or u or big:
            return _character(int(x or u or big, 16))
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        return _ANSI_NAMES.get(other, other if other in "\\'\"?" else f"\\{other}")

    return RESERVED.sub("", _ANSI.sub(decoded, text))


def _character(number: int) -> str:
    return chr(number) if number < 0x110000 else "\ufffd"
