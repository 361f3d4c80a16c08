"""Plans and applies `fleethook service`: the service files of this machine, and the service manager's commands."""

from __future__ import annotations

import difflib
import getpass
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bus.config.settings import VARIABLES
from bus.errors import ConfigError
from bus.secrets.redaction import redact_text, redact_url
from bus.system.directories import Directories
from bus.system.locks import write_private
from workers.admin.service_units import MARK, environment_text, launchd_plist, systemd_unit

System = Literal["systemd", "launchd"]

PROCESSES: Final = ("up", "evaluator", "dispatcher", "host", "carrier", "chores", "gateway")

PASSED_ON: Final = (
    *VARIABLES,
    "FLEETHOOK_HOME",
    "FLEETHOOK_SECRET_KEY_FILE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "PATH",
)
"""The variables of this shell that a service gets: settings, folders, and PATH for hook commands."""

UNIT_MODE: Final = 0o644
_SECONDS: Final = 60.0
_SYSTEM_ENVIRONMENT: Final = Path("/etc/fleethook/service.env")


class ServiceFile(NamedTuple):
    """One file before and after; None if it does not exist."""

    path: Path
    before: str | None
    after: str | None
    mode: int

    @property
    def changes(self) -> bool:
        """Whether the file has to be written or removed."""
        return self.before != self.after


class ServicePlan(NamedTuple):
    """Files to write or remove, the manager's commands to run before and after that, and steps for a person."""

    files: tuple[ServiceFile, ...]
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    steps: tuple[str, ...] = ()


class ServiceManager(NamedTuple):
    """The service manager here: systemd for this user or for the whole machine, or launchd for this user."""

    kind: System
    machine_wide: bool
    """Whether it is for the whole machine and not for this user alone."""
    folder: Path
    environment: Path
    log: Path
    """Where launchd writes the output of a process; systemd uses its journal."""

    def file(self, process: str) -> Path:
        """The file of one process."""
        if self.kind == "systemd":
            return self.folder / ("fleethook.service" if process == "up" else f"fleethook-{process}.service")
        return self.folder / f"{self.label(process)}.plist"

    def label(self, process: str) -> str:
        """The name of its unit, or the label of its launchd job."""
        return self.file(process).name if self.kind == "systemd" else f"fleethook.{process}"

    def start(self, processes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The commands that load new files and start their processes."""
        if self.kind == "systemd":
            names = tuple(map(self.label, processes))
            return (
                self._systemctl("daemon-reload"),
                self._systemctl("enable", *names),
                self._systemctl("restart", *names),
            )
        return tuple(("launchctl", "bootstrap", self._domain, str(self.file(process))) for process in processes)

    def stop(self, processes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The commands that stop the processes of its files."""
        if self.kind == "systemd":
            return (self._systemctl("disable", "--now", *map(self.label, processes)),)
        return tuple(("launchctl", "bootout", f"{self._domain}/{self.label(process)}") for process in processes)

    def reload(self) -> tuple[tuple[str, ...], ...]:
        """The commands that unload files that were removed."""
        return (self._systemctl("daemon-reload"),) if self.kind == "systemd" else ()

    @property
    def _domain(self) -> str:
        return f"gui/{os.geteuid()}"

    def _systemctl(self, *words: str) -> tuple[str, ...]:
        return ("systemctl", *(() if self.machine_wide else ("--user",)), *words)


def service_manager(
    places: Directories, *, machine_wide: bool, kind: System | None = None, environ: Mapping[str, str] | None = None
) -> ServiceManager:
    """The service manager of this machine, or the one of `kind`; raises ConfigError for machine-wide launchd services."""
    environ = os.environ if environ is None else environ
    kind = kind or ("launchd" if sys.platform == "darwin" else "systemd")
    if machine_wide and kind == "launchd":
        raise ConfigError("launchd services are supported for one user only", hint="leave --system out")
    home = Path(environ.get("HOME") or Path.home())
    if kind == "launchd":
        folder = home / "Library/LaunchAgents"
    elif machine_wide:
        folder = Path("/etc/systemd/system")
    else:
        folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd/user"
    environment = _SYSTEM_ENVIRONMENT if machine_wide else places.config / "service.env"
    return ServiceManager(kind, machine_wide, folder, environment, places.log_dir / "service.log")


def service_user(environ: Mapping[str, str], named: str | None) -> str:
    """The user who runs the machine's services: `named`, else the one who called sudo. Raises ConfigError for root."""
    name = named or environ.get("SUDO_USER") or getpass.getuser()
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", name):
        raise ConfigError(f"{name[:64]!r} is not a user name", file="--run-as")
    if name == "root":
        raise ConfigError(
            "the hooks of this service would run as root", hint="name an unprivileged user: --run-as NAME"
        )
    return name


def plan_services(
    manager: ServiceManager, processes: Sequence[str], variables: Mapping[str, str], *, user: str = ""
) -> ServicePlan:
    """The files that an install writes, and the commands that it runs."""
    command = (sys.executable, "-P", "-m", "workers.cli", "--no-color")
    kept = _file(manager.environment, None, 0o600)
    files = [kept._replace(after=environment_text(variables, kept.before or ""))]
    for process in processes:
        words = (*command, "up") if process == "up" else (*command, "worker", process)
        text = (
            systemd_unit(process, words, str(manager.environment), user=user)
            if manager.kind == "systemd"
            else launchd_plist(manager.label(process), words, str(manager.environment), str(manager.log))
        )
        files.append(_file(manager.file(process), text, UNIT_MODE))
    known = [process for process in installed_services(manager) if process in processes]
    before = manager.stop(known) if manager.kind == "launchd" and known else ()
    steps = []
    if manager.kind == "systemd" and not manager.machine_wide:
        steps.append(f"`loginctl enable-linger {getpass.getuser()}` keeps it running while you are logged out")
    return ServicePlan(tuple(files), before, manager.start(processes), tuple(steps))


def plan_removal(manager: ServiceManager, processes: Sequence[str] = ()) -> ServicePlan:
    """The plan of an uninstall: stops and removes the named processes, or all; with the last one also the environment file."""
    installed = installed_services(manager)
    going = [process for process in installed if not processes or process in processes]
    if not going:
        return ServicePlan(())
    files = [_file(manager.file(process), None, UNIT_MODE) for process in going]
    if len(going) == len(installed) and _is_ours(manager.environment):
        files.append(_file(manager.environment, None, 0o600))
    return ServicePlan(tuple(files), manager.stop(going), manager.reload())


def installed_services(manager: ServiceManager) -> list[str]:
    """The processes whose service files Fleethook wrote."""
    return [process for process in PROCESSES if _is_ours(manager.file(process))]


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of this environment that a service gets."""
    return {name: environ[name] for name in PASSED_ON if environ.get(name)}


def has_server_url(manager: ServiceManager) -> bool:
    """Whether the environment file of an earlier install has the URL of the fleet's server."""
    return _is_ours(manager.environment) and "\nFLEETHOOK_REDIS_URL=" in manager.environment.read_text(
        "utf-8", "replace"
    )


def preview(plan: ServicePlan) -> str:
    """The files as a unified diff, without secrets."""
    lines: list[str] = []
    for file in plan.files:
        old, new = (redacted(text or "").splitlines() for text in (file.before, file.after))
        names = [str(file.path) if text is not None else "/dev/null" for text in (file.before, file.after)]
        lines += difflib.unified_diff(old, new, names[0], names[1], lineterm="")
    return "\n".join(lines)


def redacted(text: str) -> str:
    """A file's text without passwords."""
    return redact_text(re.sub(r"\b[a-z]+://[^\s']+", lambda match: redact_url(match[0]), text))


def write(plan: ServicePlan) -> None:
    """Write and remove the files; raises ConfigError for the first one that fails."""
    for file in plan.files:
        try:
            if file.after is None:
                file.path.unlink(missing_ok=True)
            elif file.changes:
                file.path.parent.mkdir(parents=True, exist_ok=True)
                write_private(file.path, file.after)
                file.path.chmod(file.mode)
        except OSError as error:
            raise ConfigError(
                f"{file.path} cannot be written: {error.strerror or error}", hint="--system needs the rights of root"
            ) from error


def run(commands: Sequence[Sequence[str]]) -> list[str]:
    """Run the manager's commands; returns a message for each that failed."""
    failures = []
    for command in commands:
        shown = " ".join(command)
        program = shutil.which(command[0])
        if program is None:
            failures.append(f"`{shown}` was not run: there is no {command[0]} here")
            continue
        try:
            done = subprocess.run(
                [program, *command[1:]],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            failures.append(f"`{shown}` took longer than {_SECONDS:g} s")
            continue
        if done.returncode:
            words = " ".join((done.stderr or done.stdout).split())
            failures.append(f"`{shown}` failed: {words[:300] or f'exit code {done.returncode}'}")
    return failures


def _file(path: Path, after: str | None, mode: int) -> ServiceFile:
    try:
        before = path.read_text("utf-8")
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if before is not None and MARK not in before:
        raise ConfigError(f"{path} was not written by fleethook", hint="move it away, or name other processes")
    return ServiceFile(path, before, after, mode)


def _is_ours(path: Path) -> bool:
    try:
        return MARK in path.read_text("utf-8", "replace")
    except OSError:
        return False
