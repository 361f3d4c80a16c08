"""Held calls for tests: rules that hold, calls that wait in threads, and the questions that wait."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bus.events import Event
from bus.verdicts import Verdict
from tests.support.fleet import HOST, Fleet
from tests.support.waiting import PATIENCE, wait_until
from workers.approvals.decisions import Person, Result, Verb, answer
from workers.approvals.questions import Question, waiting_questions

HOOKS = """
version: 1
groups: {release: [ana, ben], nobody: [ghost]}
hooks:
  - id: deploy
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300, default: deny}
    rule: {decision: ask, command: ["^deploy"], reason: Deploying needs a person}
  - id: brief
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 0.5, default: deny}
    rule: {decision: ask, command: ["^brief"], reason: It is brief}
  - id: gentle
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 0.5, default: allow}
    rule: {decision: ask, command: ["^gentle"], reason: It is gentle}
  - id: prompt
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 0.5, default: ask}
    rule: {decision: ask, command: ["^prompt"], reason: It prompts}
  - id: release
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300, group: release}
    rule: {decision: ask, command: ["^release"], reason: Releases are for the group}
  - id: twice
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300, group: release, persons: 2}
    rule: {decision: ask, command: ["^twice"], reason: Two have to agree}
  - id: ghostly
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 300, group: nobody}
    rule: {decision: ask, command: ["^ghost"], reason: Only a ghost can say}
  - id: plain
    on: tool:pre_execute
    tool: bash
    rule: {decision: ask, command: ["plainly"], reason: The agent asks}
  - id: never
    on: tool:pre_execute
    tool: bash
    rule: {decision: deny, command: ["forbidden"], reason: It is forbidden}
"""

_BUDGET = 300.0
"""Seconds that a call waits: its agent is to wait for as long as the test needs on a busy machine."""

ANA = Person("ana", "token")
BEN = Person("ben", "token")
USER = Person("dev@laptop", "user")


class Held:
    """Calls of one fleet that wait in threads of their own."""

    def __init__(self, world: Fleet) -> None:
        self.world = world
        self._pool = ThreadPoolExecutor(32)

    def call(self, command: str, *, session: str = "s", timeout: float = _BUDGET, **more: Any) -> Future[Verdict]:
        """A call of bash, asked by a program of an agent's rights; its verdict comes with the future."""
        event = Event(
            **{
                "type": "tool:pre_execute",
                "source": "claude",
                "host": HOST,
                "session": session,
                "tool": "bash",
                "cwd": "/srv",
                "input": {"command": command},
                **more,
            }
        )

        async def ask() -> Verdict:
            async with self.world.bus() as bus:
                return await bus.request(event, budget=timeout)

        return self._pool.submit(asyncio.run, ask())

    def unanswered(self, command: str, **more: Any) -> Verdict:
        """The verdict on a call whose agent stops waiting before anybody answers.

        Where this machine was too busy to ask within the agent's time, the agent's time is longer the next time.
        """
        seconds = 4.0
        while True:
            verdict = self.call(command, timeout=seconds, **more).result(2 * PATIENCE)
            if not verdict.fallback or seconds > PATIENCE:
                return verdict
            seconds *= 2

    def waiting(self) -> list[Question]:
        """The questions that wait."""
        return self.world.ask(lambda connections: waiting_questions(connections, self.world.keys))

    def question(self, command: str) -> Question:
        """The question about a command, when it waits."""
        wait_until(lambda: any(one.summary == command for one in self.waiting()), f"{command} waits")
        return next(one for one in self.waiting() if one.summary == command)

    def answer(self, question: Question, verb: Verb, person: Person = ANA, comment: str = "") -> Result:
        """A person's answer."""
        return self.world.ask(
            lambda connections: answer(connections, self.world.keys, question.id, verb, person, comment)
        )
