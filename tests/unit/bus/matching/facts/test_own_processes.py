"""Fleethook's own processes are known by their numbers, on their own host (X-09)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.events import Event
from bus.hooksets.guards import load_pack
from bus.ids import host_name
from bus.matching.rules import judge
from bus.system.directories import directories
from tests.support.waiting import wait_until

RULE = next(
    hook.rule for hook in load_pack("fleethook-itself").rules if hook.id == "fleethook-itself_own-processes-by-number"
)
WAITS = "import sys; sys.stdin.read()"

pytestmark = [
    pytest.mark.req("X-09"),
    pytest.mark.skipif(
        not Path("/proc/self/cmdline").exists(), reason="only /proc tells what a process was started as"
    ),
]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    """A process that waits for its input to end, with these words as its command line.

    A process that has just been started has no words in /proc for a moment.
    """
    process = subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE)
    wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes(), "the process's words")
    return process


@pytest.fixture(scope="module")
def numbers() -> Iterator[dict[str, int]]:
    """Processes that were started as `fleethook`, on its socket's path, and as something else."""
    started = {
        "program": ["/opt/venv/bin/fleethook", "-c", WAITS],
        "server": ["valkey-server", "-c", WAITS, "unixsocket:/run/user/1000/fleethook/redis.sock"],
        "other": ["python3", "-c", WAITS],
        "reader": ["python3", "-c", WAITS, "notes/fleethook.md"],
    }
    running = {name: start(words) for name, words in started.items()}
    yield {name: process.pid for name, process in running.items()}
    for process in running.values():
        process.communicate(timeout=60)


def objection(command: str, host: str) -> str:
    """What the rule says to a command."""
    assert RULE is not None
    event = Event(type="tool:pre_execute", source="claude", host=host, cwd="/", tool="bash", input={"command": command})
    return RULE.decision if judge(RULE, event) is not None else ""


@pytest.mark.parametrize(
    "form", ["kill {}", "kill -9 1 {}", "kill -- -{}", "gdb -p {} -batch", "lldb -p{}", "sudo kill -s STOP {}"]
)
@pytest.mark.parametrize("kind", ["program", "server"])
def test_a_process_of_fleethooks_is_not_ended_by_its_number(form: str, kind: str, numbers: dict[str, int]) -> None:
    assert objection(form.format(numbers[kind]), host_name()) == "deny"


def test_its_server_is_known_wherever_its_folders_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path))
    words = ["valkey-server", "-c", WAITS, f"unixsocket:{directories(create=False).runtime}/redis.sock"]
    process = start(words)
    try:
        assert objection(f"kill {os.getpid()} {process.pid}", host_name()) == "deny"
    finally:
        process.communicate(timeout=60)


@pytest.mark.parametrize("form", ["kill {}", "kill -9 {}"])
@pytest.mark.parametrize("kind", ["other", "reader"])
def test_any_other_process_may_be_ended(form: str, kind: str, numbers: dict[str, int]) -> None:
    assert objection(form.format(numbers[kind]), host_name()) == ""


def test_to_ask_whether_it_lives_is_harmless(numbers: dict[str, int]) -> None:
    assert objection(f"kill -0 {numbers['program']}", host_name()) == ""


def test_a_number_says_nothing_about_another_host(numbers: dict[str, int]) -> None:
    assert objection(f"kill {numbers['program']}", "elsewhere") == ""
