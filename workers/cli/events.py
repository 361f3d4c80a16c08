"""`publish`, `request`, `events list|show|purge`, `tail` and `trace`: send events, find them, and show what they caused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from workers.cli.common import CheckFailed, Context, LazyGroup, common_options, pass_fleet
from workers.cli.formatting import event_lines, trace_lines, verdict_lines
from workers.cli.parameters import CONDITION, DURATION, EVENT_FILE, MOMENT, PATTERN
from workers.cli.screens.columns import terminal_width, wrapped_lines
from workers.cli.screens.rows import no_trunc_option, show_events, tail_line
from workers.runtime.wording import counted

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.events import Event
    from bus.wire.connections import Connections
    from workers.delivery.filters import Filter
    from workers.records.events import RecordedEvent

F = TypeVar("F", bound=Callable[..., Any])

_DECISIONS: Final = ("allow", "deny", "ask", "abstain", "fallback")
_SAY_EVERY: Final = 20_000


def filter_options(function: F) -> F:
    """`--type`, `--session`, `--tool`, `--source`, `--where`, `--trace` and `--decision`, in the words of hooks."""
    options = (
        click.option(
            "--type",
            "types",
            type=PATTERN,
            metavar="PATTERN",
            multiple=True,
            help="Event patterns: tool:pre_execute, tool:*.",
        ),
        click.option("--session", default="", metavar="ID", help="The session's id, or the beginning of it."),
        click.option("--tool", default="", metavar="MATCHER", help="Tool names with |, or a regular expression."),
        click.option("--source", default="", metavar="AGENT", help="Of one agent, such as claude or codex."),
        click.option(
            "--where",
            type=CONDITION,
            default="",
            metavar="CEL",
            help="A condition, as `when:` has it: event.tool == 'bash'.",
        ),
        click.option("--trace", default="", metavar="ID", help="Of this W3C trace, by its id or the beginning of it."),
        click.option("--decision", type=click.Choice(_DECISIONS), help="With this decision."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("file", type=EVENT_FILE, default="-")
@common_options
@pass_fleet
def publish(fleet: Context, file: Any) -> None:
    """Announce an event (a JSON object, or one on each line) and print its id. It does not wait for hooks.

    \b
    echo '{"type": "session:start", "source": "generic", "session": "s1"}' | fleethook publish
    """
    from bus.client import Bus

    events = _events(file.read(), many=True)
    _warn_of_unknown(fleet, events)

    async def work(bus: Bus) -> list[str]:
        async with bus:
            ids = await bus.publish_many(events)
            if bus.kept:
                kept = counted(bus.kept, "event waits", "events wait")
                fleet.say(f"the server is away: {kept} on this disk, to be sent when it is back")
            return ids

    for name in _on_bus(fleet, work):
        if fleet.json:
            fleet.stream({"id": name})
        else:
            fleet.data(name)


@click.command()
@click.argument("file", type=EVENT_FILE, default="-")
@click.option("--budget", type=DURATION, metavar="TIME", help="How long the verdict may take; default: the setting.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if the verdict is deny.")
@common_options
@pass_fleet
def request(fleet: Context, file: Any, budget: float | None, exit_code: bool) -> None:
    """Ask for the verdict on an event (JSON) and print it as JSON.

    Where no hook can answer, the verdict is the failure policy's and its `fallback` says why.

    \b
    echo '{"type": "tool:pre_execute", "tool": "bash", "input": {"command": "ls"}}' | fleethook request
    """
    import msgspec

    from bus.client import Bus
    from bus.verdicts import Verdict

    (event,) = _events(file.read(), many=False)
    _warn_of_unknown(fleet, [event])
    seconds = fleet.settings().budget if budget is None else budget

    async def work(bus: Bus) -> Verdict:
        async with bus:
            return await bus.request(event, budget=seconds)

    verdict = _on_bus(fleet, work)
    if verdict.fallback:
        fleet.say(f"fallback, no hook answered: {verdict.fallback}")
    for note in verdict.notes:
        if note.startswith("no guard "):
            fleet.say(f"warning: {note}")
    fleet.json = True  # a verdict is data for a program, with or without the flag
    fleet.data({"decision": verdict.decision, **msgspec.to_builtins(verdict)})
    if exit_code and verdict.blocks:
        raise CheckFailed("")


def _warn_of_unknown(fleet: Context, events: Iterable[Event]) -> None:
    """Warn about unknown event types on stderr; their events are accepted."""
    from difflib import get_close_matches

    from bus.events import SOURCES, EventType

    known = sorted(kind.value for kind in EventType)
    for kind in dict.fromkeys(event.type for event in events):
        if kind not in known and kind.partition(":")[0] not in SOURCES:  # `<agent>:<name>` is an agent's own event
            near = get_close_matches(kind, known, 1, 0.6)
            also = f"; did you mean {near[0]}?" if near else "; `fleethook events list` shows what agents send"
            fleet.say(f"warning: the event type {kind!r} is unknown{also}")


def _on_bus(fleet: Context, work: Callable[[Any], Any]) -> Any:
    import asyncio

    from bus.client import Bus
    from bus.shim.answer_file import program_spool

    settings = fleet.settings()
    url = fleet.url("agent")
    spool = program_spool(fleet.directories(), url, fleet.keys().prefix)

    async def whole() -> Any:
        # A Bus belongs to the loop that it is used on, so it is made there.
        return await work(
            Bus(url, namespace=settings.namespace, on_failure=settings.on_failure, spool=spool, connect=1.0)
        )

    return asyncio.run(whole())


def _events(raw: bytes, *, many: bool) -> list[Event]:
    """The events in one JSON object, or in one on each line; raises DecodeError with the line and the mistake."""
    import re

    from bus.agents import find
    from bus.errors import DecodeError

    lines = [(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    if not lines:
        raise DecodeError('there is no event in the input; write e.g. {"type": "session:start"}')
    generic, found = find("generic"), []
    # One object over several lines is the usual case; a second object after the first makes it lines.
    whole = len(lines) == 1 or not (
        many and all(line.strip().startswith(b"{") and line.strip().endswith(b"}") for _, line in lines)
    )
    for number, line in [(0, raw)] if whole else lines:
        where = "" if whole else f"line {number}: "
        try:
            event = generic.read("", line)
        except DecodeError as error:
            raise DecodeError(f"{where}{error}") from error
        if event.id and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", event.id):
            raise DecodeError(f"{where}the id {event.id[:80]!r} is not 1 to 64 letters, digits, _ and -; leave it out")
        found.append(event)
    return found


@click.group(cls=LazyGroup)
def events() -> None:
    """List, show and purge events."""


@events.command("list")
@filter_options
@click.option("--since", type=MOMENT, metavar="TIME", help="From then on: 12h (ago), 2026-11-21T14:30.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The most to show.")
@no_trunc_option
@common_options
@pass_fleet
def list_events(fleet: Context, /, since: int | None, limit: int, whole: bool, **given: Any) -> None:
    """List events, newest first; what is shown is redacted."""
    from workers.records.events import recent, record

    filters = _filters(given, since)

    async def work(connections: Connections) -> list[RecordedEvent]:
        return await recent(connections, fleet.keys(), filters, most=limit, on_progress=_progress(fleet))

    found = fleet.run(work)
    if fleet.json:
        for seen in found:
            fleet.stream(record(seen))
        return
    if not found:
        fleet.say(f"no events{f' with {filters.words()}' if filters.words() else ''}")
        return
    show_events(fleet, found, whole=whole)
    if len(found) == limit:
        fleet.say(f"the newest {limit}; --limit shows more")


@events.command()
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def show(fleet: Context, name: str) -> None:
    """Show all of one event: its input, the agent's own payload and its verdict, redacted."""
    from workers.cli.output import to_json
    from workers.records.events import find_event, record
    from workers.records.id_prefixes import whole_event_id

    async def work(connections: Connections) -> RecordedEvent:
        whole = await whole_event_id(connections, fleet.keys(), name, on_progress=_progress(fleet))
        return await find_event(connections, fleet.keys(), whole, on_progress=_progress(fleet))

    seen = fleet.run(work)
    whole = record(seen, raw=True)
    if fleet.json:
        fleet.data(whole)
        return
    lines = list(event_lines(fleet, seen))
    for part in ("input", "output", "data", "raw"):
        if whole.get(part):
            lines += [
                f"{part}",
                *(fleet.style(f"  {line}", "cyan") for line in to_json(whole[part], indent=True).splitlines()),
            ]
    if seen.verdict is not None:
        lines += verdict_lines(fleet, seen.verdict)
    fleet.data(wrapped_lines(lines))


@events.command()
@click.option("--older-than", type=DURATION, metavar="TIME", help="Everything older than this: 12h, 7d.")
@click.option("--session", metavar="ID", help="Everything of this session.")
@click.option("--all", "everything", is_flag=True, help="Remove every event.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def purge(fleet: Context, older_than: float | None, session: str | None, everything: bool, yes: bool) -> None:
    """Remove events before their retention ends, except those that are not delivered yet.

    The copies that open deliveries and dead letters have of an event stay until those end (`fleethook dead drop`).
    """
    from workers.records.purge import purge_older, purge_session

    if (older_than is not None) + (session is not None) + everything != 1:
        raise click.UsageError("say one of --older-than, --session and --all")
    what = (
        f"of session {session}"
        if session is not None
        else "that there are"
        if everything
        else f"older than {older_than:g} s"
    )
    if not fleet.confirm(f"Remove all delivered events {what}?", yes):
        fleet.say("nothing was removed")
        return

    async def work(connections: Connections) -> tuple[int, int]:
        if session is not None:
            return await purge_session(connections, fleet.keys(), session, on_progress=_progress(fleet))
        return await purge_older(connections, fleet.keys(), older_than or 0.0), 0

    removed, kept = fleet.run(work)
    if fleet.json:
        fleet.data({"removed": removed, "kept": kept})
        return
    fleet.data(f"removed {counted(removed, 'event')}")
    if kept:
        fleet.say(f"{kept} are not delivered yet and stay; try again in a moment")


@click.command()
@filter_options
@common_options
@pass_fleet
def tail(fleet: Context, /, **given: Any) -> None:
    """Follow events as they happen, one line each, until Ctrl-C; what is shown is redacted."""
    from workers.cli.fleet_control.notice import say_stops
    from workers.records.events import event_test, follow, read_recorded_event, record

    say_stops(fleet)
    filters = _filters(given, None)
    fits = event_test(filters)
    if filters.words():
        fleet.say(fleet.style(f"filters are active, other events are not shown: {filters.words()}", "yellow", err=True))

    if not fleet.json and sys.stdout.isatty():
        fleet.data(tail_line(fleet, None))

    async def work(connections: Connections) -> None:
        async for entry in follow(connections, fleet.keys()):
            seen = read_recorded_event(entry, fleet.keys())
            if not fits(seen):
                continue
            if fleet.json:
                fleet.stream(record(seen))
            else:
                fleet.data(tail_line(fleet, seen))

    try:
        fleet.run(work)
    except KeyboardInterrupt:  # the usual end of a tail is no failure
        return


@click.command()
@click.argument("name", metavar="ID")
@common_options
@pass_fleet
def trace(fleet: Context, name: str) -> None:
    """Show everything that one event caused: verdict, hooks, deliveries with their attempts, events below it."""
    from workers.cli.screens.waterfall import waterfall_lines
    from workers.records.id_prefixes import whole_event_id
    from workers.records.trace import Trace
    from workers.records.trace import trace as gather
    from workers.records.waterfall import timed_trace_record, waterfall

    async def work(connections: Connections) -> Trace:
        whole = await whole_event_id(connections, fleet.keys(), name, on_progress=_progress(fleet))
        return await gather(connections, fleet.keys(), whole, on_progress=_progress(fleet))

    found = fleet.run(work)
    if fleet.json:
        fleet.data(timed_trace_record(found))
        return
    times = waterfall_lines(waterfall(found), fleet.plain_style, terminal_width())
    fleet.data(wrapped_lines(trace_lines(fleet, found, times)))


def _filters(given: dict[str, Any], since: int | None) -> Filter:
    from workers.delivery.filters import Filter

    words = {name: value for name, value in given.items() if value is not None}
    return Filter(**words, since=since or 0)


def _progress(fleet: Context) -> Callable[[int], None]:
    """A function that prints the progress of a long search every few seconds."""
    printed_at = 0

    def print_progress(looked: int) -> None:
        nonlocal printed_at
        if looked - printed_at >= _SAY_EVERY:
            printed_at = looked
            fleet.say(f"looked through {counted(looked, 'event')} …")

    return print_progress
