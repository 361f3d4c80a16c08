"""A laptop that sleeps and wakes for a month: `fleethook up` stopped and resumed as a whole, thousands of times.

All of it gets SIGSTOP, in any order, and SIGCONT, in any order; some sleeps outlast every heartbeat. The server's clock is an
hour ahead. Then nothing has leaked (descriptors, memory, connections, keys), nobody had to be started again, and verdicts are
right.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bus.config.settings import Settings
from bus.system.directories import Directories, directories
from bus.wire.connections import sync_client
from bus.wire.embedded_server import bus_url, find_binary
from bus.wire.keys import IDLE_BEAT_MS
from tests.chaos.counting import tell
from tests.support.up import ROOT, up
from tests.support.waiting import wait_until
from workers.bench.up.processes import memory, tree
from workers.supervisor import State, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

AHEAD = 3_600
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
  int done = real(now, zone);
  now->tv_sec += AHEAD;
  return done;
}
int clock_gettime(clockid_t which, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(which, now);
  if (which == CLOCK_REALTIME) now->tv_sec += AHEAD;
  return done;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""
GROWTH = 1.15
"""By how much memory may grow: pages that were shared after the fork become a process's own at their first use."""


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an `up` whose server's clock is ahead, in a short folder for its sockets."""
    folder = tmp_path_factory.mktemp("s")
    compiler = shutil.which("cc")
    binary = find_binary()
    path = os.environ.get("PATH", os.defpath)
    if compiler is not None:
        (folder / "clock.c").write_text(CLOCK.replace("AHEAD", str(AHEAD)))
        shared = (compiler, "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c"), "-ldl")
        subprocess.run(shared, check=True)
        program = folder / "bin" / binary.path.name
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nLD_PRELOAD={folder}/clock.so exec {binary.path} "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}{os.pathsep}{path}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
    return {
        **kept,
        "PATH": path,
        "HOME": str(folder),
        "FLEETHOOK_HOME": str(folder / "fh"),
        "PYTHONPATH": str(ROOT),
        "FLEETHOOK_TEST_CONFIRMS": "1",
        "FLEETHOOK_GATEWAY_PORT": "0",
        "FLEETHOOK_EVALUATORS": "1",  # a second one comes when it is needed, and what is held could not be compared
    }


def fleethook(environment: dict[str, str], *words: str, stdin: str = "") -> str:
    """The output of one command."""
    argv = [sys.executable, "-P", "-m", "workers", *words]
    done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def decision(environment: dict[str, str], command: str) -> str:
    """The verdict on one call of an agent."""
    event = {"type": "tool:pre_execute", "tool": "bash", "input": {"command": command}}
    found: str = json.loads(fleethook(environment, "request", "-", stdin=json.dumps(event)))["decision"]
    return found


def state(places: Directories) -> State:
    """The `up` that runs there."""
    found = running(places)
    assert found is not None
    return found


class Held:
    """What an `up` holds at one moment."""

    def __init__(self, places: Directories, pid: int) -> None:
        pids = tree(pid)
        self.files = sum(len(os.listdir(f"/proc/{one}/fd")) for one in pids)
        self.memory = memory(pids)
        with sync_client(bus_url(Settings(), "admin", places)) as client:
            self.clients = int(client.info("clients")["connected_clients"])
            # The server keeps a verdict and its reply for minutes.
            self.keys = {key.decode() for key in client.scan_iter(count=1000) if client.ttl(key) == -1}
            self.ahead = client.time()[0] - time.time()


def sleep_and_wake(pids: list[int], chance: random.Random, seconds: float) -> None:
    """Stop everything for some seconds, in any order, and resume it in any other."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        chance.shuffle(pids)
        for pid in pids:
            with suppress(ProcessLookupError):  # one that works on demand may have ended
                os.kill(pid, number)
        time.sleep(
            seconds if number == signal.SIGSTOP else chance.choice((0.0, 0.01, 0.05))
        )  # the time is what is tested


@pytest.mark.req("B-05", "X-14")
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("sleeps", "longs"), [(12, 2), pytest.param(2_000, 30, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
def test_nothing_leaks_however_often_it_sleeps(environment: dict[str, str], sleeps: int, longs: int) -> None:
    places, chance = directories(environment), random.Random(5)
    folder = Path(environment["HOME"])
    with up(environment, folder, folder / "up.log"):
        seen = folder / "seen"
        with (places.config / "fleethook.yaml").open("a") as file:
            command = f"echo x >> {seen}"
            file.write(f"\nhooks:\n  - {{id: seen, on: 'turn:end', blocking: false, command: '{command}'}}\n")
        root = state(places).pid

        def rests() -> None:
            """Wait until those that work on demand have ended, so that what is held can be compared."""
            wait_until(lambda: all(one.ready for one in state(places).children), "everybody is ready")
            on_demand = ("carrier", "chores")
            wait_until(lambda: not any(c.pid for c in state(places).children if c.name.startswith(on_demand)), "rest")

        assert decision(environment, "rm -rf /") == "deny"
        rests()
        before, children = Held(places, root), state(places).children
        if shutil.which("cc"):
            assert before.ahead > AHEAD - 60
        long = set(chance.sample(range(sleeps), longs))
        for number in range(sleeps):
            sleep_and_wake(
                tree(root), chance, IDLE_BEAT_MS / 1000 + 0.5 if number in long else chance.uniform(0.01, 0.05)
            )
            if number % 200 == 199:
                assert decision(environment, "rm -rf /") == "deny"
        assert decision(environment, "rm -rf /") == "deny"
        assert decision(environment, "git status") in {"abstain", "allow"}
        rests()
        after = Held(places, root)
        log = (places.log_dir / "fleethook.log").read_text("utf-8")
        assert state(places).children == children, f"nobody was started again\n{log[-4000:]}"
        tell(
            f"{sleeps} sleeps: {before.memory:.0f} and {after.memory:.0f} MB, {before.files} and {after.files} files, "
            f"{before.clients} and {after.clients} connections, {len(before.keys)} and {len(after.keys)} lasting keys"
        )
        assert after.memory < before.memory * GROWTH
        assert after.files <= before.files + 8
        assert after.clients <= before.clients + 4
        assert len(after.keys) <= len(before.keys) + 8, after.keys - before.keys
        fleethook(environment, "publish", stdin=json.dumps({"type": "turn:end"}))
        wait_until(lambda: seen.exists() and seen.read_text() == "x\n", "a delivery starts its carrier")
