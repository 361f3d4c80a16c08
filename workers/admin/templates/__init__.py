"""Installs templates: copies the files that one brings, and adds its entry to a hook file (F-14, G-21, I-11)."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bus.config.documents import load, loads, read_file
from bus.config.edit_add import with_entry
from bus.config.edit_change import with_values
from bus.errors import ConfigError
from bus.hooksets.hookfile import parse_hook_file
from bus.hooksets.templates import Template, names_in
from workers.admin.endpoint_edit import Edited
from workers.admin.plugins.imports import checked_plugin, file_with_plugin

_PACKED: Final = Path(__file__).parent / "files"
_FILES: Final = _PACKED if _PACKED.is_dir() else Path(__file__).parents[3] / "examples" / "templates"
"""In an installed package they are packed beside this file; in the repository they are among the examples."""
_SKIPPED: Final = shutil.ignore_patterns("__pycache__")


def is_installed(template: Template, path: Path) -> bool:
    """Whether a hook file has the template's entry."""
    return path.exists() and (template.section, template.key) in names_in(load(path).value)


@contextmanager
def copied_files(template: Template, path: Path) -> Iterator[list[Path]]:
    """The files that a template brings, copied beside the hook file; taken away again where the block clears the list.

    Raises ConfigError where another file has the place.
    """
    made: list[Path] = []
    if template.file:
        source, target = _FILES / Path(template.file).name, path.parent / template.file
        if not os.path.lexists(target):
            _copy(source, target)
            made.append(target)
        elif not _same(source, target):
            hint = "move it away, or edit it: `templates install` overwrites nothing"
            raise ConfigError(
                f"the template {template.name!r} brings another file of this name", file=str(target), hint=hint
            )
    kept = list(made)
    try:
        yield kept
    except BaseException:
        kept.clear()
        raise
    finally:
        for target in made:
            if target not in kept:
                shutil.rmtree(target) if target.is_dir() else target.unlink()


def file_with_template(path: Path, template: Template, url: str = "", *, thin: bool = False) -> Edited:
    """The hook file with a template's entry, whose own files are there. Raises ConfigError.

    `url` is that of an endpoint, and `thin` its payload.
    """
    before = read_file(path) if path.exists() else ""
    if template.section == "import":
        plugin, dialect = checked_plugin(path.parent / template.file, template.entry["dialect"])
        return file_with_plugin(path, "user", plugin, dialect)
    if template.section == "plugins":
        after = _with_plugin(before, path, template)
    else:
        entry, block = template.entry, template.block
        if "url" in entry:
            entry, block = {**entry, "url": url}, block.replace("url: URL\n", f"url: {_quoted(url)}\n")
        if thin:
            entry, block = {**entry, "payload": "thin"}, block.replace("payload: full\n", "payload: thin\n")
        after = with_entry(before, str(path), template.section, entry, block)
    known = {problem.message for problem in parse_hook_file(before, "user", file=str(path)).problems}
    read = parse_hook_file(after, "user", file=str(path))
    for problem in read.problems:
        if problem.message not in known:
            raise problem
    return Edited(path, before, after, read)


def _with_plugin(text: str, path: Path, template: Template) -> str:
    """The text with the plugin's entry; as it is written in the template where the file has no plugins yet."""
    whole: Any = loads(text, file=str(path)).value
    document: dict[str, Any] = whole if isinstance(whole, dict) else {}
    plugins = document.get("plugins")
    if isinstance(plugins, dict):
        return with_values(text, str(path), ("plugins",), {**plugins, template.name: template.entry})
    if text.lstrip().startswith("{") or "plugins" in document:
        return with_values(text, str(path), (), {**document, "plugins": {template.name: template.entry}})
    apart = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{apart}plugins:\n{template.block}"


def _quoted(url: str) -> str:
    import json

    return json.dumps(url)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder in one step, so that a worker never reads half of it; for this user only."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".template-") as folder:
        part = Path(folder, target.name)
        if source.is_dir():
            shutil.copytree(source, part, ignore=_SKIPPED)
        else:
            shutil.copyfile(source, part)
        part.chmod(0o700 if source.is_dir() else 0o600)
        os.replace(part, target)


def _same(source: Path, target: Path) -> bool:
    if source.is_file():
        return target.is_file() and filecmp.cmp(source, target, shallow=False)
    files = [
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    return all((target / path).is_file() and filecmp.cmp(source / path, target / path, shallow=False) for path in files)
