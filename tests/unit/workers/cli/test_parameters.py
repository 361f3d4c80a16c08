"""Mistyped arguments and options: exit code 2, one line, and what to write instead."""

from __future__ import annotations

import pytest

from workers.cli import root
from workers.cli.common import run_command


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (
            ["tail", "--where", "event.tol == 'bash'"],
            'no event has event.tol, so this condition fails; did you mean "tool"?',
        ),
        (["stop", "--where", "event.hsot == 'a'"], 'did you mean "host"?'),
        (["say", "stay", "--where", "event.session =="], "it ends too early, at column 17"),
        (["hooks", "test", "tool:pre_exe:bash"], "did you mean 'tool:pre_execute'?"),
        (["events", "list", "--type", "tool:pre_exe"], "did you mean 'tool:pre_execute'?"),
        (
            ["publish", '{"type": "session:start"}'],
            "this is an event and no file: pipe it, as in `echo '…' | fleethook publish`",
        ),
        (["request", ' {"type": "tool:pre_execute"}'], "`echo '…' | fleethook request`"),
        (
            ["webhooks", "add", "log", "https://a.example/x"],
            "the URL comes first, and the endpoint's name is an option",
        ),
        (["webhooks", "set", "log", "https://a.example/x?y=1"], "write url=https://a.example/x?y=1"),
        (["hooks", "agents", "cluade"], "no agent is called 'cluade'; did you mean claude?"),
        (["events", "list", "--jsn"], "No such option '--jsn'; did you mean --json or --since?"),
        (["instal", "claude"], "there is no command 'instal'; did you mean install? See"),
        (["status", "--jsn"], "No such option '--jsn'; did you mean --json?"),
        (["deliveries", "list", "--state", "dea"], "did you mean dead"),
        (["listen", "--port", "abc"], "'abc' is no whole number"),
        (["completion"], "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish; see"),
    ],
)
def test_a_mistyped_argument_is_a_usage_error_that_says_what_to_write(
    typed: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 11, section 3: suggestions for every mistyped choice."""
    assert run_command(root, typed) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
