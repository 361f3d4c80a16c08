"""Real agent programs where guards are hard to keep: outages, slow hooks, edits in shell commands, unknown events, secrets."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.programs import PROGRAMS, Missing, Program
from tests.agents.world import World, chosen

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=chosen())
def agent(world: World, request: pytest.FixtureRequest) -> Iterator[Program]:
    """An agent program with Fleethook installed."""
    program = PROGRAMS[request.param]
    try:
        world.on_path = program.on_path()
    except Missing as error:
        pytest.skip(f"{program.name} cannot be installed here: {error}")
    program.prepare(world.home, world.project, world.model.url)
    world.fleethook("install", program.name, "--yes")
    yield program
    world.fleethook("uninstall", program.name, "--yes")


@pytest.mark.req("X-06", "X-09")
def test_a_server_that_is_killed_and_comes_back_lets_no_call_pass(world: World, agent: Program) -> None:
    (world.project / "server.pid").write_text(str(world.server()))
    assert world.run(agent, "echo forbidden while killing | tee -a ran.txt") == "", "it dies while hooks are asked"
    assert "policy P-1 forbids it" in world.model.told
    assert not (world.project / "server.pid").exists(), "the hook did kill the server"

    first = world.server()
    ran = world.run(agent, "echo forbidden | tee -a ran.txt", lambda: os.kill(first, signal.SIGKILL))
    assert ran == "", "it is away when the call comes"
    assert "policy P-1 forbids it" in world.model.told
    assert world.server() != first

    assert world.run(agent, "echo forbidden | tee -a ran.txt") == "", "and the next call"
    assert "policy P-1 forbids it" in world.model.told


def add_unknown_events(home: Path) -> None:
    """Our hook command at events that no table of ours has: called for one that the agent fires, named at another."""
    for path in [*home.rglob("*.json"), *home.rglob("*.js")]:
        text = path.read_text(errors="replace")
        if "fleethook" not in text and "launcher.py" not in text:
            continue
        if path.suffix == ".js":  # what OpenCode fires while an answer streams
            changed = text.replace('"events": {', '"events": {"FutureEvent": "send", "message.part.delta": "send",', 1)
            path.write_text(changed)
            continue
        settings = json.loads(text)
        for native, groups in [*settings.get("hooks", {}).items()]:
            if native in {"PreToolUse", "BeforeTool"}:
                named = json.dumps(groups).replace('"name": "fleethook"', '"name": "future"')  # Qwen runs a name once
                added = json.loads(named.replace(f" {native} ", " FutureEvent "))
                assert added != groups
                settings["hooks"] |= {native: [*groups, *added], "FutureEvent": added}
                path.write_text(json.dumps(settings))


@pytest.mark.req("X-09", "B-08")
def test_an_event_that_nobody_knows_passes(world: World, agent: Program) -> None:
    before = {path: path.read_bytes() for path in [*world.home.rglob("*.json"), *world.home.rglob("*.js")]}
    add_unknown_events(world.home)
    changed = [path for path, raw in before.items() if path.read_bytes() != raw]
    assert changed
    try:
        assert world.run(agent, "echo marker | tee -a ran.txt") == "marker\n"
        assert world.run(agent, "echo forbidden | tee -a ran.txt") == "", "beside it the guards hold"
    finally:
        for path in changed:
            path.write_bytes(before[path])
    listed = world.fleethook("events", "list", "--json", "--limit", "200")
    seen = {(one.get("source"), one.get("native")) for one in map(json.loads, listed.splitlines())}
    assert seen & {(agent.name, "FutureEvent"), (agent.name, "message.part.delta")}, seen


@pytest.mark.req("X-09", "B-08")
@pytest.mark.parametrize(("word", "reason"), [("slow-native", "policy P-4"), ("slow-imported", "policy P-5")])
def test_an_agent_waits_for_a_hook_that_declares_a_minute(world: World, agent: Program, word: str, reason: str) -> None:
    assert world.run(agent, f"echo {word} | tee -a ran.txt") == ""
    assert reason in world.model.told


@pytest.mark.req("X-11")
def test_a_secret_that_a_command_prints_does_not_reach_the_model(world: World, agent: Program) -> None:
    token = f"ghp_{secrets.token_hex(18)}"
    (world.project / "key.txt").write_text(f"before {token} after\n")
    assert token in world.run(agent, "cat key.txt | tee -a ran.txt")
    assert len(world.model.requests) > 1
    assert "[redacted" in world.model.told
    assert token not in world.model.told


@pytest.mark.req("X-09")
@pytest.mark.parametrize("prefix", ["", "cd inner && "])
def test_a_patch_in_a_shell_command_of_codex_is_judged_as_an_edit(world: World, agent: Program, prefix: str) -> None:
    if agent.name != "codex":
        pytest.skip("only Codex carries out apply_patch itself")
    folder = world.project / "inner" if prefix else world.project
    folder.mkdir(exist_ok=True)
    for name, changed in ((".env", False), ("notes.txt", True)):
        (folder / name).write_text("a=1\n")
        patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n-a=1\n+a=2\n*** End Patch"
        world.run(agent, f"{prefix}apply_patch <<'EOF'\n{patch}\nEOF\n")
        assert (folder / name).read_text() == ("a=2\n" if changed else "a=1\n"), name
        assert ("policy P-3 keeps .env" in world.model.told) is not changed
