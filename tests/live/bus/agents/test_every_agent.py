"""Each system's typical hooks, run for the recorded shell call of every agent, and the answer in that agent's own form."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.chain import Evaluation, evaluate
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooksets.in_force import HookSet, Layered
from bus.runners.command import CommandRunner
from bus.verdicts import Verdict
from tests.golden.test_conformance import AGENTS, Agent, payload, pre

EXAMPLES = Path(__file__).parents[4] / "examples"
FORCE = "git push origin main --force"

GUARD = """
import json, sys
event = json.load(sys.stdin)
assert (event["hook_event_name"], event["tool_name"]) == ("PreToolUse", "Bash"), event
if "--force" in event["tool_input"]["command"]:
    print("history is not rewritten", file=sys.stderr)
    sys.exit(2)
"""


def calling(given: Any, command: str) -> Any:
    """A payload with another command in it, wherever the agent has it."""
    if isinstance(given, dict):
        return {
            key: command
            if key in ("command", "command_line") and isinstance(value, str)
            else [command]
            if key == "commands"
            else calling(value, command)
            for key, value in given.items()
        }
    if isinstance(given, list):
        return [calling(value, command) for value in given]
    if isinstance(given, str) and given.startswith("{"):  # Copilot's arguments are JSON in a text
        return json.dumps(calling(json.loads(given), command))
    return given


def event(agent: Agent, command: str) -> Event:
    """The recorded shell call with this command; its folder is not there, which no guard may mind."""
    raw = json.dumps(calling(json.loads(payload(agent, agent.pre, "x")), command))
    return find(agent.name).read(agent.pre, raw.encode(), host="here")


@pytest.fixture
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, HookSet]:
    """The examples, and a guard as people write them for Claude Code."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(EXAMPLES / "pigo", tmp_path / ".pigo")
    shutil.copytree(EXAMPLES / "forge", tmp_path / ".config" / "forge")
    script, settings = tmp_path / "guard.py", tmp_path / ".claude" / "settings.json"
    script.write_text(GUARD)
    settings.parent.mkdir()
    group = {"matcher": "Bash", "hooks": [{"type": "command", "command": f"python3 {script}"}]}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [group]}}))
    found = {}
    for dialect, path in (
        ("pigo", tmp_path / ".pigo/config.json"),
        ("forge", tmp_path / ".config/forge/hooks.json"),
        ("claude", settings),
    ):
        file = find_hooks(dialect).read(path, "user")
        assert file.problems == ()
        found[dialect] = HookSet([Layered("user", "1", file)])
    return found


async def judge(found: HookSet, asked: Event) -> Verdict:
    return await evaluate(Evaluation(event=asked, hooks=found.blocking(asked), run=CommandRunner().run, seconds=30))


@pytest.mark.req("B-08", "X-01", "P-10", "F-10", "I-03")
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
async def test_a_guard_of_every_system_stops_every_agent(agent: Agent, systems: dict[str, HookSet]) -> None:
    for dialect, command, why in (
        ("pigo", FORCE, "history on the server is not rewritten"),
        ("forge", "sudo ls", "sudo"),
        ("claude", FORCE, "history is not rewritten"),
    ):
        asked = event(agent, command)
        assert (asked.tool, asked.input["command"]) == ("bash", command)
        denied = await judge(systems[dialect], asked)
        assert (denied.decision, why in denied.reason) == ("deny", True), dialect
        answer = find(agent.name).render(agent.pre, denied, asked)
        assert pre(agent.name, answer) == "blocked", dialect
        fine = await judge(systems[dialect], event(agent, "git status"))
        assert (fine.decision, len(fine.parts), fine.notes) == ("abstain", 1, ()), dialect
