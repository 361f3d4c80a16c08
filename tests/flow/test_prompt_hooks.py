"""Prompt and agent hooks of a fleet: the agent's hook command, real workers, and a server that speaks the chat protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.ids import event_id
from bus.verdicts import Part
from bus.wire.connections import sync_client
from tests.support.beside import beside
from tests.support.chat_model import completion, event_of, judged, messages
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.receivers import Receiver, receiving
from tests.support.waiting import CONNECT, until, wait_until
from workers.records.events import RecordedEvent

HOOKS = """
model:
  url: http://127.0.0.1:{port}/v1
  name: small
  cache: 0
  prices: {{small: {{input: 1, output: 10}}}}
network: {{allow: ["127.0.0.1:{port}"]}}
hooks:
  - id: judge
    on: tool:pre_execute
    tool: bash
    when: event.input.command.startsWith("deploy")
    prompt: Is it a good day for it? $ARGUMENTS
    timeout: 60
    on_failure: deny
  - id: tested
    on: agent:stop
    agent: Is there a test?
  - id: program
    on: tool:pre_execute
    tool: write
    command: 'true'
"""
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def model() -> Iterator[Receiver]:
    """The model of the fleet."""
    with beside(receiving) as one:
        yield one


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, model: Receiver) -> Iterator[Fleet]:
    """A fleet whose hooks ask it."""
    with fleet(tmp_path_factory.mktemp("prompts"), "evaluator", hooks=HOOKS.format(port=model.port)) as one:
        yield one


def payload(native: str, **fields: Any) -> dict[str, Any]:
    common = {"session_id": "s1", "transcript_path": "/t", "cwd": "/", "hook_event_name": native}
    return {**common, **fields}


def shell(command: str) -> dict[str, Any]:
    return payload("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id="t1")


def recorded_part(made: Fleet, command: str) -> Part:
    """What the one hook that took part said to this command, when it is recorded."""

    def found() -> list[RecordedEvent]:
        return [seen for seen in made.events() if seen.event.input.get("command") == command]

    wait_until(found, f"{command} is recorded")
    verdict = found()[0].verdict
    assert verdict is not None
    (part,) = verdict.parts
    return part


@pytest.mark.req("I-12")
def test_the_agent_gets_the_models_no_and_the_trace_says_what_it_cost(made: Fleet, model: Receiver) -> None:
    agent = made.agent()
    model.got.clear()
    model.next_answers += [judged(False, "it is Friday"), completion("I would allow it")]
    answer = json.loads(agent.hook("PreToolUse", shell("deploy a")).stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "deny"
    assert answer["permissionDecisionReason"].startswith("it is Friday.")
    assert event_of(model.got[0])["input"]["command"] == "deploy a"
    broken = json.loads(agent.hook("PreToolUse", shell("deploy b")).stdout)["hookSpecificOutput"]
    assert broken["permissionDecision"] == "deny"  # the hook's failure policy
    assert "not one JSON object" in broken["permissionDecisionReason"]

    part, fallback = recorded_part(made, "deploy a"), recorded_part(made, "deploy b")
    assert part.model is not None
    assert (part.hook, part.model.name, part.model.input_tokens, part.model.output_tokens) == (
        "judge",
        "small",
        100,
        20,
    )
    assert (part.model.cost, part.model.currency) == (0.0003, "USD")
    assert "it is Friday" in part.output
    assert fallback.fallback

    with sync_client(made.url("admin")) as client:
        fields = {b"model_questions|small|answered": b"1", b"model_questions|small|failed": b"1",
                  b"model_tokens|small|input": b"200", b"model_cost_millionths|small|USD": b"600"}  # fmt: skip
        wait_until(
            lambda: fields.items() <= client.hgetall(made.keys("metrics")).items(), "the metrics have what it used"
        )


@pytest.mark.req("I-12")
def test_an_agent_hook_reads_the_project_of_the_event(made: Fleet, model: Receiver, tmp_path: Path) -> None:
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "shop/app.py").write_text("def pay(): ...\n", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("not for the model", encoding="utf-8")
    model.got.clear()
    model.next_answers += [
        completion(None, calls=(("list_files", {}), ("read_file", {"path": "../outside.txt"}))),
        judged(False, "pay has no test"),
    ]
    answer = made.agent().hook("Stop", payload("Stop", cwd=str(tmp_path / "shop"), stop_hook_active=False))
    said = json.loads(answer.stdout)
    assert said["decision"] == "block"
    assert said["reason"].startswith("pay has no test")
    listed, refused = [m["content"].splitlines()[1] for m in messages(model.got[1]) if m["role"] == "tool"]
    assert json.loads(listed) == "app.py"
    assert json.loads(refused) == "refused: the path leads out of the project"


@pytest.mark.req("I-12")
async def test_a_model_that_is_slow_holds_up_nothing_else(made: Fleet, model: Receiver) -> None:
    def event(tool: str, **fields: Any) -> Event:
        return Event(type="tool:pre_execute", source="codex", tool=tool, host=HOST, id=event_id(), input=fields)

    async with made.bus(connect=CONNECT) as bus:
        model.usual = judged(False, "no")
        model.hold()
        try:
            # More questions than the evaluator has slots for hooks with processes.
            asked = [asyncio.create_task(bus.request(event("bash", command=f"deploy {n}"))) for n in range(10)]

            async def all_wait() -> bool:
                return model.in_flight[CHAT] == len(asked)

            await until(all_wait, "every question is with the model")
            assert (await bus.request(event("bash", command="ls"))).decision == "abstain"
            ran = await bus.request(event("write", path="a"))
            assert [(part.hook, part.fallback) for part in ran.parts] == [("program", "")]
            assert not any(task.done() for task in asked)
        finally:
            model.release()
        assert {verdict.decision for verdict in await asyncio.gather(*asked)} == {"deny"}
