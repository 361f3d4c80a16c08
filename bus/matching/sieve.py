"""Which rules a command line may fit at all, by marks, words and short texts: most rules fall through without being judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.errors import OverBudget
from bus.matching.command_rules import OWN_INPUT_ALONE, CommandMatch, both_paths, empties_own_input, marks_of
from bus.matching.globs import compile_path_globs, longest_literal
from bus.matching.needles import Needles, needles_of
from bus.matching.paths import Place
from bus.matching.regexes import Regex, compile_alternatives
from bus.matching.rules import Rule, marks
from bus.matching.subcommands import first_words
from bus.shell import without_quotes
from bus.shell.commands import CHANGES, Command, Commands
from bus.shell.paths import changed

_FLAG: Final = frozenset([" -"])
_FEW: Final = 32
"""Short texts that are found sooner one by one than by an expression for all of them."""

_PROTECTED: Final = "changes a path that some rule asks for"
_OWN_INPUT: Final = "empties its own input"
"""Marks that a line gets here, and only where it changes files: they take a look at paths."""


class _Need(NamedTuple):
    """What a line has to hold for one of a rule's conditions to fit."""

    rule: str
    mark: str
    """One more mark that it has; empty where any will do."""
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
    marked: tuple[_Need, ...]
    """Those that ask for no word, but for one more mark."""
    others: tuple[_Need, ...]
    """Those that ask for texts alone."""
    any_text: tuple[Regex, ...]
    """Finds a text that any of the others asks for; empty where these are few."""


class Sieve:
    """Leaves out the rules that cannot fit a command line; what it lets through is judged as ever."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = [name for name, rule in rules.items() if marks(rule)]
        self._unmarked = frozenset(rules).difference(marked)
        needs: dict[str, list[_Need]] = {}
        paths: dict[str, None] = {}
        for name in marked:
            for condition in rules[name].commands:
                need = _Need(name, _further_mark(condition), first_words(condition.subcommand), _texts_of(condition))
                if need.mark == _PROTECTED:
                    paths.update(dict.fromkeys((*condition.changes, *condition.redirects_to)))
                for mark in marks_of(condition):
                    needs.setdefault(mark, []).append(need)
        self._by_mark = {mark: _by_mark(some) for mark, some in needs.items()}
        self._is_protected = compile_path_globs(paths)
        self._texts = {name: found for name, rule in rules.items() if (found := needles_of(rule.command))}
        """By rule, what the event's own text has to hold."""

    def passing(self, line: Commands, text: str, place: Callable[[], Place] | None = None) -> set[str]:
        """The rules that may fit `text`, which was read as `line` as a whole; `place` says where it runs."""
        found = set(self._unmarked)
        further: frozenset[str] | None = None
        words: frozenset[str] | None = None
        lines = _lines(line.items, text)
        for mark in line.marks:
            known = self._by_mark.get(mark)
            if known is None:
                continue
            found |= known.sure
            if further is None:
                further = self._further(line, place) if CHANGES in line.marks else frozenset()
            needs = [need for need in known.marked if need.mark in further] if further else []
            if known.by_word:
                words = _words(line.items) if words is None else words
                for word in words.intersection(known.by_word):
                    needs += [need for need in known.by_word[word] if not need.mark or need.mark in further]
            if known.others and (not known.any_text or _may_hold(lines, known.any_text)):
                needs += known.others
            found.update([need.rule for need in needs if need.rule not in found and need.fits(lines)])
        return self._with_texts(found, lines)

    def _with_texts(self, rules: Iterable[str], text: str) -> set[str]:
        """Those of the rules that ask for no text, or for one that is in the event's own."""
        held: dict[Needles, bool] = {}  # many rules ask for the same texts
        kept: set[str] = set()
        for name in rules:
            needles = self._texts.get(name)
            if needles is not None:
                if needles not in held:
                    held[needles] = _holds(text, needles)
                if not held[needles]:
                    continue
            kept.add(name)
        return kept

    def _further(self, line: Commands, place: Callable[[], Place] | None) -> frozenset[str]:
        """The marks that take a look at the paths that a line changes; in doubt it has them."""
        found: set[str] = {CHANGES}
        if any(empties_own_input(command) for command in line.items):
            found.add(_OWN_INPUT)
        try:
            if place is None or self._changes_protected(line, place()):
                found.add(_PROTECTED)
        except OverBudget:
            found.add(_PROTECTED)
        return frozenset(found)

    def _changes_protected(self, line: Commands, place: Place) -> bool:
        return any(
            self._is_protected(path, place)
            for command in line.items
            for word in changed(command)
            for path in both_paths(word, place, command.directory)
        )


def _further_mark(match: CommandMatch) -> str:
    """A mark that a line has to have beside one of `marks_of(match)`."""
    if match.touches == OWN_INPUT_ALONE:
        return _OWN_INPUT
    if match.changes or match.redirects_to:
        return _PROTECTED
    return CHANGES if match.loses == ("contents",) else ""


def _by_mark(needs: Sequence[_Need]) -> _ByMark:
    sure = frozenset(need.rule for need in needs if not need.mark and not need.words and not need.texts)
    by_word: dict[str, tuple[_Need, ...]] = {}
    for need in needs:
        for word in need.words if need.rule not in sure else ():
            by_word[word] = (*by_word.get(word, ()), need)
    rest = [need for need in needs if not need.words and need.rule not in sure]
    others = tuple(need for need in rest if not need.mark)
    texts = sorted(frozenset[str]().union(*(need.texts[0] for need in others)))
    any_text = compile_alternatives(map(re.escape, texts)) if len(texts) > _FEW else ()
    return _ByMark(sure, by_word, tuple(need for need in rest if need.mark), others, any_text)


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


def _lines(items: Iterable[Command], text: str) -> str:
    """All that a condition may look for texts in: the line as it is written, without quotes, and as commands; lower-cased."""
    unquoted = without_quotes(text)
    parts = [text, unquoted] if unquoted != text else [text]
    for one in items:
        parts.append(one.spoken if one.redirects or one.assignments else one.line)
        if one.stdin:
            parts.append(one.stdin)
    # `…` stands for what is not known: it is no letter that could be one of a text in another case.
    return "\n".join(parts).replace("…", "").lower()


def _holds(text: str, needles: Needles) -> bool:
    """Whether one of `needles` is in `text`; a text that is not ASCII may have them in other letters."""
    for needle in needles:  # no generator for `any`, which takes three times as long: this runs most
        if needle in text:
            return True
    return not text.isascii()
