"""Wrappers: the command that `sudo`, `tmux`, `xargs` and their like run is found, with its arguments and its directory."""

from __future__ import annotations

import pytest

from bus.shell import UNKNOWN, commands

RUNS = [
    "pkexec rm x", "pkexec --user root rm x", "sudo -nu root rm x", "sudo -s rm x", "sudo -i rm x", "sudo -n -- rm x",
    "sudo --user=root rm x", "sudo -u root -- env A=1 rm x", "sudo -i <<< 'rm x'", "echo rm x | sudo -s",
    "doas -u root rm x",
    "run0 rm x", "gosu root rm x", "su -c'rm x'", "su root -c 'rm x'", "su - root --command='rm x'", "su -lc 'rm x'",
    "su - <<E\nrm x\nE", "runuser -u me -- rm x", "runuser -l me -c 'rm x'", "sg docker -c 'rm x'",
    "env - rm x", "env - A=1 rm x", "env -iS 'rm x'", "env -S'rm x'", "env --split-string='rm x'", "env -uA rm x",
    "script -qc 'rm x' /dev/null", "script -q -c 'rm x' log", "script -q /dev/null rm x", "script /dev/null -c 'rm x'",
    "$SHELL -c 'rm x'", '"$0" -c "rm x"', "${SHELL:-/bin/sh} -c 'rm x'", "$BASH -c 'rm x'",
    "echo 'rm x' | at now", "at now + 1 minute <<< 'rm x'", "batch <<E\nrm x\nE", "echo '* * * * * rm x' | crontab -",
    "echo '@reboot rm x' | crontab",
    "tmux new-session -d 'rm x'", "tmux new -d -s w 'rm x'", "tmux new-window -n w rm x", "tmux neww 'rm x'",
    "tmux split-window -h 'rm x'", "tmux run-shell 'rm x'", "tmux run -b 'rm x'", "tmux send-keys -t w 'rm x' Enter",
    "tmux send -t w 'rm x' C-m", "tmux send-keys rm Space x Enter", "tmux -L s new -d \\; send-keys 'rm x' Enter",
    "tmux respawn-pane -k 'rm x'", "tmux if-shell 'rm x' ''",
    "screen -dmS w rm x", "screen -dm bash -c 'rm x'", "screen -S w -X stuff 'rm x^M'",
    "screen -S w -X stuff $'rm x\\n'",
    "screen -dmS w sh -c 'rm x'", "screen -S w -X exec rm x", "screen rm x",
    "ssh h bash <<E\nrm x\nE", "ssh h bash -s <<E\nrm x\nE", "ssh h <<E\nrm x\nE", "echo 'rm x' | ssh h sh",
    "echo 'rm x' | ssh h sudo bash", "ssh h bash -c \"'rm x'\"", "ssh h -- rm x", "ssh -tp 22 h rm x",
    "sshpass -p x ssh h rm x",
    "ssh -o A=b -i k h 'cd /; rm x'", "gcloud compute ssh h --command='rm x'", "vagrant ssh -c 'rm x'",
    "parallel rm ::: x", "parallel -j4 rm {} ::: x", "parallel 'rm {}' ::: x y", "parallel ::: 'rm x' ls",
    "echo 'rm x' | parallel", "echo x | parallel rm", "echo x | parallel -I% rm %", "parallel rm {1} ::: x ::: y",
    "parallel -- 'rm x'", "sem rm x",
    "echo x | xargs rm", "echo x | xargs -I{} rm {}", "echo x | xargs -I % rm %", "echo x | xargs -i rm {}",
    "echo x | xargs -n1 -P4 rm", "echo x | xargs -n 1 -P 4 rm", "printf 'x\\0' | xargs -0 rm",
    "echo x | xargs --replace rm {}",
    "echo x | xargs --replace=% rm %", "echo x | xargs -r -t rm", "echo x | xargs -d '\\n' rm", "echo x | xargs -L1 rm",
    "echo x | xargs -I{} sh -c 'rm {}'", "echo x | xargs sh -c 'rm $@' _", "echo x | xargs -rn1 rm", "xargs rm <<< x",
    "echo x | xargs -- rm", "echo 'rm x' | xargs -I{} sh -c {}", "echo x | xargs -ti rm {}", "echo x | xargs env rm",
    "find . -exec sh -c 'rm x' \\;", "find . -execdir sh -c 'rm x' ';'", "find . -ok rm x \\;",
    "find . -exec bash -c 'rm x' {} +",
    "fd -x rm x", "fdfind pat src --exec sh -c 'rm x'", "fd . / -X rm x",
    "nsenter -t 1 -m rm x", "nsenter --target=1 --mount -- rm x", "unshare -rm rm x", "chroot / rm x",
    "chroot --userspec=a:b / rm x", "setsid -f rm x", "stdbuf -oL rm x", "stdbuf --output=L rm x", "ionice -c3 rm x",
    "ionice -c 3 -n 7 rm x", "taskset -c 0 rm x", "taskset 1 rm x", "strace -f -o log rm x", "strace -fo log rm x",
    "systemd-run --user --scope rm x", "systemd-run -p A=b --on-active=5 rm x", "nice -n5 rm x", "nice -5 rm x",
    "timeout -k5 -s KILL 5s rm x", "chrt -f 50 rm x", "ltrace rm x", "perf stat rm x", "numactl -N0 rm x",
    "prlimit --nproc=1 rm x",
    "ls | entr rm x", "ls | entr -rs 'rm x'", "watchexec -w src -- rm x", "watchexec 'rm x'", "nodemon --exec 'rm x'",
    "watch -dn1 'rm x'", "watch --interval 1 -- rm x", "flock -n /l -c 'rm x'", "flock -w5 /l rm x",
    "make -f - <<'E'\nall:\n\trm x\nE", "printf 'all:\\n\\t@rm x' | make -f -",
    "make -f /dev/stdin <<'E'\nall: ; rm x\nE",
    "npx -c 'rm x'", "npx -y rm x", "npm exec -- rm x", "npm exec -c 'rm x'", "pnpm exec rm x", "yarn exec rm x",
    "bunx rm x",
    "direnv exec . rm x", "mise exec -- rm x", "mise x node@20 -- rm x", "asdf exec rm x", "poetry run rm x",
    "uv run rm x",
    "uv run --with a -- rm x", "pipenv run rm x", "nix-shell --run 'rm x'", "nix-shell -p a --run 'rm x'",
    "nix develop -c rm x", "bundle exec rm x", "conda run -n e rm x", "rbenv exec rm x", "op run -- rm x",
    "aws-vault exec p -- rm x",
    "doppler run --command='rm x'", "dotenv -f .env rm x", "hyperfine 'rm x'", "concurrently 'rm x' b",
    "git -c alias.z='!rm x' z", "git config alias.z '!rm x'", "git rebase --exec='rm x' main",
    "git -C d bisect run rm x",
    "git filter-branch --tree-filter 'rm x'", "git submodule foreach --recursive 'rm x'",
    "awk 'BEGIN { system(\"rm x\") }'", "awk '{ print | \"rm x\" }' f", "tar xf a --to-command='rm x'",
    "tar cf a b --checkpoint=1 --checkpoint-action=exec='rm x'", "busybox sh -c 'rm x'", "exec -a n rm x",
    "sudo -H -u me bash -lc 'rm x'", "nohup setsid sh -c 'rm x' &", "bash --norc -c 'rm x'", "bash -xc 'rm x'",
    "bash -c -- 'rm x'",
    "bash -ic 'rm x'", "command -p rm x", "trap -- 'rm x' EXIT", "eval -- rm x", "docker run -v /:/h a chroot /h rm x",
]  # fmt: skip


@pytest.mark.req("X-09")
@pytest.mark.parametrize("text", RUNS)
def test_the_command_inside_is_found(text: str) -> None:
    assert any(one.program == "rm" and "x" in one.words for one in commands(text).items), [
        one.line for one in commands(text).items
    ]


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    "text",
    ["sudo -l rm x", "sudo -e rm x", "at -l", "tmux ls", "tmux new -d", "tmux list-keys rm x", "screen -ls",
    "screen -r rm",
     "npm run rm x", "npm install rm", "uv pip install rm", "poetry add rm", "mise install rm x", "docker run i rm x",
     "git commit -m '!rm x'", "git log --grep 'rm x'", "make rm",
     "crontab file", "at -f file now", "awk '/rm x/ { print }' f", "command -v rm x", "xargs --arg-file rm", "fd rm x"],
)  # fmt: skip
def test_what_is_not_run_is_no_command(text: str) -> None:
    assert not any(one.program == "rm" for one in commands(text).items)


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "directory"),
    [("env -C / rm x", "/"), ("env --chdir=/ rm x", "/"), ("sudo -D / rm x", "/"), ("sudo --chdir=/ sh -c 'rm x'", "/"),
     ("systemd-run --working-directory=/ rm x", "/"), ("unshare --wd=/ rm x", "/"), ("uv --directory / run rm x", "/"),
     ("npm --prefix a exec rm x", "a"), ("env -C a env -C b rm x", "a/b")],
)  # fmt: skip
def test_a_wrapper_may_say_where(text: str, directory: str) -> None:
    (found,) = [one for one in commands(f"{text}; rm after").items if one.words == ("x",) and one.program == "rm"]
    assert found.directory == directory
    assert commands(f"{text}; rm after").items[-1].directory == "."


@pytest.mark.req("X-09")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("docker run -v /:/h alpine rm -rf /h/etc", ("-rf", "/etc")),
        ("docker run --rm -v /:/h alpine sh -c 'rm -rf /h'", ("-rf", "/")),
        ("podman run --mount type=bind,source=/srv,target=/w a rm -rf /w", ("-rf", "/srv")),
        ("docker run -v $PWD:/w -w /w a rm -rf build /cache", ("-rf", "build", "/tmp/.container/cache")),
        ("docker run -v ~:/w a rm -rf /w/x", ("-rf", "~/x")),
        ("fd -X rm -rf", ("-rf", f"./{UNKNOWN}")),
        ("fd . /etc -x rm {}", (f"/etc/{UNKNOWN}",)),
        ("fd -x rm {//} \\; ", (f"./{UNKNOWN}",)),
        ("xargs -a list rm -rf", ("-rf", UNKNOWN)),
        ("printf '/a,/b' | xargs -d, rm", ("/a", "/b")),
        ("parallel -a list rm -rf", ("-rf", UNKNOWN)),
        ("parallel rm {2}/{1} ::: a ::: b", ("b/a",)),
    ],
)
def test_what_the_command_is_given(text: str, words: tuple[str, ...]) -> None:
    assert words in [one.words for one in commands(text).items if one.program == "rm"]
