"""A fleet without a guard says so: in status, doctor, install and the first request; one command publishes the packs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.hooksets.guard_presence import FLEET_WITHOUT, NO_GUARD, has_guard, no_guard_for
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.cli_kit import fleethook, namespace, workers
from tests.support.running import bash, evaluating, publish_hooks, put, verdict
from tests.support.servers import Server

pytestmark = pytest.mark.req("X-10")

EVENT = json.dumps({"type": "tool:pre_execute", "tool": "bash", "input": {"command": "ls"}, "session": "s"})


@pytest.fixture
def home(server: Server, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose fleet has published nothing, and whose user has no hook file."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", server.url)
    monkeypatch.setenv("FLEETHOOK_NAMESPACE", namespace(keys))
    monkeypatch.setenv("FLEETHOOK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FLEETHOOK_TEST_CONFIRMS", "1")
    (tmp_path / "home" / "config").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def fleet_guards() -> tuple[str, str]:
    """What doctor finds, and its fix."""
    checks = {check["id"]: check for check in fleethook("doctor", "--json").json["checks"]}
    return checks["fleet-guards"]["status"], checks["fleet-guards"]["fix"]


def test_everybody_says_that_nothing_is_guarded_until_the_packs_are_published(
    home: Path, server: Server, keys: Keys
) -> None:
    with workers(server.url, keys, home, "evaluator"):
        assert NO_GUARD in fleethook("status").out
        assert fleethook("status", "--json").json["unguarded"] == NO_GUARD
        assert fleet_guards() == ("warn", "fleethook guards publish")
        installed = fleethook("install", "claude", "--yes")
        assert NO_GUARD in installed.err, installed
        first = fleethook("request", stdin=EVENT)
        assert f"warning: {NO_GUARD}" in first.err
        assert first.json["notes"] == [NO_GUARD]
        again = fleethook("request", stdin=EVENT)
        assert "no guard" not in again.err, "once a session"
        assert "notes" not in again.json
        published = fleethook("guards", "publish", "--yes")
        assert published.code == 0, published.err
        assert "no guard" not in fleethook("status").out
        assert fleet_guards() == ("ok", "")
        assert "no guard" not in fleethook("install", "codex", "--yes").err


def test_a_users_own_guard_does_not_guard_other_hosts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config" / "fleethook.yaml").write_text("guards: {destructive-commands: true}\n")
    assert FLEET_WITHOUT in fleethook("status").out
    (home / "config" / "fleethook.yaml").write_text("guards: {fleethook-itself: true}\n")
    assert NO_GUARD in fleethook("status").out, "a pack that guards Fleethook alone guards no one's files"


async def test_a_session_is_told_once_and_only_where_nothing_guards_it(
    server: Server, keys: Keys, connections: Connections
) -> None:
    async def notes(session: str) -> list[str]:
        _, reply = await put(connections, keys, bash(session=session))
        return [note for note in (await verdict(connections, reply)).notes if note == NO_GUARD]

    async with evaluating(server.url, keys):
        assert [await notes("one"), await notes("one"), await notes("two")] == [[NO_GUARD], [], [NO_GUARD]]
    await publish_hooks(
        connections, keys, "hooks: [{id: no-rm, on: 'tool:*', when: 'event.tool == \"write\"', rule: {reason: no}}]"
    )
    async with evaluating(server.url, keys):
        assert await notes("three") == [], "a guard that has nothing to say to this call is one"


@pytest.mark.parametrize(
    ("hook", "guards"),
    [
        ("{id: a, on: 'tool:pre_execute:bash', rule: {reason: no}}", True),
        ("{id: a, on: '*', command: check}", True),
        ("{id: a, on: 'tool:pre_execute', rule: {decision: ask, reason: why}}", True),
        ("{id: a, on: 'tool:pre_execute', rule: {decision: allow}}", False),
        ("{id: a, on: 'tool:pre_execute', observe: true, rule: {reason: no}}", False),
        ("{id: a, on: 'tool:pre_execute', enabled: false, rule: {reason: no}}", False),
        ("{id: a, on: 'turn:end', command: check}", False),
        ("{id: a, on: 'tool:pre_execute', command: log, blocking: false}", False),
        ("{id: a, on: 'tool:pre_execute', when: 'false', rule: {reason: no}}", False),
        ("{id: a, on: 'tool:pre_execute', when: '1 > 2', command: check}", False),
        ("{id: a, on: '*', when: 'event.type == \"turn:end\"', command: check}", False),
        ("{id: a, on: '*', when: 'event.source == \"nobody\" && event.tool == \"bash\"', command: check}", False),
        ("{id: a, on: '*', when: 'event.tool == \"bash\" && has(event.cwd)', command: check}", True),
        ("{id: a, on: '*', when: 'has(event.input.command) && event.input.command != \"\"', command: check}", True),
        ("{id: a, on: '*', when: '!event.session.startsWith(\"x\")', command: check}", True),
    ],
)
def test_what_counts_as_a_guard(hook: str, guards: bool) -> None:
    file = parse_hook_file(f"hooks: [{hook}]", "fleet")
    assert not file.problems
    assert has_guard(HookSet([Layered("fleet", "1", file)]).hooks.values()) is guards


@pytest.mark.parametrize(
    ("hook", "agents"),
    [
        ("{id: a, on: '*', command: check}", ["claude", "codex", "cursor"]),
        ("{id: a, on: '*', when: 'event.source == \"codex\"', command: check}", ["codex"]),
        ("{id: a, on: '*', when: 'event.source != \"codex\"', command: check}", ["claude", "cursor"]),
        ("{id: a, on: 'claude:PreToolUse', command: check}", ["claude"]),
        ("{id: a, on: 'claude:Stop', command: check}", []),
    ],
)
def test_a_guard_of_one_agent_guards_no_other(hook: str, agents: list[str]) -> None:
    hooks = HookSet([Layered("fleet", "1", parse_hook_file(f"hooks: [{hook}]", "fleet"))]).hooks.values()
    assert [agent for agent in ("claude", "codex", "cursor") if has_guard(hooks, agent)] == agents


def test_an_agent_that_no_guard_judges_is_named(home: Path) -> None:
    """The connected agents count: a guard of Claude Code's is none for Codex."""
    (home / "config" / "fleethook.yaml").write_text(
        "hooks: [{id: a, on: 'tool:pre_execute', when: 'event.source == \"claude\"', rule: {reason: no}}]\n"
    )
    assert FLEET_WITHOUT in fleethook("install", "claude", "--yes").err
    assert no_guard_for(["codex"]) in fleethook("install", "codex", "--yes").err
    assert no_guard_for(["codex"]) in fleethook("status").out


async def test_a_session_of_an_agent_without_a_guard_is_told(
    server: Server, keys: Keys, connections: Connections
) -> None:
    text = "hooks: [{id: a, on: 'tool:*', when: 'event.source == \"claude\"', rule: {reason: no}}]"
    await publish_hooks(connections, keys, text)
    async with evaluating(server.url, keys):
        found = {}
        for agent in ("claude", "codex"):
            _, reply = await put(connections, keys, bash(session=agent, source=agent))
            found[agent] = list((await verdict(connections, reply)).notes)
    assert found == {"claude": [], "codex": [no_guard_for(["codex"])]}
