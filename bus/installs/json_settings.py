"""The format of most agents: a JSON file with `hooks` by event, in matcher groups or in a plain list."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from bus.agents import find
from bus.config.edit_json import read_text, rewrite, write_new
from bus.errors import ConfigError
from bus.installs import hook_entries, http_hooks
from bus.installs.base import InstalledCommand, never_events
from bus.installs.hook_command import Setup, closed_events, granted_timeout, hook_command, is_closed, without_later
from bus.installs.http_hooks import HttpForm

ASYNC: Final = "async"
"""The key of a handler that the agent does not wait for."""


class SettingsHook(NamedTuple):
    """One hook of ours, from which an agent's entry is made."""

    event: str
    command: str
    timeout: int
    """In the agent's own unit."""
    closed: bool
    http: Mapping[str, Any] | None = None
    """The whole handler, for a hook of type `http`."""
    later: bool = False
    """The agent does not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonHooks:
    """An agent's JSON file; all characters outside of our entries stay as they are."""

    agent: str
    entry: Callable[[SettingsHook], dict[str, Any]]
    """Makes the entry of one event: a matcher group, or the handler itself."""
    unit: Literal["s", "ms"] = "s"
    timeout: str = "timeout"
    """The handler's key for the timeout; empty if the agent has none."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """Other fields that the file needs beside the hooks."""
    comments: bool = False
    """The agent accepts comments in it."""
    deaf: frozenset[str] = frozenset()
    """The gates at which exit code 2 does not block."""
    http: HttpForm | None = None
    """The capabilities of the agent's hooks of type `http`; None if it has no such hooks."""
    only: frozenset[str] = frozenset()
    """The top-level names that the agent accepts; any other makes it refuse the whole file. Empty: it accepts any."""

    @property
    def mode(self) -> int:
        """The mode of a new file."""
        return 0o644

    @property
    def whole(self) -> bool:
        """False: other programs have hooks in this file too."""
        return False

    def files(self, place: Path) -> tuple[Path, ...]:
        """The one file."""
        return (place,)

    def written(self, path: Path, before: bytes | None, setup: Setup) -> bytes | None:
        """The file with our entries for these events, in the place of earlier entries of ours or at the end."""
        text, settings = self._read(path, before) if before is not None else ("", {})
        strange = [name for name in settings if self.only and name not in self.only]
        if strange:
            raise ConfigError(
                f"the name {strange[0]!r} makes {find(self.agent).name} refuse the whole file",
                file=str(path),
                path=strange[0],
                hint="take it out; nothing was changed",
            )
        section = {event: [self.entry(self._hook(event, setup))] for event in self._events(setup)}
        missing = {name: value for name, value in self.base.items() if name not in settings} if section else {}
        wanted = hook_entries.merged({**missing, **settings}, section, str(path))
        if before is None:
            return write_new(wanted).encode() if section else None
        return _encoded(rewrite(text, wanted), before)

    def cleaned(self, path: Path, current: bytes, original: bytes | None, *, created: bool) -> bytes | None:
        """The file without our entries, and without containers that become empty."""
        text, settings = self._read(path, current)
        kept = self._read(path, original)[1] if original is not None else {}
        wanted = hook_entries.without(settings, kept, str(path))
        if created and wanted in ({}, dict(self.base)):
            return None
        return _encoded(rewrite(text, wanted), current)

    def calls(self, path: Path, raw: bytes) -> tuple[InstalledCommand, ...]:
        """Our commands with their events; none in a file that cannot be read."""
        try:
            settings = self._read(path, raw)[1]
        except ConfigError:
            return ()
        found = []
        for event, _, _, handler in hook_entries.handlers(settings):
            command, entry = hook_entries.command_of(handler), http_hooks.read_handler(handler)
            if command:
                seconds = _seconds(handler.get(self.timeout), 1000 if self.unit == "ms" else 1)
                later = handler.get(ASYNC) is True
                found.append(InstalledCommand(event, command, seconds, is_closed(command), later=later))
            elif entry is not None:
                seconds = _seconds(handler.get(self.http.timeout if self.http else self.timeout), 1)
                found.append(
                    InstalledCommand(event, "", seconds, entry.closed, entry.url, entry.hooks, not entry.blocks)
                )
        return tuple(found)

    def waiting(self, path: Path, raw: bytes, events: Collection[str]) -> bytes:
        """The file in which the agent waits for our commands at these events; everything else stays as it is."""
        text, settings = self._read(path, raw)
        wanted = copy.deepcopy(settings)
        for event, _, _, handler in hook_entries.handlers(wanted):
            if event in events and hook_entries.command_of(handler):
                handler.pop(ASYNC, None)
                handler["command"] = without_later(hook_entries.command_of(handler))
        return _encoded(rewrite(text, wanted), raw)

    def _events(self, setup: Setup) -> list[str]:
        never = never_events(self.agent)
        return [event for event in setup.events if event not in never]

    def _hook(self, event: str, setup: Setup) -> SettingsHook:
        dialect = find(self.agent)
        seconds = granted_timeout(self.agent, dialect.capabilities[event], setup.budget)
        timeout = math.ceil(seconds * (1000 if self.unit == "ms" else 1))
        closed = event in closed_events(dialect, setup)
        if setup.http is not None:
            form = http_hooks.require_usable(self.agent, self.http, setup.http)
            if event not in form.stay:
                most = math.ceil(seconds)
                handler = http_hooks.handler(form, setup.http, self.agent, event, most, closed=closed)
                return SettingsHook(event, "", most, closed, handler)
        command = hook_command(setup, self.agent, event, deaf=event in self.deaf)
        return SettingsHook(event, command, timeout, closed, later=not closed and event in setup.later)

    def _read(self, path: Path, raw: bytes) -> tuple[str, dict[str, Any]]:
        return read_text(raw, file=str(path), comments=self.comments)


def _seconds(given: object, units: int) -> float:
    """A timeout in seconds; 0 if the handler has none."""
    return float(given) / units if isinstance(given, (int, float)) and not isinstance(given, bool) else 0.0


def _encoded(text: str, like: bytes) -> bytes:
    mark = b"\xef\xbb\xbf" if like.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")
