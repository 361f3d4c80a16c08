"""Real agent programs with `fleethook install --http`: they post to the gateway by themselves (issue 12, item 1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.programs import PROGRAMS, Missing, Program
from tests.agents.test_agents import files
from tests.agents.world import World, chosen
from tests.support.servers import free_port

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600), pytest.mark.req("B-08", "G-02")]

NAMES = [name for name in chosen() if name in {"claude", "qwen"}]
"""Copilot CLI sends a token by https only and needs an account."""


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest, world: World) -> Program:
    found = PROGRAMS[request.param]
    try:
        world.on_path = found.on_path()
    except Missing as error:
        pytest.skip(f"{found.name} cannot be installed here: {error}")
    found.prepare(world.home, world.project, world.model.url)
    world.run(found, "echo marker | tee -a ran.txt")  # some write settings of their own at their first start
    return found


def handlers(home: Path, name: str) -> dict[str, dict[str, object]]:
    """Our handler of each event in the agent's settings."""
    settings = json.loads((home / f".{name}/settings.json").read_text())
    return {event: groups[0]["hooks"][0] for event, groups in settings["hooks"].items()}


def test_an_agent_program_obeys_the_bus_by_http(world: World, program: Program) -> None:
    name, before = program.name, files(world.home)
    said = world.fleethook("install", name, "--http", "--yes")
    assert f"of type http, to the gateway at http://127.0.0.1:{world.port}" in said
    ours = handlers(world.home, name)
    assert ours["PreToolUse"]["url"] == f"http://127.0.0.1:{world.port}/v1/hooks/{name}/PreToolUse"
    assert {event for event, hook in ours.items() if hook["type"] == "command"} == (
        {"SessionStart", "Setup", "TaskCompleted", "TeammateIdle"} & ours.keys() if name == "claude" else set()
    )
    unset = world.fleethook("doctor", "--json", code=None)
    assert "FLEETHOOK_TOKEN is not set here" in unset
    world.token = world.fleethook("tokens", "create", f"agent-{name}").strip()
    try:
        live = json.loads(world.fleethook("doctor", "--live", "--json", code=None))["checks"]
        mine = {check["id"]: check for check in live if check["agent"] == name}
        assert mine[f"{name}-gateway"]["status"] == "ok", mine
        assert mine[f"{name}-commands"]["status"] == "ok", mine
        assert "deny as expected" in mine[f"{name}-live"]["what"], mine

        assert world.run(program, "echo marker | tee -a ran.txt") == "marker\n"
        assert "remember-the-milk" in world.model.told, "the context of a hook reaches the model"
        assert world.run(program, "echo forbidden | tee -a ran.txt") == "", "a denied call does not run"
        assert "policy P-1 forbids it" in world.model.told
        seen = [json.loads(line) for line in world.fleethook("events", "list", "--json", "--limit", "500").splitlines()]
        denied = [row for row in seen if row.get("decision") == "deny" and "echo forbidden" in json.dumps(row)]
        assert [row["source"] for row in denied[:1]] == [name], "the call is on record"
    finally:
        world.token = ""
    world.fleethook("uninstall", name, "--yes")
    assert files(world.home) == before, "an uninstall leaves every file as it was"


def test_while_no_gateway_answers_a_hook_that_fails_closed_blocks_where_the_agent_can(
    world: World, program: Program
) -> None:
    """Claude Code has `onFailure: block`; Qwen Code has no such option, and `install` says so."""
    name, port = program.name, world.port
    world.port = free_port()  # nobody listens there
    try:
        words = ("install", name, "--http", "--fail-closed", "--events", "PreToolUse", "--yes", "--json")
        warnings = json.loads(world.fleethook(*words))
        ran = world.run(program, "echo marker | tee -a ran.txt")
    finally:
        world.port = port
        world.fleethook("uninstall", name, "--yes")
    assert ran == ("" if name == "claude" else "marker\n")
    assert ("no failure option" in str(warnings["agents"][0]["warnings"])) is (name == "qwen")
