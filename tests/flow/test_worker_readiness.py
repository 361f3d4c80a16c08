"""A worker says that it is ready when the bus has answered it, and not before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.fleet import Fleet
from tests.support.forked import Fleethook
from tests.support.servers import Server
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("B-05")]

KINDS = ("evaluator", "dispatcher", "host", "carrier", "chores", "gateway")


def test_nobody_is_ready_whom_the_bus_has_not_answered(tmp_path: Path) -> None:
    """RQ's own server is there all the while: it says nothing of the bus."""
    world, queues = Fleet(tmp_path), Server()
    world.home.mkdir(parents=True)
    queues.start()
    running: dict[str, subprocess.Popen[bytes]] = {}
    logs = {kind: tmp_path / f"{kind}.log" for kind in (*KINDS, "never", "idle")}
    words = {"never": ("evaluator",), "idle": ("evaluator", "--most-idle", "0.5")}

    def said(kind: str, words: str) -> bool:
        return words in logs[kind].read_text("utf-8")

    try:
        for kind, log in logs.items():
            with log.open("wb") as output:
                running[kind] = Fleethook(
                    ["worker", *words.get(kind, (kind,))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**world.environment, "FLEETHOOK_RQ_URL": queues.url, "FLEETHOOK_ON_DEMAND": "evaluator"},
                )
        wait_until(lambda: all(said(kind, "trying again until it works") for kind in logs), "all of them try")
        assert not any(said(kind, " ready") for kind in logs)
        running["never"].terminate()
        assert running["never"].wait(PATIENCE) == 0
        world.server.start()
        wait_until(lambda: all(said(kind, f"fleethook {kind} ready") for kind in KINDS), "all are ready")
        assert not said("never", " ready"), "whoever was told to stop before is not ready either"
        assert running["idle"].wait(PATIENCE) == 0, "an evaluator that is not the first one ends without requests"
        assert said("idle", "fleethook evaluator ready")
    finally:
        for process in running.values():
            process.kill()
            process.wait()
        queues.stop()
        world.server.stop()
