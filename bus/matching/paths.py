"""Where a path is, as seen from an event: its real location, and whether that is outside the project."""

from __future__ import annotations

import os.path
from fnmatch import fnmatchcase
from functools import lru_cache
from time import monotonic
from typing import Final, Literal, NamedTuple

from bus.events import Event
from bus.ids import host_name
from bus.lazy.regex import lazy_regex
from bus.matching.disk import Disk
from bus.matching.own_places import OwnPlaces, own_places
from bus.shell.words import CONTAINER_DATA, PROJECT, UNKNOWN, UNSET, is_hidden, shown

_TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp", "/var/folders", "/private/var/folders")  # noqa: S108  (paths that are looked at, never written)
_HARMLESS: Final = frozenset(
    {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full"}
)
_SYSTEM: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "media",
        "mnt",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
        "Applications",
        "Library",
        "System",
        "Users",
        "Volumes",
        "private",
    ]
)
"""The directories of `/` that belong to no project, even where the project is `/` itself."""

_HOME: Final = lazy_regex(r"(/root|(?:/System/Volumes/Data|/[a-z])?/(?:home|Users)/[^/]+)(?:/|$)")
_HOME_ELSEWHERE: Final = "/root"
"""The home directory on another machine if the event's directory does not show it: as in most containers."""
_DRIVE: Final = lazy_regex(r"([A-Za-z]):(?=[\\/]|$)")
_NOWHERE: Final = "/.unknown"
"""The directory of an event that has none."""
_ONLY_GLOB: Final = lazy_regex(r"[*?.]*\*[*?.]*|\.\[[!^]\.\]\*")
_GLOB: Final = lazy_regex(r"[*?[]")
_ENDS: Final = ("", "/")
"""What follows a directory in the path of it, and in the paths below it."""
_ABSOLUTE: Final = frozenset("/~")
"""The first characters of a path that does not depend on a directory."""
_REMEMBER_SECONDS: Final = 2

_DESCRIPTOR: Final = lazy_regex(r"/proc/(?:self|thread-self|\$…)/fd(?=/|$)|/dev/fd(?=/|$)")
_OWN: Final = lazy_regex(r"/dev/(?:fd(?=/|$)|std(?:in|out|err)$)|/proc/(?:self|thread-self)(?=/|$)")
"""Paths that mean something else in each process; resolved here they would be the evaluator's own files."""


Links = Literal["all", "parents", "none"]


class Place(NamedTuple):
    """Where an event happened: its directory, the project around it, and its user's home directory; all absolute.

    The project is the nearest directory upwards with a `.git`, but not the home directory or above; else the directory.
    """

    directory: str
    project: str
    home: str
    broad: bool
    """Whether the project is `/`, the home directory or above it: then most paths are inside it."""
    here: bool = True
    """Whether it is on this machine, so that links are resolved on its disk. For other machines only the texts count."""
    own: OwnPlaces = OwnPlaces()
    """Fleethook's own places on this machine."""
    disk: Disk | None = None
    """Counts the request's look-ups on that disk; None for no limit."""

    def real(self, path: str) -> str:
        """`real(path)`, within the request's look-ups."""
        return real(path) if self.disk is None else self.disk.look_up(path, real)


def event_place(event: Event, disk: Disk | None = None) -> Place:
    """The place of an event. This machine's disk is used only for events of this host, or without a host.

    Later look-ups from that place count against `disk`.
    """
    known = _place_on(event.host, event.cwd, int(monotonic()) // _REMEMBER_SECONDS)
    return known if disk is None or not known.here else Place(*known[:-1], disk)


def place_of(cwd: str, *, here: bool = True) -> Place:
    """The place of an event with this `cwd` (absolute, or empty where the agent does not say).

    `here` says whether the event is from this machine, whose disk is used then. A place is remembered for two seconds.
    """
    return _place_of(cwd, here, int(monotonic()) // _REMEMBER_SECONDS)


@lru_cache(maxsize=512)
def _place_on(host: str, cwd: str, when: int) -> Place:
    return _place_of(cwd, not host or host == host_name(), when)


@lru_cache(maxsize=512)
def _place_of(given: str, here: bool, _when: int) -> Place:
    cwd = _posix(given)
    here = here and given[1:2] != ":"
    directory = _NOWHERE if not cwd.startswith("/") else real(cwd) if here else os.path.normpath(cwd)
    match = _HOME.match(directory)
    if here:
        own = real(os.path.expanduser("~"))
        # An evaluator may run as another user than the agent: then the agent's directory shows the home.
        home = own if within(directory, own) or not match else match[1]
    else:
        home = match[1] if match else _HOME_ELSEWHERE
    project, above = directory, directory
    while here and above not in ("/", home, _NOWHERE):
        if os.path.lexists(f"{above}/.git"):
            project = above
            break
        above = os.path.dirname(above)
    return Place(directory, project, home, project == "/" or within(home, project), here, own_places())


def _posix(path: str) -> str:
    r"""A path of Windows (`C:\Users\me`) in the form that its POSIX shells have (`/c/Users/me`); any other as it is."""
    drive = _DRIVE.match(path) if path[1:2] == ":" else None
    return f"/{drive[1].lower()}{path[2:]}".replace("\\", "/") if drive else path


def real(path: str) -> str:
    """The absolute path with `..` and symbolic links resolved; parts that do not exist stay as they are.

    A path that each process has of its own (`/dev/stderr`, `/proc/self`) is not resolved: here it would be ours.
    """
    plain = os.path.normpath(path)
    if _OWN.match(plain):
        return plain
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # too long, or with characters that no path can have
        return os.path.normpath(path)


def within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or is below it."""
    if directory[-1:] == "/":
        return path == directory or path.startswith(directory.rstrip("/") + "/")
    return path.startswith(directory) and path[len(directory) : len(directory) + 1] in _ENDS


def located(word: str, place: Place, directory: str = ".", *, links: Links = "all") -> str | None:
    """The absolute path that `word` means in `directory` (relative to the place); None if that is not known.

    `links` says which symbolic links are resolved: `all`; `parents`, since `rm link` removes the link and not what it
    points to; or `none`, the path as it is written.
    """
    if word[1:2] == ":":
        word = _posix(word)
    path = word if word[:1] in _ABSOLUTE else f"{directory}/{word}"
    if UNKNOWN in path or UNSET in path:
        if is_hidden(word[:1]) or is_hidden(path[:1]):
            return None
        path = shown(path)
    if path[:1] not in _ABSOLUTE:
        path = f"{place.directory}/{path}"
    elif path.startswith(PROJECT):
        path = place.project + path.removeprefix(PROJECT)
    elif path[:1] == "~":
        user, _, rest = path[1:].partition("/")
        # Another user's home is elsewhere; where exactly does not matter.
        path = f"{place.home if not user else f'/home/{user}'}/{rest}"
    plain = os.path.normpath(path)
    if plain.startswith(("/proc/", "/dev/fd")):
        plain = _DESCRIPTOR.sub("/dev/fd", plain, count=1)
    if links == "none" or not place.here or _OWN.match(plain):
        return plain
    if links == "all" or path.endswith(("/", "/.", "/..")):
        return place.real(path)
    return f"{place.real(os.path.dirname(path)).rstrip('/')}/{os.path.basename(path)}"


def is_outside(path: str, place: Place) -> bool:
    """Whether an absolute path is outside the project.

    Not outside: paths below a directory for temporary files, and harmless devices. Outside: a directory for temporary files
    itself; the home directory and every directory above it or above the project; a home directory below a temporary one,
    with its contents. If the project is `/` or a home directory, system directories and the project itself are outside.
    """
    whole = os.path.dirname(path) if "*" in path and _ONLY_GLOB.fullmatch(os.path.basename(path)) else path
    if within(place.home, whole) or (whole != place.project and within(place.project, whole)):
        return True
    if within(path, place.project):
        return place.broad and (_swept(path, place.project) or _is_system(path, place))
    if within(path, CONTAINER_DATA):
        return False  # not on this machine: another rule is about these
    if path in _HARMLESS or path.startswith("/dev/fd/"):
        return False
    if not path.startswith(_TEMPORARY):
        return True
    exempt = [base for base in _TEMPORARY if within(path, base) and path != base and not _swept(path, base)]
    if not exempt or any(
        within(path, place.home) and within(place.home, base) and place.home != base for base in exempt
    ):
        return True
    return _GLOB.search(path) is not None and (_may_name(path, place.home) or _may_name(path, place.project))


def _may_name(path: str, directory: str) -> bool:
    """Whether a path with `*`, `?` or `[…]` may mean a directory or one above it: `/tmp/h*` and `/tmp/home/me`."""
    parts = path.split("/")
    names = directory.split("/")[: len(parts)]
    return len(names) == len(parts) and all(map(fnmatchcase, names, parts))


def is_whole_project(path: str, place: Place) -> bool:
    """Whether a path is the project itself or everything in it (`.`, `*`, `./*`)."""
    return path == place.project or _swept(path, place.project)


def _swept(path: str, directory: str) -> bool:
    """Whether a path means everything in `directory`: `/tmp/*`."""
    if "*" not in path:
        return False
    parent, name = os.path.split(path)
    return parent == directory and _ONLY_GLOB.fullmatch(name) is not None


def _is_system(path: str, place: Place) -> bool:
    return place.project == "/" and not within(path, place.home) and path.split("/")[1] in _SYSTEM
