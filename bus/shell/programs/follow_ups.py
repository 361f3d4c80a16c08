"""What several commands of a line do together: `mv src /tmp/old && rm -rf /tmp/old`, `kill $(pgrep -f postgres)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.shell.commands import Command
from bus.shell.inner import names
from bus.shell.programs.cloned_code import cloned_code, unpacked_code
from bus.shell.programs.copied_code import copied_code, may_copy
from bus.shell.words import UNKNOWN

_MOVES: Final = names("mv gmv")
_REMOVES: Final = names("rm srm grm")
_SEARCHES: Final = names("pgrep pidof")
_SHOWING: Final = names("-x -l -a -o -n")
_MOST: Final = 64
_BRACKETED: Final = lazy_regex(r"\[(\w)\]")
"""`grep '[p]ostgres'`, which does not find itself."""


def follow_ups(items: Sequence[Command], text: str) -> Iterator[Command]:
    """The commands that do what `items` do together; `text` is the whole line."""
    if ("mv " in text and "rm " in text) or ("ove-Item" in text and "emove-Item" in text):
        yield from _deleted_after_move(items)
    if "kill" in text and ("pgrep" in text or "pidof" in text or "ps " in text):
        yield from _killed_by_name(items)
    if "clone " in text or "degit" in text or "svn " in text:
        yield from cloned_code(items)
    if ("://" in text or "download" in text or "pack" in text) and (
        "tar " in text or "zip " in text or "7z" in text or "gem " in text
    ):
        yield from unpacked_code(items)
    if len(items) > 1 and may_copy(items, text):
        yield from copied_code(items)


def _deleted_after_move(items: Sequence[Command]) -> Iterator[Command]:
    """For each recursive delete of what an earlier command moved, the same delete of what was there before."""
    moved: list[tuple[str, Command, list[str]]] = []
    for command in items:
        if command.program in _MOVES:
            operands = [word for word in command.words if word[:1] != "-"]
            if len(operands) > 1 and len(moved) < _MOST:
                moved.append((operands[-1].rstrip("/"), command, operands[:-1]))
        elif moved and command.program in _REMOVES:
            targets = [word.rstrip("/*") for word in command.words if word[:1] != "-"]
            for target, before, sources in moved:
                if any(one and (target == one or target.startswith(f"{one}/")) for one in targets):
                    yield before._replace(program=command.program, words=("-r", *sources))


def _killed_by_name(items: Sequence[Command]) -> Iterator[Command]:
    """`pkill` with the words of the search whose processes are killed: by `pgrep`, or by `ps | grep`."""
    searched: tuple[str, ...] = ()
    for command in items:
        if command.program in _SEARCHES:
            searched = command.words
        elif command.program == "grep" and "ps" in command.piped_from:
            patterns = tuple(_BRACKETED.sub(r"\1", word) for word in command.words if word[:1] != "-")
            searched = patterns[:1] or searched
        elif command.program == "kill" and searched and any(UNKNOWN in word for word in command.words):
            signal = tuple(word for word in command.words[:2] if word[:1] == "-")
            if signal == ("-0",):  # it only asks whether they run
                return
            named = tuple(word for word in searched if word not in _SHOWING)
            yield command._replace(program="pkill", words=(*signal, *named))
            return
