"""Selects the rules that may fit a command line, by marks, words and short texts. Most rules need no other check."""

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
from bus.matching.facts.secrets import Secret, SecretClass
from bus.matching.facts.sql_files import ENDINGS
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
from bus.matching.paths import place_of
from bus.matching.rules import Rule, marks
from bus.matching.statements import WORTH
from bus.matching.subcommands import first_words, subcommand_needles
from bus.shell import without_quotes
from bus.shell.commands import CHANGES, Command, Commands

_GIVEN: Final = "is given a path that some rule asks for"
_CHANGED: Final = "changes a path that some rule asks for"
_OWN_INPUT: Final = "empties its own input"
_SETS: Final = "sets a variable for a command"
"""Marks that depend on the paths or assignments in a line. They are computed here, and only if a rule needs them."""

_LOOKS: Final = frozenset({_CHANGED, _GIVEN})
_NO_WORDS: Final[frozenset[bytes]] = frozenset()
_NO_RULES: Final[frozenset[str]] = frozenset()
_NULL: Final = "/dev/null"
_STAR: Final = "[*]"
_WIDE: Final = re.compile(r"[~/.]*[*?][~/.*?]*")
"""A path pattern that fits most paths, such as `/**`. A check for one would exclude few lines."""


class _Need(NamedTuple):
    """The least that a line must contain to fit one of a rule's conditions.

    It must contain at least one item of each set; an empty set asks for nothing.
    """

    rule: str
    marks: tuple[str, ...]
    """Further marks; the line must have all of them."""
    words: frozenset[str]
    args: frozenset[str]
    flags: tuple[frozenset[str], ...]
    texts: tuple[NeedleSearch, ...]
    """Texts in its commands, lower-cased; the rarest first."""

    def is_met(self, seen: _Seen) -> bool:
        """Whether the line contains all of it."""
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
    """The facts about a line that rules need. Each is computed when the first rule needs it."""

    __slots__ = ("_args", "_facts", "_flags", "_found", "_line", "_rules", "_sieve", "is_plain", "text", "words")

    def __init__(self, sieve: Sieve, line: Commands, text: str, facts: Callable[[], Sequence[CommandFacts]]) -> None:
        self._sieve, self._line, self._facts = sieve, line, facts
        self.text = _searched_text(line.items, text)
        self.is_plain = self.text.isascii()
        """Whether the text is ASCII. Other letters may match in another case, so other texts count as containing anything."""
        self.words = words_of(self.text) if self.is_plain else _NO_WORDS
        self._args: frozenset[str] | None = None
        self._flags: AbstractSet[str] | None = None
        self._rules: dict[str, AbstractSet[str]] = {}
        """For each mark, the rules for which the line has it."""
        self._found: dict[str, AbstractSet[str]] = {}
        """For each path, the rules with a pattern that fits it. Each path is looked up once, when a rule needs it."""

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

    def rules_with(self, mark: str) -> AbstractSet[str]:
        """The rules for which the line has this mark."""
        known = self._rules.get(mark)
        if known is None:
            known = self._rules[mark] = self._rules_with(mark)
        return known

    def _rules_with(self, mark: str) -> AbstractSet[str]:
        """As `rules_with`, without the memory; all marked rules if the paths cannot be looked up."""
        if mark == _OWN_INPUT:
            return self._sieve.marked if any(map(empties_own_input, self._line.items)) else _NO_RULES
        if mark == _SETS:
            return self._sieve.marked if any(one.assignments for one in self._line.items) else _NO_RULES
        if mark not in _LOOKS or (mark == _CHANGED and CHANGES not in self._line.marks):
            return self._sieve.marked if mark in self._line.marks else _NO_RULES
        sieve, rules_for = self._sieve, self._found
        found: set[str] = set()
        try:
            for one in self._facts():
                for word in one.changed if mark == _CHANGED else sieve.operands_of(one):
                    if word == _NULL and not sieve.asks_for_null:
                        continue
                    for path in one.paths_of(word):
                        if path not in rules_for:
                            rules_for[path] = sieve.paths.find(path, one.place)
                        found |= rules_for[path]
        except OverBudget:
            return sieve.marked
        return found


class _Needs:
    """The needs of rules, indexed by one item that a line must contain, so that only few needs are checked for a line."""

    __slots__ = ("_args", "_by_arg", "_by_marks", "_by_text", "_by_word", "_others", "_sure", "_words")

    def __init__(self, needs: Iterable[_Need] = ()) -> None:
        self._sure: frozenset[str] = frozenset(need.rule for need in needs if not any(need[1:]))
        self._by_arg: dict[str, tuple[_Need, ...]] = {}
        """By an argument: the first word of a subcommand, or a whole argument."""
        self._by_word: dict[bytes, tuple[_Need, ...]] = {}
        """By a word of the line's text."""
        self._by_text: dict[str, tuple[_Need, ...]] = {}
        """By a short text that the line's text contains."""
        self._by_marks: dict[tuple[str, ...], dict[str, tuple[_Need, ...]]] = {}
        """By further marks, and by rule. Used only if a rule needs nothing else: then the paths are looked up anyway."""
        self._others: tuple[_Need, ...] = ()
        left = [need for need in needs if need.rule not in self._sure]
        looks = any(not _LOOKS.isdisjoint(need.marks) and not any(need[2:]) for need in left)
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
            if rules := seen.rules_with(more[-1]):
                for rule in by_rule.keys() & rules:
                    _add_met(by_rule[rule], seen, found)


class Sieve:
    """Leaves out the rules that cannot fit a command line. The others still have to be judged.

    The needs of the rules about a program are worked out when the first line runs that program, or by `prepare` for all
    programs, which takes 0.2 s.
    """

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = [name for name, rule in rules.items() if marks(rule)]
        unmarked = frozenset(rules).difference(marked)
        texts = {name: needles for name in sorted(unmarked) if (needles := _own_texts(rules[name].command))}
        self._secrets: dict[str, frozenset[SecretClass]] = {
            name: frozenset(rules[name].secrets) for name in unmarked.difference(texts) if rules[name].secrets
        }
        """The rules that need a secret of one of these classes."""
        self.always = unmarked.difference(texts, self._secrets)
        """The rules that any line may fit."""
        self._unmarked = _Needs([_text_need(name, needles) for name, needles in texts.items()])
        """The needs of the rules that need no mark but a text."""
        self._conditions: dict[str, list[tuple[str, Rule, CommandMatch]]] = {}
        """For each mark, the conditions that need it, each with its rule."""
        self._by_mark: dict[str, _Needs] = {}
        self._by_conditions: dict[tuple[tuple[str, int], ...], _Needs] = {}
        """The needs by rules and identities of the conditions: most programs of a rule share all of theirs."""
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
        """The programs that some rule checks the path arguments of; None for every program."""
        self.paths = PathIndex(paths)
        self.asks_for_null = bool(self.paths.find(_NULL, place_of("/", here=False)))
        """Whether some rule asks for `/dev/null`, which most redirections name."""

    def prepare(self) -> None:
        """Work out now what the rules about every program need."""
        for mark in self._conditions:
            self._needs(mark)

    def _needs(self, mark: str) -> _Needs | None:
        """What the rules that need this mark need in addition; None if no rule needs it."""
        known = self._by_mark.get(mark)
        if known is None and (conditions := self._conditions.get(mark)):
            same = tuple((name, id(match)) for name, _, match in conditions)
            known = self._by_conditions.get(same)
            if known is None:
                needs = [_need(name, match, rule.command) for name, rule, match in conditions]
                known = self._by_conditions[same] = _Needs(needs)
            self._by_mark[mark] = known
        return known

    def operands_of(self, one: CommandFacts) -> tuple[str, ...]:
        """The paths among a command's arguments; empty if no rule can need them."""
        programs = self._given_to
        return one.operands if programs is None or one.program in programs or "." in one.program else ()

    def passing(
        self,
        line: Commands,
        text: str,
        facts: Callable[[], Sequence[CommandFacts]],
        secrets: Callable[[], Iterable[Secret]] = tuple,
    ) -> set[str]:
        """The rules besides `always` which may fit `text`. `line` is `text` as read.

        `facts` returns facts of its commands, and `secrets` what is secret in the whole call.
        """
        found: set[str] = set()
        if self._secrets and (known := secrets()):
            classes = {secret.of for secret in known}
            found.update(name for name, asked in self._secrets.items() if not asked.isdisjoint(classes))
        seen = _Seen(self, line, text, facts)
        self._unmarked.add_met(seen, found)
        for mark in line.marks:
            needs = self._by_mark.get(mark) or self._needs(mark)
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
    """The patterns, or none if one of them fits most paths: a check for that one would exclude few lines."""
    return () if any(map(_WIDE.fullmatch, globs)) else globs


def _further_marks(match: CommandMatch) -> tuple[str, ...]:
    """The marks that a line must have for `match` in addition to one of `marks_of`. Marks that depend on paths come last."""
    own_input = match.touches == OWN_INPUT_ALONE
    changes = (*match.changes, *match.redirects_to)
    more = {
        _SETS: bool(match.sets),
        _OWN_INPUT: own_input,
        CHANGES: bool(changes) or match.loses == ("contents",),
        _CHANGED: bool(_narrow(changes)) and not own_input,
        _GIVEN: bool(_narrow(match.paths)) and not own_input,
    }
    return tuple(mark for mark, asked in more.items() if asked)


@lru_cache(maxsize=1024)
def _own_texts(patterns: tuple[str, ...]) -> Needles:
    """Needles for the whole text of a line that a rule with these patterns fits."""
    return needles_of(patterns)


@lru_cache(maxsize=4096)
def _need(rule: str, match: CommandMatch, command: tuple[str, ...]) -> _Need:
    """The need of the condition `match` of a rule whose patterns for the whole text are `command`."""
    exact, args = _args(match.args)
    known = _known_words(match)
    texts = (
        subcommand_needles(match.subcommand),
        needles_of(match.line, known),
        needles_of(match.text),
        needles_in_literals(WORTH.union(ENDINGS)) if match.destroys else NOTHING,
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


def _known_words(match: CommandMatch) -> frozenset[str]:
    return frozenset(match.program) | first_words(match.subcommand)


def asked_patterns(rules: Sequence[Rule]) -> set[tuple[str, frozenset[str]]]:
    """Every expression whose needles a sieve of these rules needs, each with the words that are left out of them."""
    asked = {(pattern, _NO_RULES) for rule in rules for pattern in rule.command}
    for match in [match for rule in rules for match in rule.commands]:
        asked.update((pattern, _known_words(match)) for pattern in match.line)
        asked.update((pattern, _NO_RULES) for pattern in match.text)
    return asked


def _args(globs: Sequence[str]) -> tuple[frozenset[str], Needles]:
    """Arguments, or else needles: every fitting line contains one of them. Both are empty if no such item is known."""
    plain = [glob.replace(_STAR, "*") for glob in globs if not any(sign in glob.replace(_STAR, "") for sign in "*?[…")]
    if len(plain) == len(globs):
        return frozenset(plain), NOTHING
    patterns = [glob for glob in globs if glob.replace(_STAR, "*") not in plain]
    return frozenset(), needles_in_literals([*(f" {word.lower()} " for word in plain), *map(literal_of, patterns)])


def _searched_text(items: Sequence[Command], text: str) -> str:
    """Every text that conditions search: the line as written, without quotes, and as commands; lower-cased.

    Each has a blank on either side.
    """
    unquoted = f" {without_quotes(text)} "
    parts = [f" {text} ", unquoted] if len(unquoted) != len(text) + 2 else [unquoted]
    for one in items:
        spoken = f" {one.spoken if one.redirects or one.assignments else one.line} "
        if spoken not in unquoted:
            parts.append(spoken)
        if one.stdin:
            parts.append(f" {one.stdin} ")
    # `…` marks an unknown part. It is no letter, so no letter of a searched text equals it in another case.
    return "\n".join(parts).replace("…", " ").lower()
