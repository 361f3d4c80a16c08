"""Cursor: a hooks.json of its own, version 1, handlers one after another (documented, August 2026)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, Program
from bus.installs.json_settings import JsonHooks, SettingsHook


def _entry(hook: SettingsHook) -> dict[str, Any]:
    """`failClosed` is Cursor's own switch for a hook that fails or takes too long."""
    closed = {"failClosed": True} if hook.closed else {}
    return {"command": hook.command, "timeout": hook.timeout, **closed}


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "conversation_id": f"fleethook-doctor-{token}",
        "generation_id": f"fleethook-{token}",
        "model": "default",
        "hook_event_name": "beforeShellExecution",
        "cursor_version": "0",
        "workspace_roots": [str(cwd)],
        "user_email": "",
        "transcript_path": None,
        "command": command,
        "cwd": str(cwd),
    }
    return Canary("beforeShellExecution", payload, {"CURSOR_PROJECT_DIR": str(cwd)})


PROGRAM: Final = Program(
    name="cursor",
    label="Cursor",
    binaries=("cursor", "cursor-agent"),
    form=JsonHooks(agent="cursor", entry=_entry, base={"version": 1}),
    places={
        "user": lambda where: where.home / ".cursor/hooks.json",
        "project": lambda where: where.project / ".cursor/hooks.json",
    },
    canary=_canary,
    understood=block_check.flat("permission", "agent_message", "user_message"),
    folder=lambda where: where.home / ".cursor",
    steps=("Cursor reads hooks.json when a window opens; hooks of a project run only where the folder is trusted",),
)
