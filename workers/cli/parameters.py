"""The types of options and arguments that several commands share, and the words for wrong ones (exit code 2)."""

from __future__ import annotations

import re
from typing import IO, Any, Final

import click

from bus.errors import ConfigError


class Duration(click.ParamType[float]):
    """Seconds, or a time such as 90s, 12h or 14d; gives seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; a usage error for anything else."""
        from bus.config.settings import parse_setting

        try:
            return float(parse_setting("events_max_age", value))
        except ConfigError:
            self.fail(f"{value!r} is no time; write seconds, or e.g. 90s, 12h or 14d", param, ctx)


class TimeParam(click.ParamType[int]):
    """Converts a time to ms since 1970: `now`, a time ago (90s, 12h, 7d), or a date with or without a time of day."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The milliseconds; a usage error for anything else."""
        from workers.records.moments import parse_moment

        try:
            return parse_moment(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class ConditionParam(click.ParamType[str]):
    """A CEL condition; gives its text."""

    name = "CEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error that names the place of a mistake, or a field that no event has."""
        text = str(value)
        if not text:
            return text
        from workers.admin.hook_findings import check_condition

        try:
            check_condition(text)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return text


class PatternParam(click.ParamType[str]):
    """An event pattern such as `tool:pre_execute` or `tool:*`; gives its text."""

    name = "PATTERN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error with similar event types for a mistyped one."""
        from bus.matching.patterns import parse_pattern

        try:
            parse_pattern(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class EventFile(click.File):
    """A file with events, or `-` for stdin."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> IO[Any]:
        """The open file; a usage error that says how to pass an event that was written in the place of a file."""
        if isinstance(value, str) and value.lstrip().startswith("{"):
            command = ctx.command_path if ctx is not None else "fleethook publish"
            self.fail(f"this is an event and no file: pipe it, as in `echo '…' | {command}`", param, ctx)
        opened: IO[Any] = super().convert(value, param, ctx)
        return opened


DURATION: Final = Duration()
MOMENT: Final = TimeParam()
CONDITION: Final = ConditionParam()
PATTERN: Final = PatternParam()
EVENT_FILE: Final = EventFile("rb")

_SEVERAL_MEANT: Final = re.compile(r"\. \(Did you mean one of: (.+)\?\)$")
_ONE_MEANT: Final = re.compile(r"\. Did you mean '(.+)'\?$")
_NO_NUMBER: Final = re.compile(r" is not a valid integer( range)?\b")


def usage_text(error: click.UsageError) -> str:
    """The message of a usage error on one line, with the choices that are similar to a mistyped one."""
    text = " ".join(error.format_message().split()).rstrip(".")
    text = _SEVERAL_MEANT.sub(
        lambda found: f"; did you mean {found[1].replace(', ', ' or ').replace(chr(39), '')}?", text
    )
    text = _ONE_MEANT.sub(r"; did you mean \1?", text)
    return _NO_NUMBER.sub(" is no whole number", text) + _similar_choices(error)


def _similar_choices(error: click.UsageError) -> str:
    """The choices that are similar to a mistyped one, as the end of a sentence; empty if there are none."""
    parameter = error.param if isinstance(error, click.BadParameter) else None
    mistyped = re.match(r"'(.+?)' is not one of ", error.message)
    if parameter is None or mistyped is None or not isinstance(parameter.type, click.Choice):
        return ""
    import difflib

    near = difflib.get_close_matches(
        mistyped[1].lower(), [str(choice) for choice in parameter.type.choices], n=3, cutoff=0.5
    )
    return f"; did you mean {' or '.join(near)}?" if near else ""
