"""Whether another carrier has claimed deliveries of this one, asked for many of them in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from bus.wire.streams import StreamEntry

Take = Callable[[Sequence[StreamEntry]], Awaitable[list[list[Any]]]]

_MOST: Final = 100
"""The most entries in one call: every verdict waits while the server runs the script."""


class Takeovers:
    """Finds the deliveries that another carrier has taken over.

    A carrier that was suspended asks for each of its deliveries, up to a thousand at the same moment. Asked one by one, each
    had a connection to Redis of its own: a thousand more files and 8 MiB more memory (measured). `beat` writes the heartbeat
    first, so that no other carrier claims our deliveries from then on.
    """

    def __init__(self, beat: Callable[[], Awaitable[None]], take: Take) -> None:
        self._beat, self._take = beat, take
        self._waiting: list[tuple[StreamEntry, asyncio.Future[bool]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def is_ours(self, entry: StreamEntry) -> bool:
        """Whether the entry is still ours; raises Unreachable and what else `beat` and `take` raise."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, answer))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return await answer

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The task that asks, for the carrier that ends."""
        return [self._asking] if self._asking is not None else []

    async def _ask(self) -> None:
        asked: list[tuple[StreamEntry, asyncio.Future[bool]]] = []
        try:
            while self._waiting:
                asked, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                try:
                    await self._beat()
                    rows = await self._take([entry for entry, _ in asked])
                except Exception as error:  # noqa: BLE001 - raised in `is_ours`
                    for _, answer in asked:
                        if not answer.done():
                            answer.set_exception(error)
                    continue
                for (entry, answer), (word, *_) in zip(asked, rows, strict=True):
                    if word == b"later":  # the bodies before it were enough for one reply
                        self._waiting.append((entry, answer))
                    elif not answer.done():
                        answer.set_result(word == b"run")
        finally:
            self._asking = None
            for _, answer in (*asked, *self._waiting):  # none, unless the carrier ends
                answer.cancel()
            self._waiting = []
