"""What builtins of other shells print: zsh's and ksh's `print`, fish's `string`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bus.shell.inner import names

PRINTING_BUILTINS: Final = names("print string")
"""The builtins whose output is known."""
_AS_GIVEN: Final = names("collect trim unescape lower upper")
"""The verbs of `string` that are taken to print their input as it is."""


def builtin_output(program: str, words: Sequence[str], stdin: str | None) -> str | None:
    """What such a builtin prints for these arguments and this standard input; None if it is not known."""
    return _print(words) if program == "print" else _string(words, stdin)


def _print(words: Sequence[str]) -> str:
    place = 0
    letters = ""
    while place < len(words) and words[place][:1] == "-" and len(words[place]) > 1:
        place += 1
        if words[place - 1] == "--":
            break
        letters += words[place - 1][1:]
    text = ("\n" if "l" in letters or "N" in letters else " ").join(words[place:])
    return text if "r" in letters else text.replace("\\n", "\n")


def _string(words: Sequence[str], stdin: str | None) -> str | None:
    rest = [word for word in words[1:] if word[:1] != "-"]
    verb = words[0] if words else ""
    if verb in ("split", "split0", "join", "join0"):
        sign = rest.pop(0) if rest and not verb.endswith("0") else ""
        given = rest or ([stdin] if stdin is not None else [])
        if not given:
            return None
        if verb.startswith("split"):
            return "\n".join(piece for text in given for piece in (text.split(sign) if sign else [text]))
        return (sign or " ").join(piece for text in given for piece in text.split("\n"))
    if verb in _AS_GIVEN:
        return "\n".join(rest) if rest else stdin
    return None
