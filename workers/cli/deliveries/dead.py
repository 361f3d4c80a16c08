"""`dead`: lists, shows, retries, drops and exports dead letters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import CheckFailed, Context, LazyGroup, common_options, pass_fleet
from workers.cli.deliveries import endpoints_here
from workers.cli.deliveries.bulk import BulkAction, Group, confirm_bulk, do_bulk
from workers.cli.deliveries.options import BulkRequest, bulk_options, letter_filters, read_filter
from workers.cli.formatting import delivery_lines, payload_lines, plain, short, when
from workers.cli.screens.columns import Column, wrapped_lines
from workers.cli.screens.rows import no_trunc_option, short_reason, show_dead_letters
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.delivery.dead_letters import DeadLetter
    from workers.delivery.filters import Filter

_REDRIVE: Final = BulkAction("redrive", "tried again", "a dead letter")
_DROP: Final = BulkAction("drop", "dropped", "a dead letter")


_GROUP_COLUMNS: Final = (
    Column("COUNT", 5),
    Column("OLDEST", 19, rank=4),
    Column("NEWEST", 19, rank=3),
    Column("TARGETS", 16, rank=2),
    Column("REASON", 16, rank=1),
)


@click.group(cls=LazyGroup)
def dead() -> None:
    """List, show, retry, drop and export dead letters: deliveries given up, and entries that could not be read."""


@dead.command("list")
@letter_filters
@click.option(
    "--group",
    "grouped",
    is_flag=False,
    flag_value="reason",
    default="",
    type=click.Choice(["", "reason"]),
    metavar="[reason]",
    help="Count them by reason.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The most to show.")
@no_trunc_option
@common_options
@pass_fleet
def list_dead(fleet: Context, /, grouped: str, limit: int, whole: bool, **options: Any) -> None:
    """List dead letters, newest first, or count them by reason."""
    import msgspec

    from workers.records.selection import letters_by_reason

    chosen = read_filter(options)
    found = _letters(fleet, chosen) if grouped else _newest(fleet, chosen, limit)
    if grouped:
        groups = letters_by_reason(found)[:limit]
        if fleet.json:
            fleet.data(msgspec.to_builtins(groups))
        elif groups:
            rows = [
                (
                    group.count,
                    when(group.oldest),
                    when(group.newest),
                    short(", ".join(group.targets)),
                    short_reason(group.reason),
                )
                for group in groups
            ]
            fleet.table(_GROUP_COLUMNS, rows)
    elif fleet.json:
        for letter in found:
            fleet.stream(letter)
    elif found:
        show_dead_letters(fleet, found, whole=whole)
    if not found:
        fleet.say(f"no dead letters{f' with {chosen.words()}' if chosen.words() else ''}")


@dead.command("show")
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show_dead(fleet: Context, name: str) -> None:
    """Show one dead letter: the reason, and every attempt of a delivery or the beginning of an entry."""
    from workers.records.delivery_detail import DeliveryDetail, dead_detail, detail_record

    async def work(connections: Connections) -> DeliveryDetail | DeadLetter:
        return await dead_detail(connections, fleet.keys(), name, await endpoints_here(fleet, connections))

    letter = fleet.run(work)
    if isinstance(letter, DeliveryDetail):
        lines = [*delivery_lines(fleet, letter.delivery, whole=True), *payload_lines(fleet, letter.payload)]
        fleet.data(detail_record(letter) if fleet.json else wrapped_lines(lines))
    elif fleet.json:
        fleet.data(letter)
    else:
        lines = [
            f"{plain(letter.id)}  on {plain(letter.stream)}  event {plain(letter.event) or '-'}  {when(letter.ms)}",
            f"  {fleet.style(plain(letter.reason, 2_000), 'red')}",
        ]
        if letter.body:
            lines.append(f"  {fleet.style(short(letter.body, 400), 'bright_black')}")
        fleet.data(wrapped_lines(lines))


@dead.command()
@bulk_options(letter_filters, "All of them.")
@common_options
@pass_fleet
def retry(fleet: Context, bulk: BulkRequest) -> None:
    """Try dead deliveries again; they keep their id. Entries that could not be read cannot be tried again."""
    bulk = _with_whole_ids(fleet, bulk)
    ids = bulk.filter.ids
    if ids and not any(map(_is_delivery, ids)):
        raise CheckFailed("an entry that could not be read cannot be tried again; `fleethook dead show` shows it")
    letters = [letter for letter in _selected(fleet, bulk) if _is_delivery(letter[0])]
    question = f"Try {counted(len(letters), 'delivery', 'deliveries')} again?"
    do_bulk(fleet, _REDRIVE, bulk, letters, question, yes=bulk.yes or bool(ids))


@dead.command("drop")
@bulk_options(letter_filters, "All of them.")
@common_options
@pass_fleet
def drop_dead(fleet: Context, bulk: BulkRequest) -> None:
    """Delete dead letters for good, with what they keep of their events."""
    bulk = _with_whole_ids(fleet, bulk)
    letters = _selected(fleet, bulk)
    do_bulk(fleet, _DROP, bulk, letters, f"Delete {counted(len(letters), 'dead letter')} for good?", yes=bulk.yes)


@dead.command("export")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@letter_filters
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A new file (mode 0600), instead of stdout.")
@click.option("--dry-run", is_flag=True, help="Count them, and write nothing.")
@common_options
@pass_fleet
def export(
    fleet: Context,
    /,
    ids: tuple[str, ...],
    output: Path | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """Write dead letters as lines of JSON: the reason, every attempt, and the event; secrets are redacted."""
    import os

    from workers.cli.output import to_json
    from workers.records.export import export_letters

    chosen = read_filter(options, _complete_ids(fleet, ids) if ids else ())
    if dry_run:
        confirm_bulk(fleet, "exported", [*map(_group_of, _letters(fleet, chosen))], "", dry_run=True, yes=False)
        return

    async def work(connections: Connections) -> int:
        count = 0
        if output is None:
            async for line in export_letters(connections, fleet.keys(), chosen):
                fleet.stream(line)
                count += 1
            return count
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            async for line in export_letters(connections, fleet.keys(), chosen):
                file.write(to_json(line) + "\n")
                count += 1
                if count % 1_000 == 0:
                    fleet.say(f"{count:,} …")
        return count

    try:
        count = fleet.run(work)
    except FileExistsError as error:
        raise click.UsageError(f"{output} is there already, and is not overwritten") from error
    fleet.say(f"{counted(count, 'dead letter')} exported" if count else "no dead letters")


def _newest(fleet: Context, chosen: Filter, limit: int) -> list[DeadLetter]:
    from workers.delivery.dead_letters import dead_letters

    return fleet.run(lambda connections: dead_letters(connections, fleet.keys(), chosen, most=limit))


def _letters(fleet: Context, chosen: Filter) -> list[DeadLetter]:
    """All dead letters that pass the filter, oldest first."""
    from workers.records.selection import filtered_letters

    async def work(connections: Connections) -> list[DeadLetter]:
        return [letter async for letter in filtered_letters(connections, fleet.keys(), chosen)]

    return fleet.run(work)


def _with_whole_ids(fleet: Context, bulk: BulkRequest) -> BulkRequest:
    """The request with its ids completed; a usage error unless it has either ids, or `--all`, or filters."""
    bulk.require_choice("--reason and --endpoint")
    ids = bulk.filter.ids
    return replace(bulk, filter=read_filter({}, _complete_ids(fleet, ids))) if ids else bulk


def _complete_ids(fleet: Context, beginnings: tuple[str, ...]) -> tuple[str, ...]:
    """The whole ids of the dead letters with these prefixes; raises NotFound if no dead letter has any of them."""
    from workers.records.id_prefixes import require_one, whole_dead_ids

    async def work(connections: Connections) -> tuple[str, ...]:
        ids = await whole_dead_ids(connections, fleet.keys(), beginnings)
        await require_one(connections, fleet.keys()("dead"), ids, "dead letters")
        return ids

    return fleet.run(work)


def _is_delivery(name: str) -> bool:
    """Whether a dead letter is a delivery (`<event>.<hook>`) and no entry."""
    return "." in name


def _selected(fleet: Context, bulk: BulkRequest) -> list[tuple[str, Group]]:
    """The ids of the dead letters to work on, oldest first, each with the group that a dry run counts it in.

    Named ids are read only for a dry run; the action itself counts those that are not dead letters.
    """
    if bulk.filter.ids and not bulk.dry_run:
        return [(name, ("", "")) for name in bulk.filter.ids]
    return [(letter.id, _group_of(letter)) for letter in _letters(fleet, bulk.filter)]


def _group_of(letter: DeadLetter) -> Group:
    return letter.hook or letter.stream, letter.reason
