"""The sieve leaves out no rule that fits: not one of the packs, on the lines that they were written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from bus.config.file_types import GuardSettings
from bus.config.hook_file_value import HookFile
from bus.events import Event
from bus.hooks import Hook
from bus.hooksets.guards import DEFAULT_PACKS
from bus.hooksets.guards.corpus import read_corpus
from bus.hooksets.in_force import HookSet, Layered
from bus.hooksets.sieve.sieve import Sieve
from bus.matching.command_facts import CommandFacts
from bus.matching.command_match import CommandMatch
from bus.matching.command_rules import compile_command_match
from bus.matching.needles import needle_search, needles_of, words_of
from bus.matching.regexes import compile_regex
from bus.matching.rules import Rule, judge, seen_call
from bus.shell import Commands
from tests.support.examples import sample
from tests.support.rows import rows
from tests.unit.bus.matching.test_rules import bash

CORPORA = [
    path for part in ("development", "fleethook-itself") for path in sorted(Path("tests/corpora", part).glob("*.jsonl"))
]
ELSEWHERE, HERE = "corpus.invalid", ""
ANY_COMMAND = CommandMatch(program_none=("no program has this name",))


@cache
def packs() -> HookSet:
    """Every default pack in force, compiled once for this file."""
    return HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}))])


@pytest.mark.req("X-09")
@rows(
    ("path", "host"),
    [(path, host) for path in CORPORA for host in (ELSEWHERE, HERE) if host == ELSEWHERE or "itself" in str(path)],
    ids=lambda one: one.stem if isinstance(one, Path) else one or "here",
)
def test_the_same_rules_fit_as_by_a_walk_over_all_of_them(path: Path, host: str) -> None:
    hooks = packs()
    lines, problems = read_corpus(path.read_bytes(), path.name, host=host)
    assert not problems
    for line in sample(lines):
        found = [hook for hook in hooks._index.find(line.event) if hooks.holds(hook, line.event)]
        facts = seen_call(line.event).facts(None)
        fitting = {name for one in facts for name, fits in conditions_of(one) if fits(one)}
        walked = {hook.id for hook in found if fits_by_walk(hook, line.event, fitting)}
        kept = hooks.blocking(line.event)
        assert {hook.id for hook in kept if hook.rule and judge(hook.rule, line.event)} == walked, line.call


def fits_by_walk(hook: Hook, event: Event, fitting: set[str]) -> bool:
    """Whether a hook's rule fits; `fitting` has the hooks with a condition that fits a command of the event."""
    rule, call = hook.rule, seen_call(event)
    if rule is None:
        return False
    if not rule.commands or call.text is None or call.line.unread:
        return judge(rule, event) is not None
    if hook.id not in fitting:
        return False
    return judge(msgspec.structs.replace(rule, commands=(ANY_COMMAND,)), event) is not None


Condition = Callable[[CommandFacts], bool]
OF_PROGRAM: dict[str, list[tuple[str, Condition]]] = {}


def conditions_of(one: CommandFacts) -> list[tuple[str, Condition]]:
    """Each condition on commands that does not fail by the program's name alone, with its hook's id."""
    if one.program not in OF_PROGRAM:
        OF_PROGRAM[one.program] = [(name, fits) for name, is_about, fits in conditions() if is_about(one)]
    return OF_PROGRAM[one.program]


@cache
def conditions() -> list[tuple[str, Condition, Condition]]:
    """The conditions on commands of all rules, compiled: the hook's id, the program alone, and the whole condition."""
    return [
        (hook.id, compile_command_match(CommandMatch(program=match.program or ("*",))), compile_command_match(match))
        for hook in packs().hooks.values()
        if hook.rule is not None
        for match in hook.rule.commands
    ]


@pytest.mark.req("X-09")
def test_most_rules_fall_through_for_an_ordinary_line() -> None:
    hooks = packs()
    for line in ("ls -la", "git status", "npm test", "pytest -q", "docker ps"):
        assert len(hooks.blocking(bash(line))) <= 3, line


@rows(
    ("pattern", "needles"),
    [
        (r"(^| )a (\S+ )*(migrate reset|db drop)\b", {("migrate", "migrate reset"), ("drop", "db drop")}),
        (r"(?i)\bDROP\b", {("drop", "")}),
        (r"(?i)DROP", {("", "drop")}),
        (r"a|drop", set()),
        (r"(drop)?", set()),
        (r"[[:alpha:]]drop", set()),
        (r"(drop|reset)[:_](db)", {("", "drop:db"), ("", "drop_db"), ("", "reset:db"), ("", "reset_db")}),
        (r"(^| )(-g|--global)( |$)", {("g", "-g"), ("global", "--global")}),
        (r" \S+\.(py|c)( |$)", {("py", ".py"), ("c", ".c")}),
        (r"\x{41}drop", set()),
        (r"(?:ab)+c*", {("", "ab")}),
        (r"(^| )rm( \S+)* x", {("rm", "")}),
        (r"(^| )rm\w* ", {("", " rm"), ("", "rm")}),
        (r"ya?ml\b", {("", "yaml"), ("", "yml")}),
    ],
)
def test_what_an_expression_is_not_found_without(pattern: str, needles: set[tuple[str, str]]) -> None:
    compile_regex(pattern)
    assert {needle[:2] for needle in needles_of([pattern])} == needles
    assert needles_of([pattern, "x"]) == frozenset()


def test_what_two_parts_of_an_expression_ask_for_has_to_be_there_both() -> None:
    search = needle_search(needles_of([r"\bcargo run .*\b(db|schema) (.* )?(fresh|reset)( |$)"]))
    for text, met in [("cargo run db reset", True), ("cargo test db reset", False), ("cargo run db resets", False)]:
        assert search.is_met(text, words_of(text)) is met, text


@rows(
    ("match", "line"),
    [
        (CommandMatch(program=("p",), line=("(?i)kill",)), "p \u212aILL"),
        (CommandMatch(program=("p",), text=("(?i)stop",)), "p <<< STOP"),
        (CommandMatch(program=("p",), subcommand=("a|b x",)), "p -v 1 b x"),
        (CommandMatch(program=("p",), args=("*=Off", "[*]")), "p a=Off"),
        (CommandMatch(program=("p",), args=("*=Off", "[*]")), "p '*'"),
        (CommandMatch(program=("p",), args=("../*", ".", "[*]")), "p ."),
        (CommandMatch(program=("p",), args=("../*", ".", "[*]")), "p '*'"),
        (CommandMatch(program=("p",), line=(r"\bfoo\b",)), "p foo…bar"),
        (CommandMatch(program=("p",), line=(r"\bfoo\b",)), "p foo$(x)bar"),
        (CommandMatch(program=("p",), text=(r"^foo$",)), "p 'a' foo"),
        (CommandMatch(program=("p",), text=(r"^foo$",)), "echo foo | p"),
        (CommandMatch(program=("p",), flags_any=("-f",)), "p -rf"),
        (CommandMatch(program=("p",), line=("a b",)), "x=b; p a $x"),
        (CommandMatch(program=("p*",), line=("a b",)), "pp a b"),
        (CommandMatch(program=("p",), args=("*/$…",)), "p a/$x"),
        (CommandMatch(program=("p",), args=("$…", "$…/*")), "p $(cat f)/b"),
        (CommandMatch(program=("p",), piped_from=("q",)), "q a | tail | sudo p"),
        (CommandMatch(subcommand=("a",), program_none=("p", "q*")), "p a; r a"),
        (CommandMatch(program=("p*",), subcommand=("a",), program_none=("pp",)), "p a"),
    ],
)
def test_a_rule_that_fits_comes_through(match: CommandMatch, line: str) -> None:
    rule = Rule(commands=(match,))
    assert judge(rule, bash(line)) is not None
    sieve = Sieve({"it": rule})
    assert sieve.always | sieve.passing(*read(line)) == {"it"}


def read(line: str) -> tuple[Commands, str, Callable[[], Sequence[CommandFacts]]]:
    """What a sieve is asked about a line."""
    call = seen_call(bash(line))
    return call.line, line, lambda: call.facts(None)


def test_a_rule_whose_words_are_nowhere_is_left_out() -> None:
    rules = {"it": Rule(commands=(CommandMatch(program=("p",), subcommand=("a",), line=("abc",)),))}
    assert Sieve(rules).passing(*read("p b abc")) == set()
    assert Sieve(rules).passing(*read("p a abd")) == set()
    sieve = Sieve({"it": Rule(command=("abc",))})
    assert sieve.always | sieve.passing(*read("p")) == set()


@rows(
    ("match", "line"),
    [
        (CommandMatch(program=("p",), piped_from=("q",)), "q abc; p b | tail"),
        (CommandMatch(program=("p",), args=("*/$…",)), "p abc/b"),
        (CommandMatch(subcommand=("abc",), program_none=("p", "q")), "p abc; q abc"),
    ],
)
def test_a_rule_about_other_programs_pipes_or_unknown_parts_is_left_out(match: CommandMatch, line: str) -> None:
    sieve = Sieve({"it": Rule(command=("abc",), commands=(match,))})
    assert sieve.always | sieve.passing(*read(line)) == set()


@pytest.mark.req("X-09")
def test_a_line_that_no_rule_fits_wherever_it_runs_is_remembered_and_not_read_again() -> None:
    hooks = HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}))])
    known = hooks._candidates.of(bash("git status")).harmless
    assert hooks.blocking(bash("git status")) == []
    again = bash("git status", cwd="/elsewhere")
    assert hooks.question(again) is None
    assert hooks.blocking(again) == []
    assert (list(known), seen_call(again)._line) == (["git status"], None)
    # Whether a rule fits this one depends on where it runs.
    assert hooks.blocking(bash("touch passwd")) == []
    assert hooks.blocking(bash("touch passwd", cwd="/etc")) != []
    # These may fit, or are too long to be kept.
    assert hooks.blocking(bash("git push --force")) != []
    assert hooks.blocking(bash("pytest " + "a" * 256)) == []
    assert list(known) == ["git status"]
    for number in range(200):
        assert hooks.blocking(bash(f"pytest test_{number}.py")) == []
    assert list(known) == [f"pytest test_{number}.py" for number in range(72, 200)]


@pytest.mark.req("X-09")
@rows(
    "path",
    [path for path in CORPORA if path.stem in ("inspection", "harmless", "git", "variants")],
    ids=lambda one: one.stem,
)
def test_a_line_has_the_same_hooks_the_second_time(path: Path) -> None:
    hooks = packs()
    for line in read_corpus(path.read_bytes(), path.name, host=ELSEWHERE)[0]:
        first, second = (hooks.blocking(msgspec.structs.replace(line.event)) for _ in range(2))
        assert first == second, line.call
