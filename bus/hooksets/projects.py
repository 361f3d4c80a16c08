"""Which content of a project's hook file is in force: the content that the user trusted.

It stays in force until the user trusts newer content or withdraws the trust. The scripts that trusted hooks name are pinned
by content: a changed script does not run (`hooksets/pins.py`).
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
from bus.hooksets.last_good import Copy, Kept, forget, kept_file, locked, read_kept, write_kept
from bus.hooksets.named_files import named_files
from bus.hooksets.pins import script_digest
from bus.hooksets.trust import (
    GONE,
    LOST,
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
"""The text of a script up to this many characters is kept, so that a change of it can be shown."""


def project_in_force(path: Path, store: Path, folder: Path | None, known: Kept | None = None) -> FileInForce:
    """The trusted content of a project's file; nothing if the user does not trust it.

    `known` is the trusted content as this process knows it; it counts, and is kept again, if the kept copy is lost.
    """
    entry = trusted_entry(path, store)
    if entry is None:
        return FileInForce(HookFile(), sources=_sources(path, store, folder))
    digest = digest_now(path)
    kept = trusted_content(path, entry, folder, known)
    if digest == entry.digest:
        file, new = read_trusted(path)
        if new.digest != entry.digest or digest_now(path) != digest:  # it changed meanwhile: the next check reads it
            again = (Source(str(path), NOTHING),)
            return FileInForce(HookFile(), sources=again) if kept is None else _as_kept(path, store, folder, kept)
        if trusted_content(path, entry, folder) is None:
            _keep(folder, new)
        rejected = tuple(left_out(file, new.files_text()))
        return FileInForce(file, rejected, new.files_text(), (*_sources(path, store, folder), *file.sources), new)
    if kept is None:
        lost = changed_since_trust(path, digest, LOST)
        return FileInForce(HookFile(), (lost,), sources=_sources(path, store, folder))
    if trusted_content(path, entry, folder) is None:
        _keep(folder, kept)
    found = _as_kept(path, store, folder, kept)
    return found if found.rejected else found._replace(rejected=(changed_since_trust(path, digest),))


def _as_kept(path: Path, store: Path, folder: Path | None, kept: Kept) -> FileInForce:
    """The trusted content, without reading the project."""
    try:
        file = from_document(kept.contents or {}, layer="project")
    except ConfigError as error:
        log.error("%s: the kept trusted content cannot be read: %s", path, error)
        return FileInForce(HookFile(), (changed_since_trust(path, "", LOST),), sources=_sources(path, store, folder))
    return FileInForce(file, (), kept.files_text(), _sources(path, store, folder), kept)


def changed_since_trust(path: Path, digest: str, meanwhile: str = "") -> Rejected:
    """The message about a project's file that changed since the user trusted it, and what is in force `meanwhile`."""
    if is_gone(path):
        reason, rest = GONE.split("; ", 1)
        return Rejected(str(path), digest, (ConfigError(reason, file=str(path)),), meanwhile or rest)
    problem = ConfigError("the file, or one that it names, changed since it was trusted", file=str(path), line=1)
    return Rejected(str(path), digest, (problem,), meanwhile or WAITS)


def trusted_content(path: Path, entry: Trusted, folder: Path | None, known: Kept | None = None) -> Kept | None:
    """The trusted content as it was kept; None if it was not kept."""
    kept = (read_kept(folder, Path(os.path.realpath(path))) if folder is not None else None) or known
    return kept if kept is not None and kept.digest == entry.digest else None


def accept(path: Path, store: Path, folder: Path, digest: str = "") -> Trusted:
    """Trust a project's file as it is now, and keep that content; `digest` is of the content that a person has seen.

    Raises ConfigError, and changes nothing, if the file cannot be read or changed meanwhile.
    """
    kept = read_trusted(path)[1]
    if digest_now(path) != kept.digest or (digest and digest != kept.digest):
        raise ConfigError("the files changed while they were shown, so they are not trusted", file=str(path))
    # First the trust: a process that reads between the two steps uses the file, whose content is the same.
    entry = trust(path, store, kept.digest)
    _keep(folder, kept)
    for other in listed(store):  # withdraw the trust in a file of the same folder that is gone: this file replaces it
        if os.path.dirname(other.path) == os.path.dirname(entry.path) and is_gone(other.path):
            withdraw_trust(Path(other.path), store, folder)
    return entry


def withdraw_trust(path: Path, store: Path, folder: Path) -> bool:
    """Withdraw the trust and forget the trusted content; returns whether there was any."""
    was_trusted = untrust(path, store)  # first: who still sees the trust keeps its content
    forget(folder, Path(os.path.realpath(path)))
    return was_trusted


def read_trusted(path: Path) -> tuple[HookFile, Kept]:
    """A project's file with its scripts pinned as they are now, and the contents to keep once the file is trusted."""
    digest = content_digest(path)
    with reading_as({}) as texts:
        file = load_hook_file(path, "project")
    folder = os.path.realpath(path.parent)
    hooks = tuple(_pinned(hook, folder) for hook in file.hooks)
    plugins = tuple(msgspec.structs.replace(plugin, sha256=script_digest(plugin.path)) for plugin in file.plugins)
    file = replace(file, hooks=hooks, plugins=plugins).with_digest()
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
    """The digests of a project's file: as it was trusted, and as it is now. Both empty if the user does not trust it."""
    entry = trusted_entry(path, store)
    return ("", "") if entry is None else (entry.digest, digest_now(path))


def digest_now(path: Path) -> str:
    """The digest of a project's file as it is now; empty if it cannot be read."""
    try:
        return content_digest(path)
    except ConfigError:
        return ""


def _sources(path: Path, store: Path, folder: Path | None) -> tuple[Source, ...]:
    """The file, the list of trusted projects, and the file that keeps the trusted content."""
    kept = () if folder is None else (kept_file(folder, Path(os.path.realpath(path))),)
    return tuple(Source(str(name), stamp(name)) for name in (path, store, *kept))


def _pinned(hook: Hook, folder: str) -> Hook:
    if not hook.command:
        return hook
    return msgspec.structs.replace(hook, pins={name: script_digest(name) for name in named_files(hook, folder)})


def _text(path: str) -> str | None:
    """A script's text, for the diff; None if it is not text or is too long."""
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
        log.error("%s; only this process has the trusted content, for the time after the project changes", error)
