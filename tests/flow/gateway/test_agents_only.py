"""A machine with agents only, which knows of the fleet no more than a gateway's URL and a token."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bus.system.directories import directories
from tests.cli_kit import fleethook
from tests.support.fleet import NAMESPACE, Fleet
from tests.support.gateway import Gateway
from tests.support.waiting import PATIENCE, wait_until
from workers.gateway.tokens import revoke_token

pytestmark = pytest.mark.req("X-06", "X-10", "G-16")


@pytest.fixture
def person(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with Claude Code's folder; the environment names the gateway, and no token yet."""
    home = tmp_path / "person"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text('{"model": "x"}\n')
    for name in ("FLEETHOOK_REDIS_URL", "FLEETHOOK_TOKEN", "FLEETHOOK_SHIM_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FLEETHOOK_HOME", str(home / "fleethook"))
    monkeypatch.setenv("FLEETHOOK_HOST", "far")
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", NAMESPACE)
    monkeypatch.setenv("FLEETHOOK_URL", gateway.url)
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    monkeypatch.chdir(home)
    return home


def doctor(*args: str) -> dict[str, dict[str, str]]:
    return {check["id"]: check for check in fleethook("doctor", *args, "--json").json["checks"]}


def test_what_is_said_of_a_missing_a_wrong_and_a_revoked_token_and_of_what_waits(
    world: Fleet, gateway: Gateway, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = doctor()
    assert (missing["server"]["status"], "FLEETHOOK_URL: a gateway" in missing["server"]["what"]) == ("fail", True)

    monkeypatch.setenv("FLEETHOOK_TOKEN", "fht_wrong")
    said = fleethook("install", "claude", "--yes").err
    assert f"warning: the gateway at {gateway.url} refuses: token-invalid, so no hook of the fleet runs" in said

    monkeypatch.setenv("FLEETHOOK_TOKEN", gateway.token("far"))
    done = fleethook("install", "claude", "--yes")
    assert "warning" not in done.err, done.err
    good = doctor()
    assert good["server"]["status"] == good["claude-rights"]["status"] == "ok"
    assert "gateway" not in good, "the check that nobody looked at it"

    world.ask(lambda connections: revoke_token(connections, world.keys, "far"))
    wait_until(lambda: doctor()["server"]["status"] == "fail", "the gateway has heard of it")
    settings = person / ".claude" / "settings.json"
    command = json.loads(settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    payload = {"session_id": "far-1", "cwd": str(person), "tool_name": "Bash", "tool_input": {"command": "ls"}}
    run = subprocess.run(
        command, check=False, shell=True, input=json.dumps(payload), capture_output=True, text=True, timeout=PATIENCE
    )
    assert "no hook answered" in run.stdout
    refused = doctor()
    assert "fleethook tokens create" in refused["server"]["fix"]
    assert refused["spool"]["fix"] == "--fix sends them once the fleet answers"
    assert "not fixed: 1 event of claude still waits" in fleethook("doctor", "--fix").err
    removed = fleethook("uninstall", "claude", "--yes")
    assert "since the gateway is away; `fleethook install claude` with its FLEETHOOK_URL sends" in removed.err
    assert json.loads(settings.read_text()) == {"model": "x"}

    monkeypatch.setenv("FLEETHOOK_TOKEN", gateway.token("far-2"))
    fleethook("install", "claude", "--yes")
    assert doctor("--fix")["claude-rights"]["status"] == "ok"
    wait_until(lambda: [seen.event.host for seen in world.events(session="far-1")] == ["far"], "nothing was lost")
    fleethook("uninstall", "--yes")
    fleethook("uninstall", "--purge", "--yes")
    assert settings.read_text() == '{"model": "x"}\n'
    left = sorted(str(path.relative_to(person)) for path in person.rglob("*") if path.is_file())
    assert left == [".claude/settings.json"]
    assert not directories(create=False).state.exists()
