"""Parses the options of a command and compares them by meaning: `-rf` is `-r` and `-f`, `--force=x` is `--force`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

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
"""Programs that accept any unambiguous beginning of a long option: `--recur`, `--har`."""

_WHOLE: Final = frozenset(["--force", "--all", "--prune", "--delete", "--merge", "--no-force"])
"""Long options that are also the beginning of a longer one."""


def compile_flags(
    any_of: tuple[str, ...], all_of: tuple[str, ...], none_of: tuple[str, ...]
) -> Callable[[Flags], bool]:
    """A matcher: whether the options of a command have these names. Raises PatternError for a name that is no option."""
    every = tuple(_names([name]) for name in all_of)
    some, none = _names(any_of), _names(none_of)
    for name in some.union(none, *every):
        if not name.startswith("-") or name.strip("-") == "":
            raise PatternError(f"{name!r} is not a flag", hint="write e.g. -f or --force, alternatives as -f|--force")
    asked = (some, *every) if some else every

    def fits(flags: Flags) -> bool:
        given, beginnings = flags
        for names in asked:
            if names.isdisjoint(given) and not (beginnings and _is_begun(names, beginnings)):
                return False
        return none.isdisjoint(given) and not (beginnings and _is_begun(none, beginnings))

    return fits


def _names(flags: Iterable[str]) -> frozenset[str]:
    return frozenset(name for names in flags for name in names.split("|"))


class Flags(NamedTuple):
    """The options of a command."""

    names: AbstractSet[str]
    """The single letters of grouped short options: of `-rf` also `-r` and `-f`."""
    beginnings: tuple[str, ...]
    """Long options that the program accepts shortened."""


_NONE: Final = Flags(frozenset(), ())


def flags_of(command: Command) -> Flags:
    """The options of a command."""
    names: set[str] = set()
    beginnings: list[str] = []
    abbreviates = command.program in _ABBREVIATING
    for word in command.words:
        if word[:1] != "-":
            continue
        if word == "--":
            break
        name = word.partition("=")[0] if "=" in word else word
        if name != "-":
            names.add(name)
        if word[1:2] != "-":
            if len(word) > 2:
                names.update(map("-".__add__, word[1:]))
        elif abbreviates and len(name) > 2 and name not in _WHOLE:
            beginnings.append(name)
    return Flags(names, tuple(beginnings)) if names else _NONE


def flag_names(
    programs: frozenset[str], any_of: tuple[str, ...], all_of: tuple[str, ...]
) -> tuple[frozenset[str], ...]:
    """Sets of option names. A fitting command has an option of each set; no `programs` means any program."""
    asked = ((any_of,) if any_of else ()) + tuple((name,) for name in all_of)
    whole = programs and programs.isdisjoint(_ABBREVIATING)
    return tuple(
        frozenset(
            name[:end]
            for alternatives in names
            for name in alternatives.split("|")
            for end in ((len(name),) if whole or name[:2] != "--" else range(3, len(name) + 1))
        )
        for names in asked
    )


def _is_begun(asked: frozenset[str], beginnings: tuple[str, ...]) -> bool:
    """Whether one of the options that are asked for has one of these beginnings."""
    return any(name.startswith(beginnings) for name in asked if name[:2] == "--")
