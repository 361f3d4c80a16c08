"""Workflows in a fleet: steps that limit tools, transitions that happen once, and actions that become deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from bus.events import Event
from bus.verdicts import Verdict
from tests.support.beside import beside
from tests.support.fleet import HOST, Fleet, fleet
from tests.support.receivers import Receiver, receiving
from tests.support.waiting import wait_until
from workers.records.events import RecordedEvent

pytestmark = [pytest.mark.flow, pytest.mark.req("G-16")]

HOOKS = """
network: {allow: ["127.0.0.1:PORT"]}
workflows:
  - name: plan-first
    variables: {failures: 0}
    config: {server: "http://127.0.0.1:PORT"}
    steps:
      - name: plan
        on_enter:
          - {action: context, text: "Write a plan first."}
        allowed_tools: [read, grep]
        transitions:
          - to: work
            on: user:prompt_submit
            when: event.data.prompt.contains("go")
            actions:
              - {action: publish, type: "plan:approved", data: {by: "{{ event.source }}"}}
      - name: work
        on_enter:
          - {action: context, text: "Now work."}
          - {action: webhook, url: "{{ config.server }}/entered", payload: {step: "{{ step }}", from: "{{ from_step }}"}}
          - {action: command, command: "echo {{ event.data.prompt }} > LOG"}
        rules:
          - {command_pattern: "^git push", message: "no push in {{ step }}"}
        transitions:
          - {to: plan, on: "tool:error", when: vars.failures > 1}
    triggers:
      - on: tool:error
        actions: [{action: increment, name: failures}]
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with beside(receiving) as made:
        yield made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("workflows")
    hooks = HOOKS.replace("PORT", str(receiver.port)).replace("LOG", str(folder / "log"))
    with fleet(folder, "evaluator", "dispatcher", "carrier", hooks=hooks) as made:
        yield made


def ask(world: Fleet, session: str, kind: str, **fields: Any) -> Verdict:
    """The verdict on an event of this session."""

    async def work() -> Verdict:
        async with world.bus() as bus:
            return await bus.request(Event(type=kind, source="claude", session=session, host=HOST, **fields))

    return asyncio.run(work())


def named(world: Fleet, kind: str) -> list[RecordedEvent]:
    """The recorded events of a type."""
    return [seen for seen in world.events() if seen.event.type == kind]


def test_a_session_passes_the_steps(world: Fleet, receiver: Receiver) -> None:
    began = ask(world, "one", "session:start")
    assert (began.decision, began.contexts) == ("abstain", ("Write a plan first.",)), began
    denied = ask(world, "one", "tool:pre_execute", tool="bash", input={"command": "ls"})
    assert denied.decision == "deny"
    assert "not allowed in the step 'plan' of the workflow 'plan-first'; allowed: read, grep" in denied.reason
    assert ask(world, "one", "tool:pre_execute", tool="read", input={"path": "x"}).decision == "abstain"
    moved = ask(world, "one", "user:prompt_submit", data={"prompt": "go; rm -rf $HOME 'x"})
    assert moved.contexts == ("Now work.",)
    assert "plan -> work" in moved.parts[0].output
    assert ask(world, "one", "tool:pre_execute", tool="bash", input={"command": "ls"}).decision == "abstain"
    pushed = ask(world, "one", "tool:pre_execute", tool="bash", input={"command": "git push"})
    assert (pushed.decision, pushed.reason) == ("deny", "no push in work")
    wait_until(lambda: receiver.got, "the webhook arrived")
    assert receiver.got[0].json == {"step": "work", "from": "plan"}
    wait_until((world.folder / "log").exists, "the command ran")
    assert (world.folder / "log").read_text() == "go; rm -rf $HOME 'x\n"
    wait_until(lambda: named(world, "plan:approved"), "the event was announced")
    (announced,) = named(world, "plan:approved")
    assert announced.event.data["by"] == "claude"
    assert announced.event.parent == moved.event


def test_announced_events_reach_workflows_too(world: Fleet) -> None:
    async def publish() -> None:
        async with world.bus() as bus:
            for _ in range(2):
                await bus.publish(Event(type="tool:error", source="claude", session="two", host=HOST, tool="bash"))

    ask(world, "two", "session:start")
    ask(world, "two", "user:prompt_submit", data={"prompt": "go"})
    asyncio.run(publish())
    wait_until(
        lambda: ask(world, "two", "tool:pre_execute", tool="bash", input={"command": "ls"}).decision == "deny",
        "two failures led back to the plan",
    )
