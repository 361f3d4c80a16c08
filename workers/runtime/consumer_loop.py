"""The loop of every worker that reads streams in a consumer group: turns, retries after an outage, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Final, TypeVar

from bus.errors import FleethookError, Unreachable
from bus.wire.consumer import BEAT_SECONDS, Consumer
from bus.wire.streams import Backoff

log = logging.getLogger("fleethook.worker")

TURN_SECONDS: Final = 0.003
"""The shortest time between two reads of a busy loop, so that one read takes all entries that came meanwhile. With 500
events a second on one core, 95 % reach their receiver in half the time that single reads need (measured)."""

_ASK_AGAIN_SECONDS: Final = 1.0
"""How long a cancelled task may take to end before it is cancelled again."""

Turn = Callable[[], Awaitable[bool]]
"""One turn of a loop: reads entries and starts what they ask for. Returns whether to take another turn."""

Tasks = Collection[asyncio.Task[Any]]
T = TypeVar("T")


async def consume(
    consumer: Consumer,
    turn: Turn,
    stop: asyncio.Event,
    *,
    who: str,
    prepare: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Take turns until `stop` is set or a turn returns False; `who` names the loop in the log.

    After a turn that raises FleethookError, for instance because Redis is away, the loop pauses (see Backoff) and goes on, and
    the consumer rechecks its pending entries. `prepare` runs before the first turn and again after every failure: a
    server that was restarted has forgotten our scripts.
    """
    backoff, prepared = Backoff(who), prepare is None
    while not stop.is_set():
        try:
            if prepare is not None and not prepared:
                await prepare()
                prepared = True
            if not await turn():
                return
            backoff.back()
        except FleethookError as error:
            consumer.note_failure()
            prepared = prepare is None
            await backoff.wait(error)


async def drain(consumer: Consumer, groups: Iterable[Tasks], seconds: float) -> None:
    """Wait until the tasks of each group have ended, group by group, at most `seconds` in all.

    Writes the consumer's heartbeat, so that no other consumer claims its entries, but not the heartbeat of its role: agents
    must not wait for a consumer that is about to leave. Goes on waiting while Redis is away.
    """

    async def beat() -> None:
        try:
            await consumer.beat(with_role=False)
        except Unreachable as error:
            log.warning("%s: %s; waiting for %d tasks to end", consumer.name, error, len(tasks))

    until = time.monotonic() + seconds
    for tasks in groups:
        await wait_for_tasks(tasks, until - time.monotonic(), beat)


async def wait_for_tasks(tasks: Tasks, seconds: float, beat: Callable[[], Awaitable[object]]) -> None:
    """Wait until all tasks have ended, at most `seconds`; calls `beat` every half second.

    `tasks` may shrink at any time. Errors of `beat` are raised.
    """
    until = time.monotonic() + seconds
    while tasks and (left := until - time.monotonic()) > 0:
        await beat()
        if tasks:
            await asyncio.wait(tasks, timeout=min(BEAT_SECONDS, left))


async def with_heartbeat(consumer: Consumer, work: Coroutine[Any, Any, T]) -> T:
    """Await work that may take longer than a heartbeat lasts; the consumer writes its heartbeat meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=BEAT_SECONDS))[0]:
            await consumer.beat()
    finally:
        if not task.done():
            await cancel_tasks([task])
    return task.result()


async def cancel_tasks(tasks: Tasks) -> None:
    """Cancel the tasks and wait until they have ended.

    Asks again each second: on Python 3.11 `asyncio.wait_for` forgets a cancellation that comes just when what it waits for
    has ended. A gateway that had asked once did not end.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        ended, running = await asyncio.wait(running, timeout=_ASK_AGAIN_SECONDS)
        for task in ended:
            if not task.cancelled():
                task.exception()  # whoever wants it has it; asyncio would log that nobody looked


async def let_entries_accumulate(last_read: float, seconds: float = TURN_SECONDS) -> None:
    """Wait until `seconds` after the last read (at `last_read` by the monotonic clock), so that entries accumulate."""
    left = last_read + seconds - time.monotonic()
    if left > 0:
        await asyncio.sleep(left)
