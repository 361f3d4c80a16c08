"""Which exit code each command of a line had: known only where the line shows it (X-13)."""

from __future__ import annotations

import pytest

from bus.memory.exits import UNKNOWN, commands_with_exits
from tests.support.rows import rows

pytestmark = pytest.mark.req("X-13")


def exit_of(line: str, code: int, program: str = "pytest") -> int:
    """The exit code of the line's last command of this program."""
    return [ran.exit for ran in commands_with_exits(line, code) if ran.command.program == program][-1]


@rows(
    "line",
    [
        *(
            "pytest",
            "pytest -q tests",
            "cd a && pytest",
            "make && pytest && ls",
            "timeout 60 pytest 2>&1",
            "pytest > out 2>&1",
        ),
        *(
            "pytest &> out",
            "FOO=$X pytest",
            "python -m pytest",
            "uv run pytest",
            "bash -lc 'cd x && pytest -q'",
            "ls; pytest",
        ),
        *("set -e; pytest; ls", "set -euo pipefail\npytest | tail", "echo 'a | b; c' && pytest", "pytest # || true"),
        *('pytest -k "a or b" "$(cat names)"', "ls | wc -l && pytest", "pytest;"),
    ],
)
def test_zero_shows_that_it_succeeded(line: str) -> None:
    assert exit_of(line, 0) == 0


@rows(
    "line",
    [
        *(
            "pytest | tail",
            "pytest; ls",
            "pytest || true",
            "pytest & wait",
            "pytest\nls",
            "pytest |& tee log",
            "! pytest",
        ),
        *(
            "(cd x; pytest); ls",
            "if pytest; then ls; fi",
            "bash -c 'pytest || true'",
            "set -e; set +e; pytest; ls",
            "pytest; exit 0",
        ),
        *(
            "set -e; pytest && ls; ls",
            'echo "$(pytest)"',
            "for a in 1 2; do pytest $a; done",
            "sh -c 'sh -c \"pytest; true\"'",
        ),
        *(
            "f() { pytest; }; f",
            "while pytest; do ls; done",
            "pytest || exit 0",
            "cat <<E\nx\nE\npytest | cat",
            "pytest |cat",
        ),
    ],
)
def test_a_hidden_exit_code_is_not_known(line: str) -> None:
    assert exit_of(line, 0) == UNKNOWN


@pytest.mark.parametrize("line", ["pytest", "cd a && pytest", "ls; pytest", "bash -lc 'pytest'"])
def test_a_failure_is_that_of_the_last_command(line: str) -> None:
    assert exit_of(line, 3) == 3


def test_a_failure_before_it_says_nothing_good() -> None:
    assert exit_of("pytest && ls", 1) == UNKNOWN
    assert exit_of("pytest | tail", 1) == UNKNOWN


def test_strange_lines_never_raise() -> None:
    for line in (
        "",
        "'",
        '"',
        "\\",
        "${",
        "$(",
        "a" * 100_000,
        "&&",
        "|",
        ";;;",
        "pytest '",
        "`",
        "a\0b",
        "<(",
        "# only",
    ):
        assert isinstance(commands_with_exits(line, 0), list)
