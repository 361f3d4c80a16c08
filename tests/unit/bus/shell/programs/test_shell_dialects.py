"""Issue 10, A3: scripts of fish, Nushell, xonsh, zsh and csh, and subscripts that bash evaluates."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.rows import rows

RUNS = [
    "fish -c 'set d x; rm $d'",
    "fish -c 'rm (echo x)'",
    "fish -c 'true; and rm x'",
    "nu -c '^rm x'",
    "xonsh -c '$[rm x]'",
    "xonsh -c 'import os; os.remove(\"x\")'",
    "zsh -c 'foreach d (x y); rm $d; end'",
    "tcsh -c 'foreach d (x y)\nrm $d\nend'",
    "let 'a[$(rm x)]=1'",
    "[[ 'a[$(rm x)]' -eq 0 ]]",
    "declare -i n='a[$(rm x)]'",
    "n='a[`rm x`]'; echo $((n))",
    "test -v 'a[$(rm x)]'",
    "printf -v 'a[$(rm x)]' y",
    "v='$(rm x)'; echo \"${v@P}\"",
    "r$@m x",
    'r"$@"m x',
]
RUNS_NOT = [
    "grep -n 'a[$(rm x)]' attacks.txt",
    "echo 'let a[$(rm x)]' > notes",
    "xonsh -c 'print(\"rm x\")'",
    "arr[1]='$(rm x)'",
]


@pytest.mark.req("X-09")
@rows("line", RUNS)
def test_what_another_shell_runs_is_found(line: str) -> None:
    assert any(one.program == "rm" and one.words[-2:][0] in ("x", "-f") for one in commands(line).items)


@pytest.mark.req("X-09")
def test_a_closure_of_nushell_is_a_loop() -> None:
    assert ("rm", ("-r", "/srv/*")) in [
        (one.program, one.words) for one in commands("nu -c 'ls /srv | each { |f| rm -r $f.name }'").items
    ]


@pytest.mark.parametrize("line", RUNS_NOT)
def test_a_quoted_text_that_nothing_evaluates_is_not_run(line: str) -> None:
    assert "rm" not in [one.program for one in commands(line).items]
