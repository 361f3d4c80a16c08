"""`deliveries` and `dead`: what is owed to whom, every attempt of it, and what was given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, Findings, LazyGroup, PartlyDone, common_options, pass_fleet
from workers.cli.showing import delivery_lines, plain, short, when

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.connections import Links
    from bus.keys import Keys
    from workers.deadletters import DeadLetter
    from workers.deliveries import Delivery

    Work = Callable[[Links, Keys, Sequence[str]], Awaitable[int]]

_STATES: Final = ("ready", "running", "due", "parked", "delivered", "dead")
_MOST: Final = 1_000_000
_AT_ONCE: Final = 200
_MANY: Final = 500
"""More dead letters than this are tried again by the chores worker, where there is one."""


@click.group(cls=LazyGroup)
def deliveries() -> None:
    """List and show deliveries and their attempts."""


@deliveries.command("list")
@click.option("--state", type=click.Choice(_STATES), default=None, help="In this state only.")
@click.option("--target", default="", metavar="TEXT", help="Whose target contains this: endpoint:log, hook:lint.")
@click.option("--event", default="", metavar="ID", help="Of one event.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@common_options
@pass_fleet
def list_deliveries(fleet: Context, state: str | None, target: str, event: str, limit: int) -> None:
    """List deliveries, newest first."""
    from workers.deliveries import deliveries as listed

    async def work(links: Links) -> list[Delivery]:
        return await listed(links, fleet.keys(), state=state or "", target=target, event=event, most=limit)

    found = fleet.run(work)
    if fleet.json:
        for one in found:
            fleet.stream(one)
    elif found:
        rows = [(when(one.created), one.id, one.target, one.state, one.attempts, _next(one)) for one in found]
        fleet.table(("TIME", "ID", "TARGET", "STATE", "ATTEMPTS", "NOTE"), rows)
    else:
        fleet.say("no deliveries")


@deliveries.command("show")
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show_delivery(fleet: Context, name: str) -> None:
    """Show one delivery with every attempt: when, how long, status, what came back, when the next is due."""
    from workers.deliveries import delivery

    one = fleet.run(lambda links: delivery(links, fleet.keys(), name))
    fleet.data(one if fleet.json else "\n".join(delivery_lines(fleet, one)))


@click.group(cls=LazyGroup)
def dead() -> None:
    """List, show, retry and drop dead letters: deliveries that were given up, and entries that nobody could read."""


@dead.command("list")
@click.option("--reason", default="", metavar="TEXT", help="Whose reason contains this.")
@click.option("--target", default="", metavar="TEXT", help="Whose target contains this.")
@click.option("--group", "grouped", is_flag=True, help="Count them by reason.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@common_options
@pass_fleet
def list_dead(fleet: Context, reason: str, target: str, grouped: bool, limit: int) -> None:
    """List dead letters, newest first, or count them by reason."""
    found = _letters(fleet, reason, target, _MOST if grouped else limit)
    if grouped:
        groups = list(_groups(found))[:limit]
        if fleet.json:
            fleet.data(groups)
        elif groups:
            fleet.table(("COUNT", "OLDEST", "NEWEST", "TARGETS", "REASON"),
                        [(one["count"], when(one["oldest"]), when(one["newest"]), short(", ".join(one["targets"])),
                          one["reason"]) for one in groups])  # fmt: skip
    elif fleet.json:
        for letter in found:
            fleet.stream(letter)
    elif found:
        rows = [(when(one.ms), one.id, one.target or one.stream, one.attempts, short(one.reason, 160)) for one in found]
        fleet.table(("TIME", "ID", "TARGET", "ATTEMPTS", "REASON"), rows)
    if not found:
        fleet.say("no dead letters")


@dead.command("show")
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show_dead(fleet: Context, name: str) -> None:
    """Show one dead letter: why it was given up, and every attempt or the beginning of its bytes."""
    from bus.errors import NotFound
    from workers.deliveries import delivery

    letter = next((one for one in _letters(fleet, "", "", _MOST) if one.id == name), None)
    if letter is None:
        raise NotFound(f"no dead letter is called {name!r}; see `fleethook dead list`")
    if letter.kind == "delivery":
        one = fleet.run(lambda links: delivery(links, fleet.keys(), name))
        fleet.data(one if fleet.json else "\n".join(delivery_lines(fleet, one)))
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
@click.option("--reason", default="", metavar="TEXT", help="Whose reason contains this.")
@click.option("--target", default="", metavar="TEXT", help="Whose target contains this.")
@click.option("--dry-run", is_flag=True, help="Count them, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def retry(
    fleet: Context, ids: tuple[str, ...], everything: bool, reason: str, target: str, dry_run: bool, yes: bool
) -> None:
    """Try dead deliveries again, with their own id; entries that nobody could read cannot be tried again."""
    from workers.deadletters import redrive

    chosen = [one for one in _chosen(fleet, ids, everything, reason, target) if _is_delivery(one)]
    if ids and not chosen:
        raise Findings("an entry that nobody could read cannot be tried again; `fleethook dead show` shows it")
    if not _go_on(fleet, "tried again", len(chosen), f"Try {len(chosen)} deliveries again?", dry_run, yes or bool(ids)):
        return
    if not ids and len(chosen) > _MANY and _queued(fleet, reason, target):
        if fleet.json:
            fleet.data({"matching": len(chosen), "queued": True})
        else:
            fleet.data(f"{len(chosen)} deliveries are being tried again by the chores worker")
            fleet.say("`fleethook dead list --group` shows what is left")
        return
    _tell(fleet, "tried again", _in_pages(fleet, chosen, redrive), len(ids) or len(chosen))


@dead.command("drop")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--reason", default="", metavar="TEXT", help="Whose reason contains this.")
@click.option("--target", default="", metavar="TEXT", help="Whose target contains this.")
@click.option("--dry-run", is_flag=True, help="Count them, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def drop_dead(
    fleet: Context, ids: tuple[str, ...], everything: bool, reason: str, target: str, dry_run: bool, yes: bool
) -> None:
    """Forget dead letters for good, with what they keep of their events."""
    from workers.deadletters import drop

    chosen = _chosen(fleet, ids, everything, reason, target)
    if _go_on(fleet, "dropped", len(chosen), f"Forget {len(chosen)} dead letters for good?", dry_run, yes):
        _tell(fleet, "dropped", _in_pages(fleet, chosen, drop), len(chosen))


def _next(one: Delivery) -> str:
    if one.state == "due":
        return f"next {when(one.due)}: {short(one.reason, 80)}"
    return short(one.reason, 80) if one.state == "dead" else ""


def _letters(fleet: Context, reason: str, target: str, most: int) -> list[DeadLetter]:
    from workers.deadletters import dead_letters

    return fleet.run(lambda links: dead_letters(links, fleet.keys(), reason=reason, target=target, most=most))


def _groups(letters: Sequence[DeadLetter]) -> Iterator[dict[str, Any]]:
    """The letters by reason, the most frequent first."""
    by_reason: dict[str, list[DeadLetter]] = {}
    for letter in letters:
        by_reason.setdefault(letter.reason, []).append(letter)
    for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        times, targets = [one.ms for one in found], sorted({one.target for one in found if one.target})
        yield {"reason": reason, "count": len(found), "oldest": min(times), "newest": max(times), "targets": targets}


def _chosen(fleet: Context, ids: tuple[str, ...], everything: bool, reason: str, target: str) -> list[str]:
    """The ids that are meant; a usage error unless they are given, or described."""
    if bool(ids) == (everything or bool(reason or target)):
        raise click.UsageError("say ids, or --all, or --reason and --target")
    return list(ids) if ids else [letter.id for letter in _letters(fleet, reason, target, _MOST)]


def _is_delivery(name: str) -> bool:
    """Whether a dead letter is a delivery (`<event>.<hook>`) and no entry."""
    return "." in name


def _go_on(fleet: Context, what: str, count: int, question: str, dry_run: bool, yes: bool) -> bool:
    """Whether there is anything to do, and whether it is wanted; says it where not."""
    if dry_run or not count:
        if fleet.json:
            fleet.data({"matching": count, "done": 0})
        else:
            fleet.data(f"{count} would be {what}" if count else f"nothing can be {what}")
        return False
    if fleet.confirm(question, yes):
        return True
    fleet.say("nothing was done")
    return False


def _in_pages(fleet: Context, ids: Sequence[str], do: Work) -> int:
    """Do it a page at a time, and say how far it is."""

    async def work(links: Links) -> int:
        done = 0
        for start in range(0, len(ids), _AT_ONCE):
            done += await do(links, fleet.keys(), ids[start : start + _AT_ONCE])
            if len(ids) > _MANY and (start // _AT_ONCE) % 5 == 4:
                fleet.say(f"{start + _AT_ONCE:,} of {len(ids):,} …")
        return done

    return fleet.run(work)


def _tell(fleet: Context, what: str, done: int, asked: int) -> None:
    if fleet.json:
        fleet.data({"matching": asked, "done": done})
    else:
        fleet.data(f"{done} {what}")
    if not done:
        raise Findings(f"none of {asked} is a dead letter that can be {what}; see `fleethook dead list`")
    if done < asked:
        raise PartlyDone(f"{asked - done} of {asked} are no dead letters (any more) that can be {what}")


def _queued(fleet: Context, reason: str, target: str) -> bool:
    """Whether a chores worker takes it over: as an RQ job, which goes on when this program ends."""
    from bus.connections import Links
    from workers.status import read_roles

    settings = fleet.settings()
    url = settings.rq_url or fleet.url()

    async def alive(links: Links) -> bool:
        rq = Links(url, connect=1.0)
        try:
            roles = await read_roles(links, rq, fleet.keys(), settings)
        finally:
            await rq.close()
        return any(role.alive for role in roles if role.role == "chores")

    if not fleet.run(alive):
        return False
    from workers.jobs import CHORES, queue

    on = queue(settings, url, CHORES)
    try:
        on.enqueue("workers.jobs.redrive", kwargs={"reason": reason, "target": target}, result_ttl=0,
                   failure_ttl=3_600, job_timeout=-1)  # fmt: skip
    finally:
        on.connection.close()
    return True
