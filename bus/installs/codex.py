"""Codex CLI: a hooks.json of its own beside config.toml, each hook trusted by its content (checked with 0.169.0).

It also reads hooks from config.toml. The hooks of both files run, so ours need not be in TOML.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bus.installs import block_check, hook_entries
from bus.installs.base import Canary, InstallProblem, InstallScope, Program, Scope
from bus.installs.json_settings import JsonHooks, SettingsHook
from bus.installs.settings_layers import Layer, json_layers, switched, toml_layers, unreadable

TYPES: Final = frozenset({"command", "prompt", "agent", "mcp_tool"})
"""The handler types that it knows; any other type makes it refuse the whole file."""

LONGEST: Final = {"SessionEnd": 3, "Interrupt": 3}
"""The most seconds that a hook of these events gets, even if its timeout is longer. Without a timeout it gets 1."""

_TRUST: Final = "start codex, open /hooks, and trust the hooks of fleethook"


def _entry(hook: SettingsHook) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": hook.command, "timeout": hook.timeout}]}


def _folder(where: InstallScope) -> Path:
    return where.moved("CODEX_HOME", ".codex")


def _config(where: InstallScope, *, project: bool = True) -> tuple[Layer, ...]:
    """The layers of config.toml, the strongest first."""
    own = [where.project / ".codex/config.toml"] if project else []
    return toml_layers(
        [*own, _folder(where) / "config.toml", where.machine("/etc/codex/config.toml", "/etc/codex/config.toml")]
    )


def _troubles(where: InstallScope, scope: Scope) -> Iterator[InstallProblem]:
    rules = toml_layers([where.machine("/etc/codex/requirements.toml", "/etc/codex/requirements.toml")])
    layers = _config(where)
    yield from unreadable([*rules, *layers])
    for name in ("hooks", "codex_hooks"):  # the second is its older spelling
        yield from switched([*rules, *layers], ("features", name), off=False)
    for layer in rules:
        if layer.at("allow_managed_hooks_only") is True:
            what = f"{layer.path}: `allow_managed_hooks_only` is true, so only hooks of the policy run"
            yield InstallProblem(what, "ask the administrator of this machine to put Fleethook's hooks into the policy")
    yield from _refused(PROGRAM.places[scope](where))
    if scope == "project":
        trusted = (
            layer.at("projects", str(where.project.resolve()), "trust_level") for layer in _config(where, project=False)
        )
        if "trusted" not in trusted:
            yield InstallProblem(
                f"Codex CLI does not trust the folder {where.project}, and reads no hooks there",
                "start codex in it and trust the folder",
            )


def _refused(path: Path) -> Iterator[InstallProblem]:
    """The error for which Codex refuses the whole file; Codex reports it only in one line of its output."""
    for layer in json_layers([path]):
        for name in sorted(set(layer.settings) - PROGRAM_KEYS):
            yield InstallProblem(f"{path}: the name {name!r} makes Codex CLI refuse the whole file", "take it out")
        for event, _, _, handler in hook_entries.handlers(layer.settings):
            kind = handler.get("type")
            if kind not in TYPES:
                what = f"{path}: a hook of {event} has the type {kind!r}, which makes Codex CLI refuse the whole file"
                yield InstallProblem(what, "take that hook out, or make it a command")


PROGRAM_KEYS: Final = frozenset({"hooks", "description"})
"""The names that a hooks.json may have at its top."""


def trusted_hash(event: str, matcher: object, handler: Mapping[str, Any]) -> str:
    """The hash of a command hook by which Codex records its trust (reproduced from `hooks/list` of 0.169.0)."""
    most = LONGEST.get(event)
    seconds = handler.get("timeout") or (1 if most else 600)
    known = {
        "type": "command",
        "command": handler.get("command"),
        "async": bool(handler.get("async", False)),
        "timeout": min(seconds, most) if most else seconds,
    }
    said: dict[str, Any] = {"event_name": _snake(event), "hooks": [known]}
    if matcher is not None:
        said["matcher"] = matcher
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _trust(where: InstallScope, _scope: Scope, path: Path) -> Iterator[InstallProblem]:
    """The state of each of our hooks in the user's config.toml; a hook's position in the file is part of its name there."""
    states: dict[str, Any] = {}
    for layer in reversed(_config(where, project=False)):
        found = layer.at("hooks", "state")
        states |= found if isinstance(found, dict) else {}
    pending, changed, off, count = 0, 0, 0, 0
    for layer in json_layers([path]):
        groups = layer.settings.get("hooks", {})
        for event, group, number, handler in hook_entries.handlers(layer.settings):
            if not hook_entries.command_of(handler):
                continue
            count += 1
            tail = f"{_snake(event)}:{group}:{number}"
            state = states.get(f"{path}:{tail}", states.get(f"{path.resolve()}:{tail}"))
            state = state if isinstance(state, dict) else {}
            wanted = trusted_hash(event, groups[event][group].get("matcher"), handler)
            pending += not state.get("trusted_hash")
            changed += bool(state.get("trusted_hash")) and state["trusted_hash"] != wanted
            off += state.get("enabled") is False
    if pending:
        yield InstallProblem(f"Codex CLI: {pending} of {count} hooks are not trusted yet, so they do not run", _TRUST)
    if changed:
        yield InstallProblem(f"Codex CLI: {changed} of {count} hooks have changed since they were trusted", _TRUST)
    if off:
        yield InstallProblem(
            f"Codex CLI: {off} of {count} hooks are switched off in /hooks", "start codex, and switch them on in /hooks"
        )


def _snake(event: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event).lower()


def _canary(cwd: Path, token: str, command: str) -> Canary:
    payload = {
        "session_id": f"fleethook-doctor-{token}",
        "turn_id": f"fleethook-{token}",
        "transcript_path": None,
        "cwd": str(cwd),
        "hook_event_name": "PreToolUse",
        "model": "fleethook-doctor",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"call_fleethook_{token}",
    }
    return Canary("PreToolUse", payload)


PROGRAM: Final = Program(
    name="codex",
    label="Codex CLI",
    binaries=("codex",),
    form=JsonHooks(agent="codex", entry=_entry, only=PROGRAM_KEYS, deaf=frozenset({"PermissionRequest"})),
    places={
        "user": lambda where: _folder(where) / "hooks.json",
        "project": lambda where: where.project / ".codex/hooks.json",
    },
    canary=_canary,
    understood=block_check.codex,
    folder=_folder,
    troubles=_troubles,
    trust=_trust,
    asks_trust=True,
    steps=("Codex CLI runs only hooks that you trust: start codex, open /hooks, and trust the hooks of fleethook",),
)
