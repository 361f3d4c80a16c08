"""Every recorded payload of Claude Code through the installed hook command, Redis and the workers, and the answer back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bus.agents import claude
from bus.shim.answer import HookAnswer
from bus.tools import canonical_tool
from tests.support.fleet import HOST, Agent, Fleet, fleet
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.flow,
    pytest.mark.req("B-02", "B-08", "I-01", "I-02"),
    pytest.mark.usefixtures("each_shim"),
    pytest.mark.one_shim,
]

RECORDED = sorted((Path(__file__).parents[1] / "golden" / "claude").glob("*-*.json"))
AT_ONCE = 3
"""Agents that fire their hooks at the same time."""

HOOKS = """
hooks:
  - id: dump
    on: "*"
    when: "!event.session.startsWith('said:')"
    command: cat > "$LAB/tmp-$FLEETHOOK_EVENT_ID" && mv "$LAB/tmp-$FLEETHOOK_EVENT_ID" "$LAB/$FLEETHOOK_EVENT_ID.json"
    env: {LAB: LABORATORY}
  - id: oracle
    on: "*"
    when: event.session.startsWith('said:')
    command: cat "$LAB/$FLEETHOOK_SESSION"
    env: {LAB: LABORATORY}
"""
"""`dump` writes down what it got and has no opinion; `oracle` says what lies ready for the session."""


def native(path: Path) -> str:
    """The event's name in a file's name: captured-http-Stop-1.json."""
    return path.stem.removeprefix("captured-").removeprefix("documented-").removeprefix("http-").rpartition("-")[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, each_shim: str) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("payloads")
    (folder / "lab").mkdir()
    hooks = HOOKS.replace("LABORATORY", json.dumps(str(folder / "lab")))
    with fleet(folder, "evaluator", "dispatcher", "carrier", hooks=hooks) as one:
        yield one


@pytest.fixture(scope="module")
def agent(world: Fleet, each_shim: str) -> Agent:
    return world.agent()


def test_every_recorded_payload_reaches_the_hooks_as_it_was_sent(world: Fleet, agent: Agent) -> None:
    lab = world.folder / "lab"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda path: agent.hook(native(path), path.read_bytes()), RECORDED))
    assert dict(zip(RECORDED, answers, strict=True)) == dict.fromkeys(RECORDED, HookAnswer()), "no opinion says nothing"

    wait_until(lambda: len(list(lab.glob("e*.json"))) == len(RECORDED), "every hook has run")
    got = [json.loads(path.read_bytes()) for path in lab.glob("e*.json")]
    seen = {one.id: one for one in world.events()}
    for path in RECORDED:
        sent = json.loads(path.read_bytes())
        (event,) = [one for one in got if one["raw"] == sent and one["native"] == native(path)]
        got.remove(event)
        can, tool = claude.CAPABILITIES[native(path)], sent.get("tool_name", "")
        assert (event["type"], event["source"], event["host"]) == (can.type, "claude", HOST)
        assert (event["session"], event["cwd"]) == (sent["session_id"], sent["cwd"])
        assert (event["native_tool"], event["call"]) == (tool, sent.get("tool_use_id", ""))
        assert event["tool"] == (canonical_tool("claude", tool) if tool else "")
        assert sent.get("tool_input", {}).items() <= event["input"].items()
        assert event["output"] == sent.get("tool_response")
        (verdict,) = [seen[event["id"]].verdict]
        if can.waits:
            assert verdict is not None
            assert (verdict.decision, verdict.fallback) == ("abstain", "")
            assert [part.hook for part in verdict.parts] == ["dump"]
        else:
            assert verdict is None, "nobody waited for it: announced, and its hooks run in the background"


@pytest.mark.req("X-01")
def test_what_a_newer_claude_code_will_send_survives_to_the_hooks(world: Fleet, agent: Agent) -> None:
    (path,) = [path for path in RECORDED if path.name == "captured-PreToolUse-2.json"]
    more = {"of_tomorrow": {"deep": [1, 2.5, None, {"half": "\ud83d", "whole": "\U0001f600"}], "\u00e9": 2**70}}
    sent = {**json.loads(path.read_bytes()), **more, "session_id": "tomorrow", "tool_use_id": "toolu_tomorrow"}
    sent["tool_input"] = {**sent["tool_input"], "of_tomorrow": True}

    assert agent.hook("PreToolUse", sent) == HookAnswer()

    got = [json.loads(path.read_bytes()) for path in (world.folder / "lab").glob("e*.json")]
    (event,) = [one for one in got if one["session"] == "tomorrow"]
    assert event["raw"] == sent
    assert event["data"]["of_tomorrow"] == more["of_tomorrow"]
    assert event["input"]["of_tomorrow"] is True


Said = Mapping[str, Any]

DENY: Said = {"decision": "deny", "reason": "Frozen", "instead": "wait until 18:00"}
ASK: Said = {"decision": "ask", "reason": "Shared"}
ALLOW: Said = {"decision": "allow", "reason": "Yours"}
CONTEXT: Said = {"context": ["CI is frozen.", "It opens at 18:00."]}
REWRITE: Said = {"updated_input": {"content": "changed"}}

TOLD = "Frozen. Instead: wait until 18:00. [fleethook: oracle; fleethook trace "
SPECIFIC = "hookSpecificOutput"

ANSWERS: list[tuple[str, Said, dict[str, Any]]] = [
    ("PreToolUse", DENY, {SPECIFIC: {"permissionDecision": "deny", "permissionDecisionReason": TOLD}}),
    ("PreToolUse", ASK, {SPECIFIC: {"permissionDecision": "ask", "permissionDecisionReason": "Shared. [fleethook: "}}),
    ("PreToolUse", ALLOW, {SPECIFIC: {"permissionDecision": "allow", "permissionDecisionReason": "Yours. [fleeth"}}),
    ("PreToolUse", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen.\n\nIt opens at 18:00."}}),
    ("PreToolUse", {**ALLOW, **REWRITE}, {SPECIFIC: {"permissionDecision": "allow", "updatedInput": "whole"}}),
    ("PreToolUse", REWRITE, {SPECIFIC: {"permissionDecision": "ask", "updatedInput": "whole"}}),
    ("PreToolUse", {**DENY, **CONTEXT}, {SPECIFIC: {"permissionDecision": "deny", "additionalContext": "CI is"}}),
    ("PermissionRequest", DENY, {SPECIFIC: {"decision": {"behavior": "deny", "message": TOLD}}}),
    (
        "PermissionRequest",
        {**ALLOW, **REWRITE},
        {SPECIFIC: {"decision": {"behavior": "allow", "updatedInput": "whole"}}},
    ),
    ("UserPromptSubmit", DENY, {"decision": "block", "reason": TOLD}),
    ("UserPromptSubmit", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen."}}),
    ("SessionStart", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen."}}),
    ("PostToolUse", DENY, {"decision": "block", "reason": TOLD}),
    ("PostToolUse", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen."}}),
    ("PostToolUseFailure", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen."}}),
    ("Stop", DENY, {"decision": "block", "reason": TOLD}),
    ("SubagentStop", DENY, {"decision": "block", "reason": TOLD}),
    ("SubagentStart", CONTEXT, {SPECIFIC: {"additionalContext": "CI is frozen."}}),
    ("Elicitation", DENY, {SPECIFIC: {"action": "decline"}}),
    ("ConfigChange", DENY, {"decision": "block", "reason": TOLD}),
    ("SessionStart", DENY, {"systemMessage": "fleethook: a hook wanted to block, which SessionStart cannot: Frozen"}),
]


def fits(got: Any, wanted: Any, whole: Mapping[str, Any]) -> bool:
    """Whether an answer has what is wanted: texts by their beginning, `whole` for the tool's whole changed input."""
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(fits(got.get(name), value, whole) for name, value in wanted.items())
    return bool(got == whole) if wanted == "whole" else isinstance(got, str) and got.startswith(wanted)


def test_an_answer_comes_back_in_claude_codes_own_json(world: Fleet, agent: Agent) -> None:
    def call(number: int) -> tuple[HookAnswer, dict[str, Any]]:
        name, said, _ = ANSWERS[number]
        session = f"said:{number}"
        (world.folder / "lab" / session).write_text(json.dumps(said))
        before = {"file_path": "/home/dev/project/a", "content": "x"}
        recorded = json.loads(next(path for path in RECORDED if native(path) == name).read_bytes())
        tool = {"tool_name": "Write", "tool_input": before} if "tool_name" in recorded else {}
        return agent.hook(name, {**recorded, **tool, "session_id": session}), {**before, "content": "changed"}

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(call, range(len(ANSWERS))))

    for (name, said, wanted), (answer, whole) in zip(ANSWERS, answers, strict=True):
        assert (answer.exit_code, answer.stderr) == (0, b""), (name, said)
        assert answer.stdout.startswith(b"{"), "nothing before the one object"
        told = json.loads(answer.stdout)  # and nothing behind it
        assert fits(told, wanted, whole), (name, said, told)
        assert told.get(SPECIFIC, {}).get("hookEventName", name) == name
        if said.get("decision") in {"deny", "ask"} and SPECIFIC in told:
            assert "oracle (fleethook.yaml:" in told["systemMessage"], "the person is told who, and where that stands"


@pytest.mark.parametrize("name", ["TaskCompleted", "TeammateIdle"])
def test_two_events_are_blocked_by_exit_code_since_their_json_would_stop_the_agent(
    world: Fleet, agent: Agent, name: str
) -> None:
    (world.folder / "lab" / f"said:{name}").write_text(json.dumps(DENY))
    answer = agent.hook(name, {"session_id": f"said:{name}", "cwd": "/", "hook_event_name": name})
    assert (answer.exit_code, answer.stdout) == (2, b"")
    assert answer.stderr.decode().startswith(TOLD)
