"""Hooks that may take longer than the agent's deadline: a note in Redis tells the agent's side that they still run.

The agent's side waits for its deadline, then looks at the note beside its reply key, and waits on while the note exists
(`bus/shim/slow.py`). The note is written only after the hooks have run for a while, so quick hooks cost nothing more. It
expires soon after the process that writes it ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bus.chain import needed_seconds
from bus.errors import FleethookError
from bus.events import Event
from bus.hooks import Hook
from bus.requests import Request
from bus.wire.connections import Connections
from bus.wire.keys import NOTE_MS, note_key
from bus.wire.streams import ScriptCall, call

log = logging.getLogger("fleethook.patience")

MOST_SLOW: Final = 64
"""How many slow hooks of one process need no slot; each further one keeps its slot."""

MOST_LIGHT: Final = 64
"""How many tasks of one process may wait for plugins and models alone; they need no slot, so that a stuck one takes none."""

_FIRST_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 1.0
_SPARE: Final = 1.15
"""`hook_seconds` reserves a part of the time for ending hooks and for the reply; this factor adds that part."""


_MARGIN_SECONDS: Final = 0.5
_MARGIN_PART: Final = 0.1
"""The part of the remaining time, at most _MARGIN_SECONDS, that is reserved for ending a hook and for the reply: the failure
policy of a hook that times out has to arrive before the agent stops waiting."""


def hook_seconds(left: float) -> float:
    """How many seconds the hooks of a request get of the `left` seconds of its budget."""
    return max(0.0, left - min(_MARGIN_SECONDS, left * _MARGIN_PART))


def extended_ms(event: Event, hooks: Sequence[Hook], now: int, deadline: int, latest: int) -> int:
    """The deadline of a request, extended if its hooks declare more time than its budget, but to at most `latest`.

    All times are milliseconds by the server's clock.
    """
    if latest <= deadline:
        return deadline
    needed = now + int(needed_seconds(event, hooks) * _SPARE * 1000)
    return min(latest, needed) if needed > deadline else deadline


async def is_waited_for(connections: Connections, request: Request, now: int) -> bool:
    """Whether the agent still waits for a request whose evaluator died after the deadline, while slow hooks ran.

    If so, renews the note that the dead evaluator left. Raises Unreachable.
    """
    if request.handed < 2 or not request.reply or now >= request.latest:
        return False
    return bool(await call(connections, "note", (note_key(request.reply), ""), (NOTE_MS, "1")))


class Slots:
    """The tasks of a process that run hooks: `count` at once, plus slow tasks, which need no slot."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.tasks: set[asyncio.Task[None]] = set()
        self.held: set[tuple[str, str]] = set()
        """The stream and id of each entry that a task works on."""
        self._slow: set[asyncio.Task[None]] = set()
        self._light: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        """How many more tasks may start."""
        return self._count - len(self.tasks) + len(self._slow | self._light)

    def has_room(self, *, light: bool = False) -> bool:
        """Whether one more task may start; a light one needs no slot."""
        return len(self._light) < MOST_LIGHT if light else self.free > 0

    def start(self, work: Coroutine[Any, Any, None], stream: str, entry: str, *, light: bool = False) -> None:
        """Start a task that works on this entry."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        if light:
            self._light.add(task)
        self.held.add((stream, entry))

        def done(ended: asyncio.Task[None]) -> None:
            self.tasks.discard(ended)
            self._slow.discard(ended)
            self._light.discard(ended)
            self.held.discard((stream, entry))

        task.add_done_callback(done)

    @asynccontextmanager
    async def slow(self, connections: Connections, reply: str, left: float, joined: str = "") -> AsyncIterator[None]:
        """While this context lasts, the note of `reply` says that this task's hooks run, and the task needs no slot.

        `left`: seconds until the agent's side looks for the note. `joined`: key of a list of further replies to note.
        """
        task = asyncio.current_task()
        note = asyncio.create_task(self._keep_note(connections, (note_key(reply), joined), left, task))
        try:
            yield
        finally:
            note.cancel()
            await asyncio.wait([note])

    async def _keep_note(
        self, connections: Connections, keys: tuple[str, str], left: float, task: asyncio.Task[Any] | None
    ) -> None:
        await asyncio.sleep(min(_FIRST_SECONDS, max(0.0, left) / 2))
        if task in self.tasks and len(self._slow) < MOST_SLOW:
            self._slow.add(task)
        while True:
            try:
                with connections.lease() as connection:
                    await connection.exchange([ScriptCall("note", keys, (NOTE_MS, "")).whole_command()])
            except FleethookError as error:
                log.warning(
                    "a hook runs for longer than its agent's deadline, and the note cannot be written: %s", error
                )
            await asyncio.sleep(_EVERY_SECONDS)
