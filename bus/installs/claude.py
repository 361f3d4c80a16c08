"""Claude Code: `hooks` in its settings files, in groups with a matcher (checked with 2.1.330)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check
from bus.installs.base import Canary, InstallProblem, InstallScope, Program, Scope
from bus.installs.http_checks import http_problems
from bus.installs.http_hooks import HttpForm, HttpHooks
from bus.installs.json_settings import ASYNC, JsonHooks, SettingsHook
from bus.installs.settings_layers import Layer, json_layers, switched, unreadable

_WITH_TOOL: Final = frozenset(
    {"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"}
)


_BLOCK: Final = {"onFailure": "block"}
_NO_HTTP: Final = "runs no hook of type http there"
_BY_EXIT_CODE: Final = "heeds a block there by exit code only, which a hook of type http does not have"
HTTP: Final = HttpForm(
    stay={
        "SessionStart": _NO_HTTP,
        "Setup": _NO_HTTP,
        "TaskCompleted": _BY_EXIT_CODE,
        "TeammateIdle": _BY_EXIT_CODE,
    },
    failure=_BLOCK,
    urls=("allowedHttpHookUrls",),
    variables=("httpHookAllowedEnvVars",),
)


def _entry(hook: SettingsHook) -> dict[str, Any]:
    """A matcher group. `onFailure: block` also blocks when the command times out (2.1.295 and newer)."""
    handler: dict[str, Any] = {"type": "command", "command": hook.command, "timeout": hook.timeout}
    if hook.closed:
        handler |= _BLOCK
    if hook.later:
        handler[ASYNC] = True
    if hook.http is not None:
        handler = dict(hook.http)
    return {"matcher": "*", "hooks": [handler]} if hook.event in _WITH_TOOL else {"hooks": [handler]}


def _folder(where: InstallScope) -> Path:
    return where.moved("CLAUDE_CONFIG_DIR", ".claude")


def _managed(where: InstallScope) -> tuple[Layer, ...]:
    first = where.machine(
        "/etc/claude-code/managed-settings.json", "/Library/Application Support/ClaudeCode/managed-settings.json"
    )
    more = sorted((first.parent / "managed-settings.d").glob("*.json"), reverse=True)
    return json_layers([*more, first])


def _mine(where: InstallScope) -> tuple[Layer, ...]:
    return json_layers(
        [
            where.project / ".claude/settings.local.json",
            where.project / ".claude/settings.json",
            _folder(where) / "settings.json",
        ]
    )


def _http_troubles(where: InstallScope, hooks: HttpHooks, urls: list[str]) -> Iterator[InstallProblem]:
    yield from http_problems(PROGRAM.label, HTTP, hooks, (*_managed(where), *_mine(where)), urls)


def _variables(where: InstallScope) -> dict[str, str]:
    """The variables of `env` in the settings; the strongest layer counts."""
    found: dict[str, str] = {}
    for layer in (*_managed(where), *_mine(where)):
        given = layer.at("env")
        found = {**({str(name): str(text) for name, text in given.items()} if isinstance(given, dict) else {}), **found}
    return found


def _troubles(where: InstallScope, _scope: Scope) -> Iterator[InstallProblem]:
    managed, mine = _managed(where), _mine(where)
    yield from unreadable([*managed, *mine])
    yield from switched([*managed, *mine], ("disableAllHooks",))
    for layer in managed:
        if layer.at("allowManagedHooksOnly") is True:
            what = f"{layer.path}: `allowManagedHooksOnly` is true, so only hooks of the policy run"
            yield InstallProblem(what, "ask the administrator of this machine to put Fleethook's hooks into the policy")


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "session_id": f"fleethook-doctor-{token}",
        "transcript_path": "",
        "cwd": str(cwd),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": "fleethook doctor: nothing runs this"},
        "tool_use_id": f"toolu_fleethook_{token}",
    }
    return Canary("PreToolUse", payload, {"CLAUDE_PROJECT_DIR": str(cwd)})


_THIRD_PARTY: Final = "where its settings include third-party configs"
"""A setting of Cursor, off by default; Cursor keeps it where Fleethook cannot read it (cursor.com/docs, third-party hooks)."""

PROGRAM: Final = Program(
    name="claude",
    label="Claude Code",
    binaries=("claude",),
    # PermissionRequest does not honour exit code 2.
    form=JsonHooks(agent="claude", entry=_entry, deaf=frozenset({"PermissionRequest"}), http=HTTP),
    places={
        "user": lambda where: _folder(where) / "settings.json",
        "project": lambda where: where.project / ".claude/settings.json",
        "local": lambda where: where.project / ".claude/settings.local.json",
    },
    canary=_canary,
    understood=block_check.claude,
    folder=_folder,
    troubles=_troubles,
    readers={
        "user": {"cursor": _THIRD_PARTY},
        "project": {"copilot": "", "cursor": _THIRD_PARTY},
        "local": {"copilot": "", "cursor": _THIRD_PARTY},
    },
    http=HTTP,
    http_troubles=_http_troubles,
    variables=_variables,
    # At its end it ends the hooks that it does not wait for (SIGTERM, later SIGKILL), also those that have just started: Stop
    # and PostToolBatch were lost with `-p --max-turns` (observed). After PostToolUse comes PostToolBatch, for which it waits.
    later={"PostToolUse": "PostToolBatch", "PostToolUseFailure": "PostToolBatch"},
    closes_since=(2, 1, 295),
)
