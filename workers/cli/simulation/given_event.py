"""The event that a command is about: of a file, of stdin, or a recorded one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workers.cli.common import Context

if TYPE_CHECKING:  # every command imports what it needs itself, so that `--help` stays fast
    from bus.events import Event


def given_event(fleet: Context, given: str, *, source: str, kind: str, cwd: Path) -> Event:
    """The event in a file, or in stdin if `given` is `-`, or the recorded one with this id."""
    if given != "-" and not Path(given).exists() and not given.endswith(".json") and "/" not in given:
        from workers.records.stored_events import stored_event

        return fleet.run(lambda connections: stored_event(connections, fleet.keys(), given))[0]
    return file_event(fleet, given, source=source, kind=kind, cwd=cwd)


def file_event(fleet: Context, given: str, *, source: str, kind: str, cwd: Path) -> Event:
    """The event in a file, or in stdin if `given` is `-`: Fleethook's own form, or an agent's payload."""
    from bus.errors import DecodeError
    from workers.admin.dry_run import payload_source, read_event

    try:
        raw = sys.stdin.buffer.read() if given == "-" else Path(given).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{given}: {error.strerror}; name a file, - or an event's id") from error
    if not source:
        source = payload_source(raw)
        if source != "generic":
            fleet.say(f"read as a payload of {source}; --source names another agent")
    try:
        return read_event(raw, source=source, kind=kind, cwd=cwd)
    except DecodeError as error:
        where = "stdin" if given == "-" else given
        raise DecodeError(f"{where} is no event: {error}") from error
