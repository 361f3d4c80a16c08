"""Who reported an event: the program that sent it with its version, and the version of the agent where that is known."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bus import __version__
from bus.events import Event

_BY: Final = re.compile(r"[a-z-]{1,24}/[0-9A-Za-z.+-]{1,32}")
_NUMBER: Final = re.compile(r"\d{1,6}(?:[.-]\d{1,6}){1,3}(?!\d)")
_SAID_IN: Final = ("cursor_version", "clineVersion")
"""The fields of agents' own payloads that have the agent's version."""


class Reporter(NamedTuple):
    """The sender of a stream entry; its fields are empty if they are not known."""

    by: str = ""
    """`hook-command/0.1.0`, `opencode-plugin/0.1.0`, `gateway/0.1.0` or `python/0.1.0`."""
    version: str = ""
    """The agent's version, from the environment that it gives its hooks."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a stream entry that name it (the hook command writes the same fields)."""
        return (*(("by", self.by) if self.by else ()), *(("version", self.version) if self.version else ()))


UNKNOWN_REPORTER: Final = Reporter()


def reporter(program: str) -> str:
    """What a program of this package says in the field `by`."""
    return f"{program}/{__version__}"


@lru_cache(256)
def read_reporter(by: str, version: str) -> Reporter:
    """The sender in those fields; what has another form counts as unknown, since anybody may write it."""
    return Reporter(by if _BY.fullmatch(by) else "", _number(version)) if by or version else UNKNOWN_REPORTER


def agent_version(event: Event, sender: Reporter) -> str:
    """The version of the agent of an event, from its payload or its sender; empty if neither says it."""
    said: dict[str, Any] = event.raw or event.data
    found = next((said[name] for name in _SAID_IN if isinstance(said.get(name), str)), "")
    return _number(found) or sender.version


def _number(text: str) -> str:
    found = _NUMBER.search(text[:64])
    return found[0].replace("-", ".") if found else ""
