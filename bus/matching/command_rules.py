"""Compiles a rule's conditions on commands into a predicate over one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import PatternError
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch, Touched
from bus.matching.facts.branches import branch_of
from bus.matching.facts.hosts import kinds_of
from bus.matching.facts.own_processes import names_own_process
from bus.matching.facts.sql_files import destroyed_by_files
from bus.matching.flags import compile_flags
from bus.matching.globs import PathMatcher, compile_path_globs, compile_text_glob, text_of
from bus.matching.losses import loses
from bus.matching.paths import is_whole_project
from bus.matching.regexes import compile_alternatives, is_found
from bus.matching.statements import destroyed
from bus.matching.subcommands import compile_subcommands, first_words
from bus.shell.commands import CHANGES, FORK_BOMB, PROMPT, Command, code_mark, is_family
from bus.shell.words import shown

OWN_INPUT_ALONE: Final[tuple[Touched, ...]] = ("own_input",)
CHANGED_OUTSIDE_ALONE: Final[tuple[Touched, ...]] = ("changes_outside_project",)

Fits = Callable[[CommandFacts], bool]


@lru_cache(maxsize=4096)
def compile_command_match(match: CommandMatch, *, of_known_program: bool = False) -> Fits:
    """A predicate over a command.

    With `of_known_program`, it is only called for commands of a program that `match` names. Raises PatternError for a pattern
    of `match` that cannot be compiled, or if `match` has no condition.
    """
    checks: list[Fits] = []
    if match.program and not of_known_program:
        checks.append(_program(match.program))
    if match.program_none:
        other = _program(match.program_none)
        checks.append(lambda facts: not other(facts))
    if match.sets:
        set_by = _any_text(match.sets)
        checks.append(lambda facts: bool(facts.command.assignments) and set_by(_assignments(facts.command)))
    if match.sets_none:
        unset = _any_text(match.sets_none)
        checks.append(lambda facts: not (facts.command.assignments and unset(_assignments(facts.command))))
    if match.fork_bomb:
        checks.append(lambda facts: facts.command.fork_bomb)
    if match.prompt:
        checks.append(lambda facts: facts.command.prompt)
    if match.piped_from:
        piped_from = frozenset(match.piped_from)
        checks.append(lambda facts: not piped_from.isdisjoint(facts.command.piped_from))
    if match.code_from:
        code_from = frozenset(match.code_from)
        checks.append(lambda facts: not code_from.isdisjoint(facts.command.code_from))
    if match.subcommand:
        verbs = compile_subcommands(match.subcommand)
        checks.append(lambda facts: verbs(facts.verbs))
    if match.flags_any or match.flags_all or match.flags_none:
        flags = compile_flags(match.flags_any, match.flags_all, match.flags_none)
        checks.append(lambda facts: flags(facts.flags))
    if match.args:
        given = _any_text(match.args)
        checks.append(lambda facts: given(facts.arguments))
    if match.args_none:
        absent = _any_text(match.args_none)
        checks.append(lambda facts: not absent(facts.arguments))
    if match.line:
        lines = compile_alternatives(match.line)
        checks.append(lambda facts: is_found(lines, facts.line))
    if match.text:
        texts = compile_alternatives(match.text)
        checks.append(lambda facts: any(is_found(texts, text) for text in facts.texts))
    if match.text_none:
        without = compile_alternatives(match.text_none)
        checks.append(lambda facts: not any(is_found(without, text) for text in facts.texts))
    if match.destroys:
        targets = frozenset(match.destroys)
        checks.append(
            lambda facts: (
                any(not targets.isdisjoint(destroyed(text)) for text in facts.texts)
                or not targets.isdisjoint(destroyed_by_files(facts.command, facts.texts, facts.place))
            )
        )
    left_out = compile_path_globs(match.paths_except)
    if match.touches == OWN_INPUT_ALONE:  # before its paths are located, which takes longer
        checks.append(_TOUCHES["own_input"](left_out))
    if match.redirects_to:
        checks.append(_path_check(match.redirects_to, left_out, lambda facts: facts.command.writes))
    if match.paths:
        checks.append(_path_check(match.paths, left_out, lambda facts: facts.operands))
    if match.changes:
        checks.append(_path_check(match.changes, left_out, lambda facts: facts.changed))
    if match.touches and match.touches != OWN_INPUT_ALONE:
        checks.append(_any_of([_TOUCHES[touched](left_out) for touched in match.touches]))
    if match.reaches:
        reached = frozenset(match.reaches)
        checks.append(lambda facts: not reached.isdisjoint(kinds_of(facts.command)))
    if match.installs:
        installed = frozenset(match.installs)
        checks.append(lambda facts: not installed.isdisjoint(facts.installed))
    if match.branch:
        branches = _any_text(match.branch)
        checks.append(lambda facts: (name := branch_of(facts.command, facts.place)) != "" and branches((name,)))
    if match.loses:
        lost = match.loses
        checks.append(lambda facts: any(loses(kind, facts.command, facts.place) for kind in lost))
    if not checks and not of_known_program:
        raise PatternError("a command condition is empty", hint="give program, args, flags or another condition")
    return _all_of(checks)


def _all_of(checks: Sequence[Fits]) -> Fits:
    if len(checks) == 1:
        return checks[0]
    asked = tuple(checks)

    def fits(facts: CommandFacts) -> bool:
        for check in asked:  # noqa: SIM110  (a generator for `all` takes three times as long, and this runs most)
            if not check(facts):
                return False
        return True

    return fits


def _any_of(checks: Sequence[Fits]) -> Fits:
    return checks[0] if len(checks) == 1 else lambda facts: any(check(facts) for check in checks)


class _Matchers(NamedTuple):
    """The predicates for commands of one program."""

    by_word: Mapping[str, tuple[Fits, ...]]
    """The predicates that need a subcommand, by the first word of the subcommand."""
    others: tuple[Fits, ...]


def command_matcher(matches: Sequence[CommandMatch]) -> Fits:
    """A predicate: whether any of `matches` fits a command. Raises PatternError as for each alone.

    It skips conditions on other programs or subcommands: a rule may have fifty, and a command has one program.
    """
    by_program: dict[str, list[CommandMatch]] = {}
    everywhere = [match for match in matches if programs_of(match) is None]
    for match in matches:
        for name in programs_of(match) or ():
            by_program.setdefault(name, list(everywhere)).append(match)
    others = _matchers(everywhere)
    shared: dict[tuple[int, ...], _Matchers] = {}
    """Most programs of a rule have the same conditions, which are compiled and kept once."""
    known: dict[str, _Matchers] = {}
    for name, some in by_program.items():
        same = tuple(map(id, some))
        if same not in shared:
            shared[same] = _matchers(some)
        known[name] = shared[same]

    def fits(facts: CommandFacts) -> bool:
        by_word, rest = known.get(facts.program, others)
        for check in rest:
            if check(facts):
                return True
        if by_word:
            for word in facts.words:
                for check in by_word.get(word, ()):
                    if check(facts):
                        return True
        return False

    return fits


def _matchers(matches: Sequence[CommandMatch]) -> _Matchers:
    by_word: dict[str, tuple[Fits, ...]] = {}
    others: list[Fits] = []
    for match in matches:
        check = compile_command_match(match, of_known_program=programs_of(match) is not None)
        words = first_words(match.subcommand)
        for word in words:
            by_word[word] = (*by_word.get(word, ()), check)
        if not words:
            others.append(check)
    return _Matchers(by_word, tuple(others))


def programs_of(match: CommandMatch) -> frozenset[str] | None:
    """The names of the programs that fitting commands have; None if they cannot be listed."""
    exact = _exact(match.program)
    return exact if exact and len(exact) == len(set(match.program)) else None


def programs_left_out(matches: Sequence[CommandMatch]) -> frozenset[str]:
    """Names in the conditions' `program_none` that no command which fits one of the conditions has."""
    left = set[str]().union(*(_exact(match.program_none) for match in matches))
    for match in matches:
        if not left:
            break
        left.difference_update(_may_name(match, left.difference(_exact(match.program_none))))
    return frozenset(left)


def _may_name(match: CommandMatch, programs: set[str]) -> set[str]:
    """Those of the programs, none of them in `program_none`, whose commands may fit the condition."""
    if not match.program:
        return programs
    exact = _exact(match.program)
    globs = tuple(compile_text_glob(name) for name in match.program if name not in exact)
    return {program for program in programs if program in exact or any(fits(program) for fits in globs)}


def marks_of(match: CommandMatch) -> frozenset[str]:
    """Marks: every fitting command line has at least one of them. Empty if no such marks are known."""
    if match.code_from:  # before its program, which a rule may name too: most lines that run a shell run no such code
        return frozenset(code_mark(name) for name in match.code_from)
    if match.program:
        exact = _exact(match.program)
        families = frozenset(name for name in match.program if is_family(name))
        return exact | families if len(exact | families) == len(set(match.program)) else frozenset()
    if match.fork_bomb:
        return frozenset([FORK_BOMB])
    if match.prompt:
        return frozenset([PROMPT])
    changes = match.changes or match.redirects_to or match.touches == CHANGED_OUTSIDE_ALONE
    return frozenset([CHANGES]) if changes else frozenset()


def finder_of(match: CommandMatch) -> Callable[[frozenset[str]], str]:
    """A function: the raw name in a line (`bus.shell.parsing`) that is a program of `match`; empty if there is none.

    Only the names count: in a line that was not parsed, it is not known which arguments belong to which program. A condition
    on a program and on where its code comes from is never found by names: many harmless lines name both.
    """
    programs = () if match.program and match.code_from else match.program or match.code_from
    exact = _exact(programs)
    globs = tuple(compile_text_glob(name) for name in programs if name not in exact)
    return lambda names: min(
        exact.intersection(names) or [name for name in names for fits in globs if fits(name)], default=""
    )


@lru_cache(maxsize=1024)
def _exact(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for name in names if not any(sign in name for sign in "*?["))


def _program(names: tuple[str, ...]) -> Fits:
    exact = _exact(names)
    globs = tuple(compile_text_glob(name) for name in names if name not in exact)
    if not globs:
        return lambda facts: facts.program in exact
    return lambda facts: facts.program in exact or any(fits(facts.program) for fits in globs)


def _assignments(command: Command) -> list[str]:
    return [shown(f"{name}={value}") for name, value in command.assignments]


def _any_text(globs: tuple[str, ...]) -> Callable[[Sequence[str]], bool]:
    """Whether one of several texts fits one of the patterns."""
    plain = {glob: text for glob in globs if (text := text_of(glob)) is not None}
    exact = frozenset(plain.values())
    patterns = tuple(compile_text_glob(glob) for glob in globs if glob not in plain)

    def fits(texts: Sequence[str]) -> bool:
        if not exact.isdisjoint(texts):
            return True
        for pattern in patterns:
            for text in texts:
                if pattern(text):
                    return True
        return False

    return fits


def _path_check(globs: tuple[str, ...], left_out: PathMatcher, of: Callable[[CommandFacts], tuple[str, ...]]) -> Fits:
    matches = compile_path_globs(globs)

    def fits(facts: CommandFacts) -> bool:
        for word in of(facts):
            for path in facts.paths_of(word):
                if matches(path, facts.place) and not left_out(path, facts.place):
                    return True
        return False

    return fits


def _outside_check(left_out: PathMatcher, of: Callable[[CommandFacts], tuple[str, ...]]) -> Fits:
    def fits(facts: CommandFacts) -> bool:
        for word in of(facts):
            path = facts.outside_of(word)
            if path is not None and not left_out(path, facts.place):
                return True
        return False

    return fits


def _whole_check(left_out: PathMatcher) -> Fits:
    def fits(facts: CommandFacts) -> bool:
        for word in facts.operands:
            path = facts.target_of(word)
            if path is not None and is_whole_project(path, facts.place) and not left_out(path, facts.place):
                return True
        return False

    return fits


_TOUCHES: Final[Mapping[Touched, Callable[[PathMatcher], Fits]]] = {
    "outside_project": lambda left_out: _outside_check(left_out, lambda facts: facts.operands),
    "changes_outside_project": lambda left_out: _outside_check(left_out, lambda facts: facts.changed),
    "whole_project": _whole_check,
    "unset_variable": lambda _left_out: lambda facts: facts.is_root_if_unset,
    "own_input": lambda _left_out: lambda facts: facts.empties_own_input,
    "own_process": lambda _left_out: lambda facts: names_own_process(facts.arguments, facts.place),
}
"""By the word in `touches`, the function that makes its check. Its argument matches the paths that are left out."""
