"""What a shell would run: every command in a command line, seen through quoting, wrappers and nested shells.

Read with tree-sitter's Bash grammar, never run. Meant for the mistakes of agents that are not attackers: it fills in
variables of the same line, `echo` and `pwd` in `$(…)`, and follows `sudo`, `xargs`, `find -exec`, `bash -c`, `ssh`,
pipes into shells and heredocs; it does not follow files, aliases, other interpreters or what happens in a container.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bus.shell.commands import CHANGES, Command, Commands, marks
from bus.shell.paths import changed
from bus.shell.reader import MAX_COMMANDS, Found, Reader
from bus.shell.words import UNKNOWN, UNSET, default_variables

__all__ = ["MAX_LENGTH", "UNKNOWN", "UNSET", "Command", "Commands", "commands"]

MAX_LENGTH: Final = 64 * 1024
"""Characters that are read; what stands behind them is not seen, and `truncated` says so."""


def commands(text: str) -> Commands:
    """Every command that a shell would run for `text`; never raises, and parses the same text once (a small cache)."""
    return _commands(text[:MAX_LENGTH], len(text) > MAX_LENGTH)


@lru_cache(maxsize=128)
def _commands(text: str, cut: bool) -> Commands:
    found = Found()
    try:
        Reader(found, default_variables(), ".").script(text, 0)
    except RecursionError:  # capped above, but the caller's own stack may be deep already
        found.incomplete = True
    seen = marks(found.items)
    if any(changed(one) for one in found.items):
        seen |= {CHANGES}
    return Commands(tuple(found.items), cut or len(found.items) >= MAX_COMMANDS, found.incomplete, seen)
