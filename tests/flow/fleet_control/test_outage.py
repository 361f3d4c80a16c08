"""A stop that has reached a host outlives an outage there, and is lifted there at the first contact (X-12)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.shim.main import FLAG
from bus.shim.stop_flag import HEADER
from bus.wire.connections import sync_client
from tests.flow.fleet_control.conftest import Command
from tests.flow.fleet_control.test_stop import call, decision
from tests.support.fleet import HOST, Agent, Fleet
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-12"), pytest.mark.usefixtures("each_shim")]


NAME = "outage"
"""The home of the agent here."""


def flag_of(agent: Agent) -> Path:
    path = agent.places.answer_file("claude")
    return path.with_name(path.name + FLAG)


@contextmanager
def away(world: Fleet) -> Iterator[None]:
    """The server does not answer, and the agent has noticed it, so its calls give up soon."""
    world.server.pause()
    try:
        world.agent(NAME, budget=2.5).hook("PreToolUse", call())
        world.agent(NAME)
        yield
    finally:
        world.server.resume()
    # With its mark it would try the server for a moment only, which may be too short on a busy machine.
    world.places_of(NAME).spool("claude").with_name("claude.away").unlink(missing_ok=True)
    world.wait_alive("evaluator")


@pytest.fixture
def agent(world: Fleet) -> Iterator[Agent]:
    """An agent that knows of no stop and of no outage."""
    one = world.agent(NAME)
    yield one
    flag_of(one).unlink(missing_ok=True)
    shutil.rmtree(one.places.state / "spool", ignore_errors=True)


def test_a_host_that_a_stop_has_reached_denies_while_the_server_is_away(
    world: Fleet, agent: Agent, command: Command
) -> None:
    with away(world):
        assert decision(agent.hook("PreToolUse", call())) == "", "its policy lets calls pass"
    command("stop", "--reason", "the disk is full")
    with away(world):
        assert decision(agent.hook("PreToolUse", call())) == "", "the stop has not reached this host"
    assert decision(agent.hook("PreToolUse", call())) == "deny"
    assert flag_of(agent).stat().st_mode & 0o777 == 0o600
    with away(world):
        denied = agent.hook("PreToolUse", call())
        assert decision(denied) == "deny"
        for words in (b"the disk is full", b"Instead: wait"):
            assert words in denied.stdout
        prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "go on"}
        assert decision(agent.hook("UserPromptSubmit", prompt)) == "block"
        assert decision(agent.hook("Stop", {"hook_event_name": "Stop", "session_id": "s1"})) == ""
    command("resume")
    assert flag_of(agent).exists(), "nobody has told this host yet"
    assert decision(agent.hook("PreToolUse", call())) == ""
    assert not flag_of(agent).exists(), "it was told at the first contact"
    with away(world):
        assert decision(agent.hook("PreToolUse", call())) == ""


def test_a_condition_is_read_on_the_host_while_the_server_is_away(world: Fleet, agent: Agent, command: Command) -> None:
    command("stop", "--where", 'event.session == "s2"')
    assert decision(agent.hook("PreToolUse", call())) == ""
    assert flag_of(agent).exists(), "the stop can concern other sessions of this host"
    with away(world):
        assert decision(agent.hook("PreToolUse", call())) == ""
        assert decision(agent.hook("PreToolUse", call(session_id="s2"))) == "deny"
        assert decision(agent.hook("PreToolUse", b"no payload")) == "deny", "what cannot be read counts as a fit"
    command("resume")
    command("stop", "--where", 'event.host == "another" || event.type == "user:prompt_submit"')
    assert decision(agent.hook("PreToolUse", call())) == ""
    text = flag_of(agent).read_text()
    assert "UserPromptSubmit" in text
    assert "PreToolUse" not in text, "it is known without the call that it does not fit"


@pytest.mark.one_shim
def test_hosts_that_a_stop_has_not_reached_are_listed(world: Fleet, agent: Agent, command: Command) -> None:
    agent.hook("SessionStart", {"hook_event_name": "SessionStart", "session_id": "here"})
    placed = command("stop")
    assert placed.code == 0, placed.err
    wait_until(lambda: "claude on test-host (last event" in command("stop", "--list").err, "it has reported")
    agent.hook("PreToolUse", call())
    wait_until(lambda: "claude on test-host" not in command("stop", "--list").err, "it is on record")
    lifted = command("resume", "--json").json
    assert lifted["kept"] == [{"host": "test-host", "source": "claude"}]
    agent.hook("PreToolUse", call())
    wait_until(lambda: "claude on test-host" not in command("stop", "--list").err, "it was lifted")


@pytest.mark.one_shim
def test_what_another_evaluator_recorded_last_is_corrected(world: Fleet, agent: Agent, command: Command) -> None:
    """With two evaluators the record may be of the other one."""
    for _ in "twice":  # the second time this evaluator has said already that nothing is kept
        with sync_client(world.url("admin")) as client:
            client.hset(world.keys("reached"), f"{HOST}\nclaude", "s-lifted")
        assert "claude on test-host" in command("stop", "--list").err
        flag_of(agent).write_bytes(HEADER + b"\n")
        os.utime(flag_of(agent), (1, 1))
        agent.hook("PreToolUse", call())
        wait_until(lambda: "claude on test-host" not in command("stop", "--list").err, "it is corrected")


@pytest.mark.one_shim
def test_every_screen_says_that_agents_are_stopped(world: Fleet, command: Command) -> None:
    command("stop", "--reason", "look here")
    status = command("status")
    assert status.out.splitlines()[0].startswith("stopped"), status.out
    assert "look here" in status.out
    assert command("status", "--json").json["stops"][0]["reason"] == "look here"
    for words in (("inbox",), ("approvals", "list"), ("hosts", "list")):
        assert "STOPPED: all agents since" in command(*words).err, words
    command("resume")
    assert "STOPPED" not in command("inbox").err
