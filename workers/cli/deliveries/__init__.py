"""`deliveries list|show|retry`: what is owed to whom, every attempt of it, and having what waits tried at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.cli.deliveries.bulk import MANY, as_job, do_now, go_on, tell
from workers.cli.deliveries.options import delivery_filters, read_filter
from workers.cli.formatting import delivery_lines, payload_lines, short
from workers.cli.rows import no_trunc_option, show_deliveries
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.delivery.deliveries import Delivery
    from workers.delivery.filters import Filter

_RETRIED: Final = ("due", "parked", "dead")


@click.group(cls=LazyGroup)
def deliveries() -> None:
    """List and show deliveries and their attempts, and try them again."""


@deliveries.command("list")
@delivery_filters
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@no_trunc_option
@common_options
@pass_fleet
def list_deliveries(fleet: Context, /, limit: int, whole: bool, **given: Any) -> None:
    """List deliveries, newest first."""
    from workers.delivery.deliveries import deliveries as listed

    chosen = read_filter(given)

    async def work(connections: Connections) -> list[Delivery]:
        return await listed(connections, fleet.keys(), chosen, most=limit)

    found = fleet.run(work)
    if fleet.json:
        for one in found:
            fleet.stream(one)
    elif found:
        show_deliveries(fleet, found, whole=whole)
        if len(found) == limit:
            fleet.say(f"the newest {limit}; --limit shows more")
    else:
        fleet.say(f"no deliveries{f' with {chosen.words()}' if chosen.words() else ''}")


@deliveries.command("show")
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show_delivery(fleet: Context, name: str) -> None:
    """Show one delivery with every attempt: when, how long, status, what came back, when the next is due.

    Its payload is the event, redacted, as long as its deliveries or the event stream keep it.
    """
    import msgspec

    from workers.delivery.deliveries import delivery
    from workers.records.events import payload
    from workers.records.ids import whole_delivery_id

    async def work(connections: Connections) -> tuple[Delivery, dict[str, Any] | None]:
        one = await delivery(connections, fleet.keys(), await whole_delivery_id(connections, fleet.keys(), name))
        return one, await payload(connections, fleet.keys(), one.event)

    one, found = fleet.run(work)
    if fleet.json:
        fleet.data({**msgspec.to_builtins(one), "payload": found})
        return
    fleet.data("\n".join([*delivery_lines(fleet, one, whole=True), *payload_lines(fleet, found)]))
    if one.state == "parked":
        fleet.data(f"  waits: {fleet.run(lambda connections: _why_parked(fleet, connections, one))}")


@deliveries.command("retry")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that are due later, parked or dead.")
@delivery_filters
@click.option("--dry-run", is_flag=True, help="Count them, and do nothing.")
@click.option("--follow", is_flag=True, help="Where it becomes a job: wait for its end.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def retry(
    fleet: Context,
    /,
    ids: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    follow: bool,
    yes: bool,
    **given: Any,
) -> None:
    """Try deliveries at once that are due later, parked or dead, with their own id.

    One that is delivered is not sent again by this: `fleethook replay` sends its event again.
    """
    from workers.records.ids import whole_delivery_ids

    chosen = read_filter(given)
    if bool(ids) == (everything or not chosen.empty):
        raise click.UsageError("say ids, or --all, or filters such as --endpoint and --state")
    ids = fleet.run(lambda connections: whole_delivery_ids(connections, fleet.keys(), ids)) if ids else ids
    if ids and not dry_run:
        found, sorts = (
            list(ids),
            [("", "")] * len(ids),
        )  # as they are named: those that cannot be tried are counted then
    else:
        waiting = fleet.run(lambda connections: _waiting(fleet, connections, read_filter(given, ids)))
        found, sorts = [one.id for one in waiting], [(one.hook, one.reason or one.state) for one in waiting]
    asked = f"Try {counted(len(found), 'delivery', 'deliveries')} now?"
    if not go_on(fleet, "tried now", sorts, asked, dry_run=dry_run, yes=yes or bool(ids)):
        return
    if not ids and len(found) > MANY:
        as_job(fleet, "retry", chosen, len(found), follow=follow)
    else:
        tell(fleet, "tried now", do_now(fleet, "retry", found), len(found), "due, parked or dead")


async def _waiting(fleet: Context, connections: Connections, chosen: Filter) -> list[Delivery]:
    from workers.records.selection import filtered_deliveries

    return [one async for one in filtered_deliveries(connections, fleet.keys(), chosen) if one.state in _RETRIED]


async def _why_parked(fleet: Context, connections: Connections, parked: Delivery) -> str:
    """What a parked delivery waits for, as its target stands now."""
    from workers.delivery.deliveries import waits_for
    from workers.delivery.endpoint_health import read_health

    if said := await waits_for(connections, fleet.keys(), parked.id):
        return said
    target = parked.target
    one = (await read_health(connections, fleet.keys(), [target]))[target]
    if one.standing == "active":
        return "for a free place of its target, or its rate"
    why = {"paused": "its endpoint is paused", "disabled": "its endpoint is disabled"}.get(one.standing)
    return f"{why or 'the breaker of its endpoint is open, and a probe goes first'} ({short(one.reason, 200)})"
