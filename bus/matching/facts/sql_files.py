"""What the SQL files that a database client reads destroy: `psql -f x.sql`, `cat x.sql | psql`, sqlite3's `.read x.sql`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from bus.lazy.regex import lazy_regex
from bus.matching.facts.kinds import Destroyed
from bus.matching.paths import Place, located
from bus.matching.statements import destroyed
from bus.shell.commands import Command

ENDINGS: Final = (".sql", ".cql", ".psql", ".pgsql", ".ddl", ".tsql", ".plsql", ".hql")
"""How the names of files with SQL end."""
_FILE: Final = lazy_regex(
    r"[^\s'\";,<>|()=]+\.(?:sql|cql|psql|pgsql|ddl|tsql|plsql|hql)(?:\.gz|\.xz|\.bz2|\.zst)?(?![\w.])"
)
_MOST: Final = 8
_LONGEST: Final = 64 * 1024
_MARK: Final = "\0sql"
"""Ends the key of a look-up, so that it is none for a path: no path has such a character."""
_DESTROYING_NAME: Final = lazy_regex(
    r"(?i)(?:^|[-_./\d])(?:drop|wipe|nuke|tear[-_]?down|destroy|truncate|purge)(?:$|[-_.A-Z])"
    r"|(?:^|[-_./])(?:reset|clean|clear|delete|empty|flush|recreate)[-_]?(?:all|db|database|everything|schema|tables?|data|prod)?\.\w+(?:\.\w+)?$"
    r"|[-_.]down\.\w+$|(?:^|/)down\.\w+$"
)
"""A file that has such a name drops or empties something, as people name files."""
_UNREAD: Final = "?"


def destroyed_by_files(command: Command, texts: Iterable[str], place: Place) -> frozenset[Destroyed]:
    """What the SQL files in a command's arguments and input destroy.

    A file on the event's own host is read if it is small. For any other, a name such as `drop_tables.sql` counts.
    """
    found: frozenset[Destroyed] = frozenset()
    for name in _names(command, texts):
        text = _text(command, name, place)
        if text == _UNREAD:
            found |= {"table"} if _DESTROYING_NAME.search(name) else frozenset()
        else:
            found |= destroyed(text)
    return found


def _names(command: Command, texts: Iterable[str]) -> list[str]:
    read = [target for sign, target in command.redirects if sign == "<"]
    named = [name for text in texts if "." in text and len(text) <= _LONGEST for name in _FILE.findall(text)]
    files = dict.fromkeys(word.removeprefix("@").removeprefix("-f").removeprefix("-i") for word in (*named, *read))
    return list(files)[:_MOST]


def _text(command: Command, name: str, place: Place) -> str:
    """The text of a file; `?` if it is not on this machine, not an ordinary file, or too large."""
    path = located(name, place, command.directory) if place.here else None
    if path is None or "$…" in path:
        return _UNREAD
    key = f"{path}{_MARK}"
    return _read(key) if place.disk is None else place.disk.look_up(key, _read)


def _read(key: str) -> str:
    try:
        opened = os.open(key.removesuffix(_MARK), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return _UNREAD
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST:
            return _UNREAD
        return os.read(opened, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return _UNREAD
    finally:
        os.close(opened)
