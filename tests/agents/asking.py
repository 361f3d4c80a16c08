"""Sessions in which somebody can be asked: Codex and Qwen Code as editors drive them, by JSON-RPC over stdin and stdout.

Alone (`codex exec`, `qwen -p`) they ask nobody, so their PermissionRequest never fires there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Queue
from typing import Any, Self

SECONDS = 90.0

Asked = list[str]
"""The questions that came to the person, who says no to each."""


class Rpc:
    """One program that speaks JSON-RPC, a message a line; a question of its own is answered by `decline`."""

    def __init__(self, command: list[str], env: Mapping[str, str], cwd: Path, decline: Callable[[Any], Any]) -> None:
        self._decline, self.asked, self._number = decline, Asked(), 0
        self._lines: Queue[str] = Queue()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # some are a wrapper and the program itself
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def tell(self, method: str) -> None:
        """Send what has no answer."""
        self._send({"method": method})

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a call; what the program asks meanwhile is answered."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self.until(lambda got: got.get("id") == self._number and "method" not in got)["result"]  # type: ignore[no-any-return]  # an object

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted."""
        while True:
            got: dict[str, Any] = json.loads(self._lines.get(timeout=SECONDS))
            if "method" in got and "id" in got:
                permission = "ermission" in got["method"] or "pproval" in got["method"]
                self.asked += [got["method"]] * permission
                self._send({"id": got["id"], "result": self._decline(got["params"]) if permission else {}})
            if wanted(got):
                return got


def codex(binary: str, env: Mapping[str, str], project: Path) -> Asked:
    """One prompt to `codex app-server`, whose hooks are trusted first, as a person does in /hooks."""
    command = [binary, "-c", 'model_provider="scripted"', "-c", 'model="m"', "app-server"]
    with Rpc(command, env, project, lambda _: {"decision": "decline"}) as rpc:
        rpc.call("initialize", {"clientInfo": {"name": "test", "title": "test", "version": "1"}})
        rpc.tell("initialized")
        listed = rpc.call("hooks/list", {"cwds": [str(project)]})
        config = Path(env["CODEX_HOME"], "config.toml")
        for hook in (one for place in listed["data"] for one in place["hooks"]):
            state = f'\n[hooks.state.{json.dumps(hook["key"])}]\ntrusted_hash = "{hook["currentHash"]}"\n'
            if hook["trustStatus"] == "untrusted":
                config.write_text(config.read_text() + state)
        given = {"cwd": str(project), "approvalPolicy": "untrusted", "sandbox": "workspace-write", "model": "m"}
        thread = rpc.call("thread/start", {**given, "modelProvider": "scripted"})["thread"]["id"]
        rpc.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "go"}]})
        rpc.until(lambda got: got.get("method") == "turn/completed")
        return rpc.asked


def qwen(binary: str, env: Mapping[str, str], project: Path) -> Asked:
    """One prompt to `qwen --acp`."""

    def decline(params: Any) -> Any:
        option = next(one["optionId"] for one in params["options"] if one["kind"].startswith("reject"))
        return {"outcome": {"outcome": "selected", "optionId": option}}

    with Rpc([binary, "--acp", "--approval-mode", "default"], env, project, decline) as rpc:
        rpc.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = rpc.call("session/new", {"cwd": str(project), "mcpServers": []})["sessionId"]
        rpc.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        return rpc.asked


SESSIONS: dict[str, Callable[[str, Mapping[str, str], Path], Asked]] = {"codex": codex, "qwen": qwen}
