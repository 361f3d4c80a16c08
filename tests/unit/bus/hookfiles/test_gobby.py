"""Gobby's `hook_extensions`: read as it stands, its names mapped, its bodies and answers in its own form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.agents.gobby import EVENTS, event_types
from bus.config.hook_file_value import HookFile
from bus.errors import DecodeError
from bus.events import Event
from bus.hookfiles import find_http
from bus.hookfiles.gobby import HOOKS
from bus.hooks import Endpoint, Hook, HttpCall
from bus.hooksets.hookfile import load_foreign, parse_hook_file
from bus.matching.patterns import check_pattern
from bus.verdicts import Verdict
from tests.support.rows import rows
from workers.delivery.formats import MOST_BODY
from workers.delivery.results import Undeliverable
from workers.delivery.webhook import render_body, request_headers

GOBBY = HOOKS["gobby"]
TOLD = Endpoint(id="told", url="https://x.example", dialect="gobby")
HOOK, EVENT = Hook(id="h", on=("*",)), Event(type="tool:pre_execute")
EXAMPLE = Path(__file__).parents[4] / "examples" / "gobby" / "config.yaml"


def read(tmp_path: Path, webhooks: object, **others: object) -> HookFile:
    """A config.yaml with these webhooks."""
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({"daemon_port": 1, "hook_extensions": {"webhooks": webhooks, **others}}, indent=1))
    return load_foreign(path, "user", "gobby")[0]


def endpoints(tmp_path: Path, *entries: object) -> HookFile:
    """What these endpoints are read as."""
    return read(tmp_path, {"enabled": True, "endpoints": entries})


@pytest.mark.req("G-01")
@rows(
    ("names", "types"),
    [
        ("before_tool before-tool pre-tool-use PreToolUse PRE_TOOL_CALL BEFORE_TOOL", "tool:pre_execute"),
        ("after_tool post-tool-use PostToolUse POST_TOOL_CALL", "tool:post_execute tool:error"),
        ("session_start session-start SessionStart", "session:start"),
        ("session_end SESSION_END", "session:end"),
        ("before_agent user-prompt-submit", "user:prompt_submit"),
        ("after_agent", "agent:stop agent:end"),
        ("stop", "agent:stop"),
        ("pre_compact PreCompress", "context:pre_compact"),
        ("before_model", "llm:pre_request"),
        ("after_model", "llm:post_response"),
        ("before_tool_selection", "tool:select"),
        ("subagent_start", "subagent:start"),
        ("subagent-stop", "subagent:stop"),
        ("permission_request", "permission:request"),
        ("notification", "notification"),
        ("nothing_of_this_name", ""),
    ],
)
def test_names_in_every_spelling(names: str, types: str) -> None:
    for name in names.split():
        assert event_types(name) == tuple(types.split()), name


def test_every_event_is_a_pattern_that_exists() -> None:
    for types in EVENTS.values():
        for type_ in types:
            check_pattern(str(type_))


@pytest.mark.req("G-06", "G-09", "G-20", "G-23")
def test_the_example_loads_as_it_stands() -> None:
    file, said = load_foreign(EXAMPLE, "user")
    assert (said.dialect, said.guessed, file.problems) == ("gobby", True, ())
    (policy,) = file.hooks
    assert (policy.id, policy.on, policy.timeout) == ("policy-server", ("tool:pre_execute", "permission:request"), 5.0)
    assert policy.http == HttpCall(
        url="http://localhost:8920/policy", headers={"Authorization": "Bearer ${POLICY_TOKEN}"}
    )
    assert (policy.blocking, policy.on_failure, GOBBY.policy) == (True, None, "allow")
    assert policy.origin == f"{EXAMPLE}:16"
    audit, chat = file.endpoints
    assert audit.retry == (1.0, 2.0, 4.0)
    assert (audit.enabled, chat.enabled) == (True, False)
    (kept,) = file.sections.values()
    assert kept["websocket"]["broadcast_events"] == ["session_start", "session_end", "before_tool", "after_tool"]
    assert kept["plugins"]["plugins"]["code-guardian"]["config"]["checks"] == ["ruff", "mypy"]
    assert not [one for one in file.warnings if "WebSocket" in one], "a gateway serves it"
    importing = parse_hook_file(f"import: ['{EXAMPLE}']", "user")
    private = [one for one in importing.warnings if 'network: {allow: ["localhost:8920"]}' in one]
    assert len(private) == 2, "an address that is not opened is named with its mend"
    opened = parse_hook_file(f"import: ['{EXAMPLE}']\nnetwork: {{allow: ['localhost:8920']}}", "user")
    assert len(opened.warnings) == len(importing.warnings) - 2


@pytest.mark.req("G-06", "G-23")
def test_defaults_are_gobbys(tmp_path: Path) -> None:
    one = {"url": "https://h.example/x"}
    off = read(tmp_path, {"endpoints": [one]})
    assert off.endpoints == ()
    assert "enabled: true" in off.warnings[0], "the master switch is off by default"
    (endpoint,) = endpoints(tmp_path, one).endpoints
    assert (endpoint.events, endpoint.timeout, endpoint.retry) == (("*",), 10.0, (1.0, 2.0, 4.0))
    assert endpoint.id == "gobby-h-example-1"
    (slow,) = read(
        tmp_path, {"enabled": True, "default_timeout": 3, "endpoints": [{**one, "retry_count": 0}]}
    ).endpoints
    assert (slow.timeout, slow.retry) == (3.0, ())
    (closed,) = endpoints(tmp_path, {**one, "can_block": True, "fail_closed": True}).hooks
    assert closed.on_failure == "deny"
    sections = read(tmp_path, {}, websocket=None, plugins={"plugin_dirs": ["x"], "later": 1})
    (kept,) = sections.sections.values()
    assert kept["websocket"]["enabled"] is True
    assert (kept["plugins"]["auto_discover"], kept["plugins"]["later"]) == (True, 1)
    assert any("'later' is not known" in one for one in sections.warnings)


@pytest.mark.req("G-06", "G-23", "X-01")
def test_variables_stand_for_any_value_but_in_a_projects_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FH_WEBHOOKS", "hooks.example")
    entry = {
        "url": "https://${FH_WEBHOOKS}/${FH_NOT_SET:-x}",
        "retry_count": "${FH_TRIES:-1}",
        "can_block": "${FH_BLOCKS:-true}",
        "headers": {"A": "${FH_WEBHOOKS}"},
    }
    (hook,) = endpoints(tmp_path, entry).hooks
    assert (hook.http, hook.retry) == (
        HttpCall(url="https://hooks.example/x", headers={"A": "${FH_WEBHOOKS}"}),
        (1.0,),
    ), "a header's variable is read when the request is made"
    endpoints(tmp_path, {"url": entry["url"]})
    project, _ = load_foreign(tmp_path / "config.yaml", "project", "gobby")
    assert "a URL in a project's file cannot have a variable" in " ".join(map(str, project.problems))


@pytest.mark.req("G-07")
def test_a_receiver_gets_gobbys_headers_and_its_own_replace_them() -> None:
    event = Event(type="tool:pre_execute")
    headers = request_headers(TOLD, "e1.a", b"{}", 1, event=event)
    assert (headers["User-Agent"], headers["X-Gobby-Event"]) == ("Gobby-Webhook/1.0", "before_tool")
    own = msgspec.structs.replace(TOLD, headers={"user-agent": "mine", "x-gobby-event": "y"})
    headers = request_headers(own, "e1.a", b"{}", 1, event=event)
    assert {name: value for name, value in headers.items() if name.lower() in {"user-agent", "x-gobby-event"}} == {
        "user-agent": "mine",
        "x-gobby-event": "y",
    }


@pytest.mark.req("G-06", "F-11", "F-18")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, '"url" is missing'),
        ({"url": "ftp://h/"}, "the URL has to begin with https:// or http://"),
        ({"url": "https://${FH_IS_NOT_SET}/"}, "the URL needs the variable FH_IS_NOT_SET, which is not set here"),
        (
            {"url": "https://h/", "events": ["before_tol"]},
            "Gobby has no event 'before_tol'; did you mean \"before_tool\"?",
        ),
        ({"url": "https://h/", "timeout": "5"}, "timeout has to be a number, not text"),
        ({"url": "https://h/", "retry_count": -1}, "retry_count has to be at least 0"),
        ({"url": "https://h/", "headers": {"A B": "x"}}, "the header 'A B' has characters"),
        ("https://h/", "has to be a mapping"),
    ],
)
def test_a_bad_endpoint_is_left_out_and_named(tmp_path: Path, entry: object, message: str) -> None:
    file = endpoints(tmp_path, entry, {"url": "https://good.example/", "name": "Good One!"})
    (problem,) = file.problems
    assert message in str(problem)
    assert problem.line > 1
    assert [one.id for one in file.endpoints] == ["good-one"]


@pytest.mark.req("G-07", "X-01")
def test_the_body_is_gobbys_whatever_agent_it_came_from() -> None:
    event = Event(
        type="tool:pre_execute",
        source="gemini",
        native="BeforeTool",
        time=1_700_000_000_000,
        session="s",
        host="m",
        cwd="/p",
        tool="bash",
        native_tool="run_shell_command",
        input={"command": "ls"},
    )
    body = json.loads(GOBBY.http_body(event, None))
    assert body == {
        "event": "before_tool",
        "event_type": "before_tool",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "session_id": "s",
        "source": "gemini",
        "project_id": "/p",
        "machine_id": "m",
        "cwd": "/p",
        "task_id": None,
        "metadata": {},
        "data": {"cwd": "/p", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    }
    assert find_http("gobby") is GOBBY
    assert find_http("fleethook") is None
    told = json.loads(render_body(event, Verdict(decision="deny", reason="no"), TOLD))
    assert told["response"] == {"decision": "deny", "reason": "no"}
    secret = Event(type="tool:post_execute", tool="bash", input={"command": "x"}, output="ghp_" + "a" * 36)
    assert b"ghp_a" not in render_body(secret, None, TOLD), "what is sent is redacted"
    large = render_body(
        Event(type="tool:post_execute", output=[f"{n} words" for n in range(MOST_BODY // 8)]), None, TOLD
    )
    assert "the full event has" in json.loads(large)["data"]["thin"]
    with pytest.raises(Undeliverable):
        render_body(Event(type="x", data={"n": float("nan")}), None, TOLD)


@pytest.mark.req("G-08", "G-01")
@pytest.mark.parametrize(
    ("answer", "decision", "reason"),
    [
        ({}, "abstain", ""),
        ({"decision": "allow"}, "abstain", ""),
        ({"decision": "approve", "reason": "fine"}, "abstain", "fine"),
        ({"decision": "deny", "reason": "no", "more": 1}, "deny", "no"),
        ({"decision": "BLOCK"}, "deny", "hook 'h' says deny and gives no reason"),
        ({"decision": "ask", "reason": "sure?"}, "ask", "sure?"),
    ],
)
def test_answers_are_gobbys(answer: dict[str, Any], decision: str, reason: str) -> None:
    said = GOBBY.http_answer(json.dumps(answer).encode(), HOOK, EVENT)
    assert (said.decision, said.reason) == (decision, reason)


def test_an_answer_that_means_nothing_is_a_failure_and_no_decision() -> None:
    for raw in (b"ok", b"[]", b'{"decision": "perhaps"}', b'{"decision": 3}'):
        with pytest.raises(DecodeError):
            GOBBY.http_answer(raw, HOOK, EVENT)
    assert GOBBY.http_answer(b'{"context": "told", "modified_input": {"a": 1}}', HOOK, EVENT).contexts == ("told",)
