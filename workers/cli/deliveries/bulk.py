"""Bulk actions on deliveries: up to `MANY` run in the command; more run as a maintenance job that outlives the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from workers.cli.common import CheckFailed, Context, PartlyDone
from workers.cli.formatting import short
from workers.cli.screens.progress import Progress
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.in_force import Watcher
    from bus.wire.connections import Connections
    from workers.cli.deliveries.options import BulkRequest
    from workers.delivery.filters import Filter
    from workers.records.bulk_jobs import BulkJob, Kind
    from workers.records.replay import ReplaySpec

MANY: Final = 500
"""An action on more deliveries than this becomes a maintenance job."""

_MOST_NAMED: Final = 5
_MOST_SORTS: Final = 20
_AT_ONCE: Final = 200
_LOOK_SECONDS: Final = 0.5


Group = tuple[str, str]
"""The endpoint (or hook, or stream) and the reason of a delivery or dead letter; dry runs count by it."""


class BulkAction(NamedTuple):
    """The action of a bulk command, and its words in messages."""

    kind: Kind
    done: str
    """The participle: `tried again`, `dropped`."""
    state: str
    """What a delivery must be for the action: `a dead letter`."""


def do_bulk(
    fleet: Context,
    action: BulkAction,
    bulk: BulkRequest,
    found: Sequence[tuple[str, Group]],
    question: str,
    *,
    yes: bool,
) -> None:
    """Apply the action to the ids in `found`: asks first unless `yes`; more than `MANY` become a job unless named by id."""
    ids, groups = [name for name, _ in found], [sort for _, sort in found]
    if not confirm_bulk(fleet, action.done, groups, question, dry_run=bulk.dry_run, yes=yes):
        return
    if len(ids) > MANY and not bulk.filter.ids:
        as_job(fleet, action.kind, bulk.filter, len(ids), follow=bulk.follow)
    else:
        report_done(fleet, action.done, do_now(fleet, action.kind, ids), len(ids), action.state)


def confirm_bulk(fleet: Context, what: str, found: Sequence[Group], question: str, *, dry_run: bool, yes: bool) -> bool:
    """Ask whether to go on; False if there is nothing to do, if this is a dry run, or if the answer is no.

    A dry run prints counts by endpoint and reason. `question` ends with its question mark; counts by endpoint are put
    before it.
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


def _count(fleet: Context, what: str, groups: Counter[Group]) -> None:
    endpoints: Counter[str] = Counter()
    for (place, _), number in groups.items():
        endpoints[place] += number
    ordered = sorted(groups.items(), key=lambda item: (-item[1], item[0]))
    if fleet.json:
        kinds = [{"endpoint": place, "reason": reason, "count": number} for (place, reason), number in ordered]
        fleet.data({"matching": groups.total(), "done": 0, "endpoints": dict(endpoints.most_common()), "kinds": kinds})
        return
    fleet.data(f"{groups.total():,} would be {what}" if groups else f"nothing can be {what}")
    if groups:
        rows = [(number, place, short(reason, 160)) for (place, reason), number in ordered[:_MOST_SORTS]]
        fleet.table(("COUNT", "ENDPOINT", "REASON"), rows)
    if len(ordered) > _MOST_SORTS:
        fleet.say(f"and {len(ordered) - _MOST_SORTS:,} more kinds; --json has them all")


def do_now(fleet: Context, kind: Kind, ids: Sequence[str]) -> int:
    """Apply the action in this process, a page at a time, with progress; returns how many deliveries it changed."""
    from workers.records.bulk_jobs import ACTS

    async def work(connections: Connections) -> int:
        done = 0
        with Progress(fleet, kind, len(ids), unit="deliveries") as progress:
            for start in range(0, len(ids), _AT_ONCE):
                progress.update(start)
                done += await ACTS[kind](connections, fleet.keys(), ids[start : start + _AT_ONCE])
        return done

    return fleet.run(work)


def report_done(fleet: Context, what: str, done: int, asked: int, state: str) -> None:
    """Print how many were changed; raises CheckFailed if none was, and PartlyDone if some were not in `state`."""
    if fleet.json:
        fleet.data({"matching": asked, "done": done})
    else:
        fleet.data(f"{done} {what}")
    if not done:
        raise CheckFailed(f"none of {asked} could be {what}: not {state}")
    if done < asked:
        raise PartlyDone(f"{asked - done} of {asked} could not be {what}: not {state} (any more)")


def as_job(fleet: Context, kind: Kind, spec: Filter | ReplaySpec, count: int, *, follow: bool) -> None:
    """Run the action as a maintenance job: in a chores worker if one runs, else in this command; shows the progress."""
    from workers.records.bulk_jobs import begin

    name = fleet.run(lambda connections: begin(connections, fleet.keys(), kind, spec, count))
    queued = _queue_for_chores(fleet)
    if queued and not follow:
        if fleet.json:
            fleet.data({"matching": count, "queued": True, "job": name})
        else:
            fleet.data(f"job {name}: {counted(count, 'delivery is', 'deliveries are')} handed to the chores worker")
            _print_job_commands(fleet, name)
        return
    if not queued:
        fleet.say(
            f"job {name}: no chores worker runs, so it is done here; another process continues it if this one ends"
        )
    with explain_job_on_interrupt(fleet, name, here=not queued):
        ended = fleet.run(lambda connections: _run_or_follow(fleet, connections, name, here=not queued))
    if fleet.json:
        fleet.data({"matching": count, "done": ended.done, "job": name, "state": ended.state})
    else:
        fleet.data(f"job {name}: {ended.state}, {counted(ended.done, 'delivery', 'deliveries')}")
    if ended.state != "done":
        raise PartlyDone(ended.error or f"it was {ended.state} after {ended.done:,} of {count:,}")


@contextmanager
def explain_job_on_interrupt(fleet: Context, name: str, *, here: bool = False) -> Iterator[None]:
    """If Ctrl-C interrupts the following of a job, print what becomes of the job, and how to show and stop it.

    `here` is true if this command does the job's work.
    """
    try:
        yield
    except KeyboardInterrupt:
        goes_on = "waits for a chores worker, which `fleethook up` starts" if here else "goes on"
        fleet.say(f"job {name} {goes_on}")
        _print_job_commands(fleet, name)
        raise


def _print_job_commands(fleet: Context, name: str) -> None:
    fleet.say(f"  `fleethook jobs show {name} --follow` shows its progress")
    fleet.say(f"  `fleethook jobs stop {name}` stops it")


async def follow_job(fleet: Context, connections: Connections, name: str) -> BulkJob:
    """Wait until a job has ended, and show its progress; returns the job."""
    import asyncio

    from workers.records.bulk_jobs import job

    waits = "waits for a chores worker"
    with Progress(fleet, f"job {name}", unit="deliveries") as progress:
        while not (job_now := await job(connections, fleet.keys(), name)).over:
            progress.update(
                job_now.done, job_now.total, note=waits if job_now.state == "queued" and not job_now.looked else ""
            )
            await asyncio.sleep(_LOOK_SECONDS)
    return job_now


async def _run_or_follow(fleet: Context, connections: Connections, name: str, *, here: bool) -> BulkJob:
    import asyncio

    from workers.records.bulk_jobs import work_at

    if not here:
        return await follow_job(fleet, connections, name)
    watcher = watcher_here(fleet, connections)
    await watcher.refresh(force=True)
    working = asyncio.create_task(work_at(connections, fleet.keys(), watcher, name, asyncio.Event()))
    try:
        return await follow_job(fleet, connections, name)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def watcher_here(fleet: Context, connections: Connections) -> Watcher:
    """The hooks in force, as a worker on this machine sees them."""
    from bus.hooksets.in_force import Watcher

    return Watcher.here(connections, fleet.keys(), fleet.directories())


def _queue_for_chores(fleet: Context) -> bool:
    """Queue work for a chores worker; returns whether one runs. Later the dispatcher queues it again."""
    from bus.wire.connections import PATIENT_CONNECT_SECONDS, Connections
    from workers.records.status import read_roles

    settings = fleet.settings()
    url = settings.rq_url or fleet.url()

    async def alive(connections: Connections) -> bool:
        rq = Connections(url, connect=PATIENT_CONNECT_SECONDS)
        try:
            roles = await read_roles(connections, rq, fleet.keys(), settings)
        finally:
            await rq.close()
        return any(role.alive for role in roles if role.role == "chores")

    if not fleet.run(alive):
        return False
    from workers.jobs import CHORES, enqueue, queue

    job_queue = queue(settings, url, CHORES)
    try:
        enqueue(job_queue, "maintain")
    finally:
        job_queue.connection.close()
    return True
