"""Options of the commands on deliveries and dead letters: filters, bulk options, times and rates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from workers.cli.parameters import MOMENT

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from workers.delivery.filters import Filter

F = TypeVar("F", bound=Callable[..., Any])
Command = Callable[..., None]

STATES: Final = ("ready", "running", "due", "parked", "delivered", "dead")
_PER: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class RateParam(click.ParamType[float]):
    """Converts a rate (50, 50/s, 600/m; 0 for no limit) to a number a second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number a second; a usage error for anything else."""
        number, _, unit = str(value).partition("/")
        try:
            rate = float(number) / _PER[unit or "s"]
        except (ValueError, KeyError):
            rate = -1.0
        if not 0 <= rate < 1e9:
            self.fail(f"{value!r} is no rate; write e.g. 50/s, 600/m, or 0 for no limit", param, ctx)
        return rate


RATE: Final = RateParam()


def delivery_filters(function: F) -> F:
    """The filters of dead letters, `--state`, `--status` and `--payload`."""
    return _with(
        function,
        click.option(
            "--state",
            "states",
            type=click.Choice(STATES),
            multiple=True,
            help="In this state; repeatable.",
        ),
        click.option("--status", default="", metavar="CODE", help="With this status of the last attempt: 503, 5xx."),
        click.option(
            "--payload",
            default="",
            metavar="TEXT",
            help="With this text in a body that was sent, where these are recorded (Gobby's log_deliveries).",
        ),
        *_common("made"),
    )


def letter_filters(function: F) -> F:
    """`--endpoint`, `--event`, `--type`, `--session`, `--reason`, `--target`, `--since` and `--until`."""
    return _with(function, *_common("given up"))


def read_filter(options: dict[str, Any], ids: tuple[str, ...] = ()) -> Filter:
    """The filter that the options of a command describe."""
    from workers.delivery.filters import Filter

    return Filter(ids=ids, **{name: value for name, value in options.items() if value})


@dataclass(frozen=True)
class BulkRequest:
    """The arguments of a command that works on many deliveries or dead letters."""

    filter: Filter
    """The ids from the command line, and the conditions of the filter options."""
    everything: bool
    dry_run: bool
    follow: bool
    yes: bool

    def require_choice(self, examples: str) -> None:
        """A usage error unless there are either ids, or `--all`, or filters; `examples` names some of the filters."""
        described = self.everything or self.filter != read_filter({}, self.filter.ids)
        if bool(self.filter.ids) == described:
            raise click.UsageError(f"say ids, or --all, or filters such as {examples}")


def bulk_options(filters: Callable[[Command], Command], all_help: str) -> Callable[[Command], Command]:
    """`[ID]...`, `--all`, `--dry-run`, `--follow`, `--yes` and the filters, as one argument `bulk`."""

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(
            *,
            ids: tuple[str, ...],
            everything: bool,
            dry_run: bool,
            follow: bool,
            yes: bool,
            **options: Any,
        ) -> None:
            wanted = read_filter(options, ids)
            function(bulk=BulkRequest(wanted, everything=everything, dry_run=dry_run, follow=follow, yes=yes))

        bulk_command: Command = command
        return _with(
            bulk_command,
            click.argument("ids", nargs=-1, metavar="[ID]..."),
            click.option("--all", "everything", is_flag=True, help=all_help),
            filters,
            click.option("--dry-run", is_flag=True, help="Count them, and do nothing."),
            click.option("--follow", is_flag=True, help="If this becomes a job, wait until it ends."),
            click.option("--yes", is_flag=True, help="Do not ask."),
        )

    return decorate


def _common(done: str) -> tuple[Callable[[F], F], ...]:
    return (
        click.option("--endpoint", default="", metavar="ID", help="Of this endpoint (or hook)."),
        click.option(
            "--target", default="", metavar="TEXT", help="With this text in the target: endpoint:log, hook:lint."
        ),
        click.option("--event", default="", metavar="ID", help="Of this event, by its id or a prefix of it."),
        click.option(
            "--type",
            "types",
            metavar="PATTERN",
            multiple=True,
            help="Of events of this type: tool:pre_execute, tool:*.",
        ),
        click.option("--session", default="", metavar="ID", help="Of this session, by its id or a prefix of it."),
        click.option("--reason", default="", metavar="TEXT", help="With this text in the reason."),
        click.option(
            "--since", type=MOMENT, metavar="TIME", help=f"{done.capitalize()} since then: 12h (ago), 2026-11-21."
        ),
        click.option("--until", type=MOMENT, metavar="TIME", help=f"{done.capitalize()} until then."),
    )


def _with(function: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        function = option(function)
    return function
