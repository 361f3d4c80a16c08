"""What an install has to know of an agent: where its hooks go, in which form, and what keeps them from running."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from bus.agents import find as find_dialect
from bus.installs.command import Setup

Scope = Literal["user", "project", "local"]


NAMES: Final = ("claude", "codex", "gemini", "cursor", "opencode", "qwen", "copilot", "windsurf", "cline")
"""The agents that can be installed."""


@dataclass(frozen=True, slots=True)
class InstallScope:
    """Whose settings: a home, the project's folder, and what moves an agent's folders away from there."""

    home: Path
    project: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")
    """Above the machine's own settings (/etc and the like)."""

    def moved(self, variable: str, otherwise: str) -> Path:
        """The folder that a variable names, else this one in the home."""
        named = self.environ.get(variable, "")
        return Path(named).expanduser() if named else self.home / otherwise

    def machine(self, linux: str, darwin: str) -> Path:
        """A file of the machine's own, by its absolute path on each system."""
        return self.root / (darwin if sys.platform == "darwin" else linux).lstrip("/")


class InstalledCommand(NamedTuple):
    """One command of ours, as an agent's file has it."""

    event: str
    command: str
    seconds: float = 0.0
    """What the agent gives it; 0 where the file does not say."""
    closed: bool = False


class InstallProblem(NamedTuple):
    """Why hooks that are installed do not run, or may not, and what a person can do about it."""

    what: str
    fix: str
    sure: bool = True
    """Whether it is known to be so; else it depends on what cannot be seen from here."""


class CommandRun(NamedTuple):
    """What an agent sees of a hook command that has ended."""

    code: int
    stdout: str
    stderr: str


class AgentReading(NamedTuple):
    """What an agent makes of it: `deny`, `ask`, `allow`, or empty where it goes on as if there were no hook."""

    decision: str = ""
    reason: str = ""


class Canary(NamedTuple):
    """A tool call as an agent would send it."""

    event: str
    payload: dict[str, Any]
    environ: Mapping[str, str] = {}


class SettingsFormat(Protocol):
    """How an agent's hooks lie in its files."""

    @property
    def mode(self) -> int:
        """Of a file that is made."""
        ...

    @property
    def whole(self) -> bool:
        """Whether its files are ours from their first character to their last."""
        ...

    def files(self, place: Path) -> tuple[Path, ...]:
        """Every file at this place that may hold something of ours."""
        ...

    def written(self, path: Path, before: bytes | None, setup: Setup) -> bytes | None:
        """The file with exactly what this setup wants of ours in it; None where there should be none.

        Raises ConfigError with the place where it cannot be read; what others wrote stays.
        """
        ...

    def cleaned(self, path: Path, current: bytes, original: bytes | None, *, created: bool) -> bytes | None:
        """The file without ours; None where nothing is left of one that we `created`."""
        ...

    def calls(self, path: Path, raw: bytes) -> tuple[InstalledCommand, ...]:
        """Ours in this file; none where it cannot be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One agent, as an install has to know it."""

    name: str
    label: str
    binaries: tuple[str, ...]
    """By which it is on PATH."""
    form: SettingsFormat
    places: Mapping[Scope, Callable[[InstallScope], Path]]
    """Where its hooks go, by scope."""
    canary: Callable[[Path, str, str], Canary]
    """A call of its shell: working directory, a token of this call, the command line."""
    understood: Callable[[CommandRun], AgentReading]
    """What it makes of an answer to that call, as observed or documented."""
    folder: Callable[[InstallScope], Path]
    """Its own folder of the user, whose existence says that it has been here."""
    troubles: Callable[[InstallScope, Scope], Iterable[InstallProblem]] = lambda _where, _scope: ()
    """What in its settings keeps hooks of this scope from running."""
    trust: Callable[[InstallScope, Scope, Path], Iterable[InstallProblem]] = lambda _where, _scope, _path: ()
    """Whether the person has approved this file's hooks, for an agent that asks for approval."""
    asks_trust: bool = False
    """It does."""
    steps: tuple[str, ...] = ()
    """What only the person can do after an install."""
    runs: Callable[[Path, str], tuple[str, ...]] = lambda _path, command: ("/bin/sh", "-c", command)
    """The words by which it starts a command of ours."""
    readers: Mapping[Scope, Mapping[str, str]] = field(default_factory=dict)
    """By scope, the other agents that run the hooks in its file too, and when; empty for always."""
    closes_since: tuple[int, ...] = ()
    """The version from which on its own switch keeps a gate shut when the hook command takes too long."""


def quiet_events(agent: str) -> frozenset[str]:
    """The events that an install leaves out unless they are named: a call for each chunk of text, and the like."""
    return never_events(agent) | _of_dialect(agent, "QUIET")


def never_events(agent: str) -> frozenset[str]:
    """The events that are never subscribed, since a hook that only looks would break them."""
    return _of_dialect(agent, "NEVER")


def _of_dialect(agent: str, name: str) -> frozenset[str]:
    module = importlib.import_module(f"bus.agents.{find_dialect(agent).name}")
    return frozenset(getattr(module, name, ()))
