"""Qwen Code: `hooks` in its settings files, in groups; timeouts in milliseconds (checked with 0.24.4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, InstallProblem, InstallScope, Program, Scope
from bus.installs.hook_command import is_ours
from bus.installs.http_checks import http_problems
from bus.installs.http_hooks import HttpForm, HttpHooks, read_handler
from bus.installs.json_settings import JsonHooks, SettingsHook
from bus.installs.settings_layers import Layer, folder_trust, json_layers, switched, unreadable

OUR_NAME: Final = "fleethook"
HTTP: Final = HttpForm(
    more={"name": OUR_NAME}, urls=("security", "allowedHttpHookUrls"), private=("security", "allowPrivateNetworkHooks")
)


def _entry(hook: SettingsHook) -> dict[str, Any]:
    if hook.http is not None:
        return {"hooks": [dict(hook.http)]}
    return {"hooks": [{"type": "command", "name": OUR_NAME, "command": hook.command, "timeout": hook.timeout}]}


def _same_named(hooks: object) -> Iterator[str]:
    """The events with another program's hook of the name that ours has."""
    for name, groups in hooks.items() if isinstance(hooks, dict) else ():
        listed = [group.get("hooks") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
        handlers = [item for hooks in listed if isinstance(hooks, list) for item in hooks if isinstance(item, dict)]
        if any(handler.get("name") == OUR_NAME and not _is_ours(handler) for handler in handlers):
            yield str(name)


def _is_ours(handler: dict[str, Any]) -> bool:
    return is_ours(handler.get("command")) or read_handler(handler) is not None


def _folder(where: InstallScope) -> Path:
    return where.moved("QWEN_HOME", ".qwen")


def _layers(where: InstallScope) -> tuple[Layer, ...]:
    named = where.environ.get("QWEN_CODE_SYSTEM_SETTINGS_PATH", "")
    machine = (
        Path(named)
        if named
        else where.machine("/etc/qwen-code/settings.json", "/Library/Application Support/QwenCode/settings.json")
    )
    paths = [machine, where.project / ".qwen/settings.json", _folder(where) / "settings.json"]
    return json_layers([*paths, machine.with_name("system-defaults.json")], comments=True)


def _http_troubles(where: InstallScope, hooks: HttpHooks, urls: list[str]) -> Iterator[InstallProblem]:
    yield from http_problems(PROGRAM.label, HTTP, hooks, _layers(where), urls)


def _troubles(where: InstallScope, scope: Scope) -> Iterator[InstallProblem]:
    layers = _layers(where)
    yield from unreadable(layers)
    yield from switched(layers, ("disableAllHooks",))
    asks = any(layer.at("security", "folderTrust", "enabled") is True for layer in layers)
    for layer in layers:
        for name in _same_named(layer.settings.get("hooks")):
            what = (
                f"{layer.path}: a hook for {name} that is not Fleethook's is called `{OUR_NAME}`: of hooks of one name "
            )
            yield InstallProblem(
                f"{what}Qwen Code runs one, so it may run in the place of ours", f"rename it in {layer.path}"
            )
    if scope == "project" and asks:
        trusted = folder_trust(_folder(where) / "trustedFolders.json", where.project)
        if not trusted:
            yield InstallProblem(
                f"the folder {where.project} is not trusted by Qwen Code, which then reads no hooks there",
                "start qwen in it and trust the folder",
                sure=trusted is False,
            )


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "session_id": f"fleethook-doctor-{token}",
        "transcript_path": "",
        "cwd": str(cwd),
        "hook_event_name": "PreToolUse",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "permission_mode": "default",
        "prompt_id": f"fleethook-{token}",
        "tool_name": "run_shell_command",
        "tool_input": {"command": command, "description": "fleethook doctor: nothing runs this"},
        "tool_use_id": f"toolu_fleethook_{token}",
        "tool_call_id": f"call_fleethook_{token}",
    }
    return Canary("PreToolUse", payload, {"QWEN_PROJECT_DIR": str(cwd)})


PROGRAM: Final = Program(
    name="qwen",
    label="Qwen Code",
    binaries=("qwen",),
    form=JsonHooks(
        agent="qwen", entry=_entry, unit="ms", comments=True, deaf=frozenset({"PermissionRequest"}), http=HTTP
    ),
    http=HTTP,
    http_troubles=_http_troubles,
    places={
        "user": lambda where: _folder(where) / "settings.json",
        "project": lambda where: where.project / ".qwen/settings.json",
    },
    canary=_canary,
    understood=block_check.qwen,
    folder=_folder,
    troubles=_troubles,
)
