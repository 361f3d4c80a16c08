"""Gobby's scripts and WebSocket clients against a gateway that replaces Gobby's daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.support.beside import beside
from tests.support.fleet import Fleet, fleet
from tests.support.gobby.daemon import PLUGIN, RELEASES, SCRIPTS, Daemon, Said, SocketClient, configure, start_daemon
from tests.support.gobby.table import REPORTED, Reported
from tests.support.receivers import Answer, receiving
from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("G-01", "G-02", "G-03", "G-04", "G-05", "G-23")]

HOOKS = """
version: 1
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', rule: {reason: no rm, instead: ls, commands: [{program: [rm]}]}}
  - {id: no-stranger, on: 'session:start', when: 'event.session == "stranger"', rule: {reason: no strangers}}
"""
BASH = {"session_id": "s1", "cwd": "/tmp", "tool_name": "Bash", "tool_input": {"command": "ls"}}
RM = {**BASH, "tool_input": {"command": "rm -rf x"}}
ALLOWED = {"continue": True, "decision": "approve"}
EVERY = "['*']"
every_release = pytest.mark.parametrize("release", RELEASES)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("gobby"), "evaluator", hooks=HOOKS) as one:
        yield one


@pytest.fixture(scope="module")
def daemon(world: Fleet) -> Daemon:
    return start_daemon(world, plugin=PLUGIN)


@every_release
def test_a_script_passes_on_what_is_allowed_and_refuses_what_is_denied(daemon: Daemon, release: str) -> None:
    assert daemon.script("pre-tool-use", BASH, release=release) == Said(0, ALLOWED, "")
    denied = daemon.script("pre-tool-use", RM, release=release)
    gemini = {**RM, "tool_name": "run_shell_command"}
    by_gemini = daemon.script("BeforeTool", gemini, cli="gemini", release=release)
    if release == "2026-01-03":  # its refusal of Claude Code is JSON
        assert (denied.code, denied.out["continue"], denied.out["decision"]) == (0, False, "block")
        assert denied.out["stopReason"].startswith("no rm")
        assert (by_gemini.code, by_gemini.out["decision"]) == (2, "deny")
    else:
        for refused in (denied, by_gemini):
            assert (refused.code, refused.out) == (2, None)
            assert refused.err.startswith("no rm")
    assert daemon.script("SessionStart", {"session_id": "stranger"}, cli="gemini", release=release).code == 2


@every_release
def test_an_ask_reaches_claude_code_as_an_ask(world: Fleet, daemon: Daemon, release: str) -> None:
    text = (
        HOOKS
        + "  - {id: look, on: 'tool:pre_execute:bash', rule: {decision: ask, reason: look, commands: [{program: [sudo]}]}}"
    )
    world.publish_hooks(text)
    said = daemon.script("pre-tool-use", {**BASH, "tool_input": {"command": "sudo ls"}}, release=release)
    assert (said.code, "decision" in said.out) == (0, False)
    assert said.out["hookSpecificOutput"]["permissionDecision"] == "ask"
    world.publish_hooks(HOOKS)


def test_every_event_of_every_program_gets_an_answer_and_is_recorded(world: Fleet, daemon: Daemon) -> None:
    def ask(one: Reported) -> Any:
        return daemon.execute(one.source, one.hook_type, one.fields(f"{one.source}.{one.hook_type}"))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, REPORTED))
    assert all(isinstance(answer, dict) for answer in answers)
    recorded = {seen.event.session: seen.event for seen in world.events()}
    for one in REPORTED:
        event = recorded[f"{one.source}.{one.hook_type}"]
        assert event.source == ("claude" if one.source in {"antigravity"} | _SDK else one.source)


_SDK = {"claude_sdk", "claude_sdk_web_chat"}


def test_what_is_no_hook_call_is_refused_in_gobbys_words(daemon: Daemon) -> None:
    with daemon.http() as client:
        for body, detail in (
            ({"source": "claude"}, "hook_type required"),
            ({"hook_type": "stop"}, "source required"),
            ({"hook_type": "stop", "source": "emacs"}, "Unsupported source: emacs. Supported: claude, gemini, codex"),
        ):
            answer = client.post("/hooks/execute", json=body)
            assert (answer.status_code, answer.json().keys()) == (400, {"detail"})
            assert answer.json()["detail"].startswith(detail)
        for method, path, status in (("GET", "/hooks/execute", 405), ("GET", "/tasks", 404)):
            missing = client.request(method, path)
            assert (missing.status_code, missing.json().keys()) == (status, {"detail"})
        broken = client.post("/hooks/execute", content=b"{")
        assert (broken.status_code, "decision" in broken.json()) == (400, False)
    assert daemon.execute("claude", "no-such-event", {"session_id": "s"}) == ALLOWED, "it is a notification"
    skipped = daemon.execute("codex", "item/started", {"threadId": "t"})
    assert skipped["status"] == "skipped"
    assert daemon.execute("codex", "AgentTurnComplete", {"last_message": "m"})["message"] == "no thread id"


EDITS = HOOKS + "  - {id: no-env, on: 'tool:pre_execute', rule: {reason: no env, path: [.env]}}\n"
SHELL = {"command": "rm -rf x"}
APPROVE, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("gemini", "BeforeTool", {"function_name": "run_shell_command", "parameters": SHELL}),
    ("gemini", "BeforeTool", {"tool_name": "RunShellCommand", "args": SHELL}),
    ("gemini", "BeforeTool", {"tool_name": "ShellTool", "tool_input": SHELL}),
    ("gemini", "BeforeTool", {"tool_name": "WriteFileTool", "tool_input": {"file_path": "/p/.env"}}),
    ("antigravity", "BeforeTool", {"function_name": "run_shell_command", "args": SHELL}),
    ("codex", APPROVE, {"threadId": "t", "parsedCmd": "rm -rf x"}),
    ("codex", APPROVE, {"threadId": "t", "command": ["bash", "-lc", "rm -rf x"]}),
    ("codex", APPROVE, {"thread": {"id": "t"}, "parsedCmd": [{"type": "unknown", "cmd": "rm -rf x"}]}),
    ("codex", CHANGE, {"threadId": "t", "changes": {"/p/a": {"type": "add"}, "/p/.env": {"type": "update"}}}),
    ("codex", CHANGE, {"threadId": "t", "changes": [{"path": "/p/.env", "kind": {"type": "delete"}}]}),
    ("codex", CHANGE, {"threadId": "t", "changes": [{"path": "/p/a", "kind": "update", "move_path": "/p/.env"}]}),
]
"""A call that a rule refuses, in every form in which versions of the programs and of Gobby have written it."""


def test_a_refused_call_is_refused_in_every_form(world: Fleet, daemon: Daemon) -> None:
    world.publish_hooks(EDITS)
    for source, kind, fields in REFUSED:
        answer = daemon.execute(source, kind, {"session_id": "forms", **fields})
        assert answer["decision"] in ("deny", "decline"), (source, kind, fields, answer)
        harmless = json.loads(json.dumps(fields).replace("rm -rf x", "ls").replace(".env", "b"))
        assert daemon.execute(source, kind, harmless)["decision"] in ("allow", "accept"), harmless
    with daemon.websocket() as client:
        daemon.execute("codex", CHANGE, {"threadId": "t", "changes": {"/p/a": {"type": "add"}}})
        sent = client.next()["data"]
        assert (sent["tool_name"], sent["tool_input"]) == ("Write", {"/p/a": {"type": "add"}})
    world.publish_hooks(HOOKS)


def test_geminis_fields_may_stand_beside_the_envelope(world: Fleet, daemon: Daemon) -> None:
    flat = {**RM, "session_id": "flat", "tool_name": "run_shell_command", "hook_event_name": "BeforeTool"}
    with daemon.http() as client:
        answer = client.post("/hooks/execute", json={**flat, "hook_type": "BeforeTool", "source": "gemini"}).json()
    assert answer["decision"] == "deny"
    (seen,) = world.events(session="flat")
    assert (seen.event.tool, seen.decision) == ("bash", "deny")


def test_codexs_notify_script_says_nothing_and_its_event_is_recorded(world: Fleet, daemon: Daemon) -> None:
    sent = {"type": "agent-turn-complete", "thread-id": "x", "thread": {"id": "turn-7"}, "last-assistant-message": "ok"}
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPTS / "codex_notify.py")],
        input=json.dumps(sent).encode(),
        capture_output=True,
        env={"GOBBY_PORT": str(daemon.port)},
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (seen,) = world.events(session="turn-7")
    assert (seen.event.source, seen.event.type) == ("codex", "agent:stop")


@every_release
def test_a_daemon_that_is_away_is_told_apart(tmp_path: Path, release: str) -> None:
    (tmp_path / ".gobby").mkdir()
    port = free_port()
    (tmp_path / ".gobby/config.yaml").write_text(f"daemon_port: {port}\n", encoding="utf-8")
    away = Daemon(None, None, tmp_path, port, 0)  # type: ignore[arg-type]  # nothing is asked of a fleet here
    said = away.script("pre-tool-use", BASH, release=release)
    assert (said.code, said.out["status"]) == (0, "daemon_not_running")
    critical = away.script("session-start", BASH, release=release)
    assert critical.code == (0 if release == "2026-01-03" else 2)


def plugins_of(daemon: Daemon) -> Any:
    """What `/plugins` says once the evaluator has loaded the plugin."""
    with daemon.http() as client:
        wait_until(lambda: client.get("/plugins").json()["plugins"], "the plugin runs")
        return client.get("/plugins").json()


def test_lists_say_what_there_is(daemon: Daemon) -> None:
    schema = {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}
    entry = {
        "name": "watcher",
        "version": "1.0.1",
        "description": "watches compactions",
        "handlers": [{"event": "pre_compact", "priority": 60}],
        "actions": [
            {"name": "note", "has_schema": False, "schema": None},
            {"name": "keep", "has_schema": True, "schema": schema},
        ],
        "conditions": ["calm"],
    }
    folders = [str(daemon.home / ".gobby/plugins")]
    assert plugins_of(daemon) == {"success": True, "enabled": True, "plugins": [entry], "plugin_dirs": folders}
    with daemon.http() as client:
        status = client.get("/admin/status").json()
        assert (status["status"], status["server"]["port"]) == ("healthy", daemon.port)
        assert status["plugins"] == {
            "enabled": True,
            "loaded": 1,
            "handlers": 1,
            "plugins": [{"name": "watcher", "version": "1.0.1", "handlers": 1, "actions": 2}],
        }
        reload = client.post("/plugins/reload", json={"name": "code-guardian"}).json()
        assert (reload["success"], "code-guardian" in reload["error"]) == (False, True)
        assert client.post("/plugins/reload", json={}).status_code == 400
        assert client.get("/webhooks").json() == {"success": True, "enabled": False, "endpoints": []}
        assert client.post("/webhooks/test", json={"name": "x"}).json()["success"] is False


RELOAD = """
import json, os, sys, urllib.request
parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:  # no agent that runs the tests is above it from then on
    os.sched_yield()
body, kind = json.dumps({"name": "watcher"}).encode(), {"Content-Type": "application/json"}
request = urllib.request.Request(f"http://localhost:{sys.argv[1]}/plugins/reload", body, kind)
print(urllib.request.urlopen(request, timeout=60).read().decode())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell whose connection it is")
def test_a_script_of_this_user_reloads_a_plugin_and_an_agents_does_not(daemon: Daemon) -> None:
    plugins_of(daemon)

    def ask(**env: str) -> Any:
        words = [sys.executable, "-I", "-c", RELOAD, str(daemon.port)]
        done = subprocess.run(words, env=env, capture_output=True, timeout=2 * PATIENCE, check=True)
        return json.loads(done.stdout)

    path = daemon.home / ".gobby/plugins/watcher.py"
    path.write_text(PLUGIN.replace("1.0.1", "1.0.2"), encoding="utf-8")
    refused = ask(CLAUDECODE="1")
    assert refused["success"] is False
    assert "an agent calls (claude: CLAUDECODE is set)" in refused["error"]
    assert plugins_of(daemon)["plugins"][0]["version"] == "1.0.1"
    assert ask() == {"success": True, "name": "watcher", "version": "1.0.2"}
    path.write_text(PLUGIN, encoding="utf-8")
    assert ask() == {"success": True, "name": "watcher", "version": "1.0.1"}


def test_status_and_metrics_have_gobbys_names_and_count(daemon: Daemon) -> None:
    def scraped() -> dict[str, float]:
        with daemon.http() as client:
            answer = client.get("/admin/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = text_string_to_metric_families(answer.text)
        return {one.name: one.value for family in found for one in family.samples if "fleethook" not in one.name} | {
            "fleethook": float("fleethook_verdicts_total" in answer.text)
        }

    before = scraped()
    daemon.execute("claude", "session-start", {"session_id": "counted"})
    with daemon.http() as client:
        assert client.post("/hooks/execute", content=b"{").status_code == 400
        status = client.get("/admin/status").json()
    after = scraped()
    for name, more in (("hooks", 1), ("hooks_succeeded", 1), ("hooks_failed", 0), ("http_requests_errors", 1)):
        assert after[f"{name}_total"] - before[f"{name}_total"] == more, name
    assert after["http_request_duration_seconds_count"] == after["http_requests_total"] > before["http_requests_total"]
    assert after["daemon_memory_usage_bytes"] > after["daemon_uptime_seconds"] > 0
    assert {"background_tasks_active", "daemon_cpu_percent", "mcp_calls_total", "fleethook"} <= after.keys()
    assert after["fleethook"]
    assert status["sessions"].keys() == {"active", "paused", "handoff_ready", "total"}
    assert status["background_tasks"].keys() == {"active", "total", "completed", "failed"}
    assert status["process"].keys() >= {"memory_rss_mb", "cpu_percent", "num_threads"}
    for name in ("mcp_servers", "internal_tools_count", "tasks", "memory", "skills"):
        assert not status[name], f"there is no {name}"


def test_pages_of_other_origins_and_other_names_are_refused(daemon: Daemon) -> None:
    body = {"hook_type": "stop", "source": "claude", "input_data": {}}
    for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        with daemon.http(**headers) as client:
            answer = client.post("/hooks/execute", json=body)
            assert (answer.status_code, "decision" in answer.json()) == (403, False)
    with pytest.raises(InvalidStatus), daemon.websocket(origin="https://evil.example"):
        pass


def test_a_websocket_client_gets_what_is_broadcast_and_what_it_subscribed_to(daemon: Daemon) -> None:
    with daemon.websocket() as every, daemon.websocket("/any/path") as chosen:
        names = ["before_tool", "stop"]  # `stop` is not in broadcast_events, so even its subscriber does not get it
        assert chosen.ask({"type": "subscribe", "events": names}) == {"type": "subscribe_success", "events": names}
        for kind, fields in (("session-start", BASH), ("stop", BASH), ("pre-tool-use", RM)):
            daemon.execute("claude", kind, {**fields, "session_id": "ws"})
        started, denied = every.next(), every.next()
        assert (started["type"], started["event_type"], started["session_id"]) == ("hook_event", "session-start", "ws")
        assert denied["result"] == {**denied["result"], "continue": False, "decision": "block", "status": "success"}
        assert denied["result"]["stopReason"].startswith("no rm")
        assert (denied["source"], denied["response"]["decision"]) == ("claude", "deny")
        assert (denied["data"]["tool_input"], denied["data"]["external_id"]) == ({"command": "rm -rf x"}, "ws")
        only = chosen.next()
        assert (only["event_type"], only["timestamp"]) == ("before_tool", denied["timestamp"])
        assert chosen.ask({"unsubscribe": ["*"]}) == {"type": "unsubscribe_success", "events": []}
        daemon.execute("claude", "pre-tool-use", BASH)
        assert every.next()["event_type"] == "pre-tool-use"
        assert chosen.ask({"type": "ping"})["type"] == "pong", "nothing was sent before it"


def test_a_subscription_may_have_a_condition(daemon: Daemon) -> None:
    with daemon.websocket() as client:
        wrong = client.ask({"type": "subscribe", "events": ["*"], "where": "event.nope ==", "request_id": "r1"})
        assert (wrong["type"], wrong["code"], wrong["request_id"]) == ("error", "ERROR", "r1")
        asked = {"subscribe": ["pre-tool-use", "session_start"], "where": 'event.session == "mine"'}
        assert sorted(client.ask(asked)["events"]) == ["pre-tool-use", "session_start"]
        for session in ("other", "mine"):
            daemon.execute("claude", "session-start", {"session_id": session})
            daemon.execute("claude", "pre-tool-use", {**BASH, "session_id": session})
        first, second = client.next(), client.next()
        assert [first["session_id"], second["session_id"]] == ["mine", "mine"]
        assert (first["event_type"], second["event_type"]) == ("session_start", "pre-tool-use")


def test_bad_messages_get_an_error_and_the_connection_stays(daemon: Daemon) -> None:
    with daemon.websocket() as client:
        for sent, message in (
            ("{", "Invalid JSON format"),
            ({"type": "dance"}, "Unknown message type: dance"),
            ({"type": "subscribe", "events": "stop"}, "events must be a list of strings"),
            ({"type": "x" * 2_000_000}, "Unknown message type: xxx"),
            ({"type": "tool_call", "mcp": "m", "tool": "t", "args": {}}, "this port calls no tools"),
        ):
            error = client.ask(sent)
            assert (error["type"], error["code"]) == ("error", "ERROR")
            assert error["message"].startswith(message)
        assert client.ask({"type": "ping"})["type"] == "pong"


def test_a_secret_is_redacted_and_a_change_of_the_configuration_is_followed(world: Fleet, daemon: Daemon) -> None:
    secret = "sk-ant-api03-" + "A1b2C3d4" * 11
    with daemon.websocket() as old:
        full = configure(world, daemon.gateway, broadcast=EVERY)
        full.wait_open()
        with pytest.raises(ConnectionClosed) as closed:
            old.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
    assert not daemon.is_open, "the ports of the configuration before are closed"
    with full.websocket() as client:
        full.execute("claude", "user-prompt-submit", {"session_id": "s", "prompt": f"use {secret}"})
        message = client.next()
        assert (message["event_type"], message["event"]) == ("user-prompt-submit", "before_agent")
        assert message["data"]["prompt"].startswith("use ")
        assert secret not in json.dumps(message)
    bare = configure(world, daemon.gateway, broadcast=EVERY, payload="false")
    bare.wait_open()
    with bare.websocket() as client:
        bare.execute("claude", "stop", {"session_id": "s"})
        message = client.next()
        assert (set(message), message["event_type"]) == ({"type", "event_type", "timestamp"}, "stop")
    (world.places.config / "fleethook.yaml").write_text("version: 1\n", encoding="utf-8")
    wait_until(lambda: not bare.is_open, "Gobby's ports are closed once nothing of Gobby is imported")


@pytest.mark.parametrize(("status", "works"), [(200, True), (503, False)])
def test_an_endpoint_is_listed_and_tested_once(world: Fleet, daemon: Daemon, status: int, works: bool) -> None:
    with beside(receiving) as receiver:
        receiver.usual = Answer(status)
        endpoint = f"endpoints: [{{id: chat, url: '{receiver.url('/chat')}', events: [session:end], retry: [1, 2]}}]"
        opened = f"network: {{allow: ['127.0.0.1:{receiver.port}']}}"
        with_chat = configure(world, daemon.gateway, more=f"{endpoint}\n{opened}\n")
        with_chat.wait_open()
        with with_chat.http() as client:
            found = client.get("/webhooks").json()
            said = client.post("/webhooks/test", json={"name": "chat", "event_type": "session-end"}).json()
    (listed,) = found["endpoints"]
    assert found["enabled"] is True
    assert (listed["name"], listed["events"], listed["can_block"], listed["retry_count"]) == (
        "chat",
        ["session-end"],
        False,
        2,
    )
    assert (said["success"], said["status_code"], said["error"] is None) == (works, status, works)
    (got,) = receiver.got
    assert got.json["type"] == "session.end"
    assert b"a test that /webhooks/test sends" in got.body


@pytest.mark.parametrize("policy", ["allow", "deny"])
def test_without_an_evaluator_the_failure_policy_answers_and_says_so(tmp_path: Path, policy: str) -> None:
    with fleet(tmp_path) as alone:
        daemon = start_daemon(alone, FLEETHOOK_ON_FAILURE=policy, FLEETHOOK_BUDGET="2s")
        with daemon.http() as client:
            assert client.get("/admin/status").json()["status"] == "degraded"
        said = daemon.script("pre-tool-use", BASH, release="2026-02-22")
        if policy == "deny":
            assert (said.code, "could not get a verdict" in said.err) == (2, True)
        else:
            assert (said.code, "decision" in said.out) == (0, False), "a failure looks like no allow"
            assert "no evaluator is alive" in said.out["systemMessage"]
        assert daemon.script("stop", BASH, release="2026-02-22").code == 0, "a stop never fails closed"
        with daemon.http() as client:
            for kind, status in (("pre-tool-use", 200 if policy == "deny" else 400), ("stop", 400)):
                body = {"hook_type": kind, "source": "claude", "input_data": "not an object"}
                unread = client.post("/hooks/execute", json=body)
                assert unread.status_code == status, "the script takes a 400 for a failure, and lets the call pass"
                refused = {"continue": False, "decision": "block"}
                assert (refused.items() <= unread.json().items()) == (status == 200)
        with daemon.http() as client, daemon.websocket() as live:
            failed = 3 if policy == "deny" else 2
            assert f"\nhooks_failed_total {failed}.0\n" in client.get("/admin/metrics").text
            alone.workers[-1].process.terminate()
            with pytest.raises(ConnectionClosed) as closed:
                live.next()
            alone.workers[-1].process.wait(PATIENCE)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001, "as Gobby's daemon closes it when it stops"


def test_the_gateway_serves_the_messages_at_ws_with_a_token(world: Fleet, daemon: Daemon) -> None:
    url = f"ws://127.0.0.1:{daemon.gateway.port}/ws"
    with pytest.raises(InvalidStatus) as refused, connect(url):
        pass
    assert refused.value.response.status_code == 401
    token = {"Authorization": f"Bearer {daemon.gateway.token('gobby', 'observe')}"}
    with connect(url, additional_headers=token) as connection:
        client = SocketClient(connection)
        assert client.next()["type"] == "connection_established"
        assert client.ask({"type": "subscribe", "events": ["notification"]})["type"] == "subscribe_success"
        event = {"type": "notification", "source": "codex", "session": "s9", "data": {"message": "done"}}
        with daemon.gateway.unix() as http:
            assert http.post("/v1/events", json=event).status_code == 202
        message = client.next()
    assert (message["event_type"], message["source"], message["session_id"]) == ("notification", "codex", "s9")
    assert message["data"]["message"] == "done"
