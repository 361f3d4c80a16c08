"""What Fleethook keeps on this machine, for `fleethook uninstall --purge`: named files and folders, and nothing beside them.

A folder is never removed as a whole unless Fleethook alone writes in it: FLEETHOOK_HOME may name a folder that has other
things in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from bus.errors import ConfigError
from bus.installs.manifest import MANIFEST
from bus.system.directories import SOCKET_NAME, Directories, config_file

_GENERATED_CONFIG: Final = ("fleethook.schema.json", "service.env")


class Belonging(NamedTuple):
    """Something of ours on the disk, and what it is."""

    path: Path
    what: str


def belongings(places: Directories, starter: str) -> list[Belonging]:
    """Everything of ours that is there; `starter` is the text of the hook file that the first `up` writes.

    A hook file that somebody edited is theirs and is not among them.
    """
    user = config_file(places.config)
    found = [
        Belonging(
            places.server_dir, "the data of this machine's own server: events, deliveries, dead letters, hook sets"
        ),
        Belonging(places.credentials, "passwords of that server"),
        Belonging(places.data / "secret.key", "the key of sealed secrets"),
        Belonging(places.data / "agents", "what agents' hook commands know: server, password, fallbacks"),
        Belonging(places.last_good, "last good copies of hook files"),
        Belonging(places.state / "spool", "events that wait for the server"),
        Belonging(places.trust_file, "the list of trusted projects"),
        Belonging(places.log_dir, "logs"),
        Belonging(places.state / MANIFEST, "the list of installs"),
        Belonging(places.config / "secrets", "generated secrets of endpoints"),
        *(Belonging(places.config / name, "generated") for name in _GENERATED_CONFIG),
        *(Belonging(places.runtime / name, "of a run") for name in (SOCKET_NAME, "redis.lock", "up.pid", "up.lock")),
    ]
    if user is not None and _text(user) == starter:
        found.append(Belonging(user, "the hook file as the first `up` wrote it"))
    return [one for one in found if os.path.lexists(one.path)]


def remains(places: Directories, going: Iterable[Belonging]) -> list[Path]:
    """What stays in our folders: hook files that people wrote, and files of others."""
    gone = {one.path for one in going}
    folders = (places.config, places.data, places.state, places.runtime)
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path not in gone]


def remove(places: Directories, going: Iterable[Belonging]) -> None:
    """Remove them, and our folders where nothing else is in them; a link goes, what it leads to stays."""
    for one in going:
        try:
            if one.path.is_dir() and not one.path.is_symlink():
                shutil.rmtree(one.path)
            else:
                one.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{one.path} cannot be removed: {error.strerror or error}", hint="remove it by hand"
            ) from error
    for folder in (places.config, places.data, places.state, places.runtime):
        with contextlib.suppress(OSError):  # somebody keeps something there
            folder.rmdir()


def size(path: Path) -> int:
    """The bytes of a file, or of every file in a folder."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(child.lstat().st_size for child in path.rglob("*"))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
