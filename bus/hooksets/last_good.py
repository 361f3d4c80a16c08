"""The last good content of hook files on disk: it stays in force while a file has errors, across restarts (X-10).

One file (0600) for each hook file, with its text and the texts of what it imports; replaced in one step, under
a lock, so that several processes agree. Its last field is the digest of all before it: a copy that was damaged is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.errors import ConfigError
from bus.lazy.conversions import from_json
from bus.system.directories import make_private
from bus.system.locks import write_private

log = logging.getLogger("fleethook.hooks")

_MOST_BYTES: Final = 512 * 1024 * 1024
_CHECK: Final = b',"check":"'
"""The beginning of a copy's last field, the digest of all before it. Earlier builds wrote copies without it."""


class Copy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text of one file as it is in force, and its errors at that time: entries that were never in force."""

    text: str
    problems: tuple[str, ...] = ()
    named: str = ""
    """The file's path (`named_path`), if it is a symbolic link; else empty."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of one hook file that is in force."""

    path: str
    """The hook file's path (`named_path`)."""
    real: str = ""
    """Its real path, if it is a symbolic link; else empty."""
    files: dict[str, Copy] = msgspec.field(default_factory=dict)
    """By real path: the hook file itself, and every file that was read for it."""
    digest: str = ""
    """For a project or a pinned import: the digest of the trusted content, by `trust.content_digest`."""
    contents: dict[str, Any] | None = None
    """For a project or a pinned import: the hooks in force, as `bus/config/hook_file_value.py` writes them."""
    scripts: dict[str, str] = msgspec.field(default_factory=dict)
    """For a project or a pinned import: the texts of the scripts that its commands name, by absolute path, for the diff."""

    def files_text(self) -> dict[str, str]:
        """The text of each file by real path."""
        return {name: copy.text for name, copy in self.files.items()}


def named_path(path: Path) -> str:
    """The path of a file in its real folder; a symbolic link itself is not followed."""
    whole = os.path.abspath(path)
    return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))


def kept_file(folder: Path, path: Path) -> Path:
    """The file with the last good content of a hook file."""
    name = hashlib.sha256(os.fsencode(named_path(path))).hexdigest()[:32]
    return folder / f"{name}.json"


def read_kept(folder: Path, path: Path) -> Kept | None:
    """The kept content of a hook file; None if there is none, or if it was damaged or cannot be read (which is logged)."""
    place = kept_file(folder, path)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.error("%s: the last good content of %s cannot be read: %s", place, path, error.strerror or error)
        return None
    try:
        with os.fdopen(descriptor, "rb") as stream:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid() or found.st_mode & 0o022 or not stat.S_ISREG(found.st_mode):
                log.error("%s: other users can write this file, so it is not used; remove it", place)
                return None
            raw = stream.read(_MOST_BYTES)
        kept = from_json(raw, Kept)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.error("%s: the last good content of %s cannot be read: %s", place, path, error)
        return None
    body, has_check, end = raw.rpartition(_CHECK)
    if has_check and end != _end(body):
        log.error(
            "%s: the last good content of %s was changed or damaged since it was written, so it does not count",
            place,
            path,
        )
        return None
    return _as_now(kept, os.path.realpath(path)) if kept.path == named_path(path) else None


def _end(body: bytes) -> bytes:
    """What follows `_CHECK` in a copy with this body: the body's SHA-256, and the end of the object."""
    return f'{hashlib.sha256(body).hexdigest()}"}}'.encode()


def _as_now(kept: Kept, real: str) -> Kept:
    """The kept content, with the hook file's text under its present real path: a link may have changed its target."""
    before = kept.real or kept.path
    if before == real:
        return kept
    files = {real if name == before else name: copy for name, copy in kept.files.items()}
    return msgspec.structs.replace(kept, files=files, real=real if real != kept.path else "")


def write_kept(folder: Path, kept: Kept) -> None:
    """Write the kept content (0600) in one step; raises ConfigError if that fails. The caller holds the lock (`locked`)."""
    place = kept_file(folder, Path(kept.path))
    try:
        body = msgspec.json.encode(kept).removesuffix(b"}")
        write_private(place, (body + _CHECK + _end(body)).decode())
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(place)) from error


def forget(folder: Path, path: Path) -> None:
    """Delete the kept content of a hook file."""
    with contextlib.suppress(OSError):
        kept_file(folder, path).unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A lock against changes of kept content by other processes. Raises ConfigError if the folder cannot be used."""
    make_private(folder, narrow=True)
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", file=str(folder / "lock")) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
