"""Real agent programs whose hook before a call is gone: the call runs, and Fleethook says so (X-15)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.agents.programs import PROGRAMS, Missing
from tests.agents.world import World, chosen
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600), pytest.mark.req("X-15")]

SETTINGS = {
    "claude": (".claude/settings.json", "PreToolUse"),
    "codex": (".codex/hooks.json", "PreToolUse"),
    "gemini": (".gemini/settings.json", "BeforeTool"),
    "opencode": (".config/opencode/plugins/fleethook.js", "tool.execute.before"),
    "qwen": (".qwen/settings.json", "PreToolUse"),
}
"""Where each agent has its hooks, and the event before a call."""


def rows(world: World, *words: str) -> list[dict[str, Any]]:
    """The records that a command prints."""
    text = world.fleethook(*words, "--json")
    found: list[dict[str, Any]] = (
        json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    )
    return found


def gaps(world: World, name: str) -> list[dict[str, Any]]:
    """The gaps that were announced for this agent."""
    found = [
        json.loads(line) for line in world.fleethook("events", "list", "--type", "coverage:gap", "--json").splitlines()
    ]
    return [one for one in found if name in json.dumps(one)]


def remove(path: Path, event: str) -> None:
    """Take the hook of one event out of an agent's settings, as a person does."""
    text = path.read_text()
    if path.suffix == ".js":
        changed, count = re.subn(rf'"{re.escape(event)}": "[a-z]+",?\s*', "", text)
        assert count == 1, text
        path.write_text(changed)
        return
    settings = json.loads(text)
    del settings["hooks"][event]
    path.write_text(json.dumps(settings))


@pytest.mark.parametrize("name", [name for name in chosen() if name in SETTINGS])
def test_a_call_whose_pre_hook_is_gone_is_announced_with_its_cause(
    world: World, name: str, request: pytest.FixtureRequest
) -> None:
    program = PROGRAMS[name]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{name} cannot be installed here: {error}")
    program.prepare(world.home, world.project, world.model.url)
    world.fleethook("install", name, "--yes")
    request.addfinalizer(lambda: world.fleethook("uninstall", name, "--yes"))
    assert world.run(program, "echo covered | tee -a ran.txt") == "covered\n"
    (covered,) = [one for one in rows(world, "sessions", "--source", name) if one["calls"]][:1]

    path, event = world.home / Path(SETTINGS[name][0]), SETTINGS[name][1]
    remove(path, event)
    assert world.run(program, "echo forbidden | tee -a ran.txt") == "forbidden\n", "nothing stops it"
    wait_until(lambda: bool(gaps(world, name)), "the gap is announced", 120)
    (gap,) = gaps(world, name)
    sessions = {one["id"]: one for one in rows(world, "sessions", "--source", name)}
    assert sessions[gap["session"]]["uncovered"] == 1
    (why,) = sessions[gap["session"]]["gaps"]
    assert (why["cause"], why["tool"]) == ("removed", "bash"), why
    assert f"{event} was removed from {path}" in why["text"]
    assert sessions[covered["id"]]["uncovered"] == 0, "the session before it has no gap"
    (host,) = [one for one in rows(world, "hosts", "list") if one["agents"]]
    said = program.packages[0].rpartition("@")[2] if name in {"claude", "qwen"} else ""
    (agent,) = [one for one in host["agents"] if (one["agent"], one["version"]) == (name, said)]
    assert (agent["uncovered"], agent["gaps"]) == (1, 1)
