"""The names in the raw text of a command line: what is left to look at where the line cannot be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bus.shell.parsing import unread_regions

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Node

_QUOTES: Final = str.maketrans("", "", "'\"\\")
_SEPARATORS: Final = str.maketrans(dict.fromkeys("'\"\\;&|()<>{}[]`$,=!@", " "))
_LINE_JOIN: Final = re.compile(r"\\\r?\n")
_LONGEST: Final = 64


def raw_names(text: str) -> frozenset[str]:
    """Every word of `text` that may name a program, lower-cased and without its directory; quoted or not.

    `r''m` and `\\rm` are read as a shell would read them, and `"a;rm"` gives `a` and `rm`. Takes time linear in the text.
    """
    text = _LINE_JOIN.sub("", text)
    words = {*text.translate(_SEPARATORS).split(), *_unquoted_words(text)}
    names = (word.rstrip("/").rpartition("/")[2].lower().removesuffix(".exe") for word in words)
    return frozenset(name for name in names if name and len(name) <= _LONGEST)


def without_quotes(text: str) -> str:
    """The text without any quote or backslash: `fle""ethook` is `fleethook`, also where the line cannot be read."""
    return text.translate(_QUOTES)


def _unquoted_words(text: str) -> list[str]:
    plain = without_quotes(text)
    return [] if plain == text else plain.translate(_SEPARATORS).split()


def unread_names(root: Node, source: bytes) -> frozenset[str]:
    """The raw names in the parts of a syntax tree that could not be parsed; of the whole text where no part is known."""
    regions = unread_regions(root) or [(0, len(source))]
    return frozenset().union(*(raw_names(source[start:end].decode("utf-8", "replace")) for start, end in regions))
