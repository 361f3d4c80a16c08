"""Removes what is over its limits: events, dead letters, old deliveries and the ids of sent events."""

from __future__ import annotations

import logging
from typing import Final

from bus.config.settings import Settings
from bus.errors import FleethookError, Unreachable
from bus.wire.connections import Connections
from bus.wire.keys import SENT_MS, Keys
from bus.wire.streams import call, checked, server_now
from workers.coverage.decisions import decide_gaps
from workers.delivery.dead_letters import sweep
from workers.records.bounds import bound_dead_letters, bound_deliveries
from workers.records.series import bound_series
from workers.runtime.kept_events import give_up_overdue

log = logging.getLogger("fleethook.chores")

_AT_ONCE: Final = 1_000
_PAGE: Final = 500
_PAGE_BYTES: Final = 1024 * 1024
_MOST_AT_ONCE: Final = 100
_ROUNDS: Final = 400
_NO_LIMIT: Final = 10**15


async def tidy_all(connections: Connections, keys: Keys, settings: Settings) -> dict[str, int]:
    """Remove everything that is over its limits; returns how many of each."""
    now = await server_now(connections)
    done = {
        "events": await trim_events(connections, keys, now, settings),
        "dead letters": await sweep(connections, keys, now, int(settings.dead_keep * 1000))
        + await bound_dead_letters(connections, keys, settings),
        "old deliveries": await _unlist_expired(connections, keys, now - int(settings.deliveries_keep * 1000))
        + await bound_deliveries(connections, keys, settings),
    }
    done["counters of names"] = await bound_series(connections, keys)
    done["events for hosts that are away"] = await give_up_overdue(
        connections, keys, now, int(settings.deliveries_keep * 1000)
    )
    with connections.lease() as connection:
        (sent,) = await connection.exchange([("ZREMRANGEBYSCORE", keys("sent"), "-inf", now - SENT_MS)])
    done["sent ids"] = int(checked(sent, "tidying sent ids"))
    try:
        done["calls without their pre-hook event"] = await decide_gaps(connections, keys)
    except Unreachable:
        raise
    except FleethookError as error:  # the server refuses the announcement; the calls are decided at the next turn
        log.warning("%s", error)
    if any(done.values()):
        log.info("tidied: %s", ", ".join(f"{n} {what}" for what, n in done.items() if n))
    return done


async def trim_events(connections: Connections, keys: Keys, now: int, settings: Settings) -> int:
    """Remove events over the limits of age, number or size that every group has acknowledged. A setting of 0 is no limit."""
    with connections.lease() as connection:
        length, used = await connection.exchange(
            [("XLEN", keys("events")), ("MEMORY", "USAGE", keys("events"), "SAMPLES", 50)]
        )
    entries = int(checked(length, "counting events"))
    size = 0 if isinstance(used, Exception) or used is None else int(used)
    if not entries:
        return 0
    most = settings.events_max_count or _NO_LIMIT
    if 0 < settings.events_max_bytes < size:
        most = min(most, int(entries * settings.events_max_bytes / size))
    oldest = max(0, now - int(settings.events_max_age * 1000)) if settings.events_max_age else 0
    page = max(1, min(_MOST_AT_ONCE, _PAGE_BYTES * entries // max(size, 1)))
    removed = 0
    for _ in range(_ROUNDS):
        aged, excess = await call(connections, "trim", (keys("events"),), (f"{oldest}-0", most, _AT_ONCE, page))
        removed += int(aged) + int(excess)
        if int(excess) < _AT_ONCE:
            break
    return removed


async def _unlist_expired(connections: Connections, keys: Keys, before: int) -> int:
    """Remove expired deliveries from the list; pending and dead ones stay on it, however old."""
    removed, start = 0, 0
    while True:
        with connections.lease() as connection:
            (reply,) = await connection.exchange(
                [("ZRANGEBYSCORE", keys("recent"), "-inf", before, "LIMIT", start, _PAGE)]
            )
            names = [name.decode() for name in checked(reply, "tidying deliveries")]
            if not names:
                return removed
            found = await connection.exchange([("EXISTS", keys("delivery", name)) for name in names])
            expired = [name for name, exists in zip(names, found, strict=True) if exists == 0]
            if expired:
                await connection.exchange([("ZREM", keys("recent"), *expired)])
        removed += len(expired)
        start += len(names) - len(expired)
