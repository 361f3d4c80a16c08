"""Applies and undoes planned changes of files, with backups and a record of each file before and after."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.config.edit_json import read_text
from bus.errors import ConfigError

MANIFEST: Final = "installed.json"
"""The folder in the state directory with each file's earlier content, so that the undo is exact."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The content of one file before and after a change; None if it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644
    """The mode of a new file; an existing file keeps its mode."""
    ours: bool = False
    """It had entries of ours before."""
    events: tuple[str, ...] = ()
    """The events of our hook commands in the file after an install."""
    copy: bool = False
    """Keep a copy beside the file, since a person changed what is removed."""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """The changes of an install or uninstall; empty if the files are already as wanted."""

    agent: str
    changes: tuple[FileChange, ...]
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """Steps that only a person can do."""


class Record:
    """The record of one file that an install wrote."""

    __slots__ = ("agent", "backup", "chosen", "created", "events", "exact", "folders", "written")

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Reads a record that `as_json` wrote; missing fields count as unknown."""
        self.agent = str(given.get("agent", ""))
        self.backup = Path(given["backup"]) if given.get("backup") else None
        self.created = bool(given.get("created"))
        self.exact = bool(given.get("exact"))
        """It had no entries of ours before, so its old content is the undo."""
        self.folders = [Path(name) for name in given.get("folders", ())]
        """The folders that were made for it, the outermost first."""
        self.written = str(given.get("written", ""))
        self.events = [str(name) for name in given.get("events", ())]
        """The events that the last install wrote into it; older installs did not record them."""
        self.chosen = [str(name) for name in given.get("chosen", ())]
        """What `--events` named at an install, which later installs keep; empty: the default events."""

    def as_json(self) -> dict[str, Any]:
        """The record as plain data."""
        return {
            "agent": self.agent,
            "backup": str(self.backup) if self.backup else None,
            "created": self.created,
            "exact": self.exact,
            "folders": [str(folder) for folder in self.folders],
            "written": self.written,
            "events": self.events,
            "chosen": self.chosen,
        }

    def is_as_written(self, current: bytes) -> bool:
        """Whether the file is unchanged since."""
        return self.written == _digest(current)


def records(state: Path) -> dict[Path, Record]:
    """The record of every written file, by its path; raises ConfigError if the manifest cannot be read."""
    raw = read(state / MANIFEST)
    found = read_text(raw, file=str(state / MANIFEST))[1] if raw is not None else {}
    return {Path(name): Record(given) for name, given in found.items() if isinstance(given, dict)}


def apply(plan: InstallPlan, state: Path, *, now: datetime | None = None) -> tuple[Path, ...]:
    """Carry out an install's plan and return the backups; raises ConfigError if a file changed meanwhile."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    known, backups = records(state), []
    for change in plan.changes:
        _unchanged(change)
        record = known.get(change.path)
        if change.after is None:
            _remove(change.path)
            known.pop(change.path, None)
            _save(state, known)
            continue
        if record is None or change.before is None or not record.is_as_written(change.before):
            record = Record({"agent": plan.agent, "created": change.before is None})
            if change.before is not None:
                record.backup = _backup(change.path, change.before, stamp)
                backups.append(record.backup)
            record.exact = not change.ours
            record.folders = _missing(change.path.parent)
        # The manifest first: after a crash in between, the file differs from its record, and an undo removes only our entries.
        record.written = _digest(change.after)
        record.events = list(change.events)
        known[change.path] = record
        _save(state, known)
        _write(change.path, change.after, mode=change.mode)
    return tuple(backups)


def record_events(state: Path, events: Mapping[Path, tuple[str, ...]], chosen: Sequence[str] | None = None) -> None:
    """Record the events of files that are as an install wants them, and what it named (None: as before); others keep theirs."""
    known, differs = records(state), False
    for path, names in events.items():
        if (record := known.get(path)) is not None:
            named = record.chosen if chosen is None else list(chosen)
            differs = differs or (record.events, record.chosen) != (list(names), named)
            record.events, record.chosen = list(names), named
    if differs:
        _save(state, known)


def undo(plan: InstallPlan, state: Path, *, now: datetime | None = None) -> tuple[Path, ...]:
    """Carry out an uninstall's plan, forget its files, and return the copies of our files that the user had changed.

    Raises ConfigError if a file changed meanwhile.
    """
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    known, folders, copies = records(state), [], []
    for change in plan.changes:
        _unchanged(change)
        record = known.pop(change.path, Record({}))
        if change.after is None:
            if change.copy and change.before is not None:
                copies.append(_backup(change.path, change.before, stamp))
            _remove(change.path)
            folders += record.folders
        else:
            _write(change.path, change.after)
        if record.backup is not None and read(record.backup) == change.after:
            record.backup.unlink()
        _save(state, known)
    for folder in sorted(set(folders), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):  # the folder is not empty any more
            folder.rmdir()
    others = {path: record for path, record in known.items() if record.agent != plan.agent}
    if len(others) != len(known):  # files that are gone, or hold nothing of ours any more
        _save(state, others)
    return tuple(copies)


def read(path: Path) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def real(path: Path) -> Path:
    """The path with links resolved: writing to it keeps the link."""
    return Path(os.path.realpath(path))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _unchanged(change: FileChange) -> None:
    if read(change.path) != change.before:
        raise ConfigError("changed meanwhile", file=str(change.path), hint="run the command again; it was not touched")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _missing(folder: Path) -> list[Path]:
    """The missing folders above this file, the outermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def _save(state: Path, known: Mapping[Path, Record]) -> None:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({str(path): record.as_json() for path, record in known.items()}, indent=1)
    _write(state / MANIFEST, text.encode(), mode=0o600)


def _backup(path: Path, raw: bytes, stamp: str) -> Path:
    """Copy the file beside itself, with its mode, under an unused name; returns the copy's path."""
    for again in range(1000):
        backup = path.with_name(f"{path.name}.fleethook-backup-{stamp}{f'-{again}' if again else ''}")
        if not backup.exists():
            _write(backup, raw, mode=path.stat().st_mode & 0o7777)
            return backup
    raise ConfigError("no free name for a backup", file=str(path), hint="remove old *.fleethook-backup-* files")


def _write(path: Path, raw: bytes, *, mode: int = 0o644) -> None:
    """Write the file in one step, with its present mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        mode = path.stat().st_mode & 0o7777
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
