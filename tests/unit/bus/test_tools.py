"""The one tool vocabulary: names, input fields, and the way back into the agent's own."""

from __future__ import annotations

from typing import Any

import pytest

from bus.tools import (
    CANONICAL,
    TABLE,
    canonical_input,
    canonical_tool,
    input_for,
    lost_fields,
    native_input,
    single_files,
    tool_for,
    tool_names,
)
from tests.support.rows import rows

SNAKE = {"file_path": "a", "old_string": "x", "new_string": "y"}
EDIT = {"path": "a", "old": "x", "new": "y"}
CELL = {"notebook_path": "n", "new_source": "s"}
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Update File: src/b.py\n*** Move to: src/c.py\n*** End Patch"


@pytest.mark.req("X-01")
@rows(
    ("source", "native", "given"),
    [
        ("claude", "Bash", {"command": "ls"}),
        ("claude-code", "Monitor", {"command": "ls"}),
        ("codex", "Bash", {"command": "ls"}),
        ("codex", "shell", {"command": ["bash", "-lc", "ls"]}),
        ("codex", "exec_command", {"cmd": "ls"}),
        ("gemini", "run_shell_command", {"command": "ls", "is_background": False}),
        ("qwen", "run_shell_command", {"command": "ls"}),
        ("cursor", "Shell", {"command": "ls", "cwd": "", "timeout": 30000}),
        ("opencode", "bash", {"command": "ls"}),
        ("copilot", "bash", {"command": "ls"}),
        ("copilot", "Bash", {"command": "ls"}),
        ("windsurf", "pre_run_command", {"command_line": "ls", "cwd": "/p"}),
        ("cline", "execute_command", {"command": "ls"}),
    ],
)
def test_a_shell_command_reads_the_same_from_every_agent(source: str, native: str, given: dict[str, Any]) -> None:
    assert canonical_tool(source, native) == "bash"
    assert tool_names("bash", native)[0] == "bash"
    assert native in tool_names("bash", native)
    assert canonical_input(source, native, given)["command"] == "ls"


@pytest.mark.req("X-01")
@rows(
    ("source", "native", "tool", "given", "expected"),
    [
        ("claude", "Write", "write", {"file_path": "a", "content": "x"}, {"path": "a", "content": "x"}),
        ("claude", "Edit", "edit", SNAKE, EDIT),
        ("claude", "Agent", "task", {"prompt": "p", "subagent_type": "Explore"}, {"prompt": "p", "agent": "Explore"}),
        ("claude", "NotebookEdit", "notebook_edit", CELL, {"path": "n", "content": "s"}),
        ("gemini", "replace", "edit", SNAKE, EDIT),
        ("gemini", "read_file", "read", {"absolute_path": "/a"}, {"path": "/a"}),
        ("qwen", "agent", "task", {"prompt": "p", "subagent_type": "x"}, {"agent": "x"}),
        ("codex", "spawn_agent", "task", {"message": "m"}, {"prompt": "m"}),
        ("opencode", "edit", "edit", {"filePath": "a", "oldString": "x", "newString": "y"}, EDIT),
        ("copilot", "create", "write", {"path": "a", "file_text": "x"}, {"path": "a", "content": "x"}),
        ("windsurf", "post_write_code", "edit", {"file_path": "a", "edits": []}, {"path": "a"}),
        ("cline", "read_files", "read", {"file_paths": ["a", "b"]}, {"path": "a", "paths": ["a", "b"]}),
        ("cursor", "Delete", "delete", {"path": "a"}, {"path": "a"}),
    ],
)
def test_fields_have_one_name_and_keep_their_own(
    source: str, native: str, tool: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert canonical_tool(source, native) == tool
    seen = canonical_input(source, native, given)
    assert {name: seen[name] for name in expected} == expected
    assert {name: seen[name] for name in given} == given


@pytest.mark.req("X-01")
def test_mcp_tools_have_one_spelling() -> None:
    for source in ("claude", "codex", "qwen", "generic"):
        assert canonical_tool(source, "mcp__lab__lab_echo") == "mcp__lab__lab_echo"
    assert canonical_tool("gemini", "mcp_lab_lab_echo") == "mcp__lab__lab_echo"
    assert canonical_tool("gemini", "mcp_my_lab_echo", server="my_lab") == "mcp__my_lab__echo"
    assert canonical_tool("cursor", "MCP:echo", server="lab") == "mcp__lab__echo"
    assert canonical_tool("opencode", "lab_echo", server="lab") == "mcp__lab__echo"
    assert canonical_tool("windsurf", "list_commits", server="github") == "mcp__github__list_commits"


@pytest.mark.req("X-01")
def test_what_is_unknown_passes_unchanged() -> None:
    assert canonical_tool("claude", "ExitPlanMode") == "ExitPlanMode"
    assert canonical_tool("somebody", "Bash") == "Bash"
    assert canonical_input("claude", "ExitPlanMode", {"plan": "x"}) == {"plan": "x"}
    assert native_input("claude", "ExitPlanMode", {"plan": "y"}, {"plan": "x", "z": 1}) == {"plan": "y", "z": 1}
    assert tool_names("", "") == ()


@pytest.mark.req("X-01")
def test_a_patch_is_an_edit_and_a_write_and_shows_its_files() -> None:
    assert canonical_tool("codex", "apply_patch") == "edit"
    assert tool_names("edit", "apply_patch") == ("edit", "write", "apply_patch")
    seen = canonical_input("codex", "apply_patch", {"command": PATCH})
    assert seen["patch"] == seen["command"] == PATCH
    assert seen["path"] == "a.txt"
    assert seen["paths"] == ["a.txt", "src/b.py", "src/c.py"]
    assert native_input("codex", "apply_patch", seen | {"patch": "P"}, {"command": PATCH}) == {"command": "P"}
    assert lost_fields("codex", "apply_patch", {"path": "other"}, {"command": PATCH}) == ("path",)
    assert lost_fields("codex", "apply_patch", seen, {"command": PATCH}) == ()


@pytest.mark.req("X-01")
def test_a_call_cannot_show_one_path_and_use_another() -> None:
    seen = canonical_input("claude", "Write", {"file_path": "/etc/passwd", "path": "/tmp/harmless"})
    assert seen["path"] == "/etc/passwd"


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    ("source", "native", "changed", "original", "expected"),
    [
        ("claude", "Write", {"path": "b"}, {"file_path": "a", "content": "x"}, {"file_path": "b", "content": "x"}),
        ("claude", "Write", {"file_path": "b"}, {"file_path": "a", "content": "x"}, {"file_path": "b", "content": "x"}),
        # A hook that changes one field of the whole input that it was shown.
        ("claude", "Edit", SNAKE | EDIT | {"new": "z"}, SNAKE, SNAKE | {"new_string": "z"}),
        ("claude", "Bash", {"command": "ls -l", "timeout": 5}, {"command": "ls"}, {"command": "ls -l", "timeout": 5}),
        ("opencode", "bash", {"cwd": "/p"}, {"command": "ls"}, {"command": "ls", "workdir": "/p"}),
        ("gemini", "read_file", {"path": "/b"}, {"absolute_path": "/a"}, {"absolute_path": "/b"}),
        ("codex", "shell", {"command": "ls -l"}, {"command": ["sh", "-c", "ls"]}, {"command": ["sh", "-c", "ls -l"]}),
        ("codex", "shell", {"command": "ls -l"}, {"command": ["ls", "a b"]}, {"command": ["bash", "-lc", "ls -l"]}),
        ("windsurf", "pre_run_command", {"command": "x"}, {"command_line": "y"}, {"command_line": "x"}),
    ],
)
def test_a_rewrite_lands_in_the_agents_own_fields(
    source: str, native: str, changed: dict[str, Any], original: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = dict(original)
    assert native_input(source, native, changed, original) == expected
    assert original == before


@pytest.mark.req("X-01")
def test_the_table_only_speaks_canonical_words() -> None:
    for source, tools in TABLE.items():
        for native, use in tools.items():
            assert use.tool in CANONICAL, (source, native)
            assert set(use.fields) <= set(CANONICAL[use.tool]), (source, native)
            for name in use.fields:
                sample = dict.fromkeys(use.fields[name][:1], "before")
                back = native_input(source, native, {name: "after"}, sample)
                assert back == {use.fields[name][0]: "after"}, (source, native, name)


@pytest.mark.parametrize(
    ("agent", "canonical", "name"),
    [
        ("claude", "bash", "Bash"),
        ("claude-code", "edit", "Edit"),
        ("gemini", "bash", "run_shell_command"),
        ("claude", "mcp__db__query", "mcp__db__query"),
        ("pigo-of-tomorrow", "bash", "bash"),
    ],
)
def test_a_canonical_tool_in_an_agents_own_words(agent: str, canonical: str, name: str) -> None:
    assert tool_for(agent, canonical) == name


@pytest.mark.req("X-01")
def test_one_agents_input_in_the_fields_of_another() -> None:
    given = canonical_input("gemini", "replace", {"file_path": "a", "old_string": "x", "new_string": "y", "more": 1})
    assert input_for("opencode", "edit", "gemini", "replace", given) == {
        "filePath": "a",
        "oldString": "x",
        "newString": "y",
        "more": 1,
    }
    given = canonical_input("codex", "exec_command", {"cmd": "ls", "workdir": "/p"})
    assert input_for("claude", "Bash", "codex", "exec_command", given) == {"command": "ls", "cwd": "/p"}
    assert input_for("claude", "Odd", "codex", "odd", {"a": 1}) == {"a": 1}


@pytest.mark.req("X-01")
def test_a_call_about_several_files_as_calls_about_one_each() -> None:
    patch = (
        "*** Begin Patch\n*** Add File: a.txt\n+*** End Patch\n+x\n*** Update File: b.py\n*** Move to: c.py\n@@\n-1\n+2\n"
        "*** Delete File: d\n*** End Patch\n"
    )
    given = canonical_input("codex", "apply_patch", {"command": patch})
    one, two, three, four = single_files("edit", given)
    assert [call["path"] for call in (one, two, three, four)] == ["a.txt", "b.py", "c.py", "d"]
    assert (one["paths"], one["command"]) == (["a.txt"], one["patch"])
    assert one["patch"] == "*** Begin Patch\n*** Add File: a.txt\n+*** End Patch\n+x\n*** End Patch"
    assert (
        two["patch"]
        == three["patch"]
        == ("*** Begin Patch\n*** Update File: b.py\n*** Move to: c.py\n@@\n-1\n+2\n*** End Patch")
    )
    assert four["patch"] == "*** Begin Patch\n*** Delete File: d\n*** End Patch"
    many = canonical_input("gemini", "read_many_files", {"include": ["a", "b", "a", 7, ""]})
    assert [call["path"] for call in single_files("read", many)] == ["a", "b"]
    assert single_files("read", {"paths": ["a"]}) == single_files("edit", {"path": "a"}) == ()
    assert single_files("mcp__x__copy", {"paths": ["a", "b"]}) == single_files("edit", {"paths": "a b"}) == ()
