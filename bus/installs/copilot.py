"""Copilot CLI: a file of our own in its folder of hook files, handlers one after another (documented, August 2026)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, InstallProblem, InstallScope, Program, Scope
from bus.installs.http_hooks import HttpForm
from bus.installs.json_settings import JsonHooks, SettingsHook
from bus.installs.settings_layers import json_layers, switched, unreadable

FILE: Final = "fleethook.json"
HTTP: Final = HttpForm(timeout="timeoutSec", tls=True)


def _entry(hook: SettingsHook) -> dict[str, Any]:
    if hook.http is not None:
        return dict(hook.http)
    return {"type": "command", "bash": hook.command, "timeoutSec": hook.timeout}


def _folder(where: InstallScope) -> Path:
    return where.moved("COPILOT_HOME", ".copilot")


def _troubles(where: InstallScope, scope: Scope) -> Iterator[InstallProblem]:
    layers = json_layers(
        [
            PROGRAM.places[scope](where),
            where.project / ".github/copilot/settings.local.json",
            where.project / ".github/copilot/settings.json",
            _folder(where) / "settings.json",
        ],
        comments=True,
    )
    yield from unreadable(layers)
    yield from switched(layers, ("disableAllHooks",))


def _canary(cwd: Path, token: str, command: str) -> Canary:
    asked = {"command": command, "description": "fleethook doctor: nothing runs this"}
    payload = {
        "sessionId": f"fleethook-doctor-{token}",
        "timestamp": int(datetime.now(UTC).timestamp() * 1000),
        "cwd": str(cwd),
        "toolName": "bash",
        "toolArgs": json.dumps(asked),
    }
    return Canary("preToolUse", payload)


PROGRAM: Final = Program(
    name="copilot",
    label="Copilot CLI",
    binaries=("copilot",),
    form=JsonHooks(agent="copilot", entry=_entry, timeout="timeoutSec", base={"version": 1}, comments=True, http=HTTP),
    http=HTTP,
    places={
        "user": lambda where: _folder(where) / "hooks" / FILE,
        "project": lambda where: where.project / ".github/hooks" / FILE,
    },
    canary=_canary,
    understood=block_check.flat("permissionDecision", "permissionDecisionReason"),
    folder=_folder,
    troubles=_troubles,
    steps=("Copilot CLI reads a repository's hooks only in folders that you trust",),
)
