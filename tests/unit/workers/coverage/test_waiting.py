"""Events that an agent announces without waiting, until a hook in force needs their answer (X-14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.agents import find as find_dialect
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet
from bus.hooksets.layers import Layered
from bus.installs import find
from bus.installs.base import NAMES, InstallScope, quiet_events
from bus.installs.hook_command import Setup, default_events
from bus.installs.manifest import apply, read, undo
from bus.installs.plan import (
    RECORDED,
    accept_events,
    announced,
    chosen_before,
    events_for,
    installed,
    kept_events,
    plan_install,
    plan_uninstall,
)
from bus.system.directories import Directories, directories
from tests.support.rows import rows
from workers.coverage.answers_needed import answers_needed, heard_events
from workers.coverage.waiting import unanswered, wait_where_needed

pytestmark = pytest.mark.req("X-14")

ABLE = tuple(find("claude").later)


def hooks(*entries: str) -> HookSet:
    file = parse_hook_file("hooks:\n" + "\n".join(f"  - {entry}" for entry in entries), "user", file="h.yaml")
    assert not file.problems, file.problems
    return HookSet([Layered("user", "1", file)])


@pytest.fixture
def where(tmp_path: Path) -> InstallScope:
    return InstallScope(tmp_path / "home", tmp_path / "home", {}, tmp_path / "machine")


@pytest.fixture
def places(tmp_path: Path) -> Directories:
    return directories({"FLEETHOOK_HOME": str(tmp_path / "fh")})


def install(where: InstallScope, places: Directories, later: tuple[str, ...] = ABLE) -> Path:
    events = events_for("claude")
    setup = Setup("/usr/bin/python3", "/data/agents/claude", events, later=announced("claude", events, later))
    apply(plan_install("claude", "user", where, setup), places.state)
    return where.home / ".claude/settings.json"


@rows(
    ("entry", "needed"),
    [
        ("{id: a, on: tool:pre_execute, command: check}", set()),
        ("{id: a, on: tool:post_execute, blocking: false, command: tell}", set()),
        ("{id: a, on: tool:post_execute, rule: {redact: true}}", {"PostToolUse"}),
        ("{id: a, on: tool:post_execute, command: check}", {"PostToolUse"}),
        ("{id: a, on: 'claude:PostToolUse', observe: true, command: check}", {"PostToolUse"}),
        ("{id: a, on: 'tool:*', command: check}", {"PostToolUse", "PostToolUseFailure"}),
        ("{id: a, on: '*', command: check}", {"PostToolUse", "PostToolUseFailure"}),
        ("{id: a, on: tool:error, rule: {decision: deny}}", {"PostToolUseFailure"}),
        ("{id: a, on: tool:error, enabled: false, rule: {decision: deny}}", set()),
        (
            "{id: a, on: tool:pre_execute, when: 'session.ran(\"pytest\").exit == 0', rule: {decision: ask}}",
            {"PostToolUse", "PostToolUseFailure"},
        ),
        (
            "{id: a, on: tool:pre_execute, rule: {limit: 200k tokens per session}}",
            {"PostToolUse", "PostToolUseFailure"},
        ),
        ("{id: a, on: tool:pre_execute, rule: {limit: 30 per minute}}", set()),
    ],
)
def test_an_answer_or_an_order_is_needed_where_a_hook_in_force_says_so(entry: str, needed: set[str]) -> None:
    assert set(answers_needed([hooks(entry)], "claude", ABLE)) == needed


@pytest.mark.parametrize(
    ("entry", "more"),
    [
        ("{id: a, on: tool:pre_execute, command: check}", set()),
        ("{id: a, on: context:post_compact, blocking: false, command: note}", {"PostCompact"}),
        ("{id: a, on: 'claude:CwdChanged', blocking: false, command: note}", {"CwdChanged"}),
        ("{id: a, on: llm:post_response, blocking: false, command: note}", {"MessageDisplay"}),
        (
            "{id: a, on: '*', blocking: false, command: note}",
            {"InstructionsLoaded", "CwdChanged", "DirectoryAdded", "WorktreeRemove", "PostCompact"},
        ),
    ],
)
def test_an_install_adds_the_events_that_hooks_in_force_listen_to(entry: str, more: set[str]) -> None:
    heard = heard_events([hooks(entry)], "claude")
    assert set(events_for("claude", None, heard)) - set(events_for("claude")) == more


@pytest.mark.parametrize("agent", NAMES)
def test_the_default_events_are_those_that_can_answer_and_those_of_the_record(agent: str) -> None:
    table = find_dialect(agent).capabilities
    often = set(default_events(find_dialect(agent), quiet_events(agent)))
    default = set(events_for(agent))
    assert {event for event in often if table[event].waits} <= default <= often
    assert {event for event in often if table[event].type in RECORDED} <= default
    if find(agent).asks_trust:
        assert default == often, "what comes later would have to be trusted again"


def test_what_is_chosen_stays_chosen(where: InstallScope, places: Directories) -> None:
    install(where, places)
    assert chosen_before("claude", "user", places.state, where) == ()
    accept_events("claude", "user", places.state, where, ["default", "MessageDisplay"])
    accept_events("claude", "user", places.state, where)
    assert chosen_before("claude", "user", places.state, where) == ("default", "MessageDisplay")
    install(where, places, ())
    assert chosen_before("claude", "user", places.state, where) == ("default", "MessageDisplay")
    accept_events("claude", "user", places.state, where, [])
    assert chosen_before("claude", "user", places.state, where) == ()


def test_codex_keeps_the_events_that_it_has(where: InstallScope, places: Directories) -> None:
    """Codex trusts hooks by their content: an install that asks for nothing changes nothing."""
    assert kept_events("claude", "user", places.state, where) == ()
    assert kept_events("codex", "user", places.state, where) == ()
    setup = Setup("/usr/bin/python3", "/data/agents/codex", ("PreToolUse", "Stop"))
    apply(plan_install("codex", "user", where, setup), places.state)
    assert kept_events("codex", "user", places.state, where) == ("PreToolUse", "Stop")


def test_an_agent_waits_again_once_a_hook_answers_and_nothing_else_changes(
    where: InstallScope, places: Directories
) -> None:
    path = install(where, places, ())
    waiting = path.read_bytes()
    install(where, places)
    quiet = hooks("{id: a, on: tool:pre_execute, command: check}")
    assert {call.event for _, _, calls in installed("claude", where) for call in calls if call.later} == set(ABLE)
    assert wait_where_needed([quiet], places) == []

    answering = hooks("{id: redacts, on: tool:post_execute, rule: {redact: true}}")
    (found,) = unanswered([quiet, answering], places.state)
    assert (found.path, found.why) == (path, {"PostToolUse": "redacts may answer it"})
    assert wait_where_needed([quiet, answering], places) == [found]
    assert unanswered([quiet, answering], places.state) == []
    before, after = (json.loads(raw)["hooks"] for raw in (waiting, path.read_bytes()))
    assert after["PostToolUse"] == before["PostToolUse"]
    assert after["PostToolUseFailure"][0]["hooks"][0]["async"] is True
    assert wait_where_needed([hooks("{id: a, on: '*', command: check}")], places)
    assert path.read_bytes() == waiting, "to the byte as an install that waits everywhere"

    undo(plan_uninstall("claude", places.state, where=where), places.state)
    assert read(path) is None


def test_an_event_is_announced_only_before_one_that_the_agent_waits_for() -> None:
    """At its end Claude Code ends the hooks that it does not wait for, so the last ones before it may be lost."""
    assert announced("claude", ["PreToolUse", "PostToolUse", "PostToolBatch"], ABLE) == {"PostToolUse"}
    assert announced("claude", ["PreToolUse", "PostToolUse"], ABLE) == frozenset()
    assert announced("claude", events_for("claude"), ["Stop", "SessionEnd", "PostToolBatch"]) == frozenset()
    assert [name for name in NAMES if find(name).later] == ["claude", "opencode"]


def test_the_plugin_of_opencode_waits_once_a_hook_answers(where: InstallScope, places: Directories) -> None:
    events = events_for("opencode")
    later = announced("opencode", events, tuple(find("opencode").later))
    assert later == {"tool.execute.after"}
    setup = Setup("/usr/bin/python3", "/data/agents/opencode", events, later=later)
    apply(plan_install("opencode", "user", where, setup), places.state)
    path = where.home / ".config/opencode/plugins/fleethook.js"
    assert not unanswered(
        [hooks("{id: sees, on: tool:pre_execute, rule: {command: [ls], decision: deny}}")], places.state
    )
    before = path.read_text()
    (one,) = wait_where_needed([hooks("{id: redacts, on: 'tool:post_execute', rule: {redact: true}}")], places)
    assert (one.agent, one.path) == ("opencode", path)
    assert path.read_text() == before.replace('"tool.execute.after": "later"', '"tool.execute.after": "wait"')
    assert not [call for call in find("opencode").form.calls(path, path.read_bytes()) if call.later]
