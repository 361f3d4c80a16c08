"""An evaluator inside the test's own process, and requests put on the stream by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bus.codec import decode_verdict, encode_event
from bus.config.hookfile import parse_hook_file
from bus.connections import Links
from bus.events import Event
from bus.hooksets import apply
from bus.ids import event_id, reply_token
from bus.inforce import Watcher
from bus.keys import Keys
from bus.streams import Entry, flat
from bus.verdicts import Policy, Verdict
from workers.evaluator import Evaluator

HOST = "test-host"
"""What conftest calls this machine."""


def bash(command: str = "ls", **more: Any) -> Event:
    """A tool call that a hook can decide on."""
    return Event(type="tool:pre_execute", tool="bash", input={"command": command}, **more)


async def publish_hooks(links: Links, keys: Keys, hooks: str, **more: Any) -> int:
    """Publish the hooks in the text of a hook file."""
    file = parse_hook_file(hooks, "fleet")
    assert not file.problems, file.problems
    return await apply(links, keys, file, **more)


@asynccontextmanager
async def evaluating(
    url: str, keys: Keys, *, slots: int = 8, policy: Policy = "allow", user_file: Path | None = None,
    trust_file: Path = Path("/nonexistent"), drain: float = 10.0,
) -> AsyncIterator[Evaluator]:  # fmt: skip
    """A running evaluator, ended as SIGTERM ends it."""
    links = Links(url, connect=2.0)
    watcher = Watcher(links, keys, host=HOST, user_file=user_file, trust_file=trust_file)
    evaluator = Evaluator(url, keys, watcher, links, slots=slots, policy=policy, drain=drain)
    stop = asyncio.Event()
    await evaluator.prepare()
    running = asyncio.create_task(evaluator.run(stop))
    try:
        yield evaluator
        assert not running.done(), "the evaluator ended by itself"
    finally:
        stop.set()
        await running
        await links.close()


async def died(evaluator: Evaluator, running: asyncio.Task[None]) -> None:
    """End an evaluator as kill -9 does: it answers nothing, leaves nothing, and its heartbeat stops."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def put(
    links: Links, keys: Keys, body: bytes | Event, *, budget: int = 10_000, reply: str = "", **fields: str
) -> tuple[str, str]:
    """Add one request as an agent does; its id and the name of its reply key."""
    name = fields.pop("id", "") or event_id()
    reply = reply or keys("reply", reply_token())
    raw = encode_event(body) if isinstance(body, Event) else body
    given = {"source": "generic", "event": "tool:pre_execute", "host": HOST, **fields}
    flattened = [part for pair in given.items() for part in pair]
    async with links.link() as link:
        (added,) = await link.exchange(
            [("XADD", keys("requests"), "*", "id", name, "reply", reply, "budget", budget, *flattened, "body", raw)]
        )
    assert isinstance(added, bytes), added
    return name, reply


async def answer(links: Links, reply: str, seconds: float = 10.0) -> bytes | None:
    """The answer on a reply key, when it comes; None where it does not."""
    async with links.link() as link:
        (raw,) = await link.exchange([("BLMOVE", reply, reply, "LEFT", "LEFT", seconds)], seconds=seconds + 2)
    assert raw is None or isinstance(raw, bytes), raw
    return raw


async def verdict(links: Links, reply: str, seconds: float = 10.0) -> Verdict:
    """The verdict on a reply key."""
    raw = await answer(links, reply, seconds)
    assert raw is not None, "no answer came"
    return decode_verdict(raw)


async def stream(links: Links, keys: Keys, name: str = "events") -> list[Entry]:
    """All entries of a stream, oldest first."""
    async with links.link() as link:
        (rows,) = await link.exchange([("XRANGE", keys(name), "-", "+")])
    return [Entry(keys(name), entry.decode(), flat(fields)) for entry, fields in rows]


async def do(links: Links, *command: str | bytes | float) -> Any:
    """The reply to one command."""
    async with links.link() as link:
        (reply,) = await link.exchange([command])
    return reply
