"""What is tidied up from time to time: events over their age or number, dead letters over theirs, old lists."""

from __future__ import annotations

import logging
from typing import Final

from bus.config.settings import Settings
from bus.connections import Links
from bus.keys import SENT_MS, Keys
from bus.streams import call, checked, server_now
from workers.deadletters import dead_letters, redrive, sweep

log = logging.getLogger("fleethook.chores")

_AT_ONCE: Final = 20_000
_PAGE: Final = 500
_ROUNDS: Final = 200


async def tidy_all(links: Links, keys: Keys, settings: Settings) -> dict[str, int]:
    """Everything that is over its limits, removed; returns how much of each."""
    now = await server_now(links)
    done = {
        "events": await trim_events(links, keys, now, settings),
        "dead letters": await sweep(links, keys, now, int(settings.dead_keep * 1000)),
    }
    async with links.link() as link:
        sent, recent = await link.exchange(
            [
                ("ZREMRANGEBYSCORE", keys("sent"), "-inf", now - SENT_MS),
                ("ZREMRANGEBYSCORE", keys("recent"), "-inf", now - int(settings.deliveries_keep * 1000)),
            ]
        )
    done["sent ids"] = int(checked(sent, "tidying sent ids"))
    done["old deliveries"] = int(checked(recent, "tidying deliveries"))
    if any(done.values()):
        log.info("tidied: %s", ", ".join(f"{n} {what}" for what, n in done.items() if n))
    return done


async def trim_events(links: Links, keys: Keys, now: int, settings: Settings) -> int:
    """Remove events over their age, number or size, never one that a group has not acknowledged."""
    most = settings.events_max_count
    async with links.link() as link:
        length, used = await link.exchange(
            [("XLEN", keys("events")), ("MEMORY", "USAGE", keys("events"), "SAMPLES", 50)]
        )
    entries = int(checked(length, "counting events"))
    size = 0 if isinstance(used, Exception) or used is None else int(used)
    if size > settings.events_max_bytes and entries:
        most = min(most, int(entries * settings.events_max_bytes / size))
    oldest = max(0, now - int(settings.events_max_age * 1000))
    removed = 0
    for _ in range(_ROUNDS):
        gone = int(await call(links, "trim", (keys("events"),), (f"{oldest}-0", most, _AT_ONCE // 20)))
        removed += gone
        if gone < _AT_ONCE // 20:
            break
    return removed


async def redrive_all(links: Links, keys: Keys, *, reason: str, target: str) -> int:
    """Try every dead delivery again that matches; a page at a time, so a kill in between loses nothing."""
    total = 0
    while True:
        page = [one.id for one in await dead_letters(links, keys, reason=reason, target=target, most=_PAGE)
                if one.kind == "delivery"]  # fmt: skip
        moved = await redrive(links, keys, page)
        total += moved
        if not moved:
            return total
