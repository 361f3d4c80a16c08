"""The hook command of the first version, frozen, with today's server roles, evaluator and dispatcher."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bus.shim.answer import HookAnswer
from bus.shim.spool import drain, spool_status
from tests.support.fleet import Fleet, fleet
from tests.support.waiting import PATIENCE, wait_until
from workers.fleet_control.stops import lift_stops, place_stop

pytestmark = [pytest.mark.flow, pytest.mark.req("B-02", "B-08")]

FROZEN = Path(__file__).parents[1] / "golden" / "shims"

HOOKS = """
hooks:
  - id: no-rm
    on: tool:pre_execute
    rule: {decision: deny, reason: No rm here, commands: [{program: [rm]}]}
  - id: review
    on: task:completed
    command: echo "not yet reviewed" >&2; exit 2
  - id: tidy
    on: tool:pre_execute
    when: event.session == "tidy"
    command: |
      echo '{"decision": "allow", "reason": "tidied", "context": "be brief", "updated_input": {"command": "ls -l"}}'
"""


@dataclass
class OldShim:
    """The first version as it was installed: its files in a folder `bus` of their own, its answer file, its spool."""

    house: Path
    world: Fleet

    @property
    def answers(self) -> Path:
        return self.house / "claude.answers"

    @property
    def spool(self) -> Path:
        return self.house / "spool" / "claude"

    def install(self, socket: str = "") -> None:
        (self.house / "bus").mkdir(exist_ok=True)
        (self.house / "bus" / "__init__.py").touch()
        for name in ("shim", "launcher", "spool"):
            shutil.copy(FROZEN / f"{name}_1.py", self.house / "bus" / f"{name}.py")
        login = urlsplit(self.world.url("shim"))
        text = (FROZEN / "answers_1.txt").read_text()
        for name, value in (
            ("@SOCKET@", socket or str(self.world.server.socket)),
            ("@SPOOL@", str(self.spool)),
            ("@USER@", (login.username or "").encode().hex()),
            ("@PASSWORD@", (login.password or "").encode().hex()),
        ):
            text = text.replace(name, value)
        self.answers.write_text(text)

    def hook(self, native: str, **payload: Any) -> HookAnswer:
        launcher = str(self.house / "bus" / "launcher.py")
        done = subprocess.run(
            [sys.executable, "-I", "-S", launcher, "claude", native, str(self.answers)],
            input=json.dumps({"hook_event_name": native, "cwd": "/", **payload}).encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={"PATH": os.defpath},
        )
        return HookAnswer(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("old"), "evaluator", "dispatcher", hooks=HOOKS) as one:
        yield one


@pytest.fixture
def old(world: Fleet, tmp_path: Path) -> OldShim:
    shim = OldShim(tmp_path, world)
    shim.install()
    return shim


def bash(command: str, session: str = "old") -> dict[str, Any]:
    return {"session_id": session, "tool_name": "Bash", "tool_input": {"command": command}}


def test_it_asks_and_prints_the_answer_of_today(old: OldShim) -> None:
    denied = old.hook("PreToolUse", **bash("rm x"))
    assert (denied.exit_code, denied.stderr) == (0, b"")
    told = json.loads(denied.stdout)["hookSpecificOutput"]
    assert told["permissionDecision"] == "deny"
    assert told["permissionDecisionReason"].startswith("No rm here")

    assert old.hook("PreToolUse", **bash("ls")) == HookAnswer()

    tidied = json.loads(old.hook("PreToolUse", **bash("ls", "tidy")).stdout)["hookSpecificOutput"]
    assert tidied["permissionDecision"] == "allow"
    assert tidied["updatedInput"] == {"command": "ls -l"}
    assert tidied["additionalContext"] == "be brief"

    blocked = old.hook("TaskCompleted", session_id="old")
    assert (blocked.exit_code, blocked.stdout) == (2, b"")
    assert b"not yet reviewed" in blocked.stderr


def test_it_announces(old: OldShim, world: Fleet) -> None:
    assert old.hook("Notification", session_id="announced", message="hello") == HookAnswer()
    (seen,) = world.events(session="announced")
    assert (seen.event.type, seen.event.data["message"], seen.event.host) == ("notification", "hello", "old-host")


@pytest.mark.req("X-12")
def test_a_stop_denies_in_a_form_that_it_reads(old: OldShim, world: Fleet) -> None:
    world.ask(lambda connections: place_stop(connections, world.keys, by="ana", reason="the disk is full"))
    try:
        told = json.loads(old.hook("PreToolUse", **bash("ls")).stdout)["hookSpecificOutput"]
        assert told["permissionDecision"] == "deny"
        assert "ana has stopped" in told["permissionDecisionReason"]
        assert json.loads(old.hook("UserPromptSubmit", session_id="old", prompt="x").stdout)["decision"] == "block"
    finally:
        world.ask(lambda connections: lift_stops(connections, world.keys, by="ana"))
    assert old.hook("PreToolUse", **bash("ls")) == HookAnswer()


def test_it_falls_back_and_says_so_where_nobody_answers(tmp_path: Path) -> None:
    with fleet(tmp_path / "empty") as nobody:
        old = OldShim(tmp_path, nobody)
        old.install()
        fell_back = json.loads(old.hook("PreToolUse", **bash("rm x")).stdout)
        assert "nothing blocked" in fell_back["systemMessage"]
        # Its report would be a script, which its credentials may not run any more: it waits for today's drainer.
        assert nobody.events() == []
        assert spool_status(old.spool).records == 1
        assert drain(str(old.answers)) is not None
        (report,) = nobody.events()
        assert report.fallback_reason == "no evaluator"
        nobody.start("evaluator")
        wait_until(lambda: [seen for seen in nobody.events() if not seen.of], "the late request is on record")


@pytest.mark.req("X-09")
def test_what_it_spools_arrives_though_it_may_run_no_scripts(old: OldShim, world: Fleet) -> None:
    """Its own drainer is refused and loses nothing; today's sends everything, in order, and again, to no effect."""
    session = "spooled"
    old.install(socket=str(old.house / "nowhere"))
    assert b"nothing blocked" in old.hook("PreToolUse", **bash("rm x", session)).stdout
    assert old.hook("Notification", session_id=session) == HookAnswer()
    assert spool_status(old.spool).records == 2

    old.install()
    command = [sys.executable, "-m", "bus.spool", str(old.answers)]
    refused = subprocess.run(command, cwd=old.house, capture_output=True, check=False, timeout=PATIENCE)
    assert (refused.returncode, b"NOPERM" in refused.stderr) == (3, True)
    assert spool_status(old.spool).records == 2
    kept = old.spool.with_name("claude.draining").read_bytes()
    for _ in "twice":
        old.spool.with_name("claude.draining").write_bytes(kept)
        done = drain(str(old.answers))
        assert done is not None
        assert done.sent == 2

    wait_until(lambda: len(world.events(session=session)) == 2, "both have arrived")
    wait_until(lambda: spool_status(old.spool).records == 0, "the spool is empty")
    asked = [seen for seen in world.events(session=session) if seen.event.type == "tool:pre_execute"]
    assert asked[0].fallback_reason.startswith("redis away"), "its hooks do not run any more, and the record says why"
    assert asked[0].verdict is None or asked[0].verdict.parts == ()
