"""Claude Code's and ion's hooks, really run, for events of Claude Code, Codex and Gemini: scripts as people write them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.chain import Evaluation, evaluate
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooks import Endpoint, Layer
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.http.address_policy import policy
from bus.http.webhook_client import WebhookClient
from bus.runners.command import CommandRunner
from bus.runners.http import HttpRunner
from bus.verdicts import Verdict
from tests.support.http_servers import answer, receiver
from workers.delivery.webhook import render_body

MEMORY = Path(__file__).parents[4] / "examples" / "ion" / "memory"
AGENTS = ("claude", "codex", "gemini")
PATIENCE = 30.0

GUARD = r"""
import json, re, sys
event = json.load(sys.stdin)
assert event["hook_event_name"] == "PreToolUse", event
command = event["tool_input"].get("command", "")
if re.search(r"\brm\s+-rf\b", command):
    print("Use trash instead", file=sys.stderr)
    sys.exit(2)
if command.startswith("npm "):
    print(json.dumps({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": "quiet",
        "updatedInput": {**event["tool_input"], "command": command + " --silent"}}}))
"""

PROTECT = r"""
path=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["tool_input"]["file_path"])')
case "$path" in *.env) echo "{\"decision\": \"block\", \"reason\": \"$path is protected\"}" ;; esac
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


NAMES = {
    "start": ("SessionStart", "SessionStart"),
    "prompt": ("UserPromptSubmit", "BeforeAgent"),
    "pre": ("PreToolUse", "BeforeTool"),
    "post": ("PostToolUse", "AfterTool"),
    "compact": ("PreCompact", "PreCompress"),
    "stop": ("Stop", "AfterAgent"),
}


def event(agent: str, moment: str, cwd: Path, **fields: Any) -> Event:
    """The event in a payload in the agent's own form, as its dialect reads it."""
    name = NAMES[moment][agent == "gemini"]
    given = {"session_id": "s-1", "cwd": str(cwd), "hook_event_name": name, **fields}
    return find(agent).read(name, json.dumps(given).encode())


def shell(agent: str, cwd: Path, command: str, moment: str = "pre") -> Event:
    tool = "run_shell_command" if agent == "gemini" else "Bash"
    return event(agent, moment, cwd, tool_name=tool, tool_input={"command": command, "description": "d"})


def write(agent: str, cwd: Path, name: str, moment: str = "pre") -> Event:
    path = str(cwd / name)
    tool, given = {
        "claude": ("Write", {"file_path": path, "content": "x"}),
        "codex": ("apply_patch", {"command": f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"}),
        "gemini": ("write_file", {"file_path": path, "content": "x"}),
    }[agent]
    return event(agent, moment, cwd, tool_name=tool, tool_input=given)


def hooks(path: Path, layer: Layer = "user", dialect: str = "claude") -> HookSet:
    file = find_hooks(dialect).read(path, layer)
    assert (file.problems, file.warnings) == ((), ())
    return HookSet([Layered(layer, "1", file)])


async def ask(found: HookSet, given: Event) -> Verdict:
    return await evaluate(
        Evaluation(event=given, hooks=found.blocking(given), run=CommandRunner().run, seconds=PATIENCE)
    )


def settings(project: Path) -> Path:
    """A project with a guard on commands, one on files, and one that only looks at git."""
    scripts = project / ".claude" / "hooks"
    scripts.mkdir(parents=True)
    (scripts / "guard.py").write_text(GUARD)
    (scripts / "protect.sh").write_text(PROTECT)
    told = 'echo "{\\"systemMessage\\": \\"git was called\\"}"'
    path = project / ".claude" / "settings.json"
    path.write_text(
        json.dumps(
            {
                "hooks": {
                    "PreToolUse": [
                        {
                            "matcher": "Bash",
                            "hooks": [
                                {
                                    "type": "command",
                                    "command": 'python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py',
                                    "timeout": 20,
                                },
                                {"type": "command", "command": told, "if": "Bash(git *)"},
                            ],
                        },
                        {
                            "matcher": "Edit|Write",
                            "hooks": [
                                {
                                    "type": "command",
                                    "command": "sh",
                                    "args": ["${CLAUDE_PROJECT_DIR}/.claude/hooks/protect.sh"],
                                },
                            ],
                        },
                    ]
                }
            }
        )
    )
    return path


@pytest.mark.req("I-01", "I-02", "I-03", "I-06", "X-01")
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_projects_guards_hold_for_every_agent(project: Path, agent: str) -> None:
    found = hooks(settings(project))
    verdict = await ask(found, shell(agent, project, "sudo rm -rf /"))
    assert (verdict.decision, verdict.reason) == ("deny", "Use trash instead")
    verdict = await ask(found, shell(agent, project, "npm test"))
    assert (verdict.decision, verdict.updated_input) == ("allow", {"command": "npm test --silent"})
    assert [part.hook for part in verdict.parts] == ["claude-PreToolUse"]
    verdict = await ask(found, shell(agent, project, "cd x && git push"))
    assert (verdict.decision, verdict.notes) == ("abstain", ("hook 'claude-PreToolUse-2': git was called",))
    verdict = await ask(found, write(agent, project, "secret.env"))
    assert (verdict.decision, verdict.reason) == ("deny", f"{project}/secret.env is protected")
    verdict = await ask(found, write(agent, project, "a.txt"))
    assert verdict.decision == "abstain"
    assert [part.fallback for part in verdict.parts] == [""]
    for given in (shell(agent, project, "rm -rf /", "post"), event(agent, "stop", project)):
        assert found.blocking(given) == []


@pytest.mark.req("I-03")
async def test_a_projects_allow_is_an_opinion_and_its_rewrite_reaches_the_agent(project: Path) -> None:
    given = shell("gemini", project, "npm test")
    verdict = await ask(hooks(settings(project), "project"), given)
    assert (verdict.decision, verdict.updated_input) == ("abstain", {"command": "npm test --silent"})
    given = shell("claude", project, "npm test")
    verdict = await ask(hooks(project / ".claude" / "settings.json"), given)
    answer = json.loads(find("claude").render("PreToolUse", verdict, given).stdout)
    assert answer["hookSpecificOutput"]["updatedInput"] == {"command": "npm test --silent", "description": "d"}


@pytest.mark.req("I-03", "I-04")
async def test_a_broken_hook_blocks_nothing_unless_its_author_says_so(project: Path) -> None:
    path = project / "settings.json"
    for more, decision in (({}, "abstain"), ({"onFailure": "block"}, "deny"), ({"onFailure": "continue"}, "abstain")):
        for command, why in (("exit 1", "exit 1"), ("exec sleep 60", "timed out"), ("echo '{'", "cannot be used")):
            handler = {"type": "command", "command": command, "timeout": 0.3 if "sleep" in command else 20, **more}
            path.write_text(
                json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}], "Stop": [{"hooks": [handler]}]}})
            )
            found = hooks(path)
            verdict = await ask(found, shell("claude", project, "ls"))
            assert verdict.decision == decision, command
            assert why in verdict.parts[0].fallback
        assert (await ask(found, event("claude", "stop", project))).decision == "abstain"


@pytest.mark.req("I-05", "I-07")
@pytest.mark.parametrize("dialect", ["claude", "ion"])
async def test_a_plugins_script_finds_its_folder_and_its_environment(project: Path, dialect: str) -> None:
    root = project / ".ion" / "plugins" / "it's a plugin"
    (root / "hooks").mkdir(parents=True)
    (root / "run.sh").write_text(
        '#!/bin/sh\ncat >/dev/null; env >"$CLAUDE_PROJECT_DIR/env"; pwd >>"$CLAUDE_PROJECT_DIR/env"\n'
    )
    (root / "run.sh").chmod(0o755)
    handler = {
        "type": "command",
        "command": '"${CLAUDE_PLUGIN_ROOT}/run.sh"',
        "timeout": 20_000 if dialect == "ion" else 20,
    }
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}))
    verdict = await ask(hooks(project / ".ion" / "plugins", dialect=dialect), shell("codex", project, "ls"))
    assert [part.fallback for part in verdict.parts] == [""]
    env = dict(line.split("=", 1) for line in (project / "env").read_text().splitlines() if "=" in line)
    expected = {"CLAUDE_PLUGIN_ROOT": str(root), "PLUGIN_ROOT": str(root), "CLAUDE_PROJECT_DIR": str(project)}
    if dialect == "ion":
        expected |= {"ION_SESSION_ID": "s-1", "ION_CWD": str(project), "ION_MODEL": "", "ION_PROVIDER": ""}
    assert {name: env.get(name) for name in expected} == expected
    assert "CLAUDECODE" not in env
    assert os.path.isdir(env["CLAUDE_PLUGIN_DATA"])


@pytest.mark.req("I-07")
async def test_event_data_is_never_run(project: Path) -> None:
    evil = "$(touch hit) `touch hit`; touch hit #\"'\n"
    root = project / "plug"
    (root / "hooks").mkdir(parents=True)
    handler = {"type": "command", "command": "printf", "args": ["%s", "${ION_SESSION_ID}"], "timeout": 20_000}
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [handler]}]}}))
    given = Event(type="user:prompt_submit", source="codex", session=evil, cwd=str(project), data={"prompt": evil})
    verdict = await ask(hooks(root, dialect="ion"), given)
    assert verdict.contexts == (evil.strip(),)
    assert not list(project.rglob("hit"))


@pytest.mark.req("I-02", "I-03", "X-01")
@pytest.mark.parametrize("agent", AGENTS)
async def test_an_http_hook_is_sent_what_a_command_reads(project: Path, agent: str) -> None:
    seen: list[dict[str, Any]] = []
    said = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "not from this fleet",
        }
    }
    bodies = [json.dumps(said).encode(), b"", b"just text"]

    async def serve(request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        await answer(body=bodies[len(seen) - 1])(request, reader, writer)

    async with receiver(serve) as port, WebhookClient(policy(["127.0.0.1"])) as client:
        handler = {"type": "http", "url": f"http://127.0.0.1:{port}/h", "timeout": 20, "onFailure": "block"}
        path = project / "settings.json"
        path.write_text(json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}}))
        found, given = hooks(path), shell(agent, project, "ls")
        (hook,) = found.blocking(given)
        evaluation = Evaluation(event=given, hooks=[hook], run=HttpRunner(client).run, seconds=PATIENCE)
        verdicts = [await evaluate(evaluation) for _ in bodies]
    assert [(one.decision, one.reason) for one in verdicts[:2]] == [("deny", "not from this fleet"), ("abstain", "")]
    assert verdicts[2].decision == "deny"
    assert "cannot be used" in verdicts[2].reason
    assert seen[0] == json.loads(find_hooks("claude").stdin(hook, given))
    assert (seen[0]["tool_name"], seen[0]["tool_input"]["command"]) == ("Bash", "ls")
    # In the background it is told the same, without what the raw payload may hold.
    endpoint = Endpoint(id="told", url="https://x.example", dialect="claude")
    told = json.loads(render_body(given, None, endpoint))
    assert told["tool_input"] == seen[0]["tool_input"]
    assert told == (given.raw if agent == "claude" else {**seen[0], "fleethook": {**seen[0]["fleethook"], "raw": None}})
    written = write(agent, project, "a.txt")
    assert json.loads(render_body(written, None, endpoint))["tool_input"]["file_path"] == f"{project}/a.txt"


@pytest.mark.req("I-05", "I-13")
@pytest.mark.parametrize("agent", AGENTS)
async def test_the_memory_plugin_remembers_for_every_agent(project: Path, agent: str) -> None:
    plugins = project / ".ion" / "plugins"
    shutil.copytree(MEMORY, plugins / "memory")
    (project / "fleethook.yaml").write_text("import: [.ion/plugins]\n")
    file = load_hook_file(project / "fleethook.yaml", "project")
    assert (file.problems, {hook.dialect for hook in file.hooks}) == ((), {"ion"})
    found = HookSet([Layered("project", "1", file)])

    async def contexts(moment: str, **fields: Any) -> tuple[str, ...]:
        verdict = await ask(found, event(agent, moment, project, **fields))
        assert [part.fallback for part in verdict.parts] == [""]
        return verdict.contexts

    assert await contexts("start", source="startup") == ()
    assert await contexts("prompt", prompt="remember: the database is PostgreSQL") == (
        "Noted for later sessions: the database is PostgreSQL",
    )
    assert await contexts("prompt", prompt="what DATABASE do we use?") == ("Remembered: the database is PostgreSQL",)
    assert await contexts("prompt", prompt="and the weather?") == ()
    for given in (write(agent, project, "a.py", "post"), shell(agent, project, "ls", "post")):
        verdict = await ask(found, given)
        assert [part.fallback for part in verdict.parts] == ([""] if given.tool != "bash" else [])
    changes = [json.loads(line) for line in (project / ".ion/memory/changes.jsonl").read_text().splitlines()]
    assert [(one["path"], one["tool"]) for one in changes] == [(str(project / "a.py"), "Write")]
    assert await contexts("compact", trigger="auto") == ()
    (text,) = await contexts("start", source="resume")
    assert text.splitlines() == [
        "Before the context was compacted (session s-1): 1 changes in all.",
        f"Files changed lately: {project}/a.py",
    ]
