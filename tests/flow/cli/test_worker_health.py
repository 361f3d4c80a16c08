"""`fleethook worker --health`: the probe of Kubernetes and compose, against real processes that live, hang and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, fleet
from tests.support.manifests import COMMANDS, compose, deployments
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("B-05")]


def probe(world: Fleet, *args: str, **more: str) -> tuple[int, str, str]:
    """One probe as a container runs it: exit code, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "workers.cli", "worker", "--health", *args],
        capture_output=True,
        text=True,
        env={**world.environment, **more},
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_probe_sees_each_worker_of_this_machine_and_no_other(tmp_path: Path) -> None:
    """Issue 11, operations: exit 0 with the names of those that answered, else 1, and never 2."""
    kinds = ("evaluator", "dispatcher", "dispatcher", "host", "carrier", "chores", "gateway")
    with fleet(tmp_path, *kinds) as world:
        for kind in ("evaluator", "host", "carrier", "chores", "gateway"):
            code, out, err = probe(world, kind)
            assert (code, out.count(f"{kind}-test-host-")) == (0, 1), err
        wait_until(lambda: probe(world, "dispatcher")[1].count("dispatcher-") == 2, "the one that stands by is seen")
        assert probe(world)[0] == 0
        code, out, err = probe(world, "evaluator", FLEETHOOK_HOST="test")
        assert (code, out) == (1, "")
        assert "no evaluator of this machine answers" in err
        assert probe(world, "wizard")[0] == 1
        assert probe(world, "evaluator", "--no-such-option")[0] == 1

        evaluator = world.workers[0]
        os.kill(evaluator.process.pid, signal.SIGSTOP)
        wait_until(lambda: probe(world, "evaluator")[0] == 1, "its heartbeat ends, since its loop hangs")
        os.kill(evaluator.process.pid, signal.SIGCONT)
        wait_until(lambda: probe(world, "evaluator")[0] == 0, "it beats again")


def test_an_outage_of_the_server_restarts_no_worker(tmp_path: Path) -> None:
    """Workers wait for their server: not ready, and yet alive."""
    world = Fleet(tmp_path)
    try:
        code, out, err = probe(world, "evaluator")
        assert (code, out) == (1, "")
        assert "the server cannot be asked" in err
        code, _, err = probe(world, "evaluator", "--allow-outage")
        assert (code, "workers wait for it" in err) == (0, True)
    finally:
        world.server.stop()


@pytest.mark.parametrize("kind", [kind for kind in COMMANDS if kind != "host"])
def test_the_commands_of_the_manifests_and_of_compose_work_as_they_are(tmp_path: Path, kind: str) -> None:
    """The worker of each Deployment starts, and its probes and compose's healthcheck find it well."""
    (container,) = next(one for one in deployments() if one["metadata"]["name"] == f"fleethook-{kind}")["spec"][
        "template"
    ]["spec"]["containers"]
    assert container["args"] == ["worker", kind]
    probes = [container[name]["exec"]["command"] for name in ("readinessProbe", "livenessProbe")]
    with fleet(tmp_path, kind) as world:
        for program, *args in (*probes, compose()["services"][kind]["healthcheck"]["test"][1:]):
            assert program == "fleethook"
            done = subprocess.run(
                [sys.executable, "-P", "-m", "workers.cli", *args],
                env=world.environment,
                timeout=30,
                check=False,
                capture_output=True,
                text=True,
            )
            assert (done.returncode, done.stdout.startswith(f"{kind}-test-host-")) == (0, True), done.stderr
