"""Gemini CLI: `hooks` in its settings files, in groups; timeouts in milliseconds (checked with 0.61.0)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, InstallProblem, InstallScope, Program, Scope
from bus.installs.json_settings import JsonHooks, SettingsHook
from bus.installs.settings_layers import Layer, folder_trust, json_layers, switched, unreadable

HOOK: Final = "fleethook"
"""The name that the agent shows, and with which a person can disable our hook."""


def _entry(hook: SettingsHook) -> dict[str, Any]:
    return {"hooks": [{"name": HOOK, "type": "command", "command": hook.command, "timeout": hook.timeout}]}


def _folder(where: InstallScope) -> Path:
    return where.moved("GEMINI_CLI_HOME", ".") / ".gemini"


def _layers(where: InstallScope) -> tuple[Layer, ...]:
    """Every settings file, the strongest first."""
    named = where.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "")
    machine = (
        Path(named)
        if named
        else where.machine("/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json")
    )
    paths = [machine, where.project / ".gemini/settings.json", _folder(where) / "settings.json"]
    return json_layers([*paths, machine.with_name("system-defaults.json")], comments=True)


def _troubles(where: InstallScope, _scope: Scope) -> Iterator[InstallProblem]:
    layers = _layers(where)
    yield from unreadable(layers)
    # Older versions read `hooks.enabled` and `tools.enableHooks`.
    for names in (("hooksConfig", "enabled"), ("hooks", "enabled"), ("tools", "enableHooks")):
        yield from switched(layers, names, off=False)
    for layer in layers:
        for names in (("hooksConfig", "disabled"), ("hooks", "disabled")):
            listed = layer.at(*names)
            if isinstance(listed, list) and HOOK in listed:
                what = f"{layer.path}: `{'.'.join(names)}` names {HOOK!r}, so ours do not run"
                yield InstallProblem(what, "`/hooks enable fleethook` in gemini")
    yield from _folder_trouble(where, layers)


def _folder_trouble(where: InstallScope, layers: tuple[Layer, ...]) -> Iterator[InstallProblem]:
    """In a folder that is not trusted, no hook runs, not even the user's own (observed)."""
    said = where.environ.get("GEMINI_CLI_TRUST_WORKSPACE", "")
    off = next(
        (value for layer in layers if (value := layer.at("security", "folderTrust", "enabled")) is not None), True
    )
    if said == "true" or (said != "false" and off is False):
        return
    trusted = False if said == "false" else folder_trust(_folder(where) / "trustedFolders.json", where.project)
    if trusted:
        return
    what = "is not trusted by Gemini CLI" if trusted is False else "has not been shown to Gemini CLI yet"
    yield InstallProblem(
        f"the folder {where.project} {what}, and without its trust no hook runs there",
        "start gemini in it and trust the folder, or set GEMINI_CLI_TRUST_WORKSPACE=true",
        sure=trusted is False,
    )


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "session_id": f"fleethook-doctor-{token}",
        "transcript_path": "",
        "cwd": str(cwd),
        "hook_event_name": "BeforeTool",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "tool_name": "run_shell_command",
        "tool_input": {"command": command, "description": "fleethook doctor: nothing runs this"},
    }
    return Canary("BeforeTool", payload, {"GEMINI_PROJECT_DIR": str(cwd), "GEMINI_CWD": str(cwd)})


PROGRAM: Final = Program(
    name="gemini",
    label="Gemini CLI",
    binaries=("gemini",),
    form=JsonHooks(agent="gemini", entry=_entry, unit="ms", comments=True),
    places={
        "user": lambda where: _folder(where) / "settings.json",
        "project": lambda where: where.project / ".gemini/settings.json",
    },
    canary=_canary,
    understood=block_check.gemini,
    folder=_folder,
    troubles=_troubles,
    steps=("Gemini CLI runs hooks only in folders that you trust: it asks when it starts in one",),
)
