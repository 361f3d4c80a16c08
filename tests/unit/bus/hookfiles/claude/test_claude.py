"""Claude Code's hooks: which of them fire for whose events, and what they read on stdin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.agents import find
from bus.chain import changed_event
from bus.errors import PatternError
from bus.events import Event
from bus.hookfiles.claude import HOOKS
from bus.hookfiles.claude.matching import compile_matcher, index_tool, matches, names, patterns, tool_name_for_hook
from bus.hookfiles.claude.permission_rules import holds, parse_rule
from bus.hookfiles.claude.stdin import tool_input
from bus.hooks import Hook
from bus.matching.patterns import Index, check_pattern
from bus.runners.per_file import calls
from tests.support.rows import rows

CLAUDE, ION = HOOKS["claude"], HOOKS["ion"]
GOLDEN = Path(__file__).parents[4] / "golden" / "claude"
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@ def f\n-old\n+new\n same\n*** Add File: b.py\n+b\n*** End Patch"


def call(source: str, tool: str, native: str = "", **given: Any) -> Event:
    """A tool call of an agent, as its dialect (or, where it has none yet, the vocabulary) reads it."""
    event = {"claude": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}.get(source, "pre")
    payload = {"session_id": "s1", "cwd": "/p", "hook_event_name": event, "tool_name": tool, "tool_input": given}
    return find(source).read(event, json.dumps(payload).encode())


def hook(event: str = "PreToolUse", **own: Any) -> Hook:
    return Hook(id="h", on=patterns(event), command="true", dialect="claude", own={"event": event, **own})


def shown(event: Event, on: str = "PreToolUse", *, ion: bool = False, **own: Any) -> dict[str, Any]:
    given: dict[str, Any] = json.loads((ION if ion else CLAUDE).stdin(hook(on, **own), event))
    return given


@pytest.mark.req("I-06")
@rows(
    ("matcher", "name", "fits"),
    [
        ("", "Bash", True),
        ("*", "mcp__a__b", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit, Write", "Write", True),
        ("Edit|Write", "MultiEdit", False),
        ("mcp__memory", "mcp__memory__save", False),
        ("mcp__memory__.*", "mcp__memory__save", True),
        ("mcp__.*__write.*", "mcp__fs__write_file", True),
        ("^Notebook", "NotebookEdit", True),
        ("Notebook.*", "MyNotebook", True),
        ("^(?!Read).*$", "Read", False),
        ("^(?!Read).*$", "Write", True),
        ("(?<tool>Ba)sh$", "Bash", True),
        (".*", "anything", True),
    ],
)
def test_a_matcher_is_names_or_an_unanchored_expression(matcher: str, name: str, fits: bool) -> None:
    assert compile_matcher(matcher)((name,)) is fits
    assert matches("PreToolUse", [matcher], Event(type="tool:pre_execute", source="claude", native_tool=name)) is fits


def test_a_bad_expression_is_refused_and_fits_nothing() -> None:
    with pytest.raises(PatternError):
        compile_matcher("Bash(")


@pytest.mark.req("I-06")
@rows(
    ("event", "matcher", "data", "fits"),
    [
        ("SessionStart", "startup|resume", {"source": "resume"}, True),
        ("SessionStart", "clear", {"source": "resume"}, False),
        ("SessionStart", "startup", {}, True),
        ("SessionEnd", "logout", {"reason": "clear"}, False),
        ("Notification", "permission_prompt", {"notification_type": "ToolPermission"}, True),
        ("PreCompact", "manual", {"trigger": "auto"}, False),
        ("SubagentStop", "Explore", {"agent_type": "Explore"}, True),
        ("SubagentStop", "Explore", {}, True),
        ("StopFailure", "rate.limit", {"error": "rate_limit"}, False),
        ("StopFailure", "rate_limit|overloaded", {"error": "overloaded"}, True),
        ("FileChanged", ".envrc|.env", {"file_path": "/p/.env"}, True),
        ("Elicitation", "db", {"mcp_server_name": "db"}, True),
        ("UserPromptSubmit", "never", {"prompt": "hi"}, True),
    ],
)
def test_what_a_matcher_is_about_depends_on_the_event(
    event: str, matcher: str, data: dict[str, Any], fits: bool
) -> None:
    found = Event(type=patterns(event)[0], source="claude", native=event, data=data)
    assert matches(event, [matcher], found) is fits


@pytest.mark.req("X-01", "I-06")
@pytest.mark.parametrize(
    ("source", "tool", "given", "expected"),
    [
        ("claude", "Bash", {}, ("Bash",)),
        ("claude", "Monitor", {}, ("Monitor",)),
        ("claude", "Agent", {}, ("Agent", "Task")),
        ("gemini", "run_shell_command", {"command": "ls"}, ("Bash", "run_shell_command")),
        ("gemini", "replace", {"file_path": "a"}, ("Edit", "replace")),
        ("gemini", "mcp_db_query", {}, ("mcp__db__query", "mcp_db_query")),
        ("codex", "apply_patch", {"command": PATCH}, ("Edit", "Write", "apply_patch")),
        ("codex", "apply_patch", {"command": "*** Add File: x\n+y"}, ("Write", "Edit", "apply_patch")),
        ("opencode", "todowrite", {}, ("TodoWrite", "todowrite")),
        ("pigo", "bash", {}, ("Bash", "bash")),  # the canonical name is its own
    ],
)
def test_every_agents_tool_has_the_name_that_a_hook_of_claude_knows(
    source: str, tool: str, given: dict[str, Any], expected: tuple[str, ...]
) -> None:
    if source == "opencode":
        event = Event(type="tool:pre_execute", source=source, tool="todo", native_tool=tool)
    else:
        event = call(source, tool, **given)
    assert names(event) == expected


@pytest.mark.req("F-05", "X-01")
def test_the_index_lets_nothing_through_that_a_matcher_wants() -> None:
    assert index_tool(["Bash|Edit"]) == "bash|Bash|edit|Edit"
    assert index_tool(["Bash", "*"]) == index_tool([]) == ""
    assert index_tool(["Bash", "^Ed"]) == "^bash$|^Bash$|^edit$|^Edit$|(?:^Ed)"
    assert index_tool([f"^{letter * 1500}" for letter in "ab"]) == "", "too long together"
    hooks = [(hook(matchers=[text]), text) for text in ("Bash", "Edit|Write", "apply_patch", "^B")]
    index = Index([(Hook(**_fields(one, index_tool([text]))), one.on) for one, text in hooks])
    event = call("codex", "apply_patch", command=PATCH)
    assert [one.tool for one in index.find(event) if CLAUDE.applies(one, event)] == [
        "edit|Edit|write|Write",
        "apply_patch",
    ]
    for event in (call("codex", "apply_patch", command=PATCH), call("gemini", "mcp_db_query"), call("claude", "Bash")):
        for one, text in hooks:
            alone = Index([(Hook(**_fields(one, index_tool([text]))), one.on)])
            assert CLAUDE.applies(one, event) <= len(alone.find(event)), text
    event = call("gemini", "run_shell_command", command="ls")
    assert [one.own["matchers"] for one in index.find(event) if CLAUDE.applies(one, event)] == [["Bash"], ["^B"]]


def _fields(one: Hook, tool: str) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__} | {"tool": tool, "id": tool or "regex"}


def test_every_event_of_claude_code_has_patterns() -> None:
    for native in find("claude").capabilities:
        for text in patterns(native):
            check_pattern(text)
    assert patterns("PreToolUse") == ("tool:pre_execute",)
    assert "qwen:CwdChanged" in patterns("CwdChanged")


BASH, EDIT = ("claude", "Bash"), ("claude", "Edit")


@pytest.mark.req("I-06")
@rows(
    ("rule", "tool", "given", "fits"),
    [
        ("Bash", BASH, {"command": "ls"}, True),
        ("Bash(git *)", BASH, {"command": "git status"}, True),
        ("Bash(git *)", BASH, {"command": "git"}, True),
        ("Bash(git *)", BASH, {"command": "gitk"}, False),
        ("Bash(git *)", BASH, {"command": "cd x && GIT_DIR=y git push"}, True),
        ("Bash(git *)", BASH, {"command": "echo $(git log)"}, True),
        ("Bash(git *)", BASH, {"command": "/usr/bin/git status"}, True),
        ("Bash(git *)", BASH, {"command": "echo git"}, False),
        ("Bash(git *)", BASH, {"command": "echo $HOME"}, False),
        ("Bash(git push *)", BASH, {"command": "git $ACTION now"}, True),
        ("Bash(git push *)", BASH, {"command": "$GIT status"}, True),
        ("Bash(git push *)", BASH, {"command": "git status"}, False),
        ("Bash(npm run test:*)", BASH, {"command": "npm run test -- -x"}, True),
        ("Bash(npm run test)", BASH, {"command": "npm run tests"}, False),
        ("Bash(./deploy.sh *)", BASH, {"command": "./deploy.sh prod"}, True),
        ("Bash(* --force)", BASH, {"command": "git push --force"}, True),
        ("Bash(echo \\*)", BASH, {"command": "echo x"}, False),
        ("Bash(git *)", BASH, {"command": "if then ((("}, True),
        ("Bash(git *)", BASH, {}, True),
        ("Bash(git *)", ("gemini", "run_shell_command"), {"command": "git status"}, True),
        ("Bash(git *)", EDIT, {"file_path": "git x"}, False),
        ("Edit(src/**)", EDIT, {"file_path": "/p/src/a/b.py"}, True),
        ("Edit(src/**)", EDIT, {"file_path": "/p/lib/b.py"}, False),
        ("Edit(*.ts)", EDIT, {"file_path": "/p/lib/b.ts"}, True),
        ("Edit(/src/*)", EDIT, {"file_path": "/p/src/a.py"}, True),
        ("Edit(./a.py)", EDIT, {"file_path": "/p/a.py"}, True),
        ("Edit(./a.py)", EDIT, {"file_path": "/p/x/a.py"}, False),
        ("Edit(//etc/**)", EDIT, {"file_path": "/etc/hosts"}, True),
        ("Edit(//etc/**)", EDIT, {"file_path": "/p/src/../../etc/hosts"}, True),
        ("Edit(src/**)", ("gemini", "replace"), {"file_path": "src/a.py"}, True),
        ("Edit(b.py)", ("codex", "apply_patch"), {"command": PATCH}, True),
        ("Write(b.py)", ("codex", "apply_patch"), {"command": PATCH}, True),
        ("Edit(c.py)", ("codex", "apply_patch"), {"command": PATCH}, False),
        ("WebFetch(domain:example.com)", ("claude", "WebFetch"), {"url": "https://example.com/x"}, True),
        ("WebFetch(domain:example.com)", ("claude", "WebFetch"), {"url": "https://example.com.evil.io"}, False),
        ("WebFetch(domain:*.example.com)", ("claude", "WebFetch"), {"url": "https://a.example.com"}, True),
        ("Agent(Explore)", ("claude", "Agent"), {"subagent_type": "Explore", "prompt": "p"}, True),
        ("Task(Explore)", ("claude", "Agent"), {"subagent_type": "Plan", "prompt": "p"}, False),
        ("mcp__db__*", ("claude", "mcp__db__query"), {}, True),
        ("mcp__db", ("gemini", "mcp_db_query"), {}, True),
        ("mcp__db", ("claude", "mcp__dbx__query"), {}, False),
    ],
)
def test_an_if_rule_fits_or_opens_on_doubt(rule: str, tool: tuple[str, str], given: dict[str, Any], fits: bool) -> None:
    event = call(*tool, **given)
    assert holds(rule, event) is fits
    assert CLAUDE.applies(hook(**{"if": rule}), event) is fits


@pytest.mark.parametrize("rule", ["", "Bash(git *", "Bash|Edit", "tool_input.command matches 'x'", "Edit(\0)"])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(PatternError):
        parse_rule(rule)


def test_an_if_never_holds_where_there_is_no_tool() -> None:
    assert not CLAUDE.applies(hook("Stop", **{"if": "Bash"}), Event(type="agent:stop", source="claude", native="Stop"))


@pytest.mark.req("I-02")
@rows("path", sorted(GOLDEN.glob("*-*.json")), ids=lambda path: path.stem)
def test_claude_codes_own_payload_arrives_as_it_came(path: Path) -> None:
    given = json.loads(path.read_bytes())
    native = given.get("hook_event_name")
    if not isinstance(native, str):
        pytest.fail(f"{path.name} names no event")
    event = find("claude").read(native, path.read_bytes())
    raw = CLAUDE.stdin(hook(native), event)
    assert json.loads(raw) == given
    assert raw.endswith(b"\n")
    assert raw.count(b"\n") == 1


def test_a_lone_surrogate_goes_through() -> None:
    event = find("claude").read("UserPromptSubmit", b'{"hook_event_name":"UserPromptSubmit","prompt":"\\ud83d"}')
    assert json.loads(CLAUDE.stdin(hook("UserPromptSubmit"), event))["prompt"] == "\ud83d"


def test_what_another_hook_changed_is_what_is_shown() -> None:
    event = call("claude", "Edit", file_path="a", old_string="x", new_string="y")
    changed = changed_event(event, {"path": "/etc/passwd"})
    assert shown(changed)["tool_input"] == {"file_path": "/etc/passwd", "old_string": "x", "new_string": "y"}
    assert shown(event) == event.raw


@pytest.mark.req("X-01", "I-02")
def test_another_agents_call_comes_in_claude_codes_words() -> None:
    event = call("gemini", "run_shell_command", command="ls", dir_path="sub", description="list")
    assert shown(event) == {
        "session_id": "s1",
        "transcript_path": "",
        "cwd": "/p",
        "hook_event_name": "PreToolUse",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": "ls", "cwd": "sub", "description": "list"},
        "fleethook": {"source": "gemini", "event": "BeforeTool", "tool": "run_shell_command", "raw": event.raw},
    }
    event = call("codex", "apply_patch", command=PATCH)
    given = shown(event, matchers=["Write"])
    assert given["tool_name"] == "Write"
    given = shown(event, matchers=["Edit|Write"])
    assert given["tool_name"] == "Edit"
    assert given["tool_input"] == {
        "file_path": "src/a.py",
        "paths": ["src/a.py", "b.py"],
        "old_string": "old\nsame",
        "new_string": "new\nsame",
        "patch": PATCH,
    }
    assert shown(event, matchers=["apply_patch"])["tool_name"] == "apply_patch"
    created = call("codex", "apply_patch", command="*** Begin Patch\n*** Add File: n\n+one\n+two\n*** End Patch")
    assert shown(created, matchers=["Write"])["tool_input"]["content"] == "one\ntwo\n"


@pytest.mark.req("X-01", "I-02")
@pytest.mark.parametrize(
    ("output", "stdout"),
    [("done", "done"), ({"llmContent": "done", "returnDisplay": ""}, "done"), ([{"text": "a"}, {"text": "b"}], "a\nb")],
)
def test_a_result_comes_as_claude_codes_shell_gives_it(output: object, stdout: str) -> None:
    event = Event(
        type="tool:post_execute",
        source="gemini",
        native="AfterTool",
        tool="bash",
        native_tool="run_shell_command",
        output=output,
    )
    expected = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    assert shown(event, "PostToolUse")["tool_response"] == expected
    assert shown(event, "PostToolUse", ion=True)["tool_output"] == stdout


@pytest.mark.req("I-02")
def test_other_moments_have_their_fields() -> None:
    base: dict[str, Any] = {"source": "gemini", "session": "s1", "cwd": "/p"}
    prompt = Event(type="user:prompt_submit", native="BeforeAgent", data={"prompt": "hi"}, **base)
    assert shown(prompt, "UserPromptSubmit")["prompt"] == "hi"
    assert shown(prompt, "UserPromptSubmit", ion=True)["event"] == "UserPromptSubmit"
    stop = shown(Event(type="agent:stop", data={"prompt_response": "bye"}, **base), "Stop")
    assert (stop["stop_hook_active"], stop["last_assistant_message"]) == (False, "bye")
    compact = shown(Event(type="context:pre_compact", **base), "PreCompact")
    assert (compact["trigger"], compact["custom_instructions"]) == ("auto", None)
    assert shown(Event(type="session:start", data={"later": 1}, **base), "SessionStart")["later"] == 1


@pytest.mark.req("I-07")
def test_the_environment_of_both_systems() -> None:
    event = Event(
        type="tool:pre_execute",
        source="claude",
        session="s1",
        cwd="/p",
        data={"model": {"name": "m1", "provider": "acme"}, "effort": {"level": "high"}},
    )
    own = {"root": "/plugins/x", "data": "/data/x", "project": "/proj"}
    claude = dict(CLAUDE.variables(hook(**own), event))
    assert claude == {
        "CLAUDE_PROJECT_DIR": "/proj",
        "CLAUDE_PLUGIN_ROOT": "/plugins/x",
        "PLUGIN_ROOT": "/plugins/x",
        "CLAUDE_PLUGIN_DATA": "/data/x",
        "CLAUDE_CODE_SESSION_ID": "s1",
        "CLAUDECODE": "1",
        "CLAUDE_EFFORT": "high",
    }
    ion = dict(ION.variables(hook(**own), event))
    assert {name: value for name, value in ion.items() if name not in claude} == {
        "ION_SESSION_ID": "s1",
        "ION_CWD": "/p",
        "ION_MODEL": "m1",
        "ION_PROVIDER": "acme",
    }
    assert CLAUDE.variables(hook(), event)["CLAUDE_PROJECT_DIR"] == "/p"


@pytest.mark.req("X-09", "X-01")
def test_a_patch_in_a_shell_command_is_an_edit_to_hooks_for_edits_and_a_command_to_others() -> None:
    """Codex carries it out as an edit of each file."""
    patch = "*** Begin Patch\n*** Update File: .env\n@@\n-a\n+b\n*** Add File: new.py\n+x = 1\n*** End Patch"
    command = f"cd sub && apply_patch <<'EOF'\n{patch}\nEOF\n"
    event = call("codex", "Bash", command=command)
    edits, shell = hook(matchers=["Edit|Write"]), hook(matchers=["Bash"])
    assert CLAUDE.applies(edits, event)
    assert CLAUDE.applies(shell, event)
    told = [tool_input(one, tool_name_for_hook(one, ["Edit|Write"])) for one in calls(edits, event)]
    assert [one["file_path"] for one in told] == ["sub/.env", "sub/new.py"]
    assert (told[0]["old_string"], told[0]["new_string"]) == ("a", "b")
    (alone,) = calls(shell, event)
    assert tool_input(alone, tool_name_for_hook(alone, ["Bash"])) == {"command": command}
    assert not CLAUDE.applies(edits, call("codex", "Bash", command="cat <<'EOF'\nnothing\nEOF"))
