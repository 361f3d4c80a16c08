"""A call about several files, and hooks of other systems that look at one: really run, a file at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.chain import Evaluation, evaluate
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hooksets.in_force import HookSet, Layered
from bus.runners.command import CommandRunner
from bus.verdicts import Verdict
from workers.delivery.background_command import run_hook

PATIENCE = 30.0
PATCH = (
    "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x = 1\n+x = 2\n*** Add File: src/.env\n+KEY=1\n"
    "*** Update File: b.py\n*** Move to: c.py\n*** End Patch\n"
)


def patched(cwd: Path, patch: str = PATCH) -> Event:
    """A call of Codex CLI's apply_patch."""
    given = {
        "session_id": "s-1",
        "cwd": str(cwd),
        "hook_event_name": "PreToolUse",
        "turn_id": "t-1",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
        "tool_use_id": "c-1",
    }
    return find("codex").read("PreToolUse", json.dumps(given).encode())


def read_many(cwd: Path) -> Event:
    """A call of Gemini CLI's read_many_files."""
    given = {
        "session_id": "s-1",
        "cwd": str(cwd),
        "hook_event_name": "BeforeTool",
        "timestamp": "2026-11-21T20:37:34Z",
        "tool_name": "read_many_files",
        "tool_input": {"include": ["a.py", "src/.env"]},
    }
    return find("gemini").read("BeforeTool", json.dumps(given).encode())


def read(dialect: str, folder: Path, content: object) -> HookSet:
    path = folder / ("settings.json" if dialect == "claude" else f"{dialect}.json")
    path.write_text(json.dumps(content))
    file = find_hooks(dialect).read(path, "user")
    assert file.problems == ()
    return HookSet([Layered("user", "1", file)])


def claude(folder: Path, command: str, matcher: str = "", **more: Any) -> HookSet:
    handler = {"type": "command", "command": command, **more}
    return read("claude", folder, {"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [handler]}]}})


def forge(folder: Path, command: str, **more: Any) -> HookSet:
    return read("forge", folder, {"hooks": [{"event": "tool:pre_execute", "command": command, **more}]})


def pigo(folder: Path, command: str) -> HookSet:
    return read("pigo", folder, {"plugins": [{"name": "x", "hooks": {"tool_start": [{"command": command}]}}]})


def python(folder: Path, code: str) -> str:
    script = folder / "hook.py"
    script.write_text("import json, os, sys\n" + code)
    return f"python3 {script}"


async def judge(hooks: HookSet, event: Event, seconds: float = PATIENCE) -> Verdict:
    return await evaluate(
        Evaluation(event=event, hooks=hooks.blocking(event), run=CommandRunner().run, seconds=seconds)
    )


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CLAUDES = """
given = json.load(sys.stdin)
open("seen", "a").write(json.dumps([given["tool_name"], given["tool_input"]]) + "\\n")
if given["tool_input"]["file_path"].endswith(".env"):
    print("secrets stay", file=sys.stderr)
    sys.exit(2)
"""

FORGES = """
given = json.load(sys.stdin)
args = json.loads(os.environ["FORGE_TOOL_ARGS"])
assert given["data"]["tool_args"] == args
open("seen", "a").write(json.dumps(args["path"]) + "\\n")
if args["path"].endswith(".env"):
    print("secrets stay", file=sys.stderr)
    sys.exit(1)
"""

PIGOS = """
path = json.loads(os.environ["PIGO_TOOL_ARGS"])["path"]
open("seen", "a").write(json.dumps(path) + "\\n")
if path.endswith(".env"):
    print("secrets stay")
    sys.exit(1)
"""


@pytest.mark.req("I-02", "I-03", "X-01", "B-08")
async def test_a_guard_of_claude_code_sees_every_file_of_a_patch(tmp_path: Path) -> None:
    denied = await judge(claude(tmp_path, python(tmp_path, CLAUDES), "Edit|Write"), patched(tmp_path))
    assert (denied.decision, denied.reason) == ("deny", "secrets stay (src/.env)")
    assert [part.exit_code for part in denied.parts] == [2]
    (first, edit), (_, new) = lines(tmp_path / "seen")  # the deny ended it
    shown = (first, edit["file_path"], edit["old_string"], edit["new_string"])
    assert shown == ("Edit", "src/a.py", "x = 1", "x = 2")
    assert (new["file_path"], new["content"]) == ("src/.env", "KEY=1\n")


@pytest.mark.req("I-06", "X-01")
async def test_an_if_of_claude_code_picks_the_files(tmp_path: Path) -> None:
    hooks = claude(tmp_path, python(tmp_path, CLAUDES), "Edit|Write", **{"if": "Edit(*.py)"})
    assert (await judge(hooks, patched(tmp_path))).decision == "abstain"
    assert [shown["file_path"] for _, shown in lines(tmp_path / "seen")] == ["src/a.py", "b.py", "c.py"]


@pytest.mark.req("F-10", "X-01", "B-08")
@pytest.mark.parametrize("make", [read_many, patched])
async def test_a_guard_of_forge_sees_every_file(make: Any, tmp_path: Path) -> None:
    denied = await judge(forge(tmp_path, python(tmp_path, FORGES)), make(tmp_path))
    assert (denied.decision, denied.reason) == ("deny", "secrets stay (src/.env)")
    assert lines(tmp_path / "seen")[-1] == "src/.env"


@pytest.mark.req("P-06", "P-10", "X-01")
async def test_a_guard_of_pigo_sees_every_file(tmp_path: Path) -> None:
    denied = await judge(pigo(tmp_path, python(tmp_path, PIGOS)), patched(tmp_path))
    assert denied.reason == "blocked by hook: hook [x] blocked tool: secrets stay: exit status 1 (src/.env)"
    assert lines(tmp_path / "seen") == ["src/a.py", "src/.env"]


def answer(**specific: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}})


BY_FILE = """
given = json.load(sys.stdin)["tool_input"]
print(json.loads(os.environ["ANSWERS"]).get(given["file_path"], ""))
if given["file_path"] in os.environ["BROKEN"].split():
    sys.exit(3)
"""


def answering(folder: Path, answers: Mapping[str, str], broken: str = "", policy: str = "") -> HookSet:
    command = python(folder, BY_FILE)
    env = f"ANSWERS='{json.dumps(answers)}' BROKEN='{broken}'"
    return claude(folder, f"{env} {command}", **({"onFailure": policy} if policy else {}))


@pytest.mark.req("I-03", "X-01")
async def test_the_outcomes_of_the_files_combine(tmp_path: Path) -> None:
    files = ("src/a.py", "src/.env", "b.py", "c.py")
    allow = {name: answer(permissionDecision="allow", permissionDecisionReason="fine") for name in files}
    assert (await judge(answering(tmp_path, allow), patched(tmp_path))).decision == "allow"
    some = {name: said for name, said in allow.items() if name != "b.py"}
    assert (await judge(answering(tmp_path, some), patched(tmp_path))).decision == "abstain"  # one was not allowed
    asks = allow | {"b.py": answer(permissionDecision="ask", permissionDecisionReason="hm")}
    verdict = await judge(answering(tmp_path, asks, broken="c.py"), patched(tmp_path))
    assert (verdict.decision, verdict.reason) == ("ask", "hm (b.py)")
    assert any("exit 3" in note and "(c.py)" in note for note in verdict.notes)  # a failure is said, and hides nothing
    assert (await judge(answering(tmp_path, asks, "c.py", "block"), patched(tmp_path))).decision == "deny"
    failed = await judge(answering(tmp_path, allow, broken="b.py"), patched(tmp_path))
    assert failed.decision == "abstain"
    assert "(b.py)" in failed.parts[0].fallback
    contexts = {name: answer(additionalContext="same" if name != "b.py" else "other") for name in files}
    assert (await judge(answering(tmp_path, contexts), patched(tmp_path))).contexts == ("same", "other")


@pytest.mark.req("X-01")
async def test_a_change_for_one_file_of_several_is_dropped_and_said(tmp_path: Path) -> None:
    change = """test "$FORGE_TOOL_NAME" = read && echo '{"path": "other"}'"""
    verdict = await judge(forge(tmp_path, change), read_many(tmp_path))
    assert (verdict.decision, verdict.updated_input) == ("abstain", None)
    assert sum(note.count("the change was dropped") for note in verdict.notes) == 2
    allowed = answer(permissionDecision="allow", updatedInput={"file_path": "other"})
    verdict = await judge(answering(tmp_path, {"a.py": allowed, "src/.env": allowed}), read_many(tmp_path))
    assert (verdict.decision, verdict.updated_input) == ("abstain", None)
    # What a patch cannot be changed to at all is refused, as in a patch of one file: the model is told what to do.
    edited = answer(permissionDecision="allow", updatedInput={"file_path": "b.py", "old_string": "", "new_string": "z"})
    assert (await judge(answering(tmp_path, {"b.py": edited}), patched(tmp_path))).decision == "deny"


@pytest.mark.req("F-11", "X-01")
async def test_every_file_has_the_hooks_time_and_all_have_the_budget(tmp_path: Path) -> None:
    hooks = forge(tmp_path, "sleep 0.3", timeout=1.0)
    assert (await judge(hooks, patched(tmp_path))).parts[0].fallback == ""  # more than a second in all
    late = await judge(hooks, patched(tmp_path), seconds=0.5)
    assert "timed out" in late.parts[0].fallback or "files: the time was used up" in late.parts[0].fallback


@pytest.mark.req("P-11", "X-01")
async def test_in_the_background_too_every_file_has_its_run(tmp_path: Path) -> None:
    event = patched(tmp_path)
    (hook,) = pigo(tmp_path, python(tmp_path, PIGOS)).hooks.values()
    failed, _ = await run_hook(hook, event)
    assert failed.outcome == "retry"  # the first file that fails ends the attempt
    assert (failed.evidence.status, failed.evidence.output) == (1, "secrets stay")
    assert "exit 1" in failed.reason
    fine, _ = await run_hook(hook, patched(tmp_path, PATCH.replace("src/.env", "src/env")))
    assert fine.outcome == "delivered"
    assert lines(tmp_path / "seen") == ["src/a.py", "src/.env", "src/a.py", "src/env", "b.py", "c.py"]
