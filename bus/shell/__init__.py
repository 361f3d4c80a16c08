"""What a shell would run: every command in a command line, seen through quoting, wrappers and nested shells.

Read with tree-sitter's Bash grammar, never run. Meant for the mistakes of agents that are not attackers: it fills in
variables of the same line, `echo` and `pwd` in `$(…)`, and follows `sudo`, `xargs`, `find -exec`, `bash -c`, `ssh`, pipes
into shells, heredocs, aliases, PowerShell, code of other languages given on the line, and files that the line itself
downloads or writes and then runs; it does not follow other files, or what happens in a container beside its volumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from bus.shell.budget import FULL, LIGHT, Budget, Limits
from bus.shell.commands import CHANGES, Command, Commands, marks
from bus.shell.expansions import default_variables
from bus.shell.found import NOTHING, Call, Found
from bus.shell.inner import Inner, args_of
from bus.shell.parsing import raw_names, without_quotes
from bus.shell.paths import changed
from bus.shell.plain import Stage, Statement, plain_statements
from bus.shell.reader import Reader
from bus.shell.state import quiet_commands, single_command
from bus.shell.words import UNKNOWN, UNSET, clean

__all__ = [
    "MAX_LENGTH",
    "UNKNOWN",
    "UNSET",
    "Command",
    "Commands",
    "commands",
    "commands_if_light",
    "raw_names",
    "without_quotes",
]

MAX_LENGTH: Final = FULL.length
"""Characters that are read; of what is behind them only the names are seen, and `truncated` says so."""
_MOST_QUIET: Final = 512
"""Characters, of which no budget has to be kept."""
_MOST_WRAPPERS: Final = 4
_MOST_WRAPPED: Final = 32
"""Wrappers around a command, and its words, of which no budget has to be kept."""


def commands(text: str) -> Commands:
    """Every command that a shell would run for `text`; never raises, and reads the same text once (a small cache).

    Where a part is not read, for the budget (`bus.shell.budget`) or because it cannot be parsed, `unread` has the names
    in it: a rule that looks for one of them counts as fitting (`bus.matching.rules`).
    """
    return (_light_commands(text) if len(text) <= LIGHT.length else None) or _commands(text)


def as_read(line: Commands, text: str) -> str:
    """What a shell makes of `text`: a line for each command, then the text without quotes, for what was not read."""
    return f"{line.text}\n{without_quotes(text)}"


def commands_if_light(text: str) -> Commands | None:
    """As `commands`, within a few milliseconds; None for a line that may take longer."""
    return None if len(text) > LIGHT.length else _light_commands(text)


@lru_cache(maxsize=128)
def _light_commands(text: str) -> Commands | None:
    found = _read(text, LIGHT)
    return None if found.truncated else found


@lru_cache(maxsize=32)
def _commands(text: str) -> Commands:
    return _read(text, FULL)


def _read(text: str, limits: Limits) -> Commands:
    cut = clean(text[: limits.length])
    statements = plain_statements(cut)
    words = _single(statements, limits) if statements is not None and len(text) <= limits.length else None
    first, inner = single_command(words) if words else (None, [])
    if first is not None and not inner:
        return Commands((first,), False, False, _single_marks(first.program, first.prompt, bool(changed(first))))
    if first is not None:
        items = _wrapped(first, inner)
    else:
        items = quiet_commands(statements) if statements is not None and len(text) <= _MOST_QUIET else ()
    if items:
        return Commands(items, False, False, _marks_of(items))
    budget = Budget(limits)
    found = Found(budget)
    reader = Reader(found, default_variables(), ".")
    try:
        if words:
            reader.run(args_of(words), Call(), inner)
        elif statements is not None:
            reader.run_plain(statements, NOTHING)
        else:
            reader.run_tree(cut, NOTHING)
    except RecursionError:  # capped above, but the caller's own stack may be deep already
        found.too_deep = True
    if len(text) > limits.length:
        budget.stop(f"it is longer than {limits.length} characters")
    names = raw_names(text) if budget.stopped or found.too_deep else frozenset(found.unread)
    return Commands(
        tuple(found.items),
        bool(budget.stopped),
        found.incomplete or found.too_deep,
        _marks_of(found.items),
        budget.stopped or ("it nests too deep" if found.too_deep else ""),
        names,
    )


def _single(statements: list[Statement], limits: Limits) -> list[str] | None:
    """The words of a line of one plain command; None for any other line."""
    if len(statements) > 1 or len(statements[0]) > 1 or len(statements[0][0]) > 1:
        return None
    stage = statements[0][0][0]
    if not isinstance(stage, Stage) or stage.redirected or stage.assignments or len(stage.words) > limits.words:
        return None
    return stage.words


def _wrapped(first: Command, inner: list[Inner]) -> tuple[Command, ...]:
    """All that a line of one plain command runs that runs others; empty where these are not one in another: `sudo rm x`.

    What these print or change for later ones does not matter, so this takes a third of the time of a reader.
    """
    items = [first]
    while inner:
        call = inner[0]
        if len(inner) > 1 or not call.argv or call.directory or call.assignments:
            return ()
        if len(items) == _MOST_WRAPPERS or len(first.words) > _MOST_WRAPPED:
            return ()
        command, inner = single_command([arg.text for arg in call.argv])
        items.append(command)
    return tuple(items)


def _marks_of(items: Sequence[Command]) -> frozenset[str]:
    found = marks(items)
    for command in items:
        if changed(command):
            return found | {CHANGES}
    return found


@lru_cache(maxsize=1024)
def _single_marks(program: str, prompt: bool, changes: bool) -> frozenset[str]:
    found = marks([Command(program, prompt=prompt)])
    return found | {CHANGES} if changes else found
