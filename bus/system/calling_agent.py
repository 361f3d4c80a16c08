"""Finds out whether a coding agent started this process: by its environment variables, or by the processes above."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": (
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_PID",
    ),
    "codex": ("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI"),
    "gemini": ("GEMINI_CLI", "GEMINI_SESSION_ID"),
    "qwen": ("QWEN_CODE", "QWEN_CODE_CLI", "QWEN_CODE_SESSION_ID"),
    "cursor": ("CURSOR_AGENT",),
    "opencode": ("OPENCODE", "OPENCODE_PID"),
    "copilot": ("COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"),
    "windsurf": ("WINDSURF_CASCADE_TERMINAL",),
    "cline": ("CLINE_ACTIVE",),
    "an agent": ("AI_AGENT",),
}
"""The variables that each agent sets for its commands. Settings that people keep in their profile (CODEX_HOME,
CLAUDE_CONFIG_DIR, keys of APIs) are not among them."""

_PROGRAMS: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in ("claude", "codex", "gemini", "qwen", "cursor", "opencode", "copilot", "windsurf", "cline")
    },
    "claude-code": "claude",
    "codex-cli": "codex",
    "gemini-cli": "gemini",
    "qwen-code": "qwen",
    "cursor-agent": "cursor",
    "opencode-ai": "opencode",
}
_UNMISTAKABLE: Final = frozenset({"claude-code", "gemini-cli", "qwen-code", "cursor-agent", "opencode-ai"})
"""Names of folders that only that agent uses."""

_INTERPRETERS: Final = ("node", "bun", "deno", "python", "pypy", "electron")
_MOST_ANCESTORS: Final = 64
_MOST_ENVIRONMENT: Final = 4 * 1024 * 1024  # bytes


class CallingAgent(NamedTuple):
    """The agent that started this process, and the evidence."""

    agent: str
    evidence: str


def calling_agent(environ: Mapping[str, str] | None = None, process: int = 0) -> CallingAgent | None:
    """The agent that this process runs under, by its environment first; None without evidence.

    `process` is the id of another process, whose variables are `environ`; it counts itself, too.
    """
    environ = os.environ if environ is None else environ
    for agent, names in VARIABLES.items():
        for name in names:
            if environ.get(name):
                return CallingAgent(agent, f"{name} is set")
    for pid, argv in ancestors(process) if process else ancestors():
        agent = agent_of(argv)
        if agent:
            return CallingAgent(agent, f"process {pid} above this one is {agent}")
    return None


def agent_of(argv: tuple[str, ...]) -> str:
    """The agent that a command line starts; empty for any other program."""
    for place, word in enumerate(argv[:6]):
        path = PurePosixPath(word)
        name = path.name.lower().removesuffix(".exe").removesuffix(".js").removesuffix(".mjs").removesuffix(".cjs")
        folders = [part.lower() for part in path.parts[:-1]]
        found = _PROGRAMS.get(name) or next((_PROGRAMS[part] for part in folders if part in _UNMISTAKABLE), "")
        packages = folders[folders.index("node_modules") + 1 :][:2] if "node_modules" in folders else []
        found = found or next((_PROGRAMS[part] for part in packages if part in _PROGRAMS), "")
        if found:
            return found
        if place == 0 and not name.startswith(_INTERPRETERS):
            return ""
        if place and not word.startswith("-") and word not in {"run", "x"}:
            return ""  # the interpreter's script; the words after it are its arguments
    return ""


def ancestors(first: int = 0) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The processes above this one, or `first` and those above it, that can be read, nearest first: id and command line."""
    return _from_proc(first or os.getppid()) if sys.platform.startswith("linux") else _from_ps(first or os.getppid())


def user_homes() -> set[str]:
    """The home directories that can be the user's: of the account, of each agent above, and of the outermost process above.

    The variable HOME of this process does not count, since the caller can set it. Nor do processes that cannot be read.
    """
    homes = set()
    with contextlib.suppress(KeyError):  # a container may run as a user without an account
        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    above = list(ancestors())
    agents = [pid for pid, argv in above if agent_of(argv)]
    outermost = next((home for pid, _ in reversed(above) if (home := _home_of(pid))), "")
    return {home for home in (*homes, outermost, *map(_home_of, agents)) if home}


def _home_of(pid: int) -> str:
    """HOME of a process as it was started; empty where it has none or cannot be read."""
    try:
        if sys.platform.startswith("linux"):
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read(_MOST_ENVIRONMENT).split(b"\0")
        else:
            command = ["/bin/ps", "-Eww", "-o", "command=", "-p", str(pid)]
            words = subprocess.run(command, capture_output=True, timeout=5, check=False).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ""
    found = [word for word in words if word.startswith(b"HOME=")]
    return found[-1].removeprefix(b"HOME=").decode("utf-8", "surrogateescape") if found else ""


def _from_proc(pid: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                raw = file.read(64 * 1024)
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name, in parentheses, may hold anything; the fields behind it are state and parent.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        # A program that renames itself (`claude`) leaves blanks where the zeros were.
        words = raw.rstrip(b"\0").split(b"\0") if b"\0" in raw.rstrip(b"\0") else raw.rstrip(b"\0").split()
        yield pid, tuple(word.decode("utf-8", "replace") for word in words)
        pid = parent


def _from_ps(pid: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    try:
        done = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,args="], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return
    table: dict[int, tuple[int, tuple[str, ...]]] = {}
    for line in done.stdout.splitlines():
        fields = line.split(None, 2)
        if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit():
            table[int(fields[0])] = (int(fields[1]), tuple(fields[2].split()))
    for _ in range(_MOST_ANCESTORS):
        if pid not in table:
            return
        parent, argv = table[pid]
        yield pid, argv
        pid = parent
