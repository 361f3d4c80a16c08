"""`fleethook approvals` answers for the user of this host, or the holder of a token, and never for an agent (X-03)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError

from bus.wire.acl import Role
from bus.wire.connections import sync_client
from tests.support.fleet import Fleet
from tests.support.forked import run_fleethook
from tests.support.gateway import Gateway
from tests.support.held import Held
from tests.support.keyboard import type_command
from tests.support.waiting import PATIENCE
from workers.cli.screens.rows import short_id

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03")]


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


def fleethook(world: Fleet, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command, as a person or with variables that say who runs it."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    environment = {**kept, **world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}
    for name in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"):
        environment.pop(name, None)
    return run_fleethook(words, env={**environment, "FLEETHOOK_TEST_CONFIRMS": "1", **more}, start_new_session=True)


def test_the_user_of_this_host_answers(world: Fleet, held: Held) -> None:
    call = held.call("deploy by command")
    question = held.question("deploy by command")
    listed = fleethook(world, "approvals", "list", "--json")
    assert question.id in {one["id"] for one in json.loads(listed.stdout)}
    assert "deploy by command" in fleethook(world, "approvals", "list").stdout
    shown = fleethook(world, "approvals", "show", question.id[:20])
    assert "Deploying needs a person" in shown.stdout
    assert "the agent waits until" in shown.stdout
    done = fleethook(world, "approvals", "approve", question.id, "--comment", "fine")
    assert (done.returncode, done.stderr.strip().endswith("is approved")) == (0, True), done.stderr
    approval = call.result(PATIENCE).approval
    assert approval is not None
    assert (approval.via, "@" in approval.by, approval.comment) == ("user", True, "fine")
    again = fleethook(world, "approvals", "deny", question.id)
    assert again.returncode == 1
    assert "was decided before: approved" in again.stderr


@pytest.mark.parametrize("command", [["approvals", "list"], ["inbox"]])
def test_the_id_of_a_list_names_the_question(world: Fleet, held: Held, tmp_path: Path, command: list[str]) -> None:
    """On a terminal a list has ten characters of an id, with `--no-trunc` all of them; other commands take both."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    environment = {**kept, **world.environment, "FLEETHOOK_REDIS_URL": world.url("admin"), "NO_COLOR": "1"}
    text = f"deploy by {command[-1]}"
    call = held.call(text)
    question = held.question(text)
    _, screen = type_command("--no-color", *command, folder=tmp_path, environment=environment, columns=80)
    assert text in screen, screen
    (row,) = [line for line in screen.splitlines() if text in line]
    name = row.split()[-1]
    assert (len(row) <= 80, len(name), name) == (True, 10, short_id(question.id)), row
    _, screen = type_command("--no-color", *command, "--no-trunc", folder=tmp_path, environment=environment, columns=80)
    assert question.id in screen.split()
    shown = fleethook(world, "approvals", "show", name)
    assert (shown.returncode, question.id in shown.stdout) == (0, True), shown.stderr
    done = fleethook(world, "approvals", "approve", name)
    assert (done.returncode, f"{name} is approved" in done.stderr) == (0, True), done.stderr
    assert call.result(PATIENCE).approval.state == "approved"  # type: ignore[union-attr]  # it was held
    again = fleethook(world, "approvals", "show", name)
    assert (again.returncode, "approved" in again.stdout) == (0, True), again.stderr


def test_watch_shows_and_answers_what_waits(world: Fleet, held: Held, tmp_path: Path) -> None:
    """Its list is there while a call waits; a key asks first, and only `y` answers."""
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    environment = {**kept, **world.environment, "FLEETHOOK_REDIS_URL": world.url("admin")}
    call = held.call("deploy by watch")
    name = short_id(held.question("deploy by watch").id)
    script = [
        ("WAIT FOR A PERSON 1", "\td"),
        (f"deny {name}? y yes", "na"),
        (f"approve {name}? y yes", "y"),
        (f"{name} is approved", "q"),
    ]
    code, screen = type_command("watch", folder=tmp_path, environment=environment, columns=80, script=script)
    assert code == 0
    assert "deploy by watch" in screen
    approval = call.result(PATIENCE).approval
    assert approval is not None
    assert (approval.state, approval.via) == ("approved", "user")
    second = held.call("deploy by an agent in watch")
    question = held.question("deploy by an agent in watch")
    refused = [("WAIT FOR A PERSON 1", "\tay"), ("an agent runs this", "q")]
    agent = {**environment, "GEMINI_CLI": "1"}
    assert type_command("watch", folder=tmp_path, environment=agent, columns=80, script=refused)[0] == 0
    held.answer(question, "deny")
    assert second.result(PATIENCE).approval.state == "denied"  # type: ignore[union-attr]  # it was held


def test_a_token_answers_for_its_holder(world: Fleet, held: Held, gateway: Gateway) -> None:
    token, publish = gateway.token("ana", "operate"), gateway.token("robot")
    call = held.call("release by command")
    question = held.question("release by command")
    refused = fleethook(world, "approvals", "approve", question.id, FLEETHOOK_TOKEN=publish)
    assert (refused.returncode, "set FLEETHOOK_TOKEN" in refused.stderr) == (1, True), refused.stderr
    done = fleethook(world, "approvals", "approve", question.id, FLEETHOOK_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert call.result(PATIENCE).approval.by == "ana"  # type: ignore[union-attr]  # it was held


def test_a_shell_completes_what_waits(world: Fleet, held: Held, gateway: Gateway) -> None:
    gateway.token("carla", "operate")
    call = held.call("deploy by completion")
    question = held.question("deploy by completion")

    def offered(*words: str) -> list[str]:
        done = fleethook(
            world,
            COMP_WORDS=" ".join(("fleethook", *words)),
            COMP_CWORD=str(len(words)),
            _FLEETHOOK_COMPLETE="bash_complete",
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    assert offered("approvals", "approve", question.id[:14]) == [question.id]
    assert offered("approvals", "show", short_id(question.id)) == [question.id[6:]], "as a list shows it"
    assert offered("tokens", "revoke", "carl") == ["carla"]
    assert held.answer(question, "approve") is not None
    assert call.result(PATIENCE).decision == "allow"
    assert offered("approvals", "deny", question.id) == [], "it is decided"
    assert offered("approvals", "show", question.id) == [question.id]


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_an_agent_cannot_answer(world: Fleet, held: Held, verb: str) -> None:
    call = held.call(f"deploy by an agent {verb}")
    question = held.question(f"deploy by an agent {verb}")
    refused = fleethook(world, "approvals", verb, question.id, CLAUDECODE="1", FLEETHOOK_TEST_CONFIRMS="")
    assert refused.returncode == 1
    assert "an agent runs it" in refused.stderr
    assert held.question(question.summary).state == "waiting"
    held.answer(question, "deny")
    assert call.result(PATIENCE).decision == "deny"


@pytest.mark.req("X-06")
@pytest.mark.parametrize("role", ["shim", "agent"])
def test_an_agents_credentials_reach_no_question(world: Fleet, held: Held, role: Role) -> None:
    """On a real server, with the rights that `fleethook acl` prints."""
    call = held.call(f"deploy by {role}")
    question = held.question(f"deploy by {role}")
    commands = [
        ("HGETALL", world.keys("question", question.id)),
        ("HSET", world.keys("question", question.id), "state", "approved"),
        ("ZRANGE", world.keys("questions"), 0, -1),
        ("XADD", world.keys("decided"), "*", "id", question.id, "state", "approved"),
        ("SET", world.keys("ticket", "0" * 32), question.id),
        ("SET", world.keys("link", "0" * 64), question.id),
        ("ZRANGE", world.keys("approvals"), 0, -1),
    ]
    with sync_client(world.url(role)) as client:
        for command in commands:
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)
    held.answer(question, "deny")
    assert call.result(PATIENCE).decision == "deny"
