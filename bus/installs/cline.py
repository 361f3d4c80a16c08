"""Cline: one script for each event, in a folder of its own (documented, August 2026)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bus.agents import find
from bus.errors import ConfigError
from bus.installs import block_check
from bus.installs.base import Canary, InstalledCommand, InstallProblem, InstallScope, Program, Scope, never_events
from bus.installs.hook_command import Setup, hook_command, is_closed, is_ours

_HEAD: Final = "#!/bin/sh\n# Written by `fleethook install`, removed by `fleethook uninstall`.\n"


class Scripts:
    """One file for each event, with the event's name."""

    mode, whole = 0o755, True

    def files(self, place: Path) -> tuple[Path, ...]:
        """A script for each event that Cline has."""
        return tuple(place / event for event in find("cline").capabilities)

    def written(self, path: Path, before: bytes | None, setup: Setup) -> bytes | None:
        """The script of this event; raises ConfigError if another script has its name, since Cline runs only one."""
        wanted = path.name in setup.events and path.name not in never_events("cline")
        if before is not None and not self.calls(path, before):
            if not wanted:
                return before
            raise ConfigError(
                "is a script of another program, and Cline runs only one for each event",
                file=str(path),
                hint=f"leave {path.name} out with --events, or let that script run from fleethook.yaml",
            )
        return f"{_HEAD}{hook_command(setup, 'cline', path.name, deaf=True)}\n".encode() if wanted else None

    def cleaned(self, path: Path, current: bytes, original: bytes | None, *, created: bool) -> bytes | None:  # noqa: ARG002 - the protocol's arguments
        """None for our script; other scripts unchanged."""
        return None if self.calls(path, current) else current

    def calls(self, path: Path, raw: bytes) -> tuple[InstalledCommand, ...]:
        """The script itself is the command; Cline's files have no timeout."""
        text = raw.decode("utf-8", "replace")
        return (
            (InstalledCommand(path.name, str(path), closed=is_closed(text.removeprefix(_HEAD))),)
            if is_ours(text)
            else ()
        )


def _troubles(where: InstallScope, scope: Scope) -> Iterator[InstallProblem]:
    """Cline disables a hook by removing its execute permission."""
    for path in PROGRAM.form.files(PROGRAM.places[scope](where)):
        try:
            ours = PROGRAM.form.calls(path, path.read_bytes())
        except OSError:
            continue
        if ours and not path.stat().st_mode & 0o100:
            yield InstallProblem(
                f"{path} may not be run, which is how Cline switches a hook off", "switch it on in Cline"
            )


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "clineVersion": "",
        "hookName": "PreToolUse",
        "timestamp": str(int(datetime.now(UTC).timestamp() * 1000)),
        "taskId": f"fleethook-doctor-{token}",
        "workspaceRoots": [str(cwd)],
        "userId": "",
        "preToolUse": {"toolName": "execute_command", "parameters": {"command": command, "requires_approval": "true"}},
    }
    return Canary("PreToolUse", payload)


PROGRAM: Final = Program(
    name="cline",
    label="Cline",
    binaries=("cline",),
    form=Scripts(),
    places={
        "user": lambda where: where.home / "Documents/Cline/Hooks",
        "project": lambda where: where.project / ".clinerules/hooks",
    },
    canary=_canary,
    understood=block_check.cancelling,
    folder=lambda where: where.home / ".cline",
    troubles=_troubles,
    steps=("Cline runs hooks only where they are switched on in its settings (Hooks)",),
    runs=lambda _path, command: (command,),
)
