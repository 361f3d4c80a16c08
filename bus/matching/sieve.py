"""Which rules a command line may fit at all, by marks, words and short texts: most rules fall through without being judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bus.matching.command_rules import CommandMatch, marks_of
from bus.matching.globs import longest_literal
from bus.matching.needles import Needles, needles_of
from bus.matching.rules import Rule, marks
from bus.matching.subcommands import first_words
from bus.shell.commands import Command, Commands

_FLAG: Final = frozenset([" -"])


class _Need(NamedTuple):
    """What a line has to hold for one of a rule's conditions to fit."""

    rule: str
    words: frozenset[str]
    """Of which it has one; empty where any will do."""
    texts: tuple[Needles, ...]
    """Of each of these one is in its commands, lower-cased."""


class Sieve:
    """Leaves out the rules that cannot fit a command line; what it lets through is judged as ever."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = {name: found for name, rule in rules.items() if (found := marks(rule))}
        self._unmarked = frozenset(rules) - frozenset(marked)
        self._known = frozenset(rules)
        self._sure: dict[str, frozenset[str]] = {}
        self._needs: dict[str, tuple[_Need, ...]] = {}
        """By mark."""
        self._texts = {name: found for name, rule in rules.items() if (found := needles_of(rule.command))}
        """By rule, what the event's own text has to hold."""
        for name in marked:
            for condition in rules[name].commands:
                need = _Need(name, first_words(condition.subcommand), _texts_of(condition))
                for mark in marks_of(condition):
                    if need.words or need.texts:
                        self._needs[mark] = (*self._needs.get(mark, ()), need)
                    else:
                        self._sure[mark] = self._sure.get(mark, frozenset()) | {name}

    def left_out(self, line: Commands, text: str) -> frozenset[str]:
        """The rules that do not fit `text`, which was read as `line`, as a whole."""
        found = set(self._unmarked)
        words: frozenset[str] | None = None
        lines = ""
        for mark in line.marks:
            found |= self._sure.get(mark, frozenset())
            for name, wanted, texts in self._needs.get(mark, ()):
                if name in found:
                    continue
                if words is None:
                    words, lines = _words(line.items), _lines(line.items)
                if (not wanted or not wanted.isdisjoint(words)) and all(_holds(lines, one) for one in texts):
                    found.add(name)
        lowered = text.lower()
        return self._known.difference(
            name for name in found if (needles := self._texts.get(name)) is None or _holds(lowered, needles)
        )


def _texts_of(match: CommandMatch) -> tuple[Needles, ...]:
    """What a command's line has to hold for `match` to fit, beside its subcommand."""
    args = frozenset(map(longest_literal, match.args))
    found = (
        _FLAG if match.flags_any or match.flags_all else frozenset[str](),
        args if all(args) else frozenset[str](),
        needles_of(match.line),
        needles_of(match.text),
    )
    return tuple(one for one in found if one)


def _words(items: Iterable[Command]) -> frozenset[str]:
    return frozenset([word for command in items for word in command.words])


def _lines(items: Iterable[Command]) -> str:
    """All that a condition may look for texts in."""
    return "\n".join([f"{one.line}\n{one.stdin or ''}" for one in items]).lower()


def _holds(text: str, needles: Needles) -> bool:
    """Whether one of `needles` is in `text`; a text that is not ASCII may have them in other letters."""
    for needle in needles:  # no generator for `any`, which takes three times as long: this runs most
        if needle in text:
            return True
    return not text.isascii()
