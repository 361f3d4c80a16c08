"""What a command says: data on stdout, messages on stderr, colour and width only where a person looks."""

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

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What an event's data could steer a terminal with, or show a text in another order; line break and tab stay."""

_COLOURED: Final = re.compile(r"\x1b\[(?:0|3[1-6]|9[0-6])m|" + _CONTROL.pattern)
"""The same, or a colour of ours: of all sequences these can neither hide a text nor move it."""

_AGENTS: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CI")
"""Variables that say: nobody sits in front of this terminal."""


class ReaderGone(FleethookError):
    """Whoever read our output has closed it: no error, but a reason to stop. Click would make exit code 1 of it."""


def printable(text: str, *, colour: bool = False) -> str:
    """The text with every control character written out, so that data cannot steer the terminal.

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
    """Whether to colour what goes to `stream`: a flag, else NO_COLOR, FORCE_COLOR, else whether it is a terminal."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def interactive() -> bool:
    """Whether a person can be asked: a terminal on both sides, and no agent or CI that runs us."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not any(os.environ.get(name) for name in _AGENTS)


def say(text: str, *, colour: bool = False) -> None:
    """A message for people, on stderr; `text` may be coloured already where `colour` is true."""
    with contextlib.suppress(BrokenPipeError):  # nobody reads the messages: the work goes on
        click.echo(_bytes(printable(text, colour=colour)), err=True, color=True)


def write(text: str, *, colour: bool = False) -> None:
    """Text as data, on stdout, with a line break at its end."""
    _echo(printable(text, colour=colour))


def write_json(value: object, *, indent: bool = False) -> None:
    """A value as JSON on stdout, in one line or indented; structs, dataclasses, bytes and paths as plain data."""
    _echo(to_json(value, indent=indent))


def to_json(value: object, *, indent: bool = False) -> str:
    """JSON text; what JSON does not know becomes plain data, else its text."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=2 if indent else None, default=_plain)


def _echo(text: str) -> None:
    try:
        click.echo(_bytes(text), color=True)
    except BrokenPipeError:
        raise ReaderGone("nobody reads stdout any more") from None


def _bytes(text: str) -> bytes:
    """UTF-8 whatever the locale says; a lone surrogate becomes the escape that JSON also knows."""
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
    """A function that colours a text, or leaves it as it is; either way data in it cannot steer the terminal."""

    def style(text: str, name: Colour) -> str:
        return click.style(printable(text), fg=name) if colour else printable(text)

    return style
