"""`fleethook install --http`, `doctor` and `uninstall` against a real gateway (issue 12, item 1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli_kit import Result, fleethook_in
from tests.support.fleet import Fleet
from tests.support.gateway import Gateway
from tests.support.servers import free_port

pytestmark = [pytest.mark.flow, pytest.mark.req("B-08", "G-02")]

HOOKS = "version: 1\nguards: {destructive-commands: true}\nhooks: []\n"


class Person:
    """A person whose machine has Claude Code and Qwen Code, and who asks the fleet's gateway."""

    def __init__(self, world: Fleet, gateway: Gateway, home: Path) -> None:
        self.home = home
        for folder in (".claude", ".qwen", "project"):
            (home / folder).mkdir(parents=True)
        (home / ".claude/settings.json").write_text('{"model": "opus"}\n')
        self.env = {
            **world.environment,
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "FLEETHOOK_HOME": str(home / "fh"),
            "FLEETHOOK_REDIS_URL": world.url("admin"),
            "FLEETHOOK_SHIM_URL": world.url("shim"),
            "FLEETHOOK_GATEWAY_PORT": str(gateway.port),
            "FLEETHOOK_TEST_CONFIRMS": "1",
        }

    def fleethook(self, *words: str, **more: str) -> Result:
        return fleethook_in({**self.env, **more}, self.home / "project", *words)

    def doctor(self, *words: str, **more: str) -> Mapping[str, dict[str, Any]]:
        """The checks by their ids."""
        found = self.fleethook("doctor", "--json", *words, **more).json
        return {check["id"]: check for check in found["checks"]}

    @property
    def settings(self) -> Path:
        return self.home / ".claude/settings.json"


@pytest.fixture
def person(world: Fleet, gateway: Gateway, tmp_path: Path) -> Person:
    world.publish_hooks(HOOKS)
    return Person(world, gateway, tmp_path / "person")


def test_install_shows_what_it_writes_and_uninstall_takes_it_back(person: Person, gateway: Gateway) -> None:
    before = person.settings.read_bytes()
    dry = person.fleethook("install", "claude", "--http", "--diff", "--dry-run")
    assert (dry.code, person.settings.read_bytes()) == (0, before), dry.err
    assert f"of type http, to the gateway at {gateway.url}" in dry.out
    assert f'"url": "{gateway.url}/v1/hooks/claude/PreToolUse"' in dry.out
    assert "keep command hooks" in dry.out + dry.err
    done = person.fleethook("install", "claude", "--http", "--yes")
    assert done.code == 0, done.err
    assert "fleethook tokens create claude" in done.err
    assert "FLEETHOOK_TOKEN" in done.err
    again = person.fleethook("install", "claude", "--http", "--yes")
    assert "claude is installed already" in again.err
    assert person.fleethook("uninstall", "claude", "--yes").code == 0
    assert person.settings.read_bytes() == before


def test_without_http_no_hook_is_of_type_http(person: Person) -> None:
    assert person.fleethook("install", "claude", "qwen", "--yes").code == 0
    for name in (".claude", ".qwen"):
        assert '"http"' not in (person.home / name / "settings.json").read_text()


def test_agents_without_http_hooks_are_left_out_with_the_reason(person: Person) -> None:
    mixed = person.fleethook("install", "claude", "codex", "copilot", "--http", "--yes")
    assert mixed.code == 5, mixed.err
    assert "Codex CLI has no hooks of type http" in mixed.err
    assert "Copilot CLI sends a token only by https" in mixed.err
    assert '"http"' in person.settings.read_text()
    socket = person.fleethook("install", "claude", "--http", "--yes", FLEETHOOK_URL="unix:///elsewhere/gateway.sock")
    assert (socket.code, "cannot use FLEETHOOK_URL" in socket.err) == (4, True), socket.err


def test_doctor_sees_gateway_token_and_canary(person: Person, gateway: Gateway) -> None:
    person.fleethook("install", "claude", "--http", "--yes")
    unset = person.doctor()
    assert unset["claude-commands"]["status"] == "ok"
    assert (unset["claude-gateway"]["status"], "is not set here" in unset["claude-gateway"]["what"]) == ("fail", True)
    wrong = person.doctor(FLEETHOOK_TOKEN="fht_wrong")["claude-gateway"]
    assert (wrong["status"], "unknown, revoked or expired" in wrong["what"]) == ("fail", True)
    reader = gateway.token("reader", "observe")
    assert "lacks the scope 'publish'" in person.doctor(FLEETHOOK_TOKEN=reader)["claude-gateway"]["what"]

    token = gateway.token("publisher")
    good = person.doctor("--live", FLEETHOOK_TOKEN=token)
    assert good["claude-gateway"]["status"] == "ok"
    assert (good["claude-live"]["status"], "deny as expected" in good["claude-live"]["what"]) == ("ok", True)
    bad = person.doctor("--live", FLEETHOOK_TOKEN="fht_wrong")["claude-live"]
    assert (bad["status"], "HTTP status 401" in bad["what"]) == ("fail", True), bad
    person.settings.write_text(
        person.settings.read_text().replace('"model"', f'"env": {{"FLEETHOOK_TOKEN": "{token}"}}, "model"')
    )
    assert person.doctor()["claude-gateway"]["status"] == "ok", "Claude Code's own settings may have the token"


def test_doctor_says_what_happens_while_the_gateway_is_away(person: Person) -> None:
    nobody = str(free_port())
    person.fleethook("install", "claude", "qwen", "--http", "--fail-closed", "--yes", FLEETHOOK_GATEWAY_PORT=nobody)
    found = person.doctor(FLEETHOOK_TOKEN="fht_any")
    assert "cannot be reached: Connection refused. It blocks every call" in found["claude-gateway"]["what"]
    assert "cannot be reached: Connection refused. Every call goes on" in found["qwen-gateway"]["what"]


def test_doctor_repairs_hooks_of_type_http_as_such(person: Person, gateway: Gateway) -> None:
    person.fleethook("install", "claude", "--http", "--yes")
    written = person.settings.read_text()
    person.settings.write_text(written.replace('"timeout": 600', '"timeout": 2'))
    assert person.doctor()["claude-timeouts"]["fix"].endswith("--http")
    stale = person.doctor(FLEETHOOK_GATEWAY_PORT=str(free_port()))["claude-answers"]
    assert ("is stale" in stale["what"], stale["fix"]) == (True, "fleethook install claude --http")
    person.fleethook("doctor", "--fix")
    assert person.settings.read_text() == written


def test_another_gateway_is_reported_as_a_weaker_guard(person: Person) -> None:
    person.fleethook("install", "claude", "--http", "--yes")
    moved = person.fleethook(
        "install", "claude", "--http", "--dry-run", "--json", FLEETHOOK_GATEWAY_PORT=str(free_port())
    )
    assert json.loads(moved.out)["agents"][0]["weakens"] == {"server": "is another one"}
    refused = person.fleethook(
        "install", "claude", "--http", "--yes", FLEETHOOK_GATEWAY_PORT="1", FLEETHOOK_TEST_CONFIRMS="", CLAUDECODE="1"
    )
    assert refused.code != 0, "an agent cannot send its own guard elsewhere"
