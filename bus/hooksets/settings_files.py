"""Settings by precedence: flags, the environment, the project's file, the user's file, the defaults."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bus.config.documents import Document, load, loads, read_file
from bus.config.settings import NAMES, OTHER_VARIABLES, PREFIX, VARIABLES, Settings, parse_setting, read_section
from bus.config.validation import nearest, suggestion
from bus.errors import ConfigError
from bus.hooksets.last_good import read_kept
from bus.hooksets.trust import is_trusted, trusted_entry, trusted_file
from bus.system.directories import Directories, config_file, directories

HARMLESS: Final = frozenset({"log_level"})
"""What a project's file can set in an untrusted folder. A cloned repository must neither redirect events nor weaken a
policy, which a very short budget would do."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, the origin of each (a flag, a variable, `file:line` or `default`), and warnings."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load_settings(
    flags: Mapping[str, object] = MappingProxyType({}),
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> LoadedSettings:
    """The value of every setting; a flag that is None was not set. ConfigError names the flag or variable of a bad value.

    Errors in a file are only warnings, so that every command still works after a bad edit.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    origins = dict.fromkeys(NAMES, "default")
    warnings: list[str] = []
    places = directories(environ, create=False)
    user = config_file(places.config)
    if user is not None:
        warnings += _take_user(user, values, origins, places.last_good)
    project = trusted_file(Path() if cwd is None else cwd, places.trust_file, user=user)
    if project is not None:
        warnings += _take_project(project, values, origins, places)
    warnings += _take_environment(environ, values, origins)
    for name, raw in flags.items():
        if raw is not None:
            flag = "--" + name.replace("_", "-")
            values[name] = _read_value(name, raw, flag)
            origins[name] = flag
    return LoadedSettings(Settings(**values), MappingProxyType(origins), tuple(warnings))


def _read_value(name: str, raw: object, origin: str) -> Any:
    """The value of a flag or a variable. In an error, the flag or variable takes the place of the file."""
    if name not in NAMES:
        raise ConfigError("there is no such setting", file=origin, hint=suggestion(name, NAMES))
    try:
        return parse_setting(name, raw)
    except ConfigError as error:
        raise ConfigError(error.message, file=origin, path=name, hint=error.hint) from error


def _take_user(path: Path, values: dict[str, Any], origins: dict[str, str], folder: Path) -> list[str]:
    """The user's settings in force. A file with errors changes none of them, and commands still work."""
    try:
        text, rejected = _text_in_force(path, folder)
        document = loads(text, file=str(path))
    except ConfigError as error:
        return [f"{error}; nothing of this file is in force"]
    _, problems = _add_settings(document, values, origins)
    return [*rejected, *(f"{problem}; this setting is left out" for problem in problems)]


def _text_in_force(path: Path, folder: Path) -> tuple[str, list[str]]:
    """The text of the user's file in force, and messages about rejected content; ConfigError if no text is in force."""
    kept, real = read_kept(folder, path), os.path.realpath(path)
    copy = kept.files.get(real) if kept is not None else None
    if copy is None:
        return read_file(path), []
    with contextlib.suppress(ConfigError):
        if read_file(path) == copy.text:
            return copy.text, []
    from bus.hooksets.files_in_force import file_in_force  # here, because it imports every dialect

    found = file_in_force(path, "user", folder)
    return found.texts.get(real, copy.text), [rejected.text for rejected in found.rejected]


def _take_project(path: Path, values: dict[str, Any], origins: dict[str, str], places: Directories) -> list[str]:
    """The settings of a trusted project's file; of an untrusted one, only the harmless ones."""
    entry = trusted_entry(path, places.trust_file)
    kept = read_kept(places.last_good, path) if entry is not None else None
    warnings: list[str] = []
    try:
        if entry is not None and is_trusted(path, places.trust_file):
            document = load(path)
        elif entry is not None and kept is not None and kept.digest == entry.digest and entry.path in kept.files:
            document = loads(kept.files[entry.path].text, file=str(path))
            from bus.hooksets.projects import changed_since_trust  # here, because it imports every dialect

            warnings.append(changed_since_trust(path, "").text)
        else:
            return _take_untrusted(path, values, origins)
    except ConfigError as error:
        return [str(error)]
    _, problems = _add_settings(document, values, origins)
    return [*warnings, *(f"{problem}; this setting is left out" for problem in problems)]


def _take_untrusted(path: Path, values: dict[str, Any], origins: dict[str, str]) -> list[str]:
    """The harmless settings of an untrusted project's file; its errors are only warnings."""
    try:
        ignored, problems = _add_settings(load(path), values, origins, HARMLESS)
    except ConfigError as error:
        return [f"{error} (ignored, since the folder is not trusted)"]
    warnings = [f"{problem} (ignored, since the folder is not trusted)" for problem in problems]
    if ignored:
        warnings.append(f"{path}: its settings are ignored; `fleethook hooks trust` would trust the folder")
    return warnings


def _add_settings(
    document: Document, values: dict[str, Any], origins: dict[str, str], only: frozenset[str] | None = None
) -> tuple[bool, list[ConfigError]]:
    """Add a file's `settings:`. Returns whether `only` excluded any of them, and the errors of the others."""
    raw = document.value.get("settings") if isinstance(document.value, dict) else None
    found, problems = read_section(document, ("settings",), raw)
    for name, value in found.items():
        if only is None or name in only:
            values[name] = value
            origins[name] = f"{document.file}:{document.place(('settings', name), key=True)[0]}"
    return only is not None and any(name not in only for name in found), problems


def _take_environment(environ: Mapping[str, str], values: dict[str, Any], origins: dict[str, str]) -> list[str]:
    warnings = []
    for variable in sorted(key for key in environ if key.startswith(PREFIX)):
        name = VARIABLES.get(variable)
        if name is None:
            if variable not in OTHER_VARIABLES:
                # Without the prefix, which makes all names similar.
                near = nearest(variable.removeprefix(PREFIX).lower(), (*NAMES, "home"))
                hint = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
                warnings.append(f"{variable} is no variable of Fleethook{hint}")
            continue
        text = environ[variable]
        # An empty URL means the embedded server; an empty number counts as not set.
        if text or getattr(Settings(), name) == "":
            values[name] = _read_value(name, text, variable)
            origins[name] = variable
    return warnings
