"""Issue 10, A3: what filters make of a text of the line is worked out, so a shell or a database behind them is still read."""

from __future__ import annotations

import pytest

from bus.shell import UNKNOWN, commands
from bus.shell.programs.filters import rewritten
from tests.support.rows import rows

WORKED_OUT = [
    ("tr", ["nsg", "mrf"], "sn -sg /", "rm -rf /"),
    ("tr", ["a-z", "n-za-m"], "ez -es /", "rm -rf /"),
    ("tr", ["-d", "x"], "xrxm x", "rm "),
    ("tr", [",", " "], "rm,-rf,/", "rm -rf /"),
    ("rev", [], "/ fr- mr", "rm -rf /"),
    ("sed", ["s/xx/rm/"], "xx -rf /", "rm -rf /"),
    ("sed", ["-e", "s/^/rm /"], "a\nb", "rm a\nrm b"),
    ("sed", ["s/.*/rm &/"], "a", "rm a"),
    ("sed", ["s,A,b,gI"], "aAa", "bbb"),
    ("cut", ["-c2-"], "xrm x", "rm x"),
    ("base64", ["-d"], "cm0gLXJmIC8=", "rm -rf /"),
    ("xxd", ["-r", "-p"], "2f657463", "/etc"),
    ("grep", ["^DROP"], None, f"DROP TABLE {UNKNOWN};"),
    ("psql", ["-Atc", "select 'DROP TABLE ' || t || ';' from x"], None, f"DROP TABLE {UNKNOWN};{UNKNOWN}"),
]
NOT_KNOWN = [
    ("tr", ["-cd", "a"], "abc"),
    ("base64", [], "rm"),
    ("base64", ["-d"], "!"),
    ("xxd", ["-r"], "00"),
    ("sed", ["/x/d"], "abc"),
    ("sed", ["s/x/y/"], None),
    ("cut", ["-d:", "-f1"], "a:b"),
    ("grep", ["-v", "DROP"], None),
    ("grep", ["foo"], None),
    ("psql", ["-c", "copy users to stdout"], None),
    ("tr", ["a", "b"], UNKNOWN),
]


@rows(("program", "words", "text", "printed"), WORKED_OUT)
def test_what_a_filter_prints_is_worked_out(program: str, words: list[str], text: str | None, printed: str) -> None:
    assert rewritten(program, words, text) == printed


@pytest.mark.parametrize(("program", "words", "text"), NOT_KNOWN)
def test_what_cannot_be_told_is_not_guessed(program: str, words: list[str], text: str | None) -> None:
    assert rewritten(program, words, text) is None


def test_a_pattern_of_sed_that_is_not_plain_makes_the_text_unknown() -> None:
    assert rewritten("sed", ["s/[a-z]*/x/"], "abc") == UNKNOWN


@pytest.mark.req("X-09")
def test_a_shell_behind_a_filter_is_read() -> None:
    found = commands("echo 'sn x' | tr sn rm | sh")
    assert ("rm", ("x",)) in [(one.program, one.words) for one in found.items]
    shell = next(one for one in commands("echo 'xm y' | sed s/x/r/ | sh").items if one.program == "sh")
    assert shell.code_from == ("echo",), "the filter's part is known, so it hides nothing"
    hidden = next(one for one in commands("echo 'xm y' | awk '{print $2}' | sh").items if one.program == "sh")
    assert "awk" in hidden.code_from
