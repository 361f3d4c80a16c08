"""How a script's text becomes a syntax tree, within bounded time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the parser is loaded by the first command only (30 ms, measured)
    from tree_sitter import Parser, Tree

_PARSE_AT_ONCE: Final = 2048
_PARSE_SECONDS: Final = 0.1
"""64 KiB of ordinary commands take 12 ms, of `a|a|a|…` a minute (measured)."""

_WORD: Final = bytes(b"%+:^"[byte & 3] if byte >= 0x80 else byte for byte in range(256))
"""What stands for bytes outside of ASCII: to a shell they are parts of words and of no name, and so are these. The grammar's
scanner reads beyond a table for such a character after a `{` and dies of it (tree-sitter-bash #337, seen with 0.25.1)."""


@lru_cache(maxsize=1)
def _new_parser() -> Callable[[], Parser]:
    import tree_sitter  # see TYPE_CHECKING above
    import tree_sitter_bash

    return partial(tree_sitter.Parser, tree_sitter.Language(tree_sitter_bash.language()))


def syntax_tree(source: bytes) -> Tree | None:
    """The syntax tree, or None where parsing takes too long: on long broken input its time grows with the square.

    Its nodes give places in `source`; their own texts have other bytes where it is not ASCII.
    """
    source = source.translate(_WORD)
    parser = _new_parser()()  # one for each text: a parser must not be shared by threads
    if len(source) <= _PARSE_AT_ONCE:
        return parser.parse(source)
    deadline = monotonic() + _PARSE_SECONDS
    try:
        return parser.parse(
            lambda place, _point: source[place : place + 16384],
            progress_callback=lambda _place, _error: monotonic() > deadline,
        )
    except ValueError:  # what the parser raises when it is stopped
        return None
