"""Files that a line moves away and then deletes where they are: `mv src /tmp/old && rm -rf /tmp/old`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bus.shell.commands import Command
from bus.shell.inner import names

_MOVES: Final = names("mv gmv")
_REMOVES: Final = names("rm srm grm")
_MOST: Final = 64


def deleted_after_move(items: Sequence[Command]) -> Iterator[Command]:
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
