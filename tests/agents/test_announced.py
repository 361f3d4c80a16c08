"""Agents at events that are only announced: none is lost at their end, and an answer that is needed is given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agents.model import Model, nothing
from tests.agents.programs import PROGRAMS, Missing, Program
from tests.agents.world import World, chosen
from tests.support.up import up
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600), pytest.mark.req("X-14")]

PER_CALL = ("PreToolUse", "PostToolUse", "PostToolBatch")
REDACTS = "hooks:\n  - {id: redacts, on: tool:post_execute, rule: {redact: true}}\n"


@contextmanager
def quiet_machine(folder: Path, model: Model, agent: str, later: list[str]) -> Iterator[World]:
    """A machine whose hooks answer at no event after a call, with this agent connected."""
    if agent not in chosen():
        pytest.skip(f"{agent} does not take part")
    made = World(folder, model)
    for one in (made.home, made.project, made.folder / "fh" / "config"):
        one.mkdir(parents=True)
    (made.folder / "fh" / "config" / "fleethook.yaml").write_text("hooks: []\n")
    try:
        made.on_path = PROGRAMS[agent].on_path()
    except Missing as error:
        pytest.skip(f"{agent} cannot be installed here: {error}")
    with up(made.environment, made.project, made.folder / "up.log"):
        PROGRAMS[agent].prepare(made.home, made.project, model.url)
        report = json.loads(made.fleethook("install", agent, "--yes", "--json"))
        assert report["agents"][0]["announced"] == later
        yield made


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Iterator[World]:
    with quiet_machine(tmp_path_factory.mktemp("q"), model, "claude", ["PostToolUse", "PostToolUseFailure"]) as made:
        yield made


def settings(world: World) -> Path:
    return world.home / ".claude" / "settings.json"


def seen(world: World) -> Counter[tuple[str, str]]:
    """How often each event of each session was recorded."""
    rows = [json.loads(line) for line in world.fleethook("events", "list", "--json", "--limit", "1000").splitlines()]
    return Counter((row["session"], row["native"]) for row in rows)


def count(world: World, native: str) -> int:
    """How many events of this name were recorded."""
    return sum(number for (_, name), number in seen(world).items() if name == native)


def test_no_event_of_a_call_is_lost_when_claude_ends(quiet: World) -> None:
    """With --max-turns it ends right after a call, and ends the hooks that it does not wait for."""
    claude = PROGRAMS["claude"]
    capped = Program(
        claude.name, claude.packages, claude.binary, claude.prepare, ("--max-turns", "1", *claude.arguments)
    )
    for number in range(8):
        quiet.start(capped if number % 2 else claude, f"true {number}")
    wait_until(lambda: sum(native == "SessionEnd" for _, native in seen(quiet)) == 8, "eight sessions have ended")
    wait_until(lambda: all(count(quiet, native) >= 8 for native in PER_CALL), "their calls are recorded")
    found = seen(quiet)
    for session in {session for session, _ in found}:
        assert {native: found[session, native] for native in PER_CALL} == dict.fromkeys(PER_CALL, 1), found


def test_claude_waits_within_its_session_once_a_hook_answers(quiet: World) -> None:
    """Claude Code reads changed settings while it runs."""
    hooks = quiet.folder / "fh" / "config" / "fleethook.yaml"
    token = "ghp_" + "a1B2" * 9
    (quiet.project / "key.txt").write_text(f"before {token} after\n")

    def answer() -> None:
        hooks.write_text(REDACTS)
        wait_until(
            lambda: json.loads(settings(quiet).read_text())["hooks"]["PostToolUse"][0]["hooks"][0].get("async") is None,
            "it waits",
        )

    quiet.start(PROGRAMS["claude"], "cat key.txt; sleep 1", nothing, answer, *[nothing] * 6)
    results = [
        str(part["content"])
        for message in quiet.model.requests[-1]["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else [])
        if part.get("type") == "tool_result"
    ]
    assert token in results[0], "nobody waited for an answer"
    assert token not in results[-1]
    assert "[redacted" in results[-1]
    assert '"async": true' in settings(quiet).read_text(), "at the events that nobody answers it still goes on"
    checks = json.loads(quiet.fleethook("doctor", "--json", code=None))["checks"]
    (check,) = [one for one in checks if one["id"] == "claude-announced"]
    assert (check["status"], "PostToolUseFailure" in check["what"]) == ("ok", True)
    report = json.loads(quiet.fleethook("install", "claude", "--yes", "--json"))["agents"][0]
    assert (report["announced"], report["needed"]) == (["PostToolUseFailure"], {"PostToolUse": "redacts may answer it"})


def test_no_event_of_a_call_is_lost_when_opencode_ends(tmp_path: Path, model: Model) -> None:
    with quiet_machine(tmp_path / "q", model, "opencode", ["tool.execute.after"]) as world:
        for number in range(4):
            world.start(PROGRAMS["opencode"], f"true {number}")
        wait_until(lambda: count(world, "tool.execute.after") >= 4, "the calls are recorded")
        found = seen(world)
        natives = ("tool.execute.before", "tool.execute.after")
        for session in {session for session, native in found if native in natives}:
            assert {native: found[session, native] for native in natives} == dict.fromkeys(natives, 1), found
