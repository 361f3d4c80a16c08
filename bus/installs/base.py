"""The types that describe an agent's installation: the files, their format, and what keeps hooks from running."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

from bus.agents import find as find_dialect
from bus.installs.hook_command import Setup
from bus.installs.http_hooks import HttpForm, HttpHooks

Scope = Literal["user", "project", "local"]


NAMES: Final = ("claude", "codex", "gemini", "cursor", "opencode", "qwen", "copilot", "windsurf", "cline")
"""The agents that Fleethook can be installed for."""


@dataclass(frozen=True, slots=True)
class InstallScope:
    """Whose settings: the home directory, the project's folder, and the environment, whose variables can move them."""

    home: Path
    project: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")
    """The root of the machine's own settings (/etc and the like)."""

    def moved(self, variable: str, otherwise: str) -> Path:
        """The folder that an environment variable names, else the folder `otherwise` in the home directory."""
        named = self.environ.get(variable, "")
        return Path(named).expanduser() if named else self.home / otherwise

    def machine(self, linux: str, darwin: str) -> Path:
        """A settings file of the machine, by its absolute path on each operating system."""
        return self.root / (darwin if sys.platform == "darwin" else linux).lstrip("/")


class InstalledCommand(NamedTuple):
    """One hook of Fleethook, as an agent's file has it."""

    event: str
    command: str
    """Empty for a hook of type `http`."""
    seconds: float = 0.0
    """The timeout in the file; 0 if the file has none."""
    closed: bool = False
    url: str = ""
    """The URL that a hook of type `http` posts to."""
    http: HttpHooks | None = None
    """The gateway of a hook of type `http`."""
    fails_open: bool = False
    """Whether the call goes on where the gateway of a hook of type `http` cannot be reached."""
    later: bool = False
    """Whether the agent does not wait for it."""


class InstallProblem(NamedTuple):
    """Why installed hooks do not run, or may not run, and what a person can do about it."""

    what: str
    fix: str
    sure: bool = True
    """Whether this is certain; if not, it depends on something that cannot be checked here."""


class CommandRun(NamedTuple):
    """The result of a hook command, as the agent sees it."""

    code: int
    stdout: str
    stderr: str


class AgentReading(NamedTuple):
    """The agent's decision: `deny`, `ask`, `allow`, or empty if it goes on as without a hook."""

    decision: str = ""
    reason: str = ""


class Canary(NamedTuple):
    """A tool call as an agent would send it."""

    event: str
    payload: dict[str, Any]
    environ: Mapping[str, str] = {}


class SettingsFormat(Protocol):
    """The format of an agent's hook settings."""

    @property
    def mode(self) -> int:
        """The mode of a new file."""
        ...

    @property
    def whole(self) -> bool:
        """Whether Fleethook writes the whole file."""
        ...

    def files(self, place: Path) -> tuple[Path, ...]:
        """Every file at this place that may have entries of Fleethook."""
        ...

    def written(self, path: Path, before: bytes | None, setup: Setup) -> bytes | None:
        """The file with exactly the entries of this setup as ours; None if there should be no file.

        Entries of other programs stay. Raises ConfigError with the place if the file cannot be read.
        """
        ...

    def cleaned(self, path: Path, current: bytes, original: bytes | None, *, created: bool) -> bytes | None:
        """The file without our entries; None if nothing is left of a file that we `created`."""
        ...

    def calls(self, path: Path, raw: bytes) -> tuple[InstalledCommand, ...]:
        """Our commands in this file; none if it cannot be read."""
        ...


@runtime_checkable
class AnnouncingFormat(Protocol):
    """A format whose agent can announce events without waiting for our commands."""

    def waiting(self, path: Path, raw: bytes, events: Collection[str]) -> bytes:
        """The file in which the agent waits for our commands at these events; everything else stays as it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The installation data of one agent."""

    name: str
    label: str
    binaries: tuple[str, ...]
    """Its program's names on PATH."""
    form: SettingsFormat
    places: Mapping[Scope, Callable[[InstallScope], Path]]
    """Its settings files, by scope."""
    canary: Callable[[Path, str, str], Canary]
    """Makes a call of the agent's shell tool; the arguments are working directory, a token of this call, command line."""
    understood: Callable[[CommandRun], AgentReading]
    """The decision that the agent takes from an answer to that call, as observed or documented."""
    folder: Callable[[InstallScope], Path]
    """Its folder in the user's home; if it exists, the agent has been used here."""
    troubles: Callable[[InstallScope, Scope], Iterable[InstallProblem]] = lambda _where, _scope: ()
    """Finds what keeps hooks of this scope from running, in its settings."""
    trust: Callable[[InstallScope, Scope, Path], Iterable[InstallProblem]] = lambda _where, _scope, _path: ()
    """Whether the person has approved this file's hooks, for an agent that asks for approval."""
    asks_trust: bool = False
    """The default: hooks need no approval."""
    steps: tuple[str, ...] = ()
    """Steps that only a person can do after an install."""
    runs: Callable[[Path, str], tuple[str, ...]] = lambda _path, command: ("/bin/sh", "-c", command)
    """The command line with which the agent starts our commands."""
    readers: Mapping[Scope, Mapping[str, str]] = field(default_factory=dict)
    """By scope: the other agents that also run the hooks in its file, and under which condition; empty: always."""
    http: HttpForm | None = None
    """The capabilities of its hooks of type `http`; None if it has no such hooks."""
    http_troubles: Callable[[InstallScope, HttpHooks, list[str]], Iterable[InstallProblem]] = (
        lambda _where, _hooks, _urls: ()
    )
    """Finds what keeps hooks of type `http` at these URLs from running, in its settings."""
    variables: Callable[[InstallScope], Mapping[str, str]] = lambda _where: {}
    """The variables that its settings add to its environment."""
    later: Mapping[str, str] = field(default_factory=dict)
    """The events that it can announce without waiting for the hook, each with the event that comes next. It has to wait for
    that one: at its own end it ends the hooks that it does not wait for, and by then they have read their events."""
    closes_since: tuple[int, ...] = ()
    """The first version with a setting that blocks the call if the hook command times out."""


def quiet_events(agent: str) -> frozenset[str]:
    """The events that an install subscribes only if they are named, such as one for each chunk of text."""
    return never_events(agent) | _of_dialect(agent, "QUIET")


def never_events(agent: str) -> frozenset[str]:
    """The events that are never subscribed, because any hook changes what the agent does at them."""
    return _of_dialect(agent, "NEVER")


def _of_dialect(agent: str, name: str) -> frozenset[str]:
    module = importlib.import_module(f"bus.agents.{find_dialect(agent).name}")
    return frozenset(getattr(module, name, ()))
