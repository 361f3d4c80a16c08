"""The output of commands: data on stdout, messages on stderr, colours and fitted widths only on a terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Callable
from typing import IO, Any, Final, Literal

import click

from bus.errors import FleethookError
from bus.lazy.regex import lazy_regex

Colour = Literal[
    "green",
    "yellow",
    "red",
    "cyan",
    "blue",
    "magenta",
    "bright_black",
    "bright_cyan",
    "bright_blue",
    "bright_magenta",
]

_CONTROL: Final = lazy_regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that could control a terminal or reverse the order of a text; line break and tab are not among them."""

_COLOURED: Final = lazy_regex(r"\x1b\[(?:0|3[1-6]|9[0-6])m|" + _CONTROL.pattern)
"""Those characters, or one of our own colour sequences, which can neither hide nor move a text."""

_COMMAND: Final = lazy_regex(r"`[^`\n]+`")

_AGENTS: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CI")
"""Variables that mean that no person sits at this terminal."""


class ReaderGone(FleethookError):
    """The reader of our output has closed it: a reason to stop, and no error. (Click would exit with code 1.)"""


def printable(text: str, *, colour: bool = False) -> str:
    """The text with every control character written out, so that data cannot control the terminal.

    With `colour` the colours that a styler gives stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_COLOURED if colour else _CONTROL).sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    if len(found[0]) > 1:
        return found[0]
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def colours(stream: IO[Any], wanted: bool | None = None) -> bool:
    """Whether to use colours on `stream`: by the flag, else by NO_COLOR or FORCE_COLOR, else if it is a terminal."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def interactive() -> bool:
    """Whether a person can be asked: stdin and stderr are terminals, and no agent or CI runs this command."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not any(os.environ.get(name) for name in _AGENTS)


def say(text: str, *, colour: bool = False) -> None:
    """Print a message for people on stderr, on a terminal in lines of its width; with `colour`, colours in `text` are kept."""
    shown = printable(text, colour=colour)
    if sys.stderr.isatty():
        shown = _wrapped(shown)
    with contextlib.suppress(BrokenPipeError):  # the reader has closed stderr; the work goes on
        click.echo(_bytes(shown), err=True, color=True)


def _wrapped(text: str) -> str:
    """The text in lines of the terminal's width; words, and commands in backquotes that fit into one line, stay whole."""
    import shutil

    width = shutil.get_terminal_size().columns
    if all(len(line) <= width and line.isascii() for line in text.split("\n")):
        return text
    from workers.cli.screens.line_wrap import wrap

    whole = _COMMAND.sub(lambda found: found[0].replace(" ", "\0") if len(found[0]) < width - 4 else found[0], text)
    return "\n".join(wrap(line, width) for line in whole.split("\n")).replace("\0", " ")


def write(text: str, *, colour: bool = False) -> None:
    """Print text as data on stdout, with a line break at its end."""
    _echo(printable(text, colour=colour))


def write_json(value: object, *, indent: bool = False) -> None:
    """Print a value as JSON on stdout, on one line or indented; structs, dataclasses, bytes and paths become plain data."""
    _echo(to_json(value, indent=indent))


def to_json(value: object, *, indent: bool = False) -> str:
    """JSON text; values that JSON does not know become plain data, or else their `str`."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=2 if indent else None, default=_plain)


def _echo(text: str) -> None:
    try:
        click.echo(_bytes(text), color=True)
    except BrokenPipeError:
        raise ReaderGone("the reader of stdout has closed it") from None


def _bytes(text: str) -> bytes:
    """Encode as UTF-8 in every locale; a lone surrogate becomes its escape as in JSON."""
    return text.encode("utf-8", "backslashreplace")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if hasattr(value, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value, builtin_types=(bytes,))
    return str(value)


Styler = Callable[[str, Colour], str]


def styler(colour: bool) -> Styler:
    """A function that colours a text, or leaves it as it is; either way, data in it cannot control the terminal."""

    def style(text: str, name: Colour) -> str:
        return click.style(printable(text), fg=name) if colour else printable(text)

    return style
