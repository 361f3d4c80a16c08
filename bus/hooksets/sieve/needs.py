"""The least that a command line must contain to fit a rule, and an index of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bus.hooksets.sieve.seen_line import LOOKS, SeenLine
from bus.matching.needles import NeedleSearch
from bus.matching.regexes import LiteralSearch

_NONE: Final[frozenset[str]] = frozenset()
_FEW: Final = 12
"""The most texts that are searched one by one. For more, one search for all of them is faster."""


class RuleNeed(NamedTuple):
    """The least that a line must contain to fit one of a rule's conditions.

    It must contain at least one item of each set; an empty set asks for nothing.
    """

    rule: str
    marks: tuple[str, ...] = ()
    """Further marks; the line must have all of them."""
    words: frozenset[str] = _NONE
    args: frozenset[str] = _NONE
    flags: tuple[frozenset[str], ...] = ()
    texts: tuple[NeedleSearch, ...] = ()
    """Texts in its commands, lower-cased; the rarest first."""
    other_than: frozenset[str] = _NONE
    """The line must run a program besides these."""
    piped_from: frozenset[str] = _NONE
    """Programs whose output a command reads."""

    def is_met(self, seen: SeenLine) -> bool:
        """Whether the line contains all of it."""
        if self.piped_from and self.piped_from.isdisjoint(seen.piped_from):
            return False
        if self.other_than and self.other_than.issuperset(seen.programs):
            return False
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


class RuleNeeds:
    """The needs of rules, indexed by one item that a line must contain, so that only few needs are checked for a line."""

    __slots__ = ("_args", "_by_arg", "_by_marks", "_by_text", "_by_word", "_others", "_sure", "_texts", "_words")

    def __init__(self, needs: Iterable[RuleNeed] = ()) -> None:
        self._sure: frozenset[str] = frozenset(need.rule for need in needs if not any(need[1:]))
        self._by_arg: dict[str, tuple[RuleNeed, ...]] = {}
        """By an argument: the first word of a subcommand, or a whole argument."""
        self._by_word: dict[bytes, tuple[RuleNeed, ...]] = {}
        """By a word of the line's text."""
        self._by_text: dict[str, tuple[RuleNeed, ...]] = {}
        """By a short text that the line's text contains."""
        self._by_marks: dict[tuple[str, ...], dict[str, tuple[RuleNeed, ...]]] = {}
        """By further marks, and by rule. A mark that depends on paths is used before other items only if a rule needs
        nothing else: then the paths are looked up anyway."""
        self._others: tuple[RuleNeed, ...] = ()
        left = [need for need in needs if need.rule not in self._sure]
        looks = any(not LOOKS.isdisjoint(need.marks) and not any(need[2:]) for need in left)
        for need in left:
            self._add(need, looks=looks)
        self._args, self._words = frozenset(self._by_arg), frozenset(self._by_word)
        self._texts = LiteralSearch(self._by_text) if len(self._by_text) > _FEW else None

    def _add(self, need: RuleNeed, *, looks: bool) -> None:
        if looks and not LOOKS.isdisjoint(need.marks):
            self._add_by_marks(need)
        elif args := need.words or need.args:
            for arg in args:
                self._by_arg[arg] = (*self._by_arg.get(arg, ()), need)
        elif need.texts:
            for word in need.texts[0].words:
                self._by_word[word] = (*self._by_word.get(word, ()), need)
            for text in need.texts[0].texts:
                self._by_text[text] = (*self._by_text.get(text, ()), need)
        elif need.marks and not any(need[2:]):
            self._add_by_marks(need)
        else:
            self._others = (*self._others, need)

    def _add_by_marks(self, need: RuleNeed) -> None:
        by_rule = self._by_marks.setdefault(need.marks, {})
        by_rule[need.rule] = (*by_rule.get(need.rule, ()), need)

    def add_met(self, seen: SeenLine, found: set[str]) -> None:
        """Add to `found` the rules that a line may fit."""
        if self._sure:
            found |= self._sure
        plain = seen.is_plain
        if self._words:
            for word in self._words.intersection(seen.words) if plain else self._words:
                _add_met(self._by_word[word], seen, found)
        if self._by_text:
            whole, texts = seen.text, self._texts
            if texts is not None and plain:
                for text in texts.find(whole):
                    _add_met(self._by_text[text], seen, found)
            else:
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


def _add_met(needs: Iterable[RuleNeed], seen: SeenLine, found: set[str]) -> None:
    for need in needs:
        if need.rule not in found and need.is_met(seen):
            found.add(need.rule)
