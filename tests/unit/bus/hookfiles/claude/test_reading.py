"""Claude Code's and ion's hook files: what is read, and how every mistake is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bus.config.hook_file_value import HookFile, from_document, to_document
from bus.errors import ConfigError
from bus.hookfiles.claude import HOOKS
from bus.hooks import HttpCall, Layer, ModelPrompt
from bus.runners.command import argv

CLAUDE, ION = HOOKS["claude"], HOOKS["ion"]


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return path


def settings(tmp_path: Path, event: str, *handlers: object, matcher: str | None = None, **more: Any) -> Path:
    group = {"hooks": list(handlers), **({} if matcher is None else {"matcher": matcher})}
    return write(tmp_path / ".claude" / "settings.json", {"hooks": {event: [group]}, **more})


def command(text: object = "true", **more: Any) -> dict[str, Any]:
    return {"type": "command", "command": text, **more}


def read(path: Path, layer: Layer = "user", *, ion: bool = False) -> HookFile:
    return (ION if ion else CLAUDE).read(path, layer)


def problem(found: HookFile) -> str:
    assert found.hooks == ()
    (only,) = found.problems
    assert only.line
    return str(only)


@pytest.mark.req("I-05", "I-08")
def test_a_settings_file(tmp_path: Path) -> None:
    path = settings(
        tmp_path,
        "PreToolUse",
        command("check.sh", timeout=7, async_=1),
        command("b", onFailure="block", shell="bash"),
        command("c", **{"async": True, "if": "Bash(git *)"}),
        matcher="Bash|Edit",
    )
    found = read(path, "project")
    one, two, three = found.hooks
    assert (one.id, one.on, one.tool) == ("claude-PreToolUse", ("tool:pre_execute",), "bash|Bash|edit|Edit")
    assert (one.command, one.timeout, one.blocking, one.on_failure) == ("check.sh", 7, True, None)
    assert one.origin == f"{path}:6"
    place = {"project": str(tmp_path), "itself": str(path.parent)}
    assert one.own == {"event": "PreToolUse", "matchers": ["Bash|Edit"], **place}
    assert (two.on_failure, argv(two), two.timeout) == ("deny", ["bash", "-c", "b"], 600)
    assert (three.blocking, three.own["if"], three.id) == (False, "Bash(git *)", "claude-PreToolUse-3")
    assert [hook.position for hook in found.hooks] == [0, 1, 2]
    assert found.problems == ()
    (warning,) = found.warnings
    assert "async_" in warning
    assert 'did you mean "async"?' in warning
    assert from_document(to_document(found)).hooks[0].own == one.own


@pytest.mark.req("I-04")
@pytest.mark.parametrize(
    ("ion", "event", "given", "seconds", "said"),
    [
        (False, "PreToolUse", 5, 5, ""),
        (False, "PreToolUse", None, 600, ""),
        (False, "UserPromptSubmit", None, 30, ""),
        (False, "SessionEnd", None, 1.5, ""),
        (False, "PreToolUse", 5000, 5000, "timeout is 5000 s; Claude Code counts seconds; 5000 ms are 5"),
        (True, "PreToolUse", 5000, 5, ""),
        (True, "PreToolUse", None, 5, ""),
        (True, "PreToolUse", 30, 0.03, "timeout is 30 ms; ion counts milliseconds; 30 s are 30000"),
    ],
)
def test_timeouts_in_their_unit(
    tmp_path: Path, ion: bool, event: str, given: float | None, seconds: float, said: str
) -> None:
    more: dict[str, Any] = {} if given is None else {"timeout": given}
    found = read(settings(tmp_path, event, command(**more)), ion=ion)
    assert found.hooks[0].timeout == seconds
    assert [text.partition(": ")[2] for text in found.warnings] == ([said] if said else [])


@pytest.mark.req("I-05")
def test_identical_handlers_run_once_for_all_their_matchers(tmp_path: Path) -> None:
    groups = [{"matcher": text, "hooks": [command("x"), command(f"only {text}")]} for text in ("Bash", "Edit")]
    found = read(write(tmp_path / "settings.json", {"hooks": {"PreToolUse": groups, "Stop": [groups[0]]}}))
    assert [(hook.command, hook.own.get("matchers")) for hook in found.hooks] == [
        ("x", ["Bash", "Edit"]),
        ("only Bash", ["Bash"]),
        ("only Edit", ["Edit"]),
        ("x", None),
        ("only Bash", None),
    ]
    everything = [groups[0], {"hooks": [command("x")]}]
    found = read(write(tmp_path / "settings.json", {"hooks": {"PreToolUse": everything}}))
    assert [hook.own for hook in found.hooks if hook.command == "x"] == [{"event": "PreToolUse"}]


@pytest.mark.req("I-09")
@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ({"type": "command"}, '"command" is missing; write {"type": "command", "command": "…"}'),
        ({"command": "x"}, '"type" is missing'),
        (command(["x"]), "command has to be text, not a list"),
        (command(""), "command must not be empty"),
        (command(timeout="5"), "timeout has to be a number, not text; remove the quotes"),
        (command(timeout=0), "timeout has to be more than 0"),
        (command(onFailure="deny"), "onFailure has to be block or continue"),
        (command(**{"if": "Bash(git"}), "'Bash(git' is not a permission rule"),
        ({"type": "comand", "command": "x"}, 'did you mean "command"?'),
        ({"type": "http"}, '"url" is missing'),
        ({"type": "http", "url": "ftp://x"}, "begin with https"),
        ({"type": "http", "url": "https://x.io", "headers": {"A": "${B}"}}, "name it in allowedEnvVars"),
        ("echo hi", "this has to be a mapping"),
    ],
)
def test_a_bad_handler_is_named_and_the_rest_loads(tmp_path: Path, handler: object, words: str) -> None:
    path = settings(tmp_path, "PreToolUse", handler, command("good"))
    found = read(path)
    assert [hook.command for hook in found.hooks] == ["good"]
    (only,) = found.problems
    assert words in str(only)
    assert (only.file, only.line > 1) == (str(path), True)


@pytest.mark.req("I-09")
@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ({"PreTolUse": []}, "Claude Code has no event 'PreTolUse'; did you mean \"PreToolUse\"?"),
        ({"Pre Tool!": []}, "Claude Code has no event 'Pre Tool!'"),
        ({"Stop": {}}, 'Stop has to be a list; write [{"matcher": "…", "hooks": [ … ]}]'),
        ({"Stop": [command()]}, "a group of handlers belongs here, and not a handler"),
        ({"Stop": [{"matcher": "x"}]}, '"hooks" is missing'),
        ({"PreToolUse": [{"matcher": "Bash(", "hooks": [command()]}]}, "bad regular expression"),
        ({"PreToolUse": [{"matcher": ["Bash"], "hooks": [command()]}]}, "matcher has to be text, not a list"),
        ([], "hooks has to be an object of events"),
    ],
)
def test_a_bad_shape_is_named_with_its_mend(tmp_path: Path, hooks: object, words: str) -> None:
    assert words in problem(read(write(tmp_path / "settings.json", {"hooks": hooks})))


@pytest.mark.req("I-09")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "settings.json:2:1"),
        ('{"hooks": {}, "hooks": {}}', "for the second time"),
        ('{"a": "' + "x" * (5 << 20) + '"}', "larger than 4 MiB"),
        ("[" * 99, "nested deeper"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(write(tmp_path / "settings.json", text))


def test_settings_without_hooks_hold_none(tmp_path: Path) -> None:
    assert read(write(tmp_path / "settings.json", {"model": "x"})) == HookFile().with_digest()
    found = read(settings(tmp_path, "Stop", command(), disableAllHooks=True))
    assert found.hooks == ()
    assert "disableAllHooks" in found.warnings[0]


@pytest.mark.req("I-01", "I-05")
@pytest.mark.parametrize(
    ("event", "handler", "word"),
    [
        ("SessionStart", {"type": "prompt", "prompt": "ok?"}, "no prompt hooks at SessionStart"),
        ("PreCompact", {"type": "agent", "prompt": "ok?"}, "no agent hooks at PreCompact"),
        ("Stop", {"type": "mcp_tool", "server": "s", "tool": "t"}, "mcp_tool (a call of an MCP tool)"),
        ("SessionStart", {"type": "http", "url": "https://x.io"}, "no http hooks at SessionStart"),
        ("Stop", command(**{"if": "Bash"}), "a hook with `if` never runs there"),
        ("WorktreeCreate", command(), "WorktreeCreate is not run here"),
    ],
)
def test_what_is_not_run_here_is_named(tmp_path: Path, event: str, handler: object, word: str) -> None:
    found = read(settings(tmp_path, event, handler))
    assert (found.hooks, found.problems) == ((), ())
    (warning,) = found.warnings
    assert word in warning
    assert "settings.json:" in warning


@pytest.mark.parametrize(
    ("event", "handler", "word"),
    [
        ("PreToolUse", command(once=True), "once has a meaning only in hooks of a skill"),
        ("PreToolUse", command(asyncRewake=True), "cannot wake the agent here"),
        ("SessionStart", command('echo export A=1 >> "$CLAUDE_ENV_FILE"'), "CLAUDE_ENV_FILE is not set here"),
        ("PreToolUse", command('"$CLAUDE_PROJECT_DIR"/gone.sh'), "gone.sh, which does not exist"),
        ("PreToolUse", command("${CLAUDE_PLUGIN_ROOT}/x.sh"), "CLAUDE_PLUGIN_ROOT is empty outside of a plugin"),
        ("NewThing", command(), "no event 'NewThing' is known here"),
    ],
)
def test_what_runs_otherwise_than_its_author_may_think_is_named(
    tmp_path: Path, event: str, handler: object, word: str
) -> None:
    found = read(settings(tmp_path, event, handler))
    assert len(found.hooks) == 1
    assert word in " ".join(found.warnings)


def test_a_matcher_where_there_is_none_and_an_event_of_tomorrow(tmp_path: Path) -> None:
    found = read(settings(tmp_path, "Stop", command(), matcher="Bash"))
    assert (found.hooks[0].tool, found.hooks[0].own["event"]) == ("", "Stop")
    assert "Stop has no matcher" in found.warnings[0]
    found = read(settings(tmp_path, "NewThing", command()))
    assert found.hooks[0].on[0] == "claude:NewThing"


def test_the_environment_that_a_settings_file_gives(tmp_path: Path) -> None:
    env = {"MODE": "strict", "API_TOKEN": "t0k", "N": 1, "FLEETHOOK_REDIS_URL": "x"}
    text = 'check "$MODE" "$API_TOKEN" "$EDITOR" "$CLAUDE_PROJECT_DIR"'
    path = settings(tmp_path, "Stop", command(text), command("b $EDITOR", env_pass=["EDITOR", "API_TOKEN"]), env=env)
    found = read(path)
    assert [hook.env for hook in found.hooks] == [{"MODE": "strict", "N": "1"}] * 2
    assert found.hooks[1].env_pass == ("EDITOR", "API_TOKEN")
    secret, unseen = found.warnings
    assert "API_TOKEN looks like a secret and is not given to the hooks" in secret
    assert "t0k" not in secret
    assert "$API_TOKEN, $EDITOR is empty" in unseen
    assert "env_pass" in unseen


def test_what_people_write_beside_their_groups(tmp_path: Path) -> None:
    group = {"id": "pre:x", "description": "why", "hooks": [command("a"), command("b", description="mine")]}
    found = read(write(tmp_path / "settings.json", {"hooks": {"Stop": [group]}}))
    assert ([hook.description for hook in found.hooks], found.warnings) == (["why", "mine"], ())


@pytest.mark.req("I-05")
def test_exec_form_is_started_without_a_shell(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    write(
        root / "hooks" / "hooks.json",
        {
            "hooks": {
                "Stop": [
                    {
                        "hooks": [
                            command("node", args=["${CLAUDE_PLUGIN_ROOT}/x.js", "$(touch hit)"]),
                            command("my prog", args=[]),
                            command("node", args=["${CLAUDE_PROJECT_DIR}/x y", "a'b"]),
                        ]
                    }
                ]
            }
        },
    )
    one, two, three = read(root).hooks
    assert argv(one) == ["node", f"{root}/x.js", "$(touch hit)"]
    assert argv(two) == "exec 'my prog'"
    assert argv(three) == """exec node "${CLAUDE_PROJECT_DIR}"'/x y' 'a'"'"'b'"""


@pytest.mark.req("I-05")
def test_an_http_handler(tmp_path: Path) -> None:
    handler = {
        "type": "http",
        "url": "https://x.io/h",
        "timeout": 3,
        "onFailure": "block",
        "allowedEnvVars": ["TOKEN"],
        "headers": {"Authorization": "Bearer $TOKEN", "X": "${OTHER}!"},
    }
    (hook,) = read(settings(tmp_path, "PreToolUse", handler)).hooks
    assert hook.http == HttpCall(url="https://x.io/h", headers={"Authorization": "Bearer ${TOKEN}", "X": "!"})
    assert (hook.timeout, hook.on_failure, hook.kind) == (3, "deny", "http")
    narrowed = read(settings(tmp_path, "PreToolUse", handler, httpHookAllowedEnvVars=[]))
    assert narrowed.hooks[0].http == HttpCall(url="https://x.io/h", headers={"Authorization": "Bearer ", "X": "!"})
    for allowed, count in ((["https://x.io/*"], 1), (["https://y.io/*"], 0)):
        assert len(read(settings(tmp_path, "PreToolUse", handler, allowedHttpHookUrls=allowed)).hooks) == count


def plugin(root: Path, manifest: object = None, hooks: object = None) -> Path:
    if manifest is not None:
        write(root / ".claude-plugin" / "plugin.json", manifest)
    if hooks is not None:
        write(root / "hooks" / "hooks.json", hooks)
    return root


def events(*texts: str, event: str = "Stop") -> dict[str, Any]:
    return {event: [{"hooks": [command(text) for text in texts]}]}


@pytest.mark.req("I-05", "I-07")
@pytest.mark.parametrize("ion", [False, True])
def test_a_plugin_with_all_its_hooks(tmp_path: Path, ion: bool) -> None:
    root = plugin(
        tmp_path / "my.plug",
        {"name": "mem", "hooks": ["./more.json", "./hooks/hooks.json", events("inline")]},
        {"description": "d", "hooks": events("${CLAUDE_PLUGIN_ROOT}/a.sh", "sh ${PLUGIN_ROOT}/a.sh")},
    )
    write(root / "a.sh", "").chmod(0o755)
    write(root / "more.json", events("more"))
    for path in (root, root / ".claude-plugin" / "plugin.json"):
        found = read(path, ion=ion)
        assert (found.problems, found.warnings) == ((), ())
        assert [hook.command for hook in found.hooks] == [f"{root}/a.sh", f"sh {root}/a.sh", "more", "inline"]
        assert {hook.plugin for hook in found.hooks} == {"mem"}
        assert len({hook.id for hook in found.hooks}) == 4
        assert found.hooks[0].own["root"] == str(root)
    assert [hook.plugin for hook in read(root / "hooks" / "hooks.json").hooks] == ["mem", "mem"]


@pytest.mark.req("I-07")
@pytest.mark.parametrize(
    ("place", "ion", "data"),
    [
        (".claude/plugins/cache/market/plug/1.0", False, "~/.claude/plugins/data/plug-market"),
        ("elsewhere", False, "~/.claude/plugins/data/elsewhere-inline"),
        (".ion/plugins/mine", True, "~/.local/share/ion/plugins/data/mine"),
    ],
)
def test_where_a_plugin_keeps_its_data(tmp_path: Path, place: str, ion: bool, data: str) -> None:
    root = plugin(tmp_path / place, hooks=events("x"))
    assert read(root, ion=ion).hooks[0].own["data"] == data


@pytest.mark.req("I-08")
def test_folders_of_plugins(tmp_path: Path) -> None:
    plugins = tmp_path / ".ion" / "plugins"
    plugin(plugins / "b", {"name": "b", "hooks": events("b")})
    plugin(plugins / "a", hooks={"hooks": events("a")})
    write(plugins / "README.md", "no plugin")
    plugin(tmp_path / "elsewhere", {"name": "e", "hooks": events("e")})
    (plugins / "linked").symlink_to(tmp_path / "elsewhere")
    for path in (plugins, tmp_path / ".ion", tmp_path):
        assert [(hook.plugin, hook.command) for hook in read(path, ion=True).hooks] == [
            ("a", "a"),
            ("b", "b"),
            ("e", "e"),
        ]
    found = read(plugins, "project", ion=True)
    assert [hook.plugin for hook in found.hooks] == ["a", "b"]
    assert "linked: is a link that leads out of the project's plugins; copy" in str(found.problems[0])
    with pytest.raises(ConfigError, match="neither a plugin nor settings"):
        read(write(tmp_path / "none" / "x", "").parent)


@pytest.mark.req("I-09")
@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (
            {"name": "x", "hooks": "../out.json"},
            "plugin.json:3:11: the path '../out.json' leads out of its folder (..)",
        ),
        ({"name": "x", "hooks": "/etc/passwd"}, "is not inside the plugin; write it from the plugin's folder"),
        ({"name": "x", "hooks": "./link.json"}, "is a link that leads out of the plugin; copy the file into it"),
        ({"name": "x", "hooks": "./none.json"}, "plugin.json:3:11: there is no file './none.json'"),
        ({"name": "x", "hooks": 5}, "hooks has to be a path or a mapping of events"),
        ({"name": 5}, "name has to be text; put it in quotes"),
        ({}, '"name" is missing; add "name": "plug"'),
        ([], 'a manifest is an object; write {"name": "…"}'),
        ("{", "plugin.json:2:1"),
        ({"name": "x", "hooks": events("${CLAUDE_PLUGIN_ROOT}/../evil.sh")}, "'../evil.sh' leads out of its folder"),
        ({"name": "x", "hooks": events('sh "$PLUGIN_ROOT/link.json"')}, "is a link that leads out of the plugin"),
    ],
)
def test_path_tricks_and_bad_manifests(tmp_path: Path, manifest: object, words: str) -> None:
    write(tmp_path / "out.json", events("evil"))
    root = plugin(tmp_path / "plug", manifest, {"hooks": events("good")})
    (root / "link.json").symlink_to(tmp_path / "out.json")
    found = read(root)
    assert [hook.command for hook in found.hooks] == ["good"]
    assert words in " ".join(map(str, found.problems))
    assert "not there" not in " ".join(found.warnings), "what is refused is said once"


def test_a_folder_whose_name_means_something_to_a_shell_is_left_to_it(tmp_path: Path) -> None:
    root = plugin(tmp_path / "$(touch hit)", hooks={"hooks": events("${CLAUDE_PLUGIN_ROOT}/a.sh")})
    assert read(root).hooks[0].command == '"${CLAUDE_PLUGIN_ROOT}"/a.sh'


@pytest.mark.req("I-12")
def test_questions_to_a_model_are_read(tmp_path: Path) -> None:
    prompt = {"type": "prompt", "prompt": "Safe? $ARGUMENTS", "model": "haiku", "continueOnBlock": True}
    (hook,) = read(settings(tmp_path, "PostToolUse", prompt)).hooks
    assert (hook.kind, hook.blocking, hook.timeout) == ("prompt", True, 30.0)
    assert hook.prompt == ModelPrompt(text="Safe? $ARGUMENTS", model="haiku")
    assert hook.own["continue"] is True
    (hook,) = read(settings(tmp_path, "Stop", {"type": "agent", "prompt": "Tested?", "model": "inherit"})).hooks
    assert (hook.kind, hook.timeout, hook.on_host, hook.agent) == ("agent", 60.0, True, ModelPrompt(text="Tested?"))
    (hook,) = read(settings(tmp_path, "UserPromptSubmit", {"type": "prompt", "prompt": "x", "timeout": 7})).hooks
    assert hook.timeout == 7
    for wrong, why in (
        ({"type": "prompt"}, '"prompt" is missing'),
        ({"type": "agent", "prompt": " "}, "prompt must not be empty"),
        ({"type": "prompt", "prompt": "x" * 20_001}, "20000 is the most"),
    ):
        found = read(settings(tmp_path, "Stop", wrong))
        assert found.hooks == ()
        assert why in str(found.problems[0])
