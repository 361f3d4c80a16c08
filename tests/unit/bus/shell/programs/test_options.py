"""Issue 10, A3: a command behind an option that is named after what runs is found for programs of any name."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.rows import rows

RUNS = [
    "newtool --exec 'rm x'",
    "newtool --on-change='rm x'",
    "newtool --post-hook 'rm x'",
    "openvpn --up 'sh -c \"rm x\"'",
    "restic --password-command 'rm x' snapshots",
    "octave --eval 'system(\"rm x\")'",
    "raku -e 'shell \"rm x\"'",
    "fzf --bind 'start:execute(rm x)'",
    "go test -exec 'rm x' ./...",
    "gcc -wrapper rm,x a.c",
    "hg --config alias.y='!rm x' y",
    "pdflatex -shell-escape '\\immediate\\write18{rm x}'",
    "flatpak run --command=rm org.a.B x",
    "snap run --shell a -c 'rm x'",
    "nix run nixpkgs#coreutils -- --coreutils-prog=rm x",
    "rsync -ae 'rm x' a h:b",
    "ruby -run -e rm -- x",
    "KUBE_EDITOR='rm x' kubectl edit y",
    "RSYNC_RSH='rm x' rsync a h:b",
    "TAR_OPTIONS='-I \"rm x\"' tar cf a b",
    "sqlite3 a '.once |rm x' 'select 1'",
    "systemd-run -p ExecStopPost='/bin/rm x' true",
    "podman unshare rm x",
]
RUNS_NOT = [
    "jest -t 'rm x'",
    "newtool --message 'rm x'",
    "newtool --title='rm x'",
    "./check.sh 'rm x'",
    "python3 judge.py 'rm x'",
    "ugrep -e 'rm x' src",
    "task add 'rm x'",
    "hg commit -m 'rm x'",
    "MY_NOTE='rm x' make",
]


@pytest.mark.req("X-09")
@rows("line", RUNS)
def test_a_command_behind_an_option_is_found(line: str) -> None:
    assert ("rm", ("x",)) in [(one.program, one.words) for one in commands(line).items]


@pytest.mark.parametrize("line", RUNS_NOT)
def test_a_text_that_is_not_run_is_no_command(line: str) -> None:
    assert "rm" not in [one.program for one in commands(line).items]
