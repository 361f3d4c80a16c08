"""Forge's Python API as a program of Forge's users calls it: only the import line is another one."""

from __future__ import annotations

import fnmatch
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.errors import ConfigError
from bus.forge import (
    EventType,
    Hook,
    HookConfig,
    HookEvent,
    HookRegistry,
    HookResult,
)
from tests.support.examples import examples
from tests.support.rows import rows

BASH = HookEvent.tool_pre_execute("bash", {"command": "ls -la"}, session_id="s1")


def registry(*hooks: Hook) -> HookRegistry:
    """A registry with these hooks."""
    made = HookRegistry()
    for hook in hooks:
        made.register(hook)
    return made


# --- Events


@pytest.mark.req("F-01")
def test_event_types_have_their_names() -> None:
    assert EventType.TOOL_PRE_EXECUTE.value == "tool:pre_execute"
    assert EventType("user:interrupt") is EventType.USER_INTERRUPT
    with pytest.raises(ValueError, match="no:such"):
        HookEvent("no:such")  # type: ignore[arg-type]  # what a program may do


@pytest.mark.req("F-02", "F-07")
def test_an_event_as_environment_and_json() -> None:
    assert BASH.to_env() == {
        "FORGE_EVENT": "tool:pre_execute",
        "FORGE_TIMESTAMP": str(BASH.timestamp),
        "FORGE_SESSION_ID": "s1",
        "FORGE_TOOL_NAME": "bash",
        "FORGE_TOOL_ARGS": '{"command": "ls -la"}',
    }
    assert json.loads(BASH.to_json()) == {
        "type": "tool:pre_execute",
        "timestamp": BASH.timestamp,
        "data": {"tool_args": {"command": "ls -la"}},
        "tool_name": "bash",
        "session_id": "s1",
    }
    plain = HookEvent(EventType.SESSION_START, 12.5)
    assert (plain.timestamp, plain.data, plain.tool_name, plain.session_id) == (12.5, {}, None, None)
    assert plain.to_env() == {"FORGE_EVENT": "session:start", "FORGE_TIMESTAMP": "12.5"}
    odd = HookEvent(EventType.TOOL_ERROR, data={"event": "x", "a-b": None, "path": Path("/x"), "raw": b"r", "n": "\0"})
    assert odd.to_env()["FORGE_EVENT"] == "tool:error", "no field takes the place of the event's own"
    assert (odd.to_env()["FORGE_A_B"], odd.to_env()["FORGE_PATH"], odd.to_env()["FORGE_N"]) == ("None", "/x", "")
    assert json.loads(odd.to_json())["data"]["raw"] == "r"


@pytest.mark.req("F-02", "F-07")
@rows(
    ("event", "variables"),
    [
        (HookEvent.tool_post_execute("bash", {}, {"ok": True}), {"FORGE_TOOL_RESULT": '{"ok": true}'}),
        (HookEvent.tool_error("bash", {}, "boom"), {"FORGE_ERROR": "boom"}),
        (HookEvent.llm_pre_request("m", 3), {"FORGE_LLM_MODEL": "m", "FORGE_MESSAGE_COUNT": "3"}),
        (HookEvent.llm_post_response("m", 15), {"FORGE_LLM_MODEL": "m", "FORGE_LLM_TOKENS": "15"}),
        (HookEvent.llm_stream_start("m"), {"FORGE_LLM_MODEL": "m"}),
        (HookEvent.llm_stream_end("m", 7), {"FORGE_LLM_TOKENS": "7"}),
        (HookEvent.session_start("s"), {"FORGE_SESSION_ID": "s"}),
        (HookEvent.session_end("s"), {"FORGE_SESSION_ID": "s"}),
        (HookEvent.session_message("s", "user", "hi"), {"FORGE_MESSAGE_ROLE": "user"}),
        (HookEvent.permission_check("bash", "ask", "r1"), {"FORGE_PERM_LEVEL": "ask", "FORGE_PERM_RULE": "r1"}),
        (HookEvent.permission_prompt("bash", "ask"), {"FORGE_PERM_LEVEL": "ask"}),
        (HookEvent.permission_granted("bash"), {"FORGE_TOOL_NAME": "bash"}),
        (HookEvent.permission_denied("bash"), {"FORGE_TOOL_NAME": "bash"}),
        (HookEvent.user_prompt_submit("do it"), {"FORGE_USER_INPUT": "do it"}),
        (HookEvent.user_interrupt("s"), {"FORGE_EVENT": "user:interrupt"}),
    ],
)
def test_every_kind_of_event(event: HookEvent, variables: dict[str, str]) -> None:
    assert event.to_env().items() >= variables.items()


# --- Hooks and patterns


@pytest.mark.req("F-03")
def test_a_hook_and_its_entry() -> None:
    hook = Hook("tool:*", "true")
    assert (hook.timeout, hook.working_dir, hook.env, hook.enabled, hook.description) == (10.0, None, {}, True, "")
    assert hook.to_dict() == {"event": "tool:*", "command": "true"}
    full = Hook("tool:*", "true", 2.5, "/w", {"A": "1"}, enabled=False, description="d")
    assert full.to_dict() == {
        "event": "tool:*",
        "command": "true",
        "timeout": 2.5,
        "working_dir": "/w",
        "env": {"A": "1"},
        "enabled": False,
        "description": "d",
    }
    assert [Hook.from_dict(one.to_dict()) for one in (hook, full)] == [hook, full]
    assert Hook.from_dict({"event": "*", "command": "x", "env": None}).env == {}
    bad: list[dict[str, Any]] = [
        {},
        {"event": "*"},
        {"event": 1, "command": ""},
        {"event": "*", "command": "x", "timeout": "5"},
    ]
    for entry in bad:
        with pytest.raises(ConfigError):
            Hook.from_dict(entry)


@pytest.mark.req("F-04")
@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        ("tool:pre_execute", ["tool:pre_execute bash", "tool:pre_execute"], ["tool:post_execute bash"]),
        ("tool:*", ["tool:error x", "tool:pre_execute"], ["llm:pre_request"]),
        (
            "tool:pre_execute:bash",
            ["tool:pre_execute bash"],
            ["tool:pre_execute read", "tool:pre_execute", "tool:error bash"],
        ),
        ("tool:*:write", ["tool:pre_execute write", "tool:error write"], ["tool:pre_execute bash"]),
        ("session:start,session:end", ["session:start", "session:end"], ["session:message"]),
        ("*", ["tool:error x", "user:interrupt"], []),
        ("tool:pre_execute:b*", ["tool:pre_execute bash"], ["tool:pre_execute read"]),
        ("no:such", [], ["tool:error", "session:start"]),
        ("test", [], ["tool:error"]),
    ],
)
def test_a_pattern_fits(pattern: str, fits: list[str], not_fits: list[str]) -> None:
    def event(text: str) -> HookEvent:
        kind, _, tool = text.partition(" ")
        return HookEvent(EventType(kind), tool_name=tool or None)

    hook = Hook(pattern, "true")
    assert [hook.matches(event(text)) for text in fits] == [True] * len(fits)
    assert [hook.matches(event(text)) for text in not_fits] == [False] * len(not_fits)


# --- The registry


@pytest.mark.req("F-05")
def test_a_registry_registers_finds_and_forgets(caplog: pytest.LogCaptureFixture) -> None:
    first, second, other = Hook("tool:*", "1"), Hook("tool:pre_execute:bash", "2"), Hook("session:*", "3")
    made = registry(first, second, other, Hook("tool:pre_execute", "4", enabled=False), Hook("tool:pre_exekute", "5"))
    assert "did you mean 'tool:pre_execute'" in caplog.text
    assert (made.get_hooks(BASH), len(made), made.hooks[0], list(made)[2]) == ([first, second], 5, first, other)
    made.hooks[3].enabled = True
    assert [hook.command for hook in made.get_hooks(BASH)] == ["1", "2", "4"]
    assert made.unregister("tool:*") is True
    assert made.unregister("tool:*") is False
    assert [hook.command for hook in made.get_hooks(BASH)] == ["2", "4"]
    made.register(first)
    assert [hook.command for hook in made.get_hooks(BASH)] == ["2", "4", "1"], "in the order of registration"
    made.clear()
    assert (made.get_hooks(BASH), made.hooks) == ([], [])

    shared = HookRegistry.get_instance()
    try:
        assert HookRegistry.get_instance() is shared is not HookRegistry()
    finally:
        HookRegistry.reset_instance()
    assert HookRegistry.get_instance() is not shared
    HookRegistry.reset_instance()


PATTERNS = [
    "*",
    "tool:*",
    "tool:pre_execute",
    "tool:pre_execute:bash",
    "tool:*:write",
    "tool:post_execute:wr*",
    "session:start",
    "session:start,session:end",
    "llm:*",
    "tool:error,llm:*",
    "tool:pre_execute:read,tool:pre_execute:bash",
]


def _forge_says(pattern: str, event: HookEvent) -> bool:
    """F-04 in its plainest form, one pattern after the other."""
    kind = event.type.value
    whole = f"{kind}:{event.tool_name}" if event.tool_name else kind
    return any(fnmatch.fnmatchcase(name, part) for part in pattern.split(",") for name in (kind, whole))


@pytest.mark.req("F-04", "F-05")
@settings(max_examples=examples(80))
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["register", "register", "register", "unregister", "look"]), st.sampled_from(PATTERNS)
        ),
        max_size=25,
    ),
    kind=st.sampled_from(list(EventType)[:16]),
    tool=st.sampled_from([None, "bash", "write", "read"]),
)
def test_the_order_of_registration_whatever_happens(
    steps: list[tuple[str, str]], kind: EventType, tool: str | None
) -> None:
    event = HookEvent(kind, tool_name=tool)
    made, kept = HookRegistry(), list[Hook]()
    for number, (step, pattern) in enumerate(steps):
        if step == "register":
            kept.append(Hook(pattern, str(number)))
            made.register(kept[-1])
        elif step == "unregister":
            assert made.unregister(pattern) == any(hook.event_pattern == pattern for hook in kept)
            kept = [hook for hook in kept if hook.event_pattern != pattern]
        assert made.get_hooks(event) == [hook for hook in kept if _forge_says(hook.event_pattern, event)]
    assert made.hooks == kept
    for hook in kept:
        assert hook.matches(event) == _forge_says(hook.event_pattern, event)


@pytest.mark.req("F-05", "F-16")
def test_ten_thousand_other_hooks_cost_nothing() -> None:
    """Ten hooks are found among 10,000 others as fast as alone, and the last hook is registered as fast as the first."""

    def fastest(work: Any) -> float:
        times = []
        for _ in range(20):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    mine = [Hook("tool:pre_execute:bash", str(number)) for number in range(10)]
    small, large = registry(*mine), registry(*(Hook(f"tool:pre_execute:t{n}", "") for n in range(10_000)), *mine)
    assert small.get_hooks(BASH) == large.get_hooks(BASH) == mine
    assert fastest(lambda: large.get_hooks(BASH)) < 20 * fastest(lambda: small.get_hooks(BASH)), "not 1,000 times"
    new = Hook("tool:pre_execute:other", "")
    assert fastest(lambda: large.register(new)) < 50 * fastest(lambda: small.register(new))


# --- Results


@pytest.mark.req("F-06")
@pytest.mark.parametrize(
    ("code", "more", "success", "goes_on"),
    [
        (0, {}, True, True),
        (1, {}, False, False),
        (2, {}, False, False),
        (126, {}, False, True),
        (127, {}, False, True),
        (-1, {"timed_out": True}, False, True),
        (-9, {}, False, True),
        (0, {"error": "x"}, False, True),
    ],
)
def test_what_an_ending_means(code: int, more: dict[str, Any], success: bool, goes_on: bool) -> None:
    result = HookResult(hook=Hook("*", "x"), exit_code=code, stdout="", stderr="", duration=0.1, **more)
    assert (result.success, result.should_continue) == (success, goes_on)


# --- Files


@pytest.mark.req("F-11", "F-13", "F-18")
def test_files_are_read_in_layers_and_bad_entries_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert HookConfig.load_global() == HookConfig.get_default_hooks() == HookConfig.load_project(None) == []

    def write(name: str, *entries: Any) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"hooks": entries}) if entries else "{", encoding="utf-8")

    write(".config/src/forge/hooks.json", {"event": "session:start", "command": "one"})
    write(
        ".config/forge/hooks.json",
        {"event": "tool:pre_exekute", "command": "bad"},
        {"command": "no event"},
        {
            "event": "tool:*:write,session:end",
            "command": "two",
            "timeout": 2.5,
            "env": {"A": "1"},
            "enabled": False,
            "description": "d",
            "working_dir": "sub",
        },
    )
    assert HookConfig.load_global() == [
        Hook("session:start", "one"),
        Hook("tool:*:write,session:end", "two", 2.5, "sub", {"A": "1"}, enabled=False, description="d"),
    ]
    assert caplog.text.count("a hook is skipped") == 2
    assert "did you mean" in caplog.text
    write("work/.src/forge/hooks.json", {"event": "*", "command": "three"})
    write("work/.forge/hooks.json")
    (tmp_path / "work/deep/down").mkdir(parents=True)
    assert HookConfig.load_project(tmp_path / "work/deep/down") == [Hook("*", "three")]
    assert "no hook of" in caplog.text
    assert [hook.command for hook in HookConfig.load_all(tmp_path / "work")] == ["one", "two", "three"]


@pytest.mark.req("F-13")
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    hooks = [Hook("tool:*", "é 'x' \"y\""), Hook("session:start", "b", 0.5, "~/w", {"A": "1"}, description="d")]
    HookConfig.save_global(hooks)
    assert (tmp_path / ".config/forge/hooks.json").is_file()
    assert HookConfig.load_global() == hooks
    project = tmp_path / "p"
    (project / ".src/forge").mkdir(parents=True)
    for name in (".src/forge/hooks.json", ".forge/hooks.json"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text('{"hooks":[{"event":"*","command":"old"}]}')
    HookConfig.save_project(project, hooks[:1])
    assert HookConfig.load_project(project) == hooks[:1], "also where Forge has two files"
    assert HookConfig.load_global() == hooks


@pytest.mark.req("F-13", "F-03")
def test_saving_what_was_loaded_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "p"
    first = {
        "hooks": [{"event": "session:start", "command": "one", "enabled": True, "timeout": 10}],
        "version": 1,
        "x": [1],
    }
    second = [
        {
            "event": "tool:*:write, session:end",
            "command": "two",
            "can_block": False,
            "env_pass": ["A"],
            "own": {"b": 1},
        },
        {"event": "tool:pre_exekute", "command": "bad"},
        {"command": "no event"},
        {"event": "*", "command": "off", "enabled": False, "timeout": 2, "stop_on_failure": True},
    ]
    files = {".src/forge/hooks.json": first, ".forge/hooks.json": second}
    for name, content in files.items():
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text(json.dumps(content), encoding="utf-8")
    (project / "deep").mkdir()
    for root in (project, project / "deep"):
        HookConfig.save_project(root, HookConfig.load_project(root))
        assert {name: json.loads((project / name).read_text()) for name in files} == files
    loaded = HookConfig.load_project(project)
    loaded[2].enabled, loaded[2].timeout = True, 3.0
    HookConfig.save_project(project, [*loaded, Hook("user:interrupt", "new")])
    (off, new) = json.loads((project / ".forge/hooks.json").read_text())[3:]
    assert off == {"event": "*", "command": "off", "timeout": 3.0, "stop_on_failure": True}
    assert new == {"event": "user:interrupt", "command": "new"}


@pytest.mark.req("F-13")
def test_a_file_that_cannot_be_read_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / ".forge/hooks.json"
    path.parent.mkdir()
    path.write_text("{half")
    HookConfig.save_project(tmp_path, [Hook("*", "new")])
    assert HookConfig.load_project(tmp_path) == [Hook("*", "new")]
    assert path.with_name("hooks.json.unreadable").read_text() == "{half"
    path.write_text('{"hooks": {"tool:*": ["of another form"]}}')
    HookConfig.save_project(tmp_path, HookConfig.load_project(tmp_path))
    assert "another form" in path.with_name("hooks.json.unreadable").read_text()


@pytest.mark.req("F-13")
def test_saving_keeps_a_file_s_mode_and_its_link(tmp_path: Path) -> None:
    path, real = tmp_path / ".forge/hooks.json", tmp_path / "dotfiles.json"
    path.parent.mkdir()
    real.write_text('{"hooks": [{"event": "*", "command": "x", "enabled": null, "env": {"KEY": "k"}}]}')
    real.chmod(0o600)
    path.symlink_to(real)
    (loaded,) = HookConfig.load_project(tmp_path)
    assert loaded.enabled is True, "null is the default, as on the bus"
    HookConfig.save_project(tmp_path, [loaded, Hook("*", "new")])
    assert path.is_symlink()
    assert len(json.loads(real.read_text())["hooks"]) == 2
    assert real.stat().st_mode & 0o777 == 0o600


@pytest.mark.req("F-05")
def test_the_list_of_hooks_is_live() -> None:
    made = HookRegistry()
    first, second = Hook("tool:pre_execute", "1"), Hook("*", "2")
    made.register(first)
    assert made.hooks is made.hooks
    made.hooks.append(second)
    assert made.get_hooks(BASH) == [first, second]
    made.hooks.reverse()
    assert made.get_hooks(BASH) == [second, first]
    made.hooks[0] = Hook("session:end", "3")
    assert made.get_hooks(BASH) == [first]
    made.hooks[0].event_pattern = "tool:*:bash"
    assert [hook.command for hook in made.get_hooks(BASH)] == ["3", "1"], "a hook's own change counts too"
    del made.hooks[:]
    assert (made.get_hooks(BASH), len(made)) == ([], 0)
    made.hooks = [second]
    made.hooks.append(first)
    assert made.get_hooks(BASH) == [second, first]
