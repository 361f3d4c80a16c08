"""Whether a command names one of Fleethook's own processes by its number: `kill 4711`, `gdb -p 4711`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.own_places import own_places
from bus.matching.paths import Place

_NUMBER: Final = lazy_regex(r"(?:--?\w+=|-p|/pid:)?-?([1-9]\d{0,9})", re.IGNORECASE)
_MOST: Final = 32
_MARK: Final = "\0process"
"""Ends the key of a look-up. No path has its first character, so the key is never taken for a path."""
_OWN: Final = "own"
_STARTED: Final = lazy_regex(r"(?:.*/)?fleethook(?:\.exe)?")
_SOCKET: Final = lazy_regex(r".*/fleethook(?:-\d+)?/(?:.*/)?redis\.sock")


def names_own_process(words: Sequence[str], place: Place) -> bool:
    """Whether one of the words is the number of a process of Fleethook's.

    It is known only on the event's own host, and only on Linux, where `/proc` lists the processes.
    """
    if not place.here:
        return False
    found = [match[1] for word in words[:_MOST] if (match := _NUMBER.fullmatch(word))]
    return any(_look(f"{number}{_MARK}", place) == _OWN for number in found)


def _look(key: str, place: Place) -> str:
    return _read(key) if place.disk is None else place.disk.look_up(key, _read)


def _read(key: str) -> str:
    folder = Path("/proc") / key.removesuffix(_MARK)
    try:
        name = (folder / "comm").read_text("utf-8", "replace").strip()
        words = (folder / "cmdline").read_text("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return _OWN if name == "fleethook" or name.startswith("fh-") or _is_own(words) else ""


def _is_own(words: Sequence[str]) -> bool:
    """Whether a process was started as `fleethook`, as its module, or with the socket of its server."""
    started = words[:3]
    if any(_STARTED.fullmatch(word) for word in started) or "workers" in started or "workers.cli" in started:
        return True
    sockets = [word.rpartition(":")[2] for word in words[1:] if word.endswith(".sock")]
    return any(_SOCKET.fullmatch(name) or own_places().contain(name) for name in sockets)
