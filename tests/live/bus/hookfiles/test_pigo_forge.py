"""Hooks of pigo and Forge, really run, for events of several agents: ours from `examples/`, and what must not happen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.chain import Evaluation, evaluate
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Hook, Layer
from bus.hooksets.in_force import HookSet, Layered
from bus.runners.command import CommandRunner, run_command
from bus.system.processes import Finished
from bus.tools import canonical_input, canonical_tool
from bus.verdicts import Policy, Verdict

EXAMPLES = Path(__file__).parents[4] / "examples"
AGENTS = ("claude", "codex", "gemini")
PATIENCE = 30.0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def payload(agent: str, moment: str, cwd: Path, **fields: Any) -> tuple[str, dict[str, Any]]:
    """The native name and the payload of an event, as the agents send them (captured from each of the three)."""
    names = {
        "pre": "BeforeTool" if agent == "gemini" else "PreToolUse",
        "post": "AfterTool" if agent == "gemini" else "PostToolUse",
        "prompt": "BeforeAgent" if agent == "gemini" else "UserPromptSubmit",
        "stop": "AfterAgent" if agent == "gemini" else "Stop",
    }
    own = {
        "claude": {"transcript_path": "/t", "permission_mode": "default"},
        "codex": {"turn_id": "t-1", "model": "codex-model", "permission_mode": "default"},
        "gemini": {"timestamp": "2026-11-21T20:37:34.194Z"},
    }[agent]
    name = names[moment]
    return name, {"session_id": "s-1", "cwd": str(cwd), "hook_event_name": name, **own, **fields}


TYPES = {"pre": "tool:pre_execute", "post": "tool:post_execute", "prompt": "user:prompt_submit", "stop": "agent:stop"}


def event(agent: str, moment: str, cwd: Path, **fields: Any) -> Event:
    """The event in a payload, read by the agent's dialect; by hand where it has none yet."""
    name, given = payload(agent, moment, cwd, **fields)
    dialect = find(agent)
    if dialect.name == agent:
        return dialect.read(name, json.dumps(given).encode())
    tool, asked = given.get("tool_name", ""), given.get("tool_input", {})
    return Event(
        type=TYPES[moment],
        source=agent,
        native=name,
        session="s-1",
        cwd=str(cwd),
        native_tool=tool,
        raw=given,
        tool=canonical_tool(agent, tool) if tool else "",
        input=canonical_input(agent, tool, asked),
        output=given.get("tool_response"),
        data=given,
    )


def shell(agent: str, cwd: Path, command: str, moment: str = "pre", **fields: Any) -> Event:
    tool = {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command"}[agent]
    return event(agent, moment, cwd, tool_name=tool, tool_input={"command": command, "description": "x"}, **fields)


def write(agent: str, cwd: Path, name: str, content: str, moment: str = "pre", **fields: Any) -> Event:
    tool, given = {
        "claude": ("Write", {"file_path": name, "content": content}),
        "codex": ("apply_patch", {"command": f"*** Begin Patch\n*** Add File: {name}\n+{content}\n*** End Patch"}),
        "gemini": ("write_file", {"file_path": name, "content": content}),
    }[agent]
    return event(agent, moment, cwd, tool_name=tool, tool_input=given, **fields)


def loaded(dialect: str, path: Path, layer: Layer = "user") -> HookSet:
    file = find_hooks(dialect).read(path, layer)
    assert file.problems == ()
    return HookSet([Layered(layer, "1", file)])


async def judge(
    hooks: HookSet | Sequence[Hook], what: Event, policy: Policy = "allow", seconds: float = PATIENCE
) -> Verdict:
    found = hooks.blocking(what) if isinstance(hooks, HookSet) else hooks
    return await evaluate(Evaluation(event=what, hooks=found, run=CommandRunner().run, seconds=seconds, policy=policy))


def written(dialect: str, folder: Path, content: object) -> HookSet:
    path = folder / f"{dialect}.json"
    path.write_text(json.dumps(content))
    return loaded(dialect, path)


def pigo(folder: Path, command: str, moment: str = "tool_start", **entry: Any) -> HookSet:
    return written("pigo", folder, {"plugins": [{"name": "x", "hooks": {moment: [{"command": command, **entry}]}}]})


def forge(folder: Path, command: str, on: str = "tool:pre_execute", **entry: Any) -> HookSet:
    return written("forge", folder, {"hooks": [{"event": on, "command": command, **entry}]})


@pytest.mark.req("P-03", "P-06", "P-10", "X-01")
@pytest.mark.parametrize("agent", AGENTS)
async def test_pigo_s_safety_gate_stops_every_agent(agent: str, project: Path) -> None:
    shutil.copytree(EXAMPLES / "pigo", project.parent / ".pigo")
    hooks = loaded("pigo", project.parent / ".pigo/config.json")
    denied = await judge(hooks, shell(agent, project, "cd x && git push origin main --force"))
    reason = (
        "blocked by hook: hook [safety-gate] blocked tool: history on the server is not rewritten; push without --force: "
        "exit status 1"
    )
    assert (denied.decision, denied.reason) == ("deny", reason)
    assert [part.exit_code for part in denied.parts] == [1]
    fine = await judge(hooks, shell(agent, project, "git push origin main"))
    assert (fine.decision, fine.notes, len(fine.parts)) == ("abstain", (), 1)
    key = await judge(hooks, write(agent, project, "a.env", "KEY=AKIA" + "ABCDEFGH01234567"))
    assert key.reason.endswith(
        "hook [safety-gate] blocked tool: a key belongs into the environment or a secret store, not into a file: exit status 1"
    )
    assert (await judge(hooks, write(agent, project, "a.env", "KEY=$KEY"))).decision == "abstain"
    if agent == "claude":
        answer = json.loads(find(agent).render("PreToolUse", denied, shell(agent, project, "x")).stdout)
        assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        assert reason in answer["hookSpecificOutput"]["permissionDecisionReason"]


@pytest.mark.req("P-04", "P-05", "P-07", "P-11", "X-01")
@pytest.mark.parametrize("agent", AGENTS)
async def test_pigo_s_logger_hears_of_every_agent_in_the_background(agent: str, project: Path) -> None:
    shutil.copytree(EXAMPLES / "pigo", project.parent / ".pigo")
    hooks = loaded("pigo", project.parent / ".pigo/config.json")
    said = {"prompt_response": "it is done"} if agent == "gemini" else {"last_assistant_message": "it is done"}
    result = {"claude": {"stdout": "four", "stderr": ""}, "codex": "four", "gemini": {"llmContent": "four"}}[agent]
    events = [
        event(agent, "prompt", project, prompt="do it"),
        shell(agent, project, "echo four", "post", tool_response=result),
        event(agent, "stop", project, **said),
    ]
    for one in events:
        assert hooks.blocking(one) == []
        (hook,) = hooks.background(one, Verdict())
        done = await run_command(hook, one, hook.timeout)
        assert done.exit_code == 0, done.stderr
    assert (project.parent / ".pigo/events.log").read_text().splitlines() == [
        "agent_start asked: do it",
        "tool_end bash failed=false output=4",
        "agent_end said: it is done",
    ]


@pytest.mark.req("F-07", "F-08", "F-10", "X-01")
@pytest.mark.parametrize("agent", AGENTS)
async def test_forge_s_examples_work_for_every_agent(agent: str, project: Path) -> None:
    shutil.copytree(EXAMPLES / "forge", project / ".forge")
    hooks = loaded("forge", project / ".forge/hooks.json", "project")
    below = project / "src"
    below.mkdir()
    denied = await judge(hooks, shell(agent, below, "make && sudo make install"))
    assert (denied.decision, denied.reason) == ("deny", "sudo is not for agents: ask the user to run it")
    for command in ("echo sudo make me a sandwich", "make"):
        assert (await judge(hooks, shell(agent, below, command))).decision == "abstain"
    if agent == "codex":
        return  # a patch is no whole file: nothing to check
    broken = await judge(hooks, write(agent, below, "a.json", "{"))
    assert broken.reason.startswith("a.json would not be JSON: Expecting property name")
    mended = await judge(hooks, write(agent, below, "a.json", "{}"))
    assert (mended.decision, mended.updated_input) == ("abstain", {"content": "{}\n"})
    assert (await judge(hooks, write(agent, below, "a.json", "{}\n"))).updated_input is None


def git(folder: Path, *args: str) -> str:
    ran = subprocess.run(["git", "-C", str(folder), *args], capture_output=True, check=True, text=True)
    return ran.stdout.strip()


@pytest.mark.req("F-09")
@pytest.mark.parametrize("agent", AGENTS)
async def test_forge_s_auto_commit_commits_at_the_root_of_the_project(agent: str, project: Path) -> None:
    shutil.copytree(EXAMPLES / "forge", project / ".forge")
    git(project, "init", "-q")
    git(project, "config", "user.name", "t")
    git(project, "config", "user.email", "t@localhost")
    below = project / "src"
    below.mkdir()
    (project / "beside.txt").write_text("changed beside it")
    hooks = loaded("forge", project / ".forge/hooks.json", "project")
    done = write(agent, below, "a.txt", "x", "post", tool_response="ok")
    verdict = await judge(hooks, done)
    assert [part.exit_code for part in verdict.parts] == [0]
    tool = "edit" if agent == "codex" else "write"
    assert git(project, "log", "--format=%s") == f"Auto-commit after {tool}"
    assert "beside.txt" in git(project, "show", "--stat", "--format=")
    assert (await judge(hooks, done)).notes == ()  # nothing to commit is no failure


NASTY = (
    "$(touch hit) `touch hit`; touch hit\ntouch hit # ' \" '$(touch hit)' \"$(touch hit)\" \\$(touch hit) "
    "${IFS}$$ && touch hit"
)


@pytest.mark.req("F-08", "P-06")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("quote", ['"', ""])
async def test_no_tool_argument_can_run_anything(agent: str, quote: str, project: Path) -> None:
    q = quote
    names = [f"{q}${name}{q}" for name in ("PIGO_TOOL_INPUT", "PIGO_TOOL_ARGS", "PIGO_TOOL_NAME", "PIGO_WORK_DIR")]
    shown = await judge(pigo(project.parent, f"echo {' '.join(names)}; exit 1"), shell(agent, project, NASTY))
    assert shown.decision == "deny"
    assert "touch hit" in shown.reason
    names = [
        f"{q}${name}{q}" for name in ("FORGE_TOOL_ARGS", "TOOL_ARGS", "TOOL_NAME", "EVENT_TYPE", "FORGE_SESSION_ID")
    ]
    hooks = forge(project.parent, f"echo {' '.join(names)} '$TOOL_ARGS' >&2; cat > /dev/null; exit 1")
    shown = await judge(hooks, shell(agent, project, NASTY))
    assert shown.decision == "deny"
    assert "touch hit" in shown.reason
    assert "$TOOL_ARGS" in shown.reason  # literal in single quotes, as the shell has it
    post = shell(agent, project, NASTY, "post", tool_response=NASTY)
    for one in (
        pigo(project.parent, f"echo {q}$PIGO_TOOL_OUTPUT{q}", "tool_end"),
        forge(project.parent, f"echo {q}$FORGE_TOOL_RESULT{q}", "tool:*"),
    ):
        (part,) = (await judge(one, post)).parts
        assert (part.exit_code, "touch hit" in part.output) == (0, True)
    assert list(project.iterdir()) == []


@pytest.mark.req("P-10", "P-12")
@pytest.mark.parametrize(
    ("command", "reason", "fallback"),
    [
        ("echo a; echo b >&2; echo a; exit 7", "blocked by hook: hook [x] blocked tool: a\nb\na: exit status 7", ""),
        ("no-such-command-here 2>/dev/null", "blocked by hook: hook [x] blocked tool: exit status 127", ""),
        ("echo so far; sleep 600", "blocked by hook: hook [x] blocked tool: so far: exit status 1", ""),
        (
            "trap 'exit 0' TERM; echo so far; sleep 600 & wait",
            "blocked by hook: hook [x] blocked tool: so far: exit status 1",
            "",
        ),
        ("kill -KILL $$", "was killed by SIGKILL; its failure policy is deny", "was killed by SIGKILL"),
    ],
)
async def test_pigo_before_a_tool_really_blocks_on_everything_but_exit_0(
    command: str, reason: str, fallback: str, project: Path
) -> None:
    slow = "sleep" in command
    verdict = await judge(pigo(project.parent, command, timeout=1), shell("claude", project, "x"))
    assert verdict.decision == "deny"
    assert verdict.reason.endswith(reason)
    (part,) = verdict.parts
    assert part.fallback.endswith(fallback)
    assert bool(part.fallback) == bool(fallback)
    assert any("timed out after 1.0 s (so far); pigo counts that as exit 1" in note for note in verdict.notes) == slow


@pytest.mark.req("P-12")
async def test_a_hook_that_is_late_is_killed_with_all_that_it_started(project: Path) -> None:
    hooks = pigo(project.parent, "sleep 600 & echo $! > pid; wait", timeout=1)
    assert (await judge(hooks, shell("gemini", project, "x"), seconds=0.5)).decision == "deny"
    pid = int((project / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.req("P-10")
@pytest.mark.parametrize("policy", ["allow", "deny", "ask"])
async def test_a_hook_of_pigo_elsewhere_never_keeps_anything_from_happening(policy: Policy, project: Path) -> None:
    asked = event("claude", "prompt", project, prompt="do it")
    verdict = await judge(pigo(project.parent, "echo no >&2; exit 1", "agent_start"), asked, policy)
    assert verdict.decision == "abstain"
    (note,) = verdict.notes
    assert note.endswith("failed: exit 1 (no); its failure policy is allow")
    late = await judge(pigo(project.parent, "sleep 600", "agent_start", timeout=1), asked, policy, seconds=0.3)
    assert late.decision == "abstain"


@pytest.mark.req("F-11")
async def test_a_failure_of_forge_denies_nothing_and_ends_the_chain_where_its_author_says_so(project: Path) -> None:
    def hooks(stop: bool) -> HookSet:
        return written(
            "forge",
            project.parent,
            {
                "hooks": [
                    {"event": "tool:*", "command": "no-such-command-here", "stop_on_failure": stop},
                    {"event": "tool:*", "command": "touch ran"},
                ]
            },
        )

    verdict = await judge(hooks(True), shell("codex", project, "x"))
    assert (verdict.decision, len(verdict.parts), (project / "ran").exists()) == ("abstain", 1, False)
    assert "command not found: exit 127" in verdict.notes[0]
    verdict = await judge(hooks(False), shell("codex", project, "x"))
    assert (verdict.decision, len(verdict.parts), (project / "ran").exists()) == ("abstain", 2, True)


@pytest.mark.req("F-10", "F-11")
async def test_the_first_block_of_forge_ends_the_chain_and_a_late_hook_blocks_nothing(project: Path) -> None:
    hooks = written(
        "forge",
        project.parent,
        {
            "hooks": [
                {"event": "tool:pre_execute", "command": "sleep 600", "timeout": 0.3},
                {"event": "tool:pre_execute", "command": "echo no; exit 1"},
                {"event": "tool:pre_execute", "command": "touch ran"},
            ]
        },
    )
    verdict = await judge(hooks, shell("gemini", project, "x"))
    assert (verdict.decision, verdict.reason, len(verdict.parts)) == ("deny", "no", 2)
    assert "timed out after 0.3 s" in verdict.notes[0]
    assert not (project / "ran").exists()


@pytest.mark.req("F-03", "P-05")
async def test_what_the_environment_holds_and_what_it_does_not(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    monkeypatch.setenv("NEEDED", "yes")

    async def seen(hooks: HookSet, what: Event) -> dict[str, str]:
        (hook,) = hooks.blocking(what)
        done: Finished = await run_command(hook, what, PATIENCE)
        pairs = (line.partition("=") for line in done.stdout.decode().splitlines())
        return {name: value for name, _, value in pairs}

    what = shell("codex", project, "ls")
    env = await seen(pigo(project.parent, "env", env_pass=["NEEDED"]), what)
    assert (env["PIGO_EVENT"], env["PIGO_WORK_DIR"], env["PIGO_MODEL"]) == ("tool_start", str(project), "codex-model")
    assert (env["PIGO_USER_MESSAGE"], env["PIGO_ASSISTANT_MESSAGE"], env["NEEDED"]) == ("", "", "yes")
    assert "SOME_TOKEN" not in env
    env = await seen(forge(project.parent, "env", env={"MINE": "1"}), what)
    assert (env["FORGE_EVENT"], env["FORGE_TOOL_NAME"], env["MINE"]) == ("tool:pre_execute", "bash", "1")
    assert (env["FORGE_SESSION_ID"], env["FORGE_WORKING_DIR"]) == ("s-1", str(project))
    assert not {"SOME_TOKEN", "NEEDED"} & set(env)


@pytest.mark.req("P-02")
async def test_an_event_that_no_environment_can_hold_is_cut_and_still_judged(project: Path) -> None:
    huge = "\ud800\0" + "ä" * 300_000
    hooks = pigo(project.parent, 'echo "$FLEETHOOK_CUT"; exit 1')
    verdict = await judge(hooks, shell("claude", project, huge))
    assert verdict.reason.startswith("blocked by hook: hook [x] blocked tool: PIGO_TOOL_")
    (note,) = verdict.notes
    assert "did not see all of PIGO_TOOL_ARGS, PIGO_TOOL_INPUT" in note, "a guard that sees only a part is said"
    plain = await judge(
        forge(project.parent, "python3 -c 'import json, sys; len(json.load(sys.stdin))'"),
        shell("claude", project, huge),
    )
    assert plain.notes == ()
