"""Hooks over HTTP answer with the bytes that the hook command prints, for every agent and event (issue 12, item 1)."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bus.agents import find
from bus.config.settings import Settings
from bus.events import SOURCES
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import hook_command, write_answer_file
from bus.system.directories import directories
from tests.support.fleet import HOST, NAMESPACE, Fleet
from tests.support.forked import hook_answer
from tests.support.gateway import Gateway, payloads, whole_answer, without_ids
from tests.support.waiting import BUDGET, PATIENCE, wait_until
from workers.admin.agent_setup import SHIM_URL, answers_for
from workers.gateway.calls.hooks import ANSWER_TYPE, BY_HTTP

pytestmark = [pytest.mark.flow, pytest.mark.req("B-08", "G-02")]

RULES = {
    "deny": "hooks: [{id: judge, on: '*', rule: {decision: deny, reason: Not on Fridays, instead: wait}}]",
    "ask": "hooks: [{id: judge, on: '*', rule: {decision: ask, reason: It is shared}}]",
    "nothing": "hooks: [{id: judge, on: 'no:such', rule: {decision: deny, reason: never}}]",
}
AT_ONCE = 3


def shim(world: Fleet, agent: str) -> Path:
    """The answer file of an agent, as `install` writes it."""
    places = directories({"FLEETHOOK_HOME": str(world.folder / "shims")})
    settings = Settings(namespace=NAMESPACE, host=HOST, budget=BUDGET)
    answers, _ = answers_for(agent, settings, places, closed=False, environ={SHIM_URL: world.url("shim")})
    write_answer_file(places.answer_file(agent), answers)
    return places.answer_file(agent)


def by_shim(file: Path, agent: str, native: str, payload: bytes) -> HookAnswer:
    """What the agent's hook command prints."""
    words = hook_command(sys.executable, agent, native, file)
    return hook_answer(words, payload, env={"PATH": os.defpath})


@pytest.mark.one_shim  # that both print the same bytes is what tests/golden/test_conformance.py shows
@pytest.mark.parametrize("decision", RULES)
def test_every_agent_hears_over_http_what_its_hook_command_prints(
    world: Fleet, gateway: Gateway, decision: str, each_shim: str
) -> None:
    world.publish_hooks(f"version: 1\nguards: {{destructive-commands: true}}\n{RULES[decision]}\n")
    token = gateway.token(f"parity-{decision}-{each_shim}")
    cases = [(agent, native, payload) for agent in SOURCES for native, payload in dict(payloads(agent)).items()]
    assert len(cases) > 200
    if decision != "deny":  # an event whose agent does not wait is only announced, whatever the rules say
        cases = [case for case in cases if find(case[0]).capabilities[case[1]].waits]
    files = {agent: shim(world, agent) for agent in SOURCES}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        printed = list(pool.map(lambda case: by_shim(files[case[0]], *case), cases))
    differ = {}
    with gateway.tcp(token) as client, gateway.unix(Accept=ANSWER_TYPE) as local:
        for (agent, native, payload), expected in zip(cases, printed, strict=True):
            path = f"/v1/hooks/{agent}/{native}"
            response = client.post(path, content=payload)
            assert response.status_code == 200, (path, response.text)
            assert int(response.headers["fleethook-exit-code"]) == expected.exit_code
            answer = whole_answer(local.post(path, content=payload))
            wanted = expected.stdout or expected.stderr
            if expected.exit_code and agent in BY_HTTP:  # these agents read no exit code, so a block is JSON for them
                assert response.json()["decision"] == "block"
                wanted = response.content
            seen = HookAnswer(expected.exit_code, response.content)
            if without_ids(answer) != without_ids(expected) or without_ids(seen) != without_ids(
                HookAnswer(expected.exit_code, wanted)
            ):
                differ[path] = (expected, answer, response.content)
    assert differ == {}
    said = {
        case[:2] for case, answer in zip(cases, printed, strict=True) if answer.exit_code or len(answer.stdout) > 30
    }
    assert (len(said) > 60) is (decision == "deny") or decision == "ask", "the rules are seen in the answers"


def test_an_event_without_an_answer_is_on_record(world: Fleet, gateway: Gateway) -> None:
    """An agent does not wait for the answer to a notification, so it is announced and answered at once."""
    with gateway.unix() as client:
        response = client.post("/v1/hooks/claude-code/Notification", json={"session_id": "over-http", "message": "hi"})
    assert (response.status_code, response.content) == (200, b"")
    seen = world.event(response.headers["fleethook-event"])
    assert (seen.event.type, seen.event.source, seen.event.session) == ("notification", "claude", "over-http")


def test_an_unknown_event_is_an_error_with_a_suggestion(gateway: Gateway) -> None:
    with gateway.unix() as client:
        response = client.post("/v1/hooks/claude/preToolUse", json={})
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "event-unknown"
    assert "did you mean 'PreToolUse'?" in response.json()["detail"]
    assert "decision" not in response.json()


@pytest.mark.parametrize(
    ("path", "code", "hint"),
    [
        ("claud/PreToolUse", "agent-unknown", "did you mean 'claude'?"),
        ("gemni/BeforeTool", "agent-unknown", "did you mean 'gemini'?"),
        ("xyz/PreToolUse", "agent-unknown", "it knows claude, codex"),
        ("xyz/notification2", "agent-unknown", "POST /v1/hooks/xyz/tool:pre_execute"),
        ("generic/tool_pre_execute", "event-unknown", "did you mean 'tool:pre_execute'?"),
    ],
)
@pytest.mark.parametrize("policy", ["allow", "deny"])
def test_a_mistyped_agent_is_refused_and_never_let_through(
    gateway: Gateway, path: str, code: str, hint: str, policy: str
) -> None:
    with gateway.unix() as client:
        response = client.post(f"/v1/hooks/{path}", params={"on_failure": policy}, json={"session_id": "s"})
    assert (response.status_code, response.json()["code"]) == (404, code)
    assert hint in response.json()["detail"]


@pytest.mark.parametrize("path", ["my-bot/tool:pre_execute", "my-bot/my-bot:thought", "generic/notification"])
def test_a_program_of_ones_own_sends_canonical_events(gateway: Gateway, path: str) -> None:
    native = path.rpartition("/")[2]
    with gateway.unix() as client:
        response = client.post(f"/v1/hooks/{path}", json={"type": native, "session": "own", "tool": "bash"})
    assert response.status_code == 200, response.text
    assert "fleethook-fallback" not in response.headers


@pytest.mark.parametrize("agent", ["claude", "copilot", "qwen"])
def test_without_an_evaluator_the_failure_policy_answers_by_a_2xx(world: Fleet, gateway: Gateway, agent: str) -> None:
    """These agents take an HTTP error for "go on": a deny has to be a 2xx with the deny in it (issue 12, item 1)."""
    (evaluator,) = [one for one in world.workers if one.kind == "evaluator" and one.runs()]
    evaluator.process.terminate()
    evaluator.process.wait(PATIENCE)
    try:
        with gateway.unix() as client:
            path = f"/v1/hooks/{agent}/PreToolUse"
            payload = dict(payloads(agent))["PreToolUse"]
            wait_until(lambda: "fleethook-fallback" in client.post(path, content=payload).headers, "nobody answers")
            let = client.post(path, content=payload)
            shut = client.post(path, params={"on_failure": "deny"}, content=payload)
    finally:
        world.start("evaluator")
    for response in (let, shut):
        assert response.status_code == 200
        assert "no evaluator is alive" in response.headers["fleethook-fallback"]
    assert find(agent).capabilities["PreToolUse"].waits
    assert b"deny" in shut.content
    assert b'"allow"' not in let.content + shut.content
    reports = [seen for seen in world.events() if seen.fallback_reason]
    assert reports, "the fallback is on record"
