"""The folder of an event as its own machine knows it: other machines cannot resolve symbolic links there."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

_LONGEST: Final = 4096


class EventFolder(NamedTuple):
    """The folder in which a hook command ran, or that a program named; empty if it is not known."""

    path: str = ""
    """With symbolic links resolved."""
    repository: str = ""
    """The nearest folder from there upward that has a `.git`; empty for none."""


NOT_SAID: Final = EventFolder()


def event_folder(cwd: str) -> EventFolder:
    """A folder of this machine."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        return NOT_SAID
    path = repository = os.path.realpath(cwd)
    while repository != "/" and not os.path.lexists(os.path.join(repository, ".git")):
        repository = os.path.dirname(repository)
    return EventFolder(path, "" if repository == "/" else repository)


def folder_fields(folder: EventFolder) -> tuple[str, ...]:
    """The fields of a request that say it (the hook command writes the same ones)."""
    return () if folder == NOT_SAID else ("folder", folder.path, "repository", folder.repository)


def read_folder(path: str, repository: str) -> EventFolder:
    """What those fields say, bounded."""
    return EventFolder(path[:_LONGEST], repository[:_LONGEST])


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is a folder of any machine, or is below it."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
