"""Where a path lies, seen from an event: its real location, and whether that is outside the project."""

from __future__ import annotations

import os.path
import re
from functools import lru_cache
from time import monotonic
from typing import Final, Literal, NamedTuple

from bus.shell.words import is_hidden, shown

_TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/var/folders", "/private/var/folders")  # noqa: S108  (paths that are looked at, never written)
_HARMLESS: Final = frozenset(
    {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"}
)
_SYSTEM: Final = frozenset(
    [
        "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "proc", "root", "run",
        "sbin", "srv", "sys", "usr", "var", "Applications", "Library", "System", "Users", "Volumes", "private",
    ]
)  # fmt: skip
"""The directories of `/` that belong to no project, even where the project is `/` itself."""

_HOME: Final = re.compile(r"((?:/System/Volumes/Data)?/(?:home|Users)/[^/]+)(?:/|$)")
_NOWHERE: Final = "/.unknown"
"""Stands for the directory of an event that does not say where it happened."""
_ONLY_GLOB: Final = re.compile(r"[*?.]*\*[*?.]*|\.\[[!^]\.\]\*")
_REMEMBER_SECONDS: Final = 5


Links = Literal["all", "parents", "none"]


class Place(NamedTuple):
    """Where an event happened: its directory, the project around it, and its user's home directory; all absolute.

    The project is the nearest directory upwards that holds `.git`, short of the home directory; else the directory.
    """

    directory: str
    project: str
    home: str
    broad: bool
    """The project is `/`, the home directory or above it, so lying inside it says little."""


def place_of(cwd: str) -> Place:
    """The place of an event with this `cwd` (absolute, or empty where the agent does not say).

    Looked up on this machine's disk and remembered for a few seconds; for another machine's event the paths alone count.
    """
    return _place_of(cwd, int(monotonic()) // _REMEMBER_SECONDS)


@lru_cache(maxsize=512)
def _place_of(cwd: str, _when: int) -> Place:
    directory = real(cwd) if cwd.startswith("/") else _NOWHERE
    own = real(os.path.expanduser("~"))
    match = _HOME.match(directory)
    # An evaluator may run as another user than the agent, whose directory then tells more.
    home = own if within(directory, own) or not match else match[1]
    project, above = directory, directory
    while above not in ("/", home, _NOWHERE):
        if os.path.lexists(f"{above}/.git"):
            project = above
            break
        above = os.path.dirname(above)
    return Place(directory, project, home, project == "/" or within(home, project))


def real(path: str) -> str:
    """The absolute path with `..` and symbolic links resolved; parts that do not exist stay as they are."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # too long, or with characters that no path can have
        return os.path.normpath(path)


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def located(word: str, place: Place, directory: str = ".", *, links: Links = "all") -> str | None:
    """The absolute path that `word` means in `directory` (itself seen from the place); None where that cannot be told.

    `links` says which symbolic links are resolved: `all`; `parents`, since `rm link` removes the link and not what it
    points to; or `none`, the path as it is written.
    """
    path = word if word.startswith(("/", "~")) else f"{directory}/{word}"
    if is_hidden(word[:1]) or is_hidden(path[:1]):
        return None
    path = shown(path)
    if path.startswith("~"):
        user, _, rest = path[1:].partition("/")
        # Another user's home is elsewhere; where exactly does not matter.
        path = f"{place.home if not user else f'/home/{user}'}/{rest}"
    elif not path.startswith("/"):
        path = f"{place.directory}/{path}"
    if links == "none":
        return os.path.normpath(path)
    if links == "all" or path.endswith(("/", "/.", "/..")):
        return real(path)
    return f"{real(os.path.dirname(path)).rstrip('/')}/{os.path.basename(path)}"


def is_outside(path: str, place: Place) -> bool:
    """Whether an absolute path lies outside the project.

    What lies below a directory for temporary files counts as inside, such a directory itself does not; neither do the
    harmless devices. Where the project is `/` or a home directory, system directories and the project itself are outside.
    """
    if within(path, place.project):
        if not place.broad:
            return False
        return within(place.home, path) or _swept(path, place.project) or _is_system(path, place)
    if path in _HARMLESS or path.startswith("/dev/fd/"):
        return False
    return not any(within(path, base) and path != base and not _swept(path, base) for base in _TEMPORARY)


def is_whole_project(path: str, place: Place) -> bool:
    """Whether a path is the project itself or everything in it (`.`, `*`, `./*`)."""
    return path == place.project or _swept(path, place.project)


def _swept(path: str, directory: str) -> bool:
    """Whether a path means everything in `directory`: `/tmp/*`."""
    parent, name = os.path.split(path)
    return parent == directory and _ONLY_GLOB.fullmatch(name) is not None


def _is_system(path: str, place: Place) -> bool:
    return place.project == "/" and not within(path, place.home) and path.split("/")[1] in _SYSTEM
