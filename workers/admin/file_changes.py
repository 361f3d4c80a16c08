"""Compares each file of an agent before and after an install or uninstall, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from bus.installs import find, place
from bus.installs.base import InstalledCommand, InstallScope, Program, Scope
from bus.installs.manifest import FileChange, InstallPlan, read, real

FileState = Literal["new", "changed", "unchanged", "removed"]

_Commands = Mapping[str, InstalledCommand]
"""Our hook commands in one file, by event."""

_EVENT_STATES: Final = ("added", "updated", "removed", "kept")


class FileSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file, and the events whose hook commands are added, updated, removed or kept in it."""

    path: str
    """The file; the folder where the agent has a file for each event."""
    state: FileState
    files: int = 1
    """How many files: more than one only in a folder that has a file for each event."""
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def install_changes(plan: InstallPlan, scope: Scope, where: InstallScope) -> tuple[FileSummary, ...]:
    """Every file of this scope that holds our hooks before or after the install."""
    program = find(plan.agent)
    return _by_file(program, plan, map(real, program.form.files(place(program, scope, where))))


def uninstall_changes(plan: InstallPlan) -> tuple[FileSummary, ...]:
    """Every file that the uninstall changes."""
    return _by_file(find(plan.agent), plan, (change.path for change in plan.changes))


def event_names(files: Iterable[FileSummary]) -> dict[str, list[str]]:
    """The events of all these files under `added`, `updated`, `removed` and `kept`."""
    found = list(files)
    return {state: [event for file in found for event in getattr(file, state)] for state in _EVENT_STATES}


def _by_file(program: Program, plan: InstallPlan, paths: Iterable[Path]) -> tuple[FileSummary, ...]:
    planned = {change.path: change for change in plan.changes}
    found: dict[Path, FileSummary] = {}
    for path in paths:
        change = planned.get(path) or _unchanged(path)
        before, after = _calls(program, path, change.before), _calls(program, path, change.after)
        if before or after:
            shown = path.parent if program.form.whole and path.name in {*before, *after} else path
            summary = _compared(str(shown), change, before, after)
            found[shown] = _joined(found[shown], summary) if shown in found else summary
    return tuple(found.values())


def _unchanged(path: Path) -> FileChange:
    raw = read(path)
    return FileChange(path, raw, raw)


def _calls(program: Program, path: Path, raw: bytes | None) -> _Commands:
    return {call.event: call for call in program.form.calls(path, raw)} if raw is not None else {}


def _compared(shown: str, change: FileChange, before: _Commands, after: _Commands) -> FileSummary:
    both = [event for event in after if event in before]
    updated = [event for event in both if before[event] != after[event]]
    if change.before != change.after and not updated and before.keys() == after.keys():
        updated = both  # what changed is around the commands: a matcher, a script's other lines
    return FileSummary(
        path=shown,
        state=_state(change),
        added=tuple(event for event in after if event not in before),
        updated=tuple(updated),
        removed=tuple(event for event in before if event not in after),
        kept=tuple(event for event in both if event not in updated),
    )


def _state(change: FileChange) -> FileState:
    if change.before is None:
        return "new"
    return "removed" if change.after is None else "unchanged" if change.before == change.after else "changed"


def _joined(summary: FileSummary, other: FileSummary) -> FileSummary:
    """The summary of two files of a folder that has a file for each event."""
    return FileSummary(
        path=summary.path,
        state=summary.state if summary.state == other.state else "changed",
        files=summary.files + other.files,
        added=summary.added + other.added,
        updated=summary.updated + other.updated,
        removed=summary.removed + other.removed,
        kept=summary.kept + other.kept,
    )
