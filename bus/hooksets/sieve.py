"""Which rules a command line may fit at all, by marks, words and short texts: most rules fall through without being judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bus.errors import OverBudget
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import (
    OWN_INPUT_ALONE,
    Where,
    both_paths,
    empties_own_input,
    marks_of,
    programs_of,
)
from bus.matching.flags import flag_names, flags_of
from bus.matching.globs import compile_path_globs, longest_literal
from bus.matching.needles import Needles, needles_of
from bus.matching.paths import place_of
from bus.matching.regexes import Regex, compile_alternatives
from bus.matching.rules import Rule, marks
from bus.matching.statements import WORTH
from bus.matching.subcommands import first_words, subcommand_texts
from bus.shell import without_quotes
from bus.shell.commands import CHANGES, Command, Commands
from bus.shell.paths import changed, operands

_FEW: Final = 32
"""Short texts that are found sooner one by one than by an expression for all of them."""

_GIVEN: Final = "is given a path that some rule asks for"
_CHANGED: Final = "changes a path that some rule asks for"
_OWN_INPUT: Final = "empties its own input"
"""Marks that a line gets here, and only where a rule asks: they take a look at paths."""

_NULL: Final = "/dev/null"
_STAR: Final = "[*]"
_WIDE: Final = re.compile(r"[~/.]*[*?][~/.*?]*")
"""A path pattern that fits most paths, such as `/**`; a look for one would let most lines through."""


class _Need(NamedTuple):
    """What a line has to hold for one of a rule's conditions to fit; of each set it has one, empty where any will do."""

    rule: str
    marks: tuple[str, ...]
    """More marks, of which it has every one."""
    words: frozenset[str]
    args: frozenset[str]
    flags: tuple[frozenset[str], ...]
    texts: tuple[Needles, ...]
    """Are in its commands, lower-cased."""

    def fits(self, seen: _Seen) -> bool:
        """Whether the line has all of it."""
        if self.args and self.args.isdisjoint(seen.words):
            return False
        for flags in self.flags:
            if flags.isdisjoint(seen.flags):
                return False
        for texts in self.texts:
            if not seen.holds(texts):
                return False
        return not self.marks or seen.has(self.marks)


class _Seen:
    """What rules ask of a line, each found when the first one asks."""

    __slots__ = ("_find", "_flags", "_held", "_marks", "_words", "line", "lines")

    def __init__(self, line: Commands, text: str, find: Callable[[str, Commands], bool]) -> None:
        self.line = line
        self.lines = _lines(line.items, text)
        self._find = find
        self._marks: dict[tuple[str, ...], bool] = {}
        self._held: dict[Needles, bool] = {}
        self._words: frozenset[str] | None = None
        self._flags: frozenset[str] | None = None

    @property
    def words(self) -> frozenset[str]:
        """Every argument."""
        if self._words is None:
            self._words = frozenset([word for command in self.line.items for word in command.words])
        return self._words

    @property
    def flags(self) -> frozenset[str]:
        """Every option, also each letter of `-rf`."""
        if self._flags is None:
            each = [flags_of(one).names for one in self.line.items if one.words]
            self._flags = each[0] if len(each) == 1 else frozenset[str]().union(*each)
        return self._flags

    def holds(self, texts: Needles) -> bool:
        """Whether one of these texts is in it; many rules ask for the same ones."""
        known = self._held.get(texts)
        if known is None:
            known = self._held[texts] = _holds(self.lines, texts)
        return known

    def has(self, marks: tuple[str, ...]) -> bool:
        """Whether the line has every one of these marks."""
        known = self._marks.get(marks)
        if known is None:
            *others, last = marks
            known = (not others or self.has(tuple(others))) and self._find(last, self.line)
            self._marks[marks] = known
        return known


class _ByMark(NamedTuple):
    """What is asked of a line with one mark."""

    sure: frozenset[str]
    """The rules that its mark alone lets through."""
    by_word: dict[str, tuple[_Need, ...]]
    by_marks: tuple[tuple[tuple[str, ...], frozenset[str]], ...]
    """The rules that further marks let through: a look at paths is taken once for all of them."""
    others: tuple[_Need, ...]
    texted: tuple[_Need, ...]
    """Those that ask for texts alone, where these are many."""
    any_text: tuple[Regex, ...]
    """Finds a text that any of the texted ones asks for."""


class Sieve:
    """Leaves out the rules that cannot fit a command line; what it lets through is judged as ever."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        marked = [name for name, rule in rules.items() if marks(rule)]
        texts = {name: found for name, rule in rules.items() if (found := needles_of(rule.command))}
        unmarked = frozenset(rules).difference(marked)
        self._always = unmarked.difference(texts)
        self._by_texts: dict[Needles, frozenset[str]] = {}
        """The rules that ask for no mark, by the texts of which each asks for one."""
        for name in unmarked.intersection(texts):
            self._by_texts[texts[name]] = self._by_texts.get(texts[name], frozenset()) | {name}
        needs: dict[str, list[_Need]] = {}
        changed_paths: dict[str, None] = {}
        given_paths: dict[str, None] = {}
        for name in marked:
            for condition in rules[name].commands:
                need = _need(name, condition, texts.get(name))
                if _CHANGED in need.marks:
                    changed_paths.update(dict.fromkeys((*condition.changes, *condition.redirects_to)))
                if _GIVEN in need.marks:
                    given_paths.update(dict.fromkeys(condition.paths))
                for mark in marks_of(condition):
                    needs.setdefault(mark, []).append(need)
        self._by_mark = {mark: _by_mark(some) for mark, some in needs.items()}
        self._paths = {
            _CHANGED: (changed, compile_path_globs(changed_paths)),
            _GIVEN: (operands, compile_path_globs(given_paths)),
        }
        self._asks_for_null = any(matches(_NULL, place_of("/", here=False)) for _, matches in self._paths.values())
        """Whether some rule asks for `/dev/null`, which most redirections name."""

    def passing(self, line: Commands, text: str, where: Where | None = None) -> set[str]:
        """The rules that may fit `text`, which was read as `line` as a whole; `where` says where it runs."""
        found = set(self._always)
        seen = _Seen(line, text, lambda mark, line: self._has(mark, line, where))
        for texts, rules in self._by_texts.items():
            if seen.holds(texts):
                found |= rules
        for mark in line.marks:
            known = self._by_mark.get(mark)
            if known is None:
                continue
            found |= known.sure
            for further, rules in known.by_marks:
                if not rules <= found and seen.has(further):
                    found |= rules
            _add_fitting(known.others, seen, found)
            for word in seen.words.intersection(known.by_word) if known.by_word else ():
                _add_fitting(known.by_word[word], seen, found)
            if known.texted and _may_hold(seen.lines, known.any_text):
                _add_fitting(known.texted, seen, found)
        return found

    def _has(self, mark: str, line: Commands, where: Where | None) -> bool:
        """Whether a line has a mark that takes a look at paths; in doubt it has it."""
        if mark == _OWN_INPUT:
            return any(empties_own_input(command) for command in line.items)
        if mark not in self._paths:
            return mark in line.marks
        if mark == _CHANGED and CHANGES not in line.marks:
            return False
        paths_of, matches = self._paths[mark]
        try:
            place = where() if where is not None else None
            return place is None or any(
                matches(path, place)
                for command in line.items
                for word in paths_of(command)
                if word != _NULL or self._asks_for_null
                for path in both_paths(word, place, command.directory)
            )
        except OverBudget:
            return True


def _add_fitting(needs: Iterable[_Need], seen: _Seen, found: set[str]) -> None:
    for need in needs:
        if need.rule not in found and need.fits(seen):
            found.add(need.rule)


def _need(rule: str, match: CommandMatch, own_texts: Needles | None) -> _Need:
    """What `match` asks for; `own_texts` is what its rule looks for in the whole text."""
    own_input = match.touches == OWN_INPUT_ALONE
    changes = (*match.changes, *match.redirects_to)
    more = {
        _OWN_INPUT: own_input,
        CHANGES: bool(changes) or match.loses == ("contents",),
        _CHANGED: bool(changes) and not own_input and not any(map(_WIDE.fullmatch, changes)),
        _GIVEN: bool(match.paths) and not own_input and not any(map(_WIDE.fullmatch, match.paths)),
    }
    exact, args = _args(match.args)
    known = frozenset(match.program) | first_words(match.subcommand)
    texts = (
        subcommand_texts(match.subcommand),
        needles_of(match.line, known),
        needles_of(match.text),
        WORTH if match.destroys else frozenset[str](),
        args,
        own_texts,
    )
    return _Need(
        rule,
        tuple(mark for mark, asked in more.items() if asked),
        first_words(match.subcommand),
        exact,
        flag_names(programs_of(match) or frozenset(), match.flags_any, match.flags_all),
        tuple(one for one in texts if one),
    )


def _args(globs: Sequence[str]) -> tuple[frozenset[str], Needles]:
    """Of which arguments a line has one, or else of which texts; both are empty where neither can be said."""
    plain = [glob.replace(_STAR, "*") for glob in globs if not any(sign in glob.replace(_STAR, "") for sign in "*?[…")]
    if len(plain) == len(globs):
        return frozenset(plain), frozenset()
    texts = frozenset(longest_literal(glob) for glob in globs)
    return frozenset(), texts if all(texts) else frozenset()


def _by_mark(needs: Sequence[_Need]) -> _ByMark:
    sure = frozenset(need.rule for need in needs if not any(need[1:]))
    by_word: dict[str, tuple[_Need, ...]] = {}
    for need in needs:
        for word in need.words if need.rule not in sure else ():
            by_word[word] = (*by_word.get(word, ()), need)
    rest = [need for need in needs if not need.words and need.rule not in sure]
    texted = tuple(need for need in rest if need.texts and not (need.marks or need.args or need.flags))
    texts = sorted(frozenset[str]().union(*(need.texts[0] for need in texted)))
    if len(texts) <= _FEW:
        texted = ()
    bare = [need for need in rest if not (need.args or need.flags or need.texts)]
    by_marks: dict[tuple[str, ...], frozenset[str]] = {}
    for need in bare:
        by_marks[need.marks] = by_marks.get(need.marks, frozenset()) | {need.rule}
    others = tuple(need for need in rest if need not in texted and need not in bare)
    any_text = compile_alternatives(map(re.escape, texts)) if texted else ()
    return _ByMark(sure, by_word, tuple(by_marks.items()), others, texted, any_text)


def _may_hold(text: str, regexes: Iterable[Regex]) -> bool:
    return not text.isascii() or any(regex.search(text) is not None for regex in regexes)


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
