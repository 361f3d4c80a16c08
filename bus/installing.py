"""Fleethook in an agent's own settings file: what would change, the change, and its exact undo."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from bus import answerfile
from bus.answerfile import EventLine
from bus.answers import Answer
from bus.dialects import AgentDialect, Capability, claude, find
from bus.entries import MARK, merged, without
from bus.errors import ConfigError
from bus.events import GATES
from bus.jsontext import read_text, rewrite, write_new
from bus.redaction import redact_text
from bus.verdicts import Policy, failed

Scope = Literal["user", "project", "local"]

BUDGET_MS: Final = 10_000
"""What a request may take at most; less where the agent's own timeout is short."""

MANIFEST: Final = "installed.json"
"""In the state directory: what stood in each settings file before, so that the undo is exact."""

MANAGED: Final = (
    Path("/Library/Application Support/ClaudeCode/managed-settings.json")
    if sys.platform == "darwin"
    else Path("/etc/claude-code/managed-settings.json"),
)
"""Where an organisation's policy for Claude Code stands, which outranks every other settings file."""

_WHY: Final = "no verdict in time, or the bus is away"
_CLAUDE_FILES: Final[Mapping[Scope, str]] = {
    "user": ".claude/settings.json",
    "project": ".claude/settings.json",
    "local": ".claude/settings.local.json",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it is and as it will be; None where it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an install or uninstall would do; no changes where all is as it should be."""

    agent: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()


def default_events(dialect: AgentDialect) -> tuple[str, ...]:
    """The events that are subscribed when nobody says which: all but those that come for each chunk of text."""
    quiet = claude.QUIET if dialect.name == claude.NAME else frozenset[str]()
    return tuple(native for native in dialect.capabilities if native not in quiet)


def answer_events(dialect: AgentDialect, events: Iterable[str], *, fail_closed: bool = False) -> tuple[EventLine, ...]:
    """What the answer file says of each event: request or publish, deadline, and the bytes of its fallback.

    The deadline is the agent's own timeout minus max(0.5 s, 10 %), at most 10 s. Only gates fail closed.
    """
    lines = []
    for native in events:
        can = dialect.capabilities[native]
        policy = _policy(can, fail_closed=fail_closed)
        lines.append(
            EventLine(
                name=native,
                mode="request" if can.waits else "publish",
                deadline_ms=_deadline_ms(can.timeout),
                fallback=dialect.render(native, failed(policy, _WHY)) if can.waits else Answer(),
                policy=policy,
            )
        )
    return tuple(lines)


def hook_command(
    python: str, agent: str, event: str, answer_file: str | os.PathLike[str], *, fail_closed: bool = False
) -> str:
    """The command line that an agent runs at one event, in POSIX sh.

    Guarded, since a missing interpreter or file would end with an exit code that agents take for a block: when
    Fleethook is gone it does nothing. With `fail_closed` a gate stays shut instead, and says how to open it.
    """
    can = find(agent).capabilities.get(event)
    closed = can is not None and _policy(can, fail_closed=fail_closed) == "deny"
    words = answerfile.hook_command(python, agent, event, answer_file, closed=closed)
    there = f"[ -x {shlex.quote(words[0])} ] && [ -f {shlex.quote(words[3])} ]"
    run = f"exec {shlex.join(words)}"
    if not closed:
        return f"if {there}; then {run}; fi {MARK}"
    text = "fleethook is gone and this hook fails closed; install fleethook again, or remove this hook"
    if event == "PermissionRequest":  # Claude Code does not honour exit 2 here
        shut = find(agent).render(event, failed("deny", text))
        return f"{there} && {run}; printf %s {shlex.quote(shut.stdout.decode('ascii'))} {MARK}"
    return f"{there} && {run}; echo {shlex.quote(text)} >&2; exit 2 {MARK}"


def plan_install(
    agent: str,
    scope: Scope,
    *,
    home: Path,
    project: Path,
    command_for: Callable[[str], str],
    events: Iterable[str] | None = None,
    fail_closed: bool = False,
    managed: Sequence[Path] = MANAGED,
) -> Plan:
    """What `install` would change; ConfigError with the place where the settings file is no valid JSON.

    `command_for` gives the command of an event (`hook_command`). Hooks of others stay as they are.
    """
    path = settings_path(agent, scope, home=home, project=project)
    dialect = find(agent)
    chosen = default_events(dialect) if events is None else tuple(events)
    unknown = [name for name in chosen if name not in dialect.capabilities]
    if unknown:
        raise ConfigError(f"{agent} has no event {unknown[0]!r}", hint=f"it has {', '.join(dialect.capabilities)}")
    section = claude.settings(command_for, chosen, fail_closed=fail_closed)
    before = _read(path)
    text, settings = read_text(before, file=str(path)) if before is not None else ("", {})
    wanted = merged(settings, section, str(path))
    after = _encoded(rewrite(text, wanted) if before is not None else write_new(wanted), before)
    changes = () if wanted == settings else (Change(path, before, after),)
    return Plan(agent, changes, tuple(_warnings(agent, scope, home=home, project=project, managed=managed)))


def plan_uninstall(agent: str, state: Path, *, paths: Iterable[Path] = ()) -> Plan:
    """What `uninstall` would change, in every file that `apply` has written and in `paths` beside them.

    A file that is as we wrote it gets back its old bytes, or goes where we made it. From one that was changed since,
    only our entries go.
    """
    manifest = _manifest(state)
    mine = [Path(name) for name, record in manifest.items() if record["agent"] == agent]
    changes, warnings = [], []
    for path in dict.fromkeys([*mine, *(_real(path) for path in paths)]):
        current, record = _read(path), manifest.get(str(path), {})
        if current is None:
            continue
        original = _read(Path(record["backup"])) if record.get("backup") else None
        untouched = record.get("written") == _digest(current) and record["exact"]
        if untouched and (record["created"] or original is not None):
            changes.append(Change(path, current, None if record["created"] else original))
            continue
        text, settings = read_text(current, file=str(path))
        kept = read_text(original, file=record["backup"])[1] if original is not None and record["exact"] else {}
        wanted = without(settings, kept, str(path))
        if wanted == settings:
            continue
        warnings.append(f"{path} was changed since the install: only fleethook's own entries are removed")
        after = None if record.get("created") and not wanted else _encoded(rewrite(text, wanted), current)
        changes.append(Change(path, current, after))
    return Plan(agent, tuple(changes), tuple(warnings))


def diff(plan: Plan) -> str:
    """The plan as a unified diff, secrets in the lines around redacted; empty where nothing would change."""
    lines: list[str] = []
    for change in plan.changes:
        old, new = ((raw or b"").decode("utf-8", "replace").splitlines() for raw in (change.before, change.after))
        names = [str(change.path) if raw is not None else "/dev/null" for raw in (change.before, change.after)]
        lines += difflib.unified_diff(old, new, names[0], names[1], lineterm="")
    return redact_text("\n".join(lines) + "\n") if lines else ""


def apply(plan: Plan, state: Path, *, now: datetime | None = None) -> tuple[Path, ...]:
    """Do what `plan_install` planned and return the backups made; ConfigError where a file changed meanwhile."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    manifest, backups = _manifest(state), []
    for change in plan.changes:
        _unchanged(change)
        if change.after is None:
            continue
        record = manifest.get(str(change.path))
        if record is None or change.before is None or record["written"] != _digest(change.before):
            backup = None
            if change.before is not None:
                backup = _backup(change.path, change.before, stamp)
                backups.append(backup)
            record = {
                "agent": plan.agent, "backup": str(backup) if backup else None, "created": change.before is None,
                "folder": not change.path.parent.exists(), "exact": MARK.encode() not in (change.before or b""),
            }  # fmt: skip
        # The manifest first: a crash between the two leaves a file that is not as written, where only our entries go.
        manifest[str(change.path)] = {**record, "written": _digest(change.after)}
        _save(state, manifest)
        _write(change.path, change.after)
    return tuple(backups)


def undo(plan: Plan, state: Path) -> None:
    """Do what `plan_uninstall` planned, and forget the files; ConfigError where one changed meanwhile."""
    manifest = _manifest(state)
    for change in plan.changes:
        _unchanged(change)
        record = manifest.pop(str(change.path), {})
        if change.after is None:
            change.path.unlink()
            if record.get("folder"):
                with contextlib.suppress(OSError):  # somebody keeps something there by now
                    change.path.parent.rmdir()
        else:
            _write(change.path, change.after)
        backup = Path(record["backup"]) if record.get("backup") else None
        if backup is not None and _read(backup) == change.after:
            backup.unlink()
        _save(state, manifest)
    others = {name: record for name, record in manifest.items() if record["agent"] != plan.agent}
    if others != manifest:  # files that are gone, or hold nothing of ours any more
        _save(state, others)


def settings_path(agent: str, scope: Scope, *, home: Path, project: Path) -> Path:
    """The file that an install of this scope writes, links followed."""
    if agent != claude.NAME:
        raise ConfigError(f"install does not know the agent {agent!r}", hint=f"it knows {claude.NAME}")
    return _real((home if scope == "user" else project) / _CLAUDE_FILES[scope])


def _policy(can: Capability, *, fail_closed: bool) -> Policy:
    return "deny" if fail_closed and can.waits and can.type in GATES else "allow"


def _deadline_ms(timeout: float) -> int:
    return min(BUDGET_MS, int((timeout - max(0.5, timeout / 10)) * 1000))


def _warnings(agent: str, scope: Scope, *, home: Path, project: Path, managed: Sequence[Path]) -> Iterable[str]:
    places = [settings_path(agent, each, home=home, project=project) for each in _CLAUDE_FILES]
    for path in dict.fromkeys([*places, *managed]):
        try:
            raw = _read(path)
            settings = read_text(raw, file=str(path))[1] if raw is not None else {}
        except (ConfigError, OSError) as error:
            yield f"{path} cannot be read, so it may switch hooks off: {error}"
            continue
        if settings.get("disableAllHooks") is True:
            yield f"{path}: `disableAllHooks` is true, so no hook runs"
        if path in managed and settings.get("allowManagedHooksOnly") is True:
            yield f"{path}: `allowManagedHooksOnly` is true, so only hooks of the policy run"
    if scope == "project":
        yield "the project's settings are shared with its repository, and the commands name paths of this machine"


def _encoded(text: str, like: bytes | None) -> bytes:
    mark = b"\xef\xbb\xbf" if like is not None and like.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode("utf-8")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _unchanged(change: Change) -> None:
    if _read(change.path) != change.before:
        raise ConfigError("changed meanwhile", file=str(change.path), hint="run the command again; it was not touched")


def _manifest(state: Path) -> dict[str, dict[str, Any]]:
    raw = _read(state / MANIFEST)
    return read_text(raw, file=str(state / MANIFEST))[1] if raw is not None else {}


def _save(state: Path, manifest: Mapping[str, Any]) -> None:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(state / MANIFEST, json.dumps(manifest, indent=1).encode(), mode=0o600)


def _backup(path: Path, raw: bytes, stamp: str) -> Path:
    """A copy beside the file, with its mode, under a name that nothing has yet."""
    for again in range(1000):
        backup = path.with_name(f"{path.name}.fleethook-backup-{stamp}{f'-{again}' if again else ''}")
        if not backup.exists():
            _write(backup, raw, mode=path.stat().st_mode & 0o7777)
            return backup
    raise ConfigError("no free name for a backup", file=str(path), hint="remove old *.fleethook-backup-* files")


def _write(path: Path, raw: bytes, *, mode: int = 0o644) -> None:
    """Whole or not at all, with the mode that the file has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        mode = path.stat().st_mode & 0o7777
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
