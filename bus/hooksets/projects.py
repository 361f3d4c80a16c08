"""Which rules of a project are in force: those that a person trusted, until newer content is trusted or the trust taken back.

The scripts that trusted hooks name are pinned by content: a changed one is not run (`runners/pins.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from bus.config.contents import from_document, to_document
from bus.config.files import Source, is_gone, read_file, reading_as, stamp
from bus.config.hookfile import HookFile, load_hook_file
from bus.config.trust import Trusted, content_digest, covered_files, listed, named_files, project_file, trust, untrust
from bus.errors import ConfigError
from bus.hooks import Hook
from bus.hooksets.files_in_force import FileInForce, Rejected
from bus.hooksets.last_good import Copy, Kept, forget, locked, read_kept, write_kept
from bus.runners.pins import script_digest

log = logging.getLogger("fleethook.hooks")

_MOST_SCRIPT: Final = 256 * 1024
"""Characters of a script whose text is kept, so that a change of it can be shown."""

WAITS: Final = "newer content waits for your trust (`fleethook hooks trust` shows it); what you trusted stays in force"


def trusted_file(cwd: Path, store: Path, *, user: Path | None = None) -> Path | None:
    """The project file that counts in a folder: one that is gone and was trusted counts until the trust is taken back."""
    return project_file(cwd, user=user, trusted=_by_folder(str(store), stamp(store)))


@lru_cache(16)
def _by_folder(store: str, _stamp: object) -> Mapping[str, tuple[str, ...]]:
    """The trusted files by their folder, as the list of them is now."""
    found: dict[str, tuple[str, ...]] = {}
    try:
        for one in listed(Path(store)):
            folder = os.path.dirname(one.path)
            found[folder] = (*found.get(folder, ()), one.path)
    except ConfigError as error:
        log.error("%s; no project is trusted", error)
    return found


def project_in_force(path: Path, store: Path, folder: Path | None, known: Kept | None = None) -> FileInForce:
    """What is in force of a project's file: its trusted content, and nothing where nobody trusts it.

    `known` is what this process knows of the content that was trusted, where the folder cannot be used.
    """
    entry = _entry(path, store)
    if entry is None:
        return FileInForce(HookFile(), sources=_sources(path, store))
    digest = digest_now(path)
    kept = trusted_content(path, entry, folder, known)
    if kept is None and digest == entry.digest:
        file, kept = read_trusted(path)
        if kept.digest != entry.digest:  # it changed between the look and the reading: looked at again
            return FileInForce(HookFile())
        _keep(folder, kept)
        return FileInForce(file, sources=(*_sources(path, store), *file.sources), kept=kept)
    if kept is None or kept.contents is None:
        log.warning("%s changed since it was trusted, and what was trusted is not known; none of its hooks run", path)
        return FileInForce(HookFile(), sources=_sources(path, store))
    try:
        file = from_document(kept.contents, layer="project")
    except ConfigError as error:
        log.error("%s: what was trusted cannot be read any more, none of its hooks run: %s", path, error)
        return FileInForce(HookFile(), sources=_sources(path, store))
    rejected = () if digest == entry.digest else (waiting(path, digest),)
    return FileInForce(file, rejected, {name: copy.text for name, copy in kept.files.items()},
                       _sources(path, store), kept)  # fmt: skip


def waiting(path: Path, digest: str) -> Rejected:
    """What is said of a project's file that is not what was trusted."""
    if is_gone(path):
        problem = ConfigError("the file is gone", file=str(path))
        return Rejected(
            str(path), digest, (problem,), "its trusted rules stay in force until `fleethook hooks untrust`"
        )
    problem = ConfigError("the file, or one that it names, changed since it was trusted", file=str(path), line=1)
    return Rejected(str(path), digest, (problem,), WAITS)


def trusted_content(path: Path, entry: Trusted, folder: Path | None, known: Kept | None = None) -> Kept | None:
    """What is kept of the content that was trusted; None where that is not known."""
    kept = (read_kept(folder, path) if folder is not None else None) or known
    return kept if kept is not None and kept.digest == entry.digest else None


def accept(path: Path, store: Path, folder: Path) -> Trusted:
    """Trust a project's file as it is now, and keep that content; ConfigError: cannot be read, or changed meanwhile."""
    kept = read_trusted(path)[1]
    entry = trust(path, store)
    if entry.digest != kept.digest:
        untrust(path, store)
        raise ConfigError("the files changed while they were read, so they are not trusted", file=str(path))
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
        path=os.path.realpath(path), files={name: Copy(text=text) for name, text in texts.items()}, digest=digest,
        contents=to_document(file), scripts=scripts,
    )  # fmt: skip
    return file, kept


def project_state(path: Path, store: Path) -> tuple[str, str]:
    """What was trusted of a project's file, and what it is now, as digests; nothing is read where nobody trusts it."""
    entry = _entry(path, store)
    return ("", "") if entry is None else (entry.digest, digest_now(path))


def digest_now(path: Path) -> str:
    """The digest of a project's file as it is; empty where it cannot be read."""
    try:
        return content_digest(path)
    except ConfigError:
        return ""


def _entry(path: Path, store: Path) -> Trusted | None:
    try:
        return next((one for one in listed(store) if one.path == os.path.realpath(path)), None)
    except ConfigError as error:
        log.error("%s; no project is trusted", error)
        return None


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
