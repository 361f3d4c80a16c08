"""A forked process of Fleethook does what a started one does."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked import PROGRAM, Fleethook, Snippet
from tests.support.waiting import wait_until

BROKEN = "redis_url: [1"


@pytest.mark.parametrize("words", [["--version"], ["config", "check"], ["publish"], ["worker", "nothing"]])
def test_a_forked_process_says_and_ends_as_a_started_one(words: list[str], tmp_path: Path) -> None:
    """In the folder, the environment and with the files that it was given."""
    (tmp_path / "fleethook.yaml").write_text(BROKEN, "utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    env |= {"FLEETHOOK_HOME": str(tmp_path / "home")}
    pipe = subprocess.PIPE
    with Fleethook(words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path, env=env) as forked:
        told = forked.communicate(b"{}", timeout=60)
    started = subprocess.run([*PROGRAM, *words], input=b"{}", capture_output=True, cwd=tmp_path, env=env, check=False)
    assert (forked.returncode, *told) == (started.returncode, started.stdout, started.stderr)


@pytest.mark.parametrize(
    "code",
    [
        "import beside, sys; print(sys.argv, __name__, beside.WORD)",
        "import sys; print(sys.stdin.read(), file=sys.stderr); sys.exit(3)",
        "import atexit, threading; atexit.register(print, 'end'); threading.Thread(target=lambda: print('thread')).start()",
    ],
)
def test_forked_code_says_and_ends_as_started_code(code: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'found'", "utf-8")
    pipe = subprocess.PIPE
    with Snippet(code, "a", "b", stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path) as forked:
        told = forked.communicate(b"{}", timeout=60)
    words = [sys.executable, "-c", code, "a", "b"]
    started = subprocess.run(words, input=b"{}", capture_output=True, cwd=tmp_path, check=False)
    assert (forked.returncode, *told) == (started.returncode, started.stdout, started.stderr)


def test_forked_code_that_fails_says_where(tmp_path: Path) -> None:
    with Snippet("def f():\n    1 / 0\nf()", stderr=subprocess.PIPE, cwd=tmp_path) as forked:
        _, said = forked.communicate(timeout=60)
    assert forked.returncode == 1
    assert b'File "<string>", line 2, in f' in said
    assert b"ZeroDivisionError" in said


def test_a_forked_process_is_our_child_with_the_files_that_it_was_given(tmp_path: Path) -> None:
    """A signal reaches it, its exit is ours to read, and a pipe that it was given ends with it."""
    ours, theirs = os.pipe()
    env = {**os.environ, "FLEETHOOK_REDIS_URL": f"unix://{tmp_path}/none.sock"}
    with (tmp_path / "log").open("wb") as log:
        worker = Fleethook(
            ["worker", "evaluator"], env=env, stderr=log, pass_fds=(theirs,), start_new_session=True, cwd=tmp_path
        )
    os.close(theirs)
    try:
        wait_until(lambda: b"trying again" in (tmp_path / "log").read_bytes(), "it tries")
        assert os.getsid(worker.pid) == worker.pid
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)
        worker.kill()
        assert worker.wait(60) == -signal.SIGKILL
        os.set_blocking(ours, True)
        assert os.read(ours, 1) == b""
    finally:
        worker.kill()
        worker.wait()
        os.close(ours)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has processes that adopt")
@pytest.mark.parametrize("adopts", [0, 1])
def test_whether_this_process_adopts_orphans_stays_as_it_was(adopts: int, tmp_path: Path) -> None:
    """What runs hooks in a test's own process finds what they left behind by that (`bus/system/descendants.py`)."""
    prctl, before, after = ctypes.CDLL(None).prctl, ctypes.c_int(), ctypes.c_int()
    prctl(37, ctypes.byref(before), 0, 0, 0)
    try:
        prctl(36, adopts, 0, 0, 0)
        assert Fleethook(["--version"], stdout=subprocess.DEVNULL, cwd=tmp_path).wait(60) == 0
        prctl(37, ctypes.byref(after), 0, 0, 0)
        assert after.value == adopts
    finally:
        prctl(36, before.value, 0, 0, 0)
