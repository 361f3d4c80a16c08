"""A remembered yes is an exception for exactly that call, in the layer of the rule that asked (X-03)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.published import current_version, history, load_version
from bus.hooksets.trust import trust
from tests.flow.approvals.test_commands import fleethook
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import Gateway, start_gateway
from tests.support.held import HOOKS, Held
from tests.support.waiting import PATIENCE, wait_until
from workers.approvals.questions import Question

pytestmark = [pytest.mark.flow, pytest.mark.req("X-03")]

USER = """\
# my own rules
guards:
  destructive-commands: {decision: ask, hold: {timeout: 300}}
hooks:
  - id: mine  # mine alone
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300}
    rule: {decision: ask, command: ["^mine"], reason: It is mine}
"""
PROJECT = """\
hooks:
  - id: local
    on: tool:pre_execute
    hold: {timeout: 300}
    rule: {decision: ask, command: ["^local"], reason: It is local}
"""
PACK = "guards:\n  fleethook-itself: {decision: ask, hold: {timeout: 300}}\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("remembering"), hooks=HOOKS + PACK) as one:
        one.places.config.mkdir(parents=True, exist_ok=True)
        user_file(one).write_text(USER)
        one.start("evaluator")
        yield one


@pytest.fixture(scope="module")
def gateway(world: Fleet) -> Gateway:
    return start_gateway(world)


@pytest.fixture(scope="module")
def held(world: Fleet) -> Held:
    return Held(world)


@pytest.fixture
def project(world: Fleet, tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    file = tmp_path / "fleethook.yaml"
    file.write_text(PROJECT)
    trust(file, world.places.trust_file)
    return file


def user_file(world: Fleet) -> Path:
    return world.places.config / "fleethook.yaml"


def approved(world: Fleet, held: Held, command: str, **more: Any) -> Question:
    """A question about a command that a person has approved."""
    call = held.call(command, **more)
    question = held.question(command)
    held.answer(question, "approve")
    verdict = call.result(PATIENCE)
    assert verdict.decision == "allow", verdict
    return question


def passes(held: Held, command: str, **more: Any) -> None:
    """Wait until a call passes and no rule asks any more; the workers look for changes every half second."""

    def now() -> bool:
        verdict = held.unanswered(command, **more)
        for question in held.waiting():
            held.answer(question, "deny")  # it was asked, and its question goes on
        return (verdict.decision, verdict.approval) == ("abstain", None)

    wait_until(now, f"{command} passes")


def asks(held: Held, command: str, **more: Any) -> bool:
    """Whether a call waits for a person; its question is denied."""
    call = held.call(command, **more)
    held.answer(held.question(command), "deny")
    return call.result(PATIENCE).decision == "deny"


def test_an_approval_by_command_remembers_in_the_users_file(world: Fleet, held: Held) -> None:
    call = held.call("mine exactly")
    question = held.question("mine exactly")
    done = fleethook(world, "approvals", "approve", question.id, "--remember", "--yes")
    assert done.returncode == 0, done.stderr
    assert call.result(PATIENCE).decision == "allow"
    assert '+    unless: [{tool: bash, input: {command: "mine exactly"}, cwd: /srv, source: claude}]' in done.stdout
    text = user_file(world).read_text()
    assert text.startswith("# my own rules\n")
    assert "id: mine  # mine alone" in text
    passes(held, "mine exactly")
    assert asks(held, "mine exactly not")
    assert asks(held, "mine exactly", cwd="/srv/other")
    changed = [seen.event.data for seen in world.events(types=("guard:changed",))]
    assert any("approvals approve" in data["how"] and "mine got an exception" in data["text"] for data in changed)
    assert [data["text"] for data in changed if data["how"] == "file"] == [], "it is announced once"


def test_a_rule_of_a_pack_gets_its_exception(world: Fleet, held: Held) -> None:
    question = approved(world, held, "git push --force origin feature")
    (rule,) = question.rules
    again = fleethook(world, "approvals", "remember", question.id, "--dry-run")
    assert "unless: [{rule: " in again.stdout, again.stderr
    assert "force" not in user_file(world).read_text(), "a dry run changes nothing"
    done = fleethook(world, "approvals", "remember", question.id, "--yes", "--json")
    (change,) = json.loads(done.stdout)["changes"]
    assert (change["layer"], change["written"]) == (rule.layer, True)
    passes(held, "git push --force origin feature")
    assert asks(held, "git push --force origin main")
    same = fleethook(world, "approvals", "remember", question.id, "--yes")
    assert (same.returncode, "nothing to change" in same.stderr) == (0, True), "it is remembered already"


def test_the_published_set_gets_a_new_version(world: Fleet, held: Held) -> None:
    question = approved(world, held, "deploy remembered")
    before = world.ask(lambda connections: current_version(connections, world.keys))
    done = fleethook(world, "approvals", "remember", question.id, "--yes")
    assert done.returncode == 0, done.stderr
    last = world.ask(lambda connections: history(connections, world.keys, 1))[0]
    assert last.version == before + 1
    assert "approvals remember" in last.message
    file = world.ask(lambda connections: load_version(connections, world.keys, last.version))
    (exception,) = next(hook.unless for hook in file.hooks if hook.id == "deploy")
    assert (exception.host, exception.input) == ("test-host", {"command": "deploy remembered"})
    passes(held, "deploy remembered")


def test_a_projects_file_has_to_be_trusted_again(world: Fleet, held: Held, project: Path) -> None:
    folder = str(project.parent)
    question = approved(world, held, "local run", cwd=folder)
    done = fleethook(world, "approvals", "remember", question.id, "--yes")
    assert (done.returncode, "trusted again" in done.stderr) == (0, True), done.stderr
    assert "unless" in project.read_text()
    trust(project, world.places.trust_file)
    passes(held, "local run", cwd=folder)


def test_a_call_with_a_secret_cannot_be_remembered(world: Fleet, held: Held) -> None:
    command = "mine --password hunter2hunter2"
    call = held.call(command)
    wait_until(lambda: any(one.has_secret for one in held.waiting()), "it waits")
    (question,) = [one for one in held.waiting() if one.has_secret]
    before = user_file(world).read_text()
    done = fleethook(world, "approvals", "approve", question.id, "--remember", "--yes")
    assert (done.returncode, "holds a secret" in done.stderr) == (1, True), done.stderr
    assert held.waiting(), "nothing was answered"
    held.answer(question, "approve")
    assert call.result(PATIENCE).decision == "allow"
    done = fleethook(world, "approvals", "remember", question.id, "--yes")
    assert (done.returncode, "holds a secret" in done.stderr) == (1, True), done.stderr
    assert user_file(world).read_text() == before


def test_only_a_persons_yes_is_remembered_and_never_by_an_agent(world: Fleet, held: Held) -> None:
    call = held.call("mine denied")
    question = held.question("mine denied")
    held.answer(question, "deny")
    assert call.result(PATIENCE).decision == "deny"
    done = fleethook(world, "approvals", "remember", question.id, "--yes")
    assert (done.returncode, "only a yes can be remembered" in done.stderr) == (1, True), done.stderr
    question = approved(world, held, "mine by an agent")
    agent = {"CLAUDECODE": "1", "FLEETHOOK_TEST_CONFIRMS": ""}
    refused = fleethook(world, "approvals", "remember", question.id, "--yes", **agent)
    assert (refused.returncode, "an agent runs it" in refused.stderr) == (1, True), refused.stderr


def test_a_proposal_over_http_and_its_rights(world: Fleet, held: Held, gateway: Gateway) -> None:
    question = approved(world, held, "deploy by http")
    path = f"/v1/approvals/{question.id}/remember"
    token, admin = gateway.token("proposer", "observe", "operate"), gateway.token("boss", "admin")
    with gateway.tcp(token) as person, gateway.tcp(admin) as boss:
        said = person.get(path)
        (change,) = said.json()["changes"]
        assert (said.status_code, change["layer"], change["written"]) == (200, "fleet", False)
        assert '"command": "deploy by http"' in change["diff"]
        assert person.post(path).status_code == 403
        # Its worker's rights of Redis publish nothing, whatever a token says.
        without = boss.post(path)
        assert (without.status_code, without.json()["code"]) == (409, "no-operator"), without.text
        mine = approved(world, held, "mine by http")
        (change,) = person.get(f"/v1/approvals/{mine.id}/remember").json()["changes"]
        assert (change["layer"], change["where"]) == ("user", str(user_file(world)))
        refused = boss.post(f"/v1/approvals/{mine.id}/remember")
        assert (refused.status_code, str(user_file(world)) in refused.json()["detail"]) == (409, True)


def test_an_administrators_gateway_publishes_it(world: Fleet, held: Held, tmp_path: Path) -> None:
    question = approved(world, held, "deploy by an admin")
    gateway = start_gateway(world, FLEETHOOK_OPERATOR_URL=world.url("admin"), FLEETHOOK_HOME=str(tmp_path))
    with gateway.tcp(gateway.token("chief", "admin")) as chief:
        said = chief.post(f"/v1/approvals/{question.id}/remember").json()
        assert [change["written"] for change in said["changes"]] == [True]
        again = chief.post(f"/v1/approvals/{question.id}/remember").json()
        assert (again["version"], again["changes"][0]["diff"]) == (said["version"], ""), "it is there already"
    last = world.ask(lambda connections: history(connections, world.keys, 1))[0]
    assert (last.version, last.message.endswith("by token chief")) == (said["version"], True)
    passes(held, "deploy by an admin")
