"""Lines of zsh, fish and csh, and rarer words of bash: what Bash's grammar cannot read does not pass."""

from __future__ import annotations

import pytest

from bus.events import Event
from bus.matching.rules import CommandMatch, Rule, judge
from tests.support.rows import rows

RULE = Rule(commands=(CommandMatch(program=("rm",), touches=("outside_project",)),))


def stops(command: str) -> bool:
    """Whether a rule about `rm` outside the project fits the line."""
    return judge(RULE, Event(type="tool:pre_execute", tool="bash", input={"command": command})) is not None


@pytest.mark.req("X-09")
@rows(
    "command",
    [
        "foreach f (/etc /usr); rm -rf $f; end",
        "foreach f (/etc /usr)\n rm -rf $f\nend",
        "select x (/etc /usr) rm -rf $x",
        "rm -rf ${(z)x:-/etc}",
        "rm -rf ${:-/etc}",
        "set -l d /etc; rm -rf $d",
        "csh -c 'set d = /etc; rm -rf $d'",
        "setenv D /etc; rm -rf $D",
        'a=(/tmp/x /etc); rm -rf "${a[@]:1:1}"',
        'printf -v "a[0]" %s /etc; rm -rf "${a[0]}"',
        "x=RM; ${x@L} -rf /etc",
        "bash 0<<< 'rm -rf /etc'",
    ],
    ids=range(12),
)
def test_what_only_another_shell_can_read_is_stopped(command: str) -> None:
    """Issue 10, item A2: each of these passed."""
    assert stops(command)


@pytest.mark.req("X-09")
@rows(
    "command",
    [
        "set -euo pipefail; rm -rf build",
        "set -- build dist; rm -rf $1",
        "a=(build dist); rm -rf ${a[@]:0:1}",
        "for k in ${(k)sizes}; do\n  print -r -- $k\ndone\nrm -rf build",
    ],
    ids=range(4),
)
def test_what_is_read_or_stands_in_another_line_passes(command: str) -> None:
    assert not stops(command)
