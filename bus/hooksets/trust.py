"""Keeps which project files the user trusts. Their hooks are code that comes with a cloned repository.

The user trusts content, not a path: the hook file without its comments and `tests:`, every file that it imports, every
file in the folder (or beside an imported file) that a command names or runs, and the files that these scripts name.
Changed content has to be trusted again. Files whose names a script computes, and installed packages, are not checked: a
user who trusts a folder trusts everybody who can change it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from bus.config.documents import Source, Stamp, loads, read_file, stamp
from bus.config.files import is_gone
from bus.errors import ConfigError
from bus.hooksets.named_files import is_below, matched_files, named_files
from bus.lazy.conversions import from_json
from bus.system.directories import config_file, make_private
from bus.system.locks import write_private

log = logging.getLogger("fleethook.hooks")

WAITS: Final = "newer content waits for your trust (`fleethook hooks trust` shows it); what you trusted stays in force"
LOST: Final = (
    "what you trusted was not kept, so none of its hooks run until you trust it again (`fleethook hooks trust`)"
)
GONE: Final = "the file is gone; its trusted rules stay in force until `fleethook hooks untrust`"

_CHUNK: Final = 1024 * 1024


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """One trusted file: the SHA-256 of its trusted content, and when it was trusted (milliseconds since 1970)."""

    path: str
    digest: str
    time: int


class _Store(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    trusted: dict[str, Trusted] = msgspec.field(default_factory=dict)


def trust(path: Path, store: Path, digest: str = "") -> Trusted:
    """Trust a project's hook file as it is now, or the content with this `digest`; `store` is `Directories.trust_file`.

    Raises ConfigError if the file cannot be read.
    """
    real = os.path.realpath(path)
    entry = Trusted(path=real, digest=digest or content_digest(path), time=time.time_ns() // 1_000_000)
    _change(store, lambda trusted: trusted.__setitem__(real, entry))
    return entry


def untrust(path: Path, store: Path) -> bool:
    """Withdraw the trust; returns whether there was any."""
    real = os.path.realpath(path)
    return _change(store, lambda trusted: trusted.pop(real, None)) is not None


def is_trusted(path: Path, store: Path) -> bool:
    """Whether the user trusts the file with the files that its commands name; False if that cannot be read."""
    try:
        entry = _read(store).trusted.get(os.path.realpath(path))
        return entry is not None and entry.digest == content_digest(path)
    except ConfigError:
        return False


def listed(store: Path) -> tuple[Trusted, ...]:
    """Every trusted file, sorted by path, also if it has changed since; raises ConfigError if the store cannot be read."""
    return tuple(entry for _, entry in sorted(_read(store).trusted.items()))


def trusted_entry(path: Path, store: Path) -> Trusted | None:
    """The entry of a trusted file, also if the file has changed since; None if there is none. Logs a broken store."""
    entries = _known_entries(str(store), stamp(store))
    return next((entry for entry in entries if entry.path == os.path.realpath(path)), None)


@lru_cache(16)
def _known_entries(store: str, _stamp: Stamp) -> tuple[Trusted, ...]:
    """The trusted files, remembered until the store changes."""
    try:
        return listed(Path(store))
    except ConfigError as error:
        log.error("%s; no project is trusted", error)
        return ()


def trusted_file(cwd: Path, store: Path, *, user: Path | None = None) -> Path | None:
    """The project file of a folder. A trusted file that is gone counts until the user withdraws the trust."""
    by_folder: dict[str, list[str]] = {}
    for entry in _known_entries(str(store), stamp(store)):
        by_folder.setdefault(os.path.dirname(entry.path), []).append(entry.path)
    return project_file(cwd, user=user, trusted=by_folder)


def project_file(
    cwd: Path, *, user: Path | None = None, trusted: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Path | None:
    """The nearest hook file in a folder or above it, within the repository, the file system and the home directory.

    The home directory, `/` and the folder of the user's own file `user` are not projects. `trusted` has the trusted files
    by folder: they count even if they are gone. A folder that is gone belongs to the project of the folder above it.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    try:
        folder = Path(os.path.realpath(cwd))
        while is_gone(folder):
            if str(folder) in trusted:
                return Path(trusted[str(folder)][0])
            folder = folder.parent
        device = os.stat(folder).st_dev
        while str(folder) != home and folder != folder.parent and os.stat(folder).st_dev == device:
            found = _preferred(config_file(folder), trusted.get(str(folder), ()))
            if found is not None or os.path.lexists(folder / ".git"):
                own = found is not None and user is not None and os.path.realpath(found) == os.path.realpath(user)
                return None if own else found
            folder = folder.parent
    except (OSError, ValueError):  # a folder that cannot be read has no project; ValueError: a NUL in its name
        return None
    return None


def _preferred(found: Path | None, trusted: Sequence[str]) -> Path | None:
    """The hook file of a folder: the existing one, unless another one there is trusted and this one is not."""
    if not trusted or (found is not None and os.path.realpath(found) in trusted):
        return found
    return Path(trusted[0])


def content_digest(path: Path) -> str:
    """The SHA-256 (hex) over a hook file, what it imports, and the files of its folder that the commands name.

    Comments and `tests:` of the hook file do not count.
    """
    text = read_file(path)
    folder = os.path.realpath(path.parent)
    whole = hashlib.sha256()
    whole.update(_value_digest(str(path), text))
    for name in covered_files(path):
        digest = _file_digest(os.path.join(folder, name))
        if digest is not None:
            whole.update(hashlib.sha256(os.fsencode(name)).digest() + digest)
    return whole.hexdigest()


@lru_cache(64)
def _value_digest(path: str, text: str) -> bytes:
    """The SHA-256 of a hook file's value without its `tests:`.

    Only `fleethook hooks test` reads the tests, and it runs the hooks of a file that is not trusted too. The value has
    every alias expanded, so an anchor in `tests:` that a hook uses counts. A text that cannot be parsed counts whole.
    """
    try:
        value = loads(text, file=path).value
    except ConfigError:
        return hashlib.sha256(text.encode()).digest()
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if key != "tests"}
    return hashlib.sha256(json.dumps(value).encode()).digest()


def covered_files(path: Path) -> list[str]:
    """The other files that are trusted with a hook file; paths inside its folder are relative to the folder.

    They are the files that its commands name, as far as these can be found, and every file that was read for an import.
    """
    found = _found_in(path)
    folder = os.path.realpath(path.parent)
    files = {*found.read, *(file for name in found.named for file in matched_files(name))}
    return sorted(os.path.relpath(name, folder) if is_below(name, folder) else name for name in files)


def imported_files(path: Path) -> tuple[str, ...]:
    """The existing files that are read for the imports of a hook file, absolute, in order."""
    return tuple(name for name in dict.fromkeys(_found_in(path).read) if os.path.isfile(name))


class _Found(NamedTuple):
    """The files that belong to a hook file; all paths absolute."""

    named: tuple[str, ...]
    """Possible files inside the project, or beside an imported file, that commands name."""
    read: tuple[str, ...]
    """Files that were read for imports."""
    sources: tuple[Source, ...]
    """The files to watch: while none of them changes, the result is the same."""


_known: dict[str, _Found] = {}
"""By path. A project's file is checked every half second, and reading a thousand hooks takes too long for that."""
_MOST_KNOWN: Final = 256


def _found_in(path: Path) -> _Found:
    """The files that belong to a hook file; reads it again if it, or a file that was read for it, changed."""
    name = str(path)
    known = _known.get(name)
    if known is not None and not any(source.changed() for source in known.sources):
        return known
    # Imported here, since it imports the readers of every kind of hook, which a process without trusted projects never needs.
    from bus.hooksets.hookfile import load_hook_file

    before = Source(name, stamp(path))
    file = load_hook_file(path, "project")
    folder = os.path.realpath(path.parent)
    named = dict.fromkeys(name for hook in file.hooks if hook.command for name in named_files(hook, folder))
    read = tuple(os.path.realpath(source.path) for source in file.sources if not os.path.isdir(source.path))
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    # What a script loads is read from its text, so a changed script is read again.
    scripts = tuple(Source(name, stamp(Path(name))) for name in named if os.path.exists(name))
    found = _known[name] = _Found(tuple(named), read, (before, *file.sources, *scripts))
    return found


def _file_digest(path: str) -> bytes | None:
    """The SHA-256 of a regular file; None for another kind of file, and a fixed mark if it cannot be read."""
    whole = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"unreadable"
    try:  # no file object: one cannot be made of a folder's descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        while chunk := os.read(descriptor, _CHUNK):
            whole.update(chunk)
    except OSError:
        return b"unreadable"
    finally:
        os.close(descriptor)
    return whole.digest()


def _read(store: Path) -> _Store:
    try:
        descriptor = os.open(store, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not stat.S_ISREG(found.st_mode):
                raise ConfigError("other users can write this file", file=str(store), hint="remove it, and trust again")
            return from_json(stream.read(), _Store)
    except FileNotFoundError:
        return _Store()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(store)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            "this is not a list of trusted folders", file=str(store), hint="remove it, and trust again"
        ) from error


def _change(store: Path, change: Callable[[dict[str, Trusted]], Trusted | None]) -> Trusted | None:
    """Apply one change under a lock, and replace the file in one step."""
    make_private(store.parent, narrow=True)
    try:
        lock = os.open(store.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            trusted = dict(_read(store).trusted)
            result = change(trusted)
            content = msgspec.json.format(msgspec.json.encode(_Store(trusted=trusted)), indent=2)
            write_private(store, content.decode() + "\n")
        finally:
            os.close(lock)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(store)) from error
    return result
