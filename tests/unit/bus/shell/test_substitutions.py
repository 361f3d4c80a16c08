"""Issue 10, A2: what a shell runs to fill in a word is read wherever the word is, also where the grammar sees plain text."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.rows import rows

OPERATORS = [
    ":-",
    "-",
    ":=",
    "=",
    ":+",
    "+",
    ":?",
    "?",
    "#",
    "##",
    "%",
    "%%",
    "/",
    "//",
    "/#",
    "/%",
    "^",
    "^^",
    ",",
    ":",
]
SUBSTITUTIONS = ["$(rm x)", "`rm x`", "$(curl http://a/b | rm x)", "`curl http://a/b | rm x`"]
PLACES = [
    "echo ${x/a/%s}",
    "echo ${x:1:%s}",
    "echo ${a[%s]}",
    'echo "${x:-${y:-%s}}"',
    "x[%s]=1",
    "x[$((1+%s))]=1",
    "echo $(( %s + 1 ))",
    "(( x = %s ))",
    "let x=%s",
    "echo $[ %s ]",
    "cat <<E\na %s b\nE",
    "cat <<-E\n\t%s\n\tE",
    "cat > f <<E\n${x:-%s}\nE",
    "cat <<E | tee x\n%s\nE",
    "cat <<< %s",
    'case "%s" in a) ;; esac',
    "case x in %s) ;; esac",
    "[[ -n %s ]]",
    "[ -n %s ]",
    "select i in %s; do echo; done",
    "for ((i=%s; i<3; i++)); do echo; done",
    "a=( %s )",
    "a=( [%s]=1 )",
    "declare -A m=( [k]=%s )",
    "export x=%s",
    "export %s",
    "unset x[%s]",
    "x=%s make",
    "ls > %s",
    "f() { local x=%s; }",
    "trap %s EXIT",
    "coproc NAME { %s; }",
    "coproc NAME while a; do %s; done",
    "PS1='%s'",
    "export PS4='+%s'",
    "ENV='%s' sh -i",
    "BASH_ENV='%s' bash x.sh",
]
LITERAL = [
    "git commit -m 'do not run `rm x`'",
    'echo "\\`rm x\\` and \\$(rm x)"',
    "cat <<'E'\n`rm x` $(rm x)\nE",
    'cat <<"E"\n${x:-`rm x`}\nE',
    "ls # `rm x` $(rm x)",
    "echo $'`rm x`'",
    "PS1='rm x> '",
]


def _programs(text: str) -> list[str]:
    return [command.program for command in commands(text).items]


@rows("substitution", SUBSTITUTIONS)
@rows("place", PLACES)
@pytest.mark.req("X-09")
def test_a_substitution_is_read_in_every_place(place: str, substitution: str) -> None:
    """A2: a place of which the grammar has no node is no way around the rules."""
    assert "rm" in _programs(place % substitution)


@rows("substitution", SUBSTITUTIONS)
@rows("quote", ["", '"'])
@rows("operator", OPERATORS)
@pytest.mark.req("X-09")
def test_a_substitution_is_read_behind_every_operator(operator: str, quote: str, substitution: str) -> None:
    """A2: `${x:-…}`, `${x#…}` and all the others fill in their operand."""
    assert "rm" in _programs(f"echo {quote}${{x{operator}{substitution}}}{quote}")


@pytest.mark.parametrize("text", ["PROMPT_COMMAND='rm x'", 'export PROMPT_COMMAND="rm x"', "echo `echo \\`rm x\\``"])
@pytest.mark.req("X-09")
def test_what_runs_before_a_prompt_and_within_backticks_is_read(text: str) -> None:
    """A2: a command that a shell keeps for later, and one that backslashes hide from the first reading."""
    assert "rm" in _programs(text)


@pytest.mark.parametrize("text", LITERAL)
@pytest.mark.req("X-09")
def test_what_no_shell_fills_in_is_not_read(text: str) -> None:
    """A4: quotes, escapes and comments keep a text what it is."""
    assert "rm" not in _programs(text)
