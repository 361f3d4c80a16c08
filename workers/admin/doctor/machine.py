"""Checks of this machine: the interpreter, the folders, the disk, the hook files, and the spools."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import bus.errors
from bus.config.files import is_gone
from bus.config.settings import Settings
from bus.errors import ConfigError
from bus.hooks import Layer
from bus.hooksets.hookfile import load_hook_file
from bus.hooksets.trust import project_file, trusted_entry
from bus.installs.base import NAMES
from bus.secrets.redaction import redact_text
from bus.system.directories import Directories, config_file
from workers.admin.doctor import Check
from workers.records.status import read_spools
from workers.runtime.rejected_files import rejections
from workers.runtime.wording import counted

FREE_BYTES: Final = 500 * 1024 * 1024


def package_checks() -> Iterator[Check]:
    """Check the interpreter, and that `bus` and `workers` are Fleethook's: other packages have these names, too."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    fix = "" if good else "use Python 3.11 or newer"
    text, brief = f"Python {version} at {sys.executable}", f"Python {version}"
    yield Check(id="python", status="ok" if good else "fail", what=text, fix=fix, brief=brief)
    ours, theirs = Path(__file__).resolve().parents[3], Path(bus.errors.__file__).resolve().parents[1]
    if ours == theirs:
        yield Check(id="package", status="ok", what=f"bus and workers from {ours}")
    else:
        yield Check(
            id="package",
            status="fail",
            what=f"`bus` comes from {theirs}, `workers` from {ours}",
            fix="another package is called bus: install fleethook in an environment of its own",
        )


def credential_files(places: Directories) -> list[Path]:
    """The files that hold passwords or keys and belong to Fleethook alone; a key file that a variable names is its owner's."""
    return [places.credentials, places.data / "secret.key", *(places.answer_file(agent) for agent in NAMES)]


def file_checks(settings: Settings, places: Directories, cwd: Path) -> Iterator[Check]:
    """Check private folders and files, room on the disk, and the hook files of the user and of the project."""
    secret = [places.data, places.state, *credential_files(places)]
    wide = [str(path) for path in secret if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if wide:
        text = f"open to other users: {', '.join(wide)}"
        yield Check(id="modes", status="fail", what=text, fix=f"chmod go= {' '.join(wide)}", repair="modes")
    else:
        yield Check(
            id="modes", status="ok", what="what holds credentials is for this user alone", brief="private files"
        )
    existing = next(path for path in (places.data, *places.data.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < FREE_BYTES:
        text = f"{free // 2**20} MiB are free at {existing}: the server stops taking writes when the disk is full"
        yield Check(id="disk", status="warn", what=text, fix="make room")
    rejected = rejections(places, cwd)
    reported_elsewhere = frozenset(rejection.problems[0] for rejection in rejected)
    yield from _hook_file_checks(config_file(places.config), "user", reported_elsewhere)
    project = project_file(cwd)
    yield from _hook_file_checks(project, "project", reported_elsewhere)
    if project is not None and trusted_entry(project, places.trust_file) is None:
        yield Check(
            id="trust",
            status="warn",
            what=f"{project} is not trusted: none of its hooks run",
            fix="read it, then `fleethook hooks trust`",
        )
    for rejection in rejected:
        verb = "untrust" if is_gone(rejection.file) else "trust"
        fix = f"fleethook config check {rejection.file}" if rejection.layer == "user" else f"fleethook hooks {verb}"
        yield Check(id="in-force", status="fail" if rejection.layer == "user" else "warn", what=rejection.text, fix=fix)
    for spool in read_spools(places):
        agent = "" if spool.agent.startswith("program.") else spool.agent  # `program.` and a digest of their server
        if spool.lost_text:
            fix = "keep the server reachable; `fleethook status`"
            yield Check(id="spool", status="warn", what=spool.lost_text, fix=fix)
        if spool.records:
            waits = counted(spool.records, "event waits", "events wait")
            text = f"of {spool.owner} {waits} on this disk ({counted(spool.bytes, 'byte')})"
            yield Check(
                id="spool",
                status="warn",
                what=text,
                fix="`fleethook up`, or --fix sends them",
                repair="spool",
                agent=agent,
            )
    if settings.url:
        yield Check(id="gateway", status="unknown", what="a gateway is set (url), and is not looked at")


def _hook_file_checks(path: Path | None, layer: Layer, reported_elsewhere: frozenset[str]) -> Iterator[Check]:
    """Check a hook file; problems in `said` are left out, because another check reports them."""
    if path is None:
        return
    try:
        file = load_hook_file(path, layer)
    except ConfigError as error:
        if redact_text(str(error)) not in reported_elsewhere:
            yield Check(id=f"{layer}-file", status="fail", what=str(error), fix=f"fleethook config check {path}")
        return
    for problem in file.problems:
        if redact_text(str(problem)) in reported_elsewhere:
            continue
        yield Check(id=f"{layer}-file", status="fail", what=str(problem), fix=f"fleethook config check {path}")
    for warning in file.warnings:
        yield Check(id=f"{layer}-file", status="warn", what=str(warning))
    if not file.problems:
        guards = ", ".join(sorted(name for name, guard in file.guards.items() if guard.enabled)) or "no guards"
        text = f"{path}: {counted(len(file.hooks), 'hook')}, {counted(len(file.endpoints), 'endpoint')}, {guards}"
        yield Check(id=f"{layer}-file", status="ok", what=text, brief=f"{layer} file")
