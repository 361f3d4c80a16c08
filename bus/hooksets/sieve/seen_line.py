"""The facts about a command line that tell which rules may fit it. Each is computed when the first rule needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from bus.errors import OverBudget
from bus.matching.command_facts import CommandFacts, empties_own_input
from bus.matching.globs import PathIndex
from bus.matching.needles import words_of
from bus.shell import without_quotes
from bus.shell.commands import CHANGES, Command, Commands
from bus.shell.words import shown

GIVEN: Final = "is given a path that some rule asks for"
CHANGED: Final = "changes a path that some rule asks for"
OWN_INPUT: Final = "empties its own input"
SETS: Final = "sets a variable for a command"
"""Marks that depend on the paths or assignments in a line. They are computed here, and only if a rule needs them."""
LOOKS: Final = frozenset({CHANGED, GIVEN})
"""The marks for which paths are compared with patterns."""
_NO_WORDS: Final[frozenset[bytes]] = frozenset()
_NO_RULES: Final[frozenset[str]] = frozenset()
_NULL: Final = "/dev/null"


class Asked(NamedTuple):
    """What the rules ask about paths."""

    marked: frozenset[str]
    """All rules that need a mark."""
    paths: PathIndex
    """The patterns for paths, by rule."""
    asks_for_null: bool
    """Whether some rule asks for `/dev/null`, which most redirections name."""
    given_to: frozenset[str] | None
    """The programs that some rule checks the path arguments of; None for every program."""

    def operands_of(self, one: CommandFacts) -> tuple[str, ...]:
        """The paths among a command's arguments; empty if no rule can need them."""
        programs = self.given_to
        return one.operands if programs is None or one.program in programs or "." in one.program else ()


class SeenLine:
    """The facts about a line that rules need."""

    __slots__ = (
        *("_args", "_asked", "_facts", "_flags", "_found", "_line", "_piped_from", "_programs", "_rules"),
        *("is_plain", "text", "words"),
    )

    def __init__(self, asked: Asked, line: Commands, text: str, facts: Callable[[], Sequence[CommandFacts]]) -> None:
        self._asked, self._line, self._facts = asked, line, facts
        self.text = _searched_text(line.items, text)
        self.is_plain = self.text.isascii()
        """Whether the text is ASCII. Other letters may match in another case, so other texts count as containing anything."""
        self.words = words_of(self.text) if self.is_plain else _NO_WORDS
        self._programs: list[str] | None = None
        self._args: frozenset[str] | None = None
        self._flags: AbstractSet[str] | None = None
        self._piped_from: frozenset[str] | None = None
        self._rules: dict[str, AbstractSet[str]] = {}
        """For each mark, the rules for which the line has it."""
        self._found: dict[str, AbstractSet[str]] = {}
        """For each path, the rules with a pattern that fits it. Each path is looked up once, when a rule needs it."""

    @property
    def programs(self) -> list[str]:
        """The program of each command."""
        if self._programs is None:
            self._programs = [one.program for one in self._line.items]
        return self._programs

    @property
    def args(self) -> frozenset[str]:
        """Every argument."""
        if self._args is None:
            items = self._line.items
            self._args = frozenset(items[0].words if len(items) == 1 else [word for one in items for word in one.words])
        return self._args

    @property
    def flags(self) -> AbstractSet[str]:
        """Every option, also each letter of `-rf`."""
        if self._flags is None:
            each = [one.flags.names for one in self._facts() if one.words]
            self._flags = each[0] if len(each) == 1 else frozenset().union(*each)
        return self._flags

    @property
    def piped_from(self) -> frozenset[str]:
        """Every program whose output another command of the line reads."""
        if self._piped_from is None:
            self._piped_from = frozenset([name for one in self._line.items for name in one.piped_from])
        return self._piped_from

    def rules_with(self, mark: str) -> AbstractSet[str]:
        """The rules for which the line has this mark."""
        known = self._rules.get(mark)
        if known is None:
            try:
                known = self._with_path(mark) if mark in LOOKS else self._asked.marked if self._has(mark) else _NO_RULES
            except OverBudget:
                known = self._asked.marked
            self._rules[mark] = known
        return known

    def _has(self, mark: str) -> bool:
        """Whether the line has a mark that is the same for all rules."""
        if mark == OWN_INPUT:
            return any(map(empties_own_input, self._line.items))
        if mark == SETS:
            return any(one.assignments for one in self._line.items)
        return mark in self._line.marks

    def _with_path(self, mark: str) -> AbstractSet[str]:
        """The rules with a pattern that fits one of the paths."""
        found: set[str] = set()
        if mark == CHANGED and CHANGES not in self._line.marks:
            return found
        asked, rules_for = self._asked, self._found
        for one in self._facts():
            for word in one.changed if mark == CHANGED else asked.operands_of(one):
                if word == _NULL and not asked.asks_for_null:
                    continue
                for path in one.paths_of(word):
                    if path not in rules_for:
                        rules_for[path] = asked.paths.find(path, one.place)
                    found |= rules_for[path]
        return found


def _searched_text(items: Sequence[Command], text: str) -> str:
    """Every text that conditions search: the line as written, without quotes, and as commands; lower-cased.

    Each has a blank on either side.
    """
    unquoted = f" {without_quotes(text)} "
    whole = unquoted if len(unquoted) == len(text) + 2 else f" {text} \n{unquoted}"
    more: list[str] = []
    for one in items:
        spoken = one.spoken if one.redirects or one.assignments else shown(" ".join((one.program, *one.words)))
        if (spoken := f" {spoken} ") not in unquoted:
            more.append(spoken)
        if one.stdin:
            more.append(f" {one.stdin} ")
    if more:
        whole = "\n".join((whole, *more))
    if not whole.isascii():
        # `…` marks an unknown part. It is no letter, so no letter of a searched text equals it in another case.
        whole = whole.replace("…", " ")
    return whole.lower()
