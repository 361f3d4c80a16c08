"""The options of a command, told apart by what they mean: `-rf` is `-r` and `-f`, `--force=x` is `--force`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from bus.errors import PatternError
from bus.shell.commands import Command

_ABBREVIATING: Final = frozenset(
    [
        "rm",
        "chmod",
        "chown",
        "chgrp",
        "cp",
        "mv",
        "ln",
        "shred",
        "truncate",
        "tee",
        "install",
        "mkdir",
        "rmdir",
        "touch",
        "git",
        "rsync",
        "userdel",
        "tar",
    ]
)
"""Programs that take any unambiguous beginning of a long option: `--recur`, `--har`."""

_WHOLE: Final = frozenset(["--force", "--all", "--prune", "--delete", "--merge", "--no-force"])
"""Long options that are also the beginning of a longer one."""


def compile_flags(
    any_of: tuple[str, ...], all_of: tuple[str, ...], none_of: tuple[str, ...]
) -> Callable[[Command], bool]:
    """Whether a command has options of these names; PatternError for one that is no option's."""
    every = tuple(tuple(one.split("|")) for one in all_of)
    some = tuple(name for one in any_of for name in one.split("|"))
    none = tuple(name for one in none_of for name in one.split("|"))
    for name in (*some, *none, *(name for one in every for name in one)):
        if not name.startswith("-") or name.strip("-") == "":
            raise PatternError(f"{name!r} is not a flag", hint="write e.g. -f or --force, alternatives as -f|--force")

    def fits(command: Command) -> bool:
        flags = flags_of(command)
        return (
            all(any(_has(flags, name) for name in one) for one in every)
            and (not some or any(_has(flags, name) for name in some))
            and not any(_has(flags, name) for name in none)
        )

    return fits


class _Flags(msgspec.Struct, frozen=True):
    names: frozenset[str]
    beginnings: tuple[str, ...]
    """Long options that may be shortened."""


@lru_cache(maxsize=1024)
def _flags(words: tuple[str, ...], abbreviated: bool) -> _Flags:
    names: set[str] = set()
    for word in words:
        if word == "--":
            break
        if word.startswith("--"):
            names.add(word.partition("=")[0])
        elif word.startswith("-") and len(word) > 1:
            names.add(word.partition("=")[0])
            names.update(f"-{letter}" for letter in word[1:])
    long = tuple(name for name in names - _WHOLE if len(name) > 2 and name.startswith("--")) if abbreviated else ()
    return _Flags(frozenset(names), long)


def flags_of(command: Command) -> _Flags:
    """The options of a command."""
    return _flags(command.words, command.program in _ABBREVIATING)


def flag_names(
    programs: frozenset[str], any_of: tuple[str, ...], all_of: tuple[str, ...]
) -> tuple[frozenset[str], ...]:
    """Of each of these a command that fits has one among the names of its options; no `programs` for any."""
    asked = ((any_of,) if any_of else ()) + tuple((one,) for one in all_of)
    whole = programs and programs.isdisjoint(_ABBREVIATING)
    return tuple(
        frozenset(
            name[:end]
            for one in names
            for name in one.split("|")
            for end in ((len(name),) if whole or name[:2] != "--" else range(3, len(name) + 1))
        )
        for names in asked
    )


def _has(flags: _Flags, name: str) -> bool:
    return name in flags.names or (name[:2] == "--" and any(name.startswith(one) for one in flags.beginnings))
