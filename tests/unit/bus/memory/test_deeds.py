"""What a session did, from the events of its calls (X-13)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.events import Event
from bus.matching.facts.session_facts import runs
from bus.memory.deeds import deeds_of, read_deed
from bus.memory.outcomes import exit_of, outcome_digest
from tests.support.rows import rows

pytestmark = pytest.mark.req("X-13")
GOLDEN = Path(__file__).parents[3] / "golden"


def deeds(tool: str, output: Any = None, kind: str = "tool:post_execute", **fields: Any) -> list[tuple[str, str, int]]:
    """The deeds of one call, without that it was called."""
    event = Event(type=kind, source="claude", tool=tool, session="s", cwd="/w", input=fields, output=output)
    found = deeds_of(event)
    assert all(read_deed(deed.member) == deed for deed in found)
    return [(deed.kind, deed.text, deed.exit) for deed in found if deed.kind != "called"]


def test_commands_files_and_secrets_are_noted() -> None:
    assert deeds("bash", {"stdout": ""}, command="cd src && pytest -q") == [
        ("ran", "cd src", 0),
        ("ran", "pytest -q", 0),
    ]
    assert ("wrote", "/w/src/a.py", 0) in deeds("bash", {"stdout": ""}, command="cd src && echo 1 > a.py")
    assert deeds("write", {"ok": True}, path="b.py") == [("wrote", "/w/b.py", 0)]
    assert deeds("read", "x", path="/w/b.py") == [("read", "/w/b.py", 0)]
    assert deeds("read", "A=1", path="/w/.env")[-1] == ("secret", "/w/.env", 0)
    assert ("secret", "/w/.env", 0) in deeds("bash", {"stdout": "A=1"}, command="cat .env | wc -l")
    token = "ghp_" + "R8sK2mQ9vT4xZ1nB7cL5wY3jH6dF0gP2aE8u"
    (secret, *_) = deeds("bash", {"stdout": f"GITHUB_TOKEN={token}"}, command="env")
    assert secret[0] == "secret"
    assert token not in secret[1]


def test_what_only_names_a_file_has_not_read_it_and_what_failed_has_not_written() -> None:
    lines = ("ls .env", "rm .env", "git add .env", "cat .env.example")
    kinds = {kind for line in lines for kind, *_ in deeds("bash", {}, command=line)}
    assert "secret" not in kinds
    assert deeds("write", {"error": "no"}, "tool:error", path="b.py") == []
    assert deeds("bash", {"stdout": "pytest 9"}, command="pytest --version") == []
    assert deeds_of(Event(type="tool:pre_execute", tool="bash", input={"command": "pytest"})) == []


@rows(
    ("output", "kind", "source", "code"),
    [
        ({"stdout": "ok", "stderr": "", "interrupted": False}, "tool:post_execute", "claude", 0),
        ({"stdout": "", "interrupted": True}, "tool:post_execute", "claude", 130),
        ({"stdout": "", "returnCodeInterpretation": "No matches found"}, "tool:post_execute", "claude", 1),
        ({"backgroundTaskId": "b1", "stdout": ""}, "tool:post_execute", "claude", -1),
        ({"error": "Exit code 3\nmarker"}, "tool:error", "claude", 3),
        ("ok", "tool:post_execute", "codex", -1),
        ({"llmContent": "Output: x\nExit Code: 2\nSignal: (none)"}, "tool:post_execute", "qwen", 2),
        ({"llmContent": "Output: x"}, "tool:post_execute", "gemini", 0),
        ({"output": "x", "exitCode": 5}, "tool:post_execute", "cursor", 5),
        ({"metadata": {"exit": 7}}, "tool:post_execute", "opencode", 7),
        ({"exit_code": 4}, "tool:post_execute", "generic", 4),
        (None, "tool:error", "generic", 1),
    ],
)
def test_the_exit_code_of_each_agent(output: Any, kind: str, source: str, code: int) -> None:
    assert exit_of(Event(type=kind, source=source, tool="bash", input={"command": "x"}, output=output)) == code


def test_recorded_payloads_have_their_exit_codes() -> None:
    found = {}
    for path in sorted(GOLDEN.glob("*/captured-*.json")):
        if not any(
            name in path.name for name in ("PostToolUse-", "PostToolUseFailure-", "AfterTool-", "tool.execute.after-")
        ):
            continue
        agent = path.parent.name
        native = json.loads(path.read_bytes()).get("hook_event_name", path.name.split("-")[1])
        event = find(agent).read(native, path.read_bytes())
        if event.tool == "bash":
            found[f"{agent}/{path.stem}"] = exit_of(event)
    assert found, "there are such payloads"
    assert all(code == 0 for name, code in found.items() if "Failure" not in name and "codex" not in name), found
    assert all(code != 0 for name, code in found.items() if "Failure" in name or "codex" in name), found


def test_an_outcome_is_the_same_but_for_times() -> None:
    def digest(text: str) -> str:
        return outcome_digest(Event(type="tool:post_execute", source="claude", tool="bash", output={"stdout": text}))

    same = ("2 failed in 0.51s at 10:00:01, 0x7f00aa", "2 failed in 1.2s at 2026-11-26T10:00:09Z, 0x7f11bb")
    assert digest(same[0]) != digest("1 failed in 0.51s at 10:00:01, 0x7f00aa")
    assert digest(same[0]) == digest("2 failed in 7.13s at 11:30:59, 0x12345678")


def test_a_pattern_names_a_program_and_words_of_its_line() -> None:
    assert runs("pytest", "pytest -q")
    assert runs("npm test", "npm --silent test -- a")
    assert runs("pytest|tox", "tox -e py")
    assert runs("pytest tests/*", "pytest -x tests/unit")
    assert not runs("npm test", "npm run build")
    assert not runs("test", "pytest")
    assert not runs("pytest", "echo pytest")
