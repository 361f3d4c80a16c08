"""Reads the inbox again and again: what was read before is kept, since pages ask every few seconds on a busy fleet."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, NamedTuple

from bus.wire.connections import Connections
from bus.wire.keys import Keys
from bus.wire.streams import checked
from workers.approvals.inbox import Fact, InboxItem, fact_of, prompts, question_item
from workers.approvals.questions import MOST_LISTED, read_questions
from workers.records.events import events_pages, newest_entries

MOST_EVENTS: Final = 5_000
"""How many of the newest events are read for agents' own prompts and notifications."""

_PAGE: Final = 200
_AGAIN_SECONDS: Final = 30.0
"""After so long everything is read again: events that were purged meanwhile go."""


class Inbox(NamedTuple):
    """Everything that waits for a person, the oldest first."""

    items: tuple[InboxItem, ...]
    version: str
    """Changes whenever something may have come or gone."""


async def inbox(connections: Connections, keys: Keys) -> Inbox:
    """The inbox, read once; raises Unreachable."""
    return await InboxReader(connections, keys).read()


class InboxReader:
    """The inbox of one fleet. All readers of a process share one, so that they share its work."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._inbox = Inbox((), "")
        self._facts: deque[tuple[str, Fact | None]] = deque(maxlen=MOST_EVENTS)
        """The newest events by the ids of their entries, oldest first."""
        self._held: dict[str, InboxItem] = {}
        self._read_at = -_AGAIN_SECONDS
        self._turn = asyncio.Lock()

    async def read(self) -> Inbox:
        """The inbox as it is now; raises Unreachable."""
        async with self._turn:
            version = await self._version()
            is_old = time.monotonic() - self._read_at >= _AGAIN_SECONDS
            if version != self._inbox.version or is_old:
                await (self._read_events() if is_old else self._read_new_events())
                await self._read_held()
                own = prompts(fact for _, fact in reversed(self._facts) if fact is not None)
                items = sorted((*self._held.values(), *own), key=lambda item: (item.since, item.event))
                self._inbox = Inbox(tuple(items), version)
        return self._inbox

    async def _version(self) -> str:
        """What changes with the newest event, with events that are removed, and with the questions that wait."""
        keys = self._keys
        with self._connections.lease() as connection:
            replies = await connection.exchange(
                [
                    ("XREVRANGE", keys("events"), "+", "-", "COUNT", 1),
                    ("XLEN", keys("events")),
                    ("XLEN", keys("late")),
                    ("ZCARD", keys("questions")),
                ]
            )
        newest, *counts = (checked(reply, "looking for changes of the inbox") for reply in replies)
        last = newest[0][0].decode() if newest else ""
        return "-".join([last, *map(str, counts)])

    async def _read_events(self) -> None:
        self._facts.clear()
        async for entry in newest_entries(self._connections, self._keys, MOST_EVENTS):
            if len(self._facts) == MOST_EVENTS:
                break
            self._facts.appendleft((entry.id, fact_of(entry, self._keys)))
        self._read_at = time.monotonic()

    async def _read_new_events(self) -> None:
        if not self._facts:
            await self._read_events()
            return
        new = 0
        async for entries in events_pages(self._connections, self._keys, start=f"({self._facts[-1][0]}"):
            self._facts.extend((entry.id, fact_of(entry, self._keys)) for entry in entries)
            new += len(entries)
            if new > MOST_EVENTS:  # what is left is more than is kept
                await self._read_events()
                return
            await asyncio.sleep(0)

    async def _read_held(self) -> None:
        """Read the questions that are new, and forget those that wait no more."""
        with self._connections.lease() as connection:
            (members,) = await connection.exchange([("ZRANGE", self._keys("questions"), 0, MOST_LISTED - 1)])
        names = [name.decode() for name in checked(members, "listing questions that wait")]
        held = {name: item for name in names if (item := self._held.get(name)) is not None}
        new = [name for name in names if name not in held]
        for first in range(0, len(new), _PAGE):
            for question in await read_questions(self._connections, self._keys, new[first : first + _PAGE]):
                if question is not None and question.state == "waiting":
                    held[question.id] = question_item(question)
        self._held = held
