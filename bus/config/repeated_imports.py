"""Files that two imports of one hook file read: a folder, and a file in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from bus.config.hook_file_value import HookFile


def without_repeated(file: HookFile, seen: dict[str, str], origin: str) -> HookFile:
    """The imported file without what an earlier import has read already; `seen` has each file's import, and grows.

    Gobby's folder has its config.yaml, and people import both: without this, each of its hooks would run twice.
    """
    again = {path: first for path in _files(file) if (first := seen.get(path)) is not None}
    for path in _files(file):
        seen.setdefault(path, origin)
    if not again:
        return file
    plugins = {plugin.name for plugin in file.plugins if _file(plugin.origin) in again}
    hooks = (
        hook for hook in file.hooks if (hook.plugin not in plugins if hook.plugin else _file(hook.origin) not in again)
    )
    text = "; ".join(f"{path} is imported twice, first in {first}" for path, first in again.items())
    return replace(
        file,
        hooks=tuple(hooks),
        endpoints=tuple(endpoint for endpoint in file.endpoints if _file(endpoint.origin) not in again),
        plugins=tuple(plugin for plugin in file.plugins if plugin.name not in plugins),
        problems=tuple(problem for problem in file.problems if os.path.realpath(problem.file) not in again),
        warnings=(
            *(warning for warning in file.warnings if not any(warning.startswith(f"{path}:") for path in again)),
            f"{origin}: {text}; its hooks run once",
        ),
    ).with_digest()


def _files(file: HookFile) -> Iterator[str]:
    """The files that the hooks, endpoints and plugins of an imported file are written in."""
    entries = [hook.origin for hook in file.hooks if not hook.plugin]
    entries += [endpoint.origin for endpoint in file.endpoints]
    entries += [plugin.origin for plugin in file.plugins]
    return iter(dict.fromkeys(_file(entry) for entry in entries if ":" in entry))


def _file(origin: str) -> str:
    return os.path.realpath(origin.rpartition(":")[0])
