"""The folder of an event, resolved on the event's own machine: other machines cannot resolve its symbolic links."""

from __future__ import annotations

import os
from typing import Final, NamedTuple

_LONGEST: Final = 4096


class EventFolder(NamedTuple):
    """The folder in which a hook command ran, or that a program named; its fields are empty if it is not known."""

    path: str = ""
    """With symbolic links resolved."""
    repository: str = ""
    """The nearest folder, from `path` upward, that has a `.git`; empty if none has."""


UNKNOWN_FOLDER: Final = EventFolder()


def event_folder(cwd: str) -> EventFolder:
    """The folder `cwd` of this machine, with its links resolved and its repository."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        return UNKNOWN_FOLDER
    path = repository = os.path.realpath(cwd)
    while repository != "/" and not os.path.lexists(os.path.join(repository, ".git")):
        repository = os.path.dirname(repository)
    return EventFolder(path, "" if repository == "/" else repository)


def folder_fields(folder: EventFolder) -> tuple[str, ...]:
    """The fields of a request that name the folder (the hook command writes the same fields)."""
    return () if folder == UNKNOWN_FOLDER else ("folder", folder.path, "repository", folder.repository)


def read_folder(path: str, repository: str) -> EventFolder:
    """The folder in those fields; longer paths are cut."""
    return EventFolder(path[:_LONGEST], repository[:_LONGEST])


def is_within(path: str, folder: str) -> bool:
    """Whether a path is `folder` or is below it; only the texts are compared, so both may be of another machine."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
