"""A machine with agents and no bus: install, doctor and its canary go to the fleet's server, and nothing disconnects it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.shim.answer_file import read_answer_file
from bus.system.directories import directories
from bus.wire.acl import roles
from bus.wire.connections import Connections, sync_client
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run, workers
from tests.support.running import publish_hooks
from tests.support.servers import Server
from tests.support.waiting import wait_until
from workers.cli.common import Context
from workers.cli.hosts import warn_of_other_bus

pytestmark = pytest.mark.req("B-08", "G-20")

GUARD = "guards: {destructive-commands: true}"


@pytest.fixture
def shim_url(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fleet's server with the rights of hook commands; this machine knows nothing else of it."""
    with sync_client(server.url) as client:
        client.execute_command("ACL", "SETUSER", namespace(keys), "reset", "on", ">p", *roles(namespace(keys))["shim"])
    person = tmp_path / "person"
    for folder in ("project", "bin", ".claude"):
        (person / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("PATH", f"{person / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    monkeypatch.delenv("FLEETHOOK_REDIS_URL", raising=False)
    monkeypatch.chdir(person / "project")
    url = server.url.replace("unix://", f"unix://{namespace(keys)}:p@")
    monkeypatch.setenv("FLEETHOOK_SHIM_URL", url)
    return url


def checks(*args: str) -> dict[str, tuple[str, str]]:
    """Status and text of doctor's checks."""
    found = fleethook("doctor", *args, "--json").json["checks"]
    assert not [check for check in found if "fleethook up" in check["fix"] + check["what"]], found
    return {check["id"]: (check["status"], check["what"]) for check in found}


@pytest.mark.parametrize("remembers", [False, True], ids=["with the variable", "from the install"])
def test_doctor_and_install_leave_an_agent_only_machine_connected(
    shim_url: str, server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembers: bool
) -> None:
    async def guard(connections: Connections) -> None:
        await publish_hooks(connections, keys, GUARD)

    run(server.url, guard)
    with workers(server.url, keys, tmp_path / "fleet", "evaluator"):
        done = fleethook("install", "claude", "--yes")
        assert done.code == 0, done.err
        assert "fleethook up" not in done.err
        answers = read_answer_file(directories().answer_file("claude"))
        if remembers:
            monkeypatch.delenv("FLEETHOOK_SHIM_URL")
        found = checks("--live", "--fix")
        assert found["server"][0] == found["evaluator"][0] == "ok", found
        assert "agents only" in found["server"][1]
        assert found["claude-rights"][0] == "ok", found
        assert found["claude-answers"][0] == "ok", found
        assert (found["claude-live"][0], "answered deny" in found["claude-live"][1]) == ("ok", True), found
        settings = Path.home() / ".claude" / "settings.json"
        settings.write_text(settings.read_text().replace("PreToolUse", "PreToolUses"))
        checks("--fix")
        again = fleethook("install", "claude", "--yes")
        assert again.code == 0, again.err
        assert read_answer_file(directories().answer_file("claude")).server == answers.server
        assert not directories().credentials.exists(), "no private bus is prepared"
        for words in (("status",), ("worker", "host")):
            away = fleethook(*words)
            assert away.code == 3, words
            assert "this machine has agents only" in away.err
            assert "fleethook up" not in away.err, "that would be a bus of its own"

    def evaluator() -> str:
        return checks()["evaluator"][0]

    wait_until(lambda: evaluator() == "fail", "nobody of the fleet is alive")


def test_a_fleet_that_cannot_be_reached_is_no_reason_for_a_bus_here(
    shim_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETHOOK_SHIM_URL", "unix:///nowhere/s")
    assert fleethook("install", "claude", "--yes").code == 0
    found = checks("--live")
    assert found["server"][0] == "fail"
    assert found["claude-live"][0] == "unknown"


def test_hooks_of_its_own_files_are_said_to_be_asked_by_nobody(shim_url: str) -> None:
    config = directories().config
    config.mkdir(parents=True, exist_ok=True)
    hook = {"id": "mine", "on": "tool:pre_execute", "command": "true", "on_failure": "deny"}
    (config / "fleethook.yaml").write_text(json.dumps({"hooks": [hook]}))
    done = fleethook("install", "claude", "--yes")
    assert "does not know of 1 blocking hook (mine) of this host" in done.err
    status, what = checks()["hosts"]
    assert (status, what.startswith("1 blocking hook (mine) of this user's")) == ("warn", True), what


def test_up_says_that_this_machines_agents_ask_another_bus(
    shim_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It started a private bus, which no agent asks, without a word."""
    warn_of_other_bus(Context())
    said = capsys.readouterr().err
    assert "this machine's agents ask unix://" in said
    assert "use `fleethook worker host`" in said
    assert ":p@" not in said, "that is the password"
    monkeypatch.delenv("FLEETHOOK_SHIM_URL")
    warn_of_other_bus(Context())
    assert capsys.readouterr().err == ""
