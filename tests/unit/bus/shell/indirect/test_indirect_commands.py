"""Commands that a line runs indirectly: typed into a terminal, printed by a builtin, written into a file by code (X-09)."""

import pytest

from bus.shell import commands
from bus.shell.indirect.written_scripts import written_scripts
from tests.support.rows import rows
from tests.support.waiting import cpu_at_most

pytestmark = pytest.mark.req("X-09")


def runs(line: str) -> list[str]:
    """The commands that a line runs, as texts."""
    return [one.line for one in commands(line).items]


@rows(
    "line",
    [
        r"kitty @ send-text 'rm -rf /srv/data\n'",
        r"kitten @ send-text --match title:x 'rm -rf /srv/data\x0d'",
        "kitty @ launch rm -rf /srv/data",
        "wezterm cli send-text --no-paste 'rm -rf /srv/data'",
        "wezterm start -- rm -rf /srv/data",
        "echo 'rm -rf /srv/data' | wezterm cli send-text --pane-id 2",
        "xdotool type --delay 0 'rm -rf /srv/data'",
        "xdotool search --name term windowactivate type 'rm -rf /srv/data'",
        "echo 'rm -rf /srv/data' | ydotool type --file -",
        "wtype 'rm -rf /srv/data' -k Return",
        "echo type rm -rf /srv/data | dotool",
        "zellij action write-chars 'rm -rf /srv/data'",
        "zellij run -- rm -rf /srv/data",
        "history -s 'rm -rf /srv/data'; fc -s",
        "dc -e '!rm -rf /srv/data'",
        "echo '!rm -rf /srv/data' | dc",
        "echo 'syscmd(`rm -rf /srv/data'\"'\"')' | m4",
        "m4 <<< 'esyscmd(rm -rf /srv/data)'",
        "aria2c --on-download-complete='rm -rf /srv/data' https://x.io/a",
        "zsh -c 'zargs -- /srv/data -- rm -rf'",
        "zargs -i{} -- /srv/data -- rm -rf {}",
        "newgrp docker -c 'rm -rf /srv/data'",
        "newgrp docker <<< 'rm -rf /srv/data'",
        "zsh -c 'print -l /srv/data | xargs rm -rf'",
        'fish -c \'string split " " "/srv/data" | xargs rm -rf\'',
        "fish -c 'string join \" \" rm -rf /srv/data | sh'",
        "r`:`m -rf /srv/data",
        "python3 -c \"open('x.sh','w').write('rm -rf /srv/data')\"; sh x.sh",
        "python3 -c \"from pathlib import Path; Path('y.sh').write_text('rm -rf /srv/data')\" && bash y.sh",
        "python3 - <<'E'\nwith open('go.sh', 'w') as f:\n    f.write('#!/bin/sh\\nrm -rf /srv/data\\n')\nE\nsh go.sh",
        "node -e \"require('fs').writeFileSync('n.sh','rm -rf /srv/data')\" && sh n.sh",
        "perl -e 'print \"rm -rf /srv/data\\n\"' > p.sh; sh p.sh",
        'perl -e \'open F,">p.sh"; print F "rm -rf /srv/data"; close F\' && sh p.sh',
        'ruby -e \'File.write("r.sh","rm -rf /srv/data")\'; bash r.sh',
        'php -r \'file_put_contents("h.sh","rm -rf /srv/data");\' && sh h.sh',
        'awk \'BEGIN{print "rm -rf /srv/data" > "a.sh"}\'; sh a.sh',
    ],
)
def test_a_command_that_runs_indirectly_is_read(line: str) -> None:
    assert "rm -rf /srv/data" in runs(line)


@rows(
    "line",
    [
        "print -r -- 'rm -rf /srv/data'",
        "string match 'rm -rf /srv/data' x",
        "history | grep 'rm -rf /srv/data'",
        "echo 'define(a, rm -rf /srv/data)' | m4",
        "echo '# rm -rf /srv/data' | dc",
        "kitty @ ls --match 'title:rm -rf /srv/data'",
        "xdotool search --name 'rm -rf /srv/data'",
        "python3 -c \"open('x.md','w').write('rm -rf /srv/data')\"; cat x.md",
        "python3 -c \"open('x.sh').read(); print('rm -rf /srv/data')\"",
        "node -e \"require('fs').writeFileSync('n.txt','rm -rf /srv/data')\" && sh build.sh",
    ],
)
def test_a_text_that_nothing_runs_is_no_command(line: str) -> None:
    assert "rm -rf /srv/data" not in runs(line)


@rows(
    "code",
    [
        "open(" * 12000,
        "open" + " " * 60000,
        "open('x', 'w'); print" + " " * 60000,
        "print " + "x" * 60000,
        "open('" + "a" * 60000,
        "open('x', 'w'); " * 4000,
        "open('x', 'w').write('" + "a" * 60000,
        "open('x', 'w'); " + "write(" * 10000,
        "open('x', 'w'); " + "write('" * 9000,
        "open('x', 'w'); " + "print x " * 7000,
        "open('x', 'w'); " + "writeFile(" + "a" * 60000,
        "print " * 10000 + "> 'x'",
        "print > 'x'; " * 4500,
        "Path( " * 10000 + "write",
        "open('x', 'w'); write(" + "\\" * 60000,
    ],
)
def test_to_find_what_code_writes_takes_bounded_time(code: str) -> None:
    with cpu_at_most(20):
        list(written_scripts(code))


def test_only_so_many_files_are_found_in_code() -> None:
    code = "".join(f"open('{number}.sh', 'w').write('ls');" for number in range(1000))
    assert len(list(written_scripts(code))) == 16
