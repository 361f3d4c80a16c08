"""A bus in the test's own process: real verdicts from a hook file, no server, and what would be told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bus import Denied, Event
from bus.errors import ConfigError
from bus.testing import MemoryBus

pytestmark = pytest.mark.req("X-07")

ROOT = Path(__file__).parents[4]

HOOKS = """
guards: {destructive-commands: {}}
hooks:
  - id: no-force
    on: tool:pre_execute:bash
    rule: {decision: deny, reason: never force, commands: [{program: [git], flags_any: [--force]}]}
  - id: brief
    on: user:prompt_submit
    command: |
      echo '{"decision": "allow", "context": "be brief"}'
  - id: late
    on: tool:post_execute
    blocking: false
    command: "true"
endpoints:
  - {id: audit, url: "https://audit.example/hook", events: ["tool:*"]}
"""


def call(command: str) -> Event:
    """A shell call as an agent asks for it."""
    return Event(type="tool:pre_execute", tool="bash", input={"command": command}, cwd="/work")


def test_rules_guards_and_commands_give_the_verdict_that_a_fleet_would_give() -> None:
    with MemoryBus(text=HOOKS).sync() as bus:
        denied = bus.request(call("git push --force"))
        assert (denied.decision, "never force" in denied.reason) == ("deny", True)
        assert bus.request(call("rm -rf /")).decision == "deny"
        assert bus.request(call("git status")).decision == "abstain"
        said = bus.request(Event(type="user:prompt_submit", data={"prompt": "hello"}))
        assert said.contexts == ("be brief",)


def test_what_would_be_told_is_kept_and_not_sent() -> None:
    with MemoryBus(text=HOOKS).sync() as bus:
        name = bus.publish(Event(type="tool:post_execute", tool="bash"))
        bus.request(call("git push --force"))
        first, second = bus.handled
        assert (first.event.id, first.verdict, first.recipients) == (name, None, ("late", "audit"))
        assert second.verdict is not None
        assert second.recipients == ("audit",)


def test_a_line_too_large_to_be_read_at_once_is_checked_in_a_process_of_its_own() -> None:
    with MemoryBus(text=HOOKS).sync() as bus:
        assert bus.request(call("rm -f " + "b{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} " * 800)).decision == "deny"
        assert bus.request(call("git status")).decision == "abstain"


def test_an_agent_in_python_is_denied_by_the_same_scopes() -> None:
    bus = MemoryBus(text=HOOKS).sync()
    push = bus.tool("bash", {"command": "git push --force"})
    with bus, bus.session(cwd="/work"), pytest.raises(Denied, match="never force"), push:
        pytest.fail("the tool ran")


def test_a_file_with_an_error_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "fleethook.yaml"
    path.write_text("hooks:\n  - id: a\n    on: tool:pre_execute\n    rule: {decison: deny}\n")
    with pytest.raises(ConfigError, match=r"fleethook\.yaml:4.*decison"):
        MemoryBus(path)


def test_the_fixture_opens_and_closes_buses(tmp_path: Path) -> None:
    (tmp_path / "test_hooks.py").write_text(
        "from bus import Event\n"
        f"TEXT = {HOOKS!r}\n"
        "def test_denied(memory_bus):\n"
        "    bus = memory_bus(text=TEXT)\n"
        "    event = Event(type='tool:pre_execute', tool='bash', input={'command': 'git push --force'})\n"
        "    assert bus.request(event).decision == 'deny'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "bus.testing.plugin", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.req("G-16")
async def test_workflows_pass_their_steps_and_name_what_they_would_start() -> None:
    text = """
workflows:
  - name: plan-first
    steps:
      - name: plan
        allowed_tools: [read]
        transitions: [{to: work, on: user:prompt_submit}]
      - name: work
        on_enter: [{action: command, command: "echo {{ prompt }}"}]
"""
    async with MemoryBus(text=text) as bus:
        ask = Event(type="tool:pre_execute", session="s", tool="bash", input={"command": "ls"})
        assert (await bus.request(ask)).decision == "deny"
        moved = await bus.request(Event(type="user:prompt_submit", session="s", data={"prompt": "go"}))
        assert moved.parts[0].output.endswith("plan -> work; command; would run afterwards: echo go")
        assert (await bus.request(ask)).decision == "abstain"
