"""Hook commands as they misbehave: hanging, flooding, detaching, dying, and what is left of them afterwards."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bus.system import descendants
from bus.system.environment import TOTAL_LIMIT, base_env, fit_env
from bus.system.processes import Finished, run_process
from tests.support.running import until_true

ESCAPE = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
leader = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == leader:  # only who is left counts
    time.sleep(0.001)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


async def run(
    command: str | list[str], tmp_path: Path, *, stdin: bytes = b"", seconds: float = 20.0, grace: float = 2.0
) -> Finished:
    return await run_process(command, stdin=stdin, env=base_env(), cwd=str(tmp_path), seconds=seconds, grace=grace)


def alive(pid: int) -> bool:
    """Whether a process exists, zombies included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


async def until_exists(path: Path) -> str:
    await until_true(path.exists, f"{path} exists")
    return path.read_text()


@pytest.mark.req("G-08")
async def test_a_command_is_fed_and_answers_on_both_streams(tmp_path: Path) -> None:
    done = await run("cat; echo oops >&2; exit 3", tmp_path, stdin=b"hello")
    assert (done.exit_code, done.signal, done.stdout, done.stderr) == (3, None, b"hello", b"oops\n")
    assert not done.timed_out
    assert not done.spawn_error
    assert done.ms > 0


async def test_a_sequence_runs_without_a_shell(tmp_path: Path) -> None:
    assert (await run(["printf", "%s", "$(id) `id`"], tmp_path)).stdout == b"$(id) `id`"


async def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    by_shell = await run("no-such-command-here", tmp_path)
    assert by_shell.exit_code == 127
    assert b"not found" in by_shell.stderr
    direct = await run(["/no/such/program"], tmp_path)
    assert direct.exit_code is None
    assert direct.spawn_error == "cannot start /no/such/program: No such file or directory"


async def test_a_directory_that_is_gone_and_a_command_with_a_nul(tmp_path: Path) -> None:
    before = open_fds()
    gone = await run("true", tmp_path / "gone")
    assert gone.spawn_error == f"cannot run in the directory {tmp_path / 'gone'}: No such file or directory"
    assert "null byte" in (await run("echo a\0b", tmp_path)).spawn_error
    assert (await run("x" * 3_000_000, tmp_path)).spawn_error.startswith("cannot start")
    assert open_fds() == before


async def test_a_hang_ends_at_the_timeout(tmp_path: Path) -> None:
    done = await run("sleep 600", tmp_path, seconds=0.1)
    assert done.timed_out
    assert done.signal == signal.SIGTERM
    assert done.ms < 1500


async def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    done = await run("trap '' TERM; while :; do sleep 600; done", tmp_path, seconds=0.1, grace=0.1)
    assert done.timed_out
    assert done.signal == signal.SIGKILL
    assert 200 <= done.ms < 2000


async def test_a_clean_exit_after_sigterm_still_counts_as_a_timeout(tmp_path: Path) -> None:
    done = await run("trap 'echo bye; exit 0' TERM; sleep 600 & wait", tmp_path, seconds=0.2)
    assert (done.timed_out, done.exit_code, done.stdout) == (True, 0, b"bye\n")


async def test_a_flood_is_capped_and_counted_and_does_not_block_the_command(tmp_path: Path) -> None:
    done = await run("head -c 3000000 /dev/zero; head -c 100000 /dev/zero >&2", tmp_path)
    assert done.exit_code == 0
    assert len(done.stdout) == len(done.stderr) == 65536
    assert (done.stdout_cut, done.stderr_cut) == (3_000_000 - 65536, 100_000 - 65536)


async def test_an_endless_flood_leaves_the_loop_to_others(tmp_path: Path) -> None:
    used = time.process_time()
    done = await run("yes", tmp_path, seconds=0.5)
    assert done.timed_out
    assert done.stdout.startswith(b"y\ny\n")
    assert time.process_time() - used < 0.35  # of 0.5 s; without throttling it is all of them


async def test_death_by_signal(tmp_path: Path) -> None:
    done = await run("kill -SEGV $$", tmp_path)
    assert (done.exit_code, done.signal) == (None, signal.SIGSEGV)


async def test_stdin_closed_at_once_with_a_megabyte_to_feed(tmp_path: Path) -> None:
    done = await run("exec <&-; sleep 0.05; echo fine", tmp_path, stdin=b"x" * 1_000_000)
    assert (done.exit_code, done.stdout) == (0, b"fine\n")


async def test_a_megabyte_goes_in_while_output_comes_out(tmp_path: Path) -> None:
    done = await run("tee /dev/stderr | wc -c", tmp_path, stdin=b"x" * 1_000_000)
    assert (done.exit_code, int(done.stdout), done.stderr_cut) == (0, 1_000_000, 1_000_000 - 65536)


async def test_a_background_child_that_holds_the_pipes_delays_nothing_and_dies(tmp_path: Path) -> None:
    done = await run("sleep 600 & echo $!; (sleep 600 & wait) & :", tmp_path)
    assert done.exit_code == 0
    assert done.ms < 1000
    assert not alive(int(done.stdout))
    assert done.survivors_killed == (3 if sys.platform == "linux" else 0)


async def test_the_last_words_of_a_process_substitution_arrive(tmp_path: Path) -> None:
    done = await run(["bash", "-c", "echo late > >(cat)"], tmp_path)
    assert done.stdout == b"late\n"


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no subreaper; the docstring says so")
class TestEscapes:
    """Processes that left the group; Linux only."""

    async def test_a_double_fork_with_a_session_of_its_own_is_dead_afterwards(self, tmp_path: Path) -> None:
        file = tmp_path / "pid"
        (tmp_path / "escape.py").write_text(ESCAPE)
        command = f"{sys.executable} escape.py {file} </dev/null >/dev/null 2>&1; while [ ! -e {file} ]; do :; done"
        done = await run(command, tmp_path)
        assert done.exit_code == 0
        assert done.survivors_killed == 1
        assert not alive(int(file.read_text()))

    async def test_without_its_environment_too_and_its_children_with_it(self, tmp_path: Path) -> None:
        command = "setsid -f env -i sh -c 'sleep 600 & echo $! $$ > pids.new; mv pids.new pids; wait'"
        done = await run(f"{command}; while [ ! -e pids ]; do :; done", tmp_path)
        assert done.exit_code == 0
        assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())

    async def test_after_a_timeout_as_well(self, tmp_path: Path) -> None:
        done = await run("setsid -f sh -c 'echo $$ > pid; exec sleep 600'; sleep 600", tmp_path, seconds=0.3)
        assert done.timed_out
        assert not alive(int((tmp_path / "pid").read_text()))

    async def test_a_short_lived_daemon_leaves_no_zombie(self, tmp_path: Path) -> None:
        before = set(descendants._children())  # other tests' processes end up as ours too
        for _ in range(5):
            await run("setsid -f true; setsid -f env -i true", tmp_path)
        await run("sleep 0.05", tmp_path)  # a later run sweeps up what died after its own
        assert set(descendants._children()) <= before

    async def test_by_the_environment_where_the_limit_is_too_small_to_mark(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await run("true", tmp_path)
        monkeypatch.setattr(descendants._marks, "base", 0)
        done = await run(
            "setsid -f sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 600'; while [ ! -e pid ]; do :; done",
            tmp_path,
        )
        assert done.survivors_killed == 1
        assert not alive(int((tmp_path / "pid").read_text()))

    async def test_other_children_of_this_process_are_left_alone(self, tmp_path: Path) -> None:
        plain = subprocess.Popen(["sleep", "600"])
        apart = subprocess.Popen(["sleep", "600"], start_new_session=True)
        ended = subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=True)
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        try:
            await run("setsid -f true; sleep 600 &", tmp_path)
            assert plain.poll() is None
            assert apart.poll() is None
            assert ended.wait() == 7
        finally:
            for process in (plain, apart):
                process.kill()
                process.wait()

    async def test_our_own_limit_is_as_before(self, tmp_path: Path) -> None:
        before = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
        await run("true", tmp_path)
        await run(["/no/such/program"], tmp_path)
        assert resource.getrlimit(resource.RLIMIT_MSGQUEUE) == before
        assert not descendants._marks.active

    async def test_without_a_pidfd(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(pid: int, flags: int = 0) -> int:
            raise OSError("not in this sandbox")

        monkeypatch.setattr(os, "pidfd_open", refuse)
        done = await run("sleep 600 & echo $!; exit 4", tmp_path)
        assert done.exit_code == 4
        assert not alive(int(done.stdout))


async def test_cancelled_the_command_is_killed_and_reaped(tmp_path: Path) -> None:
    before = open_fds()
    task = asyncio.create_task(run("sleep 600 & echo $$ $! > pids.new; mv pids.new pids; wait", tmp_path))
    pids = await until_exists(tmp_path / "pids")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(alive(int(pid)) for pid in pids.split())
    assert open_fds() == before


async def test_fifty_at_once_keep_their_own_output_and_leak_nothing(tmp_path: Path) -> None:
    await run("true", tmp_path)
    before, children = open_fds(), set(descendants._children())
    done = await asyncio.gather(
        *(run(f"cat; sleep 600 & setsid -f sleep 600; exit {n}", tmp_path, stdin=b"%d" % n) for n in range(50))
    )
    assert [(d.exit_code, d.stdout) for d in done] == [(n, b"%d" % n) for n in range(50)]
    assert open_fds() == before
    assert set(descendants._children()) <= children


async def test_file_descriptors_of_the_worker_are_closed(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        done = await run(f"[ -e /dev/fd/{write} ] && echo leaked || echo closed", tmp_path)
    finally:
        os.close(read)
        os.close(write)
    assert done.stdout == b"closed\n"


async def test_the_workers_secrets_are_not_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEETHOOK_REDIS_URL", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("LC_TIME", "C")
    env = base_env(["WANTED", "FLEETHOOK_REDIS_URL", "ABSENT"])
    done = await run_process("env", stdin=b"", env=env, cwd=str(tmp_path), seconds=20)
    assert b"hunter2" not in done.stdout
    assert {b"WANTED=yes", b"LC_TIME=C"} <= set(done.stdout.splitlines())


async def test_values_too_large_for_the_os_are_cut_and_marked(tmp_path: Path) -> None:
    env, cut = fit_env({**base_env(), "BIG": "ä" * 300_000, "NUL": "a\0b", "LONE": "x\ud800y", "OK": "ü"})
    assert cut == ("BIG", "NUL", "LONE")
    assert env["BIG"].endswith("[cut by fleethook: 600000 bytes]")
    assert (env["NUL"], env["LONE"], env["OK"]) == ("ab", "x?y", "ü")
    done = await run_process('printf %s "$BIG" | wc -c', stdin=b"", env=env, cwd=str(tmp_path), seconds=20)
    assert 131_000 < int(done.stdout) < 131_072


async def test_many_large_values_fit_together(tmp_path: Path) -> None:
    env, cut = fit_env({**base_env(), **{f"V{n}": "x" * 120_000 for n in range(40)}})
    assert 33 <= len(cut) < 40
    assert sum(len(name) + len(value) + 2 for name, value in env.items()) <= TOTAL_LIMIT
    assert (await run_process("true", stdin=b"", env=env, cwd=str(tmp_path), seconds=20)).exit_code == 0


async def test_the_whole_group_gets_sigterm(tmp_path: Path) -> None:
    """A leader that waits for its child would wait for ever where that one had not been told."""
    child = "(trap 'echo told > told; exit' TERM; touch ready; sleep 600 & wait) & "
    leader = "trap : TERM; "
    waits = "while [ ! -e ready ]; do :; done; echo up > up; wait; wait"
    done = await run(leader + child + waits, tmp_path, seconds=1.0, grace=20.0)
    assert done.timed_out
    assert (tmp_path / "told").read_text() == "told\n"
