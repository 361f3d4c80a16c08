"""The sieve leaves out no rule that fits: not one of the packs, on any line that they were written with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.config.contents import HookFile
from bus.config.format import GuardSettings
from bus.guards import DEFAULT_PACKS
from bus.guards.corpus import read_corpus
from bus.inforce import HookSet, Layered
from bus.matching.command_rules import CommandMatch
from bus.matching.needles import needles_of
from bus.matching.regexes import compile_regex
from bus.matching.rules import Rule, judge
from bus.matching.sieve import Sieve
from bus.shell import commands
from tests.unit.test_rules import bash

CORPORA = sorted(Path("tests/corpora/development").glob("*.jsonl"))


@pytest.mark.req("X-09")
@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_what_is_left_out_does_not_fit(path: Path) -> None:
    hooks = HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}))])
    rules = {hook.id: hook.rule for hook in hooks.hooks.values() if hook.rule is not None}
    lines, problems = read_corpus(path.read_bytes(), path.name)
    assert not problems
    for line in lines:
        found = hooks._index.find(line.event)
        kept = {hook.id for hook in hooks.blocking(line.event)}
        lost = [hook.id for hook in found if hook.id not in kept and judge(rules[hook.id], line.event) is not None]
        assert not lost, line.call


@pytest.mark.req("X-09")
def test_most_rules_fall_through_for_an_ordinary_line() -> None:
    hooks = HookSet([Layered("fleet", "1", HookFile(guards={name: GuardSettings() for name in DEFAULT_PACKS}))])
    for line in ("ls -la", "git status", "npm test", "pytest -q", "docker ps"):
        assert len(hooks.blocking(bash(line))) <= 3, line


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (r"(^| )a (\S+ )*(migrate reset|db drop)\b", {"migrate reset", "db drop"}),
        (r"(?i)\bDROP\b", {"drop"}),
        (r"a|drop", set()),
        (r"(drop)?", set()),
        (r"[[:alpha:]]drop", set()),
        (r"(drop|reset)[:_-](db|database)", {"drop", "reset"}),
        (r"\x{41}drop", set()),
        (r"(?:ab)+c*", {"ab"}),
    ],
)
def test_what_an_expression_is_not_found_without(pattern: str, needles: set[str]) -> None:
    compile_regex(pattern)
    assert needles_of([pattern]) == needles
    assert needles_of([pattern, "x"]) == frozenset()


@pytest.mark.parametrize(
    ("match", "line"),
    [
        (CommandMatch(program=("p",), line=("(?i)kill",)), "p \u212aILL"),
        (CommandMatch(program=("p",), text=("(?i)stop",)), "p <<< STOP"),
        (CommandMatch(program=("p",), subcommand=("a|b x",)), "p -v 1 b x"),
        (CommandMatch(program=("p",), args=("*=Off", "[*]")), "p a=Off"),
        (CommandMatch(program=("p",), args=("*=Off", "[*]")), "p '*'"),
        (CommandMatch(program=("p",), flags_any=("-f",)), "p -rf"),
        (CommandMatch(program=("p",), line=("a b",)), "x=b; p a $x"),
        (CommandMatch(program=("p*",), line=("a b",)), "pp a b"),
    ],
)
def test_a_rule_that_fits_comes_through(match: CommandMatch, line: str) -> None:
    rule = Rule(commands=(match,))
    assert judge(rule, bash(line)) is not None
    assert Sieve({"it": rule}).passing(commands(line), line) == {"it"}


def test_a_rule_whose_words_are_nowhere_is_left_out() -> None:
    rules = {"it": Rule(commands=(CommandMatch(program=("p",), subcommand=("a",), line=("abc",)),))}
    assert Sieve(rules).passing(commands("p b abc"), "p b abc") == set()
    assert Sieve(rules).passing(commands("p a abd"), "p a abd") == set()
    assert Sieve({"it": Rule(command=("abc",))}).passing(commands("p"), "p") == set()
