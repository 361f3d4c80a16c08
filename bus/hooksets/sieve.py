"""Which rules a command line may fit at all, by marks, words and short texts: most rules fall through without being judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import OverBudget
from bus.matching.command_facts import CommandFacts, empties_own_input
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import OWN_INPUT_ALONE, marks_of, programs_of
from bus.matching.flags import flag_names
from bus.matching.globs import PathIndex, literal_of
from bus.matching.needles import (
    NOTHING,
    Needles,
    NeedleSearch,
    needle_search,
    needles_in_literals,
    needles_of,
    words_of,
    worth,
)
from bus.matching.paths import Place, place_of
from bus.matching.rules import Rule, marks
from bus.matching.statements import WORTH
from bus.matching.subcommands import first_words, subcommand_needles
from bus.shell import without_quotes
from bus.shell.commands import CHANGES, Command, Commands

_GIVEN: Final = "is given a path that some rule asks for"
_CHANGED: Final = "changes a path that some rule asks for"
_OWN_INPUT: Final = "empties its own input"
"""Marks that a line gets here, and only where a rule asks: they take a look at paths."""

_LOOKS: Final = frozenset({_CHANGED, _GIVEN})
_NO_WORDS: Final[frozenset[bytes]] = frozenset()
_NO_RULES: Final[frozenset[str]] = frozenset()
_NULL: Final = "/dev/null"
_STAR: Final = "[*]"
_WIDE: Final = re.compile(r"[~/.]*[*?][~/.*?]*")
"""A path pattern that fits most paths, such as `/**`; a look for one would let most lines through."""


class _Need(NamedTuple):
    """What a line has to hold for one of a rule's conditions to fit; of each set it has one, empty where any will do."""

    rule: str
    marks: tuple[str, ...]
    """Further marks; the line must have all of them."""
    words: frozenset[str]
    args: frozenset[str]
    flags: tuple[frozenset[str], ...]
    texts: tuple[NeedleSearch, ...]
    """Are in its commands, lower-cased; the rarest first."""

    def is_met(self, seen: _Seen) -> bool:
        """Whether the line has all of it."""
        if self.args and self.args.isdisjoint(seen.args):
            return False
        if seen.is_plain:
            for search in self.texts:
                if not search.is_met(seen.text, seen.words):
                    return False
        for flags in self.flags:
            if flags.isdisjoint(seen.flags):
                return False
        for mark in self.marks:  # noqa: SIM110  (a generator for `all` takes three times as long, and this runs most)
            if self.rule not in seen.rules_with(mark):
                return False
        return True


class _Seen:
    """What rules ask of a line, each found when the first one asks."""

    __slots__ = ("_args", "_facts", "_flags", "_found", "_line", "_rules", "_sieve", "is_plain", "text", "words")

    def __init__(self, sieve: Sieve, line: Commands, text: str, facts: Callable[[], Sequence[CommandFacts]]) -> None:
        self._sieve, self._line, self._facts = sieve, line, facts
        self.text = _searched_text(line.items, text)
        self.is_plain = self.text.isascii()
        """It is ASCII; in any other text a letter may stand for one of another case, so it may hold anything."""
        self.words = words_of(self.text) if self.is_plain else _NO_WORDS
        self._args: frozenset[str] | None = None
        self._flags: frozenset[str] | None = None
        self._rules: dict[str, AbstractSet[str]] = {}
        """By mark."""
        self._found: dict[str, AbstractSet[str]] = {}
        """By path, the rules that ask for it: each path is looked at once, and none before a rule asks."""

    @property
    def args(self) -> frozenset[str]:
        """Every argument."""
        if self._args is None:
            items = self._line.items
            self._args = frozenset(items[0].words if len(items) == 1 else [word for one in items for word in one.words])
        return self._args

    @property
    def flags(self) -> frozenset[str]:
        """Every option, also each letter of `-rf`."""
        if self._flags is None:
            each = [one.flags.names for one in self._facts() if one.words]
            self._flags = each[0] if len(each) == 1 else frozenset().union(*each)
        return self._flags

    def rules_with(self, mark: str) -> AbstractSet[str]:
        """The rules for which the line has this mark."""
        known = self._rules.get(mark)
        if known is None:
            known = self._rules[mark] = self._rules_with(mark)
        return known

    def _rules_with(self, mark: str) -> AbstractSet[str]:
        """The rules for which the line has a mark that may take a look at paths; in doubt all of them."""
        if mark == _OWN_INPUT:
            return self._sieve.marked if any(map(empties_own_input, self._line.items)) else _NO_RULES
        if mark not in _LOOKS or (mark == _CHANGED and CHANGES not in self._line.marks):
            return self._sieve.marked if mark in self._line.marks else _NO_RULES
        asks_for_null = self._sieve.asks_for_null
        found: set[str] = set()
        try:
            for one in self._facts():
                for word in one.changed if mark == _CHANGED else self._sieve.operands_of(one):
                    if word != _NULL or asks_for_null:
                        for path in one.paths_of(word):
                            found |= self._rules_for(path, one.place)
        except OverBudget:
            return self._sieve.marked
        return found

    def _rules_for(self, path: str, place: Place) -> AbstractSet[str]:
        known = self._found.get(path)
        if known is None:
            known = self._found[path] = self._sieve.paths.find(path, place)
        return known


class _Needs:
    """What rules ask for, by one thing that a line has to have for each: only what the line has is looked at further."""

    __slots__ = ("_args", "_by_arg", "_by_marks", "_by_text", "_by_word", "_others", "_sure", "_words")

    def __init__(self, needs: Iterable[_Need] = ()) -> None:
        self._sure: frozenset[str] = frozenset(need.rule for need in needs if not any(need[1:]))
        self._by_arg: dict[str, tuple[_Need, ...]] = {}
        """By an argument: a subcommand's first word, or one that is asked for as a whole."""
        self._by_word: dict[bytes, tuple[_Need, ...]] = {}
        """By a word of its text."""
        self._by_text: dict[str, tuple[_Need, ...]] = {}
        """By a short text in its text."""
        self._by_marks: dict[tuple[str, ...], dict[str, tuple[_Need, ...]]] = {}
        """By further marks, and by rule. Only where one rule asks for nothing else: it needs a look at paths anyway."""
        self._others: tuple[_Need, ...] = ()
        left = [need for need in needs if need.rule not in self._sure]
        looks = any(need.marks and not any(need[2:]) for need in left)
        for need in left:
            self._add(need, looks=looks)
        self._args, self._words = frozenset(self._by_arg), frozenset(self._by_word)

    def _add(self, need: _Need, *, looks: bool) -> None:
        if looks and not _LOOKS.isdisjoint(need.marks):
            by_rule = self._by_marks.setdefault(need.marks, {})
            by_rule[need.rule] = (*by_rule.get(need.rule, ()), need)
        elif args := need.words or need.args:
            for arg in args:
                self._by_arg[arg] = (*self._by_arg.get(arg, ()), need)
        elif need.texts:
            for word in need.texts[0].words:
                self._by_word[word] = (*self._by_word.get(word, ()), need)
            for text in need.texts[0].texts:
                self._by_text[text] = (*self._by_text.get(text, ()), need)
        else:
            self._others = (*self._others, need)

    def add_met(self, seen: _Seen, found: set[str]) -> None:
        """Add to `found` the rules that a line may fit."""
        found |= self._sure
        plain = seen.is_plain
        if self._words:
            for word in self._words.intersection(seen.words) if plain else self._words:
                _add_met(self._by_word[word], seen, found)
        if self._by_text:
            whole = seen.text
            for text, needs in self._by_text.items():
                if text in whole or not plain:
                    _add_met(needs, seen, found)
        if self._args:
            for arg in self._args.intersection(seen.args):
                _add_met(self._by_arg[arg], seen, found)
        if self._others:
            _add_met(self._others, seen, found)
        for more, by_rule in self._by_marks.items():
            for rule in by_rule.keys() & seen.rules_with(more[-1]):
                _add_met(by_rule[rule], seen, found)


class Sieve:
    """Leaves out the rules that cannot fit a command line; what it lets through is judged as ever.

    What the rules about a program need is found out when a line runs it first, or by `prepare`: of all it takes 0.2 s.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = [name for name, rule in rules.items() if marks(rule)]
        unmarked = frozenset(rules).difference(marked)
        texts = {name: needles for name in sorted(unmarked) if (needles := _own_texts(rules[name].command))}
        self.always = unmarked.difference(texts)
        """The rules that any line may fit."""
        self._unmarked = _Needs([_text_need(name, needles) for name, needles in texts.items()])
        """Those of the rules that ask for no mark, but for texts."""
        self._conditions: dict[str, list[tuple[str, Rule, CommandMatch]]] = {}
        """By mark the conditions that ask for it, each with its rule."""
        self._by_mark: dict[str, _Needs] = {}
        paths: dict[str, dict[str, None]] = {}
        given_to: set[str] = set()
        any_program = False
        for name in marked:
            for condition in rules[name].commands:
                asked = _narrow((*condition.changes, *condition.redirects_to)) + _narrow(condition.paths)
                if asked and condition.touches != OWN_INPUT_ALONE:
                    paths.setdefault(name, {}).update(dict.fromkeys(asked))
                if _GIVEN in _further_marks(condition):
                    given_to |= marks_of(condition)
                    any_program |= not condition.program
                for mark in marks_of(condition):
                    self._conditions.setdefault(mark, []).append((name, rules[name], condition))
        self.marked = frozenset(marked)
        self._given_to = None if any_program else frozenset(given_to)
        """The programs of which some rule asks what paths they are given; None for any."""
        self.paths = PathIndex(paths)
        self.asks_for_null = bool(self.paths.find(_NULL, place_of("/", here=False)))
        """Whether some rule asks for `/dev/null`, which most redirections name."""

    def prepare(self) -> None:
        """Find out now what rules need of lines of every program."""
        for mark in self._conditions:
            self._needs(mark)

    def _needs(self, mark: str) -> _Needs | None:
        """What rules that ask for this mark ask for besides; None where no rule asks for it."""
        known = self._by_mark.get(mark)
        if known is None and (conditions := self._conditions.get(mark)):
            known = _Needs([_need(name, match, rule.command) for name, rule, match in conditions])
            self._by_mark[mark] = known
        return known

    def operands_of(self, one: CommandFacts) -> tuple[str, ...]:
        """The paths that a command is given, if a rule may ask for them."""
        programs = self._given_to
        return one.operands if programs is None or one.program in programs or "." in one.program else ()

    def passing(self, line: Commands, text: str, facts: Callable[[], Sequence[CommandFacts]]) -> set[str]:
        """The rules beside `always` that may fit `text`, which was read as `line`; `facts` gives those of its commands."""
        found: set[str] = set()
        seen = _Seen(self, line, text, facts)
        self._unmarked.add_met(seen, found)
        for mark in self._conditions.keys() & line.marks:
            needs = self._needs(mark)
            if needs is not None:
                needs.add_met(seen, found)
        return found


def _add_met(needs: Iterable[_Need], seen: _Seen, found: set[str]) -> None:
    for need in needs:
        if need.rule not in found and need.is_met(seen):
            found.add(need.rule)


def _text_need(rule: str, texts: Needles) -> _Need:
    return _Need(rule, (), frozenset(), frozenset(), (), (needle_search(texts),))


def _narrow(globs: tuple[str, ...]) -> tuple[str, ...]:
    """Path patterns of which a fitting path is worth a look; none where one of them fits most paths."""
    return () if any(map(_WIDE.fullmatch, globs)) else globs


def _further_marks(match: CommandMatch) -> tuple[str, ...]:
    """The marks that a line has to have for `match` besides one of `marks_of`; those that take a look at paths come last."""
    own_input = match.touches == OWN_INPUT_ALONE
    changes = (*match.changes, *match.redirects_to)
    more = {
        _OWN_INPUT: own_input,
        CHANGES: bool(changes) or match.loses == ("contents",),
        _CHANGED: bool(_narrow(changes)) and not own_input,
        _GIVEN: bool(_narrow(match.paths)) and not own_input,
    }
    return tuple(mark for mark, asked in more.items() if asked)


@lru_cache(maxsize=1024)
def _own_texts(patterns: tuple[str, ...]) -> Needles:
    """What is in the whole text where a rule with these patterns fits."""
    return needles_of(patterns)


@lru_cache(maxsize=4096)
def _need(rule: str, match: CommandMatch, command: tuple[str, ...]) -> _Need:
    """What `match` asks for, of a rule that looks for the patterns `command` in the whole text."""
    exact, args = _args(match.args)
    known = frozenset(match.program) | first_words(match.subcommand)
    texts = (
        subcommand_needles(match.subcommand),
        needles_of(match.line, known),
        needles_of(match.text),
        needles_in_literals(WORTH) if match.destroys else NOTHING,
        args,
        _own_texts(command),
    )
    return _Need(
        rule,
        _further_marks(match),
        first_words(match.subcommand),
        exact,
        flag_names(programs_of(match) or frozenset(), match.flags_any, match.flags_all),
        tuple(map(needle_search, sorted(filter(None, texts), key=worth, reverse=True))),
    )


def _args(globs: Sequence[str]) -> tuple[frozenset[str], Needles]:
    """The arguments of which a fitting line has one, else such texts. Both are empty if neither is known."""
    plain = [glob.replace(_STAR, "*") for glob in globs if not any(sign in glob.replace(_STAR, "") for sign in "*?[…")]
    if len(plain) == len(globs):
        return frozenset(plain), NOTHING
    patterns = [glob for glob in globs if glob.replace(_STAR, "*") not in plain]
    return frozenset(), needles_in_literals([*(f" {word.lower()} " for word in plain), *map(literal_of, patterns)])


def _searched_text(items: Sequence[Command], text: str) -> str:
    """All that a condition may look for texts in: the line as it is written, without quotes, and as commands; lower-cased.

    There is a blank on either side of each.
    """
    unquoted = f" {without_quotes(text)} "
    parts = [f" {text} ", unquoted] if len(unquoted) != len(text) + 2 else [unquoted]
    for one in items:
        spoken = f" {one.spoken if one.redirects or one.assignments else one.line} "
        if spoken not in unquoted:
            parts.append(spoken)
        if one.stdin:
            parts.append(f" {one.stdin} ")
    # `…` stands for what is not known: it is no letter that could be one of a text in another case.
    return "\n".join(parts).replace("…", " ").lower()
