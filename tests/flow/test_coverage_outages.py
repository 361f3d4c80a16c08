"""Outages and kills make no gap of a call whose pre-hook event comes late, and lose no gap (X-15)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli_kit import fleethook_in
from tests.support.fleet import HOST, Agent, Fleet, fleet
from tests.support.waiting import wait_until
from workers.coverage.decisions import decide_gaps
from workers.coverage.gaps import NO_COVERAGE, Coverage, read_coverage
from workers.coverage.installs import read_installs

pytestmark = [pytest.mark.flow, pytest.mark.req("X-15")]

GOLDEN = Path("tests/golden/claude")
SESSION = "s-outage"


def payload(name: str, call: str) -> dict[str, Any]:
    body = json.loads((GOLDEN / f"{name}.json").read_text())
    return {**body, "session_id": SESSION, "tool_use_id": call}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, "evaluator", persistent=True) as one:
        one.start("dispatcher", "dispatcher", FLEETHOOK_COVERAGE_GRACE="0s")
        yield one


def test_the_workers_of_a_host_write_which_hooks_are_installed_there(world: Fleet) -> None:
    """What explains a gap: the settings of the user that they run as, also after a change."""

    def written() -> dict[str, tuple[str, ...]]:
        found = world.ask(lambda connections: read_installs(connections, world.keys, HOST))
        return {} if found is None else {file.path: file.events for file in found.files}

    settings = world.home / ".claude/settings.json"
    wait_until(lambda: world.ask(lambda connections: read_installs(connections, world.keys, HOST)), "they are written")
    assert written() == {}
    installed = fleethook_in({**world.environment, "PATH": "/usr/bin:/bin"}, world.folder, "install", "claude", "--yes")
    assert installed.code == 0, installed.err
    wait_until(lambda: "PreToolUse" in written().get(str(settings), ()), "the install is written")


def call(agent: Agent, name: str, *, before: bool = True) -> None:
    """The hooks of one tool call, as Claude Code runs them."""
    if before:
        agent.hook("PreToolUse", payload("captured-PreToolUse-1", name))
    agent.hook("PostToolUse", payload("captured-PostToolUse-1", name))


def decided(world: Fleet, count: int) -> Coverage:
    """What is known of the session once these events are recorded and every call is decided."""
    wait_until(lambda: len(world.events(session=SESSION)) == count, f"{count} events are recorded")
    uncovered = world.keys("uncovered")

    async def decide(connections: Any) -> bool:
        await decide_gaps(connections, world.keys)
        with connections.lease() as connection:
            left, groups = await connection.exchange(
                [("ZCARD", uncovered), ("XPENDING", world.keys("events"), "dispatchers")]
            )
            (length, info) = await connection.exchange(
                [("XLEN", world.keys("events")), ("XINFO", "GROUPS", world.keys("events"))]
            )
        (group,) = info
        facts = dict(zip(group[::2], group[1::2], strict=True))
        return not left and not groups[0] and facts[b"entries-read"] == length

    wait_until(lambda: world.ask(decide), "every call is decided")
    known = world.ask(lambda connections: read_coverage(connections, world.keys, [("claude", SESSION)]))
    return known.get(("claude", SESSION), NO_COVERAGE)


def test_an_outage_before_the_call_and_dispatchers_that_are_killed(world: Fleet) -> None:
    agent = world.agent()
    agent.hook("SessionStart", {"session_id": SESSION, "hook_event_name": "SessionStart", "source": "startup"})
    call(agent, "toolu_1")
    world.server.kill()
    agent.hook("PreToolUse", payload("captured-PreToolUse-1", "toolu_2"))
    world.server.start()
    agent.hook("PostToolUse", payload("captured-PostToolUse-1", "toolu_2"))
    known = decided(world, 5)
    assert (known.pre, known.uncovered) == (2, 0), "the spool brought it"

    dispatchers = [one for one in world.workers if one.kind == "dispatcher"]
    for number, one in enumerate(dispatchers):
        call(agent, f"toolu_k{number}")
        agent.hook("PreToolUse", payload("captured-PreToolUse-1", f"toolu_open{number}"))
        one.process.kill()
        one.process.wait()
        world.start("dispatcher", FLEETHOOK_COVERAGE_GRACE="0s")
        agent.hook("PostToolUse", payload("captured-PostToolUse-1", f"toolu_open{number}"))
    known = decided(world, 5 + 4 * len(dispatchers))
    assert (known.uncovered, known.gaps) == (0, ()), "the marks outlive the dispatcher that made them"

    call(agent, "toolu_gap", before=False)
    known = decided(world, 6 + 4 * len(dispatchers))
    assert (known.uncovered, [gap.cause for gap in known.gaps]) == (1, ["stopped"])
    (gap,) = world.events(types=("coverage:gap",))
    assert (gap.event.session, gap.event.call) == (SESSION, "toolu_gap")
