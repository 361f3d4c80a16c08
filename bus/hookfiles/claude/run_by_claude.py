"""Which imported hooks Claude Code runs itself. Fleethook skips them for Claude Code's events, so that none runs twice.

Each event of a session names the transcript's path (`<config folder>/projects/<project folder>/<session>.jsonl`, observed
with Claude Code 2.1.330). The path shows which settings the session has read. If the path is missing, Fleethook runs the
hook: a hook that runs twice is harmless, a guard that never runs is not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bus.agents.claude import NAME as CLAUDE
from bus.config.documents import load
from bus.errors import ConfigError
from bus.events import Event
from bus.hooks import Hook, Layer
from bus.lazy.regex import lazy_regex
from bus.matching.paths import within

_SETTINGS: Final = frozenset({"settings.json", "settings.local.json"})
_INSTALLED: Final = lazy_regex(r"(.+)/plugins/cache/([^/]+)/([^/]+)/[^/]+/?\Z")
_REPLACED: Final = lazy_regex(r"[^A-Za-z0-9]")
"""Claude Code replaces these characters of a path by `-` to name the project folder."""


def folder_read_by_claude(file: Path, plugin: str, layer: Layer) -> str:
    """The `.claude` folder through which Claude Code reads a settings file, or finds a plugin; empty if it does neither.

    A plugin counts if it is installed and the user's settings enable it. A project's settings cannot enable one.
    """
    if not plugin:
        # CLAUDE_CONFIG_DIR may have moved the folder, and the transcripts with it.
        known = file.parent.name == ".claude" or (file.parent / "projects").is_dir()
        return str(file.parent) if known and file.name in _SETTINGS else ""
    installed = _INSTALLED.match(plugin)
    if installed is None or layer == "project":
        return ""
    try:
        settings = load(Path(installed[1], "settings.json")).value
    except ConfigError:
        return ""
    enabled = settings.get("enabledPlugins") if isinstance(settings, dict) else None
    return installed[1] if isinstance(enabled, dict) and enabled.get(f"{installed[3]}@{installed[2]}") is True else ""


def claude_runs(hook: Hook, event: Event) -> bool:
    """Whether Claude Code runs this hook for the event, since the event's session has read the hook's file too.

    False for a hook of the fleet: its file may be on another machine.
    """
    folder = hook.own.get("itself")
    if event.source != CLAUDE or not isinstance(folder, str) or hook.layer == "fleet":
        return False
    transcript = event.data.get("transcript_path")
    if not isinstance(transcript, str) or not transcript:
        return False
    project, _ = os.path.split(transcript)
    if _same(os.path.dirname(os.path.dirname(project)), folder):
        return True
    above = os.path.dirname(folder)
    named = {_REPLACED.sub("-", name) for name in (above, os.path.realpath(above))}
    # `/a/b-c` and `/a/b/c` have the same project folder `-a-b-c`, so the session's directory decides.
    return os.path.basename(project) in named and within(os.path.realpath(event.cwd), os.path.realpath(above))


def _same(one: str, other: str) -> bool:
    return one == other or os.path.realpath(one) == os.path.realpath(other)
