"""A real Redis-compatible server for tests: started, killed and started again on the same data."""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from bus.wire.connections import sync_client
from bus.wire.embedded_server import find_binary
from tests.support.waiting import PATIENCE, wait_until

_PORTS = range(20_000, 32_000)
"""Below the ports that systems give to outgoing connections and to listeners that ask for any port."""
_LOCKS: list[int] = []


def free_port() -> int:
    """A TCP port that nobody listens on, and that no other call returns until this process has ended, on this machine."""
    folder = Path(tempfile.gettempdir()) / f"fh-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    while True:
        port = random.choice(_PORTS)
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("", port))
        except OSError:
            os.close(lock)
            continue
        _LOCKS.append(lock)
        return port


@cache
def has_selectors() -> bool:
    """Whether the server's ACL has selectors, which Redis 6.2 lacks."""
    said = subprocess.run([str(find_binary().path), "--version"], capture_output=True, text=True, check=True).stdout
    return not re.search(r"Redis server v=6\.", said)


class Server:
    """One server process with its own folder; `url` is its unix socket."""

    def __init__(
        self,
        *,
        fsync: str = "everysec",
        acl: str = "",
        persistent: bool = False,
        listens: bool = False,
        maxmemory: int = 0,
    ) -> None:
        # Unix socket paths end at about 100 bytes, and pytest's own folders are longer.
        self.folder = Path(tempfile.mkdtemp(prefix="fh-"))
        self.socket = self.folder / "redis.sock"
        self.url = f"unix://{self.socket}?db=0"
        self.login = ""
        """`user:password@` of somebody who may PING: a server that lets nobody in without one says so while it still loads."""
        self._fsync, self._persistent = fsync, persistent
        if acl:
            (self.folder / "users.acl").write_text(acl, encoding="utf-8")
        self._acl = bool(acl)
        self._maxmemory = maxmemory
        self.port = free_port() if listens else 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        binary = find_binary()
        options = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            str(self.socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(self.folder),
            "--save",
            "",
            "--appendonly",
            "yes" if self._persistent else "no",
            "--appendfsync",
            self._fsync,
            "--maxmemory-policy",
            "noeviction",
            "--maxmemory",
            str(self._maxmemory),
            "--loglevel",
            "warning",
        ]
        if self._acl:
            options += ["--aclfile", str(self.folder / "users.acl")]
        self.process = subprocess.Popen(
            [str(binary.path), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(self._answers, "the server answers")
        except BaseException:  # else Popen's warning fails whichever test runs later
            self.kill()
            raise

    def _answers(self) -> bool:
        client = sync_client(self.url.replace("unix://", f"unix://{self.login}"))
        try:
            return bool(client.ping())
        except Exception as error:  # noqa: BLE001 - whatever it says while it starts, it answers; refusal counts
            return "NOAUTH" in str(error) or "Authentication" in str(error) or "NOPERM" in str(error)
        finally:
            client.close()

    def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it and remove its folder."""
        self._signal(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self.process = None
        self.socket.unlink(missing_ok=True)
