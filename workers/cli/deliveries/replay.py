"""`replay` sends past events again; `jobs` lists, shows and stops maintenance jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import CheckFailed, Context, LazyGroup, PartlyDone, common_options, pass_fleet
from workers.cli.deliveries.bulk import as_job, explain_job_on_interrupt, follow_job, watcher_here
from workers.cli.deliveries.options import RATE
from workers.cli.formatting import COLOURS, short, when
from workers.cli.hooks.sets import in_force
from workers.cli.parameters import CONDITION, MOMENT
from workers.cli.screens.columns import Cell, Column, sign
from workers.cli.screens.progress import Progress
from workers.cli.screens.rows import list_times
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.records.bulk_jobs import BulkJob
    from workers.records.replay import ReplaySpec


_JOB_COLUMNS: Final = (
    Column("TIME", 8),
    Column("ID", 8),
    Column("KIND", 7, rank=2),
    Column("STATE", 8),
    Column("DONE", 5, rank=1),
    Column("LOOKED AT", 9, rank=4),
    Column("ABOUT", 24, rank=3),
)


@click.command()
@click.option("--since", type=MOMENT, required=True, metavar="TIME", help="From then on: 12h (ago), 2026-11-21T14:30.")
@click.option("--until", type=MOMENT, metavar="TIME", help="Until then; default: until now.")
@click.option(
    "--where", type=CONDITION, default="", metavar="CEL", help="Only events for which this holds, as a hook's `when:`."
)
@click.option("--endpoint", default="", metavar="ID", help="To this endpoint only; default: to all that match now.")
@click.option(
    "--rate",
    type=RATE,
    default="50/s",
    show_default=True,
    metavar="N/s",
    help="The most deliveries a second; 0: no limit.",
)
@click.option("--dry-run", is_flag=True, help="Count what would be sent, and send nothing.")
@click.option("--follow", is_flag=True, help="Wait until the job ends, and show its progress.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def replay(
    fleet: Context,
    since: int,
    until: int | None,
    where: str,
    endpoint: str,
    rate: float,
    dry_run: bool,
    follow: bool,
    yes: bool,
) -> None:
    """Send past events to endpoints again, as new deliveries, by the hooks that are in force now.

    Each delivery has a new id; its body is the event's, with the event's id, and the header `fleethook-replay-of` has
    this id too. A replay is a job: it goes on when this command ends or a worker dies, and sends each event once.
    """
    from workers.cli.webhooks import find_endpoint
    from workers.records.replay import ReplaySpec

    if endpoint:
        find_endpoint(in_force(fleet), endpoint)
    spec = ReplaySpec(since=since, until=until or 0, where=where, endpoint=endpoint, rate=rate)
    events, counts = fleet.run(lambda connections: _count_replay(fleet, connections, spec))
    count = sum(counts.values())
    if dry_run or not count:
        if fleet.json:
            fleet.data({"events": events, "matching": count, "endpoints": dict(counts), "done": 0})
        elif count:
            each = ", ".join(f"{name} {number:,}" for name, number in counts.most_common())
            fleet.data(
                f"{counted(count, 'delivery', 'deliveries')} of {counted(events, 'event')} would be sent again: {each}"
            )
        else:
            fleet.data("nothing can be sent again: no event of that time matches an endpoint in force")
        return
    took = f", {count / rate:,.0f} s at {rate:g} a second" if rate else ""
    if not fleet.confirm(
        f"Send {counted(count, 'delivery', 'deliveries')} of {counted(events, 'event')} again{took}?", yes
    ):
        fleet.say("nothing was done")
        return
    as_job(fleet, "replay", spec, count, follow=follow)


@click.group(cls=LazyGroup)
def jobs() -> None:
    """List, show and stop maintenance jobs: bulk retries, drops and replays."""


@jobs.command("list")
@common_options
@pass_fleet
def list_jobs(fleet: Context) -> None:
    """List the jobs of the last seven days, newest first."""
    from workers.records.bulk_jobs import jobs as listed
    from workers.records.bulk_jobs import shown

    found = [shown(one) for one in fleet.run(lambda connections: listed(connections, fleet.keys()))]
    if fleet.json:
        for bulk_job in found:
            fleet.stream(bulk_job)
    elif found:
        rows = [
            (
                time,
                bulk_job.id,
                bulk_job.kind,
                Cell(sign(bulk_job.state), COLOURS.get(bulk_job.state)),
                _done(bulk_job),
                bulk_job.looked,
                _filter_text(bulk_job),
            )
            for time, bulk_job in zip(list_times([bulk_job.created for bulk_job in found]), found, strict=True)
        ]
        fleet.table(_JOB_COLUMNS, rows)
    else:
        fleet.say("no jobs")


def _done(bulk_job: BulkJob) -> str:
    """How many deliveries were done, and of how many if that is known."""
    return f"{bulk_job.done:,}" + (f" of {bulk_job.total:,}" if bulk_job.total else "")


@jobs.command("show")
@click.argument("name", metavar="ID")
@click.option("--follow", is_flag=True, help="Wait until the job ends, and show its progress.")
@common_options
@pass_fleet
def show_job(fleet: Context, name: str, follow: bool) -> None:
    """Show one job; exit 5 if it was stopped or failed."""
    from workers.records.bulk_jobs import job, jobs, shown
    from workers.records.id_prefixes import whole_id

    async def work(connections: Connections) -> BulkJob:
        found = whole_id(name, [bulk_job.id for bulk_job in await jobs(connections, fleet.keys())], "jobs")
        return await job(connections, fleet.keys(), found)

    bulk_job = fleet.run(work)
    if follow:
        with explain_job_on_interrupt(fleet, bulk_job.id):
            bulk_job = fleet.run(lambda connections: follow_job(fleet, connections, bulk_job.id))
    bulk_job = shown(bulk_job)
    if fleet.json:
        fleet.data(bulk_job)
    else:
        of = f" of {bulk_job.total:,}" if bulk_job.total and not bulk_job.over else ""
        fleet.data(
            f"job {bulk_job.id}: {bulk_job.kind}, {bulk_job.state}, {counted(bulk_job.done, 'delivery', 'deliveries')}{of}, "
            f"{bulk_job.looked:,} looked at  {_filter_text(bulk_job)}"
        )
        fleet.data(f"  started {when(bulk_job.created)}, last progress {when(bulk_job.updated)}")
    if bulk_job.error:
        raise PartlyDone(bulk_job.error)
    if bulk_job.state == "stopped":
        raise PartlyDone("")


@jobs.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@common_options
@pass_fleet
def stop(fleet: Context, names: tuple[str, ...]) -> None:
    """Stop jobs; what they have done stays done, and deliveries that they made are still sent."""
    from workers.records.bulk_jobs import jobs, stop_job
    from workers.records.id_prefixes import whole_id

    async def work(connections: Connections) -> list[str]:
        ids = [bulk_job.id for bulk_job in await jobs(connections, fleet.keys())]
        wanted.update(whole_id(name, ids, "jobs") for name in names)
        return [name for name in sorted(wanted) if await stop_job(connections, fleet.keys(), name)]

    wanted: set[str] = set()
    stopped = fleet.run(work)
    if fleet.json:
        fleet.data({"stopped": stopped})
    else:
        fleet.data(f"{len(stopped)} stopped")
    if len(stopped) < len(wanted):
        raise CheckFailed("had ended already: " + ", ".join(sorted(wanted - {*stopped})))


async def _count_replay(fleet: Context, connections: Connections, spec: ReplaySpec) -> tuple[int, Counter[str]]:
    """How many events would be sent again, and how many of them to each endpoint."""
    from workers.records.replay import count_replay, watched

    watcher = watcher_here(fleet, connections)
    await watcher.refresh(force=True)
    with Progress(fleet, "counting", unit="events") as progress:
        found = await count_replay(connections, fleet.keys(), spec, watched(watcher), on_progress=progress.update)
    if found.condition_errors:
        ((why, _),) = found.condition_errors.most_common(1)
        fleet.say(
            f"warning: --where cannot be evaluated for {found.condition_errors.total():,} events, which are left out: {why}"
        )
    return found.events, found.endpoints


def _filter_text(bulk_job: BulkJob) -> str:
    """A job's filters on one line."""
    spec: dict[str, Any] = dict(bulk_job.spec)
    times = [f"{name} {when(int(spec.pop(name)))}" for name in ("since", "until") if spec.get(name)]
    return short("; ".join([*(f"{name} {value}" for name, value in spec.items() if value), *times]), 120)
