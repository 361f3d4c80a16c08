"""Windsurf (Cascade): a hooks.json of its own, handlers one after another, without timeouts (documented, 2026)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, Program
from bus.installs.json_settings import JsonHooks, SettingsHook


def _entry(hook: SettingsHook) -> dict[str, Any]:
    return {"command": hook.command, "show_output": False}


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "agent_action_name": "pre_run_command",
        "trajectory_id": f"fleethook-doctor-{token}",
        "execution_id": f"fleethook-{token}",
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        "tool_info": {"command_line": command, "cwd": str(cwd)},
    }
    return Canary("pre_run_command", payload, {"ROOT_WORKSPACE_PATH": str(cwd)})


PROGRAM: Final = Program(
    name="windsurf",
    label="Windsurf",
    binaries=("windsurf",),
    form=JsonHooks(agent="windsurf", entry=_entry, timeout=""),
    places={
        "user": lambda where: where.home / ".codeium/windsurf/hooks.json",
        "project": lambda where: where.project / ".windsurf/hooks.json",
    },
    canary=_canary,
    understood=block_check.by_exit_code,
    folder=lambda where: where.home / ".codeium/windsurf",
    steps=("Windsurf reads hooks.json when it starts",),
)
