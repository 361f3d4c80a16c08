"""An agent whose hook command asks a gateway, or Redis by the same answer file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bus.config.settings import Settings
from bus.shim.answer import HookAnswer
from bus.shim.answer_file import hook_command, write_answer_file
from bus.system.directories import Directories, directories
from tests.support.fleet import HOST, NAMESPACE, Fleet
from tests.support.forked import hook_answer
from tests.support.waiting import BUDGET
from workers.admin.agent_setup import GATEWAY_TOKEN, SHIM_URL, answers_for


class GatewayAgent:
    """One agent of this machine with its answer file for one server."""

    def __init__(
        self,
        world: Fleet,
        name: str,
        folder: Path,
        url: str = "",
        token: str = "",
        *,
        shim: str = "",
        **more: object,
    ) -> None:
        """`shim` is the address of Redis, where it is not that of the fleet."""
        self.name = name
        self.places: Directories = directories({"FLEETHOOK_HOME": str(folder / (url.partition(":")[0] or "redis"))})
        settings = Settings(**{"namespace": NAMESPACE, "host": HOST, "url": url, "budget": BUDGET, **more})  # type: ignore[arg-type]  # by their names
        environ = {GATEWAY_TOKEN: token} if url else {SHIM_URL: shim or world.url("shim")}
        answers, self.warnings = answers_for(name, settings, self.places, closed=False, environ=environ)
        self.file = self.places.answer_file(name)
        write_answer_file(self.file, answers)

    @property
    def spool(self) -> Path:
        return self.places.spool(self.name)

    def hook(self, native: str, payload: bytes, **env: str) -> HookAnswer:
        """What the agent's hook command prints."""
        words = hook_command(sys.executable, self.name, native, self.file)
        return hook_answer(words, payload, env={"PATH": os.defpath, **env})

    def call(self, session: str, command: str = "ls") -> HookAnswer:
        """The answer before one shell command."""
        call = {"session_id": session, "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/"}
        return self.hook("PreToolUse", json.dumps({**call, "tool_input": {"command": command}}).encode())
