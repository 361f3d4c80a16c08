"""The command that agents are given: what it runs, and what it amounts to when Fleethook is gone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bus import launcher
from bus.agents import find
from bus.errors import ConfigError
from bus.installs import find as find_program
from bus.installs.base import NAMES, never_events, quiet_events
from bus.installs.hook_command import (
    Setup,
    answer_events,
    chosen_events,
    deadline_ms,
    granted_timeout,
    hook_command,
    is_closed,
    is_ours,
    native_path,
    patience_ms,
    timeout_of,
)
from bus.installs.plan import events_for
from bus.shim.answer import HookAnswer
from tests.support.rows import rows

SILENCE = {"cursor": "{}", "cline": '{"cancel":false}'}
"""What agents want to hear of a hook that has no opinion; the others nothing."""


def _run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, timeout=20, stdin=subprocess.DEVNULL
    )


def _setup(tmp_path: Path, *, python: str = sys.executable, fail_closed: bool = False) -> Setup:
    return Setup(python, str(tmp_path / "answers"), (), fail_closed)


@pytest.mark.req("B-08")
def test_the_answer_file_knows_deadlines_and_fallbacks() -> None:
    dialect = find("claude")
    lines = {line.name: line for line in answer_events(dialect, dialect.capabilities, fail_closed=True)}
    tool = lines["PreToolUse"]
    assert (tool.mode, tool.deadline_ms, tool.policy) == ("request", 10_000, "deny")
    assert b'"permissionDecision":"deny"' in tool.fallback.stdout
    assert (lines["Stop"].policy, lines["Stop"].fallback.exit_code) == ("allow", 0)
    assert b"decision" not in lines["Stop"].fallback.stdout
    assert b"systemMessage" in lines["Stop"].fallback.stdout
    assert (lines["SessionEnd"].mode, lines["SessionEnd"].deadline_ms) == ("publish", 1_000)
    assert lines["SessionEnd"].fallback.stdout == b""
    assert lines["MessageDisplay"].deadline_ms == 9_000
    assert {line.policy for line in answer_events(dialect, dialect.capabilities)} == {"allow"}


@pytest.mark.parametrize("agent", NAMES)
def test_agents_that_want_an_object_get_one_for_what_is_only_told(agent: str) -> None:
    dialect = find(agent)
    lines = answer_events(dialect, dialect.capabilities, fail_closed=True)
    said = {line.fallback for line in lines if line.mode == "publish"}
    assert said == {HookAnswer(0, SILENCE.get(agent, "").encode())}


@pytest.mark.req("B-08")
@rows("agent", NAMES)
@rows("budget", [0.4, 10.0, 60.0])
def test_every_agent_waits_longer_than_its_hook_commands(agent: str, budget: float) -> None:
    """The deadline is the agent's timeout minus max(0.5 s, 10 %), and within the budget."""
    dialect = find(agent)
    other, *lines = answer_events(dialect, dialect.capabilities, budget=budget)
    assert (other.name, other.mode, other.fallback.exit_code) == ("*", "publish", 0)
    for line in lines:
        given = timeout_of(dialect.capabilities[line.name], budget)
        assert line.deadline_ms == deadline_ms(given, budget)
        assert 0 < line.deadline_ms <= budget * 1000
        assert line.deadline_ms / 1000 <= given - max(0.5, given / 10)
        assert given <= dialect.capabilities[line.name].timeout
        granted = granted_timeout(agent, dialect.capabilities[line.name], budget)
        assert given <= granted
        if line.patience_ms:  # a slower hook is waited for, and the agent still hears of it
            assert line.mode == "request"
            assert line.deadline_ms < line.patience_ms <= (granted - max(0.5, granted / 10)) * 1000
        else:
            assert deadline_ms(granted, granted) == line.deadline_ms or line.mode == "publish"


def test_what_the_agents_grant_to_a_slow_hook() -> None:
    """As much as each allows; Codex keeps what earlier versions wrote, since it trusts hooks by their content."""
    gates = {
        "claude": "PreToolUse",
        "codex": "PreToolUse",
        "gemini": "BeforeTool",
        "cursor": "preToolUse",
        "qwen": "PreToolUse",
        "copilot": "preToolUse",
    }
    granted = {agent: granted_timeout(agent, find(agent).capabilities[gate]) for agent, gate in gates.items()}
    assert granted.pop("codex") == 30
    assert set(granted.values()) == {600}


@pytest.mark.req("B-08")
@pytest.mark.parametrize("gone", ["python", "launcher"])
@pytest.mark.parametrize("agent", [name for name in NAMES if name != "opencode"])  # its plugin runs no shell
def test_the_command_of_a_removed_fleethook(
    tmp_path: Path, gone: str, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says "no opinion" as this agent wants to hear it; where it fails closed, gates stay shut and say how to open."""
    python = str(tmp_path / "no py") if gone == "python" else sys.executable
    if gone == "launcher":
        monkeypatch.setattr(launcher, "__file__", str(tmp_path / "it's gone.py"))
    dialect, program = find(agent), find_program(agent)
    gate = program.canary(tmp_path, "t", "ls").event
    silence = SILENCE.get(agent, "")
    deaf = agent == "cline"
    opened = _run(hook_command(_setup(tmp_path, python=python), agent, gate, deaf=deaf))
    assert (opened.returncode, opened.stdout, opened.stderr) == (0, silence, "")
    closed = _run(hook_command(_setup(tmp_path, python=python, fail_closed=True), agent, gate, deaf=deaf))
    assert "install fleethook again" in closed.stdout + closed.stderr
    if deaf:
        assert closed.returncode == 0
        assert json.loads(closed.stdout)["cancel"] is True
    else:
        assert (closed.returncode, closed.stdout) == (2, "")
    told = next(event for event, can in dialect.capabilities.items() if not can.waits)
    said = _run(hook_command(_setup(tmp_path, python=python), agent, told, deaf=deaf))
    assert (said.returncode, said.stdout, said.stderr) == (0, silence, "")
    for event, can in dialect.capabilities.items():
        if can.type in ("agent:stop", "subagent:stop"):
            ended = _run(hook_command(_setup(tmp_path, python=python, fail_closed=True), agent, event, deaf=deaf))
            assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.req("B-08")
def test_a_permission_question_stays_shut_in_words(tmp_path: Path) -> None:
    """Claude Code does not honour exit code 2 there, so the launcher's own last resort is turned into its form."""
    for python in (str(tmp_path / "none"), sys.executable):  # the second finds no answer file
        setup = _setup(tmp_path, python=python, fail_closed=True)
        asked = _run(hook_command(setup, "claude", "PermissionRequest", deaf=True))
        assert asked.returncode == 0
        assert json.loads(asked.stdout)["hookSpecificOutput"]["decision"]["behavior"] == "deny"


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("agent", "fail_closed", "last"),
    [
        ("claude", False, []),
        ("claude", True, ["closed"]),
        ("cursor", False, ["open", "{}"]),
        ("cursor", True, ["closed"]),
    ],
)
def test_the_command_runs_the_launcher_with_these_words(
    tmp_path: Path, agent: str, fail_closed: bool, last: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "a launcher's; echo.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    monkeypatch.setattr(launcher, "__file__", str(script))
    event = find_program(agent).canary(tmp_path, "t", "ls").event
    setup = Setup(sys.executable, str(tmp_path / "$(touch pwned) 'fleethook'"), (event,), fail_closed)
    ran = _run(hook_command(setup, agent, event))
    assert ran.returncode == 7
    assert ran.stdout.strip() == str([agent, event, setup.answer_file, *last])


@pytest.mark.req("X-14")
@pytest.mark.parametrize("agent", ["claude", "cursor", "cline"])
@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_native_hook_command_gets_the_command_in_python_as_its_words(
    tmp_path: Path, agent: str, fail_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the same command runs in Python, and without Fleethook it runs neither."""
    script, program = tmp_path / "a launcher's; echo.py", tmp_path / "it's $HOME/fleethook-hook"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    monkeypatch.setattr(launcher, "__file__", str(script))
    event = find_program(agent).canary(tmp_path, "t", "ls").event
    setup = _setup(tmp_path, fail_closed=fail_closed)._replace(native=str(program))
    command, without = (
        hook_command(one, agent, event, deaf=agent == "cline") for one in (setup, setup._replace(native=""))
    )
    assert (native_path(command), native_path(without)) == (str(program), "")
    assert (is_ours(command), is_closed(command)) == (True, is_closed(without))
    assert _run(command).stdout == _run(without).stdout, "in Python"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho native; exec "$@"\n')
    program.chmod(0o755)
    assert _run(command).stdout == f"native\n{_run(without).stdout}"
    assert _run(command).returncode == _run(without).returncode
    script.unlink()
    assert _run(command).stdout == _run(without).stdout
    assert _run(command).returncode == _run(without).returncode


@pytest.mark.req("B-08")
@pytest.mark.parametrize(
    ("agent", "fail_closed", "code", "said"),
    [("claude", False, 0, ""), ("claude", True, 2, ""), ("cursor", False, 0, "{}"), ("cursor", True, 2, "")],
)
def test_the_real_launcher_answers_by_policy_where_the_answer_file_is_missing(
    tmp_path: Path, agent: str, fail_closed: bool, code: int, said: str
) -> None:
    event = find_program(agent).canary(tmp_path, "t", "ls").event
    ran = _run(hook_command(_setup(tmp_path, fail_closed=fail_closed), agent, event))
    assert (ran.returncode, ran.stdout, bool(ran.stderr)) == (code, said, fail_closed)
    assert os.path.isabs(launcher.__file__)


@pytest.mark.req("B-08")
def test_ours_are_known_again(tmp_path: Path) -> None:
    opened = hook_command(_setup(tmp_path), "claude", "PreToolUse")
    closed = hook_command(_setup(tmp_path, fail_closed=True), "claude", "PreToolUse")
    asked = hook_command(_setup(tmp_path, fail_closed=True), "claude", "PermissionRequest", deaf=True)
    assert [is_closed(command) for command in (opened, closed, asked)] == [False, True, True]
    assert all(is_ours(command) for command in (opened, closed, asked))
    assert not is_ours("fleethook-like --mine")
    assert not is_ours(None)
    assert not is_closed("sh -c 'unfinished # fleethook")
    assert shlex.split(opened, comments=True)[-2].endswith("answers;")


@pytest.mark.req("B-08")
def test_events_by_their_own_names_or_by_what_they_are() -> None:
    assert events_for("claude", ["Stop", "tool:pre_execute", "Stop"]) == ("Stop", "PreToolUse")
    assert events_for("copilot", ["tool:pre_execute"]) == ("preToolUse",)  # not in both spellings
    assert events_for("copilot", ["PreToolUse"]) == ("PreToolUse",)
    assert events_for("gemini", ["llm:post_response"]) == ("AfterModel",)  # off by default, but asked for
    with pytest.raises(ConfigError, match="claude has no event 'Nope'"):
        events_for("claude", ["Nope"])
    assert chosen_events(find("claude"), ["WorktreeCreate"], never_events("claude")) == ()
    for agent in NAMES:
        known, left = set(find(agent).capabilities), quiet_events(agent)
        assert left <= known
        assert set(events_for(agent)) <= known - left
        assert find_program(agent).canary(Path("/"), "t", "ls").event in events_for(agent)


@pytest.mark.req("X-09", "B-08")
@pytest.mark.parametrize(
    ("agent", "event", "seconds"),
    [
        ("claude", "PreToolUse", 540),
        ("codex", "PreToolUse", 27),
        ("gemini", "BeforeTool", 540),
        ("qwen", "PreToolUse", 540),
        ("opencode", "tool.execute.before", 540),
    ],
)
def test_how_long_an_agent_waits_for_a_slow_hook(agent: str, event: str, seconds: int) -> None:
    dialect = find(agent)
    assert patience_ms(dialect, dialect.capabilities[event]) == seconds * 1000
