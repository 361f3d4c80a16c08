"""Doing something with many deliveries: a few at once and here, many as a maintenance job that outlives the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from workers.cli.common import Context, Findings, PartlyDone
from workers.cli.formatting import short
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.in_force import Watcher
    from bus.wire.connections import Connections
    from workers.delivery.filters import Filter
    from workers.records.bulk_jobs import BulkJob, Kind
    from workers.records.replay import ReplaySpec

MANY: Final = 500
"""More than this are a maintenance job's work."""

_MOST_NAMED: Final = 5
_MOST_SORTS: Final = 20
_AT_ONCE: Final = 200
_LOOK_SECONDS: Final = 0.5


Sort = tuple[str, str]
"""The endpoint (or hook, or stream) and the reason of something that is to be tried again or dropped."""


def go_on(fleet: Context, what: str, found: Sequence[Sort], question: str, *, dry_run: bool, yes: bool) -> bool:
    """Whether there is anything to do, and whether it is wanted; says it where not.

    A dry run counts by endpoint and reason; the question, of which the last character is the mark, by endpoint.
    """
    if dry_run or not found:
        _count(fleet, what, Counter(found))
        return False
    places = Counter(place for place, _ in found if place)
    named = ", ".join(f"{place} {number:,}" for place, number in places.most_common(_MOST_NAMED))
    more = ", …" if len(places) > _MOST_NAMED else ""
    if fleet.confirm(f"{question[:-1]} ({named}{more})?" if named else question, yes):
        return True
    fleet.say("nothing was done")
    return False


def _count(fleet: Context, what: str, sorts: Counter[Sort]) -> None:
    endpoints: Counter[str] = Counter()
    for (place, _), number in sorts.items():
        endpoints[place] += number
    ordered = sorted(sorts.items(), key=lambda item: (-item[1], item[0]))
    if fleet.json:
        kinds = [{"endpoint": place, "reason": reason, "count": number} for (place, reason), number in ordered]
        fleet.data({"matching": sorts.total(), "done": 0, "endpoints": dict(endpoints.most_common()), "kinds": kinds})
        return
    fleet.data(f"{sorts.total():,} would be {what}" if sorts else f"nothing can be {what}")
    if sorts:
        rows = [(number, place, short(reason, 160)) for (place, reason), number in ordered[:_MOST_SORTS]]
        fleet.table(("COUNT", "ENDPOINT", "REASON"), rows)
    if len(ordered) > _MOST_SORTS:
        fleet.say(f"and {len(ordered) - _MOST_SORTS:,} more kinds; --json has them all")


def do_now(fleet: Context, kind: Kind, ids: Sequence[str]) -> int:
    """Do it with these, a page at a time, and say how far it is; returns with how many it could be done."""
    from workers.records.bulk_jobs import ACTS

    async def work(connections: Connections) -> int:
        done = 0
        for start in range(0, len(ids), _AT_ONCE):
            done += await ACTS[kind](connections, fleet.keys(), ids[start : start + _AT_ONCE])
            if len(ids) > MANY and (start // _AT_ONCE) % 5 == 4:
                fleet.say(f"{start + _AT_ONCE:,} of {len(ids):,} …")
        return done

    return fleet.run(work)


def tell(fleet: Context, what: str, done: int, asked: int, state: str) -> None:
    """Say with how many it was done; Findings where with none, PartlyDone where not with all: those are not in `state`."""
    if fleet.json:
        fleet.data({"matching": asked, "done": done})
    else:
        fleet.data(f"{done} {what}")
    if not done:
        raise Findings(f"none of {asked} could be {what}: not {state}")
    if done < asked:
        raise PartlyDone(f"{asked - done} of {asked} could not be {what}: not {state} (any more)")


def as_job(fleet: Context, kind: Kind, spec: Filter | ReplaySpec, count: int, *, follow: bool) -> None:
    """Have it done as a maintenance job: by the chores worker where one is there, else here; say how far it is."""
    from workers.records.bulk_jobs import begin

    name = fleet.run(lambda connections: begin(connections, fleet.keys(), kind, spec))
    queued = _handed_over(fleet)
    if queued and not follow:
        if fleet.json:
            fleet.data({"matching": count, "queued": True, "job": name})
        else:
            fleet.data(f"job {name}: {counted(count, 'delivery is', 'deliveries are')} handed to the chores worker")
            fleet.say(
                f"`fleethook jobs show {name} --follow` shows how far it is, `fleethook jobs stop {name}` stops it"
            )
        return
    if not queued:
        fleet.say(f"job {name}: no chores worker runs, so it is done here; another goes on with it if this ends")
    ended = fleet.run(lambda connections: _followed(fleet, connections, name, count, here=not queued))
    if fleet.json:
        fleet.data({"matching": count, "done": ended.done, "job": name, "state": ended.state})
    else:
        fleet.data(f"job {name}: {ended.state}, {counted(ended.done, 'delivery', 'deliveries')}")
    if ended.state != "done":
        raise PartlyDone(ended.error or f"it was {ended.state} after {ended.done:,} of {count:,}")


async def follow_job(fleet: Context, connections: Connections, name: str, count: int = 0) -> BulkJob:
    """The job when it is over; says how far it is meanwhile."""
    import asyncio

    from workers.records.bulk_jobs import job

    said = -1
    while True:
        one = await job(connections, fleet.keys(), name)
        if one.over:
            return one
        if one.done != said:
            said = one.done
            fleet.say(f"{one.done:,}{f' of {count:,}' if count else ''} …")
        await asyncio.sleep(_LOOK_SECONDS)


async def _followed(fleet: Context, connections: Connections, name: str, count: int, *, here: bool) -> BulkJob:
    import asyncio

    from workers.records.bulk_jobs import work_at

    if not here:
        return await follow_job(fleet, connections, name, count)
    watcher = watcher_here(fleet, connections)
    await watcher.refresh(force=True)
    working = asyncio.create_task(work_at(connections, fleet.keys(), watcher, name, asyncio.Event()))
    try:
        return await follow_job(fleet, connections, name, count)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def watcher_here(fleet: Context, connections: Connections) -> Watcher:
    """The hooks in force, as a worker on this machine sees them."""
    from bus.hooksets.in_force import Watcher

    return Watcher.here(connections, fleet.keys(), fleet.directories())


def _handed_over(fleet: Context) -> bool:
    """Whether a chores worker takes it: it is told at once, and by the dispatcher as often as it is needed."""
    from bus.wire.connections import Connections
    from workers.records.status import read_roles

    settings = fleet.settings()
    url = settings.rq_url or fleet.url()

    async def alive(connections: Connections) -> bool:
        rq = Connections(url, connect=1.0)
        try:
            roles = await read_roles(connections, rq, fleet.keys(), settings)
        finally:
            await rq.close()
        return any(role.alive for role in roles if role.role == "chores")

    if not fleet.run(alive):
        return False
    from workers.jobs import CHORES, enqueue, queue

    on = queue(settings, url, CHORES)
    try:
        enqueue(on, "maintain")
    finally:
        on.connection.close()
    return True
