"""One stop for all agents: above every rule, told to the model, lifted by a person alone (X-12)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.flow.fleet_control.conftest import Command
from tests.support.fleet import HOST, Agent, Fleet
from tests.support.held import Held
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.req("X-12")]


def call(command: str = "ls", **more: Any) -> dict[str, Any]:
    """A tool call of Claude Code, always the same one."""
    return {
        "hook_event_name": "PreToolUse",
        "session_id": "s1",
        "cwd": "/srv",
        "tool_name": "Bash",
        "tool_use_id": "toolu_1",
        "tool_input": {"command": command},
        **more,
    }


def decision(answer: Any) -> str:
    """What the agent reads from the answer of its hook command."""
    if not answer.stdout:
        return "deny" if answer.exit_code == 2 else ""
    said = json.loads(answer.stdout)
    specific = said.get("hookSpecificOutput", {})
    inner = specific.get("decision", {})
    return str(specific.get("permissionDecision") or inner.get("behavior") or said.get("decision") or "")


def test_a_stop_denies_what_agents_begin_and_nothing_else(world: Fleet, claude: Agent, command: Command) -> None:
    assert decision(claude.hook("PreToolUse", call())) == ""
    placed = command("stop", "--reason", "the database is down", "--json")
    assert placed.code == 0, placed.err
    stop = placed.json["stop"]
    denied = claude.hook("PreToolUse", call())
    assert decision(denied) == "deny"
    for words in (b"the database is down", b"Instead: wait", stop["by"].encode()):
        assert words in denied.stdout
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "go on"}
    assert decision(claude.hook("UserPromptSubmit", prompt)) == "block"
    asked = call() | {"hook_event_name": "PermissionRequest"}
    assert decision(claude.hook("PermissionRequest", asked)) == "deny"
    for native in ("Stop", "SessionEnd", "PostToolUse", "SessionStart"):
        assert decision(claude.hook(native, {"hook_event_name": native, "session_id": "s1"})) == "", native
    recorded = next(seen for seen in world.events(types=("tool:pre_execute",)) if seen.verdict)
    assert recorded.verdict is not None
    assert (recorded.verdict.stop, recorded.verdict.parts[-1].hook) == (stop["id"], "stop")
    resumed = command("resume", "--reason", "it is back", "--json")
    assert resumed.json["lifted"] == [stop["id"]]
    assert decision(claude.hook("PreToolUse", call())) == "", "the same call passes: the deny was not kept for it"


def test_it_stands_above_what_a_hook_allows(world: Fleet, command: Command) -> None:
    held = Held(world)
    waiting = held.call("deploy stopped")
    question = held.question("deploy stopped")
    command("stop")
    held.answer(question, "approve", comment="go")
    verdict = waiting.result(PATIENCE)
    assert (verdict.decision, bool(verdict.stop)) == ("deny", True)
    assert "has stopped the work" in verdict.reason
    assert held.call("ls").result(PATIENCE).decision == "deny"


def test_a_condition_says_which_agents(world: Fleet, claude: Agent, command: Command) -> None:
    command("stop", "--where", 'event.session == "s2" || event.input.command == "rm"')
    assert decision(claude.hook("PreToolUse", call())) == ""
    assert decision(claude.hook("PreToolUse", call(session_id="s2"))) == "deny"
    assert decision(claude.hook("PreToolUse", call("rm"))) == "deny"
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "x"}
    assert decision(claude.hook("UserPromptSubmit", prompt)) == "block", "what cannot be decided counts as fulfilled"
    assert "did you mean" in command("stop", "--where", "event.host.startWith('x')").err
    assert "there is no verdict yet" in command("stop", "--where", "verdict.decision == 'deny'").err
    assert command("resume", "s-unknown").code == 1


@pytest.mark.req("X-05")
def test_a_secret_in_a_condition_is_shown_nowhere(claude: Agent, operator: httpx.Client, command: Command) -> None:
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    placed = command("stop", "--where", f"event.input.command == '{secret}'", "--json")
    assert placed.code == 0, placed.err
    assert decision(claude.hook("PreToolUse", call(secret))) == "deny"
    assert decision(claude.hook("PreToolUse", call())) == ""
    seen = [placed, command("stop", "--list"), command("status"), command("resume")]
    for text in [*(one.out + one.err for one in seen), operator.get("/v1/stop").text]:
        assert secret not in text


def test_an_operator_stops_and_resumes_over_http(
    world: Fleet, claude: Agent, operator: httpx.Client, command: Command
) -> None:
    placed = operator.post("/v1/stop", json={"reason": "by token", "where": f"event.host == '{HOST}'"})
    assert placed.status_code == 200, placed.text
    assert decision(claude.hook("PreToolUse", call())) == "deny"
    by_http = operator.post("/v1/hooks/claude/PreToolUse", json=call(), headers={"Fleethook-Host": HOST})
    assert by_http.json()["hookSpecificOutput"]["permissionDecision"] == "deny"
    asked = operator.post("/v1/requests", json={"type": "tool:pre_execute", "tool": "bash", "host": HOST})
    assert asked.json()["stop"] == placed.json()["id"]
    shown = operator.get("/v1/stop").json()
    assert [one["by"] for one in shown["stops"]] == ["ops"]
    assert "by token" in command("stop", "--list").out
    for wrong in ({"where": "event.host ="}, {"where": "x" * 3000}, {"until": 1}):
        assert operator.post("/v1/stop", json=wrong).status_code == 400
    for where, words in (("event.hots == 'a'", 'did you mean "host"?'), ("1 + 1", "gives int, not true or false")):
        said = operator.post("/v1/stop", json={"where": where})
        assert (said.status_code, said.json()["code"]) == (400, "where-invalid"), "it would stop all agents"
        assert words in said.json()["detail"]
        assert operator.post("/v1/messages", json={"where": where, "text": "x"}).status_code == 400
    assert operator.post("/v1/resume", json={"ids": ["nothing"]}).status_code == 404
    assert operator.post("/v1/resume").json()["lifted"][0]["reason"] == "by token"
    assert decision(claude.hook("PreToolUse", call())) == ""
    history = operator.get("/v1/stop").json()["history"]
    assert [(one["what"], one["by"], one["via"]) for one in history[:2]] == [
        ("resumed", "ops", "token"),
        ("stopped", "ops", "token"),
    ]
    kinds = [(seen.event.type, seen.event.data["by"]) for seen in world.events(types=("fleet:*",))][:2]
    assert kinds == [("fleet:resumed", "ops"), ("fleet:stopped", "ops")]


def test_agents_may_neither_stop_nor_resume(gateway: Any, command: Command) -> None:
    with gateway.tcp(gateway.token("agent-only", "publish")) as client:
        assert client.post("/v1/stop").status_code == 403
        assert client.post("/v1/resume").status_code == 403
    for words in (("stop",), ("resume",)):
        refused = command(*words, CLAUDECODE="1", FLEETHOOK_TEST_CONFIRMS="0")
        assert (refused.code, "a person has to run it" in refused.err.lower()) == (1, True), refused.err
    wait_until(lambda: "No stop is in force" in command("stop", "--list").err, "nothing was stopped")
