"""What every agent hears from the command that stands in its own files: started as it starts it, read as it reads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import installs
from bus.config.settings import Settings
from bus.installs.base import NAMES
from bus.installs.opencode import HARNESS
from bus.system.directories import Directories, directories
from bus.verdicts import Verdict
from tests.support import chosen_shim
from tests.support.fleet import HOST, NAMESPACE, Fleet, fleet
from tests.support.forked import run_fleethook
from workers.admin.agent_setup import SHIM_URL, Installed, answers_for, connect, installed, plan
from workers.admin.doctor import canary

pytestmark = [pytest.mark.flow, pytest.mark.req("B-08", "G-20"), pytest.mark.usefixtures("each_shim")]

GUARD = "version: 1\nguards: {destructive-commands: true}\n"
DENY = Verdict(decision="deny")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    """A fleet with an evaluator and a guard."""
    with fleet(tmp_path_factory.mktemp("fleet"), "evaluator", hooks=GUARD) as made:
        yield made


def install(
    world: Fleet, home: Path, agent: str, *, namespace: str = NAMESPACE, closed: bool = False
) -> tuple[Installed, Directories]:
    """The agent with Fleethook installed, in a home of its own."""
    places = directories({"FLEETHOOK_HOME": str(home / "fh")})
    settings = Settings(namespace=namespace, host=HOST)
    answers, _ = answers_for(agent, settings, places, closed=closed, environ={SHIM_URL: world.url("shim")})
    connect(
        plan(agent, "user", places, closed=closed, home=home, project=home, native=chosen_shim.native), answers, places
    )
    (found,) = installed(agent, home=home, project=home)
    return found, places


@pytest.mark.one_shim
@pytest.mark.parametrize("agent", NAMES)
def test_a_canary_comes_back_denied_in_the_agents_own_form(world: Fleet, tmp_path: Path, agent: str) -> None:
    """The doctor's proof; the words of the guard arrive, and the event is on record under the agent's name."""
    one, places = install(world, tmp_path, agent)
    before = {one.id for one in world.events(source=agent)}  # of other tests here
    (found,) = canary.live_checks(one, places, DENY, tmp_path)
    assert found.status == "ok", found
    answer = canary.send(one, canary.made(agent, tmp_path), tmp_path)
    assert "recursively" in answer.understood.reason
    assert "fleethook trace" in answer.understood.reason
    seen = [one for one in world.events(source=agent) if one.id not in before]
    assert {(one.event.tool, one.event.input["command"]) for one in seen} == {("bash", canary.COMMAND)}
    assert {one.event.session.startswith("fleethook-doctor-") for one in seen} == {True}


@pytest.mark.one_shim
@pytest.mark.parametrize("agent", NAMES)
def test_with_nobody_to_ask_the_policy_answers_in_the_agents_own_form(world: Fleet, tmp_path: Path, agent: str) -> None:
    """Open: the agent goes on. Closed: it is denied, and the doctor takes no fallback for a verdict."""
    for closed, heard in ((False, ""), (True, "deny")):
        home = tmp_path / str(closed)
        home.mkdir()
        one, places = install(world, home, agent, namespace="nobody", closed=closed)
        assert one.closed is closed
        answer = canary.send(one, canary.made(agent, home), home)
        assert answer.understood.decision == heard, answer
        (found,) = canary.live_checks(one, places, DENY, home)
        assert found.status == "fail"
        assert ("by fallback" in found.what) or not closed
        # And without the answer file, which is the last thing that may be missing.
        places.answer_file(agent).unlink()
        answer = canary.send(one, canary.made(agent, home), home)
        assert answer.understood.decision == heard, answer


@pytest.mark.parametrize(("agent", "silence"), [("claude", b""), ("cursor", b"{}"), ("codex", b"")])
def test_an_event_of_a_later_version_is_on_record_and_the_agent_hears_its_own_silence(
    world: Fleet, tmp_path: Path, agent: str, silence: bytes
) -> None:
    """What `fleethook install` wrote, called as the agent would call it for an event that nobody knows today."""
    env = {**world.environment, "HOME": str(tmp_path), "FLEETHOOK_HOME": str(tmp_path / "fh")}
    env[SHIM_URL] = world.url("shim")
    assert run_fleethook(["install", agent, "--yes"], env=env, cwd=tmp_path).returncode == 0
    (one,) = installed(agent, home=tmp_path, project=tmp_path)
    event, command = next(iter(one.commands.items()))
    later = command.replace(f" {event} ", " EventOfTomorrow ")
    assert later != command
    payload = {"hook_event_name": "EventOfTomorrow", "session_id": "tomorrow", "conversation_id": "tomorrow"}
    run = ["/bin/sh", "-c", later]
    done = subprocess.run(
        run,
        input=json.dumps(payload).encode(),
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, silence, b"")
    (seen,) = (seen for seen in world.events(source=agent) if seen.event.native == "EventOfTomorrow")
    assert (seen.event.session, seen.event.type) == ("tomorrow", f"{agent}:EventOfTomorrow")
    assert not seen.fallback_reason


def test_opencodes_plugin_runs_without_its_program_too(
    world: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin itself is what is tried where something runs JavaScript; else the command that it would run."""
    one, places = install(world, tmp_path, "opencode")
    if shutil.which("node") is not None:
        assert HARNESS in installs.find("opencode").runs(Path(one.path), "x")
    monkeypatch.setenv("PATH", "/nowhere")
    assert installs.find("opencode").runs(Path(one.path), "x") == ("/bin/sh", "-c", "x")
    (found,) = canary.live_checks(one, places, DENY, tmp_path)
    assert found.status == "ok", found
