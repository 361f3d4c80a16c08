"""`fleethook worker --health`: the probe of Kubernetes and compose, against real processes that live, hang and die."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_kit import Result, fleethook_in
from tests.support.fleet import Fleet, fleet
from tests.support.forked import run_fleethook
from tests.support.manifests import COMMANDS, compose, deployments
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("B-05")]


KINDS = ("evaluator", "dispatcher", "host", "carrier", "chores", "gateway")


def probe(world: Fleet, *args: str, **more: str) -> Result:
    """One probe: exit code, stdout, stderr. Where a busy machine did not answer in time, it is made again, as probes are."""
    found: list[Result] = []

    def is_answered() -> bool:
        found[:] = [fleethook_in({**world.environment, **more}, world.folder, "worker", "--health", *args)]
        return "does not answer" not in found[0].err and "in time" not in found[0].err

    wait_until(is_answered, "the probe is answered")
    return found[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A machine with a worker of each kind, started as the Deployments start them, and one that stands by."""
    assert sorted(KINDS) == sorted(COMMANDS)
    with fleet(tmp_path_factory.mktemp("health"), *KINDS, "dispatcher") as one:
        yield one


def test_the_probe_sees_each_worker_of_this_machine_and_no_other(world: Fleet) -> None:
    """Issue 11, operations: exit 0 with the names of those that answered, else 1, and never 2."""
    for kind in KINDS:
        if kind != "dispatcher":
            code, out, err = probe(world, kind)
            assert (code, out.count(f"{kind}-test-host-")) == (0, 1), err
    wait_until(lambda: probe(world, "dispatcher").out.count("dispatcher-") == 2, "the one that stands by is seen")
    assert probe(world).code == 0
    code, out, err = probe(world, "evaluator", FLEETHOOK_HOST="test")
    assert (code, out) == (1, "")
    assert "no evaluator of this machine answers" in err
    assert probe(world, "wizard").code == 1
    assert probe(world, "evaluator", "--no-such-option").code == 1

    evaluator = world.workers[0]
    os.kill(evaluator.process.pid, signal.SIGSTOP)
    wait_until(lambda: probe(world, "evaluator").code == 1, "its heartbeat ends, since its loop hangs")
    os.kill(evaluator.process.pid, signal.SIGCONT)
    wait_until(lambda: probe(world, "evaluator").code == 0, "it beats again")


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


def test_the_commands_of_the_manifests_and_of_compose_work_as_they_are(world: Fleet) -> None:
    """The worker of each Deployment runs, and its probes and compose's healthcheck, as real commands, find it well."""
    kinds = defaultdict[tuple[str, ...], set[str]](set)
    for kind in sorted({*KINDS} - {"host"}):
        (container,) = next(one for one in deployments() if one["metadata"]["name"] == f"fleethook-{kind}")["spec"][
            "template"
        ]["spec"]["containers"]
        assert container["args"] == ["worker", kind]
        probes = [container[name]["exec"]["command"] for name in ("readinessProbe", "livenessProbe")]
        for words in (*probes, compose()["services"][kind]["healthcheck"]["test"][1:]):
            kinds[tuple(words)].add(kind)
    for (program, *args), probed in kinds.items():
        assert program == "fleethook"
        done = run_fleethook(args, env=world.environment)
        assert done.returncode == 0, done.stderr
        assert {kind for kind in probed if f"{kind}-test-host-" in done.stdout} == probed
