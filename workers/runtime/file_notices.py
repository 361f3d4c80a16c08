"""Notifies people of hook files that are not in force: one event for each content, and one note in each session."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from bus.agents import find
from bus.errors import FleethookError, Unreachable
from bus.events import PRE_TOOL, SOURCES, Event, EventType
from bus.hooksets.files_in_force import Rejected
from bus.hooksets.guard_changes import report
from bus.hooksets.guard_presence import NO_GUARD, has_guard, no_guard_for, was_guarded
from bus.hooksets.guard_watch import GuardWatch
from bus.hooksets.in_force import HookSet, Watcher
from bus.ids import host_name
from bus.requests import Request, is_canonical
from bus.secrets.redaction import redact_text
from bus.verdicts import Verdict
from bus.wire.announcements import announce
from bus.wire.connections import Connections
from bus.wire.keys import DAY, Keys

log = logging.getLogger("fleethook.hooks")

_MOST_KNOWN: Final = 4096
_MOST_PROBLEMS: Final = 20


class FileNotices:
    """Publishes each event and adds each note once: this object keeps what it has published, Redis what others have."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections, self._keys = connections, keys
        self._announced: set[tuple[str, str]] = set()
        self._guarded: WeakKeyDictionary[HookSet, dict[str, str]] = WeakKeyDictionary()
        """The warning for each hook set and agent; empty if a guard is in force."""
        self._noted: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def publish(self, watcher: Watcher) -> None:
        """Publish what is new about this machine's files: contents that are not in force, and guards that became weaker."""
        await self.publish_rejected(watcher.rejected())
        await self.publish_guard_changes(watcher.guards)

    async def publish_rejected(self, rejected: tuple[Rejected, ...]) -> None:
        """Publish `hooks:rejected` for each rejected content of a file; raises Unreachable."""
        for content in rejected:
            name = (content.path, content.digest)
            if name in self._announced:
                continue
            host, first = host_name(), content.problems[0]
            data = {
                "file": first.file or content.path,
                "line": first.line,
                "column": first.column,
                "reason": redact_text(content.text),
                "problems": [redact_text(str(problem)) for problem in content.problems[:_MOST_PROBLEMS]],
            }
            kind = EventType.HOOKS_REJECTED.value
            await announce(
                self._connections, self._keys, kind, data, host=host, about=f"{host}\n{content.path}\n{content.digest}"
            )
            self._announced.add(name)

    async def publish_guard_changes(self, guards: GuardWatch) -> None:
        """Publish `guard:changed` for each change that weakened guards, and save the guards in force; raises Unreachable."""
        while guards.weakened:
            await report(self._connections, self._keys, guards.weakened[0])
            guards.weakened.pop(0)
        guards.keep()

    async def add_notes(self, request: Request, event: Event, verdict: Verdict, in_force: HookSet) -> Verdict:
        """The verdict with the files that are not in force, and a note about each file that is new to the session's user.

        If no guard protects the session, there is a note too.
        """
        missing = self._missing_guard(event.source, in_force, verdict) if event.type in PRE_TOOL else ""
        if not missing and not in_force.waiting and not verdict.waiting:
            return verdict
        waiting = tuple(dict.fromkeys((*in_force.waiting, *verdict.waiting)))
        warnings = (missing,) if missing else ()
        new = [text for text in (*waiting, *warnings) if not await self._was_noted(request, event, text)]
        return msgspec.structs.replace(verdict, waiting=waiting, notes=(*verdict.notes, *new))

    def _missing_guard(self, agent: str, in_force: HookSet, verdict: Verdict) -> str:
        """The warning if no guard took part in this verdict and none in force fits any call of this agent; else empty."""
        if was_guarded(verdict):
            return ""
        known = self._guarded.setdefault(in_force, {})
        if agent not in known:
            hooks = in_force.hooks.values()
            named = agent in SOURCES
            if has_guard(hooks, agent if named else ""):
                known[agent] = ""
            else:
                known[agent] = no_guard_for([agent]) if named and has_guard(hooks) else NO_GUARD
        return known[agent]

    async def _was_noted(self, request: Request, event: Event, text: str) -> bool:
        if not (is_canonical(request) or _carries_notes(request.source, request.native)):
            return True  # noted at the next event that can carry it
        if not event.session:
            return False
        session = hashlib.sha256(
            f"{event.source}\n{event.host}\n{event.session}".encode("utf-8", "replace")
        ).hexdigest()
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        if (session, digest) in self._noted:
            return True
        key = self._keys("told", session[:32])
        try:
            with self._connections.lease() as connection:
                added, _ = await connection.exchange([("HSETNX", key, digest, "1"), ("PEXPIRE", key, DAY)])
        except Unreachable as error:
            log.warning("cannot check whether the session has this note already: %s", error)
            return False
        self._noted[session, digest] = None
        if len(self._noted) > _MOST_KNOWN:
            self._noted.popitem(last=False)
        return bool(added == 0)


@lru_cache(1024)
def _carries_notes(source: str, native: str) -> bool:
    """Whether an agent's event has a form for a message to its user."""
    dialect = find(source)
    try:
        return dialect.render(native, Verdict(notes=("note",))) != dialect.render(native, Verdict())
    except FleethookError:
        return False
