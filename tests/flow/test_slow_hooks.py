"""Hooks that declare more than the deadline: their agent waits for them, and for nothing that has died."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import HOST, Agent, Fleet, fleet
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-09", "B-08"), pytest.mark.usefixtures("each_shim")]

HOOKS = """
hooks:
  - id: slow
    on: tool:pre_execute:bash
    when: event.input.command.startsWith("slow")
    timeout: 120
    command: |
      echo run >> "$FLEETHOOK_CWD/begun.$FLEETHOOK_SESSION"
      until [ -e "$FLEETHOOK_CWD/go" ]; do sleep 0.02; done
      echo '{"decision": "deny", "reason": "slowly refused"}'
  - id: quick
    on: tool:pre_execute:bash
    when: event.input.command.startsWith("quick")
    command: |
      echo '{"decision": "deny", "reason": "quickly refused"}'
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fleet]:
    with fleet(tmp_path, hooks=HOOKS) as one:
        yield one
    (tmp_path / "go").touch()  # ends the hook of an evaluator that was killed


def ask(agent: Agent, folder: Path, command: str, session: str) -> subprocess.Popen[bytes]:
    process = agent.start("PreToolUse")
    payload = (
        f'{{"hook_event_name": "PreToolUse", "session_id": "{session}", "cwd": "{folder}", "tool_name": "Bash", '
        f'"tool_use_id": "{session}", "tool_input": {{"command": "{command}"}}}}'
    )
    assert process.stdin is not None
    process.stdin.write(payload.encode())
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.one_shim
@pytest.mark.parametrize("workers", [("evaluator",), ("evaluator", "host")], ids=["here", "on its own host"])
def test_a_hook_has_the_time_that_it_declares_and_takes_no_slot(
    world: Fleet, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    elsewhere = {"FLEETHOOK_HOST": "elsewhere"} if len(workers) > 1 else {}
    world.start("evaluator", FLEETHOOK_SLOTS="1", **elsewhere)
    if elsewhere:
        (world.places.config / "fleethook.yaml").write_text(HOOKS)
        world.start("host", FLEETHOOK_SLOTS="1")
    agent, start = world.agent(budget=2.0), time.monotonic()
    asked = []
    for name in ("one", "two"):
        asked.append(ask(agent, tmp_path, "slow", name))
        wait_until((tmp_path / f"begun.{name}").exists, f"the hook of {name} runs")
    with ask(agent, tmp_path, "quick", "three") as quick:
        out, _ = quick.communicate(timeout=PATIENCE)
        assert b"quickly refused" in out, "two slow ones leave the one slot free"
    wait_until(lambda: time.monotonic() > start + 4.0, "the deadline of both is over")
    assert [process.poll() for process in asked] == [None, None], "both are waited for"
    (tmp_path / "go").touch()
    for process in asked:
        with process:
            out, _ = process.communicate(timeout=PATIENCE)
            assert b"slowly refused" in out
    assert not any(seen.fallback_reason for seen in world.events())
    assert {seen.event.host for seen in world.events()} == {HOST}


@pytest.mark.one_shim
def test_an_evaluator_that_dies_costs_a_moment_and_not_what_its_hook_declares(world: Fleet, tmp_path: Path) -> None:
    (evaluator,) = world.start("evaluator")
    agent = world.agent(budget=1.0)
    with ask(agent, tmp_path, "slow", "one") as asked:
        wait_until((tmp_path / "begun.one").exists, "the hook runs")
        evaluator.process.send_signal(signal.SIGKILL)
        evaluator.process.wait()
        world.workers.remove(evaluator)
        out, _ = asked.communicate(timeout=PATIENCE)  # of 120 s
    assert b"nothing blocked" in out


@pytest.mark.one_shim
def test_an_evaluator_that_dies_after_the_deadline_is_followed_by_one_that_runs_the_hook_again(
    world: Fleet, tmp_path: Path
) -> None:
    (evaluator,) = world.start("evaluator")
    agent, start, begun = world.agent(budget=1.0), time.monotonic(), tmp_path / "begun.one"
    with ask(agent, tmp_path, "slow", "one") as asked:
        wait_until(begun.exists, "the hook runs")
        world.start("evaluator")
        wait_until(lambda: time.monotonic() > start + 2.0, "the deadline is over")
        evaluator.process.send_signal(signal.SIGKILL)
        evaluator.process.wait()
        world.workers.remove(evaluator)
        wait_until(lambda: begun.read_text() == "run\n" * 2, "the hook runs again")
        (tmp_path / "go").touch()
        out, _ = asked.communicate(timeout=PATIENCE)
    assert b"slowly refused" in out
    (seen,) = world.events()
    assert seen.verdict is not None
    assert seen.verdict.repeated, "the verdict says so"


@pytest.mark.one_shim
def test_the_same_call_asked_twice_meanwhile_runs_its_hook_once(world: Fleet, tmp_path: Path) -> None:
    world.start("evaluator", "evaluator")
    agent, start, begun = world.agent(budget=1.0), time.monotonic(), tmp_path / "begun.one"
    first = ask(agent, tmp_path, "slow", "one")
    wait_until(begun.exists, "the hook runs")
    second = ask(agent, tmp_path, "slow", "one")
    wait_until(lambda: time.monotonic() > start + 3.0, "the deadline of both is over")
    assert [first.poll(), second.poll()] == [None, None], "both are waited for"
    (tmp_path / "go").touch()
    outs = []
    for process in (first, second):
        with process:
            outs.append(process.communicate(timeout=PATIENCE)[0])
    assert all(b"slowly refused" in out for out in outs)
    with ask(agent, tmp_path, "slow", "one") as third:
        assert b"slowly refused" in third.communicate(timeout=PATIENCE)[0], "for 60 s it is known"
    assert begun.read_text() == "run\n"
