"""The files and folders that Fleethook keeps on this machine, for `fleethook uninstall --purge`.

A whole folder is listed only if no other program writes into it, because FLEETHOOK_HOME may hold other files.
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
from workers.coverage.waiting import LOCK as WAITING_LOCK

_GENERATED_CONFIG: Final = ("fleethook.schema.json", "service.env")


class InstalledFile(NamedTuple):
    """A file or folder of Fleethook's, and a description of it."""

    path: Path
    what: str


def installed_files(places: Directories, starter: str) -> list[InstalledFile]:
    """Fleethook's files that exist; `starter` is the text of the hook file that the first `up` writes.

    A hook file that a person has edited since is not among them.
    """
    user = config_file(places.config)
    found = [
        InstalledFile(
            places.server_dir, "the data of this machine's own server: events, deliveries, dead letters, hook sets"
        ),
        InstalledFile(places.credentials, "passwords of that server"),
        InstalledFile(places.data / "secret.key", "the key of sealed secrets"),
        InstalledFile(places.data / "agents", "what agents' hook commands know: server, password, fallbacks"),
        InstalledFile(places.data / "native", "the native hook command that `install` built"),
        InstalledFile(places.last_good, "last good copies of hook files"),
        InstalledFile(places.state / "spool", "events that wait for the server"),
        InstalledFile(places.trust_file, "the list of trusted projects"),
        InstalledFile(places.trust_file.with_suffix(".lock"), "the lock of that list"),
        InstalledFile(places.log_dir, "logs"),
        InstalledFile(places.bytecode, "Python's bytecode of what `up` imports"),
        InstalledFile(places.state / MANIFEST, "the list of installs"),
        InstalledFile(places.state / WAITING_LOCK, "the lock of the worker that lets agents wait"),
        InstalledFile(places.config / "secrets", "generated secrets of endpoints"),
        *(InstalledFile(places.config / name, "generated files") for name in _GENERATED_CONFIG),
        *(
            InstalledFile(places.runtime / name, "its socket, locks and process id")
            for name in (SOCKET_NAME, "redis.lock", "up.pid", "up.lock")
        ),
        *(
            InstalledFile(path, "the socket, addresses and lock of this machine's gateway")
            for path in (places.gateway_socket, places.gateway_file, places.gateway_lock)
        ),
    ]
    if user is not None and _text(user) == starter:
        found.append(InstalledFile(user, "the hook file as the first `up` wrote it"))
    return [file for file in found if os.path.lexists(file.path)]


def remaining_files(places: Directories, going: Iterable[InstalledFile]) -> list[Path]:
    """The files that stay in Fleethook's folders: hook files that people wrote, and files of other programs."""
    removed = {file.path for file in going}
    folders = (places.config, places.data, places.state, places.runtime)
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path not in removed]


def remove_files(places: Directories, going: Iterable[InstalledFile]) -> None:
    """Remove the files, and Fleethook's folders that are empty then; a link is removed, its target stays."""
    for file in going:
        try:
            if file.path.is_dir() and not file.path.is_symlink():
                shutil.rmtree(file.path)
            else:
                file.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{file.path} cannot be removed: {error.strerror or error}", hint="remove it by hand"
            ) from error
    for folder in (places.config, places.data, places.state, places.runtime):
        with contextlib.suppress(OSError):  # the folder has other files
            folder.rmdir()


def size_of(path: Path) -> int:
    """The bytes of a file, or of every file in a folder."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(child.lstat().st_size for child in path.rglob("*"))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
