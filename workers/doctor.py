"""Whether hooks really run here: every check as a value, with what is wrong and how to mend it.

`unknown` is a state of its own: what could not be seen is neither well nor ill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

import bus.errors
from bus.answerfile import AnswerFile, read_answer_file
from bus.config.hookfile import load_hook_file
from bus.config.settings import Settings
from bus.config.trust import is_trusted, project_file
from bus.connections import Links
from bus.directories import Directories, config_file, make_private
from bus.errors import ConfigError, FleethookError, Unreachable
from bus.hooks import Layer
from bus.hooksets import current_version, load_version
from bus.ids import reply_token
from bus.keys import Keys
from workers.connecting import (
    AGENTS,
    SHIM_URL,
    Installed,
    answers_for,
    connect,
    empty_spool,
    installed,
    plan,
    state_of,
    url_of,
)
from workers.status import read_roles, read_spools, server_facts

State = Literal["ok", "warn", "fail", "unknown"]
Mend = Literal["", "modes", "install", "spool"]

FLOOR: Final = {"redis": (6, 2), "valkey": (7, 2)}
FREE_BYTES: Final = 500 * 1024 * 1024
VERSION_SECONDS: Final = 10.0
_INSTALL: Final = "fleethook install"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: `fix` is what a person can do, `mend` what `doctor --fix` does about it."""

    id: str
    status: State
    what: str
    fix: str = ""
    mend: Mend = ""


def package_checks() -> Iterator[Check]:
    """The interpreter, and that `bus` and `workers` are ours: both names are common ones."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    fix = "" if good else "use Python 3.11 or newer"
    yield Check(id="python", status="ok" if good else "fail", what=f"Python {version} at {sys.executable}", fix=fix)
    ours, theirs = Path(__file__).resolve().parents[1], Path(bus.errors.__file__).resolve().parents[1]
    if ours == theirs:
        yield Check(id="package", status="ok", what=f"bus and workers from {ours}")
    else:
        yield Check(
            id="package", status="fail", what=f"`bus` comes from {theirs}, `workers` from {ours}",
            fix="another package is called bus: install fleethook in an environment of its own",
        )  # fmt: skip


def file_checks(settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    """Private directories and files, room on the disk, and the hook files of the user and of the project."""
    secret = [places.data, places.state, places.credentials, *(places.answer_file(agent) for agent in AGENTS)]
    wide = [str(path) for path in secret if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if wide:
        text = f"open to other users: {', '.join(wide)}"
        yield Check(id="modes", status="fail", what=text, fix=f"chmod go= {' '.join(wide)}", mend="modes")
    else:
        yield Check(id="modes", status="ok", what="what holds credentials is for this user alone")
    there = next(path for path in (places.data, *places.data.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < FREE_BYTES:
        text = f"{free // 2**20} MiB are free at {there}: the server stops taking writes when the disk is full"
        yield Check(id="disk", status="warn", what=text, fix="make room")
    yield from _hook_file_checks(config_file(places.config), "user")
    project = project_file(cwd)
    yield from _hook_file_checks(project, "project")
    if project is not None and not is_trusted(project, places.trust_file):
        yield Check(
            id="trust", status="warn", what=f"{project} is not trusted: none of its hooks run",
            fix="read it, then `fleethook hooks trust`",
        )  # fmt: skip
    for spool in read_spools(places):
        if spool.dropped:
            text = f"{spool.dropped} events of {spool.agent} did not fit on the disk and are lost"
            yield Check(id="spool", status="warn", what=text, fix="keep the server reachable; `fleethook status`")
        if spool.records:
            text = f"{spool.records} events of {spool.agent} wait on this disk ({spool.bytes} bytes)"
            yield Check(id="spool", status="warn", what=text, fix="`fleethook up`, or --fix sends them", mend="spool")
    if settings.url:
        yield Check(id="gateway", status="unknown", what="a gateway is set (url), and is not looked at")


async def server_checks(links: Links, rq: Links, keys: Keys, settings: Settings) -> list[Check]:
    """The server, how it keeps its data, and whether every process type is alive."""
    try:
        facts = await server_facts(links)
    except (Unreachable, FleethookError) as error:
        away = [
            Check(id=name, status="unknown", what="the server cannot be asked")
            for name in ("appendonly", "maxmemory-policy", "evaluator", "dispatcher", "carrier", "chores", "hooks")
        ]
        return [Check(id="server", status="fail", what=str(error), fix="fleethook up"), *away]
    found = [_version_check(facts.brand, facts.version, facts.url, facts.ms)]
    found += await _config_checks(links)
    for role in await read_roles(links, rq, keys, settings):
        state: State = {"ok": "ok", "missing": "fail", "off": "warn", "unknown": "unknown"}[role.health]  # type: ignore[assignment]  # all four are states
        text = f"{role.alive} alive" if role.alive else f"no {role.role} is alive"
        text = f"whether a {role.role} is alive cannot be seen" if role.health == "unknown" else text
        fix = "" if state == "ok" else f"`fleethook up`, or `fleethook worker {role.role}`; `fleethook logs` says more"
        found.append(Check(id=role.role, status=state, what=text, fix=fix))
    found.append(await _set_check(links, keys))
    return found


def agent_checks(agent: str, settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    """One agent: its program, where we are installed, whether hooks are switched off, and what its hooks know."""
    yield _program(agent)
    here = installed(agent, project=cwd)
    if not here:
        text = f"{agent}: no hooks of ours in its settings"
        yield Check(id=f"{agent}-installed", status="warn", what=text, fix=f"{_INSTALL} {agent}")
        return
    for one in here:
        text = f"{agent}: {len(one.commands)} events in {one.path}"
        yield Check(id=f"{agent}-installed", status="ok", what=text)
        yield _current(one, places, cwd)
    off = plan(agent, "user", places, closed=here[0].closed, project=cwd).warnings
    for text in off:
        yield Check(id=f"{agent}-effective", status="fail", what=text, fix="take it out, or ask who set it")
    if not off:
        yield Check(id=f"{agent}-effective", status="ok", what=f"{agent}: no settings layer switches hooks off")
    moved = os.environ.get("CLAUDE_CONFIG_DIR", "")
    if agent == "claude" and moved and Path(moved) != Path.home() / ".claude":
        text = f"CLAUDE_CONFIG_DIR is {moved}: Claude Code does not read the user settings that we look at"
        yield Check(id=f"{agent}-effective", status="warn", what=text, fix=f"{_INSTALL} {agent} --scope project")
    yield _answers(agent, settings, places, closed=any(one.closed for one in here))


async def rights_checks(agent: str, places: Directories) -> list[Check]:
    """Whether the credentials of the agent's hook commands may ask, and may nothing else."""
    path, name = places.answer_file(agent), f"{agent}-rights"
    try:
        answers = read_answer_file(path)
    except ConfigError:
        return []  # said already
    links = Links(url_of(answers.server), connect=1.0)
    try:
        missing, wide = await _tried(links, answers)
    except (Unreachable, FleethookError) as error:
        return [
            Check(
                id=name,
                status="fail",
                what=f"{agent}: its hook commands: {error}",
                fix="`fleethook up`, then " + _INSTALL,
            )
        ]
    finally:
        await links.close()
    if missing:
        text = f"{agent}: its hook commands may not {', '.join(missing)}"
        return [Check(id=name, status="fail", what=text, fix="give their user the rights that `fleethook acl` prints")]
    if wide:
        text = f"{agent}: its hook commands may also {', '.join(wide)}"
        return [
            Check(
                id=name,
                status="warn",
                what=text,
                fix=f"{SHIM_URL}=... of the role shim (`fleethook acl`), then {_INSTALL}",
            )
        ]
    return [Check(id=name, status="ok", what=f"{agent}: its hook commands may ask and report, and nothing else")]


def mend(checks: Iterable[Check], settings: Settings, places: Directories, cwd: Path) -> list[str]:
    """Do what can be done about the findings, and say what was done."""
    wanted, done = {check.mend for check in checks if check.status in {"warn", "fail"}}, []
    if "modes" in wanted:
        for folder in (places.data, places.state):
            make_private(folder, mend=True)
        for path in (places.credentials, *(places.answer_file(agent) for agent in AGENTS)):
            if path.exists():
                path.chmod(0o600)
        done.append("took back the rights of other users")
    for agent in AGENTS:
        if "install" in wanted:
            for one in installed(agent, project=cwd):
                change = plan(agent, one.scope, places, closed=one.closed, events=tuple(one.commands), project=cwd)
                connect(change, answers_for(agent, settings, places, closed=one.closed)[0], places)
                done.append(f"installed {agent} again in {one.path}")
        if "spool" in wanted:
            left = empty_spool(places.answer_file(agent), places.spool(agent))
            done.append(f"sent what waited for {agent}" if not left else f"{left} events of {agent} still wait")
    return done


def _hook_file_checks(path: Path | None, layer: Layer) -> Iterator[Check]:
    if path is None:
        return
    try:
        file = load_hook_file(path, layer)
    except ConfigError as error:
        yield Check(id=f"{layer}-file", status="fail", what=str(error), fix=f"fleethook config check {path}")
        return
    for problem in file.problems:
        yield Check(id=f"{layer}-file", status="fail", what=str(problem), fix=f"fleethook config check {path}")
    for warning in file.warnings:
        yield Check(id=f"{layer}-file", status="warn", what=str(warning))
    if not file.problems:
        guards = ", ".join(sorted(name for name, guard in file.guards.items() if guard.enabled)) or "no guards"
        text = f"{path}: {len(file.hooks)} hooks, {len(file.endpoints)} endpoints, {guards}"
        yield Check(id=f"{layer}-file", status="ok", what=text)


def _version_check(brand: str, version: str, url: str, ms: float) -> Check:
    text = f"{brand or 'server'} {version} at {url}, {ms:.1f} ms"
    number = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not number:
        return Check(id="server", status="unknown", what=f"{text}: it does not say what it is", fix="allow INFO")
    if brand in FLOOR and number < FLOOR[brand]:
        least = ".".join(map(str, FLOOR[brand]))
        return Check(id="server", status="fail", what=text, fix=f"use {brand} {least} or newer")
    return Check(id="server", status="ok", what=text)


async def _config_checks(links: Links) -> list[Check]:
    wanted = (
        ("appendonly", "yes", "warn", "what was acknowledged is lost when the server ends: set appendonly yes"),
        ("maxmemory-policy", "noeviction", "fail", "events and verdicts vanish when memory is full: set noeviction"),
    )
    found = []
    async with links.link() as link:
        replies = await link.exchange([("CONFIG", "GET", name) for name, *_ in wanted])
    for (name, right, state, why), reply in zip(wanted, replies, strict=True):
        value = reply[1].decode("utf-8", "replace") if isinstance(reply, list) and len(reply) == 2 else ""
        if not value:
            found.append(Check(id=name, status="unknown", what=f"{name} cannot be seen with our rights"))
        elif value == right:
            found.append(Check(id=name, status="ok", what=f"{name} is {value}"))
        else:
            bad: State = "fail" if state == "fail" else "warn"
            found.append(Check(id=name, status=bad, what=f"{name} is {value}", fix=why))
    return found


async def _set_check(links: Links, keys: Keys) -> Check:
    try:
        version = await current_version(links, keys)
        if not version:
            return Check(id="hooks", status="ok", what="no hook set was published; user and project files apply")
        file = await load_version(links, keys, version)
    except FleethookError as error:
        return Check(id="hooks", status="fail", what=str(error), fix="fleethook hooks rollback")
    if file.problems:
        return Check(
            id="hooks", status="fail", what=f"version {version}: {file.problems[0]}", fix="fleethook hooks rollback"
        )
    text = f"hook set version {version}: {len(file.hooks)} hooks, {len(file.endpoints)} endpoints"
    return Check(id="hooks", status="ok", what=text)


def _program(agent: str) -> Check:
    found = shutil.which(agent)
    if found is None:
        return Check(id=f"{agent}-program", status="unknown", what=f"{agent} is not on PATH", fix=f"install {agent}")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(
            [found, "--version"], capture_output=True, timeout=VERSION_SECONDS, check=False, text=True
        )
        if said.returncode == 0 and said.stdout.strip():
            return Check(id=f"{agent}-program", status="ok", what=f"{said.stdout.strip().splitlines()[0]} at {found}")
    return Check(id=f"{agent}-program", status="unknown", what=f"{found} does not say its version")


def _current(one: Installed, places: Directories, cwd: Path) -> Check:
    name = f"{one.agent}-commands"
    change = plan(one.agent, one.scope, places, closed=one.closed, events=tuple(one.commands), project=cwd)
    if not change.changes:
        return Check(id=name, status="ok", what=f"{one.agent}: the commands are those of this fleethook")
    text = f"{one.agent}: the commands in {one.path} are not those that this fleethook writes"
    return Check(id=name, status="warn", what=text, fix=f"{_INSTALL} {one.agent} --scope {one.scope}", mend="install")


def _answers(agent: str, settings: Settings, places: Directories, *, closed: bool) -> Check:
    path, name, fix = places.answer_file(agent), f"{agent}-answers", f"{_INSTALL} {agent}"
    try:
        wanted = answers_for(agent, settings, places, closed=closed)[0]
        state = state_of(path, wanted, known_server=not settings.redis_url or SHIM_URL in os.environ)
    except (ConfigError, Unreachable) as error:
        return Check(id=name, status="unknown", what=str(error))
    if state == "unchanged":
        return Check(id=name, status="ok", what=f"{agent}: {path} is up to date")
    missing = (
        "is missing, so its hooks do nothing" if state == "new" else "is stale: server, namespace or deadlines differ"
    )
    status: State = "fail" if state == "new" else "warn"
    return Check(id=name, status=status, what=f"{agent}: {path} {missing}", fix=fix, mend="install")


async def _tried(links: Links, answers: AnswerFile) -> tuple[list[str], list[str]]:
    """What the credentials may not do though they must, and may do though they need not; nothing is changed.

    XADD has an id that no server takes, so it fails after the rights were looked at.
    """
    at, reply = answers.prefix, f"{answers.prefix}reply:{reply_token()}"
    needed = (
        ("add requests", ("XADD", f"{at}requests", "NOMKSTREAM", "no-id", "a", "b")),
        ("add events", ("XADD", f"{at}events", "NOMKSTREAM", "no-id", "a", "b")),
        ("read answers", ("BLMOVE", reply, reply, "LEFT", "LEFT", 0.01)),
        ("see evaluators", ("EXISTS", f"{at}alive:evaluator")),
        ("drain the spool", ("EVAL", "return 1", 2, f"{at}sent", f"{at}events")),
    )
    needless = (
        ("read hook sets", ("GET", f"{at}hookset:current")),
        ("read events", ("XLEN", f"{at}events")),
        ("read counters", ("HGETALL", f"{at}stats")),
    )
    async with links.link() as link:
        replies = await link.exchange([command for _, command in (*needed, *needless)])
    refused = [isinstance(one, Exception) and "permission" in f"{type(one).__name__} {one}".lower() for one in replies]
    missing = [what for (what, _), no in zip(needed, refused, strict=False) if no]
    wide = [what for (what, _), no in zip(needless, refused[len(needed) :], strict=True) if not no]
    return missing, wide
