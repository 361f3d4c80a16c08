"""Forge's hooks: what a hooks.json means, what a hook is given, and what its ending amounts to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.agents import find
from bus.config.hook_file_value import HookFile, from_document, to_document
from bus.errors import ConfigError
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hookfiles.command_results import log_ending
from bus.hookfiles.forge import event_fields
from bus.hookfiles.locations import forge_files, forge_global_files, forge_project_files, forge_project_root
from bus.hooks import Hook, Layer
from bus.hooksets.in_force import HookSet, Layered
from bus.shell.quoting import literal_variables
from bus.system.processes import Finished

FORGE = find_hooks("forge")
BASH = Event(
    type="tool:pre_execute",
    source="gemini",
    native="BeforeTool",
    tool="bash",
    native_tool="run_shell_command",
    session="s1",
    cwd="/p",
    time=1_763_000_000_500,
    input={"command": "ls -la", "directory": "sub", "cwd": "sub"},
    raw={"tool_name": "run_shell_command"},
)


def read(folder: Path, hooks: object, layer: Layer = "user") -> HookFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hooks.json"
    path.write_text(hooks if isinstance(hooks, str) else json.dumps(hooks))
    return FORGE.read(path, layer)


def one(folder: Path, event: str = "tool:pre_execute", **entry: Any) -> Hook:
    (hook,) = read(folder, {"hooks": [{"event": event, "command": "true", **entry}]}).hooks
    return hook


@pytest.mark.req("F-03", "F-11", "F-18")
def test_an_entry_with_everything_and_one_with_the_defaults(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {
            "hooks": [
                {
                    "event": "tool:pre_execute:bash, session:start",
                    "command": "x",
                    "timeout": 2.5,
                    "working_dir": "sub",
                    "env": {"A": "1"},
                    "enabled": False,
                    "description": "Say: no!",
                    "stop_on_failure": True,
                    "can_block": True,
                },
                {"event": "*", "command": "y"},
            ]
        },
    )
    full, plain = file.hooks
    assert (
        full.id,
        full.on,
        full.timeout,
        full.working_dir,
        full.env,
        full.enabled,
        full.stop_on_failure,
        full.own,
    ) == (
        "forge-say-no",
        ("tool:pre_execute:bash", "session:start"),
        2.5,
        "sub",
        {"A": "1"},
        False,
        True,
        {"can_block": True},
    )
    assert (
        plain.timeout,
        plain.working_dir,
        plain.enabled,
        plain.blocking,
        plain.stop_on_failure,
        plain.on_failure,
    ) == (10.0, "", True, True, False, None)
    assert (plain.dialect, plain.position, plain.origin, FORGE.policy) == (
        "forge",
        1,
        f"{tmp_path}/hooks.json:1",
        "allow",
    )
    assert (file.problems, file.warnings) == ((), ())
    assert read(tmp_path, [{"event": "*", "command": "y"}]).hooks[0].command == "y"
    assert from_document(json.loads(json.dumps(to_document(file)))).hooks[0].own == {"can_block": True}


@pytest.mark.req("F-04", "X-01")
@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("tool:pre_execute", "bash-pre write-pre"),
        ("tool:*", "bash-pre write-pre write-post"),
        ("tool:pre_execute:bash", "bash-pre"),
        ("tool:*:write", "write-pre write-post"),
        ("session:start,tool:pre_execute:write", "write-pre start"),
        ("*", "bash-pre write-pre write-post start"),
    ],
)
def test_patterns_fit_events_of_any_agent(tmp_path: Path, pattern: str, fits: str) -> None:
    hooks = HookSet([Layered("user", "1", read(tmp_path, [{"event": pattern, "command": "true"}]))])
    events = {
        "bash-pre": BASH,
        "write-pre": Event(type="tool:pre_execute", source="claude", tool="write", native_tool="Write"),
        "write-post": Event(type="tool:post_execute", source="opencode", tool="write", native_tool="write"),
        "start": Event(type="session:start", source="codex"),
    }
    assert [name for name, event in events.items() if hooks.blocking(event)] == fits.split()


@pytest.mark.req("F-07", "F-08", "X-01")
def test_what_a_hook_before_a_tool_is_given(tmp_path: Path) -> None:
    given = dict(FORGE.variables(one(tmp_path), BASH))
    assert json.loads(given["FORGE_TOOL_ARGS"]) == {"command": "ls -la", "cwd": "sub"}
    assert given.pop("TOOL_ARGS") == given.pop("FORGE_TOOL_ARGS")
    assert given == {
        "FORGE_EVENT": "tool:pre_execute",
        "EVENT_TYPE": "tool:pre_execute",
        "FORGE_SESSION_ID": "s1",
        "FORGE_TIMESTAMP": "1763000000.5",
        "FORGE_WORKING_DIR": "/p",
        "FORGE_TOOL_NAME": "bash",
        "TOOL_NAME": "bash",
    }


@pytest.mark.req("F-07")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            Event(type="tool:post_execute", tool="bash", output={"stdout": "a"}),
            {"FORGE_TOOL_RESULT": '{"stdout": "a"}'},
        ),
        (Event(type="tool:post_execute", tool="bash", output="text"), {"FORGE_TOOL_RESULT": "text"}),
        (Event(type="llm:pre_request", data={"llm_request": {"model": "g"}}), {"FORGE_LLM_MODEL": "g"}),
        (
            Event(type="llm:post_response", data={"llm_model": "m", "llm_tokens": 12}),
            {"FORGE_LLM_MODEL": "m", "FORGE_LLM_TOKENS": "12"},
        ),
        (
            Event(type="llm:post_response", data={"llm_response": {"usageMetadata": {"totalTokenCount": 7}}}),
            {"FORGE_LLM_MODEL": "", "FORGE_LLM_TOKENS": "7"},
        ),
        (
            Event(type="llm:stream_end", data={"model": "m", "usage": {"input_tokens": 3, "output_tokens": 4}}),
            {"FORGE_LLM_MODEL": "m", "FORGE_LLM_TOKENS": "7"},
        ),
        (
            Event(type="permission:check", data={"perm_level": "ask", "perm_rule": "bash:*"}),
            {"FORGE_PERM_LEVEL": "ask", "FORGE_PERM_RULE": "bash:*"},
        ),
        (Event(type="permission:denied", data={"reason": "x"}), {"FORGE_PERM_LEVEL": "deny", "FORGE_PERM_RULE": ""}),
        (Event(type="session:start"), {}),
    ],
)
def test_what_the_other_kinds_of_events_add(tmp_path: Path, event: Event, expected: dict[str, str]) -> None:
    given = FORGE.variables(one(tmp_path), event)
    common = {"FORGE_EVENT", "EVENT_TYPE", "FORGE_SESSION_ID", "FORGE_WORKING_DIR", "FORGE_TIMESTAMP"}
    tool = {"FORGE_TOOL_NAME", "TOOL_NAME", "FORGE_TOOL_ARGS", "TOOL_ARGS"}
    assert {name: value for name, value in given.items() if name not in common | tool} == expected
    assert bool(tool & set(given)) == bool(event.tool)


@pytest.mark.req("F-02", "F-07")
def test_the_event_on_stdin_has_forge_s_shape(tmp_path: Path) -> None:
    raw = FORGE.stdin(one(tmp_path), BASH)
    assert raw.endswith(b"}\n")
    assert json.loads(raw) == {
        "type": "tool:pre_execute",
        "timestamp": 1_763_000_000.5,
        "tool_name": "bash",
        "session_id": "s1",
        "data": {
            "tool_args": {"command": "ls -la", "cwd": "sub"},
            "fleethook": {
                "source": "gemini",
                "event": "BeforeTool",
                "tool": "run_shell_command",
                "raw": {"tool_name": "run_shell_command"},
            },
        },
    }
    post = event_fields(Event(type="tool:post_execute", source="forge", tool="bash", output={"ok": 1}, data={"x": 1}))
    assert post["data"] == {"x": 1, "tool_args": {}, "tool_result": {"ok": 1}}
    assert (
        event_fields(Event(type="tool:error", source="forge", tool="bash", data={"error": "e"}))["data"]["error"] == "e"
    )
    prompt = event_fields(Event(type="user:prompt_submit", source="forge", data={"prompt": "hi"}))
    assert (prompt["data"]["user_input"], prompt["tool_name"], prompt["session_id"]) == ("hi", None, None)
    assert prompt["timestamp"] > 1_763_000_000


SILENT = "hook 'forge-tool-pre_execute' blocks it"


@pytest.mark.req("F-10")
@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (Finished(exit_code=1, stdout=b"out", stderr=b" no sudo \n"), "no sudo"),
        (Finished(exit_code=1, stdout=b" sudo blocked by hook\n"), "sudo blocked by hook"),
        (Finished(exit_code=2, stdout=b'{"reason": "in json", "command": "x"}'), "in json"),
        (Finished(exit_code=3, stdout=b'{"command": "x"}'), f"{SILENT} (exit 3) and gives no reason"),
        (Finished(exit_code=1, stdout=b'{"broken": '), '{"broken":'),
        (Finished(exit_code=255), f"{SILENT} (exit 255) and gives no reason"),
    ],
)
def test_before_a_tool_a_non_zero_exit_blocks_with_its_reason(tmp_path: Path, done: Finished, reason: str) -> None:
    got = FORGE.outcome(one(tmp_path), BASH, done, 10)
    assert (got.decision, got.reason, got.failure, got.updated_input) == ("deny", reason, "", None)


@pytest.mark.req("F-11")
@pytest.mark.parametrize(
    ("done", "why"),
    [
        (Finished(exit_code=127, stderr=b"sh: x: not found"), "failed, command not found: exit 127 (sh: x: not found)"),
        (Finished(exit_code=126), "failed, command not executable: exit 126"),
        (Finished(exit_code=1, timed_out=True), "timed out after 10.0 s"),
        (Finished(exit_code=1, timed_out=True, ms=2_040.0), "timed out after 2.0 s"),  # in the background it named less
        (Finished(signal=15, timed_out=True), "timed out after 10.0 s"),
        (Finished(signal=9), "was killed by SIGKILL"),
        (Finished(spawn_error="no memory"), "did not run: no memory"),
    ],
)
def test_what_is_no_block_is_a_failure_that_denies_nothing(tmp_path: Path, done: Finished, why: str) -> None:
    for hook in (one(tmp_path), one(tmp_path, can_block=True, stop_on_failure=True)):
        got = FORGE.outcome(hook, BASH, done, 10)
        assert (got.decision, got.failure) == ("abstain", f"hook {hook.id!r} ({hook.origin}) {why}")


@pytest.mark.req("F-10")
@pytest.mark.parametrize(
    ("event", "can_block", "decision"),
    [
        ("tool:pre_execute", None, "deny"),
        ("tool:pre_execute", True, "deny"),
        ("tool:pre_execute", False, "abstain"),
        ("user:prompt_submit", None, "abstain"),
        ("user:prompt_submit", True, "deny"),
        ("permission:check", True, "deny"),
        ("llm:pre_request", True, "deny"),
        ("tool:post_execute", True, "abstain"),
        ("agent:stop", True, "abstain"),
        ("session:end", True, "abstain"),
    ],
)
def test_other_events_that_come_before_something_block_on_request(
    tmp_path: Path, event: str, can_block: bool | None, decision: str
) -> None:
    hook = one(tmp_path, event, can_block=can_block)
    got = FORGE.outcome(hook, Event(type=event), Finished(exit_code=1, stderr=b"no"), 10)
    assert got.decision == decision
    assert bool(got.failure) == (decision == "abstain")


@pytest.mark.req("F-10")
@pytest.mark.parametrize(
    ("printed", "changed", "note"),
    [
        ('{"command": "ls"}', {"command": "ls"}, ""),
        ('{"tool_args": {"command": "ls", "timeout": 5}}', {"command": "ls", "timeout": 5}, ""),
        ('{"updated_input": {"command": "ls"}, "why": "shorter"}', {"command": "ls"}, ""),
        ('{"command": "ls -la", "cwd": "sub"}', None, ""),
        ('{"status": "ok"}', None, ""),
        ('{"command": "ls", "status": "ok"}', {"command": "ls"}, "names no fields of the tool: status"),
        ("all is well", None, ""),
        ('["command"]', None, ""),
        ('{"command": ', None, ""),
        ("", None, ""),
    ],
)
def test_json_on_stdout_is_the_changed_input(
    tmp_path: Path, printed: str, changed: dict[str, Any] | None, note: str
) -> None:
    got = FORGE.outcome(one(tmp_path), BASH, Finished(exit_code=0, stdout=printed.encode()), 10)
    assert (got.decision, got.updated_input, got.failure) == ("abstain", changed, "")
    assert got.note.endswith(note)
    assert bool(got.note) == bool(note)
    after = FORGE.outcome(
        one(tmp_path), Event(type="tool:post_execute", tool="bash"), Finished(exit_code=0, stdout=printed.encode()), 10
    )
    assert after.updated_input is None


@pytest.mark.req("F-10")
def test_a_field_of_the_tool_that_is_called_like_a_wrapper_is_the_field(tmp_path: Path) -> None:
    event = Event(
        type="tool:pre_execute",
        source="claude",
        tool="mcp__x__run",
        native_tool="mcp__x__run",
        input={"args": {"a": 1}},
    )
    got = FORGE.outcome(one(tmp_path), event, Finished(exit_code=0, stdout=b'{"args": {"a": 2}}'), 10)
    assert got.updated_input == {"args": {"a": 2}}


@pytest.mark.req("F-10")
def test_a_changed_input_that_is_cut_is_a_failure_and_not_half_a_change(tmp_path: Path) -> None:
    got = FORGE.outcome(one(tmp_path), BASH, Finished(exit_code=0, stdout=b'{"command": "', stdout_cut=9), 10)
    assert got.failure.endswith("printed a changed input of 22 bytes; 13 are read")
    talk = FORGE.outcome(one(tmp_path), BASH, Finished(exit_code=0, stdout=b"talk", stdout_cut=9), 10)
    assert talk.failure == ""


@pytest.mark.req("F-08")
@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("echo 'Running bash: $TOOL_ARGS'", ("TOOL_ARGS",)),
        ("echo 'a $EVENT_TYPE' \"it's $TOOL_NAME\" '${FORGE_EVENT}'", ("EVENT_TYPE", "FORGE_EVENT")),
        ('echo "$TOOL_ARGS" don\\\'t', ()),
        ("echo $TOOL_ARGS # don't '$TOOL_NAME'", ()),
        ("sh -c 'echo $TOOL_ARGS'", ()),
        ("sudo /bin/bash -ec 'echo $TOOL_ARGS'", ()),
        ("eval 'echo $TOOL_ARGS'; trap 'echo $TOOL_NAME' EXIT", ()),
        ("cat <<EOF\ndon't $TOOL_ARGS won't\nEOF", ()),
        ("awk '{print $1}'; jq '.$x'; echo '$HOME'", ()),
        ("python3 -c 'print(\"$TOOL_ARGS\")'", ("TOOL_ARGS",)),
        ("grep -c '$TOOL_NAME' file", ("TOOL_NAME",)),
    ],
)
def test_variables_in_single_quotes_are_said_with_the_mend(
    tmp_path: Path, command: str, names: tuple[str, ...]
) -> None:
    file = read(tmp_path, {"hooks": [{"event": "*", "command": command}]})
    assert len(file.hooks) == 1
    assert [warning.partition(": ")[2] for warning in file.warnings] == [
        f'${name} is in single quotes, so the shell does not fill it in; put it in double quotes: \\"${name}\\" in JSON'
        for name in names
    ]


def test_nobody_waits_long_for_a_look_at_quotes() -> None:
    assert literal_variables("a|" * 30_000 + "'$TOOL_ARGS'", lambda _: True) in ((), ("TOOL_ARGS",))


LATE = "such an event has already happened; leave it out, or use an earlier event"
BAD = """{
 "comment": "unknown",
 "hooks": [
  {"event": "session:start", "command": "good"},
  {"event": "tol:pre_execute", "command": "x"},
  {"event": "tool:pre_exec,tool:*", "command": "x"},
  {"event": "PreToolUse", "command": "x"},
  {"event": "", "command": "x"},
  {"command": "x"},
  {"event": "*"},
  {"event": "*", "command": ""},
  {"event": "*", "command": "x", "timeout": 0},
  {"event": "*", "command": "x", "timeout": "10s"},
  {"event": "*", "command": "x", "env": {"A": 1}},
  {"event": "*", "command": "x", "env": {"A-B": "1"}},
  {"event": ["*"], "command": "x"},
  {"event": "tool:post_execute", "command": "fine", "can_block": true, "timeot": 3, "enabled": null},
  "x"
 ]
}"""


@pytest.mark.req("F-11", "F-18")
def test_an_invalid_entry_is_named_with_its_mend_and_the_others_load(tmp_path: Path) -> None:
    file = read(tmp_path, BAD)
    assert [hook.command for hook in file.hooks] == ["good", "fine"]
    assert [str(problem).removeprefix(f"{tmp_path}/hooks.json:") for problem in file.problems] == [
        "5:13: no event type is called 'tol:pre_execute'; did you mean 'tool:pre_execute'?",
        "6:13: no event type is called 'tool:pre_exec'; did you mean 'tool:pre_execute'?",
        "7:13: no event type is called 'PreToolUse'; an agent's own event is written <agent>:<its name>",
        "8:13: event pattern '' is not a pattern; write e.g. tool:pre_execute, tool:* or *",
        '9:3: "event" is missing',
        '10:3: "command" is missing',
        "11:29: command must not be empty",
        "12:45: timeout has to be more than 0",
        "13:45: timeout has to be a number, not text; write it in seconds, without a unit",
        "14:47: env.A has to be text, not a whole number; put it in quotes",
        "15:42: 'A-B' is no name of an environment variable",
        "16:13: event has to be text, not a list",
        "18:3: this has to be a mapping (`key: value`), not text",
    ]
    assert [warning.removeprefix(f"{tmp_path}/hooks.json:") for warning in file.warnings] == [
        '2:2: the unknown key "comment" is not read; known keys: description, hooks, version',
        '17:72: the unknown key "timeot" is not read; did you mean "timeout"?',
        f"17:66: can_block changes nothing at tool:post_execute: {LATE}",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": [\n  {"event" "x"}]}', ":2:"),
        ('"hooks"', ":1:1: a hooks.json of Forge is a mapping with `hooks`"),
        ("[" * 100, ":1:33: the file is nested deeper than 32 levels"),
        ("x" * (10 * 1024 * 1024), ": the file is larger than 4 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/hooks.json{said}")
    assert "hooks has to be a list" in str(read(tmp_path, {"hooks": {}}).problems[0])
    assert read(tmp_path, "").hooks == read(tmp_path, "{}").hooks == ()


@pytest.mark.req("F-09")
def test_a_project_s_hooks_run_at_its_root_and_missing_scripts_are_said(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    (project / "tools" / "there.py").write_text("")
    entries = [
        {"event": "*", "command": "python3 tools/there.py"},
        {"event": "*", "command": "python3 ./there.py", "working_dir": "tools"},
        {"event": "*", "command": "python3 ./gone.py", "working_dir": "/"},
    ]
    for folder in (project / ".forge", project / ".src/forge"):
        file = read(folder, entries, "project")
        assert [hook.working_dir for hook in file.hooks] == [str(project), f"{project}/tools", "/"]
        assert [warning.partition(": ")[2] for warning in file.warnings] == [
            "the command names ./gone.py, which does not exist; create the script, or correct the path"
        ]
    assert [hook.working_dir for hook in read(tmp_path / "global", entries).hooks] == ["", "tools", "/"]


@pytest.mark.req("F-09", "F-13")
def test_the_root_of_a_project_and_its_files_from_any_folder_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "somebody"
    deep = home / "work" / "app" / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (home / ".git").mkdir()  # dotfiles: the home directory is nobody's project
    assert forge_project_root(deep) == deep
    (home / "work" / "app" / ".git").mkdir()
    app = home / "work" / "app"
    assert forge_project_root(deep) == forge_project_root(app) == app
    assert forge_project_root("/no/such/folder") == Path("/no/such/folder")
    assert forge_project_root("/bad\0") == Path("/bad\0")
    environ = {"HOME": str(home)}
    assert forge_files(deep, environ) == ()
    everything = (*forge_global_files(environ), *forge_project_files(app))
    assert [str(path.relative_to(home)) for path in everything] == [
        ".config/src/forge/hooks.json",
        ".config/forge/hooks.json",
        "work/app/.src/forge/hooks.json",
        "work/app/.forge/hooks.json",
    ]
    for path in everything:
        path.parent.mkdir(parents=True)
        path.write_text("[]")
    assert forge_files(deep, environ) == everything
    assert forge_global_files({"HOME": "/h", "XDG_CONFIG_HOME": "/x"})[1] == Path("/x/forge/hooks.json")


@pytest.mark.req("F-09")
def test_the_directory_of_a_global_hook_is_the_root_of_each_event(tmp_path: Path) -> None:
    (tmp_path / "app" / "sub").mkdir(parents=True)
    (tmp_path / "app" / ".forge").mkdir()
    event = Event(type="session:start", cwd=f"{tmp_path}/app/sub")
    for entry, directory in (({}, "app"), ({"working_dir": "x"}, "app/x"), ({"working_dir": "/etc"}, "/etc")):
        hook = one(tmp_path / "global", **entry)
        assert FORGE.variables(hook, event)["FORGE_WORKING_DIR"] == str(tmp_path / directory)
    assert FORGE.variables(one(tmp_path / "global"), Event(type="session:start"))["FORGE_WORKING_DIR"] == ""


@pytest.mark.req("F-02")
def test_an_event_of_forge_keeps_the_time_that_it_says(tmp_path: Path) -> None:
    sent = {"type": "tool:pre_execute", "timestamp": 1795311862.25, "data": {"tool_args": {}}, "tool_name": "bash"}
    event = msgspec.structs.replace(find("forge").read("", json.dumps(sent).encode()), time=1_800_000_000_000)
    assert FORGE.variables(one(tmp_path), event)["FORGE_TIMESTAMP"] == "1795311862.25"
    assert json.loads(FORGE.stdin(one(tmp_path), event))["timestamp"] == 1795311862.25
    other = Event(type="tool:pre_execute", source="claude", time=1_800_000_000_500)
    assert FORGE.variables(one(tmp_path), other)["FORGE_TIMESTAMP"] == "1800000000.5"


@pytest.mark.req("F-02", "B-08")
def test_a_prompt_of_forge_is_where_conditions_look_and_its_hooks_get_the_data_as_sent(tmp_path: Path) -> None:
    data = {"user_input": "what is the password?", "own": 1}
    sent = {"type": "user:prompt_submit", "timestamp": 1.5, "data": data, "session_id": "s", "working_dir": "/p"}
    event = find("forge").read("", json.dumps(sent).encode())
    assert event.data["prompt"] == "what is the password?", "the same for every agent"
    assert json.loads(FORGE.stdin(one(tmp_path), event))["data"] == data


@pytest.mark.req("F-11")
def test_a_timeout_is_logged_as_an_error_and_a_failure_as_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook, event = one(tmp_path), Event(type="tool:pre_execute")
    log_ending(hook, event, Finished(signal=15, timed_out=True, stderr=b"so far"), 2.0)
    log_ending(hook, event, Finished(exit_code=3, stderr=b"why"), 0.1)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "timed out after 2.0 s" in caplog.messages[0]
    assert caplog.messages[1].endswith("stderr: why")
