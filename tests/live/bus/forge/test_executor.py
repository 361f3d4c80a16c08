"""Forge's executor as a program of Forge's users calls it: hooks really run, in process and over the bus."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from bus import Bus
from bus.events import Event
from bus.forge import Hook, HookBlockedError, HookConfig, HookEvent, HookExecutor, HookRegistry, HookResult, fire_event
from bus.wire.codec import decode_body
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.running import evaluating, namespace, publish_hooks, stream
from tests.support.servers import Server
from tests.support.waiting import CONNECT

BASH = HookEvent.tool_pre_execute("bash", {"command": "ls -la"}, session_id="s1")


def registry(*hooks: Hook) -> HookRegistry:
    """A registry with these hooks."""
    made = HookRegistry()
    made.load_hooks(hooks)
    return made


# --- The executor


@pytest.mark.req("F-06", "F-10")
async def test_hooks_run_in_order_and_the_first_block_ends_the_chain(caplog: pytest.LogCaptureFixture) -> None:
    made = registry(
        Hook("tool:pre_execute", "echo one"),
        Hook("session:start", "echo never"),
        Hook("tool:pre_execute:bash", "echo sudo blocked >&2; exit 3"),
        Hook("tool:*", "echo three"),
    )
    results = await HookExecutor(made).execute_hooks(BASH)
    assert [(one.exit_code, one.stdout, one.success, one.should_continue) for one in results] == [
        (0, "one\n", True, True),
        (3, "", False, False),
    ]
    blocked = results[1]
    assert (blocked.stderr, blocked.hook is made.hooks[2], blocked.timed_out, blocked.error) == (
        "sudo blocked\n",
        True,
        False,
        None,
    )
    assert blocked.duration > 0
    assert "sudo blocked" in caplog.text
    assert str(HookBlockedError(blocked)) == (
        "Operation blocked by hook 'tool:pre_execute:bash': exit code 3 (sudo blocked)"
    )
    every = await HookExecutor(made).execute_hooks(BASH, stop_on_failure=False)
    assert [one.exit_code for one in every] == [0, 3, 0]
    assert len(await HookExecutor(made).execute_hooks(BASH, max_results=1)) == 1
    assert await HookExecutor(made).execute_hooks(HookEvent.user_interrupt()) == []


@pytest.mark.req("F-06", "F-11")
async def test_failures_are_no_blocks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def run(command: str, **more: Any) -> HookResult:
        (result,) = await HookExecutor(registry(Hook("*", command, **more))).execute_hooks(BASH)
        assert not result.success
        return result

    missing = await run("/nowhere/at/all")
    assert (missing.exit_code, missing.should_continue) == (127, True)
    slow = await run("sleep 30", timeout=0.2)
    assert (slow.timed_out, slow.should_continue, slow.error) == (True, True, "Hook timed out after 0.2s")
    assert slow.duration < 5
    killed = await run("kill -9 $$")
    assert (killed.exit_code, killed.should_continue) == (-9, True)
    nowhere = await run("true", working_dir="/nowhere/at/all")
    assert (nowhere.exit_code < 0, nowhere.should_continue, "Failed to execute" in str(nowhere.error)) == (True,) * 3
    # "Not found" ends nothing; another failure ends the chain, unless told otherwise.
    after = Hook("*", "echo after")
    assert len(await HookExecutor(registry(Hook("*", "exit 127"), after)).execute_hooks(BASH)) == 2
    chain = HookExecutor(registry(Hook("*", "sleep 30", timeout=0.2), after))
    assert len(await chain.execute_hooks(BASH)) == 1
    assert len(await chain.execute_hooks(BASH, stop_on_failure=False)) == 2
    assert caplog.text.count("timed out") == 3


@pytest.mark.req("F-06", "F-07", "F-08", "F-09", "F-17")
async def test_what_a_hook_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY_OF_THE_PROGRAM", "secret")
    monkeypatch.setenv("WANTED", "yes")
    (tmp_path / "sub").mkdir()
    made = registry(Hook("*", "env; cat; pwd", env={"MINE": "1"}, working_dir="sub"))
    danger = HookEvent.tool_pre_execute(
        "bash", {"command": "'; touch pwned; echo $(touch pwned) \"`touch pwned`"}, "s1"
    )
    (result,) = await HookExecutor(made, working_dir=tmp_path, env_pass=["WANTED"]).execute_hooks(danger)
    lines = result.stdout.splitlines()
    assert {
        "FORGE_EVENT=tool:pre_execute",
        "FORGE_SESSION_ID=s1",
        "FORGE_TOOL_NAME=bash",
        "MINE=1",
        "WANTED=yes",
        "TOOL_NAME=bash",
        "EVENT_TYPE=tool:pre_execute",
        f"FORGE_WORKING_DIR={tmp_path}/sub",
    } <= set(lines)
    assert "secret" not in result.stdout
    assert lines[-1] == f"{tmp_path}/sub"
    assert json.loads(lines[-2]) == json.loads(danger.to_json())
    (shown,) = await HookExecutor(
        registry(Hook("*", 'echo "$FORGE_TOOL_ARGS $TOOL_ARGS"')), working_dir=tmp_path
    ).execute_hooks(danger)
    assert shown.stdout.count("touch pwned") == 6
    assert not list(tmp_path.rglob("pwned")), "an argument is never a part of the command"


@pytest.mark.req("F-05", "F-06")
async def test_the_shared_registry_is_the_default() -> None:
    HookRegistry.reset_instance()
    try:
        HookRegistry.get_instance().register(Hook("tool:*", "echo shared"))
        (result,) = await fire_event(BASH)
        assert result.stdout == "shared\n"
        assert await fire_event(BASH, executor=HookExecutor(HookRegistry())) == []
    finally:
        HookRegistry.reset_instance()


# --- Over the bus

FLEET = r"""
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', when: 'event.input.command.startsWith("rm")', rule: {reason: no rm, instead: ls}}
  - {id: friday, on: 'tool:pre_execute:deploy', rule: {decision: ask, reason: it is friday}}
  - {id: safer, on: 'tool:pre_execute:write', command: 'echo "{\"updated_input\":{\"path\":\"/tmp/x\"}}"'}
  - {id: breaks, on: 'user:prompt_submit', command: 'exit 1'}
"""


@pytest.mark.req("F-06", "F-10", "B-02", "B-08")
async def test_with_one_argument_the_hooks_of_the_fleet_run_too(
    server: Server, keys: Keys, connections: Connections, tmp_path: Path
) -> None:
    await publish_hooks(connections, keys, FLEET)
    async with evaluating(server.url, keys), Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        made = registry(Hook("*", "echo own $FLEETHOOK_PARENT"))
        executor = HookExecutor(made, working_dir=tmp_path, bus=bus)

        (blocked,) = await executor.execute_hooks(HookEvent.tool_pre_execute("bash", {"command": "rm x"}, "s1"))
        assert (blocked.exit_code, blocked.success, blocked.should_continue) == (2, False, False)
        assert blocked.stderr.startswith("no rm. Instead: ls. [fleethook: no-rm; fleethook trace e")
        assert blocked.verdict is not None
        assert blocked.verdict.parts[0].hook == "no-rm"
        with pytest.raises(HookBlockedError, match="no rm"):
            raise HookBlockedError(blocked)

        (own,) = await executor.execute_hooks(BASH)
        assert own.stdout.startswith("own e"), "nobody has anything against it; its own hooks know their event"
        (asked,) = await executor.execute_hooks(HookEvent.tool_pre_execute("deploy", {}))
        assert "Forge cannot ask for that" in asked.stderr
        changed, _ = await executor.execute_hooks(HookEvent.tool_pre_execute("write", {"file_path": "/etc/x"}))
        assert (changed.success, json.loads(changed.stdout)) == (True, {"tool_args": {"file_path": "/tmp/x"}})
        failed, own = await executor.execute_hooks(HookEvent.user_prompt_submit("hi"))
        assert (failed.should_continue, own.success) == (True, True)
        (own,) = await executor.execute_hooks(
            HookEvent.tool_post_execute("bash", {"command": "ls"}, {"ok": True}, "s1")
        )
        assert own.stdout.startswith("own e")
    events = [decode_body(entry.fields[b"body"]) for entry in await stream(connections, keys)]
    last = events[-1]
    assert isinstance(last, Event)
    assert (last.type, last.source, last.tool, last.output, last.session, last.cwd) == (
        "tool:post_execute",
        "forge",
        "bash",
        {"ok": True},
        "s1",
        str(tmp_path),
    )


@pytest.mark.req("G-20", "X-06")
@pytest.mark.parametrize("policy", ["allow", "deny"])
async def test_without_a_bus_the_policy_answers_and_own_hooks_run(
    policy: Any, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async with Bus("unix:///nowhere/at/all", namespace=namespace(keys), on_failure=policy) as bus:
        executor = HookExecutor(registry(Hook("*", "echo own")), bus=bus)
        first, *rest = await executor.execute_hooks(BASH)
        assert first.should_continue == (policy == "allow")
        assert [one.stdout for one in rest] == (["own\n"] if policy == "allow" else [])
        assert "cannot be reached" in (first.error or first.stderr)
        (own,) = await executor.execute_hooks(HookEvent.session_end("s1"))
        assert own.success
        assert "could not be recorded" in caplog.text


@pytest.mark.req("F-06")
async def test_the_executors_default_timeout_is_for_hooks_without_their_own(tmp_path: Path) -> None:
    path = tmp_path / ".forge/hooks.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": [{"event": "*", "command": "sleep 600"}]}))
    made = HookRegistry()
    made.load_hooks([*HookConfig.load_project(tmp_path), Hook("*", "sleep 600"), Hook("*", "true", timeout=10.0)])
    results = await HookExecutor(made, default_timeout=0.05).execute_hooks(
        HookEvent.tool_pre_execute("bash", {}), stop_on_failure=False
    )
    assert [one.timed_out for one in results] == [True, True, False]
    assert results[0].error == "Hook timed out after 0.05s"
    assert (Hook("*", "x").timeout, Hook("*", "x")) == (10.0, Hook("*", "x", 10.0))
