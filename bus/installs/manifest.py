"""Planned changes of files carried out and taken back: backups, what was written, and what stood there before."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.config.edit_json import read_text
from bus.errors import ConfigError

MANIFEST: Final = "installed.json"
"""In the state directory: what stood in each file before, so that the undo is exact."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as it is and as it will be; None where it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644
    """Of a file that is made; one that exists keeps its own."""
    ours: bool = False
    """Something of ours stood in it before."""
    events: tuple[str, ...] = ()
    """The events of our hook commands in it after an install."""
    copy: bool = False
    """A copy stays beside it, since people have changed what goes."""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What an install or uninstall would do; no changes where all is as it should be."""

    agent: str
    changes: tuple[FileChange, ...]
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """What is left to the person."""


class Record:
    """What is known of one file that was written."""

    __slots__ = ("agent", "backup", "created", "events", "exact", "folders", "written")

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Reads a record as `as_json` wrote it; what is missing is taken as unknown."""
        self.agent = str(given.get("agent", ""))
        self.backup = Path(given["backup"]) if given.get("backup") else None
        self.created = bool(given.get("created"))
        self.exact = bool(given.get("exact"))
        """There was nothing of ours in it before, so the old bytes are the undo."""
        self.folders = [Path(name) for name in given.get("folders", ())]
        """That were made for it, the outermost first."""
        self.written = str(given.get("written", ""))
        self.events = [str(name) for name in given.get("events", ())]
        """That the last install wrote into it; older installs did not record them."""

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
        }

    def is_as_written(self, current: bytes) -> bool:
        """Whether nobody has changed the file since."""
        return self.written == _digest(current)


def records(state: Path) -> dict[Path, Record]:
    """Every file that was written, by its path; ConfigError where the list cannot be read."""
    raw = read(state / MANIFEST)
    found = read_text(raw, file=str(state / MANIFEST))[1] if raw is not None else {}
    return {Path(name): Record(given) for name, given in found.items() if isinstance(given, dict)}


def apply(plan: InstallPlan, state: Path, *, now: datetime | None = None) -> tuple[Path, ...]:
    """Do what an install planned and return the backups made; ConfigError where a file changed meanwhile."""
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
        # The list first: a crash between the two leaves a file that is not as written, where only our entries go.
        record.written = _digest(change.after)
        record.events = list(change.events)
        known[change.path] = record
        _save(state, known)
        _write(change.path, change.after, mode=change.mode)
    return tuple(backups)


def record_events(state: Path, events: Mapping[Path, tuple[str, ...]]) -> None:
    """Record what was chosen for files that are as an install wants them already; others are left alone."""
    known = records(state)
    differing = {path: names for path, names in events.items() if path in known and known[path].events != list(names)}
    for path, names in differing.items():
        known[path].events = list(names)
    if differing:
        _save(state, known)


def undo(plan: InstallPlan, state: Path, *, now: datetime | None = None) -> tuple[Path, ...]:
    """Do what an uninstall planned, forget the files, and return copies of what people had changed in files of ours.

    ConfigError where one changed meanwhile.
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
        with contextlib.suppress(OSError):  # somebody keeps something there by now
            folder.rmdir()
    others = {path: record for path, record in known.items() if record.agent != plan.agent}
    if len(others) != len(known):  # files that are gone, or hold nothing of ours any more
        _save(state, others)
    return tuple(copies)


def read(path: Path) -> bytes | None:
    """What stands in a file; None where there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def real(path: Path) -> Path:
    """The file behind links, so that a link stays one."""
    return Path(os.path.realpath(path))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _unchanged(change: FileChange) -> None:
    if read(change.path) != change.before:
        raise ConfigError("changed meanwhile", file=str(change.path), hint="run the command again; it was not touched")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _missing(folder: Path) -> list[Path]:
    """The folders that have to be made for this one, the outermost first."""
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
    """A copy beside the file, with its mode, under a name that nothing has yet."""
    for again in range(1000):
        backup = path.with_name(f"{path.name}.fleethook-backup-{stamp}{f'-{again}' if again else ''}")
        if not backup.exists():
            _write(backup, raw, mode=path.stat().st_mode & 0o7777)
            return backup
    raise ConfigError("no free name for a backup", file=str(path), hint="remove old *.fleethook-backup-* files")


def _write(path: Path, raw: bytes, *, mode: int = 0o644) -> None:
    """Whole or not at all, with the mode that the file has."""
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
