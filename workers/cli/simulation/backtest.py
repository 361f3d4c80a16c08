"""`fleethook backtest`: recorded events judged by the hooks of a file, and what would change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import CheckFailed, Context, common_options, pass_fleet
from workers.cli.formatting import COLOURS, plain, short, when
from workers.cli.hooks.sets import in_force, sound
from workers.cli.parameters import CONDITION, DURATION, MOMENT
from workers.cli.screens.columns import Cell, Column, wrapped_lines
from workers.cli.screens.progress import Progress
from workers.cli.screens.rows import list_times, shown_ids
from workers.cli.simulation.past_input import EXPORTS, read_past
from workers.runtime.wording import counted

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooks import Layer
    from bus.wire.connections import Connections
    from workers.simulation.backtest import BacktestResult, Change
    from workers.simulation.candidate import Candidate
    from workers.simulation.past_events import Past

LAYERS: Final = ("fleet", "user", "project")
_WORDS: Final = {"abstain": "pass"}
_DEFAULT_SINCE: Final = "7d"
_CHANGE_COLUMNS: Final = (
    Column("TIME", 8),
    Column("CHANGE", 13),
    Column("HOOK", 16, rank=2),
    Column("AGENT", 8, 9, rank=4),
    Column("TOOL", 6, 12, rank=3),
    Column("WHAT", 24, rank=1),
    Column("ID", 10),
)
_HOOK_COLUMNS: Final = (
    Column("HOOK", 16),
    Column("CHANGES", 7),
    Column("DENY", 4),
    Column("ASK", 4),
    Column("ALLOW", 5, rank=2),
    Column("OTHER", 5, rank=3),
    Column("OBSERVED", 10, rank=1),
)
_STEP_COLUMN: Final = (Column("STEPS", 5),)
"""How often workflows went on to a step, where there are any."""
_MOST_HOOKS: Final = 20


@click.command()
@click.option(
    "--hooks",
    "hook_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The hooks to try. Default: the hook file here, else the user's.",
)
@click.option(
    "--since",
    type=MOMENT,
    metavar="TIME",
    help=f"Events from then on: 7d (ago), 2026-11-21T14:30. Default: {_DEFAULT_SINCE}.",
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Events until then. Default: until now.")
@EXPORTS
@click.option(
    "--layer",
    type=click.Choice(LAYERS),
    help="The layer whose hooks they would replace. Default: the layer that the file is in force as, else fleet.",
)
@click.option("--add", "beside", is_flag=True, help="Add them to the hooks in force, and replace none.")
@click.option(
    "--where", type=CONDITION, default="", metavar="CEL", help="Only events for which this holds, as `when:`."
)
@click.option(
    "--limit", type=click.IntRange(0, 10_000), default=50, show_default=True, help="The most changes to list."
)
@click.option("--budget", type=DURATION, metavar="TIME", help="How long the verdict on one event may take.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if anything would change, an event cannot be read, or there is no event to judge.",
)
@common_options
@pass_fleet
def backtest(
    fleet: Context,
    hook_file: Path | None,
    since: int | None,
    until: int | None,
    exports: Sequence[Path],
    layer: Layer | None,
    beside: bool,
    where: str,
    limit: int,
    budget: float | None,
    exit_code: bool,
) -> None:
    """Judge recorded events by the hooks of a file, and show which calls they would decide in another way.

    The rules are judged again, and nothing is run: of commands and http hooks the recorded answers count, as long as the
    hook is the same in force. Hooks of other layers keep their recorded decisions.

    \b
    fleethook backtest --hooks candidate.yaml --since 7d
    fleethook backtest --hooks one-more-rule.yaml --add
    fleethook backtest --hooks candidate.yaml --from events.jsonl
    """
    from workers.records.moments import parse_moment
    from workers.simulation.backtest import Backtest
    from workers.simulation.past_events import only_where

    tried = _candidate(fleet, hook_file, layer, beside=beside)
    settings = fleet.settings()
    seconds = settings.budget if budget is None else budget
    start = since if since is not None else 0 if exports else parse_moment(_DEFAULT_SINCE)
    fleet.quiet = True  # the report counts the hooks that fail

    async def work(connections: Connections | None) -> BacktestResult:
        async with Backtest(tried, seconds=seconds, policy=settings.on_failure) as run:
            with Progress(fleet, "judging", unit="events") as progress:

                async def add(page: list[Past]) -> None:
                    await run.add(only_where(page, where))
                    progress.update(run.judged)

                await read_past(fleet, connections, exports, (start, until or 0), add)
            return run.result()

    found = asyncio.run(work(None)) if exports else fleet.run(work)
    if fleet.json:
        fleet.data(_report(found, limit))
    else:
        _show(fleet, found, start, limit)
    if exit_code and not found.events and not found.unreadable:
        raise CheckFailed("no event was judged, so nothing is shown; widen --since, or judge an export with --from")
    if exit_code and (found.changes or found.unreadable):  # nobody knows what an unreadable event would change
        raise CheckFailed("")


def _candidate(fleet: Context, file: Path | None, layer: Layer | None, *, beside: bool) -> Candidate:
    """The candidate in a hook file, and the hooks in force that it would replace."""
    from bus.hooksets.trust import trusted_file
    from bus.ids import host_name
    from bus.system.directories import config_file
    from workers.simulation.candidate import candidate

    name, read = sound(fleet, file)
    path = None if name == "stdin" else Path(name)
    places = fleet.directories()
    user = config_file(places.config)
    found: Layer = "fleet"
    if layer is not None:
        found = layer
    elif path is not None and user is not None and path.samefile(user):
        found = "user"
    elif path is not None:
        project = trusted_file(path.absolute().parent, places.trust_file, user=user)
        if project is not None and project.exists() and project.samefile(path):
            found = "project"
    known = in_force(fleet, path.absolute().parent if path is not None else None, needed=False)
    return candidate(read, name, found, known, host=host_name(), path=path, beside=beside)


def _report(found: BacktestResult, limit: int) -> dict[str, Any]:
    import msgspec

    plain_result: dict[str, Any] = msgspec.to_builtins(found)
    hooks = [
        {**record, "matched": counts.matched} for record, counts in zip(plain_result["hooks"], found.hooks, strict=True)
    ]
    per_second = round(found.events / found.seconds) if found.seconds else 0
    return {
        **plain_result,
        "changed": plain_result["changed"][:limit],
        "hooks": hooks,
        "changed_count": found.changed_count,
        "per_second": per_second,
        "notes": list(_notes(found)),
    }


def _show(fleet: Context, found: BacktestResult, since: int, limit: int) -> None:
    fleet.data(wrapped_lines([_heading(found, since)]))
    if found.changed and limit:
        fleet.table(_CHANGE_COLUMNS, _change_rows(found.changed[:limit]))
        if found.changed_count > limit:
            fleet.say(f"the first {limit} of {found.changed_count:,} changes; --limit shows more")
    for change in found.changes:
        fleet.data(f"{_kinds(change.before, change.after)}: {counted(change.events, 'event')}")
    if not found.changes and found.events:
        fleet.data(fleet.style("nothing would change", "green"))
    steps = any(counts.steps for counts in found.hooks)
    rows = [
        (
            plain(counts.hook),
            f"{counts.changes:,}",
            f"{counts.deny:,}",
            f"{counts.ask:,}",
            f"{counts.allow:,}",
            f"{counts.other:,}",
            ", ".join(f"{word} {count:,}" for word, count in counts.observed.items()),
            *((f"{counts.steps:,}",) if steps else ()),
        )
        for counts in found.hooks
        if counts.matched
    ]
    if rows:
        fleet.table((*_HOOK_COLUMNS, *(_STEP_COLUMN if steps else ())), rows[:_MOST_HOOKS])
    for note in _notes(found):
        fleet.data(wrapped_lines([fleet.style(plain(note, 2_000), "yellow")]))
    if found.changed:
        fleet.say("`fleethook trace ID` shows an event, `fleethook simulate --event ID --hooks FILE` every hook's part")


def _heading(found: BacktestResult, since: int) -> str:
    where = {"fleet": "the published set", "user": "the user's file", "project": "the project's file"}[found.layer]
    how = "beside the hooks in force" if found.beside else f"in place of {where}"
    version = f" ({found.replaced})" if found.replaced else "" if found.beside else " (there is none)"
    pace = f", {found.events / found.seconds:,.0f} a second" if found.seconds and found.events >= 1_000 else ""
    times = (
        f" from {when(found.first)} to {when(found.last)}" if found.first else f" since {when(since)}" if since else ""
    )
    sessions = f" of {counted(found.sessions, 'session')}" if found.sessions else ""
    return f"{plain(found.candidate)} {how}{version}: {counted(found.events, 'event')}{sessions}{times}{pace}"


def _change_rows(changes: Sequence[Change]) -> list[tuple[object, ...]]:
    times, ids = list_times([change.ms for change in changes]), shown_ids([change.id for change in changes], False)
    return [
        (
            moment if change.ms else "-",
            Cell(_kinds(change.before, change.after), COLOURS.get(change.after)),
            ", ".join(change.hooks_after or change.hooks_before),
            change.source,
            change.tool or change.type,
            short(change.what, 200),
            name,
        )
        for moment, change, name in zip(times, changes, ids, strict=True)
    ]


def _kinds(before: str, after: str) -> str:
    return f"{_WORDS.get(before, before)} → {_WORDS.get(after, after)}"


def _notes(found: BacktestResult) -> Iterator[str]:
    """What a reader has to know beside the numbers."""
    if found.announced:
        yield (
            f"{counted(found.announced, 'event')} had no verdict: their agents did not wait for one, and a new deny would not "
            "have stopped them, or the export has none"
        )
    for counts in found.hooks:
        if counts.unknown and counts.kind == "workflow":
            yield (
                f"{counts.hook} would have waited for an answer at {counted(counts.unknown, 'event')}, and nothing was asked: "
                "its steps may be others"
            )
        elif counts.unknown:
            yield (
                f"{counts.hook} was not run for {counted(counts.unknown, 'event')}: it is no rule, and there is no recorded "
                "answer of the same hook; `fleethook simulate --run` runs it for one event"
            )
    if found.not_reached:
        yield (
            f"{counted(found.not_reached, 'call was', 'calls were')} denied then before hooks of lower layers ran: "
            "these may deny them still"
        )
    if found.redacted:
        fields = ", ".join(f"{name} {count:,}" for name, count in list(found.redacted.items())[:5])
        yield (
            f"secrets are redacted in some events ({fields}): hooks that read these fields saw another text then, and may "
            "decide in another way"
        )
    if found.never_matched:
        names = ", ".join(found.never_matched[:10]) + (" …" if len(found.never_matched) > 10 else "")
        yield f"{counted(len(found.never_matched), 'hook')} had nothing to say to any event: {names}"
    if found.elsewhere:
        yield f"{counted(found.elsewhere, 'event')} of other machines or folders left out: this layer has no say there"
    if found.unreadable:
        yield f"{counted(found.unreadable, 'event')} cannot be read, such as {found.unreadable_examples[0]}"
