"""Connects an agent: writes the answer file of its hook commands, finds installed hooks, and plans installs."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from bus.agents import find
from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.events import GATES
from bus.ids import host_name
from bus.installs import find as find_program
from bus.installs.base import NAMES, InstalledCommand, InstallScope, Scope
from bus.installs.hook_command import BUDGET_S, Setup, answer_events, deadline_ms, native_path
from bus.installs.http_hooks import TOKEN, HttpHooks
from bus.installs.manifest import InstallPlan, apply, read, records
from bus.installs.plan import announced, events_for, plan_install
from bus.installs.plan import installed as installs_of
from bus.shim import NoAnswer
from bus.shim.answer_file import (
    AnswerFile,
    EventLine,
    RedisServer,
    compile_shim,
    gateway_from_url,
    program_spool,
    read_answer_file,
    server_from_url,
    write_answer_file,
)
from bus.shim.spool import drain, hand_over, remove, spool_status
from bus.system.directories import Directories
from bus.wire.embedded_server import bus_url, credentials
from bus.wire.keys import Keys

SHIM_URL: Final = "FLEETHOOK_SHIM_URL"
"""This variable has the server's URL for agents' hook commands, with the rights of the role `shim`; only installs read it."""

GATEWAY_TOKEN: Final = TOKEN
"""A gateway's token, for hook commands where FLEETHOOK_URL names a gateway."""

OPENS: Final = "no longer denies if it fails"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """Our hooks in one settings file: the command line of each event, exactly as the agent runs it."""

    agent: str
    scope: Scope
    path: str
    """The file; the folder where there is a file for each event."""
    commands: dict[str, str]
    seconds: dict[str, float] = {}
    """The agent's timeout for each of them, if its file has one."""
    closed: bool = False
    """Whether it was installed with --fail-closed."""
    urls: dict[str, str] = {}
    """Where the hooks of type `http` post to, by event; their command is empty."""
    http: HttpHooks | None = None
    """The gateway of the hooks of type `http`; None if there are none."""
    later: tuple[str, ...] = ()
    """The events whose commands the agent does not wait for."""

    @property
    def native(self) -> str:
        """The native hook command that these hooks run; empty if they run in Python."""
        return next(filter(None, map(native_path, self.commands.values())), "")

    @property
    def option(self) -> str:
        """The option of `fleethook install` that writes such hooks again."""
        return " --http" if self.http is not None else ""


def answers_for(
    agent: str, settings: Settings, places: Directories, *, closed: bool, environ: Mapping[str, str] | None = None
) -> tuple[AnswerFile, tuple[str, ...]]:
    """The answer file of an agent's hook commands, and warnings about it.

    Raises ConfigError for a URL that cannot be used, Unreachable for a host that does not resolve.
    """
    environ = os.environ if environ is None else environ
    server, warnings = _server(agent, settings, places, environ)
    dialect = find(agent)
    # Every event has a line, even if it is not installed, because the hooks of several scopes read the same file.
    events = answer_events(dialect, dialect.capabilities, fail_closed=closed, budget=settings.budget)
    answer_file = AnswerFile(
        agent=agent,
        server=server,
        prefix=Keys(settings.namespace).prefix,
        host=settings.host or host_name(),
        spool=str(places.spool(agent)),
        events=events,
    )
    return answer_file, tuple(warnings)


def _server(
    agent: str, settings: Settings, places: Directories, environ: Mapping[str, str]
) -> tuple[RedisServer, list[str]]:
    """The server that an agent's hook commands ask, and warnings about it: the gateway of FLEETHOOK_URL, else Redis."""
    url, origin, warnings = environ.get(SHIM_URL, ""), SHIM_URL, list[str]()
    if settings.url:
        return _gateway(settings.url, environ), warnings
    if not url and settings.redis_url:
        url, origin = settings.redis_url, "redis_url"
        warnings.append(
            f"{SHIM_URL} is not set, so the agent's hook commands get redis_url with all of its rights; "
            "`fleethook acl` prints a user that may only ask"
        )
    server = None if url else known_server(agent, settings, places)
    if server is not None:
        warnings.append(
            f"{SHIM_URL} is not set, so the agent's hook commands keep the server of the last install "
            f"({server.name or server.address}); `fleethook uninstall` first connects them to another"
        )
    elif not url:
        credentials(places)  # an install before the first `up` creates the passwords that `up` will use
        url = bus_url(settings, "shim", places)
    try:
        return server or server_from_url(url), warnings
    except ConfigError as error:
        raise ConfigError(error.message, file=origin, hint=error.hint) from error


def _gateway(url: str, environ: Mapping[str, str]) -> RedisServer:
    """The gateway of FLEETHOOK_URL, with its token; ConfigError, which names the variable, for one that cannot be used."""
    try:
        return gateway_from_url(url, environ.get(GATEWAY_TOKEN, ""))
    except ConfigError as error:
        raise ConfigError(error.message, file="FLEETHOOK_URL", hint=error.hint) from error


def known_server(agent: str, settings: Settings, places: Directories) -> RedisServer | None:
    """The fleet's server from the answer file of an earlier install, of this agent or else of another one.

    None if this machine has a bus: a running server of its own, or one in the settings.
    """
    if settings.redis_url or _listens(places.socket):
        return None
    for name in dict.fromkeys((agent, *NAMES)):
        with contextlib.suppress(ConfigError):  # the checks of that agent report it
            server = read_answer_file(places.answer_file(name)).server
            if server.kind != "unix" or server.address not in {str(places.socket), str(places.gateway_socket)}:
                return server
    return None


def agent_only_gateway(
    settings: Settings, places: Directories, environ: Mapping[str, str] | None = None
) -> RedisServer | None:
    """The gateway that hook commands ask, if this machine has only agents; None if it has a bus or asks Redis itself.

    Raises ConfigError and Unreachable as `answers_for` does.
    """
    if not settings.url:
        server = known_server(NAMES[0], settings, places)
    elif settings.redis_url or _listens(places.socket):
        server = None
    else:
        server = _gateway(settings.url, os.environ if environ is None else environ)
    if server is None or not server.gateway or server.address == str(places.gateway_socket):
        return None
    return server


def agent_only_url(settings: Settings, places: Directories, environ: Mapping[str, str] | None = None) -> str:
    """The URL of the server for hook commands if this machine has only agents; empty if it has a bus.

    It comes from FLEETHOOK_URL, else FLEETHOOK_SHIM_URL, else from an earlier install, and may hold a password.
    """
    if settings.redis_url:
        return ""
    if (gateway := agent_only_gateway(settings, places, environ)) is not None:
        return url_of(gateway)
    if settings.url:
        return ""
    url = (os.environ if environ is None else environ).get(SHIM_URL, "")
    server = None if url else known_server(NAMES[0], settings, places)
    return url if server is None else url_of(server)


def _listens(path: Path) -> bool:
    """Whether a server listens at a unix socket; the file that a killed server left behind does not count."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def state_of(path: Path, answers: AnswerFile, *, known_server: bool = True) -> str:
    """Compare a file with `answers`: `new`, `changed` or `unchanged`; without `known_server` its server is not compared."""
    if not path.exists():
        return "new"
    try:
        existing = read_answer_file(path)
    except ConfigError:
        return "changed"
    if not known_server:
        answers = msgspec.structs.replace(answers, server=existing.server)
    return "unchanged" if existing == answers else "changed"


def url_of(server: RedisServer) -> str:
    """The URL of an answer file's server; that of Redis holds the password and must not be shown."""
    if server.gateway:
        scheme = {"unix": "unix", "tcp": "http", "tls": "https"}[server.kind]
        return f"{scheme}://{quote(server.address) if server.kind == 'unix' else server.gateway}"
    login = f"{quote(server.user, safe='')}:{quote(server.password, safe='')}@" if server.password else ""
    if server.kind == "unix":
        return f"unix://{login}{quote(server.address)}?db={server.db}"
    host = server.name or server.address
    place = f"{login}{f'[{host}]' if ':' in host else host}:{server.port}/{server.db}"
    if server.kind == "tcp":
        return f"redis://{place}"
    return f"rediss://{place}{f'?ssl_ca_certs={quote(server.cafile)}' if server.cafile else ''}"


def plan(
    agent: str,
    scope: Scope,
    places: Directories,
    *,
    closed: bool,
    events: Sequence[str] | None = None,
    home: Path | None = None,
    project: Path | None = None,
    budget: float = BUDGET_S,
    http: HttpHooks | None = None,
    native: str = "",
    later: Collection[str] = (),
) -> InstallPlan:
    """What an install would change in the agent's settings; with `home`, the environment's paths are ignored.

    `later` are the events that the agent need not wait for, `native` is the native hook command, which an agent that trusts
    hooks by their content does not get where it has hooks without.
    """
    where, file = where_is(home, project), str(places.answer_file(agent))
    if native and find_program(agent).asks_trust:
        here = (calls for there, _, calls in installs_of(agent, where) if there == scope)
        native = native if all(native_path(call.command) for calls in here for call in calls) else ""
    chosen = events_for(agent, events)
    setup = Setup(sys.executable, file, chosen, closed, budget, http, native, announced(agent, chosen, later))
    return plan_install(agent, scope, where, setup)


def plan_again(install: Installed, settings: Settings, places: Directories, project: Path) -> InstallPlan:
    """What the install that made these hooks would change if it ran again now."""
    capabilities = find(install.agent).capabilities
    return plan(
        install.agent,
        install.scope,
        places,
        closed=install.closed,
        events=tuple(name for name in install.commands if name in capabilities),
        project=project,
        budget=settings.budget,
        http=install.http,
        # Hooks that run in Python stay so until `install` is run, although a native hook command may be there by now.
        native=install.native if settings.native_hook else "",
        later=install.later,
    )


def where_is(home: Path | None = None, project: Path | None = None) -> InstallScope:
    """The home and project folder of the settings; default: this user's home and the current folder."""
    return InstallScope(home or Path.home(), project or Path.cwd(), os.environ if home is None else {})


def losses(change: InstallPlan, answers: AnswerFile, places: Directories) -> dict[str, str]:
    """How an install weakens the guards: for each gate event, whether its hook is removed or no longer fails closed.

    The key `server` is set if the hooks would ask another server.
    """
    can = find(change.agent).capabilities
    gates = {name for name, capability in can.items() if capability.waits and capability.type in GATES}
    found: dict[str, str] = {}
    for file in change.changes:
        now = {call.event: call for call in _calls(change.agent, file.path, file.after)}
        for call in _calls(change.agent, file.path, file.before):
            if call.event in gates and call.event not in now:
                found[call.event] = "removed"
            elif call.closed and not call.fails_open and (not now[call.event].closed or now[call.event].fails_open):
                found[call.event] = OPENS
            elif call.event in gates and now[call.event].http != call.http:
                found["server"] = "is another one"
    with contextlib.suppress(ConfigError):  # there is no answer file, or none that a hook command could use
        existing = read_answer_file(places.answer_file(change.agent))
        policies = {line.name: line.policy for line in answers.events}
        for line in existing.events:
            if line.policy == "deny" != policies.get(line.name):
                found.setdefault(line.name, OPENS)
        if _asks(existing) != _asks(answers):
            found["server"] = "is another one"
    return found


def _calls(agent: str, path: Path, raw: bytes | None) -> Iterable[InstalledCommand]:
    return find_program(agent).form.calls(path, raw) if raw is not None else ()


def _asks(answers: AnswerFile) -> tuple[str | int, ...]:
    """The server and fleet that the hook commands ask; compared by name, because an address may change."""
    server = answers.server
    return (server.kind, server.name or server.address, server.port, server.db, server.gateway, answers.prefix)


def connect(change: InstallPlan, answers: AnswerFile, places: Directories) -> tuple[Path, ...]:
    """Write the answer file, then the hooks, so that an agent that starts in between has both or neither.

    Returns the backups.
    """
    write_answer_file(places.answer_file(change.agent), within_grants(answers, places, change))
    with contextlib.suppress(OSError):  # without the right to write to the package's folder, every call takes 3 ms more
        compile_shim()
    return apply(change, places.state)


def within_grants(answers: AnswerFile, places: Directories, change: InstallPlan | None = None) -> AnswerFile:
    """The answer file with its waiting times cut to the timeouts of all entries that are installed after `change`.

    An entry in another project's settings may be older than these answers, but it reads the same answer file.
    """
    program = find_program(answers.agent)
    after = {file.path: file.after for file in change.changes} if change is not None else {}
    files = {path for path, record in records(places.state).items() if record.agent == program.name}
    granted: dict[str, float] = {}
    for path in files | after.keys():
        raw = after[path] if path in after else read(path)
        for call in program.form.calls(path, raw) if raw is not None else ():
            if call.seconds:
                granted[call.event] = min(call.seconds, granted.get(call.event, call.seconds))
    return msgspec.structs.replace(answers, events=tuple(_within(line, granted) for line in answers.events))


def _within(line: EventLine, granted: Mapping[str, float]) -> EventLine:
    seconds = granted.get(line.name)
    if seconds is None or not line.patience_ms:
        return line
    most = min(line.patience_ms, deadline_ms(seconds, seconds))
    return msgspec.structs.replace(line, patience_ms=most if most > line.deadline_ms else 0)


def installed(agent: str, *, home: Path | None = None, project: Path | None = None) -> tuple[Installed, ...]:
    """Our hooks in an agent's settings files. A file that cannot be read counts as empty; the install plan warns of it."""
    whole = find_program(agent).form.whole
    found: dict[Path, Installed] = {}
    for scope, file, calls in installs_of(agent, where_is(home, project)):
        path = file.parent if whole and file.name == calls[0].event else file  # a script for each event
        known = found.setdefault(path, Installed(agent=agent, scope=scope, path=str(path), commands={}))
        found[path] = msgspec.structs.replace(
            known,
            commands=known.commands | {call.event: call.command for call in calls},
            seconds=known.seconds | {call.event: call.seconds for call in calls if call.seconds},
            closed=known.closed or any(call.closed for call in calls),
            urls=known.urls | {call.event: call.url for call in calls if call.url},
            later=(*known.later, *(call.event for call in calls if call.later)),
            http=next((call.http for call in calls if call.http is not None), known.http),
        )
    return tuple(found.values())


def empty_spool(answer_file: Path, spool: Path) -> int:
    """Send the spooled events while the answer file still names the server; returns how many events are left."""
    with contextlib.suppress(
        OSError, NoAnswer, ValueError
    ):  # the server is away: the events stay, as the caller reports
        if spool_status(spool).records:
            drain(str(answer_file))
    if not (left := spool_status(spool).records):
        remove(spool)
    return left


def spool_without_agent(agent: str, places: Directories) -> Path:
    """Move the spooled events of an agent, whose answer file will be removed, to the programs' spool for the same server.

    Returns that spool, or the agent's spool if the answer file cannot be used or the disk is full.
    """
    spool = places.spool(agent)
    try:
        answers = read_answer_file(places.answer_file(agent))
        if answers.server.gateway:
            return spool  # programs have no spool for a gateway
        shared = program_spool(places, url_of(answers.server), answers.prefix)
        hand_over(spool, shared)
    except (ConfigError, OSError):
        return spool
    return shared
