"""Workflows while evaluators, host workers, carriers and dispatchers are killed with -9: each event moved its session once.

`make chaos-workflows` makes 10,000 transitions; the size of the default run is small.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bus.client import Bus
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.system.directories import directories
from bus.wire.codec import decode_body
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.workflow_steps.state import FlowRecord, FlowState, decode_record, decode_state, session_name
from tests.chaos.counting import Counts, tell, when
from tests.chaos.fleet import Fleet
from tests.cli_kit import namespace
from tests.support.servers import Server
from tests.support.waiting import CONNECT

WORKFLOWS = """
workflows:
  - name: pendulum
    variables: {{moves: 0}}
    session_variables: {{swings: 0}}
    steps:
      - name: left
        transitions: [{{to: right, on: user:prompt_submit}}]
      - name: right
        transitions:
          - to: left
            on: user:prompt_submit
            actions: [{{action: increment, name: swings, scope: session}}]
    triggers:
      - on: user:prompt_submit
        actions:
          - {{action: increment, name: moves}}
          - {{action: publish, type: "pendulum:moved", data: {{prompt: "{{{{ prompt }}}}"}}}}
  - name: checked
    timeout: 20
    steps:
      - name: open
        transitions:
          - to: open
            on: tool:pre_execute
            actions:
              - action: command
                can_block: true
                command: 'echo "$FLEETHOOK_EVENT_ID" >> {effects}; while test -e {hold}; do sleep 0.02; done'
"""
BUDGET = 12.0
AGENTS = 16
SESSIONS = 40
STANDING = 3
"""So many commands stand still when a host worker is killed; two workers share them."""


class Work:
    """The events of all sessions, each sent until it has an answer that a workflow gave."""

    def __init__(self, bus: Bus, total: int, calls: float) -> None:
        """`calls` is the share of tool calls, which run a command; the others are prompts."""
        chance = random.Random(11)
        self._calls = calls
        self._bus = bus
        self.events = [self._event(number, chance) for number in range(total)]
        self.sent = 0
        self.again = 0
        self.tick = asyncio.Event()

    def _event(self, number: int, chance: random.Random) -> tuple[Event, bool]:
        """An event, and whether it is only announced."""
        name = event_id()
        session = f"session-{chance.randrange(SESSIONS)}"
        share = chance.random()
        if share < self._calls:
            line = {"command": f"ls {number}"}
            call = Event(
                type="tool:pre_execute",
                source="codex",
                session=session,
                id=name,
                host="test-host",
                tool="bash",
                input=line,
            )
            return call, False
        data = {"prompt": f"prompt {number}"}
        event = Event(type="user:prompt_submit", source="codex", session=session, id=name, host="test-host", data=data)
        return event, share > 0.85

    async def agent(self, turn: int) -> None:
        """One of the agents: its share of the events, one after the other."""
        for event, is_announced in self.events[turn::AGENTS]:
            if is_announced:
                await self._bus.publish(event)
            else:
                verdict = await self._bus.request(event, budget=BUDGET)
                self.again += bool(verdict.fallback)
            self.sent += 1
            self.tick.set()


@pytest.mark.req("G-16", "B-05")
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("where", ["fleet", "user"])
@pytest.mark.parametrize(
    ("total", "kills"), [(300, 4), pytest.param(10_000, 60, marks=pytest.mark.slow, id="full")], ids=["small", None]
)
async def test_each_transition_happened_once_though_workers_are_killed(
    server: Server,
    keys: Keys,
    connections: Connections,
    fleet: Fleet,
    counts: Counts,
    tmp_path: Path,
    total: int,
    kills: int,
    where: str,
) -> None:
    """Published workflows run in evaluators; those of the user's file, which evaluators elsewhere lack, in host workers."""
    effects, hold = tmp_path / "effects", tmp_path / "hold"
    effects.touch()
    text = WORKFLOWS.format(effects=effects, hold=hold)
    if where == "fleet":
        await apply(connections, keys, parse_hook_file(text, "fleet"))
        fleet.start("evaluator", 2)
        victims = ("evaluator", "evaluator", "evaluator", "carrier", "dispatcher")
    else:
        file = directories({"FLEETHOOK_HOME": str(fleet.home)}).config / "fleethook.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        fleet.start("evaluator", 2, FLEETHOOK_HOST="elsewhere", FLEETHOOK_HOME=str(tmp_path / "elsewhere"))
        fleet.start("host", 2)
        victims = ("host", "host", "host", "carrier", "dispatcher")
    fleet.start("dispatcher")
    fleet.start("carrier")
    await asyncio.to_thread(fleet.ready)
    chance = random.Random(5)
    moments = sorted(chance.sample(range(total // 20, total - total // 10), kills))
    began = time.monotonic()
    async with Bus(server.url, namespace=namespace(keys), connect=CONNECT) as bus:
        work = Work(bus, total, calls=0.03 if where == "fleet" else 0.15)
        agents = [asyncio.create_task(work.agent(turn)) for turn in range(AGENTS)]
        for after in moments:
            while work.sent < after:
                await work.tick.wait()
                work.tick.clear()
            await asyncio.to_thread(fleet.ready)
            victim = chance.choice(victims)
            if victim == "host":
                await in_the_middle(effects, hold, agents)
            fleet.kill(victim)
            hold.unlink(missing_ok=True)
        await asyncio.gather(*agents)
    took = time.monotonic() - began
    prompts = [event for event, _ in work.events if event.type == "user:prompt_submit"]
    calls = [event for event, _ in work.events if event.type == "tool:pre_execute"]

    def records(events: list[Event], workflow: str) -> dict[str, FlowRecord]:
        pipe = counts.client.pipeline(transaction=False)
        for event in events:
            pipe.hget(keys("flowed", event.id), workflow)
        return {event.id: decode_record(raw) for event, raw in zip(events, pipe.execute(), strict=True) if raw}

    await when(lambda: len(records(prompts, "pendulum")) == len(prompts), "every prompt was handled", 120)
    await when(lambda: len(records(calls, "checked")) == len(calls), "every call was handled", 120)
    await when(lambda: len(announced(counts, keys)) >= len(prompts), "every announcement is on record", 60)

    moved = records(prompts, "pendulum")
    assert all(record.moved for record in moved.values())
    assert all(record.moved for record in records(calls, "checked").values())
    per_session = Counter(event.session for event in prompts)
    for session, count in per_session.items():
        state = read_state(counts, keys, session, "pendulum")
        assert state.transitions == state.variables["moves"] == count, session
        assert state.step == ("right" if count % 2 else "left")
        raw = counts.client.hget(keys("flowvars", session_name("codex", session)), "swings")
        assert (msgspec.msgpack.decode(raw) if raw else 0) == count // 2
    for session, count in Counter(event.session for event in calls).items():
        assert read_state(counts, keys, session, "checked").transitions == count
    said = Counter(announced(counts, keys))
    assert set(said) == {event.id for event in prompts}
    assert set(said.values()) == {1}, "what is announced with a transition is announced once"
    ran = Counter(effects.read_text().split())
    assert set(ran) == {event.id for event in calls}, "every command ran, again only with the same id"
    tell(
        f"{where}: {total} events, {fleet.killed} kills, {took:.1f} s: {len(prompts) + len(calls)} transitions once each, "
        f"{sum(count - 1 for count in ran.values())} commands ran again, {work.again} verdicts by policy"
    )


async def in_the_middle(effects: Path, hold: Path, agents: list[asyncio.Task[None]]) -> None:
    """Return once both host workers run a command of a workflow, or no command is left to run."""
    hold.touch()
    before = len(effects.read_text().split())

    def stands() -> bool:
        return len(effects.read_text().split()) >= before + STANDING or all(agent.done() for agent in agents)

    await when(stands, "commands stand in the middle of actions", 60)


def read_state(counts: Counts, keys: Keys, session: str, workflow: str) -> FlowState:
    """The state of a session in a workflow."""
    return decode_state(counts.client.hget(keys("flow", session_name("codex", session), workflow), "state"))


def announced(counts: Counts, keys: Keys) -> list[str]:
    """The events at which something was announced, as often as it is in the stream."""
    found: list[str] = []
    start = "-"
    while rows := counts.client.xrange(keys("events"), start, "+", count=5_000):
        for _, fields in rows:
            if fields.get(b"event") == b"pendulum:moved":
                event = decode_body(fields[b"body"])
                assert isinstance(event, Event)
                found.append(event.data["event"])
        start = f"({rows[-1][0].decode()}"
    return found
