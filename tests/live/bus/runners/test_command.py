"""Native command hooks: what they are given, and what their exit code and output amount to."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooks import Hook
from bus.outcomes import Outcome
from bus.runners.command import CommandRunner, command_env, run_command
from tests.support.waiting import until

EVENT = Event(
    type="tool:pre_execute",
    id="e0123",
    source="claude",
    native="PreToolUse",
    session="s1",
    tool="shell",
    input={"command": "ls"},
    raw={"tool_name": "Bash", "unknown": [1]},
)


def hook(command: str, **fields: Any) -> Hook:
    return Hook(id="guard", on=("tool:*",), command=command, origin="fleethook.yaml:12", **fields)


async def ask(command: str, event: Event = EVENT, seconds: float = 20.0, **fields: Any) -> Outcome:
    return await CommandRunner().run(hook(command, **fields), event, seconds)


@pytest.mark.req("G-08")
async def test_the_event_comes_on_stdin_and_in_the_environment(tmp_path: Path) -> None:
    event = Event(**{**{name: getattr(EVENT, name) for name in EVENT.__struct_fields__}, "cwd": str(tmp_path)})
    await ask("cat > stdin; env > env; pwd > pwd", event, env={"MINE": "1"})
    given = json.loads((tmp_path / "stdin").read_text())
    assert given == {name: getattr(event, name) for name in event.__struct_fields__}
    env = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert {name: value for name, value in env.items() if name.startswith("FLEETHOOK_")} == {
        "FLEETHOOK_EVENT": "tool:pre_execute",
        "FLEETHOOK_EVENT_ID": "e0123",
        "FLEETHOOK_PARENT": "e0123",
        "FLEETHOOK_TOOL": "shell",
        "FLEETHOOK_SESSION": "s1",
        "FLEETHOOK_CWD": str(tmp_path),
        "FLEETHOOK_SOURCE": "claude",
        "FLEETHOOK_HOOK": "guard",
        "FLEETHOOK_NATIVE_EVENT": EVENT.native,
        "FLEETHOOK_NATIVE_TOOL": EVENT.native_tool,
        "FLEETHOOK_RUN": env["FLEETHOOK_RUN"],
    }
    assert env["MINE"] == "1"
    assert Path((tmp_path / "pwd").read_text().strip()) == tmp_path.resolve()


async def test_a_whole_answer() -> None:
    answer = {"decision": "deny", "reason": " no ", "instead": "trash", "context": ["a", "b"], "later": 1}
    got = await ask(f"echo '{json.dumps(answer)}'")
    assert got == Outcome(
        decision="deny", reason="no", instead="trash", contexts=("a", "b"), exit_code=0, output=json.dumps(answer)
    )


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ("{}", Outcome()),
        ('{"decision": "continue"}', Outcome()),
        ('{"decision": "allow"}', Outcome(decision="allow")),
        ('{"decision": "ask"}', Outcome(decision="ask", reason="hook 'guard' says ask and gives no reason")),
        ('{"updated_input": {"command": "ls -l"}}', Outcome(updated_input={"command": "ls -l"})),
        ('{"context": "one"}', Outcome(contexts=("one",))),
        ("just talking", Outcome()),
    ],
)
async def test_answers_in_short(printed: str, outcome: Outcome) -> None:
    got = await ask(f"cat <<'END'\n{printed}\nEND")
    assert (got.decision, got.reason, got.contexts, got.updated_input, got.failure) == (
        outcome.decision,
        outcome.reason,
        outcome.contexts,
        outcome.updated_input,
        "",
    )


@pytest.mark.parametrize("kind", ["session:start", "user:prompt_submit"])
async def test_plain_text_is_context_where_a_model_listens(kind: str) -> None:
    assert (await ask("echo remember the milk", Event(type=kind))).contexts == ("remember the milk",)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo no >&2; echo out; exit 2", "no"),
        ("echo out; exit 2", "out"),
        ("exit 2", "hook 'guard' denies it (exit 2) and gives no reason"),
    ],
)
async def test_exit_2_denies_and_always_says_why(command: str, reason: str) -> None:
    got = await ask(command)
    assert (got.decision, got.reason, got.exit_code, got.failure) == ("deny", reason, 2, "")


UNUSABLE = "printed an answer that cannot be used: "


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("exit 1", "failed: exit 1"),
        ("echo first >&2; echo second >&2; exit 9", "failed: exit 9 (second)"),
        ("no-such-thing 2>/dev/null", "failed, command not found: exit 127"),
        ("kill -KILL $$", "was killed by SIGKILL"),
        (
            """echo '{"decision": "maybe"}'""",
            f"{UNUSABLE}the answer does not fit: Invalid enum value 'maybe' - at `$.decision`",
        ),
        (
            """echo '{"decision":'""",
            f"{UNUSABLE}payload is not JSON: Expecting value at line 2 column 1",
        ),
        (
            """echo '{"updated_input": "ls"}'""",
            f"{UNUSABLE}the answer does not fit: Expected `object | null`, got `str` - at `$.updated_input`",
        ),
        (
            """printf '{"context": "'; head -c 70000 /dev/zero; printf '"}'""",
            f"{UNUSABLE}it is 70015 bytes long; 65536 are read",
        ),
    ],
)
async def test_everything_else_is_a_failure_in_words(command: str, text: str) -> None:
    got = await ask(command)
    assert got.failure == f"hook 'guard' (fleethook.yaml:12) {text}"
    assert got.decision == "abstain"


async def test_a_timeout_and_a_missing_directory_are_failures(tmp_path: Path) -> None:
    late = await ask('echo \'{"decision": "allow"}\'; sleep 600', seconds=0.2)
    assert late.failure == "hook 'guard' (fleethook.yaml:12) timed out after 0.2 s"
    gone = await ask("true", working_dir=str(tmp_path / "gone"))
    assert "did not run: cannot run in the directory" in gone.failure


async def test_an_event_whose_directory_is_gone_runs_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = await run_command(hook("pwd"), Event(type="notification", cwd="/no/longer/here"), 20)
    assert Path(done.stdout.decode().strip()) == tmp_path.resolve()


async def test_event_data_is_never_run(tmp_path: Path) -> None:
    evil = "$(touch hit) `touch hit`; touch hit #\"'\n"
    event = Event(type=evil, id=evil, session=evil, tool=evil, source=evil, cwd=str(tmp_path), input={"command": evil})
    got = await ask('echo "$FLEETHOOK_TOOL" "$FLEETHOOK_SESSION" >&2; cat >/dev/null; exit 2', event)
    assert got.reason == f"{evil} {evil}".strip()
    assert list(tmp_path.iterdir()) == []


async def test_an_event_of_a_megabyte_with_every_nasty_character(tmp_path: Path) -> None:
    text = "\ud800\0" + "ä" * 500_000
    event = Event(type="tool:pre_execute", session=text, cwd=str(tmp_path), input={"command": text})
    got = await ask("cat > stdin; echo $FLEETHOOK_CUT >&2; exit 2", event)
    assert got.reason == "FLEETHOOK_SESSION"
    assert json.loads((tmp_path / "stdin").read_text())["input"]["command"] == text


async def test_what_a_trace_keeps_is_short_and_redacted() -> None:
    token = "ghp_" + "a1B2" * 9
    got = await ask(f"head -c 20000 /dev/zero | tr '\\0' x; echo; echo token {token} >&2; exit 1")
    assert len(got.output) <= 4096
    assert token not in got.output + got.failure
    assert "redacted" in got.output


def test_no_secret_of_the_worker_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://:hunter2@h")
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    assert "hunter2" not in str(command_env(hook("true"), EVENT))
    assert command_env(hook("true", env_pass=("OPENAI_API_KEY",)), EVENT)["OPENAI_API_KEY"] == "hunter2"


@pytest.mark.req("F-06", "F-11", "P-10", "I-03")
async def test_a_failure_and_its_stderr_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def hook(command: str, dialect: str = "fleethook") -> Hook:
        return Hook(id="noisy", on=("*",), command=command, dialect=dialect, origin="hooks.yaml:3")

    event = Event(type="tool:post_execute", id="e0123", source="generic", tool="bash")
    await CommandRunner().run(hook("printf 'one\\n\\033[31mtwo TOKEN=hunter2-secret' >&2; exit 3"), event, 10.0)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "hook 'noisy' (hooks.yaml:3) failed: exit 3" in record.getMessage()
    assert record.getMessage().endswith("at event e0123; stderr: one | [31mtwo TOKEN=[redacted]")
    caplog.clear()
    await CommandRunner().run(hook("echo beware >&2"), event, 10.0)
    assert caplog.messages == ["hook 'noisy' (hooks.yaml:3) ended well at event e0123; stderr: beware"]
    caplog.clear()
    await CommandRunner().run(hook("echo fine"), event, 10.0)
    assert caplog.messages == []
    await CommandRunner().run(hook("echo no; exit 1", "pigo"), event, 10.0)
    assert "failed: exit 1" in caplog.text
    assert "stderr: no" in caplog.text


def test_what_is_the_bus_s_own_is_never_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a hook names it."""
    monkeypatch.setenv("FLEETHOOK_REDIS_URL", "redis://:hunter2@h")
    named = hook("true", env_pass=("FLEETHOOK_REDIS_URL",))
    assert "FLEETHOOK_REDIS_URL" not in command_env(named, EVENT)


async def test_a_hook_in_the_background_ends_with_its_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = CommandRunner()
    command = f"echo '{{\"async\": true}}'; echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 300"
    outcome = await runner.run(hook(command, dialect="claude", own={"event": "Stop"}), Event(type="agent:stop"), 10.0)
    assert "went on in the background" in outcome.note
    await until(lambda: asyncio.to_thread((tmp_path / "pid").exists), "it runs")
    await runner.end_background()
    assert "was still in the background when this worker stopped" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
