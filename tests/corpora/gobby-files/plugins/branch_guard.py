"""Asks git which branch the event's folder is on, before a commit."""

import os
import shutil
import subprocess
from pathlib import Path

from gobby.hooks.events import HookEvent, HookEventType, HookResponse
from gobby.hooks.plugins import HookPlugin, hook_handler

PROTECTED = frozenset({"main", "master"})


class BranchGuard(HookPlugin):
    name, version, description = "branch-guard", "0.9", "no commits on main"

    def _branch(self, cwd: str | None) -> str | None:
        git = shutil.which("git")
        if git is None or not cwd or not Path(cwd).is_dir():
            return None
        done = subprocess.run(
            [git, "symbolic-ref", "--short", "HEAD"], cwd=cwd, capture_output=True, text=True, timeout=20, check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
        return done.stdout.strip() or None

    @hook_handler(HookEventType.BEFORE_TOOL, priority=5)
    def check(self, event: HookEvent) -> HookResponse | None:
        command = event.data.get("tool_input", {}).get("command", "")
        if "branch-commit" not in command:
            return None
        branch = self._branch(event.cwd)
        if branch in PROTECTED:
            return HookResponse(decision="deny", reason=f"on {branch}: make a branch first")
        return HookResponse(decision="allow", system_message=f"commit on {branch}")
