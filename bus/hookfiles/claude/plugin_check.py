"""Everything that is wrong with a plugin: its manifest, its hooks, and the files that it is made of (I-05, I-09)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bus.config.documents import load, recording_files
from bus.config.hook_file_value import HookFile
from bus.errors import ConfigError
from bus.hookfiles.claude.manifest import check_json, check_manifest
from bus.hookfiles.claude.plugins import MANIFEST, ClaudePlugin, Item, is_plugin, plugin_contents
from bus.hookfiles.claude.reading import read

_ROOT_FOLDERS: Final = ("commands", "agents", "skills", "hooks", "output-styles")


@dataclass(frozen=True, slots=True)
class CheckedPlugin:
    """A plugin with its hooks and everything that was found; with `problems`, Claude Code would not load it whole."""

    contents: ClaudePlugin
    file: HookFile
    problems: tuple[ConfigError, ...]
    warnings: tuple[str, ...]


def check_plugin(root: Path, dialect: str) -> CheckedPlugin:
    """Read and check a plugin's folder as Claude Code's or ion's; raises ConfigError if there is no such folder."""
    with recording_files() as files:
        contents = plugin_contents(root, single_files=dialect == "ion")
        hooks = read(Path(contents.root), "user", dialect) if is_plugin(Path(contents.root)) else HookFile()
    texts = list(filter(None, (check_json(file) for file in files if file.endswith(".json") and os.path.isfile(file))))
    broken = {error.file for error in texts if not _is_readable(error.file)}  # said once, in the words of JSON
    problems = [*texts, *(found for found in (*contents.problems, *hooks.problems) if found.file not in broken)]
    warnings = [*contents.warnings, *hooks.warnings]
    manifest = Path(contents.root) / MANIFEST
    if manifest.is_file():
        try:
            found = check_manifest(load(manifest))
        except ConfigError:
            pass  # it cannot be parsed, which the contents report
        else:
            problems += found.problems
            warnings += found.warnings
    else:
        warnings.append(f'{contents.root}: there is no {MANIFEST}; write {{"name": "{contents.slug}"}} there')
    warnings += _advice(contents)
    unique = {(problem.file, problem.line, problem.column, problem.path): problem for problem in problems}
    return CheckedPlugin(contents, hooks, tuple(unique.values()), tuple(dict.fromkeys(warnings)))


def _is_readable(file: str) -> bool:
    try:
        load(Path(file))
    except ConfigError:
        return False
    return True


def _advice(plugin: ClaudePlugin) -> Iterator[str]:
    """What works here and is probably not meant so."""
    for name in _ROOT_FOLDERS:
        if (Path(plugin.root) / MANIFEST.parent / name).is_dir():
            yield f"{plugin.root}/{MANIFEST.parent}/{name}: it is not read there; move it to {plugin.root}/{name}"
    described: tuple[tuple[str, tuple[Item, ...]], ...] = (("skill", plugin.skills), ("agent", plugin.agents))
    for kind, items in described:
        for item in items:
            if not item.description:
                yield f"{item.file}: the {kind} {item.name[:64]!r} has no description; agents choose it by that"
