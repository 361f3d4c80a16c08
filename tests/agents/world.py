"""One machine for the agent programs: a bus that runs with hooks, a home, a project, and a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.agents.model import Model, Step
from tests.agents.programs import PROGRAMS, Program
from tests.support.servers import free_port
from workers.admin.person import TEST_VARIABLE

HOOKS = """
guards: {destructive-commands: true}
import: [{path: slow-claude-hooks.json, dialect: claude}]
hooks:
  - id: kills-the-server
    on: tool:pre_execute:bash
    when: event.input.command.contains("killing")
    command: |
      cat > /dev/null
      if [ -e server.pid ]; then kill -9 "$(cat server.pid)"; rm server.pid; fi
  - id: no-forbidden
    on: tool:pre_execute:bash
    rule: {command: [forbidden], decision: deny, reason: policy P-1 forbids it}
  - id: rewrites
    on: tool:pre_execute:bash
    when: event.input.command.contains("original")
    command: |
      cat > /dev/null
      echo '{"decision": "allow", "updated_input": {"command": "echo rewritten-by-hook | tee -a ran.txt"}}'
  - id: permits
    on: permission:request
    rule: {command: [permitted], decision: allow}
  - id: refuses
    on: permission:request
    rule: {command: [refused], decision: deny, reason: policy P-2 refuses it}
  - id: no-env
    on: ["tool:pre_execute:edit", "tool:pre_execute:write"]
    rule: {path: [.env], decision: deny, reason: policy P-3 keeps .env as it is}
  - id: slow
    on: tool:pre_execute:bash
    when: event.input.command.contains("slow-native")
    timeout: 60
    command: |
      cat > /dev/null; sleep 12
      echo '{"decision": "deny", "reason": "policy P-4 took 12 s"}'
  - id: asks-a-person
    on: tool:pre_execute:bash
    hold: {timeout: 120}
    rule: {command: [needs-a-person], decision: ask, reason: policy P-6 asks a person}
  - id: redacts
    on: tool:post_execute
    rule: {redact: true}
  - id: remembers
    on: [session:start, user:prompt_submit]
    command: cat > /dev/null; echo remember-the-milk
"""


SLOW = """case "$(cat)" in *slow-imported*) sleep 12; echo 'policy P-5 took 12 s' >&2; exit 2;; esac"""
CLAUDE_HOOKS = {
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": SLOW, "timeout": 60}]}]}
}


class World:
    """One machine: a bus that runs, a home, a project, and a model."""

    def __init__(self, folder: Path, model: Model) -> None:
        self.folder, self.model = folder, model
        self.home, self.project = folder / "home", folder / "project"
        self.on_path: list[Path] = []
        self.port = free_port()
        self.token = ""
        """The gateway's token, for commands and agents."""

    @property
    def environment(self) -> dict[str, str]:
        """What our commands get: nothing of the developer's own settings, and this machine's home."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLEETHOOK_")},
            "HOME": str(self.home),
            "FLEETHOOK_HOME": str(self.folder / "fh"),
            "CODEX_HOME": str(self.home / ".codex"),
            "FLEETHOOK_GATEWAY_PORT": str(self.port),
            "FLEETHOOK_COVERAGE_GRACE": "1s",
            **({"FLEETHOOK_TOKEN": self.token} if self.token else {}),
            TEST_VARIABLE: "1",
            "PATH": os.pathsep.join([*(str(one) for one in self.on_path), os.environ["PATH"]]),
        }

    def fleethook(self, *args: str, code: int | None = 0) -> str:
        """One command line of ours, and its stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "workers.cli", *args],
            cwd=self.project,
            env={**self.environment, "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert code is None or done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def run(self, program: Program, command: str, *before_calls: Step) -> str:
        """What the command left behind after the agent was asked to run it; its output is in `ran.txt`.

        The agent is asked once, or once after each of `before_calls`, in one session.
        """
        done = self.start(program, command, *before_calls)
        assert self.model.requests, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return self.left()

    def start(self, program: Program, command: str, *before_calls: Step) -> subprocess.CompletedProcess[str]:
        """One session of an agent to its end; one that was stopped may not have asked its model."""
        ran = self.project / "ran.txt"
        ran.unlink(missing_ok=True)
        self.model.asks(command, *before_calls)
        variables = {"FLEETHOOK_TOKEN": self.token} if self.token else {}
        return program.run("go", self.home, self.project, self.model.url, **variables)

    def left(self) -> str:
        """What the command of the last session left behind."""
        ran = self.project / "ran.txt"
        return ran.read_text() if ran.exists() else ""

    def server(self) -> int:
        """The process id of the embedded server."""
        (record,) = (self.folder / "fh").rglob("server.json")
        return int(json.loads(record.read_text())["pid"])


def chosen() -> list[str]:
    """The agents that take part, by FLEETHOOK_AGENTS."""
    return os.environ.get("FLEETHOOK_AGENTS", "").split() or list(PROGRAMS)
