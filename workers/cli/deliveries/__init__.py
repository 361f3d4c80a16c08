"""`deliveries list|show|retry`: lists and shows deliveries and their attempts, and retries them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.cli.deliveries.bulk import BulkAction, do_bulk
from workers.cli.deliveries.options import BulkRequest, bulk_options, delivery_filters, read_filter
from workers.cli.formatting import delivery_lines, payload_lines, request_lines, short
from workers.cli.screens.columns import wrapped_lines
from workers.cli.screens.rows import no_trunc_option, show_deliveries
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooks import Endpoint
    from bus.wire.connections import Connections
    from workers.delivery.deliveries import Delivery
    from workers.delivery.filters import Filter
    from workers.records.delivery_detail import DeliveryDetail

_RETRIED: Final = ("due", "parked", "dead")
_RETRY: Final = BulkAction("retry", "tried now", "due, parked or dead")


@click.group(cls=LazyGroup)
def deliveries() -> None:
    """List and show deliveries and their attempts, and try them again."""


@deliveries.command("list")
@delivery_filters
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The most to show.")
@no_trunc_option
@common_options
@pass_fleet
def list_deliveries(fleet: Context, /, limit: int, whole: bool, **options: Any) -> None:
    """List deliveries, newest first."""
    from workers.delivery.deliveries import deliveries as listed

    chosen = read_filter(options)

    async def work(connections: Connections) -> list[Delivery]:
        return await listed(connections, fleet.keys(), chosen, most=limit)

    found = fleet.run(work)
    if fleet.json:
        for shown in found:
            fleet.stream(shown)
    elif found:
        show_deliveries(fleet, found, whole=whole)
        if len(found) == limit:
            fleet.say(f"the newest {limit}; --limit shows more")
    else:
        fleet.say(f"no deliveries{f' with {chosen.words()}' if chosen.words() else ''}")


@deliveries.command("show")
@click.argument("name", metavar="ID")
@click.option("--curl", "as_curl", is_flag=True, help="Print its request as a curl command, without secrets.")
@common_options
@pass_fleet
def show_delivery(fleet: Context, name: str, as_curl: bool) -> None:
    """Show one delivery: its request, and every attempt with what came back and when the next is due.

    The request is shown as it would be sent now, redacted, as long as its event is kept and its endpoint in force here.
    """
    from bus.errors import NotFound
    from workers.records.delivery_detail import delivery_detail, detail_record
    from workers.records.webhook_requests import curl

    async def work(connections: Connections) -> DeliveryDetail:
        return await delivery_detail(connections, fleet.keys(), name, await endpoints_here(fleet, connections))

    detail = fleet.run(work)
    shown, request = detail.delivery, detail.request
    if as_curl:
        if request is None:
            raise NotFound(
                f"{shown.id} has no request to show: its event is not kept, or its endpoint not in force here"
            )
        fleet.data(curl(request))
        return
    if fleet.json:
        fleet.data(detail_record(detail))
        return
    request_text = payload_lines(fleet, detail.payload) if request is None else request_lines(fleet, request)
    fleet.data(wrapped_lines([*delivery_lines(fleet, shown, whole=True), *request_text]))
    if detail.waits:
        fleet.data(f"  waits: {short(detail.waits, 300)}")


async def endpoints_here(fleet: Context, connections: Connections) -> Mapping[str, Endpoint]:
    """The endpoints in force in this folder."""
    from pathlib import Path

    from workers.admin.dry_run import hooks_here

    return (await hooks_here(connections, fleet.keys(), fleet.directories(), Path.cwd())).endpoints


@deliveries.command("retry")
@bulk_options(delivery_filters, "All that are due later, parked or dead.")
@common_options
@pass_fleet
def retry(fleet: Context, bulk: BulkRequest) -> None:
    """Try deliveries now that are due later, parked or dead; they keep their id.

    What was delivered is not sent again; `fleethook replay` sends its event again.
    """
    from workers.records.id_prefixes import require_one, whole_delivery_ids

    async def whole_ids(connections: Connections) -> tuple[str, ...]:
        ids = await whole_delivery_ids(connections, fleet.keys(), named)
        await require_one(connections, fleet.keys()("recent"), ids, "deliveries")
        return ids

    bulk.require_choice("--endpoint and --state")
    if named := bulk.filter.ids:
        bulk = replace(bulk, filter=read_filter({}, fleet.run(whole_ids)))
    if named and not bulk.dry_run:  # the retry itself counts those that cannot be tried
        found = [(name, ("", "")) for name in bulk.filter.ids]
    else:
        waiting = fleet.run(lambda connections: _waiting(fleet, connections, bulk.filter))
        found = [(shown.id, (shown.hook, shown.reason or shown.state)) for shown in waiting]
    question = f"Try {counted(len(found), 'delivery', 'deliveries')} now?"
    do_bulk(fleet, _RETRY, bulk, found, question, yes=bulk.yes or bool(named))


async def _waiting(fleet: Context, connections: Connections, wanted: Filter) -> list[Delivery]:
    from workers.records.selection import filtered_deliveries

    return [
        delivery
        async for delivery in filtered_deliveries(connections, fleet.keys(), wanted)
        if delivery.state in _RETRIED
    ]
