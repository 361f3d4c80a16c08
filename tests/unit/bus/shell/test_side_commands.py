"""Issue 10, A3: commands that a program runs on the side, by an option, a setting or its own command language, are found."""

from __future__ import annotations

import pytest

from bus.shell import commands
from tests.support.rows import rows

RUNS = [
    "arch -x86_64 rm x",
    "setarch x86_64 -R rm x",
    "setarch -R rm x",
    "i386 rm x",
    "chpst -u a:b -m 100 rm x",
    "setuidgid a rm x",
    "softlimit -m 1 rm x",
    "bwrap --bind / / --chdir /h rm x",
    "bwrap --ro-bind /usr /usr -- rm x",
    "dotenv -f .env run -- rm x",
    "dotenv rm x",
    "just --command rm x",
    "just -c bash -c 'rm x'",
    "newgrp docker <<< 'rm x'",
    "echo rm x | newgrp",
    "sem -j 4 rm x",
    "ip netns exec n rm x",
    "choom -n 0 -- rm x",
    "aa-exec -p a -- rm x",
    "ld-linux-x86-64.so.2 --preload a /bin/rm x",
    "lerna exec 'rm x'",
    "flox activate -- rm x",
    "rustup run stable rm x",
    "sandbox-exec -f a.sb rm x",
    "cargo watch -s 'rm x'",
    "ed f <<< '!rm x'",
    "printf '%s\\n' 'r !rm x' q | ed -s f",
    "ex -sc '!rm x' f",
    "ex f <<< ':!rm x'",
    "vim -c ':silent !rm x' -c :q",
    "vim -es -c '!rm x'",
    "vim -c 'let y=system(\"rm x\")'",
    "vim -c ':terminal rm x'",
    "vim -c ':py3 import os; os.system(\"rm x\")'",
    "awk -v c='rm x' 'BEGIN{system(c)}'",
    "gawk 'BEGIN{system(\"rm x\")}'",
    "sed 's/a/rm x/e' f",
    "sed --expression='1e rm x' f",
    "tar -I 'rm x' -xf a.tar",
    "tar cMf a.tar . -F 'rm x'",
    "split --filter='rm x' f",
    "sort --compress-program='rm x' f",
    "tcpdump -w f -z 'rm x'",
    "git -c alias.y='!rm x' y",
    "git -c credential.helper='!rm x' fetch",
    "git -c filter.y.clean='rm x' add .",
    "git clone -u 'rm x' a",
    "git fetch --upload-pack='rm x' origin",
    "git grep -O'rm x' y",
    "git clone 'ext::rm x' y",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.y GIT_CONFIG_VALUE_0='!rm x' git y",
    "ssh -o 'ProxyCommand rm x' h",
    "ssh -oKnownHostsCommand='rm x' h",
    "scp -S 'rm x' a h:",
    "sftp h <<< '!rm x'",
    "rsync --rsync-path='rm x; rsync' a h:",
    "apt-get -o DPkg::Pre-Invoke::='rm x' install a",
    "rpm --eval '%(rm x)'",
    "gdb -ex '!rm x'",
    "make --eval='$(shell rm x)'",
    "make SHELL='rm x #'",
    "bat --pager 'rm x' f",
    "gh alias set --shell y 'rm x'",
    "LESSCLOSE='rm x' less f",
    "docker exec c chroot /host rm x",
    "minikube ssh 'rm x'",
    "adb -s a shell rm x",
    "nomad alloc exec a rm x",
    "aws ecs execute-command --command 'rm x' --interactive",
    "pwsh -c 'rm -rf x'",
    "pwsh <<< '& rm -rf x'",
    'pwsh -c \'Start-Process rm -ArgumentList "-rf","x"\'',
]
UNKNOWN_PROGRAMS = [
    "newtool --in /x rm -rf y",
    "newtool run -- rm -rf y",
    "yarn workspaces foreach -A exec rm -rf y",
    "newtool bash -c 'rm y'",
    "newtool | other rm -rf y",
    "x=1 newtool rm -rf y > f",
]
RUNS_NOT = [
    "echo rm -rf x",
    "printf '%s ' rm -rf x",
    "git commit -m 'alias.x=!rm y'",
    "git config alias.st status",
    "grep -rn rm -rf .",
    "apt-get install -y bash rm",
    "mail a <<< 'rm x'",
    "ed f <<< 'rm x'",
    "sed 's/rm x/e/' f",
    "sed 's/e/rm x/g' f",
    "tar -I 'zstd -19' -cf a .",
    "ssh -o ProxyJump=rm h",
    "docker run --rm alpine rm -rf /x",
]


def _programs(text: str) -> list[str]:
    return [command.program for command in commands(text).items]


@rows("text", RUNS)
@pytest.mark.req("X-09")
def test_a_command_that_runs_on_the_side_is_found(text: str) -> None:
    """A3: the program that is asked for first is not the one that deletes."""
    assert "rm" in _programs(text)


@pytest.mark.parametrize("text", UNKNOWN_PROGRAMS)
@pytest.mark.req("X-09")
def test_a_program_that_is_not_known_runs_the_command_among_its_arguments(text: str) -> None:
    """A3: a wrapper that no list names is none of the ways around."""
    assert "rm" in _programs(text)


@rows("text", RUNS_NOT)
@pytest.mark.req("X-09")
def test_words_and_texts_that_are_not_run_stay_words(text: str) -> None:
    """A4: an inspection, a message or an option's plain value is no command."""
    assert "rm" not in _programs(text)


@pytest.mark.parametrize(
    "text",
    [
        "docker exec c git push --force",
        "podman exec c git push --force",
        "docker run --rm -v $PWD:/r alpine/git push --force",
        "ssh h git push --force",
    ],
)
@pytest.mark.req("X-09")
def test_git_in_a_container_changes_what_is_elsewhere(text: str) -> None:
    """A3: what git, terraform and their like change is not in the container."""
    assert ("git", ("push", "--force")) in [(command.program, command.words) for command in commands(text).items]


@pytest.mark.req("X-09")
def test_a_text_for_parallel_stays_one_argument() -> None:
    """A3: `parallel` and `sem` quote what they fill in, so SQL behind them is one argument."""
    for text in ("parallel psql -c ::: 'DROP TABLE x'", "sem psql -c 'DROP TABLE x'"):
        assert ("psql", ("-c", "DROP TABLE x")) in [
            (command.program, command.words) for command in commands(text).items
        ]
