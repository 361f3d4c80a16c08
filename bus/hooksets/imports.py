"""Reads the files and folders that a fleethook.yaml imports, in any dialect.

A missing or broken import is reported with its place, and the others load. Each hook keeps its own `file:line`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bus.config.documents import Document, Plain, Source, Stamp, recording_files, stamp
from bus.config.field_types import ID_PATTERN
from bus.config.file_types import ImportEntry
from bus.config.files import is_gone, read_as_known
from bus.config.hook_file_value import HookFile, Imported, matcher_checks
from bus.config.model_entry import ModelEntry
from bus.config.repeated_imports import without_repeated
from bus.config.validation import convert
from bus.errors import ConfigError, NotAccepted, PatternError, TargetRefused
from bus.hookfiles import find_hooks
from bus.hookfiles.claude.plugins import is_plugin
from bus.hooks import NATIVE, Endpoint, Hook, Layer, Plugin
from bus.hooksets.detect import detect_dialect, file_in
from bus.hooksets.pinned_imports import check_alone, content_digest, keep_folder, kept_folder, with_pins
from bus.hooksets.plugin_owner import read_guessed
from bus.hooksets.plugins.hooks import with_gobby_plugins
from bus.http.address_policy import AddressPolicy, check_address, never, parse_target
from bus.installs.http_hooks import is_hook_url
from bus.verdicts import Policy

MOST_FILES: Final = 100
"""The most files and folders that one hook file may import, directly and through others."""

_ID: Final = re.compile(ID_PATTERN)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_INSTALLED_MARK: Final = "# fleethook"
"""Every command that `fleethook install` writes into an agent's settings ends with this."""

_WATCHED_DEPTH: Final = 3
_WATCHED_FOLDERS: Final = 200


@dataclass(slots=True)
class Trail:
    """The imports that led to a file, to find circles, and all imports so far, to read each file once."""

    above: tuple[str, ...] = ()
    """The real paths of the files that import this one, outermost first."""
    read: dict[str, str] = field(default_factory=dict)
    """The origin of each import so far, by real path; all trails of one hook file share it."""
    files: dict[str, str] = field(default_factory=dict)
    """The same of each file that hooks were read from: a folder that is imported has several."""

    def below(self, path: str) -> Trail:
        """The trail of a file that this one imports."""
        return Trail((*self.above, path), self.read, self.files)


Native = Callable[[Path, Layer, Trail], HookFile]
"""Reads a fleethook.yaml. It is passed in, because its module imports this one."""


@dataclass(slots=True)
class Gathered:
    """The results of all imports of one file."""

    hooks: list[Hook] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)
    guards: dict[str, Any] = field(default_factory=dict)
    network_allow: list[str] = field(default_factory=list)
    imports: list[Imported] = field(default_factory=list)
    sections: dict[str, Any] = field(default_factory=dict)
    problems: list[ConfigError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sources: dict[str, Stamp] = field(default_factory=dict)
    plugins: list[Plugin] = field(default_factory=list)


def read_imports(
    document: Document,
    entries: list[Plain],
    layer: Layer,
    native: Native,
    *,
    trail: Trail,
    on_failure: Policy | None,
    taken: Iterable[str],
) -> Gathered:
    """Read every entry of a file's `import:`, in order; `taken` are the ids of the file's own hooks and endpoints."""
    found = Gathered()
    ids = set(taken)
    for number, raw in enumerate(entries):
        path = ("import", number)
        if not isinstance(raw, (str, dict)):
            hint = "write e.g. `- ~/.pigo/config.json`, or {path, dialect, on_failure, enabled}"
            found.problems.append(document.error(path, "an import is a path, or a mapping with one", hint=hint))
            continue
        entry, problems = convert(document, path, {"path": raw} if isinstance(raw, str) else raw, ImportEntry)
        found.problems.extend(problems)
        if entry is None:
            continue
        origin = f"{document.file}:{document.place(path)[0]}"
        place = import_path(entry.path, document.file)
        if not entry.enabled:
            found.imports.append(Imported(str(place), origin, entry.dialect or "", enabled=False))
            continue
        try:
            file, imported = _read(entry, place, origin, layer, native, trail, found.sources)
        except ConfigError as error:
            where = () if isinstance(raw, str) else ("path",)
            found.problems.append(_placed(error, document, (*path, *where), place))
            found.imports.append(Imported(str(place), origin, entry.dialect or "", broken=not is_gone(place)))
            continue
        named = replace(imported, servers=entry.servers, env_pass=tuple(entry.env_pass))
        _add(found, file, named, ids, entry, on_failure)
    return found


def read_one(path: Path, layer: Layer, native: Native, *, dialect: str | None = None) -> tuple[HookFile, Imported]:
    """A file or folder of any dialect, as an import would read it; raises ConfigError if nothing of it can be read."""
    entry = ImportEntry(path=str(path), dialect=dialect)  # type: ignore[arg-type]  # any text: `_read` refuses others
    found = Gathered()
    file, imported = _read(entry, path.absolute(), str(path), layer, native, Trail(), found.sources)
    _add(found, file, imported, set(), entry, None)
    whole = HookFile(
        tuple(found.hooks),
        tuple(found.endpoints),
        found.guards,
        None,
        tuple(found.network_allow),
        tuple(found.problems),
        tuple(found.warnings),
        imports=tuple(found.imports),
        sections=found.sections,
        sources=sources(found),
        plugins=tuple(found.plugins),
    )
    return whole.with_digest(), found.imports[0]


def sources(found: Gathered) -> tuple[Source, ...]:
    """The files that were read, and the folders where a file of hooks could appear."""
    return tuple(Source(*pair) for pair in found.sources.items())


def import_path(text: str, file: str) -> Path:
    """The path that an import entry means: relative to its file, with `~` for the home directory."""
    return Path(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), os.path.expanduser(text))))


def _read(
    entry: ImportEntry, place: Path, origin: str, layer: Layer, native: Native, trail: Trail, files: dict[str, Stamp]
) -> tuple[HookFile, Imported]:
    if "\x00" in entry.path:
        raise ConfigError("the path holds a NUL")
    for folder, found in _folders(place):
        files.setdefault(folder, found)
    files.setdefault(str(place), stamp(place))
    kept = kept_folder(place, layer) if entry.sha256 else None
    if kept is not None:
        entries: list[Hook | Endpoint] = [*kept.hooks, *kept.endpoints]
        system: str = entry.dialect or (entries[0].dialect if entries else "")
        return kept, Imported(str(place), origin, system, guessed=not entry.dialect, sections=kept.sections)
    if is_gone(place) and not read_as_known(place):
        if entry.sha256:
            raise _not_accepted(place, "the file that you accepted is gone")
        raise ConfigError("there is no such file or folder", hint=_nearest_folder(place))
    with recording_files() as read:
        try:
            target, dialect = (file_in(place, entry.dialect), entry.dialect) if entry.dialect else detect_dialect(place)
            if not dialect:
                raise ConfigError(
                    "it is not clear which system's hooks these are",
                    hint="name it with `dialect:` (`--dialect`): pigo, forge, gobby, claude or ion",
                )
            real = os.path.realpath(target)
            _note_import(real, origin, trail)
            is_native = dialect == NATIVE
            if entry.sha256 and not place.is_dir() and content_digest(place) != entry.sha256:
                raise _not_accepted(place, "its content changed since you accepted it")
            file = (
                native(target, layer, trail.below(real))
                if is_native
                else find_hooks(dialect).read(target, layer)
                if entry.dialect
                else read_guessed(target, layer, dialect)
            )
            if dialect == "gobby":
                file = with_gobby_plugins(file, target, layer)
            if not is_native:
                file = without_repeated(file, trail.files, origin)
            if entry.sha256:
                names = [*read, *(source.path for source in file.sources)]
                if place.is_dir() and content_digest(place, names) != entry.sha256:
                    raise _not_accepted(place, "its content changed since you accepted it")
                check_alone(file, names, place)
                file = with_pins(_with_unique_ids(file, entry.path), place, entry.scripts)
                keep_folder(place, file)
        except (_ImportRefused, NotAccepted):
            raise
        except ConfigError as error:
            if entry.sha256 and place.is_dir():
                raise _not_accepted(place, f"it cannot be read as you accepted it: {error}") from error
            error.source, error.unread = error.source or str(place), True
            raise
        finally:
            for name, seen in read.items():
                files.setdefault(os.path.abspath(name), seen)
    for source in file.sources:
        files.setdefault(*source)
    read_from = place if entry.sha256 else target
    return file, Imported(str(read_from), origin, dialect, guessed=not entry.dialect, sections=file.sections)


def _not_accepted(place: Path, what: str) -> NotAccepted:
    command = "plugins add {}" if is_plugin(place) else "hooks import {} --to user"
    hint = f"`fleethook {command.format(shlex.quote(str(place)))}` shows it and accepts it"
    error = NotAccepted(what, hint=hint)
    error.source, error.unread = str(place), True
    return error


class _ImportRefused(ConfigError):
    """An import that is wrong in the importing file; the imported file is not at fault."""


def _note_import(real: str, origin: str, trail: Trail) -> None:
    if real in trail.above:
        circle = " -> ".join((*trail.above[trail.above.index(real) :], real))
        raise _ImportRefused("the files import each other in a circle", hint=f"{circle}; remove one of the imports")
    if real in trail.read:
        raise _ImportRefused("it is imported twice", hint=f"the first is in {trail.read[real]}; its hooks run once")
    if len(trail.read) >= MOST_FILES:
        raise _ImportRefused(f"more than {MOST_FILES} files and folders are imported")
    trail.read[real] = origin


def _folders(place: Path) -> Iterator[tuple[str, Stamp]]:
    """A folder and its subfolders, three levels deep: hook files could appear or disappear there."""
    if not os.path.isdir(place):
        return
    for count, (folder, below, _) in enumerate(os.walk(place)):
        depth = len(Path(folder).relative_to(place).parts)
        below[:] = (
            [] if depth >= _WATCHED_DEPTH - 1 else [name for name in below if name not in {".git", "node_modules"}]
        )
        if count >= _WATCHED_FOLDERS:
            return
        yield folder, stamp(folder)


def _nearest_folder(place: Path) -> str:
    parent = place.parent
    return f"{parent} is there" if parent.is_dir() else f"there is no folder {parent} either"


def _placed(error: ConfigError, document: Document, path: tuple[str | int, ...], place: Path) -> ConfigError:
    """The error with its place in the imported file; if it has none, with the place of the import entry."""
    if error.line:
        line = document.place(path)[0]
        hint = "; ".join(filter(None, (error.hint, f"imported by {document.file}:{line}")))
        kind = PatternError if isinstance(error, PatternError) else ConfigError
        placed = kind(error.message, file=error.file, line=error.line, column=error.column, path=error.path, hint=hint)
    else:
        placed = document.error(path, f"{place} is not imported: {error.message}", hint=error.hint)
        if isinstance(error, NotAccepted):
            where: dict[str, Any] = {name: getattr(placed, name) for name in ("file", "line", "column", "path", "hint")}
            placed = NotAccepted(placed.message, **where)
    placed.source, placed.unread = error.source or document.file, error.unread
    return placed


def _add(
    found: Gathered, file: HookFile, imported: Imported, ids: set[str], entry: ImportEntry, on_failure: Policy | None
) -> None:
    """Add one imported file: makes its ids unique, and sets the failure policy of the entry or of the importing file."""
    policy = entry.on_failure or on_failure
    hooks = []
    installed = [
        hook
        for hook in file.hooks
        if hook.command.rstrip().endswith(_INSTALLED_MARK) or (hook.http is not None and is_hook_url(hook.http.url))
    ]
    if installed:
        found.warnings.append(
            f"{installed[0].origin}: Fleethook's own hooks in it ({len(installed)}) are left out: they would ask in a loop"
        )
    for hook in file.hooks:
        if hook in installed:
            continue
        wrong = _matcher_error(hook.on, hook.tool, hook.when)
        if wrong is not None:
            found.problems.append(_error_at(wrong, hook.origin))
            continue
        changes: dict[str, Any] = {"id": _unique(hook.id, ids, entry.path)}
        if hook.on_failure is None and policy is not None:
            changes["on_failure"] = policy
        hooks.append(msgspec.structs.replace(hook, **changes))
    run_by_claude = [hook for hook in hooks if hook.own.get("itself")]
    if run_by_claude:
        found.warnings.append(
            f"{run_by_claude[0].origin}: Claude Code runs the hooks of this file itself ({len(run_by_claude)}): Fleethook "
            "runs them for other agents' events only; in a set that is published to the fleet, it runs them for Claude "
            "Code's events too"
        )
    endpoints = [msgspec.structs.replace(target, id=_unique(target.id, ids, entry.path)) for target in file.endpoints]
    found.hooks += hooks
    found.endpoints += endpoints
    found.plugins += file.plugins
    found.guards = {**file.guards, **found.guards}
    found.network_allow += file.network_allow
    if file.network_proxy:
        text = "an imported file may not name a proxy"
        hint = "set network.proxy in the file that imports it"
        found.problems.append(ConfigError(text, file=imported.path, path="network.proxy", hint=hint))
    if file.model is not None:
        text, hint = "an imported file may not name a model", "set model in the file that imports it"
        found.problems.append(ConfigError(text, file=imported.path, path="model", hint=hint))
    found.sections |= {imported.path: dict(file.sections)} if file.sections else {}
    found.problems += file.problems
    found.warnings += file.warnings
    found.imports += [
        replace(imported, hooks=tuple(hook.id for hook in hooks), endpoints=tuple(target.id for target in endpoints)),
        *(replace(below, servers="") for below in file.imports),  # only the file itself may let programs start
    ]


def _matcher_error(on: tuple[str, ...], tool: str, when: str) -> ConfigError | None:
    """Why a matcher cannot be compiled; None if it can. It is checked here, because one bad matcher would break the set."""
    for _, check in matcher_checks(on, tool, when):
        try:
            check()
        except ConfigError as error:
            return error
    return None


def _error_at(error: ConfigError, origin: str) -> ConfigError:
    file, _, line = origin.rpartition(":")
    kind = PatternError if isinstance(error, PatternError) else ConfigError
    return kind(error.message, file=file or origin, line=int(line) if line.isdigit() else 0, hint=error.hint)


def url_targets(
    hooks: Iterable[Hook], endpoints: Iterable[Endpoint], model: ModelEntry | None, model_origin: str
) -> list[tuple[str, str]]:
    """The place and the URL of everything in a file that requests are sent to."""
    targets = [(endpoint.origin, endpoint.url) for endpoint in endpoints]
    targets += [(hook.origin, hook.http.url) for hook in hooks if hook.http is not None]
    return targets + ([(model_origin, model.url)] if model is not None else [])


def refused_targets(targets: Iterable[tuple[str, str]], allowed: AddressPolicy) -> Iterator[str]:
    """A warning for each URL whose host is this machine or a private address that `allowed` does not allow."""
    for origin, url in targets:
        try:
            target = parse_target(url)
            address = target.literal or ("127.0.0.1" if target.host == "localhost" else None)
            if address is not None:
                check_address(target, address, allowed)
        except TargetRefused as error:
            hint = allow_hint(url)
            hint = f"; {hint}" if hint else ""
            yield f"{origin}: {url.split('?')[0]} is not reached: {error.reason}{hint}"


def allow_hint(url: str) -> str:
    """What allows requests to a URL's host; empty where nothing does."""
    target = parse_target(url)
    place = f"[{target.host}]" if ":" in target.host else target.host
    return "" if never(target) else f'add `network: {{allow: ["{place}:{target.port}"]}}` to your fleethook.yaml'


def _with_unique_ids(file: HookFile, path: str) -> HookFile:
    ids: set[str] = set()
    hooks = tuple(msgspec.structs.replace(hook, id=_unique(hook.id, ids, path)) for hook in file.hooks)
    endpoints = tuple(msgspec.structs.replace(target, id=_unique(target.id, ids, path)) for target in file.endpoints)
    return replace(file, hooks=hooks, endpoints=endpoints)


def _unique(wanted: str, ids: set[str], path: str) -> str:
    """A valid id that is not in `ids`, the same at every load: a taken id gets a suffix computed from the imported path."""
    name = wanted if _ID.match(wanted) else _UNFIT.sub("-", wanted).strip("-")[:64] or "hook"
    if name in ids:
        marked = f"{name[:50]}-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
        candidates = (marked if count == 1 else f"{marked}-{count}" for count in range(1, len(ids) + 2))
        name = next(candidate for candidate in candidates if candidate not in ids)
    ids.add(name)
    return name
