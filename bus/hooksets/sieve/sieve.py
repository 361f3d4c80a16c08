"""Selects the rules that may fit a command line, by marks, words and short texts. Most rules need no other check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Final

from bus.hooksets.sieve.needs import RuleNeed, RuleNeeds
from bus.hooksets.sieve.seen_line import (
    CHANGED,
    GIVEN,
    OWN_INPUT,
    SETS,
    Asked,
    SeenLine,
)
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import OWN_INPUT_ALONE, marks_of, programs_left_out, programs_of
from bus.matching.facts.kinds import SecretClass
from bus.matching.facts.secrets import Secret
from bus.matching.facts.sql_files import ENDINGS
from bus.matching.flags import flag_names
from bus.matching.globs import PathIndex, literal_of
from bus.matching.needles import NOTHING, Needles, needle_search, needles_in_literals, needles_of, worth
from bus.matching.paths import place_of
from bus.matching.rule_fields import Rule
from bus.matching.rules import marks
from bus.matching.statements import WORTH
from bus.matching.subcommands import first_words, subcommand_needles
from bus.shell.commands import CHANGES, Commands

_NONE: Final[frozenset[str]] = frozenset()
_NULL: Final = "/dev/null"
_MANY: Final = 256
"""If a rule leaves out more programs, most lines run no other program."""
_STAR: Final = "[*]"
_WIDE: Final = re.compile(r"[~/.]*[*?][~/.*?]*")
"""A path pattern that fits most paths, such as `/**`. A check for one would exclude few lines."""


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
        self._unmarked = _by_programs([_text_need(name, needles, rules[name]) for name, needles in texts.items()])
        """The needs of the rules that need no mark but a text: for each set of programs, those that need another program."""
        self._conditions: dict[str, list[tuple[str, Rule, CommandMatch]]] = {}
        """For each mark, the conditions that need it, each with its rule."""
        self._by_mark: dict[str, RuleNeeds] = {}
        self._by_conditions: dict[tuple[tuple[str, int], ...], RuleNeeds] = {}
        """The needs by rules and identities of the conditions: most programs of a rule share all of theirs."""
        paths: dict[str, dict[str, None]] = {}
        given_to: frozenset[str] | None = _NONE
        for name in marked:
            for condition in rules[name].commands:
                asked = _narrow((*condition.changes, *condition.redirects_to)) + _narrow(condition.paths)
                if asked and condition.touches != OWN_INPUT_ALONE:
                    paths.setdefault(name, {}).update(dict.fromkeys(asked))
                if GIVEN in _further_marks(condition) and given_to is not None:
                    about = programs_of(condition) if condition.code_from else marks_of(condition)
                    given_to = None if about is None or not condition.program else given_to | about
                for mark in marks_of(condition):
                    self._conditions.setdefault(mark, []).append((name, rules[name], condition))
        self._marks = frozenset(self._conditions)
        index = PathIndex(paths)
        asks_for_null = bool(index.find(_NULL, place_of("/", here=False)))
        self._asked = Asked(frozenset(marked), index, asks_for_null, given_to)

    def prepare(self) -> None:
        """Work out now what the rules about every program need."""
        for mark in self._marks:
            self._needs(mark)

    def _needs(self, mark: str) -> RuleNeeds:
        """What the rules that need this mark need in addition."""
        known = self._by_mark.get(mark)
        if known is None:
            conditions = self._conditions[mark]
            same = tuple((name, id(match)) for name, _, match in conditions)
            known = self._by_conditions.get(same)
            if known is None:
                needs = [_need(name, match, rule.command) for name, rule, match in conditions]
                known = self._by_conditions[same] = RuleNeeds(needs)
            self._by_mark[mark] = known
        return known

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
        if self._secrets and (told := secrets()):
            classes = {secret.of for secret in told}
            found.update(name for name, asked in self._secrets.items() if not asked.isdisjoint(classes))
        seen = SeenLine(self._asked, line, text, facts)
        for left_out, needs in self._unmarked:
            if not left_out or not left_out.issuperset(seen.programs):
                needs.add_met(seen, found)
        for mark in self._marks.intersection(line.marks):
            (self._by_mark.get(mark) or self._needs(mark)).add_met(seen, found)
        return found


def later_sieve(rules: Mapping[str, Rule]) -> Callable[[], Sieve]:
    """A function that returns the sieve, which its first call makes.

    Many hook sets are only listed or compared, and a sieve takes twenty times as long as all of the rest.
    """
    return cache(partial(Sieve, rules))


def _text_need(name: str, texts: Needles, rule: Rule) -> RuleNeed:
    return RuleNeed(name, texts=(needle_search(texts),), other_than=programs_left_out(rule.commands))


def _by_programs(needs: Iterable[RuleNeed]) -> tuple[tuple[frozenset[str], RuleNeeds], ...]:
    """The needs of rules that leave out many programs, by these programs; all others under an empty set."""
    found: dict[frozenset[str], list[RuleNeed]] = {}
    for need in needs:
        many = need.other_than if len(need.other_than) > _MANY else _NONE
        found.setdefault(many, []).append(need._replace(other_than=need.other_than - many))
    return tuple((programs, RuleNeeds(some)) for programs, some in found.items())


def _narrow(globs: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns, or none if one of them fits most paths: a check for that one would exclude few lines."""
    return () if any(map(_WIDE.fullmatch, globs)) else globs


def _further_marks(match: CommandMatch) -> tuple[str, ...]:
    """The marks that a line must have for `match` in addition to one of `marks_of`. Marks that depend on paths come last."""
    own_input = match.touches == OWN_INPUT_ALONE
    changes = (*match.changes, *match.redirects_to)
    more = {
        SETS: bool(match.sets),
        OWN_INPUT: own_input,
        CHANGES: bool(changes) or match.loses == ("contents",),
        CHANGED: bool(_narrow(changes)) and not own_input,
        GIVEN: bool(_narrow(match.paths)) and not own_input,
    }
    return tuple(mark for mark, asked in more.items() if asked)


@lru_cache(maxsize=1024)
def _own_texts(patterns: tuple[str, ...]) -> Needles:
    """Needles for the whole text of a line that a rule with these patterns fits."""
    return needles_of(patterns)


@lru_cache(maxsize=4096)
def _need(rule: str, match: CommandMatch, command: tuple[str, ...]) -> RuleNeed:
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
    return RuleNeed(
        rule,
        _further_marks(match),
        first_words(match.subcommand),
        exact,
        flag_names(programs_of(match) or frozenset(), match.flags_any, match.flags_all),
        tuple(map(needle_search, sorted(filter(None, texts), key=worth, reverse=True))),
        programs_left_out((match,)),
        frozenset(match.piped_from),
    )


def _known_words(match: CommandMatch) -> frozenset[str]:
    return frozenset(match.program) | first_words(match.subcommand)


def asked_patterns(rules: Sequence[Rule]) -> set[tuple[str, frozenset[str]]]:
    """Every expression whose needles a sieve of these rules needs, each with the words that are left out of them."""
    asked = {(pattern, _NONE) for rule in rules for pattern in rule.command}
    for match in [match for rule in rules for match in rule.commands]:
        asked.update((pattern, _known_words(match)) for pattern in match.line)
        asked.update((pattern, _NONE) for pattern in match.text)
    return asked


def _args(globs: Sequence[str]) -> tuple[frozenset[str], Needles]:
    """Arguments, or else needles: every fitting line contains one of them. Both are empty if no such item is known."""
    plain = [glob.replace(_STAR, "*") for glob in globs if not any(sign in glob.replace(_STAR, "") for sign in "*?[…")]
    if len(plain) == len(globs):
        return frozenset(plain), NOTHING
    # An unknown part, which patterns write as `…`, is a blank in the searched text.
    patterns = [glob.replace("…", " ") for glob in globs if glob.replace(_STAR, "*") not in plain]
    return frozenset(), needles_in_literals([*(f" {word.lower()} " for word in plain), *map(literal_of, patterns)])
