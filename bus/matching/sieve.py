"""Which rules a command line may fit at all, by marks, words and short texts: most rules fall through without being judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.hooks import Hook
from bus.matching.command_rules import CommandMatch, marks_of
from bus.matching.globs import longest_literal
from bus.matching.needles import Needles, needles_of
from bus.matching.regexes import Regex, compile_alternatives
from bus.matching.rules import Rule, marks
from bus.matching.subcommands import first_words
from bus.shell import as_read
from bus.shell.commands import Command, Commands

_FLAG: Final = frozenset([" -"])
_REMEMBER: Final = 64


class _Need(NamedTuple):
    """What a line has to hold for one of a rule's conditions to fit."""

    rule: str
    words: frozenset[str]
    """Of which it has one; empty where any will do."""
    texts: tuple[Needles, ...]
    """Of each of these one is in its commands, lower-cased."""

    def fits(self, lines: str) -> bool:
        """Whether its texts are in the commands."""
        for one in self.texts:  # noqa: SIM110  (a generator for `all` takes three times as long, and this runs most)
            if not _holds(lines, one):
                return False
        return True


class _ByMark(NamedTuple):
    """What is asked of a line with one mark."""

    sure: frozenset[str]
    """The rules that its mark alone lets through."""
    by_word: dict[str, tuple[_Need, ...]]
    others: tuple[_Need, ...]
    """Those that ask for no word."""
    any_text: tuple[Regex, ...]
    """Finds a text that any of the others asks for."""


class Sieve:
    """Leaves out the rules that cannot fit a command line; what it lets through is judged as ever."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = [name for name, rule in rules.items() if marks(rule)]
        self._rules = frozenset(rules)
        self._unmarked = self._rules.difference(marked)
        needs: dict[str, list[_Need]] = {}
        for name in marked:
            for condition in rules[name].commands:
                need = _Need(name, first_words(condition.subcommand), _texts_of(condition))
                for mark in marks_of(condition):
                    needs.setdefault(mark, []).append(need)
        self._by_mark = {mark: _by_mark(some) for mark, some in needs.items()}
        self._texts = {name: found for name, rule in rules.items() if (found := needles_of(rule.command))}
        """By rule, what the event's own text has to hold."""
        self._any_text = compile_alternatives(map(re.escape, sorted(frozenset[str]().union(*self._texts.values()))))
        self._places: dict[int, tuple[Sequence[Hook], dict[str, int], tuple[int, ...]]] = {}

    def keep(self, hooks: Sequence[Hook], line: Commands, text: str) -> list[Hook]:
        """The hooks, in their order, without the rules that do not fit `text`, which was read as `line`, as a whole."""
        _, places, others = self._placed(hooks)
        kept = [*others, *(places[name] for name in self.passing(line, text) if name in places)]
        return [hooks[place] for place in sorted(kept)]

    def _placed(self, hooks: Sequence[Hook]) -> tuple[Sequence[Hook], dict[str, int], tuple[int, ...]]:
        """Where each rule is among the hooks, and where the others are; remembered, since the same hooks come again."""
        known = self._places.get(id(hooks))
        if known is None:
            places = {hook.id: place for place, hook in enumerate(hooks) if hook.id in self._rules}
            others = tuple(place for place, hook in enumerate(hooks) if hook.id not in self._rules)
            if len(self._places) >= _REMEMBER:
                self._places.clear()
            known = self._places[id(hooks)] = (hooks, places, others)  # which keeps them, and so their number
        return known

    def passing(self, line: Commands, text: str) -> set[str]:
        """The rules that may fit."""
        found = set(self._unmarked)
        words: frozenset[str] | None = None
        lines = ""
        for mark in line.marks:
            known = self._by_mark.get(mark)
            if known is None:
                continue
            found |= known.sure
            if words is None:
                words, lines = _words(line.items), _lines(line.items)
            for word in words.intersection(known.by_word) if known.by_word else ():
                found.update([need.rule for need in known.by_word[word] if need.fits(lines)])
            if known.others and _may_hold(lines, known.any_text):
                found.update([need.rule for need in known.others if need.fits(lines)])
        lowered = text.lower()
        if text.isascii():  # `…` stands for what is not known, and is no letter
            lowered = f"{lowered}\n{as_read(line, text).replace('…', '').lower()}"
        if not _may_hold(lowered, self._any_text):
            return found.difference(self._texts)
        return {name for name in found if (needles := self._texts.get(name)) is None or _holds(lowered, needles)}


def _by_mark(needs: Sequence[_Need]) -> _ByMark:
    sure = frozenset(need.rule for need in needs if not need.words and not need.texts)
    by_word: dict[str, tuple[_Need, ...]] = {}
    for need in needs:
        for word in need.words if need.rule not in sure else ():
            by_word[word] = (*by_word.get(word, ()), need)
    others = tuple(need for need in needs if not need.words and need.rule not in sure)
    texts = sorted(frozenset[str]().union(*(need.texts[0] for need in others)))
    return _ByMark(sure, by_word, others, compile_alternatives(map(re.escape, texts)))


def _may_hold(text: str, regexes: Iterable[Regex]) -> bool:
    return not text.isascii() or any(regex.search(text) is not None for regex in regexes)


def _texts_of(match: CommandMatch) -> tuple[Needles, ...]:
    """What a command's line has to hold for `match` to fit, beside its subcommand."""
    args = frozenset(map(longest_literal, match.args))
    found = (
        needles_of(match.line),
        needles_of(match.text),
        args if all(args) else frozenset[str](),
        _FLAG if match.flags_any or match.flags_all else frozenset[str](),
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
