"""Which project folders the user trusts: their hooks come with a cloned repository, and they are code.

Trust belongs to a content, not to a name: the hook file, every file that it imports, and every file inside the folder
(or beside an imported file) that one of the commands names. Changed content is untrusted again. What a command reaches
beyond that (a script that runs another, a module, a file named by a variable's value) is not seen: trusting a folder is
trusting whoever can change it.
"""

from __future__ import annotations

import fcntl
import hashlib
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

from bus.config.documents import Source, Stamp, read_file, stamp
from bus.errors import ConfigError
from bus.hooksets.named_files import lies_in, named_files
from bus.system.directories import config_file, make_private
from bus.system.locks import write_private

log = logging.getLogger("fleethook.hooks")

WAITS: Final = "newer content waits for your trust (`fleethook hooks trust` shows it); what you trusted stays in force"
GONE: Final = "the file is gone; its trusted rules stay in force until `fleethook hooks untrust`"

_CHUNK: Final = 1024 * 1024


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """One trusted file: the SHA-256 of what was trusted, and when (milliseconds since 1970)."""

    path: str
    digest: str
    time: int


class _Store(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    trusted: dict[str, Trusted] = msgspec.field(default_factory=dict)


def trust(path: Path, store: Path, digest: str = "") -> Trusted:
    """Trust a project's hook file as it is now, or as `digest` says; `store` is `Directories.trust_file`.

    ConfigError where it cannot be read.
    """
    real = os.path.realpath(path)
    entry = Trusted(path=real, digest=digest or content_digest(path), time=time.time_ns() // 1_000_000)
    _change(store, lambda trusted: trusted.__setitem__(real, entry))
    return entry


def untrust(path: Path, store: Path) -> bool:
    """Take the trust back; whether there was any."""
    real = os.path.realpath(path)
    return _change(store, lambda trusted: trusted.pop(real, None)) is not None


def is_trusted(path: Path, store: Path) -> bool:
    """Whether the file, with the files its commands name, is what the user trusted; in doubt it is not."""
    try:
        entry = _read(store).trusted.get(os.path.realpath(path))
        return entry is not None and entry.digest == content_digest(path)
    except ConfigError:
        return False


def listed(store: Path) -> tuple[Trusted, ...]:
    """Every trusted file by its path, changed or not; ConfigError where the store is broken."""
    return tuple(entry for _, entry in sorted(_read(store).trusted.items()))


def trusted_entry(path: Path, store: Path) -> Trusted | None:
    """What was trusted of a file, whatever it is now; None where nobody trusts it. A broken list is logged."""
    return next((one for one in _known_entries(str(store), stamp(store)) if one.path == os.path.realpath(path)), None)


@lru_cache(16)
def _known_entries(store: str, _stamp: Stamp) -> tuple[Trusted, ...]:
    """The list as it is now."""
    try:
        return listed(Path(store))
    except ConfigError as error:
        log.error("%s; no project is trusted", error)
        return ()


def trusted_file(cwd: Path, store: Path, *, user: Path | None = None) -> Path | None:
    """The project file that counts in a folder: one that is gone and was trusted counts until the trust is taken back."""
    by_folder: dict[str, list[str]] = {}
    for one in _known_entries(str(store), stamp(store)):
        by_folder.setdefault(os.path.dirname(one.path), []).append(one.path)
    return project_file(cwd, user=user, trusted=by_folder)


def project_file(
    cwd: Path, *, user: Path | None = None, trusted: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Path | None:
    """The nearest hook file from a folder upward: not beyond the repository, the file system or the home directory.

    The home directory itself and `/` are nobody's project, nor is the folder of the user's own file, `user`. `trusted`
    has the trusted files by folder: one of them is its folder's file even if it is gone.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    try:
        folder = Path(os.path.realpath(cwd))
        device = os.stat(folder).st_dev
        while str(folder) != home and folder != folder.parent and os.stat(folder).st_dev == device:
            found = _preferred(config_file(folder), trusted.get(str(folder), ()))
            if found is not None or os.path.lexists(folder / ".git"):
                own = found is not None and user is not None and os.path.realpath(found) == os.path.realpath(user)
                return None if own else found
            folder = folder.parent
    except (OSError, ValueError):  # a folder that is gone or closed to us has no project; ValueError: a NUL in it
        return None
    return None


def _preferred(found: Path | None, trusted: Sequence[str]) -> Path | None:
    """The file of a folder: the one that is there where it is trusted, or none is; else the trusted one."""
    if not trusted or (found is not None and os.path.realpath(found) in trusted):
        return found
    return Path(trusted[0])


def content_digest(path: Path) -> str:
    """The SHA-256 (hex) over a hook file, what it imports, and the files of its folder that the commands name."""
    text = read_file(path)
    folder = os.path.realpath(path.parent)
    whole = hashlib.sha256()
    whole.update(hashlib.sha256(text.encode()).digest())
    for name in covered_files(path):
        digest = _file_digest(os.path.join(folder, name))
        if digest is not None:
            whole.update(hashlib.sha256(os.fsencode(name)).digest() + digest)
    return whole.hexdigest()


def covered_files(path: Path) -> list[str]:
    """The files that belong to what is trusted, beside the hook file itself: relative to its folder where they lie in it.

    Those that the commands of its hooks name, best effort, and every file that was read for an import.
    """
    found = _found_in(path)
    folder = os.path.realpath(path.parent)
    files = {*found.read, *filter(os.path.isfile, found.named)}
    return sorted(os.path.relpath(one, folder) if lies_in(one, folder) else one for one in files)


def imported_files(path: Path) -> tuple[str, ...]:
    """The files that are read for the imports of a hook file, absolute, in order; missing ones are left out."""
    return tuple(one for one in dict.fromkeys(_found_in(path).read) if os.path.isfile(one))


class _Found(NamedTuple):
    """What a hook file was found to name when it was read; all paths absolute."""

    named: tuple[str, ...]
    """What could be files inside the project, or beside an imported file, that commands name."""
    read: tuple[str, ...]
    sources: tuple[Source, ...]


_known: dict[str, _Found] = {}
"""By path: a project's file is looked at every half second, and reading a thousand hooks takes too long for that."""
_MOST_KNOWN: Final = 256


def _found_in(path: Path) -> _Found:
    """The commands and imports of a hook file; read anew where it, or something that was read for it, has changed."""
    name = str(path)
    known = _known.get(name)
    if known is not None and not any(source.changed() for source in known.sources):
        return known
    # Only where a folder is trusted: it brings every kind of hook with it, which settings alone do not need.
    from bus.hooksets.hookfile import load_hook_file

    before = Source(name, stamp(path))
    file = load_hook_file(path, "project")
    folder = os.path.realpath(path.parent)
    named = dict.fromkeys(one for hook in file.hooks if hook.command for one in named_files(hook, folder))
    read = tuple(os.path.realpath(one.path) for one in file.sources if not os.path.isdir(one.path))
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    found = _known[name] = _Found(tuple(named), read, (before, *file.sources))
    return found


def _file_digest(path: str) -> bytes | None:
    """The SHA-256 of a regular file, read in pieces; of its name alone where it cannot be read."""
    whole = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"unreadable"
    try:  # a folder has a descriptor and no stream
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
            return msgspec.json.decode(stream.read(), type=_Store)
    except FileNotFoundError:
        return _Store()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(store)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            "this is no list of trusted folders", file=str(store), hint="remove it, and trust again"
        ) from error


def _change(store: Path, change: Callable[[dict[str, Trusted]], Trusted | None]) -> Trusted | None:
    """Apply one change under a lock, and replace the file in one step."""
    make_private(store.parent, mend=True)
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
