"""What code of other languages prints is worked out, so a command that gets it as an argument is read."""

from __future__ import annotations

import pytest

from bus.shell import commands
from bus.shell.programs.printed_code import printed_by_code

pytestmark = pytest.mark.req("X-09")


@pytest.mark.parametrize(
    ("program", "code", "printed"),
    [
        ("python3", "print('/etc')", "/etc"),
        ("python3", "import os; print(os.path.expanduser('~'))", "~"),
        ("python3", "import bus; print(bus.__file__)", "/.python/site-packages/bus/__init__.py"),
        (
            "python3",
            "import bus, os; print(os.path.dirname(bus.__file__))",
            "/.python/site-packages/bus/__init__.py/..",
        ),
        ("node", "console.log('/etc');", "/etc"),
        ("node", "'/etc'", "/etc"),
        ("perl", 'print "/etc"', "/etc"),
        ("ruby", "puts '/etc'", "/etc"),
        ("python3", "print('a'); print('b')", None),
        ("python3", "import sys; print(sys.version)", None),
        ("python3", "print(", None),
        ("node", "console.log(process.version)", None),
    ],
)
def test_the_one_printed_text(program: str, code: str, printed: str | None) -> None:
    assert printed_by_code(program, ("-c", code)) == printed


def test_a_command_gets_it() -> None:
    assert "rm -rf /etc" in [one.line for one in commands('rm -rf "$(python3 -c \'print("/etc")\')"').items]
