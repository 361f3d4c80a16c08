"""A user who lacks one right is told which one, by whatever needs it (approvals, stop, say, hook sets, programs)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from bus.client import Bus
from bus.errors import FleethookError
from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.published import apply
from bus.wire.acl import acl_lines, roles
from bus.wire.connections import Connections
from bus.wire.keys import Keys
from tests.support.servers import Server
from workers.approvals.decisions import Person, answer
from workers.approvals.questions import QuestionFilter, question_page, waiting_questions
from workers.coverage.open_sessions import OpenSessions
from workers.fleet_control.messages import messages, say
from workers.fleet_control.stops import lift_stops, place_stop, stops_in_force

pytestmark = [pytest.mark.live, pytest.mark.req("X-03", "X-12")]

KEYS = Keys("fleet")
ANA = Person("ana", "token")


async def lift_all(connections: Connections) -> None:
    """Lift the stop that another user has placed."""
    assert await stops_in_force(connections, KEYS)
    await lift_stops(connections, KEYS, by="ana")


async def said(connections: Connections) -> None:
    """Say something to the session that runs."""
    await say(connections, KEYS, "hello", by="ana", where="event.session == 'runs'")


CASES: list[tuple[str, Callable[[Connections], Awaitable[object]]]] = [
    ("question:*", lambda c: answer(c, KEYS, "e1", "approve", ANA)),
    ("decided", lambda c: answer(c, KEYS, "e1", "deny", ANA)),
    ("questions", lambda c: waiting_questions(c, KEYS)),
    ("approvals", lambda c: question_page(c, KEYS, QuestionFilter(), 5)),
    ("stops", lambda c: place_stop(c, KEYS, by="ana")),
    ("stops:log", lambda c: place_stop(c, KEYS, by="ana")),
    ("events", lift_all),
    ("messages", lambda c: messages(c, KEYS)),
    ("sessions", lambda c: say(c, KEYS, "hello", by="ana", where="true")),
    ("mail", said),
    ("message:*", said),
    ("mail:*", said),
    ("hookset:current", lambda c: apply(c, KEYS, parse_hook_file("version: 1", "fleet"))),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server on which the n-th user has the rights of a person's commands, without the n-th key."""
    lines = ["user default on nopass ~* &* +@all"]
    every = " ".join(roles("fleet")["worker"]) + " ~fh:fleet:{*}:hookset:*"
    for number, (missing, _) in enumerate(CASES):
        rules = f"{every} ".replace(f" ~fh:fleet:{{*}}:{missing} ", " ")
        if missing == "hookset:current":
            rules = f"{' '.join(roles('fleet')['worker'])} "
        assert rules != f"{every} ", missing
        lines.append(f"user lacks-{number} reset on nopass {rules}".rstrip())
    (agent,) = acl_lines("fleet", {"agent": "secret"})
    lines.append(agent.replace(" %W~fh:fleet:{*}:requests", ""))
    one = Server(acl="\n".join(lines) + "\n")
    one.start()
    yield one
    one.stop()


@pytest.fixture
async def prepared(server: Server) -> AsyncIterator[None]:
    """A stop is in force, and a session runs."""
    connections = Connections(server.url)
    try:
        if not await stops_in_force(connections, KEYS):
            await place_stop(connections, KEYS, by="ben")
        with connections.lease() as connection:
            await connection.exchange(
                [
                    ("ZADD", KEYS("sessions"), 1, "m"),
                    ("SET", KEYS("session", "m"), '{"id":"runs","source":"claude","host":"h"}'),
                ]
            )
        yield
    finally:
        await connections.close()


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[missing for missing, _ in CASES])
async def test_the_error_names_the_right_that_is_missing(server: Server, number: int) -> None:
    missing, work = CASES[number]
    connections = Connections(f"unix://lacks-{number}:any@{server.socket}?db=0")
    try:
        with pytest.raises(FleethookError) as caught:
            await work(connections)
    finally:
        await connections.close()
    pattern = missing if not missing.startswith("hookset") else "hookset:"
    assert f"the user lacks-{number} lacks access to ~fh:fleet:{{*}}:{pattern}" in str(caught.value)
    assert "`fleethook acl` prints the rights" in str(caught.value)


async def test_a_program_is_told_too(server: Server) -> None:
    url = f"unix://fleethook-fleet-agent:secret@{server.socket}?db=0"
    connections = Connections(server.url)
    with connections.lease() as connection:
        await connection.exchange([("SET", KEYS("alive", "evaluator"), "one", "PX", 60_000)])
    await connections.close()
    async with Bus(url, namespace="fleet") as bus:
        verdict = await bus.request(Event(type="tool:pre_execute", tool="bash"), budget=5)
    assert "lacks" in verdict.fallback
    assert "requests" in verdict.fallback


async def test_a_right_that_only_readers_need_does_not_stop_the_dispatcher(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    from bus.wire.streams import StreamEntry

    number = next(number for number, (missing, _) in enumerate(CASES) if missing == "sessions")
    connections = Connections(f"unix://lacks-{number}:any@{server.socket}?db=0")
    known = OpenSessions(connections, KEYS)
    try:
        for at in (1, 2):
            known.add(
                StreamEntry("events", f"{at}-0", {}), Event(type="session:start", source="claude", session=f"s{at}")
            )
            await known.send(now=True)
    finally:
        await connections.close()
    (told,) = [record.message for record in caplog.records if "noting which sessions run" in record.message]
    assert "~fh:fleet:{*}:sessions" in told
