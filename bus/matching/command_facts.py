"""The facts about one command of a command line that conditions ask for. Each fact is computed at the first use and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import PackageKind
from bus.matching.facts.package_names import kinds_of_packages
from bus.matching.flags import Flags, flags_of
from bus.matching.paths import Place, is_outside, located
from bus.matching.subcommands import Verbs, verbs_of
from bus.shell.command_paths import CHANGING, UNLINKING, changed, operands
from bus.shell.commands import Command, plain_path
from bus.shell.words import MAYBE_EMPTY, UNKNOWN, UNSET, is_hidden, shown

_T = TypeVar("_T")

Where = Callable[[], Place]
"""Returns where a command runs. A function, because only the conditions on paths need it."""

_EMPTYING: Final = frozenset({">", ">|", "&>", ">&"})
_AT_ROOT: Final = lazy_regex(
    rf"{UNKNOWN}{MAYBE_EMPTY}?(?:/\.\.)+(?:/\*?)?|(?:{UNSET}|{UNKNOWN}{MAYBE_EMPTY})+/(?:{UNSET}+/?|\.\./)*(?:\.|\*|\.\*|\.\[[!^]\.\]\*|(?:\.\./?)+\*?|(?:usr|etc|var|home|boot|srv|sbin|Users)/?\*?)?"
)


class _Fact(Generic[_T]):
    """A fact that is computed at the first use and then an ordinary attribute (`cached_property` would take a lock)."""

    def __init__(self, find: Callable[[Any], _T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, facts: Any, _kind: type) -> _T:
        found = self._find(facts)
        setattr(facts, self._name, found)
        return found


class CommandFacts:
    """The facts about one command where it runs. Raises OverBudget if the request has no look-ups on disk left."""

    def __init__(self, command: Command, where: Where) -> None:
        self.command = command
        self.program = command.program
        self.words = command.words
        self._where = where
        self._paths: dict[str, tuple[str, ...]] = {}

    @_Fact
    def place(self) -> Place:
        """Where it runs."""
        return self._where()

    @_Fact
    def line(self) -> str:
        """Program and arguments, as patterns see them."""
        return self.command.line

    @_Fact
    def arguments(self) -> tuple[str, ...]:
        """Each argument, as patterns see it."""
        words = self.words
        return tuple(map(shown, words)) if is_hidden("".join(words)) else words

    @_Fact
    def texts(self) -> tuple[str, ...]:
        """The texts that its program may run as code: each argument, and its standard input."""
        stdin = self.command.stdin
        return self.arguments if stdin is None else (*self.arguments, shown(stdin))

    @_Fact
    def flags(self) -> Flags:
        """Its options."""
        return flags_of(self.command)

    @_Fact
    def verbs(self) -> Verbs:
        """Its first words that are no options."""
        return verbs_of(self.command)

    @_Fact
    def operands(self) -> tuple[str, ...]:
        """The paths among its arguments."""
        return operands(self.command)

    @_Fact
    def changed(self) -> tuple[str, ...]:
        """The paths that it writes, replaces or removes."""
        return changed(self.command, self.operands if self.program in CHANGING else None)

    @_Fact
    def installed(self) -> frozenset[PackageKind]:
        """The kinds of the packages that it installs, runs or writes into a manifest."""
        return kinds_of_packages(self.command, self.place)

    @_Fact
    def empties_own_input(self) -> bool:
        """Whether it empties a file that it reads."""
        return empties_own_input(self.command)

    @_Fact
    def is_root_if_unset(self) -> bool:
        """Whether one of its paths, if unset variables are empty, is `/`, everything in it, or a system directory in it.

        The output of a command may be empty too, and the parent of a path that is not known counts as well.
        """
        words, directory = self.operands, self.command.directory
        if UNSET in directory or MAYBE_EMPTY in directory:  # `cd $x; rm -rf *`
            words += tuple(f"{directory}/{word.removeprefix('./')}" for word in words)
        return any(is_hidden(word[:1]) and _AT_ROOT.fullmatch(word) is not None for word in words)

    @_Fact
    def _outside(self) -> dict[str, str | None]:
        return {}

    def paths_of(self, word: str) -> tuple[str, ...]:
        """The path of a word as it is written, and its real path where that is another one (`/bin` is a link on Linux)."""
        known = self._paths.get(word)
        if known is None:
            known = self._paths[word] = both_paths(word, self.place, self.command.directory)
        return known

    def target_of(self, word: str) -> str | None:
        """The path that it acts on if it gets a word as its path; None if that is not known."""
        if self.program in UNLINKING and self.place.here:
            return located(word, self.place, self.command.directory, links="parents")
        paths = self.paths_of(word)
        return paths[-1] if paths else None

    def outside_of(self, word: str) -> str | None:
        """The path that it acts on if it gets a word as its path, but only a path outside the project."""
        if word not in self._outside:
            path = self.target_of(word)
            self._outside[word] = path if path is not None and is_outside(path, self.place) else None
        return self._outside[word]


def both_paths(word: str, place: Place, directory: str) -> tuple[str, ...]:
    """The path of a word as it is written, and also its real path if that differs; empty if they are not known."""
    written = located(word, place, directory, links="none")
    if written is None:
        return ()
    resolved = located(word, place, directory) if place.here else written
    return (written,) if resolved is None or resolved == written else (written, resolved)


def empties_own_input(command: Command) -> bool:
    """Whether a command empties a file that it reads, by a redirection or as `tee`."""
    if command.program == "tee":
        return not set(map(plain_path, command.reads)).isdisjoint(map(plain_path, command.words))
    if not command.redirects:
        return False
    emptied = [to for sign, to in command.redirects if sign in _EMPTYING]
    if not emptied:
        return False
    # `git show HEAD:file` reads git's copy of the file.
    given = (word.rpartition(":")[2] if command.program == "git" else word for word in command.words if word[:1] != "-")
    read = {plain_path(word) for word in (*given, *command.reads)}
    return not read.isdisjoint(map(plain_path, emptied))
