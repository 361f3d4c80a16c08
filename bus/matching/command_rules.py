"""What a rule says about one command of a command line, and whether a command fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from bus.errors import PatternError
from bus.matching.command_match import CommandMatch, Touched
from bus.matching.flags import compile_flags
from bus.matching.globs import PathMatcher, compile_path_globs, compile_text_glob
from bus.matching.losses import loses
from bus.matching.paths import Links, Place, is_outside, is_whole_project, located
from bus.matching.regexes import Regex, compile_alternatives
from bus.matching.statements import destroyed
from bus.matching.subcommands import compile_subcommands, first_words
from bus.shell.commands import CHANGES, FORK_BOMB, PROMPT, Command, code_mark, is_family, plain_path
from bus.shell.paths import UNLINKING, changed, operands
from bus.shell.words import UNSET, shown

OWN_INPUT_ALONE: Final[tuple[Touched, ...]] = ("own_input",)

Where = Callable[[], Place]
"""Where a command runs; asked by those conditions alone that look at paths, since most do not."""
Fits = Callable[[Command, Where], bool]


@lru_cache(maxsize=4096)
def compile_command_match(match: CommandMatch) -> Fits:
    """A predicate over a command; PatternError where a pattern in `match` cannot be compiled, or nothing is asked."""
    checks: list[Fits] = []
    if match.program:
        checks.append(_program(match.program))
    if match.program_none:
        other = _program(match.program_none)
        checks.append(lambda command, where: not other(command, where))
    if match.sets:
        variables = tuple(compile_text_glob(one) for one in match.sets)
        checks.append(lambda command, _where: any(fits(one) for one in _variables(command) for fits in variables))
    if match.fork_bomb:
        checks.append(lambda command, _where: command.fork_bomb)
    if match.prompt:
        checks.append(lambda command, _where: command.prompt)
    if match.piped_from:
        checks.append(_sources(match.piped_from, lambda command: command.piped_from))
    if match.code_from:
        checks.append(_sources(match.code_from, lambda command: command.code_from))
    if match.subcommand:
        verbs = compile_subcommands(match.subcommand)
        checks.append(lambda command, _where: verbs(command))
    if match.flags_any or match.flags_all or match.flags_none:
        flags = compile_flags(match.flags_any, match.flags_all, match.flags_none)
        checks.append(lambda command, _where: flags(command))
    if match.args:
        patterns = tuple(compile_text_glob(one) for one in match.args)
        checks.append(lambda command, _where: any(fits(shown(word)) for word in command.words for fits in patterns))
    if match.args_none:
        absent = tuple(compile_text_glob(one) for one in match.args_none)
        checks.append(lambda command, _where: not any(fits(shown(word)) for word in command.words for fits in absent))
    if match.line:
        regexes = compile_alternatives(match.line)
        checks.append(lambda command, _where: _line_fits(regexes, command.line))
    if match.text:
        texts = compile_alternatives(match.text)
        checks.append(lambda command, _where: any(_line_fits(texts, one) for one in _texts(command)))
    if match.destroys:
        targets = frozenset(match.destroys)
        checks.append(lambda command, _where: any(not targets.isdisjoint(destroyed(one)) for one in _texts(command)))
    left_out = compile_path_globs(match.paths_except)
    if match.touches == OWN_INPUT_ALONE:  # before its paths are located, which costs more
        checks.append(lambda command, _where: empties_own_input(command))
    if match.redirects_to:
        checks.append(_path_check(match.redirects_to, left_out, lambda command: command.writes))
    if match.paths:
        checks.append(_path_check(match.paths, left_out, operands))
    if match.changes:
        checks.append(_path_check(match.changes, left_out, changed))
    if match.touches and match.touches != OWN_INPUT_ALONE:
        touches = match.touches
        checks.append(lambda command, where: any(_touches(command, where(), one, left_out) for one in touches))
    if match.loses:
        lost = match.loses
        checks.append(lambda command, where: any(loses(one, command, where()) for one in lost))
    if not checks:
        raise PatternError("a command condition asks for nothing", hint="give program, args, flags or another of them")
    asked = tuple(checks)

    def fits(command: Command, where: Where) -> bool:
        for check in asked:  # noqa: SIM110  (a generator for `all` takes three times as long, and this runs most)
            if not check(command, where):
                return False
        return True

    return fits


class _Matchers(NamedTuple):
    """The predicates for commands of one program."""

    by_word: Mapping[str, tuple[Fits, ...]]
    """Those that ask for a subcommand, by its first word."""
    others: tuple[Fits, ...]


def command_matcher(matches: Sequence[CommandMatch]) -> Fits:
    """Whether any of `matches` fits a command; PatternError as for each alone.

    A condition on another program or subcommand is not asked: a rule may have fifty, and a command has one of each.
    """
    by_program: dict[str, list[CommandMatch]] = {}
    everywhere = [one for one in matches if programs_of(one) is None]
    for one in matches:
        for name in programs_of(one) or ():
            by_program.setdefault(name, list(everywhere)).append(one)
    others = _matchers(everywhere)
    known = {name: _matchers(some) for name, some in by_program.items()}

    def fits(command: Command, where: Where) -> bool:
        matchers = known.get(command.program, others)
        for check in matchers.others:
            if check(command, where):
                return True
        for word in command.words if matchers.by_word else ():
            for check in matchers.by_word.get(word, ()):
                if check(command, where):
                    return True
        return False

    return fits


def _matchers(matches: Sequence[CommandMatch]) -> _Matchers:
    by_word: dict[str, tuple[Fits, ...]] = {}
    for match in matches:
        for word in first_words(match.subcommand):
            by_word[word] = (*by_word.get(word, ()), compile_command_match(match))
    return _Matchers(
        by_word, tuple(compile_command_match(match) for match in matches if not first_words(match.subcommand))
    )


def programs_of(match: CommandMatch) -> frozenset[str] | None:
    """The names of which a fitting command's program is one; None where they cannot be listed."""
    exact = _exact(match.program)
    return exact if exact and len(exact) == len(set(match.program)) else None


def marks_of(match: CommandMatch) -> frozenset[str]:
    """The marks of which a command line that fits has one at least; empty where nothing can be said by names alone."""
    if match.program:
        exact = _exact(match.program)
        families = frozenset(name for name in match.program if is_family(name))
        return exact | families if len(exact | families) == len(set(match.program)) else frozenset()
    if match.fork_bomb:
        return frozenset([FORK_BOMB])
    if match.prompt:
        return frozenset([PROMPT])
    if match.code_from:
        return frozenset(code_mark(name) for name in match.code_from)
    return frozenset([CHANGES]) if match.changes or match.redirects_to else frozenset()


def finder_of(match: CommandMatch) -> Callable[[frozenset[str]], str]:
    """Which of the raw names of a line (`bus.shell.parsing`) is a program that `match` looks for; empty where none is.

    The name alone counts: which of its verbs and arguments belong to it cannot be told where a line is not read.
    """
    programs = match.program or match.code_from
    exact = _exact(programs)
    globs = tuple(compile_text_glob(name) for name in programs if name not in exact)
    return lambda names: min(
        exact.intersection(names) or [name for name in names for fits in globs if fits(name)], default=""
    )


def _exact(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for name in names if not any(sign in name for sign in "*?["))


def _program(names: tuple[str, ...]) -> Fits:
    exact = _exact(names)
    globs = tuple(compile_text_glob(name) for name in names if name not in exact)
    if not globs:
        return lambda command, _where: command.program in exact
    return lambda command, _where: command.program in exact or any(fits(command.program) for fits in globs)


def _variables(command: Command) -> Iterable[str]:
    yield from (shown(f"{name}={value}") for name, value in command.assignments)


def _sources(names: tuple[str, ...], of: Callable[[Command], tuple[str, ...]]) -> Fits:
    wanted = frozenset(names)
    return lambda command, _where: not wanted.isdisjoint(of(command))


def _line_fits(regexes: Iterable[Regex], line: str) -> bool:
    return any(regex.search(line) is not None for regex in regexes)


def _texts(command: Command) -> Iterable[str]:
    """What a program may be given to run: each of its arguments, and what it reads."""
    yield from (shown(word) for word in command.words)
    if command.stdin is not None:
        yield shown(command.stdin)


def _path_check(globs: tuple[str, ...], left_out: PathMatcher, of: Callable[[Command], tuple[str, ...]]) -> Fits:
    matches = compile_path_globs(globs)

    def fits(command: Command, where: Where) -> bool:
        words = of(command)
        if not words:
            return False
        place = where()
        for word in words:
            for path in both_paths(word, place, command.directory):
                if matches(path, place) and not left_out(path, place):
                    return True
        return False

    return fits


def both_paths(word: str, place: Place, directory: str) -> tuple[str, ...]:
    """The path of a word as it is written, and its real path where that is another one (`/bin` is a link on Linux)."""
    written = located(word, place, directory, links="none")
    if written is None:
        return ()
    resolved = located(word, place, directory) if place.here else written
    return (written,) if resolved is None or resolved == written else (written, resolved)


_EMPTYING: Final = frozenset({">", ">|", "&>", ">&"})


def empties_own_input(command: Command) -> bool:
    """Whether a command empties what it reads, by a redirection or as `tee`."""
    if command.program == "tee":
        return not set(map(plain_path, command.reads)).isdisjoint(map(plain_path, command.words))
    emptied = [to for sign, to in command.redirects if sign in _EMPTYING]
    if not emptied:
        return False
    # Of `git show HEAD:file` the file, as git has it, is read.
    given = (word.rpartition(":")[2] if command.program == "git" else word for word in command.words if word[:1] != "-")
    read = {plain_path(word) for word in (*given, *command.reads)}
    return not read.isdisjoint(map(plain_path, emptied))


_AT_ROOT: Final = re.compile(
    rf"{UNSET}+/(?:{UNSET}+/?)*(?:\.|\*|\.\*|\.\[[!^]\.\]\*|(?:\.\./?)+\*?|(?:usr|etc|var|home|boot|srv|sbin|Users)/?\*?)?"
)


def _may_be_root(word: str) -> bool:
    """Whether a path is `/`, all in it or a directory of the system there, where the variables in it are empty."""
    return UNSET in word and _AT_ROOT.fullmatch(word) is not None


def _touches(command: Command, place: Place, where: Touched, left_out: PathMatcher) -> bool:
    if where == "own_input":
        return empties_own_input(command)
    words = operands(command)
    if where == "unset_variable":
        if UNSET in command.directory:  # `cd $x; rm -rf *`
            words += tuple(f"{command.directory}/{word.removeprefix('./')}" for word in words)
        return any(_may_be_root(word) for word in words)
    test = is_outside if where == "outside_project" else is_whole_project
    links: Links = "parents" if command.program in UNLINKING else "all"
    for word in words:
        path = located(word, place, command.directory, links=links)
        if path is not None and test(path, place) and not left_out(path, place):
            return True
    return False
