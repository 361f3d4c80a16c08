"""Qwen Code: `hooks` in its settings files, in groups; timeouts in milliseconds (checked with 0.24.4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.installs import Canary, Program, Scope, Trouble, Where, understanding
from bus.installs.forms import Hook, JsonHooks
from bus.installs.layers import folder_trust, json_layers, switched, unreadable


def _entry(hook: Hook) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "name": "fleethook", "command": hook.command, "timeout": hook.timeout}]}


def _folder(where: Where) -> Path:
    return where.moved("QWEN_HOME", ".qwen")


def _troubles(where: Where, scope: Scope) -> Iterator[Trouble]:
    named = where.environ.get("QWEN_CODE_SYSTEM_SETTINGS_PATH", "")
    machine = Path(named) if named else where.machine(
        "/etc/qwen-code/settings.json", "/Library/Application Support/QwenCode/settings.json"
    )  # fmt: skip
    paths = [machine, where.project / ".qwen/settings.json", _folder(where) / "settings.json"]
    layers = json_layers([*paths, machine.with_name("system-defaults.json")], comments=True)
    yield from unreadable(layers)
    yield from switched(layers, ("disableAllHooks",))
    asks = any(layer.at("security", "folderTrust", "enabled") is True for layer in layers)
    if scope == "project" and asks:
        trusted = folder_trust(_folder(where) / "trustedFolders.json", where.project)
        if not trusted:
            yield Trouble(
                f"the folder {where.project} is not trusted by Qwen Code, which then reads no hooks there",
                "start qwen in it and trust the folder", sure=trusted is False,
            )  # fmt: skip


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "session_id": f"fleethook-doctor-{token}", "transcript_path": "", "cwd": str(cwd),
        "hook_event_name": "PreToolUse", "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "permission_mode": "default", "prompt_id": f"fleethook-{token}", "tool_name": "run_shell_command",
        "tool_input": {"command": command, "description": "fleethook doctor: nothing runs this"},
        "tool_use_id": f"toolu_fleethook_{token}", "tool_call_id": f"call_fleethook_{token}",
    }  # fmt: skip
    return Canary("PreToolUse", payload, {"QWEN_PROJECT_DIR": str(cwd)})


PROGRAM: Final = Program(
    name="qwen",
    label="Qwen Code",
    binaries=("qwen",),
    form=JsonHooks(agent="qwen", entry=_entry, unit="ms", comments=True, deaf=frozenset({"PermissionRequest"})),
    places={
        "user": lambda where: _folder(where) / "settings.json",
        "project": lambda where: where.project / ".qwen/settings.json",
    },
    canary=_canary,
    understood=understanding.qwen,
    folder=_folder,
    troubles=_troubles,
)
