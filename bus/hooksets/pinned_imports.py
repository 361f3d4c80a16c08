"""Imports of a repository's files and folders into the user's own hook file, pinned by the accepted content (X-10).

A folder is pinned by every file that is read for its hooks. The accepted hooks are kept beside the texts of hook files
(`reading_as`), so that they stay in force when the folder changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from bus.config.files import known_text, note_text, read_file
from bus.config.hook_file_value import HookFile, from_document, to_document
from bus.errors import ConfigError
from bus.hooks import Hook, Layer
from bus.hooksets.named_files import is_below, named_files
from bus.hooksets.pins import script_digest

_FOLDER: Final = ".fleethook-accepted"
"""The name under which a folder's accepted hooks are kept among the texts of files; no such file exists."""


def content_digest(place: Path, names: Iterable[str] = ()) -> str:
    """The `sha256` of a pinned import: over a file's text, or over the texts of the files `names` in a folder.

    Raises ConfigError if a file cannot be read, or is outside of the folder.
    """
    if not place.is_dir():
        return _text_digest(place)
    root = os.path.realpath(place)
    texts = {}
    for name in sorted({os.path.realpath(name) for name in names if os.path.isfile(name)}):
        if not is_below(name, root):
            raise _needs_other_file(name, "which is outside of the folder")
        texts[os.path.relpath(name, root)] = _text_digest(Path(name))
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def scripts_digest(file: HookFile, place: Path) -> str:
    """The `scripts` of a pinned import: a digest over the files that its commands name; empty if they name none."""
    digests = {name: digest for hook in file.hooks for name, digest in _pins(hook, place).items() if digest}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest() if digests else ""


def with_pins(file: HookFile, place: Path, scripts: str) -> HookFile:
    """The hooks with their scripts pinned; if the scripts are not those that the user accepted, no such hook runs."""
    same = scripts_digest(file, place) == scripts
    hooks = []
    for hook in file.hooks:
        pins = _pins(hook, place) if hook.command else {}
        if not same:
            pins = {name: "not the accepted one" for name, digest in pins.items() if digest} or dict.fromkeys(
                pins, "gone"
            )
        hooks.append(msgspec.structs.replace(hook, pins=pins))
    return replace(file, hooks=tuple(hooks)).with_digest()


def check_alone(file: HookFile, read: Iterable[str], place: Path) -> None:
    """Raise ConfigError if a pinned import needs further files: the user has not accepted their content."""
    real = os.path.realpath(place)
    others = (
        []
        if place.is_dir()
        else sorted(name for name in read if os.path.realpath(name) != real and os.path.isfile(name))
    )
    if file.imports or others:
        raise _needs_other_file(others[0] if others else file.imports[0].path, "which is not pinned")


def folder_name(place: Path | str) -> str:
    """The name under which a folder's accepted hooks are kept."""
    return os.path.join(os.path.realpath(place), _FOLDER)


def kept_folder(place: Path, layer: Layer) -> HookFile | None:
    """A folder's accepted hooks, if `reading_as` has them instead of the folder's present content; else None.

    Raises ConfigError if they cannot be read.
    """
    text = known_text(folder_name(place))
    return None if text is None else from_document(json.loads(text), layer=layer)


def keep_folder(place: Path, file: HookFile) -> None:
    """Keep the accepted hooks of a folder; does nothing for a single file, whose text is kept."""
    if place.is_dir():
        note_text(folder_name(place), json.dumps(to_document(file)))


def repository(path: Path) -> str:
    """The root of the repository around a file's real path; empty if there is none below the home directory."""
    home = os.path.realpath(os.path.expanduser("~"))
    for folder in Path(os.path.realpath(path)).parents:
        if str(folder) == home:
            return ""
        if os.path.lexists(folder / ".git"):
            return str(folder)
    return ""


def _text_digest(path: Path) -> str:
    return hashlib.sha256(read_file(path).encode("utf-8", "surrogatepass")).hexdigest()


def _pins(hook: Hook, place: Path) -> dict[str, str]:
    inside = place / "x" if place.is_dir() else place
    return {name: script_digest(name) for name in named_files(hook, repository(inside) or str(inside.parent))}


def _needs_other_file(name: str, why: str) -> ConfigError:
    return ConfigError(f"it needs {name}, {why}", hint="import it into the project's own file")
