"""What `doctor` and `status` say where an agent does not wait for an answer that a hook in force needs (X-14)."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, run
from tests.support.servers import Server
from workers.coverage.waiting import LOCK

pytestmark = pytest.mark.req("X-14")

HOOKS = "hooks:\n  - {id: judge, on: tool:post_execute, command: check}\n"
TEXT = "Claude Code does not wait for its hooks of PostToolUse (judge may answer it), by "


@pytest.fixture
def settings(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of a Claude Code that was connected while a worker looked and no hook needed an answer; now none looks."""
    person = tmp_path / "person"
    for folder in ("project", "bin", ".claude", "fh/state"):
        (person / folder).mkdir(parents=True)
    for name, value in {
        "FLEETHOOK_REDIS_URL": server.url,
        "FLEETHOOK_NAMESPACE": namespace(keys),
        "FLEETHOOK_HOME": str(person / "fh"),
        "HOME": str(person),
        "PATH": str(person / "bin"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(person / "project")
    with (person / "fh/state" / LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = fleethook("install", "claude", "--yes")
    assert done.code == 0, done.err
    return person / ".claude/settings.json"


def goes_on(settings: Path) -> set[str]:
    """The events at which Claude Code does not wait."""
    hooks = json.loads(settings.read_text())["hooks"]
    return {event for event, groups in hooks.items() for group in groups for one in group["hooks"] if one.get("async")}


def check() -> dict[str, Any]:
    """What `doctor` has found about it; empty if it has nothing to say."""
    found = [one for one in fleethook("doctor", "--json").json["checks"] if one["id"] == "claude-announced"]
    return found[0] if found else {}


def test_an_answer_that_nobody_waits_for_is_a_failure_until_the_agent_waits(
    server: Server, keys: Keys, settings: Path
) -> None:
    assert goes_on(settings) >= {"PostToolUse", "PostToolUseFailure"}
    assert check()["status"] == "ok"
    assert fleethook("status", "--json").json["unanswered"] == []

    run(server.url, lambda connections: apply(connections, keys, parse_hook_file(HOOKS, "fleet")))
    found = check()
    assert (found["status"], found["what"]) == ("fail", f"{TEXT}{settings}")
    assert found["fix"].startswith("fleethook install claude")
    doctor = fleethook("doctor")
    assert doctor.code == 1
    assert TEXT in " ".join(doctor.out.split())
    assert fleethook("status", "--json").json["unanswered"] == [f"{TEXT}{settings}"]
    assert TEXT in " ".join(fleethook("status").out.split())

    assert fleethook("install", "claude", "--yes").code == 0, "what doctor advises"
    assert "PostToolUse" not in goes_on(settings)
    assert check().get("status") != "fail"
    assert fleethook("status", "--json").json["unanswered"] == []


def test_a_hook_of_a_trusted_project_needs_its_answer_too_and_one_without_trust_does_not(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`doctor` and `status` look in all trusted projects, wherever they are started."""
    Path("fleethook.yaml").write_text(HOOKS)
    assert check()["status"] == "ok"
    assert fleethook("hooks", "trust", "--yes").code == 0
    monkeypatch.chdir(tmp_path)
    found = check()
    assert (found["status"], found["what"]) == ("fail", f"{TEXT}{settings}")


def test_without_a_server_nothing_is_said_of_it(
    server: Server, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hooks in force are not known then, and `doctor` says that the server is away."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://127.0.0.1:1/0")
    assert check() == {}
    assert goes_on(settings), "nothing is changed"
