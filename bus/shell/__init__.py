"""Reads a command line: every command that a shell would run, also in quotes, wrappers and nested shells.

Read with tree-sitter's Bash grammar, never run. Meant for the mistakes of agents that are not attackers: it fills in
variables of the same line, `echo` and `pwd` in `$(…)`, and follows `sudo`, `xargs`, `find -exec`, `bash -c`, `ssh`, pipes
into shells, heredocs, aliases, PowerShell, code of other languages given on the line, and files that the line itself
downloads or writes and then runs; it does not follow other files, or what happens in a container beside its volumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from bus.shell.budget import FULL, LIGHT, Budget, LineLimits
from bus.shell.command_paths import CHANGING, changed
from bus.shell.commands import CHANGES, Command, Commands, marks
from bus.shell.expansions import default_variables
from bus.shell.inner import Inner, args_of
from bus.shell.line_state import NOTHING, CommandContext, LineState
from bus.shell.parsing import raw_names, without_quotes
from bus.shell.plain_lines import Stage, Statement, other_statements, plain_command, plain_statements
from bus.shell.programs.follow_ups import follow_ups
from bus.shell.quoting import evaluated_scripts
from bus.shell.reader import Reader
from bus.shell.shell_state import quiet_commands, single_command
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
"""Characters that are read. Behind them only names are collected, and `truncated` is set."""
_MOST_QUIET: Final = 512
"""A line of quiet commands that has at most so many characters needs no budget."""
_MOST_WRAPPERS: Final = 4
_MOST_WRAPPED: Final = 32
"""A command with fewer wrappers around it, and at most so many words, needs no budget."""


def commands(text: str) -> Commands:
    """Every command that a shell would run for `text`; never raises, and reads the same text once (a small cache).

    Where a part is not read, for the budget (`bus.shell.budget`) or because it cannot be parsed, `unread` has the names
    in it: a rule that looks for one of them counts as fitting (`bus.matching.rules`).
    """
    return (_light_commands(text) if len(text) <= LIGHT.length else None) or _commands(text)


def as_read(line: Commands, text: str) -> str:
    """A line for each command in `text`, then the text without quotes, because some parts may not have been read."""
    return f"{line.text}\n{without_quotes(text)}"


def commands_if_light(text: str) -> Commands | None:
    """As `commands`, within a few milliseconds; None for a line that may take longer."""
    return None if len(text) > LIGHT.length else _light_commands(text)


@lru_cache(maxsize=16)
def _light_commands(text: str) -> Commands | None:
    found = _read(text, LIGHT)
    return None if found.truncated else found


@lru_cache(maxsize=32)
def _commands(text: str) -> Commands:
    return _read(text, FULL)


def _read(text: str, limits: LineLimits) -> Commands:
    cut = clean(text[: limits.length])
    if "'" in cut and ("[$(" in cut or "[`" in cut or "@P}" in cut):
        cut = "\n".join([cut, *evaluated_scripts(cut)])
    words = plain_command(cut)
    inner: list[Inner] = []
    items: tuple[Command, ...] = ()
    statements = other_statements(cut) if words is None else None
    if statements is not None:
        words = _single(statements)
    if words is not None and len(words) > limits.words:
        words, statements = None, plain_statements(cut)
    if words is not None:
        first, inner = single_command(words)
        if not inner:
            changes = first.program in CHANGING and bool(changed(first))
            return Commands((first,), False, False, _single_marks(first.program, first.prompt, changes))
        items = _wrapped(first, inner)
    elif statements is not None and len(text) <= _MOST_QUIET:
        items = quiet_commands(statements)
        if items:
            items += tuple(follow_ups(items, cut))
    if items:
        return Commands(items, False, False, _marks_of(items))
    budget = Budget(limits)
    found = LineState(budget)
    reader = Reader(found, default_variables(), ".")
    try:
        if words:
            reader.run(args_of(words), CommandContext(), inner)
        elif statements is not None:
            reader.run_plain(statements, NOTHING)
        else:
            reader.run_tree(cut, NOTHING)
    except RecursionError:  # capped above, but the caller's own stack may be deep already
        found.too_deep = True
    if len(text) > limits.length:
        budget.stop(f"it is longer than {limits.length} characters")
    found.items += list(follow_ups(found.items, cut))
    names = frozenset(found.unread)
    if budget.stopped or found.too_deep:
        names |= raw_names(text)
    return Commands(
        tuple(found.items),
        bool(budget.stopped),
        found.incomplete or found.too_deep,
        _marks_of(found.items),
        budget.stopped or ("it nests too deep" if found.too_deep else ""),
        names,
    )


def _single(statements: list[Statement]) -> list[str] | None:
    """The words of a line of one plain command; None for any other line."""
    if len(statements) > 1 or len(statements[0]) > 1 or len(statements[0][0]) > 1:
        return None
    stage = statements[0][0][0]
    return stage.words if isinstance(stage, Stage) and not (stage.redirected or stage.assignments) else None


def _wrapped(first: Command, inner: list[Inner]) -> tuple[Command, ...]:
    """The command of a line with one command, and each command inside it (`sudo rm x`); empty where one runs several.

    No later command depends on what these print or change, so this takes a third of the time of a `Reader`.
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
        if (command.redirects or command.program in CHANGING) and changed(command):
            return found | {CHANGES}
    return found


@lru_cache(maxsize=1024)
def _single_marks(program: str, prompt: bool, changes: bool) -> frozenset[str]:
    found = marks([Command(program, prompt=prompt)])
    return found | {CHANGES} if changes else found
