"""`fleethook limits`: what rules have counted for their limits (X-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from workers.cli.common import Context, LazyGroup, common_options, pass_fleet
from workers.cli.screens.columns import Column

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from workers.memory.counters import LimitCounter

_SHORTEST: Final = 4
"""The fewest characters of a session's id that stand for it."""
_COLUMNS = (
    Column("RULE", 16),
    Column("USED", 9),
    Column("LIMIT", 16),
    Column("WHOSE", 16, rank=1),
    Column("FREE AGAIN", 19, rank=2),
    Column("LAST CALL", 19, rank=3),
    Column("LAYER", 7, rank=4),
)


@click.group(cls=LazyGroup)
def limits() -> None:
    """List what rules have counted for their limits, and set counters to nothing."""


@limits.command("list")
@click.option("--reached", is_flag=True, help="Only limits that are reached.")
@common_options
@pass_fleet
def list_limits(fleet: Context, reached: bool) -> None:
    """List the counters of limits, the last used first: how much of each is used, whose it is, and when it is free again."""
    import msgspec

    from workers.cli.formatting import plain, when
    from workers.memory.counters import read_counters

    found = fleet.run(lambda connections: read_counters(connections, fleet.keys()))
    shown = [counter for counter in found if counter.is_reached or not reached]
    if fleet.json:
        fleet.data(msgspec.to_builtins(shown))
        return
    if not shown:
        fleet.say("no limit is reached" if reached else "no call has counted for a limit")
        return
    rows = [
        (
            plain(counter.hook),
            f"{counter.count} of {counter.most:g}",
            plain(counter.limit),
            plain(f"{counter.scope} {counter.whose}".strip()),
            when(counter.free_at) if counter.free_at else "not before it is reset" if counter.is_reached else "-",
            when(counter.last),
            plain(counter.layer),
        )
        for counter in shown
    ]
    fleet.table(_COLUMNS, rows)


def _is_for(counter: LimitCounter, whose: str) -> bool:
    """Whether a counter is for this session (also by the beginning of its id), agent, user or host."""
    by_start = counter.scope == "session" and len(whose) >= _SHORTEST
    return any(name == whose or (by_start and name.startswith(whose)) for name in counter.names)


@limits.command("reset")
@click.argument("rule", required=False)
@click.option(
    "--whose",
    default="",
    metavar="NAME",
    help="Only of this session (its id, or how it begins), agent, user or host.",
)
@click.option("--all", "every", is_flag=True, help="Every counter of every rule.")
@common_options
@pass_fleet
def reset(fleet: Context, rule: str | None, whose: str, every: bool) -> None:
    """Set the counters of a rule to nothing, so that its next calls fit; only a person may do it.

    \b
    fleethook limits reset not-too-fast
    fleethook limits reset not-too-fast --whose 3f1c2a
    """
    from bus.errors import NotFound
    from workers.memory.counters import read_counters, reset_counters
    from workers.runtime.wording import counted

    if bool(rule) == every:
        raise click.UsageError("name a rule, or --all for every rule")
    fleet.require_person("limits reset", published=True)
    found = fleet.run(lambda connections: read_counters(connections, fleet.keys()))
    chosen = [
        counter
        for counter in found
        if (every or counter.hook == rule) and (whose in {"", counter.source} or _is_for(counter, whose))
    ]
    begun = {name for counter in chosen for name in counter.names if name != whose and name.startswith(whose)}
    if whose and len(begun) > 1 and not any(whose in counter.names for counter in chosen):
        names = ", ".join(sorted(begun)[:5])
        raise click.UsageError(f"several sessions begin with {whose!r}: {names}; write more of it")
    if not chosen:
        raise NotFound(
            f"no counter of {'any rule' if every else repr(rule)}{f' of {whose!r}' if whose else ''} counts anything; "
            "`fleethook limits list` shows them"
        )
    number = fleet.run(lambda connections: reset_counters(connections, fleet.keys(), chosen))
    if fleet.json:
        fleet.data({"reset": number})
    else:
        fleet.say(f"reset {counted(number, 'counter')}")
