"""Fleethook's directories on this machine, which only this user can access."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bus.errors import ConfigError

HOME_VARIABLE: Final = "FLEETHOOK_HOME"
CONFIG_NAMES: Final = ("fleethook.yaml", "fleethook.yml", "fleethook.json")
SOCKET_NAME: Final = "redis.sock"
SOCKET_LIMIT: Final = 100
"""Most bytes of a socket's path; the system's own limit is 104 on macOS and 108 on Linux, with the closing zero."""

_AGENT: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}\Z")
_SHARED: Final = 0o077


@dataclass(frozen=True, slots=True)
class Directories:
    """The four directories: the user's settings, lasting data, state that may be lost, and files of this session."""

    config: Path
    data: Path
    state: Path
    runtime: Path

    @property
    def socket(self) -> Path:
        """The embedded server's socket; its path has less than 100 bytes."""
        return self.runtime / SOCKET_NAME

    @property
    def pid_file(self) -> Path:
        """The file that names the process of `fleethook up`."""
        return self.runtime / "up.pid"

    @property
    def gateway_socket(self) -> Path:
        """The unix socket of this user's gateway."""
        return self.runtime / "gateway.sock"

    @property
    def gateway_file(self) -> Path:
        """The file with the addresses of the gateway that runs here, one a line."""
        return self.runtime / "gateway.addresses"

    @property
    def gateway_lock(self) -> Path:
        """The lock of the gateway that runs here."""
        return self.runtime / "gateway.lock"

    @property
    def server_dir(self) -> Path:
        """The directory of the embedded server's data."""
        return self.data / "server"

    @property
    def credentials(self) -> Path:
        """The file with the embedded server's passwords by role (0600)."""
        return self.data / "credentials.json"

    @property
    def trust_file(self) -> Path:
        """The file that lists the folders whose hooks the user trusts."""
        return self.state / "trust.json"

    @property
    def last_good(self) -> Path:
        """The last good content of hook files, which stays in force while they have errors (0700; files 0600)."""
        return self.data / "last-good"

    @property
    def log_dir(self) -> Path:
        """The log folder of `fleethook up --detach`."""
        return self.state / "log"

    @property
    def bytecode(self) -> Path:
        """Python's bytecode of what `fleethook up` imports, where there is none beside the sources (0700)."""
        return self.state / "bytecode"

    def spool(self, agent: str) -> Path:
        """The folder in which an agent's shim spools events while Redis is away."""
        return self.state / "spool" / _agent_file(agent)

    def answer_file(self, agent: str) -> Path:
        """The answer file of an agent's shim: address, credentials, deadlines and fallback answers (0600)."""
        return self.data / "agents" / _agent_file(agent)

    def create(self) -> Directories:
        """Make the four directories, for this user alone; raises ConfigError if one belongs to another user."""
        for path in (self.config, self.data, self.state):
            make_private(path, narrow=True)
        _make_runtime(self.runtime)
        return self


def directories(environ: Mapping[str, str] | None = None, *, create: bool = True) -> Directories:
    """This user's directories: under FLEETHOOK_HOME if it is set, else in the system's usual places."""
    environ = os.environ if environ is None else environ
    home = environ.get(HOME_VARIABLE, "")
    if home:
        base = Path(home).expanduser().absolute()
        config, data, state = base / "config", base / "data", base / "state"
        wanted: Path | None = base / "run"
    else:
        from platformdirs import PlatformDirs

        places = PlatformDirs("fleethook", appauthor=False)
        config, data, state = places.user_config_path, places.user_data_path, places.user_state_path
        wanted = _session_runtime(environ)
    if wanted is None or len(os.fsencode(wanted / SOCKET_NAME)) >= SOCKET_LIMIT:
        # Two FLEETHOOK_HOMEs must not share a runtime directory, so its name is made of the data directory.
        name = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
        wanted = Path(f"/tmp/fleethook-{os.geteuid()}") / name  # noqa: S108 - owner, mode and kind are checked
    found = Directories(config, data, state, wanted)
    return found.create() if create else found


def config_file(folder: Path) -> Path | None:
    """The hook file in a folder: the first of fleethook.yaml, .yml and .json that exists."""
    return next((folder / name for name in CONFIG_NAMES if os.path.isfile(folder / name)), None)


def make_private(path: Path, *, narrow: bool = False) -> None:
    """Make a directory for this user alone (0700). Raises ConfigError if the path is something else.

    With `narrow`, a directory of this user with a wider mode gets this mode, and a link to a directory is allowed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.stat() if narrow else path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no directory"
            raise ConfigError(f"{path} is {kind}", hint="remove it")
        if found.st_uid != os.geteuid():
            raise ConfigError(f"{path} belongs to another user ({found.st_uid})", hint=f"set {HOME_VARIABLE}")
        if found.st_mode & _SHARED:
            if not narrow:
                raise ConfigError(f"{path} is open to other users", hint=f"chmod 700 {path}")
            path.chmod(stat.S_IMODE(found.st_mode) & ~_SHARED)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used: {error.strerror or error}", hint=f"set {HOME_VARIABLE} to a folder that can"
        ) from error


def _make_runtime(path: Path) -> None:
    """The runtime directory, and its parent if that is ours: in /tmp another user could make it first."""
    if path.parent.name == f"fleethook-{os.geteuid()}":
        make_private(path.parent)
    make_private(path)


def _session_runtime(environ: Mapping[str, str]) -> Path | None:
    """`fleethook` in the session's runtime directory; None if there is none that only this user can access.

    platformdirs is not used, because without such a directory it makes one in /tmp, with a warning.
    """
    if sys.platform == "darwin":
        return None
    for folder in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        if not folder.startswith("/"):
            continue
        try:
            found = os.lstat(folder)
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _SHARED:
            return Path(folder) / "fleethook"
    return None


def _agent_file(agent: str) -> str:
    name = agent.strip().lower()
    if not _AGENT.match(name):
        raise ConfigError(f"{agent[:40]!r} is no name of an agent", hint="letters, digits, '.', '_' and '-'")
    return name
