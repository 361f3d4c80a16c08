"""Edits of hook files and of the published set: shows the diff, asks, then writes or publishes."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workers.cli.common import Context
from workers.cli.guard_reports import report_file_change, set_change
from workers.cli.hooks.sets import redacted, shown_diff

if TYPE_CHECKING:  # what a command needs it imports itself, so that `--help` stays fast
    from bus.hooksets.hookfile import HookFile
    from bus.wire.connections import Connections
    from workers.admin.endpoint_edit import Edited


def user_file(fleet: Context, file: Path | None = None) -> Path:
    """The hook file to edit: `file`, else the user's, which may not exist yet."""
    from bus.system.directories import config_file

    config = fleet.directories().config
    return file.absolute() if file is not None else config_file(config) or config / "fleethook.yaml"


def published_set(fleet: Context) -> tuple[HookFile, int]:
    """The published set that is in force, and its version."""
    from bus.hooksets.published import current_version, load_version

    async def work(connections: Connections) -> tuple[HookFile, int]:
        version = await current_version(connections, fleet.keys())
        return await load_version(connections, fleet.keys(), version), version

    return fleet.run(work)


def write_change(
    fleet: Context, edited: Edited, yes: bool, dry_run: bool, *, before: Callable[[], object] | None = None
) -> dict[str, Any]:
    """Show the change of a file, ask, and write it; `before` is called after the answer yes, before the file is written."""
    from bus.config.edit_add import replace_file

    name = str(edited.file)
    lines = difflib.unified_diff(
        edited.before.splitlines(keepends=True), edited.after.splitlines(keepends=True), name, name
    )
    changes = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    go_on = _confirm_change(fleet, changes, f"Write {name}?", yes, dry_run)
    if go_on:
        if before is not None:
            before()
        replace_file(edited.file, edited.after, before=lambda written: _report_file(fleet, edited, written))
    return {"file": name, "diff": redacted(changes), "written": go_on}


def publish_change(
    fleet: Context,
    change: Callable[[HookFile], HookFile],
    message: str,
    yes: bool,
    dry_run: bool,
    known: tuple[HookFile, int] | None = None,
) -> dict[str, Any]:
    """Show the change of the published set (`known`, or as it is now), ask, and publish it."""
    from bus.hooksets.published import apply, diff

    before, version = known or published_set(fleet)
    after = change(before)
    changes = diff(before, after, (f"version {version}", "new"))
    go_on = _confirm_change(fleet, changes, "Publish it to the fleet?", yes, dry_run)
    lost = set_change(message, before, after) if go_on else None
    now = (
        fleet.run(
            lambda connections: apply(connections, fleet.keys(), after, message=message, expected=version, change=lost)
        )
        if go_on
        else version
    )
    return {"version": now, "before": version, "diff": redacted(changes), "written": go_on}


def _report_file(fleet: Context, edited: Edited, written: Path) -> None:
    from bus.errors import ConfigError
    from bus.hooksets.hookfile import parse_hook_file

    try:
        before = parse_hook_file(edited.before, "user", file=str(edited.file))
    except ConfigError:
        return  # the file could not be read before the edit; workers compare it with what was in force
    report_file_change(fleet, click.get_current_context().command_path, edited.file, before, edited.read, written)


def _confirm_change(fleet: Context, changes: str, question: str, yes: bool, dry_run: bool) -> bool:
    if not changes:
        fleet.say("nothing to change: it has these values already")
        return False
    if not fleet.json:
        fleet.data(shown_diff(fleet, changes))
    if dry_run:
        return False
    if fleet.confirm(question, yes):
        return True
    fleet.say("nothing was changed")
    return False
