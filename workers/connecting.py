"""Connecting an agent: what its hook commands have to know, what is installed where, and what an install would write."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from bus.answerfile import AnswerFile, Server, compile_shim, read_answer_file, server_from_url, write_answer_file
from bus.config.settings import Settings
from bus.dialects import find
from bus.directories import Directories
from bus.entries import MARK
from bus.errors import ConfigError
from bus.ids import host_name
from bus.installing import Plan, Scope, answer_events, apply, hook_command, plan_install, settings_path
from bus.keys import Keys
from bus.server import bus_url, credentials
from bus.shim import NoAnswer
from bus.spool import drain, spool_status

AGENTS: Final = ("claude",)
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local")

SHIM_URL: Final = "FLEETHOOK_SHIM_URL"
"""The server as agents' hook commands reach it, with the rights of the role `shim`; read by installs alone."""

_SPOOL_PARTS: Final = ("", ".draining", ".drain.lock", ".dropped")


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """Our hooks in one settings file: the command line of each event, exactly as the agent runs it."""

    agent: str
    scope: Scope
    path: str
    commands: dict[str, str]

    @property
    def closed(self) -> bool:
        """Whether it was installed with --fail-closed."""
        return any("exit 2" in command for command in self.commands.values())


def answers_for(
    agent: str, settings: Settings, places: Directories, *, closed: bool, environ: Mapping[str, str] | None = None
) -> tuple[AnswerFile, tuple[str, ...]]:
    """What the hook commands of an agent have to know, and what should be said about it.

    Raises ConfigError for a URL that cannot be used, Unreachable for a host that does not resolve.
    """
    environ = os.environ if environ is None else environ
    url, origin, warnings = environ.get(SHIM_URL, ""), SHIM_URL, []
    if not url and settings.redis_url:
        url, origin = settings.redis_url, "redis_url"
        warnings.append(
            f"{SHIM_URL} is not set, so the agent's hook commands get redis_url with all of its rights; "
            "`fleethook acl` prints a user that may only ask"
        )
    elif not url:
        credentials(places)  # an install before the first `up` makes those that `up` will use
        url = bus_url(settings, "shim", places)
    try:
        server = server_from_url(url)
    except ConfigError as error:
        raise ConfigError(error.message, file=origin, hint=error.hint) from error
    dialect, most = find(agent), max(1, int(settings.budget * 1000))
    # Every event has its line, whatever is subscribed: hooks of several scopes read the same file.
    events = tuple(
        msgspec.structs.replace(line, deadline_ms=min(line.deadline_ms, most))
        for line in answer_events(dialect, dialect.capabilities, fail_closed=closed)
    )
    made = AnswerFile(
        agent=agent, server=server, prefix=Keys(settings.namespace).prefix, host=settings.host or host_name(),
        spool=str(places.spool(agent)), events=events,
    )  # fmt: skip
    return made, tuple(warnings)


def state_of(path: Path, answers: AnswerFile, *, known_server: bool = True) -> str:
    """`new`, `changed` or `unchanged`; without `known_server` the file's own server counts as right."""
    if not path.exists():
        return "new"
    try:
        there = read_answer_file(path)
    except ConfigError:
        return "changed"
    if not known_server:
        answers = msgspec.structs.replace(answers, server=there.server)
    return "unchanged" if there == answers else "changed"


def url_of(server: Server) -> str:
    """The URL of an answer file's server; it holds the password and must not be shown."""
    login = f"{quote(server.user, safe='')}:{quote(server.password, safe='')}@" if server.password else ""
    if server.kind == "unix":
        return f"unix://{login}{quote(server.address)}?db={server.db}"
    host = server.name or server.address
    place = f"{login}{f'[{host}]' if ':' in host else host}:{server.port}/{server.db}"
    if server.kind == "tcp":
        return f"redis://{place}"
    return f"rediss://{place}{f'?ssl_ca_certs={quote(server.cafile)}' if server.cafile else ''}"


def plan(
    agent: str, scope: Scope, places: Directories, *, closed: bool, events: Sequence[str] | None = None,
    home: Path | None = None, project: Path | None = None,
) -> Plan:  # fmt: skip
    """What an install would change in the agent's settings."""
    path = places.answer_file(agent)

    def command_for(event: str) -> str:
        return hook_command(sys.executable, agent, event, path, fail_closed=closed)

    return plan_install(
        agent, scope, home=home or Path.home(), project=project or Path.cwd(), command_for=command_for, events=events,
        fail_closed=closed,
    )  # fmt: skip


def connect(change: Plan, answers: AnswerFile, places: Directories) -> tuple[Path, ...]:
    """Write what the hooks need, then the hooks, so that an agent that starts in between has both or neither.

    Returns the backups.
    """
    write_answer_file(places.answer_file(change.agent), answers)
    with contextlib.suppress(OSError):  # a package that we may not write to: every call costs 3 ms more
        compile_shim()
    return apply(change, places.state)


def installed(agent: str, *, home: Path | None = None, project: Path | None = None) -> tuple[Installed, ...]:
    """Where our hooks stand in an agent's settings; a file that cannot be read holds none (see the plan's warnings)."""
    found: dict[Path, Installed] = {}
    for scope in SCOPES:
        path = settings_path(agent, scope, home=home or Path.home(), project=project or Path.cwd())
        commands = _commands(path)
        if commands:
            found.setdefault(path, Installed(agent=agent, scope=scope, path=str(path), commands=commands))
    return tuple(found.values())


def empty_spool(answer_file: Path, spool: Path) -> int:
    """Send what waits on the disk while somebody still knows where to, and return how many events are left."""
    with contextlib.suppress(OSError, NoAnswer, ValueError):  # Redis is away: it stays, and the caller says so
        if spool_status(spool).records:
            drain(str(answer_file))
    left = spool_status(spool).records
    if not left:
        for part in _SPOOL_PARTS:
            spool.with_name(spool.name + part).unlink(missing_ok=True)
    return left


def _commands(path: Path) -> dict[str, str]:
    try:
        settings: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    commands: dict[str, str] = {}
    for native, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                command = handler.get("command") if isinstance(handler, dict) else None
                if isinstance(command, str) and command.rstrip().endswith(MARK):
                    commands[native] = command
    return commands
