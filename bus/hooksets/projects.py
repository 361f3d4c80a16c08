"""Which rules of a project are in force: those that a person trusted, until newer content is trusted or the trust taken back.

The scripts that trusted hooks name are pinned by content: a changed one is not run (`config/pins.py`).
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from bus.config.files import NOTHING, Source, is_gone, read_file, reading_as, stamp
from bus.config.hook_file_value import from_document, to_document
from bus.errors import ConfigError
from bus.hooks import Hook
from bus.hooksets.files_in_force import FileInForce, Rejected, left_out
from bus.hooksets.hookfile import HookFile, load_hook_file
from bus.hooksets.last_good import Copy, Kept, forget, locked, read_kept, write_kept
from bus.hooksets.named_files import named_files
from bus.hooksets.pins import script_digest
from bus.hooksets.trust import (
    GONE,
    WAITS,
    Trusted,
    content_digest,
    covered_files,
    listed,
    trust,
    trusted_entry,
    untrust,
)

log = logging.getLogger("fleethook.hooks")

_MOST_SCRIPT: Final = 256 * 1024
"""Characters of a script whose text is kept, so that a change of it can be shown."""


def project_in_force(path: Path, store: Path, folder: Path | None, known: Kept | None = None) -> FileInForce:
    """What is in force of a project's file: its trusted content, and nothing where nobody trusts it.

    `known` is what this process knows of the content that was trusted, where the folder cannot be used.
    """
    entry = trusted_entry(path, store)
    if entry is None:
        return FileInForce(HookFile(), sources=_sources(path, store))
    digest = digest_now(path)
    kept = trusted_content(path, entry, folder, known)
    if digest == entry.digest:
        file, new = read_trusted(path)
        if new.digest != entry.digest or digest_now(path) != digest:  # it changed meanwhile: looked at again
            again = (Source(str(path), NOTHING),)
            return FileInForce(HookFile(), sources=again) if kept is None else _as_kept(path, store, kept)
        if kept is None:
            _keep(folder, new)
        rejected = tuple(left_out(file, new.files_text()))
        return FileInForce(file, rejected, new.files_text(), (*_sources(path, store), *file.sources), new)
    if kept is None:
        log.warning("%s changed since it was trusted, and what was trusted is not known; none of its hooks run", path)
        return FileInForce(HookFile(), sources=_sources(path, store))
    return _as_kept(path, store, kept)._replace(rejected=(waiting(path, digest),))


def _as_kept(path: Path, store: Path, kept: Kept) -> FileInForce:
    """What was trusted, without a look at the project."""
    try:
        file = from_document(kept.contents or {}, layer="project")
    except ConfigError as error:
        log.error("%s: what was trusted cannot be read any more, none of its hooks run: %s", path, error)
        return FileInForce(HookFile(), sources=_sources(path, store))
    return FileInForce(file, (), kept.files_text(), _sources(path, store), kept)


def waiting(path: Path, digest: str) -> Rejected:
    """What is said of a project's file that is not what was trusted."""
    if is_gone(path):
        reason, rest = GONE.split("; ", 1)
        return Rejected(str(path), digest, (ConfigError(reason, file=str(path)),), rest)
    problem = ConfigError("the file, or one that it names, changed since it was trusted", file=str(path), line=1)
    return Rejected(str(path), digest, (problem,), WAITS)


def trusted_content(path: Path, entry: Trusted, folder: Path | None, known: Kept | None = None) -> Kept | None:
    """What is kept of the content that was trusted; None where that is not known."""
    kept = (read_kept(folder, path) if folder is not None else None) or known
    return kept if kept is not None and kept.digest == entry.digest else None


def accept(path: Path, store: Path, folder: Path, digest: str = "") -> Trusted:
    """Trust a project's file as it is now, and keep that content; `digest` is what a person has seen.

    ConfigError where it cannot be read, or has changed meanwhile: then nothing changes.
    """
    kept = read_trusted(path)[1]
    if digest_now(path) != kept.digest or (digest and digest != kept.digest):
        raise ConfigError("the files changed while they were shown, so they are not trusted", file=str(path))
    entry = trust(path, store, kept.digest)  # first: a reader in between reads the file, which is as trusted
    _keep(folder, kept)
    for other in listed(store):  # a file of another name that is gone: this one replaces it
        if os.path.dirname(other.path) == os.path.dirname(entry.path) and is_gone(other.path):
            take_back(Path(other.path), store, folder)
    return entry


def take_back(path: Path, store: Path, folder: Path) -> bool:
    """Take the trust back, and forget what was trusted; whether there was any."""
    forget(folder, path)
    return untrust(path, store)


def read_trusted(path: Path) -> tuple[HookFile, Kept]:
    """A project's file with its scripts pinned as they are now, and what is to be kept of it once it is trusted."""
    digest = content_digest(path)
    with reading_as({}) as texts:
        file = load_hook_file(path, "project")
    folder = os.path.realpath(path.parent)
    file = replace(file, hooks=tuple(_pinned(hook, folder) for hook in file.hooks)).sealed()
    named = [os.path.join(folder, name) for name in covered_files(path)]
    scripts = {name: text for name in named if name not in texts and (text := _text(name)) is not None}
    kept = Kept(
        path=os.path.realpath(path),
        files={name: Copy(text=text) for name, text in texts.items()},
        digest=digest,
        contents=to_document(file),
        scripts=scripts,
    )
    return file, kept


def project_state(path: Path, store: Path) -> tuple[str, str]:
    """What was trusted of a project's file, and what it is now, as digests; nothing is read where nobody trusts it."""
    entry = trusted_entry(path, store)
    return ("", "") if entry is None else (entry.digest, digest_now(path))


def digest_now(path: Path) -> str:
    """The digest of a project's file as it is; empty where it cannot be read."""
    try:
        return content_digest(path)
    except ConfigError:
        return ""


def _sources(path: Path, store: Path) -> tuple[Source, ...]:
    return tuple(Source(str(one), stamp(one)) for one in (path, store))


def _pinned(hook: Hook, folder: str) -> Hook:
    if not hook.command:
        return hook
    return msgspec.structs.replace(hook, pins={name: script_digest(name) for name in named_files(hook, folder)})


def _text(path: str) -> str | None:
    """A script's text, for the diff; None where it is none, or long."""
    try:
        text = read_file(Path(path))
    except ConfigError:
        return None
    return text if len(text) <= _MOST_SCRIPT else None


def _keep(folder: Path | None, kept: Kept) -> None:
    if folder is None:
        return
    try:
        with locked(folder):
            write_kept(folder, kept)
    except ConfigError as error:
        log.error("%s; once the project changes, what you trusted is lost with this process", error)
