"""Programs that run code of other languages: where that code comes from, and what of it a shell would call commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.inner import Arg, Inner, Unwrap
from bus.shell.words import Output

_INTERPRETER: Final = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|osascript|pwsh)[\d.]*")
_CODE_OPTIONS: Final = frozenset({"-c", "-e", "-r", "-p", "-E", "--eval", "--print", "--run"})


def find_interpreter(program: str) -> Unwrap | None:
    """The reader of a program's arguments where it is an interpreter."""
    return _interpreter if _INTERPRETER.fullmatch(program) else None


def _interpreter(args: Sequence[Arg], stdin: Output) -> Iterator[Inner]:
    """Python and its like: only where their code comes from is known, not what it does."""
    for place, arg in enumerate(args):
        if arg.text in _CODE_OPTIONS:
            yield Inner(sources=tuple(source for one in args[place : place + 2] for source in one.sources))
            return
        if arg.text == "-m":
            return
        if not arg.text.startswith("-") or arg.text == "-":
            yield Inner(sources=stdin.programs if arg.text in ("-", "/dev/stdin") else arg.sources)
            return
    if not args:
        yield Inner(sources=stdin.programs)
