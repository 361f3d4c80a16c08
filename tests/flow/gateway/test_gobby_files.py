"""Files that were written for Gobby run as they are: plugins, workflows and dispatcher scripts, through a real fleet."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.cli_kit import fleethook_in
from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gateway import start_gateway
from tests.support.gobby.daemon import Daemon
from tests.support.receivers import Answer, Receiver, receiving
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-11", "G-12", "G-16")]

FILES = Path(__file__).parents[2] / "corpora" / "gobby-files"
STRANGERS = FILES / "plugins"
WORKFLOWS = yaml.safe_load((FILES / "workflow_cases.yaml").read_text(encoding="utf-8"))
CONFIGS: dict[str, dict[str, Any]] = {
    "audit-log": {"tag": "${TAG:-mine}"},
    "typed-budget": {"limit": 1},
    "my.actions-plugin": {"word": "fact"},
    "slow": {"delay": 0.05},
    "example-notify": {"default_channel": "#ops", "log_file": "~/.gobby/seen/metrics.log"},
    "dataclassed": {"limit": 1},
    "code-guardian": {"checks": ["ruff"], "block_on_error": True},
}
OTHERS = (
    *(
        "async-policy",
        "block-rm",
        "boot-guard",
        "by-property",
        "computed-one",
        "conditional-class",
        "counter",
        "etc-guard",
    ),
    *("factory-made", "fields", "from-base", "introspective", "mixed", "names", "needs-counter", "net-and-threads"),
    *("observers", "raising", "responses", "sources", "typed-made", "words"),
    *(
        "session-quota",
        "mixin-guard",
        "sqlite-memory",
        "branch-guard",
        "matched",
        "async-tools",
        "own-logging",
        "plan-router",
        "guide-style",
    ),
    *("helper-user", "init-defaults", "init-no-super", "slotted", "meta-made", "decorated", "env-reader"),
    *("recorder", "read-first", "actor"),
)


class Call(NamedTuple):
    """One hook call as a dispatcher makes it, and what its answer has."""

    event: str
    data: dict[str, Any]
    words: tuple[str, ...]
    refused: bool = True
    source: str = "claude"


def bash(command: str, *words: str, refused: bool = True, tool: str = "Bash") -> Call:
    return Call("pre-tool-use", {"tool_name": tool, "tool_input": {"command": command}}, words, refused)


def write(path: str, *words: str, tool: str = "Write", content: str = "x") -> Call:
    return Call("pre-tool-use", {"tool_name": tool, "tool_input": {"file_path": path, "content": content}}, words)


CALLS = (
    bash("ls", refused=False),
    bash("rm -rf /srv/x", "block-rm: "),
    bash("async-no", "async-policy says no"),
    write("/etc/passwd", "etc-guard keeps /etc/passwd"),
    write("/boot/x", "boot-guard keeps /boot/x (boot)", tool="Edit"),
    bash("please frobnicate", "words: ['frobnicate'] (helper)"),
    bash("spend", refused=False),
    bash("spend", "typed-budget: 2 of 1"),
    bash("respond positional", "positional reason", "the context", "the system message"),
    bash("respond keywords", "keyword reason", "to the person"),
    bash("respond bare-deny"),
    bash("respond context-only", "responses: some context", refused=False),
    bash("respond system-only", "responses: to the person", refused=False),
    bash("respond ask", "responses asks", '"permissionDecision": "ask"', refused=False),
    bash("respond modify", "echo modified", refused=False),
    bash("respond allow-args", "echo allowed", refused=False),
    bash("respond none", refused=False),
    bash("respond dict", "returned a dict", refused=False),
    bash("guide-no", "the guide says no at PreToolUse"),
    bash("guide-block", "the guide blocks"),
    bash("guide-modify", "echo guided", refused=False),
    bash("guide-other", refused=False),
    bash("fields", "fields: all right"),
    bash("observed-deny", "observers denied"),
    bash("star-deny", "star denied"),
    bash("plain", refused=False),
    bash("mixed-no", "mixed: mixed-no"),
    bash("property-no", "by-property 9.9"),
    bash("outside-no", "wrapped outside"),
    bash("static-no", "static"),
    bash("class-no", "class by-property"),
    bash("count", refused=False),
    bash("count", refused=False),
    bash("count", "counter: count 3 times"),
    bash("boom", "the next handler runs"),
    bash("slow", "slow but sure"),
    bash("needs", "needs counter"),
    bash("plan-name", "PRE_TOOL_CALL"),
    bash("by-text", "before_tool"),
    bash("store", "stored 1 sub"),
    write("a.py", "Code Guardian found 1 issue(s)", content="def f():\n    print(1)\n"),
    bash("constant-no", "constant"),
    bash("variable-no", "variable"),
    bash("partial-no", "partial"),
    bash("made-no", "computed-one made-no"),
    bash("stacked-no", "stacked"),
    bash("loop-no", "loop before_tool"),
    bash("cond-no", "conditional"),
    bash("factory-no", "made by factory-made"),
    bash("typed-no", "typed-made typed-no"),
    bash("base-no", "from-base by its base"),
    bash("introspect", "tested_plugin.py", "true"),
    bash("quota-deploy a", refused=False),
    bash("quota-deploy b", refused=False),
    bash("quota-deploy c", "deploy 3 of 2"),
    bash("x mixin-never", "mixin-guard: mixin-never"),
    bash("x --mixin-flag", "mixin-guard: mixin-flag"),
    bash("branch-commit", "on main: make a branch first"),
    write("a.matched", "matched 'a.matched'"),
    bash("matched-ask", "matched asks []", '"permissionDecision": "ask"', refused=False),
    Call("permission-request", bash("matched-permit").data, ("never",)),
    bash("asynchronous ok", refused=False),
    bash("asynchronous tools everywhere", "score 27"),
    bash("routed", "BEFORE_TOOL before_tool routed"),
    bash("helper-no", "NO!!!"),
    bash("dc ask", "dc asks", '"permissionDecision": "ask"', refused=False),
    bash("dc more", "dataclassed 2/1"),
    bash("init-no", "init-defaults blocks", "system: init-defaults"),
    bash("nosuper-no", "no super True"),
    bash("slot-no", "slotted ['slot-no']"),
    bash("meta-no", "meta Meta"),
    bash("above-no", "above"),
    bash("below-no", "below True"),
    bash("asyncdeco-no", "asyncdeco"),
    bash("env-no", "http://team.example tok lenient"),
    write("/p/x.rf", "read it first", tool="Edit"),
    Call("pre-tool-use", {"tool_name": "Read", "tool_input": {"file_path": "/p/x.rf"}}, (), refused=False),
    Call("pre-tool-use", {"tool_name": "Edit", "tool_input": {"file_path": "/p/x.rf"}}, (), refused=False),
    Call(
        "pre-tool-use", {"tool_name": "WebFetch", "tool_input": {"url": "https://x.org"}}, ("no docs: https://x.org",)
    ),
    Call("user-prompt-submit", {"prompt": "!routed"}, ("routed context", "routed to the person"), refused=False),
    Call("user-prompt-submit", {"prompt": "guide me"}, ("guided", "to the person"), refused=False),
    Call("user-prompt-submit", {"prompt": "forbidden thing"}, ("this prompt is forbidden",)),
    Call("user-prompt-submit", {"prompt": "remind milk"}, ("reminder: milk",), refused=False),
    Call("user-prompt-submit", {"prompt": "loop-no"}, ("loop before_agent",)),
    Call("stop", {"session_id": "unfinished"}, ("the tests have not run",)),
    Call("stop", {"session_id": "unfinished", "stop_hook_active": True}, (), refused=False),
    Call(
        "BeforeTool",
        {"tool_name": "run_shell_command", "tool_input": {"command": "gemini-no"}},
        ("gemini: Bash: run_shell_command",),
        source="gemini",
    ),
    Call(
        "BeforeTool",
        {"function_name": "read_file", "parameters": {"file_path": "gemini-no"}},
        ("gemini: Read: read_file",),
        source="gemini",
    ),
    Call("beforeShellExecution", {"conversation_id": "c1", "command": "cursor-no"}, ("cursor: Bash",), source="cursor"),
    Call("pre_run_command", {"tool_info": {"command_line": "windsurf-no"}}, ("windsurf: Bash",), source="windsurf"),
    Call(
        "preToolUse",
        {"sessionId": "p1", "toolName": "bash", "toolArgs": '{"command": "copilot-no"}'},
        ("copilot: Bash", '"reason"'),
        source="copilot",
    ),
)
OBSERVED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session-start", {"source": "startup"}),
    ("post-tool-use", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "a.txt"}}),
    ("post-tool-use-failure", {"tool_name": "Bash", "tool_input": {"command": "false"}, "error": "exit 1"}),
    (
        "post-tool-use",
        {
            "tool_name": "mcp__gobby__call_tool",
            "tool_input": {"server_name": "github", "tool_name": "create_issue", "arguments": {}},
            "tool_response": "made",
        },
    ),
    ("notification", {"message": "hello"}),
    ("pre-compact", {"trigger": "auto"}),
    ("subagent-stop", {}),
    ("permission-request", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    ("stop", {}),
    ("session-end", {"reason": "clear"}),
)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as made:
        made.usual = Answer(200, b'{"word": "pong"}')
        made.by_path["/phase"] = Answer(200, b'{"decision": "deny", "reason": "policy says no"}')
        yield made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    """A worker of a person who has all these files, with everything of Gobby imported."""
    with fleet(tmp_path_factory.mktemp("gobbys")) as made:
        home = made.home / ".gobby"
        for folder in ("plugins", "workflows", "rules"):
            shutil.copytree(FILES / folder, home / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (home / "workflows").rglob("*.yaml"):
            path.write_text(path.read_text().replace("@PORT@", str(receiver.port)), encoding="utf-8")
        plugins = {name: {"config": config} for name, config in CONFIGS.items()} | {name: {} for name in OTHERS}
        config = {
            "daemon_port": free_port(),
            "websocket": {"port": free_port()},
            "hook_extensions": {
                "plugins": {"enabled": True, "plugin_dirs": ["~/.gobby/plugins"], "plugins": plugins},
            },
        }
        (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        (home / "bootstrap.yaml").write_text(f"daemon_port: {config['daemon_port']}\n", encoding="utf-8")
        made.places.config.mkdir(parents=True, exist_ok=True)
        (made.places.config / "fleethook.yaml").write_text(
            f"version: 1\nimport: [{home}/config.yaml, {home}/workflows]\n"
            f'network: {{allow: ["127.0.0.1:{receiver.port}"]}}\n',
            encoding="utf-8",
        )
        made.start("evaluator", TOKEN="t0k", TEAM_WEBHOOK="http://team.example", TEAM_TOKEN="tok")
        yield made


@pytest.fixture(scope="module")
def gobby(world: Fleet) -> Daemon:
    config = yaml.safe_load((world.home / ".gobby/config.yaml").read_text(encoding="utf-8"))
    daemon = Daemon(world, start_gateway(world), world.home, config["daemon_port"], config["websocket"]["port"])
    daemon.wait_open()
    return daemon


def sent(gobby: Daemon, event: str, data: Mapping[str, Any], source: str = "claude") -> dict[str, Any]:
    """The answer to a hook call in the folder of a project."""
    folder = str(gobby.home / "project")
    if not Path(folder).exists():
        subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    common = {"session_id": "s1", "cwd": folder, "transcript_path": "/tmp/t.jsonl"}
    native = {"pre-tool-use": "PreToolUse"}.get(event)
    named = {"hook_event_name": native} if native else {}
    answer = gobby.execute(source, event, {**common, **named, **data})
    assert isinstance(answer, dict)
    return answer


def is_refused(answer: Mapping[str, Any]) -> bool:
    return (
        answer.get("continue") is False
        or answer.get("decision") in {"block", "deny"}
        or "deny" in {answer.get("permission"), answer.get("permissionDecision")}
    )


def test_every_plugin_of_a_stranger_runs_as_it_is(gobby: Daemon) -> None:
    """One session of calls, in order: some plugins count them."""
    wrong = []
    for call in CALLS:
        answer = sent(gobby, call.event, call.data, call.source)
        text = json.dumps(answer)
        if is_refused(answer) is not call.refused or not all(word in text for word in call.words):
            wrong.append((call, answer))
    assert wrong == []


def test_handlers_at_fifty_and_above_see_every_event_in_each_signature(gobby: Daemon) -> None:
    for event, data in OBSERVED:
        assert not is_refused(sent(gobby, event, {"session_id": "watched", **data}))
    sent(gobby, "pre-tool-use", {"tool_name": "Bash", "tool_input": {"command": "watched"}})
    seen = gobby.home / ".gobby/seen"

    def lines(name: str) -> list[dict[str, Any]]:
        path = seen / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def told() -> dict[str, dict[str, Any]]:
        return {line["handler"]: line for line in lines("observers") if line["command"] == "watched"}

    wait_until(lambda: {"at_fifty", "awaited", "star", "late_deny", "one"} <= told().keys(), "all five have seen it")
    assert {name: line.get("decision", line.get("response")) for name, line in told().items()} == {
        **dict.fromkeys(("at_fifty", "awaited", "star", "late_deny"), "allow"),
        "one": "not given",
    }
    kinds = {"load", "session_start", "after_tool", "notification", "pre_compact", "subagent_stop", "session_end"}
    wait_until(lambda: kinds <= {line["kind"] for line in lines("audit-log")}, "the audit has every event")
    assert lines("audit-log")[0] == {"kind": "load", "tag": "mine"}
    wait_until(lambda: len(lines("sources")) == 3 and len(lines("slow")) == 3, "tool calls are seen")
    assert [(line["failure"], *line["mcp"]) for line in lines("sources")] == [
        (False, None, None),
        (True, None, None),
        (False, "github", "create_issue"),
    ]
    wait_until(lambda: {"new_stop", "old_stop"} <= {line["handler"] for line in lines("names")}, "a stop has two names")
    call = {"level": "DEBUG", "message": "call", "tool": "Bash", "decision": "deny"}
    wait_until(lambda: call in lines("own-logging"), "a plugin's own log has the calls")
    wait_until((seen / "async-tools.txt").exists, "a plugin's own task has written")
    wait_until(lambda: "after_raise" in {line["handler"] for line in lines("observers")}, "after one that raises")
    flaky = bash("flaky-one").data
    for _ in range(2):
        sent(gobby, "post-tool-use-failure", {**flaky, "error": "exit 1"})
    wait_until(lambda: "it failed 2 times" in json.dumps(sent(gobby, "pre-tool-use", flaky)), "it is remembered")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_of_a_stranger_runs_as_it_is(gobby: Daemon, receiver: Receiver, name: str) -> None:
    session = f"in-{name}"
    environment = {**gobby.fleet.environment, "FLEETHOOK_REDIS_URL": gobby.fleet.url("admin")}
    if not name.startswith("lifecycle"):
        started = fleethook_in(environment, gobby.home, "workflows", "start", name, "--session", session)
        assert started.code == 0, started.err
    (gobby.home / "project" / "plan-1.md").unlink(missing_ok=True)
    for step in WORKFLOWS[name]:
        data: dict[str, Any] = {"session_id": session}
        if "tool" in step or "after" in step or "failed" in step:
            data["tool_name"], *words = str(step.get("tool") or step.get("after") or step.get("failed")).split(" ", 1)
            argument = "command" if data["tool_name"] == "Bash" else "file_path"
            data["tool_input"] = step.get("input") or {argument: words[0] if words else "/p/x"}
        if "after" in step:
            event, data["tool_response"] = "post-tool-use", step.get("output", "ok")
        elif "failed" in step:
            event, data["error"] = "post-tool-use-failure", "exit 1"
        elif "prompt" in step:
            event, data["prompt"] = "user-prompt-submit", step["prompt"]
        elif "event" in step:
            event, data = step["event"], {**data, **step.get("data", {})}
        else:
            event = "pre-tool-use"
        if "file" in step:
            (gobby.home / "project" / step["file"]).write_text("THE PLAN", encoding="utf-8")
        answer = sent(gobby, event, data)
        text = json.dumps(answer)
        assert is_refused(answer) is step.get("refused", False), (step, answer)
        assert all(word in text for word in step.get("has", ())), (step, answer)
    if name == "webhooks":
        asked = {request.path: request for request in receiver.got}
        assert asked["/entered"].headers["authorization"] == "Bearer t0k"
        assert asked["/entered"].json == {"ticket": "T-1", "session": session}
        assert asked["/phase"].json["event"] == "phase_entered"
    if name == "known-gaps":
        listed = fleethook_in(environment, gobby.home, "workflows", "trace", session)
        assert "rule not evaluated: undefined_helper(1) > 2" in listed.out
        checked = fleethook_in(environment, gobby.home, "config", "check")
        shown = "known-gaps.yaml:7:16: conditions have no undefined_helper(): this one is false"
        assert shown in checked.out + checked.err
        assert shown in fleethook_in({**environment, "COLUMNS": "400"}, gobby.home, "status").out


@pytest.mark.req("G-16", "G-23")
def test_a_projects_workflow_starts_with_the_users_of_the_same_name(gobby: Daemon) -> None:
    environment = {**gobby.fleet.environment, "FLEETHOOK_REDIS_URL": gobby.fleet.url("admin")}
    project = gobby.home / "project2"
    (project / ".gobby/workflows").mkdir(parents=True)
    (project / ".gobby/workflows/said.yaml").write_text(
        "name: said\nsteps:\n  - {name: strict, blocked_tools: [Edit]}\n", encoding="utf-8"
    )
    (project / "fleethook.yaml").write_text("import: [.gobby]\n", encoding="utf-8")
    assert fleethook_in(environment, project, "hooks", "trust", "--yes").code == 0
    started = fleethook_in(environment, project, "workflows", "start", "said", "--session", "both")
    assert started.out.splitlines() == [
        "session both of claude is in the workflow said, step listen",
        "session both of claude is in the workflow said-project, step strict",
    ]
    edit = {"session_id": "both", "cwd": str(project), "tool_name": "Edit", "tool_input": {"file_path": "/p/x"}}
    answer = sent(gobby, "pre-tool-use", edit)
    assert is_refused(answer), answer
    assert "blocked in the step 'strict'" in json.dumps(answer)
    stopped = fleethook_in(environment, project, "workflows", "stop", "said", "--session", "both")
    assert stopped.out.count("has left the workflow") == 2
    assert not is_refused(sent(gobby, "pre-tool-use", edit))


SCRIPTS: tuple[tuple[str, list[str], dict[str, Any] | None, int, str], ...] = (
    ("dispatcher_2026_02", ["--type=pre-tool-use"], bash("ls").data, 0, '"approve"'),
    ("dispatcher_2026_02", ["--type=pre-tool-use"], bash("rm -rf /srv/x").data, 2, "block-rm"),
    ("dispatcher_2026_02", ["--type=stop"], {"session_id": "unfinished"}, 2, "the tests have not run"),
    ("dispatcher_2026_02", ["--type=BeforeTool", "--cli=gemini"], CALLS[-5].data, 2, "gemini: Bash"),
    ("dispatcher_2026_02", ["--type=pre_run_command", "--cli=windsurf"], CALLS[-2].data, 2, "windsurf: Bash"),
    ("dispatcher_2026_02", ["--type=preToolUse", "--cli=copilot"], CALLS[-1].data, 2, "copilot: Bash"),
    ("dispatcher_2026_02", ["--type=beforeShellExecution", "--cli=cursor"], CALLS[-3].data, 0, '"permission": "deny"'),
    ("dispatcher_2026_02", ["--type=pre-tool-use"], None, 2, "{}"),
    ("dispatcher_2026_01_03", ["--type=pre-tool-use"], bash("rm -rf /srv/x").data, 0, '"decision": "block"'),
    ("dispatcher_2026_01_03", ["--type=BeforeTool", "--cli=gemini"], CALLS[-5].data, 2, '"decision": "deny"'),
    ("plain_http", ["--type=pre-tool-use"], bash("ls").data, 0, '"approve"'),
    ("plain_http", ["--type=pre-tool-use"], bash("rm -rf /srv/x").data, 2, "block-rm"),
    ("gemini_flat", [], {"hook_event_name": "BeforeTool", **CALLS[-5].data}, 2, "gemini: Bash"),
    ("gemini_flat", [], {"hook_event_name": "AfterTool", **CALLS[-5].data}, 0, '"allow"'),
    ("codex_notify", [], {"session_id": None, "type": "agent-turn-complete", "threadId": "t9"}, 0, ""),
)


@pytest.mark.req("G-23")
def test_dispatcher_scripts_of_strangers_print_and_exit_as_their_release_does(gobby: Daemon) -> None:
    for script, options, data, code, words in SCRIPTS:
        done = subprocess.run(
            [sys.executable, "-I", str(FILES / "scripts" / f"{script}.py"), *options],
            input=json.dumps({"session_id": "d1", **data}) if data is not None else "no JSON",
            capture_output=True,
            text=True,
            env={"HOME": str(gobby.home), "PATH": "/usr/bin:/bin"},
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, (script, options, done)
        assert words in done.stdout + done.stderr, (script, options, done)
    wait_until(lambda: gobby.fleet.events(session="t9"), "Codex's notice is an event of its thread")
    assert [turn.event.type for turn in gobby.fleet.events(session="t9")] == ["agent:stop"]
