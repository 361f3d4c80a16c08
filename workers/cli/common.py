"""Shared by all commands: settings, server connections, output, and exit codes.

0 ok   1 findings, or refused   2 wrong usage   3 server unreachable   4 invalid configuration   5 partly done   130 interrupted
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

import click

from bus.errors import (
    ConfigError,
    DecodeError,
    FleethookError,
    NoEvaluator,
    RequestTimeout,
    ServerError,
    Unreachable,
)
from workers.cli.output import (
    Colour,
    ReaderGone,
    Styler,
    colours,
    interactive,
    printable,
    say,
    styler,
    to_json,
    write,
    write_json,
)

if TYPE_CHECKING:  # each costs 20 to 150 ms, and `fleethook --help` needs none of them
    from pathlib import Path

    from bus.config.settings import Settings
    from bus.hooksets.settings_files import LoadedSettings
    from bus.system.calling_agent import CallingAgent
    from bus.system.directories import Directories
    from bus.wire.acl import Role
    from bus.wire.connections import Connections
    from bus.wire.keys import Keys
    from workers.cli.screens.columns import Column

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

COMPLETION_VARIABLE: Final = "_FLEETHOOK_COMPLETE"
"""Set by the completion script of a shell while it asks for completions (click's convention)."""

_CLEARLY: Final = 0.1
"""How much less alike than the nearest command another one may be, to be suggested beside it."""

HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CheckFailed(FleethookError):
    """A check found something: exit code 1; the text is empty if the output has the findings already."""


class PartlyDone(FleethookError):
    """A part of the work was not done: exit code 5; the text says which part."""


class Lazy(NamedTuple):
    """A subcommand that is imported on use: `module:attribute`, its help in one line, the section of the help page."""

    target: str
    help: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group that suggests similar names for an unknown subcommand, and imports those in `lazy` on use."""

    prepare: ClassVar[Callable[[click.Command, click.Context], click.Command]] = staticmethod(
        lambda command, _: command
    )
    """Applied to each command before its use; `completion` sets it, so that a shell can complete the command's values."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", HELP)
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, lazy ones first, in the order of their table."""
        return [*self.lazy, *(name for name in super().list_commands(ctx) if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now if it is lazy."""
        if cmd_name not in self.commands and cmd_name in self.lazy:
            module, _, attribute = self.lazy[cmd_name].target.partition(":")
            self.commands[cmd_name] = getattr(importlib.import_module(module), attribute)
        command = super().get_command(ctx, cmd_name)
        return None if command is None else LazyGroup.prepare(command, ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; a usage error that suggests similar names if there is none."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            import difflib

            typed = args[0].lower()
            near = difflib.get_close_matches(typed, self.list_commands(ctx), n=3, cutoff=0.5)
            alike = [difflib.SequenceMatcher(None, name, typed).ratio() for name in near]
            near = [name for name, ratio in zip(near, alike, strict=True) if ratio > alike[0] - _CLEARLY]
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its whole first sentence; a table has them without an import."""
        sections: dict[str, list[tuple[str, str]]] = {}
        if not self.lazy:
            rows = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
            sections["Commands"] = [
                (name, one.get_short_help_str(10_000)) for name, one in rows if one and not one.hidden
            ]
        for name, row in self.lazy.items():
            sections.setdefault(row.section, []).append((name, row.help))
        for title, lines in sections.items():
            with formatter.section(title):
                formatter.write_dl(lines, col_spacing=2)


@dataclass
class Context:
    """The context of a command: the common options, and with them settings, keys, server and output."""

    json: bool = False
    verbose: bool = False
    namespace: str | None = None
    colour: bool | None = None
    """Whether to use colours; None: as NO_COLOR, FORCE_COLOR and the terminal decide."""
    quiet: bool = False
    """Whether the command itself reports the warnings of settings and hooks, so that they are not printed as messages."""
    _warned: set[str] = field(default_factory=set)
    flags: dict[str, object] = field(default_factory=dict)
    """Settings from the command line, by name; set them before the first call of `settings()`."""

    @cached_property
    def _loaded(self) -> LoadedSettings:
        from bus.hooksets.settings_files import load_settings

        found = load_settings({"namespace": self.namespace, **self.flags})
        for warning in () if self.quiet else found.warnings:
            self._warned.add(warning)  # the command itself may have the same to say
            self.say(f"warning: {warning}")
        return found

    @cached_property
    def _directories(self) -> Directories:
        from bus.system.directories import directories

        return directories(create=False)

    def loaded(self) -> LoadedSettings:
        """The settings with their origins; raises ConfigError for a wrong one. Prints warnings once."""
        return self._loaded

    def settings(self) -> Settings:
        """The settings."""
        return self._loaded.settings

    def directories(self) -> Directories:
        """This user's directories; does not create them."""
        return self._directories

    def keys(self) -> Keys:
        """The key names of the namespace."""
        from bus.wire.keys import Keys

        return Keys(self.settings().namespace)

    def url(self, role: Role = "admin") -> str:
        """The bus's URL for a role; it holds a password and must not be shown. Raises Unreachable without a server."""
        from bus.wire.embedded_server import bus_url

        try:
            return bus_url(self.settings(), role, self.directories())
        except Unreachable:
            from workers.admin.agent_setup import agent_only_url

            if not agent_only_url(self.settings(), self.directories()):
                raise
            text = "this machine has agents only: run this where the fleet's workers are, or set FLEETHOOK_REDIS_URL"
            raise Unreachable(f"{text}; `fleethook doctor` checks this machine") from None

    def run(self, work: Callable[[Connections], Awaitable[T]], role: Role = "admin") -> T:
        """Run `work` on an event loop, with connections to the bus that are closed after it; returns its result."""
        import asyncio

        from bus.wire.connections import LOADING_SECONDS, PATIENT_CONNECT_SECONDS, Connections

        async def whole() -> T:
            connections = Connections(self.url(role), connect=PATIENT_CONNECT_SECONDS, loading=LOADING_SECONDS)
            try:
                return await work(connections)
            finally:
                await connections.close()

        return asyncio.run(whole())

    def say(self, text: str) -> None:
        """Print a message for people on stderr."""
        say(text, colour=colours(sys.stderr, self.colour))

    def warn(self, text: str, before: str = "") -> None:
        """Print a warning on stderr, after `before`; the same text is printed once a command, even if it is also logged."""
        if text not in self._warned:
            self._warned.add(text)
            self.say(before + self.style(text, "yellow", err=True))

    def style(self, text: str, colour: Colour, *, err: bool = False) -> str:
        """The text in a colour if the stream (stdout, or stderr with `err`) shows colours."""
        return styler(colours(sys.stderr if err else sys.stdout, self.colour))(text, colour)

    @property
    def plain_style(self) -> Styler:
        """`style` for stdout, as a plain function."""
        return styler(colours(sys.stdout, self.colour))

    def data(self, value: object) -> None:
        """Print the result on stdout: a text as it is, anything else as one JSON object."""
        if isinstance(value, str) and not self.json:
            write(value, colour=colours(sys.stdout, self.colour))
        else:
            write_json(value, indent=sys.stdout.isatty())

    def stream(self, value: object) -> None:
        """Print one record of many on stdout, as a line of JSON."""
        write_json(value)

    def table(
        self,
        columns: Sequence[Column | str],
        rows: Iterable[Sequence[object]],
        *,
        whole: bool = False,
        head: bool = True,
    ) -> None:
        """Print rows on stdout, one line each, fitted to the terminal's width; uncut without a terminal or with `whole`.

        A cell is a `Cell`, or a value without a colour. Of columns given as names, the first is never cut, and the last is
        dropped first. With `head`, the column names are printed above the rows.
        """
        from workers.cli.screens.columns import ENDLESS, as_cells, as_columns, list_lines, terminal_width
        from workers.cli.screens.line_wrap import wrap

        width = terminal_width()
        cells = [as_cells(row) for row in rows]
        lines = [*list_lines(as_columns(columns), cells, self.plain_style, ENDLESS if whole else width)]
        shown = lines[0 if head else 1 :]
        if shown:
            self.data("\n".join(shown if whole or width == ENDLESS else (wrap(line, width) for line in shown)))

    def confirm(self, text: str, yes: bool = False) -> bool:
        """Ask whether to go on; a usage error without `--yes` if there is no terminal to ask on."""
        if yes:
            return True
        if self.json or not interactive():
            raise click.UsageError(f"{text} There is no terminal to ask on: say --yes")
        return click.confirm(text, default=False, err=True)

    def require_person(self, command: str, *touched: Path, published: bool = False) -> CallingAgent | None:
        """Raise PersonNeeded (exit 1) if an agent runs a command that weakens the guards and no person confirms it.

        `touched` are files outside Fleethook's own folders that it changes; `published`: it changes the fleet's set.
        """
        from workers.admin.person import require_person

        places = self.directories()
        own_folders = (places.config, places.data, places.state, places.runtime)
        return require_person(command, touched=(*own_folders, *touched), server=self.url() if published else "")


pass_fleet = click.make_pass_decorator(Context, ensure=True)


def common_options(function: F) -> F:
    """Add `--json` and `--namespace` to a command; their values go into the Context and not into its arguments."""

    def keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def note(ctx: click.Context, _: click.Parameter, value: Any) -> None:
            if value not in {None, False}:
                setattr(ctx.ensure_object(Context), name, value)

        return note

    as_json = click.option(
        "--json", is_flag=True, expose_value=False, callback=keep("json"), help="Machine-readable output."
    )
    namespace = click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        expose_value=False,
        callback=keep("namespace"),
        help="Use the fleet with this name instead of the configured one.",
    )
    return as_json(namespace(function))


def run_command(root: click.Command, argv: Sequence[str] | None = None) -> int:
    """Run one command line; prints errors on stderr and returns the exit code."""
    fleet = Context()
    try:
        result = root.main(
            args=None if argv is None else list(argv), prog_name="fleethook", standalone_mode=False, obj=fleet
        )
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        # The reader of our output has closed it. Without this the interpreter prints an error when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        return 2
    except Exception as error:  # noqa: BLE001 - the last place where it can be put into words
        return _report(error, fleet)
    return result if isinstance(result, int) else 0


def exit_code(error: BaseException) -> int:
    """The exit code of a command that ended with `error`."""
    table: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
        ((click.UsageError, DecodeError), 2),
        ((Unreachable, NoEvaluator, ServerError, RequestTimeout), 3),
        (ConfigError, 4),
        (PartlyDone, 5),
    )
    return next((code for kind, code in table if isinstance(error, kind)), 1)


def error_report(error: BaseException) -> dict[str, Any]:
    """The error as `--json` shows it: kind, code, message and, where known, place and hint; secrets redacted."""
    from bus.secrets.redaction import redact_text

    report: dict[str, Any] = {
        "kind": type(error).__name__,
        "code": exit_code(error),
        "message": redact_text(_text(error)),
    }
    if isinstance(error, ConfigError):
        known = {name: getattr(error, name) for name in ("file", "line", "column", "path", "hint")}
        report |= {name: value for name, value in known.items() if value}
        report["message"] = redact_text(error.message)
    return report


def _report(error: Exception, fleet: Context) -> int:
    from bus.secrets.redaction import redact_text

    code = exit_code(error)
    if isinstance(error, (CheckFailed, PartlyDone)) and not str(error):
        return code
    if fleet.verbose and not isinstance(error, click.ClickException):
        import traceback

        say(redact_text("".join(traceback.format_exception(error)).rstrip()))
    if fleet.json:
        say(to_json({"error": error_report(error)}))
    else:
        word = styler(colours(sys.stderr, fleet.colour))("fleethook:", "red")
        say(f"{word} {printable(redact_text(_text(error)))}", colour=True)
    return code


def _text(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        from workers.cli.parameters import usage_text

        where = f"{error.ctx.command_path} --help" if error.ctx is not None else "fleethook --help"
        text = usage_text(error)
        return f"{text} See `{where}`" if text.endswith("?") else f"{text}; see `{where}`"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, (FleethookError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a bug of fleethook; `fleethook -v …` shows where"
