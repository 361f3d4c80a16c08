"""Lets agents wait again for a hook command whose answer a hook that is now in force needs.

`fleethook install` lets an agent go on at events that are only announced, by the hooks in force then. A worker of each host
looks whether that still holds, and changes the agent's settings where it does not. The other way round is left to an install.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from bus.errors import FleethookError
from bus.hooksets.in_force import HookSet, Watcher
from bus.installs import find
from bus.installs.base import NAMES
from bus.installs.manifest import MANIFEST, apply, read, records
from bus.installs.plan import waits_again
from bus.system.directories import Directories, make_private
from workers.coverage.answers_needed import answers_needed, sets_here

log = logging.getLogger("fleethook.coverage")

_LOOK_SECONDS: Final = 1.0
LOCK: Final = "waiting.lock"
"""The file in the state directory that a process locks which lets agents wait."""


class NotWaitedFor(NamedTuple):
    """A file in which an agent does not wait for commands whose answers are needed."""

    agent: str
    path: Path
    why: dict[str, str]
    """By event: the hook that needs its answer, and why."""


def unanswered(sets: list[HookSet], state: Path) -> list[NotWaitedFor]:
    """The files that installs wrote whose announced events need an answer by these hooks; raises ConfigError."""
    found = []
    for path, record in records(state).items():
        raw = read(path) if record.agent in NAMES and find(record.agent).later else None
        if raw is None:
            continue
        later = [call.event for call in find(record.agent).form.calls(path, raw) if call.later]
        if later and (why := answers_needed(sets, record.agent, later)):
            found.append(NotWaitedFor(record.agent, path, why))
    return found


def is_watched(places: Directories) -> bool:
    """Whether a process lets the agents wait that installs with these folders have connected."""
    try:
        with (places.state / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nothing has ever watched here
        return False
    return False


async def keep_waiting(watcher: Watcher, places: Directories) -> None:
    """Let agents wait where answers are needed, for good; of several processes one does it. Ends only when it is cancelled."""
    make_private(places.state)
    with (places.state / LOCK).open("ab") as lock:
        seen: tuple[object, ...] = ()
        manifest, mine = places.state / MANIFEST, False
        while True:
            mine = mine or _locked(lock)
            try:
                sets = sets_here(watcher, places.trust_file)
                now = (*sets, manifest.stat().st_mtime_ns if manifest.exists() else 0)
                if mine and now != seen:
                    await asyncio.to_thread(wait_where_needed, sets, places)
                    seen = now
            except (FleethookError, OSError) as error:
                log.warning("whether agents wait where a hook needs it is not known: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)


def _locked(lock: BinaryIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_where_needed(sets: list[HookSet], places: Directories) -> list[NotWaitedFor]:
    """Let agents wait where answers are needed, and return what was changed; raises ConfigError."""
    found = unanswered(sets, places.state)
    for one in found:
        apply(waits_again(one.agent, one.path, one.why.keys()), places.state)
        reasons = ", ".join(f"{event} ({why})" for event, why in one.why.items())
        log.warning("%s: %s waits for the hook command from now on at %s", one.path, find(one.agent).label, reasons)
    return found
