"""pigo's hooks: what a config.json means, what a hook is given, and what its ending amounts to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.agents import find
from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError
from bus.events import Event
from bus.hookfiles import find_hooks
from bus.hookfiles.locations import pigo_file
from bus.hookfiles.pigo import BACKGROUND, PigoPlugin, plugins
from bus.hooks import Hook
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.in_force import HookSet, Layered
from bus.outcomes import Outcome
from bus.system.processes import Finished
from bus.verdicts import Verdict

PIGO = find_hooks("pigo")
BASH = Event(
    type="tool:pre_execute",
    source="gemini",
    native="BeforeTool",
    tool="bash",
    native_tool="run_shell_command",
    cwd="/p",
    input={"command": "ls -la", "directory": "sub", "cwd": "sub"},
)


def read(folder: Path, config: object) -> HookFile:
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return PIGO.read(path, "user")


def one(folder: Path, event: str = "tool_start", **entry: Any) -> Hook:
    config = {"plugins": [{"name": "gate", "hooks": {event: [{"command": "true", **entry}]}}]}
    (hook,) = read(folder, config).hooks
    return hook


@pytest.mark.req("P-01", "P-09")
def test_plugins_in_their_order_and_disabled_ones_not_at_all(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {
            "model": {"api_key": "not ours"},
            "plugins": [
                {
                    "name": "b",
                    "hooks": {"tool_end": [{"command": "b1"}], "tool_start": [{"command": "b2"}, {"command": "b3"}]},
                },
                {"name": "off", "enabled": False, "hooks": {"nonsense": 1}},
                {"name": "a", "enabled": True, "hooks": {"tool_start": [{"command": "a1"}]}},
            ],
        },
    )
    assert [(hook.plugin, hook.command, hook.position) for hook in file.hooks] == [
        ("b", "b1", 0),
        ("b", "b2", 1),
        ("b", "b3", 2),
        ("a", "a1", 3),
    ]
    assert [hook.id for hook in file.hooks] == [
        "pigo-b-tool_end-1",
        "pigo-b-tool_start-1",
        "pigo-b-tool_start-2",
        "pigo-a-tool_start-1",
    ]
    assert file.problems == ()
    found = HookSet([Layered("user", "1", file)]).blocking(Event(type="tool:pre_execute", tool="bash"))
    assert [hook.command for hook in found] == ["b2", "b3", "a1"]


@pytest.mark.req("P-14")
def test_the_plugins_with_the_number_of_their_hooks(tmp_path: Path) -> None:
    read(
        tmp_path,
        """{"plugins": [
        {"name": "two", "hooks": {"tool_start": [{"command": "a"}, {"command": "b"}, {"match": {}}]}},
        {"name": "off", "enabled": false, "hooks": {}}
    ]}""",
    )
    path = tmp_path / "config.json"
    assert plugins(path) == (PigoPlugin("two", True, 2, f"{path}:2"), PigoPlugin("off", False, 0, f"{path}:3"))


@pytest.mark.req("P-02", "P-11")
def test_defaults_and_units(tmp_path: Path) -> None:
    plain = one(tmp_path)
    assert (plain.blocking, plain.timeout, plain.tool, plain.dialect, plain.own) == (
        True,
        10.0,
        "",
        "pigo",
        {"event": "tool_start"},
    )
    assert plain.origin == f"{tmp_path}/config.json:1"
    assert one(tmp_path, timeout=3).timeout == 3.0
    assert one(tmp_path, timeout=0).timeout == one(tmp_path, timeout=-5).timeout == 10.0
    waits_not = one(tmp_path, blocking=False, timeout=3)
    assert (waits_not.blocking, waits_not.timeout) == (False, BACKGROUND)


@pytest.mark.req("P-03", "X-01")
@pytest.mark.parametrize(
    ("match", "fits", "fits_not"),
    [
        (None, "bash write mcp__x__y", ""),
        ({}, "bash write", ""),
        ({"tool": ""}, "bash write", ""),
        ({"tool": "bash"}, "bash", "bash_output ba bas write"),
        ({"tool": "bash|write"}, "bash write", "read"),
        ({"tool": "mcp__git-hub__push"}, "mcp__git-hub__push", "mcp__git"),
    ],
)
def test_tools_are_matched_by_their_whole_names(tmp_path: Path, match: object, fits: str, fits_not: str) -> None:
    hooks = HookSet(
        [
            Layered(
                "user",
                "1",
                read(
                    tmp_path,
                    {"plugins": [{"name": "gate", "hooks": {"tool_start": [{"command": "true", "match": match}]}}]},
                ),
            )
        ]
    )
    for names, found in ((fits, 1), (fits_not, 0)):
        for name in names.split():
            assert len(hooks.blocking(Event(type="tool:pre_execute", tool=name))) == found, name
    shell = Event(type="tool:pre_execute", source="gemini", tool="bash", native_tool="run_shell_command")
    assert len(hooks.blocking(shell)) == ("bash" in fits)


@pytest.mark.req("P-04")
@pytest.mark.parametrize(
    ("moment", "source", "types"),
    [
        ("agent_start", "pigo", "agent:start"),
        ("agent_start", "claude", "agent:start user:prompt_submit"),
        ("turn_start", "claude", "turn:start user:prompt_submit"),
        ("tool_start", "claude", "tool:pre_execute"),
        ("tool_end", "claude", "tool:post_execute tool:error"),
        ("turn_end", "generic", "turn:end"),
        ("turn_end", "claude", "turn:end agent:stop"),
        ("agent_end", "claude", "agent:end agent:stop"),
        ("agent_end", "somebody-new", "agent:end"),
    ],
)
def test_each_event_of_pigo_is_one_moment_of_every_agent(tmp_path: Path, moment: str, source: str, types: str) -> None:
    everything = """agent:start turn:start tool:pre_execute tool:post_execute tool:error turn:end agent:end agent:stop
                    user:prompt_submit session:start subagent:stop"""
    file = read(tmp_path, {"plugins": [{"name": "x", "hooks": {moment: [{"command": "true"}]}}]})
    hooks = HookSet([Layered("user", "1", file)])
    fires = [kind for kind in everything.split() if hooks.blocking(Event(type=kind, source=source, tool="bash"))]
    assert sorted(fires) == sorted(types.split())


@pytest.mark.req("P-05", "P-06", "X-01")
def test_what_a_hook_before_a_tool_is_given(tmp_path: Path) -> None:
    given = dict(PIGO.variables(one(tmp_path), BASH))
    args = json.loads(given.pop("PIGO_TOOL_ARGS"))
    assert given == {
        "PIGO_EVENT": "tool_start",
        "PIGO_WORK_DIR": "/p",
        "PIGO_MODEL": "",
        "PIGO_USER_MESSAGE": "",
        "PIGO_ASSISTANT_MESSAGE": "",
        "PIGO_TOOL_NAME": "bash",
        "PIGO_TOOL_INPUT": "ls -la",
    }
    assert args == {"command": "ls -la", "cwd": "sub"}
    assert PIGO.stdin(one(tmp_path), BASH) == b""
    own = Event(type="tool:pre_execute", source="pigo", tool="glob", native_tool="find", input={"pattern": "*"})
    assert PIGO.variables(one(tmp_path), own)["PIGO_TOOL_NAME"] == "find"
    write = Event(
        type="tool:pre_execute",
        source="claude",
        tool="write",
        native_tool="Write",
        input={"file_path": "ä.txt", "path": "ä.txt", "content": "x"},
    )
    given = dict(PIGO.variables(one(tmp_path), write))
    assert given["PIGO_TOOL_ARGS"] in ('{"content":"x","path":"ä.txt"}', '{"path":"ä.txt","content":"x"}')
    assert "PIGO_TOOL_INPUT" not in given


@pytest.mark.req("P-06")
def test_the_arguments_are_the_text_that_pigo_sent(tmp_path: Path) -> None:
    sent = '{ "command" : "ls  -la", "n": 1.0 }'
    payload = json.dumps({"PIGO_EVENT": "tool_start", "PIGO_TOOL_NAME": "bash", "PIGO_TOOL_ARGS": sent}).encode()
    event = find("pigo").read("tool_start", payload)
    assert PIGO.variables(one(tmp_path), event)["PIGO_TOOL_ARGS"] == sent
    changed = msgspec.structs.replace(event, input={**event.input, "command": "ls"})
    assert json.loads(PIGO.variables(one(tmp_path), changed)["PIGO_TOOL_ARGS"]) == {"command": "ls", "n": 1.0}


@pytest.mark.req("P-05")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"model": "m", "prompt": "do it", "last_assistant_message": "done"},
            ("m", "do it", "done"),
        ),  # Claude Code, Codex
        ({"prompt": "do it", "prompt_response": "done"}, ("", "do it", "done")),  # Gemini CLI
        ({"llm_request": {"model": "g-3"}}, ("g-3", "", "")),
        ({"model": {"providerID": "p", "modelID": "m"}}, ("m", "", "")),  # OpenCode
        ({"model": 3, "prompt": None}, ("", "", "")),
    ],
)
def test_model_and_messages_from_what_agents_send(
    tmp_path: Path, data: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    given = PIGO.variables(one(tmp_path, "agent_end"), Event(type="agent:stop", source="claude", data=data))
    assert tuple(given[f"PIGO_{name}"] for name in ("MODEL", "USER_MESSAGE", "ASSISTANT_MESSAGE")) == expected
    assert given["PIGO_EVENT"] == "agent_end"


@pytest.mark.req("P-07")
@pytest.mark.parametrize(
    ("kind", "output", "data", "text", "failed"),
    [
        ("tool:post_execute", "hello", {}, "hello", "false"),
        ("tool:post_execute", "ä" * 10_001, {}, "ä" * 10_000, "false"),
        ("tool:post_execute", {"stdout": "out", "stderr": "err", "interrupted": False}, {}, "out\nerr", "false"),
        ("tool:post_execute", {"llmContent": "seen", "returnDisplay": "shown"}, {}, "seen", "false"),
        ("tool:post_execute", {"llmContent": "", "error": {"message": "no"}}, {}, "no", "true"),
        (
            "tool:post_execute",
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {},
            "a\nb",
            "false",
        ),
        ("tool:post_execute", {"type": "create", "filePath": "x"}, {}, '{"type":"create","filePath":"x"}', "false"),
        ("tool:error", None, {"error": "Exit code 3"}, "Exit code 3", "true"),
        ("tool:post_execute", None, {}, "", "false"),
    ],
)
def test_what_a_hook_after_a_tool_is_given(
    tmp_path: Path, kind: str, output: object, data: dict[str, Any], text: str, failed: str
) -> None:
    event = Event(
        type=kind, source="claude", tool="bash", native_tool="Bash", input={"command": "x"}, output=output, data=data
    )
    given = PIGO.variables(one(tmp_path, "tool_end"), event)
    assert (given["PIGO_EVENT"], given["PIGO_TOOL_NAME"]) == ("tool_end", "bash")
    assert (given["PIGO_TOOL_OUTPUT"], given["PIGO_TOOL_ERROR"]) == (text, failed)
    assert json.loads(given["PIGO_TOOL_ARGS"]) == {"command": "x"}
    assert "PIGO_TOOL_INPUT" not in given


@pytest.mark.req("P-08")
@pytest.mark.parametrize(
    ("data", "number"), [({"turn_number": 3}, "3"), ({"iteration": 1}, "1"), ({"turn": "u-9"}, ""), ({}, "")]
)
def test_the_number_of_a_turn(tmp_path: Path, data: dict[str, Any], number: str) -> None:
    given = PIGO.variables(one(tmp_path, "turn_end"), Event(type="turn:end", data=data))
    assert given["PIGO_TURN_NUMBER"] == number
    assert "PIGO_TURN_NUMBER" not in PIGO.variables(one(tmp_path), BASH)


BLOCKED = "blocked by hook: hook [gate] blocked tool: "
HOOK = "hook 'pigo-gate-tool_start-1'"


def both(**ending: Any) -> Finished:
    """An ending as the runner gives it to pigo: stdout and stderr in one."""
    return Finished(one_stream=True, **ending)


@pytest.mark.req("P-10", "P-12")
@pytest.mark.parametrize(
    ("done", "reason"),
    [
        (both(exit_code=1, stdout=b" no\nnever \n"), BLOCKED + "no\nnever: exit status 1"),
        (both(exit_code=2, stdout=b"no"), BLOCKED + "no: exit status 2"),
        (both(exit_code=3), BLOCKED + "exit status 3"),
        (both(exit_code=126, stdout=b"sh: denied"), BLOCKED + "sh: denied: exit status 126"),
        (both(exit_code=127, stdout=b"sh: x: not found"), BLOCKED + "sh: x: not found: exit status 127"),
        (both(signal=15, timed_out=True, stdout=b"so far"), BLOCKED + "so far: exit status 1"),
        (both(exit_code=0, timed_out=True), BLOCKED + "exit status 1"),
    ],
)
def test_before_a_tool_everything_but_exit_0_blocks(tmp_path: Path, done: Finished, reason: str) -> None:
    got = PIGO.outcome(one(tmp_path), BASH, done, 10)
    assert (got.decision, got.reason, got.failure) == ("deny", reason, "")
    assert got.exit_code == (1 if done.timed_out else done.exit_code)
    assert ("timed out after 10.0 s" in got.note and "pigo counts that as exit 1" in got.note) == done.timed_out


@pytest.mark.req("P-10")
@pytest.mark.parametrize("agent", ["claude", "codex", "copilot", "cursor", "gemini", "opencode", "pigo"])
def test_the_exit_status_reaches_the_model_behind_an_output_of_any_length(tmp_path: Path, agent: str) -> None:
    native, can = next((n, c) for n, c in find(agent).capabilities.items() if c.type == BASH.type and c.waits)
    printed = both(exit_code=4, stdout="\N{HIRAGANA LETTER A}".encode() * 20_000)
    got = PIGO.outcome(one(tmp_path), BASH, printed, 10)
    verdict = Verdict(decision=got.decision, reason=got.reason, event="e" * 33)
    answer = find(agent).render(native, verdict, Event(type=can.type, source=agent, native=native))
    assert "characters]: exit status 4" in (answer.stdout + answer.stderr).decode()


@pytest.mark.req("P-10", "P-12")
def test_what_is_no_ending_of_a_command_is_a_failure_that_pigo_s_policy_denies(tmp_path: Path) -> None:
    hook = one(tmp_path)
    killed = PIGO.outcome(hook, BASH, Finished(signal=9), 10)
    assert killed.failure.endswith("was killed by SIGKILL")
    unborn = PIGO.outcome(hook, BASH, Finished(spawn_error="no memory"), 10)
    assert unborn.failure.endswith("did not run: no memory")
    assert (killed.decision, unborn.decision) == ("abstain", "abstain")
    assert (PIGO.policy, hook.on_failure) == ("deny", None)
    # Somebody who chose another policy than pigo's means timeouts too.
    lenient = Hook(**{**{name: getattr(hook, name) for name in hook.__struct_fields__}, "on_failure": "allow"})
    assert PIGO.outcome(lenient, BASH, Finished(signal=15, timed_out=True), 10).failure
    assert PIGO.outcome(lenient, BASH, Finished(exit_code=1), 10).decision == "deny"
    assert PIGO.outcome(hook, BASH, Finished(exit_code=0, stdout=b"fine"), 10) == Outcome(exit_code=0, output="fine")


@pytest.mark.req("P-10", "P-11")
@pytest.mark.parametrize("moment", ["agent_start", "turn_start", "tool_end", "turn_end", "agent_end"])
def test_elsewhere_a_failure_is_a_warning_whatever_the_layer_says(tmp_path: Path, moment: str) -> None:
    hook = one(tmp_path, moment)
    got = PIGO.outcome(hook, Event(type=hook.on[-1]), both(exit_code=1, stdout=b"no"), 10)
    assert (got.decision, got.failure) == (
        "abstain",
        f"hook 'pigo-gate-{moment}-1' ({hook.origin}) failed: exit 1 (no)",
    )
    (tmp_path / "fleethook.yaml").write_text("on_failure: deny\nimport: [{path: config.json, dialect: pigo}]\n")
    (loaded,) = load_hook_file(tmp_path / "fleethook.yaml", "user").hooks
    assert loaded.on_failure == "allow"


def test_a_context_hook_of_newer_versions_tells_the_model_and_blocks_nothing(tmp_path: Path) -> None:
    hook = one(tmp_path, "tool_start", type="context", blocking=False)
    assert (hook.blocking, hook.on_failure) == (True, "allow")
    assert PIGO.outcome(hook, BASH, Finished(exit_code=0, stdout=b" know this \n"), 10).contexts == ("know this",)
    assert PIGO.outcome(hook, BASH, Finished(exit_code=1), 10).failure


@pytest.mark.req("P-05")
def test_what_a_hook_would_miss_of_pigo_s_environment_is_said_and_can_be_named(tmp_path: Path) -> None:
    config = {
        "plugins": [
            {
                "name": "x",
                "hooks": {
                    "tool_start": [
                        {
                            "command": "x=1; for y in a; do echo $x $y $HOME $PWD $PIGO_EVENT \\$Z; done; curl -H $TOKEN ${CI}"
                        },
                        {"command": "echo $NEEDED", "env_pass": ["NEEDED"]},
                    ]
                },
            }
        ]
    }
    file = read(tmp_path, config)
    assert file.hooks[1].env_pass == ("NEEDED",)
    (warning,) = file.warnings
    assert warning == (
        f"{tmp_path}/config.json:1:2: pigo gives its hooks its whole environment; here they see PATH, HOME and the like, "
        "and PIGO_*; $TOKEN, $CI in a command would be empty; name what a hook needs beside its command: "
        '"env_pass": ["NAME"]'
    )
    assert read(tmp_path, {"plugins": []}).warnings == ()


BAD = """{
 "plugins": [
  {"name": "good", "hooks": {"tool_start": [{"command": "true"}]}},
  {"hooks": {}},
  {"name": "no hooks"},
  {"name": "good", "hooks": {"tool_start": [{"command": "second"}]}},
  {"name": "events", "hooks": {"tool_strat": [{"command": "x"}], "tool_end": {"command": "x"}}},
  {"name": "entries", "hooks": {"tool_start": [
    {"match": {"tool": "bash"}},
    {"command": " "},
    {"command": "x", "timeout": 2.5},
    {"command": "x", "timeout": "5"},
    {"command": "x", "blocking": "yes"},
    {"command": "x", "match": "bash"},
    {"command": "x", "match": {"tool": "ba*"}},
    {"command": "x", "match": {"tool": "|"}},
    {"command": "fine", "mach": {"tool": "bash"}, "timeout": 30000}
  ]}},
  7
 ]
}"""


@pytest.mark.req("P-01", "P-02", "P-13")
def test_every_mistake_has_its_place_and_its_mend_and_the_rest_loads(tmp_path: Path) -> None:
    file = read(tmp_path, BAD)
    assert [hook.command for hook in file.hooks] == ["true", "fine"]
    assert file.hooks[1].tool == ""
    said = [str(problem).removeprefix(f"{tmp_path}/config.json:") for problem in file.problems]
    assert said == [
        '4:3: "name" is missing',
        '5:3: "hooks" is missing',
        '6:12: the name of the plugin "good" is taken (line 3); names of plugins are unique',
        '7:32: no event of pigo is called "tool_strat"; did you mean "tool_start"?',
        "7:78: the hooks of tool_end have to be a list; put them in brackets: [ … ]",
        '9:5: "command" is missing',
        "10:17: command must not be empty",
        "11:33: timeout has to be a whole number, not a number",
        "12:33: timeout has to be a whole number, not text; remove the quotes",
        "13:34: blocking has to be true or false, not text; write true",
        "14:31: match has to be a mapping (`key: value`), not text",
        "15:40: match.tool has no patterns, and no tool is called 'ba*'; write the names of tools with | between them",
        "16:40: match.tool '|' names no tool; leave match out for every tool",
        "19:3: this has to be a mapping (`key: value`), not a whole number",
    ]
    assert [warning.removeprefix(f"{tmp_path}/config.json:") for warning in file.warnings[:2]] == [
        '17:25: the unknown key "mach" is not read; did you mean "match"?',
        "17:62: a timeout of pigo is in seconds: 30000 are 500 minutes; write 30 if these are milliseconds",
    ]


@pytest.mark.req("P-13")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"plugins": [\n  {"name": "x",]}', ":2:"),
        ("[]", ":1:1: pigo's config is a mapping with `plugins`"),
        ("x" * (10 * 1024 * 1024), ": the file is larger than 4 MiB"),
    ],
)
def test_a_config_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/config.json{said}")
    (tmp_path / "fleethook.yaml").write_text(
        "import: [{path: config.json, dialect: pigo}]\nhooks: [{on: '*', command: 'true'}]\n"
    )
    file = load_hook_file(tmp_path / "fleethook.yaml", "user")
    assert (len(file.hooks), len(file.problems)) == (1, 1)


def test_no_plugins_are_no_mistake(tmp_path: Path) -> None:
    for text in ("", "{}", '{"plugins": null}', '{"plugins": []}'):
        assert (read(tmp_path, text).hooks, read(tmp_path, text).problems) == ((), ())
    assert "plugins has to be a list" in str(read(tmp_path, {"plugins": {}}).problems[0])


def test_a_missing_script_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there.sh").write_text("exit 0\n")
    commands = [
        "~/there.sh",
        "sh ~/there.sh",
        "A=1 sh -e $HOME/gone.sh 2>&1",
        "/no/such/thing",
        "./relative.sh",
        "x; /gone",
        "'",
    ]
    file = read(tmp_path, {"plugins": [{"name": "x", "hooks": {"tool_start": [{"command": one} for one in commands]}}]})
    assert len(file.hooks) == len(commands)
    assert [warning.split(": ", 1)[1] for warning in file.warnings if "names" in warning or "runs" in warning] == [
        "the command runs ~/there.sh, which is not executable; chmod +x ~/there.sh",
        "the command names ~/gone.sh, which does not exist; create the script, or correct the path",
        "the command names /no/such/thing, which does not exist; create the script, or correct the path",
    ]


def test_the_hook_is_plain_data_that_can_be_published(tmp_path: Path) -> None:
    from bus.config.hook_file_value import from_document, to_document

    file = read(tmp_path, json.loads((Path(__file__).parents[4] / "examples/pigo/config.json").read_text()))
    assert [hook.id for hook in from_document(json.loads(json.dumps(to_document(file)))).hooks] == [
        one.id for one in file.hooks
    ]


def test_where_pigo_keeps_its_config() -> None:
    assert pigo_file({"PIGO_HOME": "/p", "HOME": "/h"}) == Path("/p/config.json")
    assert pigo_file({"HOME": "/h"}) == Path("/h/.pigo/config.json")
