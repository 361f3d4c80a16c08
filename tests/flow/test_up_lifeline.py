"""A `fleethook up` that a program started for itself ends with that program, also where that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bus.system.directories import directories
from tests.flow.test_supervisor import alive
from tests.support.up import ROOT
from tests.support.waiting import wait_until
from workers.supervisor import State, running

SCRIPT = """
import os, sys, time
from pathlib import Path
from tests.support.up import up
folder = Path(sys.argv[1])
with up(os.environ, folder, folder / "up.log"):
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.req("B-05")
def test_nothing_of_it_outlives_the_program() -> None:
    with tempfile.TemporaryDirectory(prefix="fh-") as folder:  # sockets have short paths
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")}
        few = {"FLEETHOOK_EVALUATORS": "1", "FLEETHOOK_CARRIERS": "1", "FLEETHOOK_CHORES": "1"}
        environment |= {"HOME": folder, "FLEETHOOK_HOME": folder, "PYTHONPATH": str(ROOT), **few}
        script = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, folder], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert script.stdout is not None
        with script, script.stdout:
            log = Path(folder) / "up.log"
            assert script.stdout.readline() == b"up\n", log.read_text("utf-8")
            state = running(directories({"FLEETHOOK_HOME": folder}))
            assert state is not None
            pids = _pids(state)
            assert len(pids) == 4, (
                "supervisor, server, evaluator, and the dispatcher with the host worker and the gateway"
            )
            assert all(map(alive, pids))
            script.kill()
            try:
                wait_until(lambda: not any(map(alive, pids)), "everything has ended")
            except AssertionError as error:
                left = [pid for pid in pids if alive(pid)]
                raise AssertionError(f"{error}: {left} of {state} are left\n{log.read_text('utf-8')}") from error
            assert "Everything has stopped" in log.read_text("utf-8"), "it ended in order"


def _pids(state: State) -> list[int]:
    return [state.pid, state.server, *(child.pid for child in state.children if child.pid)]
