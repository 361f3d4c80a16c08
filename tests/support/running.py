"""An evaluator inside the test's own process, and requests put on the stream by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bus.events import Event
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.in_force import Watcher
from bus.hooksets.published import apply
from bus.ids import event_id, reply_token
from bus.verdicts import Policy, Verdict
from bus.wire import consumer as consumers
from bus.wire.codec import decode_verdict, encode_event
from bus.wire.connections import Connections
from bus.wire.consumer import Consumer
from bus.wire.keys import Keys
from bus.wire.streams import StreamEntry, flat
from tests.support.waiting import BUDGET_MS, CONNECT, PATIENCE, until
from workers.dispatcher import Dispatcher
from workers.evaluator import GROUP, Evaluator

HOST = "test-host"
"""What conftest calls this machine."""


NO_RM = """
hooks:
  - {id: no-rm, on: 'tool:pre_execute:bash', when: 'event.input.command.startsWith("rm")', rule: {reason: no rm, instead: ls}}
"""


def bash(command: str = "ls", **more: Any) -> Event:
    """A tool call that a hook can decide on."""
    return Event(type="tool:pre_execute", tool="bash", input={"command": command}, **more)


async def publish_hooks(connections: Connections, keys: Keys, hooks: str, **more: Any) -> int:
    """Publish the hooks in the text of a hook file."""
    file = parse_hook_file(hooks, "fleet")
    assert not file.problems, file.problems
    return await apply(connections, keys, file, **more)


def command_hook(text: str, **more: Any) -> str:
    """A hook file with one blocking command on bash."""
    return json.dumps({"hooks": [{"id": "cmd", "on": "tool:pre_execute:bash", "command": text, **more}]})


def lines(path: Path) -> list[str]:
    """The words that hooks wrote to a file."""
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def namespace(keys: Keys) -> str:
    """The namespace of the keys, for a Bus."""
    return keys.prefix.split(":")[1]


@asynccontextmanager
async def evaluating(
    url: str,
    keys: Keys,
    *,
    slots: int = 8,
    policy: Policy = "allow",
    user_file: Path | None = None,
    trust_file: Path = Path("/nonexistent"),
    drain: float = 10.0,
    last_good: Path | None = None,
) -> AsyncIterator[Evaluator]:
    """A running evaluator, ended as SIGTERM ends it; its reads wait for a twentieth of a second, so that it ends soon."""
    connections = Connections(url, connect=CONNECT)
    watcher = Watcher(connections, keys, host=HOST, user_file=user_file, trust_file=trust_file, last_good=last_good)
    evaluator = Evaluator(url, keys, watcher, connections, slots=slots, policy=policy, drain=drain)
    stop = asyncio.Event()
    await evaluator.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consumers, "BEAT_SECONDS", 0.05)
        running = asyncio.create_task(evaluator.run(stop))
        try:
            yield evaluator
            assert not running.done(), "the evaluator ended by itself"
        finally:
            stop.set()
            await running
            await connections.close()


@asynccontextmanager
async def dispatching(url: str, keys: Keys) -> AsyncIterator[None]:
    """A running dispatcher, which starts no carriers."""
    connections = Connections(url, connect=CONNECT)
    watcher = Watcher(connections, keys, host=HOST, user_file=None, trust_file=Path("/nonexistent"))

    async def enqueue(_: str) -> int:
        return 0

    dispatcher = Dispatcher(url, keys, watcher, connections, enqueue)
    stop = asyncio.Event()
    await dispatcher.prepare()
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running
        await connections.close()


async def happened(connections: Connections, keys: Keys, *events: Event) -> None:
    """Add events to the stream, as agents do that do not wait."""
    for event in events:
        fields = (
            "id",
            event_id(),
            "source",
            event.source,
            "event",
            event.type,
            "host",
            HOST,
            "body",
            encode_event(event),
        )
        await do(connections, "XADD", keys("events"), "*", *fields)


def member(connections: Connections, keys: Keys, name: str) -> Consumer:
    """A member of the evaluators' group that does what the test tells it."""
    return Consumer(
        connections, keys, group=GROUP, name=name, role="evaluator", streams=(keys("requests"), keys("waiting"))
    )


async def take_and_die(connections: Connections, keys: Keys, name: str, count: int = 10) -> None:
    """Be a member that takes what there is, also from the dead, and dies of it."""
    made = member(connections, keys, name)
    await made.create()
    taken = await made.claim_from_dead()
    with connections.lease() as connection:
        taken += await made.read(connection, count, 0.01)
        await connection.exchange([("DEL", keys("beat", name), keys("alive", "evaluator"))])
    assert taken


async def put(
    connections: Connections,
    keys: Keys,
    body: bytes | Event,
    *,
    budget: int = BUDGET_MS,
    reply: str = "",
    **fields: Any,
) -> tuple[str, str]:
    """Add one request as an agent does; its id and the name of its reply key."""
    name = fields.pop("id", "") or event_id()
    reply = reply or keys("reply", reply_token())
    raw = encode_event(body) if isinstance(body, Event) else body
    given = {"source": "generic", "event": "tool:pre_execute", "host": HOST, **fields}
    flattened = [part for pair in given.items() for part in pair]
    with connections.lease() as connection:
        (added,) = await connection.exchange(
            [("XADD", keys("requests"), "*", "id", name, "reply", reply, "budget", budget, *flattened, "body", raw)]
        )
    assert isinstance(added, bytes), added
    return name, reply


async def answer(connections: Connections, reply: str, seconds: float = PATIENCE) -> bytes | None:
    """The answer on a reply key, when it comes; None where it does not."""
    with connections.lease() as connection:
        (raw,) = await connection.exchange([("BLMOVE", reply, reply, "LEFT", "LEFT", seconds)], seconds=seconds + 2)
    assert raw is None or isinstance(raw, bytes), raw
    return raw


async def verdict(connections: Connections, reply: str, seconds: float = PATIENCE) -> Verdict:
    """The verdict on a reply key."""
    raw = await answer(connections, reply, seconds)
    assert raw is not None, "no answer came"
    return decode_verdict(raw)


async def ask(connections: Connections, keys: Keys, command: str = "ls", **more: Any) -> Verdict:
    """The verdict on a bash command."""
    _, reply = await put(connections, keys, bash(command, **more))
    return await verdict(connections, reply)


async def stream(connections: Connections, keys: Keys, name: str = "events") -> list[StreamEntry]:
    """All entries of a stream, oldest first."""
    with connections.lease() as connection:
        (rows,) = await connection.exchange([("XRANGE", keys(name), "-", "+")])
    return [StreamEntry(keys(name), entry.decode(), flat(fields)) for entry, fields in rows]


async def until_true(holds: Callable[[], object], what: str) -> None:
    """Return as soon as `holds()` is true, with the loop running meanwhile."""

    async def looks() -> object:
        return holds()

    await until(looks, what)


async def counts(connections: Connections, keys: Keys, name: str, count: int) -> bool:
    """Whether a stream has so many entries."""
    return len(await stream(connections, keys, name)) == count


async def do(connections: Connections, *command: str | bytes | float) -> Any:
    """The reply to one command."""
    with connections.lease() as connection:
        (reply,) = await connection.exchange([command], seconds=2 * PATIENCE)
    return reply
