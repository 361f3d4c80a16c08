"""Held calls while evaluators, gateways and the server are killed with -9: none lost, none answered twice, no wrong state.

`make chaos-approvals` holds 1,000 calls; the size of the default run is small.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bus.errors import FleethookError, Unanswered
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.ids import event_id
from bus.transport import Transport, event_entry
from bus.verdicts import Verdict
from bus.wire.codec import decode_verdict
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.chaos.conftest import Owned
from tests.chaos.counting import Counts, tell, when
from tests.chaos.fleet import Fleet
from tests.support.servers import Server, free_port
from tests.support.waiting import CONNECT
from workers.approvals.decisions import Person, answer
from workers.approvals.questions import read_questions, waiting_questions
from workers.gateway.tokens import create_token

HOOKS = """
hooks:
  - id: person
    on: tool:pre_execute
    tool: bash
    hold: {timeout: 900, default: deny}
    rule: {decision: ask, command: [^deploy], reason: it needs a person}
  - id: brief
    on: tool:pre_execute
    tool: bash
    hold: {timeout: BRIEF, default: deny}
    rule: {decision: ask, command: [^brief], reason: it needs a person soon}
"""
PERSONS = (Person("ana", "token"), Person("ben", "token"))
EXPECTED = {"approved": "allow", "denied": "deny", "timed_out": "deny"}
LONGEST = 1000.0
GROUP = 40
"""How many calls begin at the same time."""


class Calls:
    """Calls that are held: half by Redis, half by HTTP, each sent again until it has an answer."""

    def __init__(self, url: str, keys: Keys, ports: list[int], token: str) -> None:
        self._connections = Connections(url, connect=CONNECT)
        self._transport = Transport(self._connections, keys, drains=False)
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, timeout=LONGEST, limits=httpx.Limits(max_connections=None)
        )
        self._ports = ports
        self.decisions: dict[str, list[str]] = {}
        """The answers that each call got."""
        self.passed: list[str] = []
        """The calls that a failure policy let pass at their first try, after they were held."""
        self.resent: Counter[str] = Counter()
        """How often calls were sent again, by cause: a killed gateway breaks the connections of all of its callers."""
        self.resent_calls: Counter[str] = Counter()

    async def call(self, name: str, command: str, *, by_http: bool) -> None:
        """One call from its start to its answer."""
        decision = await (self._by_http(name, command) if by_http else self._by_redis(name, command))
        self.decisions.setdefault(name, []).append(decision)

    async def _by_redis(self, name: str, command: str) -> str:
        event = Event(
            type="tool:pre_execute",
            source="claude",
            session=name,
            id=name,
            host="test-host",
            tool="bash",
            input={"command": command},
        )
        now = time.monotonic()
        while True:
            try:
                raw = await self._transport.ask(event_entry(event), now + 10, longest=now + LONGEST, outage=60)
            except FleethookError as error:
                if not self.resent_calls[name] and not isinstance(error, Unanswered):
                    self.passed.append(name)
                self.resent_calls[name] += 1
                self.resent[type(error).__name__] += 1
                await asyncio.sleep(0.1)
                now = time.monotonic()
                continue
            return self._said(decode_verdict(raw))

    async def _by_http(self, name: str, command: str) -> str:
        payload = {
            "session_id": name,
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{name}",
            "tool_input": {"command": command},
            "cwd": "/srv",
        }
        turn = int(name[-4:], 16)
        while True:
            port = self._ports[turn % len(self._ports)]
            turn += 1
            try:
                url = f"http://127.0.0.1:{port}/v1/hooks/claude/PreToolUse"
                response = await self._http.post(url, json=payload, headers={"Idempotency-Key": name})
            except httpx.HTTPError as error:
                self.resent_calls[name] += 1
                self.resent[type(error).__name__] += 1
                await asyncio.sleep(0.1)
                continue
            if response.status_code != 200 or "fleethook-fallback" in response.headers:
                # The server was away for longer than a gateway waits.
                if not self.resent_calls[name] and '"permissionDecision":"deny"' not in response.text:
                    self.passed.append(name)
                self.resent_calls[name] += 1
                self.resent[f"{response.status_code} {response.headers.get('fleethook-fallback', '')}".strip()] += 1
                await asyncio.sleep(0.1)
                continue
            assert "hookSpecificOutput" in response.json(), response.text
            return str(response.json()["hookSpecificOutput"]["permissionDecision"])

    def _said(self, verdict: Verdict) -> str:
        assert not verdict.fallback, verdict.fallback
        return verdict.decision

    async def close(self) -> None:
        await self._http.aclose()
        await self._connections.close()


class Persons:
    """Two persons who answer every question that waits, sometimes both at once."""

    def __init__(self, url: str, keys: Keys, verbs: dict[str, str]) -> None:
        self._connections, self._keys, self._verbs = Connections(url, connect=CONNECT), keys, verbs
        self.decided: Counter[str] = Counter()
        """How often an answer was the one that decided, by question."""
        self.chance = random.Random(3)

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            try:
                # All of them: the first ones are the brief ones, which nobody answers.
                for question in await waiting_questions(self._connections, self._keys):
                    verb = self._verbs.get(question.id)
                    if verb is None or self.chance.random() < 0.5:
                        continue
                    who = PERSONS if self.chance.random() < 0.5 else PERSONS[:1]
                    results = await asyncio.gather(*(self._answer(question.id, verb, person) for person in who))
                    self.decided[question.id] += results.count("done")
            except FleethookError:
                pass
            await asyncio.sleep(0.02)

    async def _answer(self, question: str, verb: str, person: Person) -> str:
        try:
            return (await answer(self._connections, self._keys, question, verb, person)).word  # type: ignore[arg-type]
        except FleethookError:
            return "away"

    async def close(self) -> None:
        await self._connections.close()


async def kill_at_random(
    server: Server, fleet: Fleet, restart: Callable[[str], None], going_on: Callable[[], bool]
) -> Counter[str]:
    """Kill processes and the server while the calls go on."""
    killed: Counter[str] = Counter()
    while going_on():
        kind = fleet.chance.choice(("evaluator", "evaluator", "gateway", "server"))
        if kind == "server":
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        elif kind == "gateway":
            fleet.kill("gateway", again=False)
            restart("gateway")
        else:
            fleet.kill(kind)
        killed[kind] += 1
        await asyncio.to_thread(fleet.ready)
        await asyncio.sleep(fleet.chance.uniform(0.1, 0.6))
    return killed


@pytest.mark.req("X-03", "X-06")
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(
    ("total", "fsync"),
    [
        pytest.param(30, "always", id="small"),
        pytest.param(1_000, "always", marks=pytest.mark.slow, id="full-always"),
        pytest.param(1_000, "everysec", marks=pytest.mark.slow, id="full-everysec"),
    ],
)
async def test_no_held_call_is_lost_or_answered_twice(
    own: Callable[..., Owned], tmp_path: Path, total: int, fsync: str
) -> None:
    server, keys, fleet, counts = own(fsync=fsync, seed=11)
    connections = Connections(server.url, connect=CONNECT)
    await apply(connections, keys, parse_hook_file(HOOKS.replace("BRIEF", "5" if total < 100 else "300"), "fleet"))
    secret, _ = await create_token(connections, keys, "agents", ["publish"], by="a test")
    ports = [free_port(), free_port()]
    taken = dict.fromkeys(ports, "")

    def start_gateway(_: str = "") -> None:
        """One gateway on a port that has none; each port has a home of its own, since a user has one gateway."""
        alive = {worker.log.name for worker in fleet.of("gateway")}
        port = next(port for port in ports if taken[port] not in alive)
        home = tmp_path / f"home-{port}"
        home.mkdir(exist_ok=True)
        (worker,) = fleet.start("gateway", FLEETHOOK_HOME=str(home), FLEETHOOK_GATEWAY_PORT=str(port))
        taken[port] = worker.log.name

    fleet.start("evaluator", 2)
    fleet.start("dispatcher")  # an agent's fallback and its call's verdict become one record
    start_gateway()
    start_gateway()
    await asyncio.to_thread(fleet.ready)
    names = [event_id() for _ in range(total)]
    verbs = {name: ("approve", "deny")[turn % 2] for turn, name in enumerate(names) if turn % 5}
    calls = Calls(server.url, keys, ports, secret)
    persons = Persons(server.url, keys, verbs)
    tasks: list[asyncio.Task[None]] = []

    def all_held() -> bool:
        for task in tasks:
            if task.done():
                task.result()
        return bool(counts.client.zcard(counts.keys("questions")) == len(tasks))

    for turn, name in enumerate(names):  # in groups: a thousand at once would use up their budgets before they are held
        command = "deploy it" if name in verbs else "brief it"
        tasks.append(asyncio.create_task(calls.call(name, command, by_http=turn % 2 == 0)))
        if turn % GROUP == GROUP - 1 or turn == total - 1:
            await when(all_held, f"{turn + 1} calls are held")

    def looks() -> int:
        """How often callers have looked whether their call is held: each does so once a second."""
        return int(counts.client.info("commandstats").get("cmdstat_lindex", {"calls": 0})["calls"])

    before = looks()
    await when(lambda: looks() >= before + 4 * total, "every caller knows that its call is held")
    answering = asyncio.create_task(persons.run())
    try:
        killed = await kill_at_random(server, fleet, start_gateway, lambda: not all(task.done() for task in tasks))
        await asyncio.gather(*tasks)
    finally:
        answering.cancel()
        await asyncio.gather(answering, *tasks, return_exceptions=True)
        await calls.close()
        await persons.close()
    await settled(counts)
    found = await read_questions(connections, keys, names)
    await connections.close()
    states = Counter(question.state for question in found if question is not None)
    tell(f"{total} held calls, {fsync}: {dict(states)}; killed {dict(killed)}; sent again: {dict(calls.resent)}")
    tell(f"passed by a failure policy: {sorted(map(names.index, calls.passed))}")
    record = counts.record()
    assert all(question is not None for question in found), "no question is lost"
    assert not record.repeated
    assert not calls.passed, "no failure policy lets a held call pass"
    for question in found:
        assert question is not None
        verdict = record.verdicts[question.id]
        assert verdict.approval is not None
        # On a slow machine a person may answer after the agent's time: then the call was denied with a ticket.
        late = question.due <= question.answered and question.due < question.ends
        state, by = ("waiting", "") if late else (question.state, question.by)
        assert calls.decisions[question.id] == ["deny" if late else EXPECTED[state]], question
        assert (verdict.approval.state, verdict.approval.by) == (state, by), question
        wanted = {"approve": "approved", "deny": "denied", None: "timed_out"}[verbs.get(question.id)]
        assert question.state == wanted, question
        assert persons.decided[question.id] <= 1, "one answer decided"


async def settled(counts: Counts) -> None:
    """Wait until no request and no question is under way."""
    await when(lambda: not counts.length("requests") and not counts.length("decided"), "every request is answered")
    await when(lambda: not counts.client.zcard(counts.keys("questions")), "no question waits")
