"""`fleethook suggest`: narrow changes of rules that past answers support, and rules that never matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.cli.common import Context, common_options, pass_fleet
from workers.cli.formatting import plain, short, when
from workers.cli.hooks.sets import in_force, shown_diff
from workers.cli.parameters import MOMENT
from workers.cli.screens.columns import Column, wrapped_lines
from workers.cli.screens.progress import Progress
from workers.cli.simulation.past_input import EXPORTS, read_past
from workers.runtime.wording import counted

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.hooks import Hook
    from bus.hooksets.hookfile import HookFile
    from bus.wire.connections import Connections
    from workers.simulation.history import History
    from workers.simulation.past_events import Past
    from workers.simulation.suggestions import LeftOut, Suggestion

_HOOK_COLUMNS: Final = (
    Column("HOOK", 16),
    Column("DENIED", 6),
    Column("ASKED", 5),
    Column("APPROVED", 8, rank=1),
    Column("REFUSED", 7, rank=2),
    Column("OBSERVED", 8, rank=3),
    Column("SESSIONS", 8, rank=5),
    Column("LAST", 19, rank=4),
    Column("LAYER", 7, rank=6),
)
_MOST_HOOKS: Final = 30
_MOST_NAMES: Final = 20


@click.command()
@click.option(
    "--since", type=MOMENT, metavar="TIME", help="Events from then on: 7d (ago), 2026-11-21T14:30. Default: all."
)
@click.option("--until", type=MOMENT, metavar="TIME", help="Events until then. Default: until now.")
@EXPORTS
@click.option(
    "--least",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How many answers of one kind, and none of the other, a suggestion takes.",
)
@click.option("--limit", type=click.IntRange(0, 1_000), default=10, show_default=True, help="The most suggestions.")
@click.option(
    "--apply", "chosen", type=click.IntRange(1), multiple=True, metavar="N", help="Write suggestion N; repeatable."
)
@click.option("--dry-run", is_flag=True, help="With --apply: show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_fleet
def suggest(
    fleet: Context,
    since: int | None,
    until: int | None,
    exports: Sequence[Path],
    least: int,
    limit: int,
    chosen: Sequence[int],
    dry_run: bool,
    yes: bool,
) -> None:
    """Suggest narrow changes of rules from recorded asks and their answers, and list rules that never matched.

    A call that was always approved gets an exception for exactly this call; one that people always denied gets a rule that
    denies it. Nothing is written without --apply. No suggestion loosens the guard pack fleethook-itself.

    \b
    fleethook suggest --since 30d
    fleethook suggest --apply 1
    """
    import asyncio

    from workers.simulation.history import History
    from workers.simulation.past_events import oldest_first
    from workers.simulation.suggestions import never_matched, suggestions

    history = History()
    exported: list[Past] = []

    async def read(connections: Connections | None) -> None:
        with Progress(fleet, "reading", unit="events") as progress:

            async def add(page: list[Past]) -> None:
                if exports:
                    exported.extend(page)
                else:
                    history.add(page)
                progress.update(len(exported) or history.events)

            await read_past(fleet, connections, exports, (since or 0, until or 0), add)
        history.add(oldest_first(exported))

    asyncio.run(read(None)) if exports else fleet.run(read)
    fleet.quiet = True
    found, left_out = asyncio.run(suggestions(history.calls.values(), least))
    fleet.quiet = False
    if chosen:
        _apply(fleet, found, sorted(set(chosen)), yes=yes, dry_run=dry_run)
        return
    silent = never_matched(in_force(fleet, needed=False), history.hooks())
    records = _records(fleet, found[:limit])
    if fleet.json:
        fleet.data(_report(history, records, left_out, silent, len(found)))
    else:
        _show(fleet, history, records, left_out, silent, len(found))


def _records(fleet: Context, found: Sequence[Suggestion]) -> list[dict[str, Any]]:
    """The suggestions as `--json` gives them."""
    import msgspec

    from bus.errors import ConfigError, FleethookError
    from bus.hooksets.hookfile import HookFile
    from bus.ids import host_name
    from bus.secrets.redaction import redact
    from workers.cli.edits import published_set, user_file
    from workers.cli.hooks.sets import redacted
    from workers.simulation.changes import suggestion_diff

    try:
        published: tuple[HookFile, int] = published_set(fleet)
    except FleethookError:
        published = (HookFile(), 0)
    records = []
    for number, suggestion in enumerate(found, 1):
        asked = suggestion.asked
        try:
            changes, problem = suggestion_diff(suggestion, published, user_file(fleet), host_name()), ""
        except ConfigError as error:
            changes, problem = "", str(error)
        command = f"fleethook suggest --apply {number}"
        records.append(
            {
                "number": number,
                "kind": suggestion.kind,
                "rules": [{"hook": hook, "layer": layer} for layer, hook in suggestion.rules],
                "call": redact(msgspec.to_builtins(asked.call)),
                "asked": asked.asked,
                "approved": asked.approved,
                "denied": asked.denied,
                "open": asked.open,
                "saves": asked.asked,
                "lets_through": suggestion.lets_through,
                "last": asked.last,
                "events": asked.events,
                "command": f"fleethook approvals remember {asked.questions[-1]}"
                if suggestion.kind == "exception" and asked.questions
                else command,
                "diff": redacted(changes),
                "problem": problem,
            }
        )
    return records


def _report(
    history: History,
    records: Sequence[dict[str, Any]],
    left_out: Sequence[LeftOut],
    silent: Sequence[tuple[Hook, str]],
    count: int,
) -> dict[str, Any]:
    import msgspec

    from bus.secrets.redaction import redact_text
    from workers.approvals.summary import summary

    return {
        "events": history.events,
        "first": history.first,
        "last": history.last,
        "suggestion_count": count,
        "suggestions": list(records),
        "left_out": [
            {
                "what": redact_text(summary(one.asked.event)),
                "rules": [part.hook for part in one.asked.parts],
                "asked": one.asked.asked,
                "why": one.why,
                "events": one.asked.events,
            }
            for one in left_out
        ],
        "hooks": [msgspec.to_builtins(hook) for hook in history.hooks()],
        "never_matched": [
            {"hook": hook.id, "layer": hook.layer, "origin": hook.origin, "pack": pack} for hook, pack in silent
        ],
    }


def _show(
    fleet: Context,
    history: History,
    records: Sequence[dict[str, Any]],
    left_out: Sequence[LeftOut],
    silent: Sequence[tuple[Hook, str]],
    count: int,
) -> None:
    times = f" from {when(history.first)} to {when(history.last)}" if history.first else ""
    fleet.data(f"{counted(count, 'suggestion')} from {counted(history.events, 'event')}{times}")
    for record in records:
        fleet.data(_suggestion_text(fleet, record))
    if count > len(records):
        fleet.say(f"the first {len(records)}; --limit shows more")
    for why, number in Counter(one.why for one in left_out).most_common():
        fleet.data(fleet.style(f"{counted(number, 'call')} without a suggestion: {why}", "yellow"))
    _show_hooks(fleet, history)
    _show_silent(fleet, silent)


def _suggestion_text(fleet: Context, record: dict[str, Any]) -> str:
    call = record["call"]
    what = plain(str(call["input"].get("command") or call["input"].get("path") or call["input"]), 200)
    hooks = ", ".join(rule["hook"] for rule in record["rules"])
    answers = f"asked {record['asked']} times, approved {record['approved']}, denied {record['denied']}"
    if record["kind"] == "exception":
        head = f"never ask {plain(hooks)} about this one call"
        effect = f"saves {counted(record['saves'], 'question')}, lets through these {record['lets_through']} calls and no other"
    else:
        head = "deny this one call"
        effect = f"saves {counted(record['saves'], 'question')}, lets through nothing"
    lines = [
        f"{record['number']}  {fleet.style(head, 'green')}: {plain(call['tool'])}  {fleet.style(what, 'cyan')}",
        f"   in {plain(call['cwd']) or '-'}; {answers}; {effect}",
        f"   {record['command']}   (events: {', '.join(record['events'][:3])})",
    ]
    if record["problem"]:
        lines.append(fleet.style(f"   {plain(record['problem'], 2_000)}", "yellow"))
    if record["diff"]:
        lines += [f"   {line}" for line in shown_diff(fleet, record["diff"]).splitlines()]
    return "\n".join(lines)


def _show_hooks(fleet: Context, history: History) -> None:
    rows = [
        (
            plain(hook.hook),
            f"{hook.denied:,}",
            f"{hook.asked:,}",
            f"{hook.approved:,}",
            f"{hook.refused:,}",
            ", ".join(f"{word} {number:,}" for word, number in hook.observed.items()),
            f"{hook.sessions:,}",
            when(hook.last) if hook.last else "-",
            plain(hook.layer),
        )
        for hook in history.hooks()
    ]
    if rows:
        fleet.table(_HOOK_COLUMNS, rows[:_MOST_HOOKS])
    if len(rows) > _MOST_HOOKS:
        fleet.say(f"the first {_MOST_HOOKS} of {len(rows)} hooks; --json has all")


def _show_silent(fleet: Context, silent: Sequence[tuple[Hook, str]]) -> None:
    by_pack: dict[str, list[str]] = {}
    for hook, pack in silent:
        by_pack.setdefault(pack, []).append(hook.id)
    for pack, names in by_pack.items():
        shown = ", ".join(names[:_MOST_NAMES]) + (" …" if len(names) > _MOST_NAMES else "")
        of_pack = f" of the guard pack {pack}" if pack else ""
        what = f"{len(names)} rules (--json lists them)" if pack else plain(shown, 2_000)
        fleet.data(wrapped_lines([f"never matched{of_pack}: {what}"]))


def _apply(fleet: Context, found: Sequence[Suggestion], numbers: Sequence[int], *, yes: bool, dry_run: bool) -> None:
    from bus.ids import host_name
    from workers.cli.approvals.remember import remember_call
    from workers.cli.edits import publish_change, published_set, user_file, write_change
    from workers.simulation.changes import deny_file_change, deny_layer, exception_plan, with_deny

    if numbers[-1] > len(found):
        raise click.UsageError(
            f"there is no suggestion {numbers[-1]}: there are {len(found)}; say the same --since and --least"
        )
    for number in numbers:
        suggestion = found[number - 1]
        user = user_file(fleet)
        if suggestion.kind == "exception":
            plan = exception_plan(suggestion, published_set(fleet)[0], user, host_name())
            remember_call(fleet, plan, yes, dry_run, {"suggestion": number})
        elif deny_layer(suggestion) == "fleet":
            if not dry_run:
                fleet.require_person("suggest", published=True)
            message = f"suggest: deny {short(suggestion.asked.call.tool)} as people did"

            def change(file: HookFile, suggestion: Suggestion = suggestion) -> HookFile:
                return with_deny(file, suggestion)

            _say(fleet, number, publish_change(fleet, change, message, yes, dry_run))
        else:
            edited = deny_file_change(suggestion, user, host_name())
            if not dry_run:
                fleet.require_person("suggest", edited.file)
            _say(fleet, number, write_change(fleet, edited, yes, dry_run))


def _say(fleet: Context, number: int, result: dict[str, Any]) -> None:
    if fleet.json:
        fleet.data({"suggestion": number, "changes": [result]})
    elif result["written"]:
        where = f"version {result['version']}" if "version" in result else result["file"]
        fleet.data(f"this call is denied from now on: {where}, in force within a second where workers run")
