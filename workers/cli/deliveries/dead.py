"""`dead`: what was given up and why, and having it tried again, dropped or exported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import Context, Findings, LazyGroup, common_options, pass_fleet
from workers.cli.deliveries.bulk import MANY, Sort, as_job, confirm_bulk, do_now, report_done
from workers.cli.deliveries.options import letter_filters, read_filter
from workers.cli.formatting import delivery_lines, payload_lines, plain, short, when
from workers.cli.screens.rows import no_trunc_option, show_dead_letters
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.wire.connections import Connections
    from workers.delivery.dead_letters import DeadLetter
    from workers.delivery.deliveries import Delivery
    from workers.delivery.filters import Filter
    from workers.records.bulk_jobs import Kind


@click.group(cls=LazyGroup)
def dead() -> None:
    """List, show, retry, drop and export dead letters: deliveries given up, and entries that nobody could read."""


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
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@no_trunc_option
@common_options
@pass_fleet
def list_dead(fleet: Context, /, grouped: str, limit: int, whole: bool, **options: Any) -> None:
    """List dead letters, newest first, or count them by reason."""
    chosen = read_filter(options)
    found = _letters(fleet, chosen) if grouped else _newest(fleet, chosen, limit)
    if grouped:
        groups = list(_groups(found))[:limit]
        if fleet.json:
            fleet.data(groups)
        elif groups:
            fleet.table(
                ("COUNT", "OLDEST", "NEWEST", "TARGETS", "REASON"),
                [
                    (
                        one["count"],
                        when(one["oldest"]),
                        when(one["newest"]),
                        short(", ".join(one["targets"])),
                        one["reason"],
                    )
                    for one in groups
                ],
            )
    elif fleet.json:
        for letter in found:
            fleet.stream(letter)
    elif found:
        show_dead_letters(fleet, found, whole=whole)
    if not found:
        fleet.say("no dead letters")


@dead.command("show")
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show_dead(fleet: Context, name: str) -> None:
    """Show one dead letter: why it was given up, and every attempt or the beginning of its bytes."""
    import msgspec

    from bus.errors import NotFound
    from workers.delivery.deliveries import delivery
    from workers.records.events import payload

    (name,) = _whole(fleet, (name,))
    found = _letters(fleet, read_filter({}, (name,)))
    if not found:
        raise NotFound(f"no dead letter is called {name!r}; see `fleethook dead list`")
    (letter,) = found
    if letter.kind == "delivery":

        async def work(connections: Connections) -> tuple[Delivery, dict[str, Any] | None]:
            one = await delivery(connections, fleet.keys(), name)
            return one, await payload(connections, fleet.keys(), one.event)

        one, about = fleet.run(work)
        lines = [*delivery_lines(fleet, one, whole=True), *payload_lines(fleet, about)]
        fleet.data({**msgspec.to_builtins(one), "payload": about} if fleet.json else "\n".join(lines))
    elif fleet.json:
        fleet.data(letter)
    else:
        fleet.data(
            f"{plain(letter.id)}  on {plain(letter.stream)}  event {plain(letter.event) or '-'}  {when(letter.ms)}"
        )
        fleet.data(f"  {fleet.style(plain(letter.reason, 2_000), 'red')}")
        if letter.body:
            fleet.data(f"  {fleet.style(short(letter.body, 400), 'bright_black')}")


@dead.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@letter_filters
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
    **options: Any,
) -> None:
    """Try dead deliveries again, with their own id; entries that nobody could read cannot be tried again."""
    chosen = _chosen(fleet, options, ids, everything)
    letters = [one for one in _meant(fleet, chosen, dry_run) if _is_delivery(one.id)]
    if ids and not any(map(_is_delivery, chosen.ids)):
        raise Findings("an entry that nobody could read cannot be tried again; `fleethook dead show` shows it")
    _do(
        fleet,
        "redrive",
        "tried again",
        f"Try {counted(len(letters), 'delivery', 'deliveries')} again?",
        chosen,
        letters,
        dry_run=dry_run,
        follow=follow,
        yes=yes or bool(ids),
    )


@dead.command("drop")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@letter_filters
@click.option("--dry-run", is_flag=True, help="Count them, and do nothing.")
@click.option("--follow", is_flag=True, help="Where it becomes a job: wait for its end.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def drop_dead(
    fleet: Context,
    /,
    ids: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    follow: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Forget dead letters for good, with what they keep of their events."""
    chosen = _chosen(fleet, options, ids, everything)
    letters = _meant(fleet, chosen, dry_run)
    _do(
        fleet,
        "drop",
        "dropped",
        f"Forget {len(letters):,} dead letters for good?",
        chosen,
        letters,
        dry_run=dry_run,
        follow=follow,
        yes=yes,
    )


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
    """Write dead letters as lines of JSON: why, every attempt, and the event; secrets are redacted."""
    import os

    from workers.cli.output import to_json
    from workers.records.export import exported

    chosen = read_filter(options, _whole(fleet, ids) if ids else ())
    if dry_run:
        confirm_bulk(fleet, "exported", _sorts(_letters(fleet, chosen)), "", dry_run=True, yes=False)
        return

    async def work(connections: Connections) -> int:
        count = 0
        if output is None:
            async for line in exported(connections, fleet.keys(), chosen):
                fleet.stream(line)
                count += 1
            return count
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            async for line in exported(connections, fleet.keys(), chosen):
                file.write(to_json(line) + "\n")
                count += 1
                if count % 1_000 == 0:
                    fleet.say(f"{count:,} …")
        return count

    try:
        count = fleet.run(work)
    except FileExistsError as error:
        raise click.UsageError(f"{output} is there already, and is not overwritten") from error
    fleet.say(f"{count:,} dead letters exported" if count else "no dead letters")


def _newest(fleet: Context, chosen: Filter, limit: int) -> list[DeadLetter]:
    from workers.delivery.dead_letters import dead_letters

    return fleet.run(lambda connections: dead_letters(connections, fleet.keys(), chosen, most=limit))


def _letters(fleet: Context, chosen: Filter) -> list[DeadLetter]:
    """All of them, oldest first."""
    from workers.records.selection import filtered_letters

    async def work(connections: Connections) -> list[DeadLetter]:
        return [one async for one in filtered_letters(connections, fleet.keys(), chosen)]

    return fleet.run(work)


def _groups(letters: Sequence[DeadLetter]) -> Iterator[dict[str, Any]]:
    """The letters by reason, the most frequent first."""
    by_reason: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        by_reason.setdefault(letter.reason, []).append(letter)
    for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        times, targets = [one.ms for one in found], sorted({one.target for one in found if one.target})
        yield {"reason": reason, "count": len(found), "oldest": min(times), "newest": max(times), "targets": targets}


def _chosen(fleet: Context, options: dict[str, Any], ids: tuple[str, ...], everything: bool) -> Filter:
    """What is meant; a usage error unless ids are given, or it is described."""
    chosen = read_filter(options)
    if bool(ids) == (everything or not chosen.empty):
        raise click.UsageError("say ids, or --all, or filters such as --reason and --endpoint")
    return read_filter({}, _whole(fleet, ids)) if ids else chosen


def _whole(fleet: Context, beginnings: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of the dead letters that begin so."""
    from workers.records.ids import whole_dead_ids

    return fleet.run(lambda connections: whole_dead_ids(connections, fleet.keys(), beginnings))


def _is_delivery(name: str) -> bool:
    """Whether a dead letter is a delivery (`<event>.<hook>`) and no entry."""
    return "." in name


def _meant(fleet: Context, chosen: Filter, dry_run: bool) -> Sequence[DeadLetter]:
    """Those of these ids, or all that are described, oldest first.

    What is named and to be acted on is taken at its word: whether it is a dead letter is known when it is done.
    """
    from workers.delivery.dead_letters import DeadLetter

    if dry_run or not chosen.ids:
        return _letters(fleet, chosen)
    return [DeadLetter(id=name, kind="", ms=0, reason="") for name in chosen.ids]


def _sorts(letters: Sequence[DeadLetter]) -> list[Sort]:
    return [(one.hook or one.stream, one.reason) for one in letters]


def _do(
    fleet: Context,
    kind: Kind,
    what: str,
    question: str,
    chosen: Filter,
    letters: Sequence[DeadLetter],
    *,
    dry_run: bool,
    follow: bool,
    yes: bool,
) -> None:
    found = [one.id for one in letters]
    if not confirm_bulk(fleet, what, _sorts(letters), question, dry_run=dry_run, yes=yes):
        return
    if len(found) > MANY and not chosen.ids:
        as_job(fleet, kind, chosen, len(found), follow=follow)
    else:
        report_done(fleet, what, do_now(fleet, kind, found), len(found), "a dead letter")
